"""The check before a shrink, from a cluster to the client of a backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.shrink.check import CommittedOffset, KeyUse, Severity
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BackendError
from tests.support.embedded.background import Running, running
from tests.support.serving import serving
from tests.support.shrink.check import commit, write
from tests.support.topics import create_topic


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    with running(ClusterSpec(plain_brokers(3))) as handle:
        servers = handle.bootstrap_servers
        create_topic(servers, "orders", [[1, 2], [2, 3], [3, 1]])
        write(servers, "orders", dict.fromkeys(range(3), 5))
        commit(servers, "readers", "orders", {0: 5, 1: 5, 2: 1})
        yield handle


@pytest.fixture(scope="module")
def client(cluster: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackendClient]:
    folder = tmp_path_factory.mktemp("shrink-check")
    with serving(cluster.bootstrap_servers, folder) as address, BackendClient(address) as found:
        yield found


def test_the_client_reads_what_the_route_says(client: BackendClient) -> None:
    check = client.shrinks.check("orders", 2)
    assert (check.topic, check.current, check.wanted) == ("orders", 3, 2)
    assert not check.refusals()
    (doomed,) = check.partitions
    assert (doomed.number, doomed.records, doomed.log_end_offset) == (2, 5, 5)
    (group,) = check.groups
    assert (group.name, group.unread_doomed) == ("readers", 4)
    assert CommittedOffset(2, 1) in group.committed
    assert check.keys is KeyUse.ALL
    assert check.watched_ms >= 1_000


def test_how_long_a_copy_takes_depends_on_the_rate_that_is_asked_for(
    client: BackendClient,
) -> None:
    quick = client.shrinks.check("orders", 1, copy_rate_bytes_per_s=10**9)
    slow = client.shrinks.check("orders", 1, copy_rate_bytes_per_s=1_024)
    assert quick.copy_ms is not None
    assert slow.copy_ms is not None
    assert quick.copy_ms < slow.copy_ms


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 3, 2**31 - 1])
def test_a_senseless_count_is_a_finding(client: BackendClient, count: int) -> None:
    check = client.shrinks.check("orders", count)
    (refusal,) = check.refusals()
    assert refusal.severity is Severity.REFUSE
    assert refusal.code.startswith("count-")


@pytest.mark.parametrize("topic", ["nosuch", "x" * 249, "..", "é", "a b", "💥"])
def test_an_unknown_topic_is_a_problem_of_its_own(client: BackendClient, topic: str) -> None:
    with pytest.raises(BackendError) as refusal:
        client.shrinks.check(topic, 1)
    assert refusal.value.status in (404, 405)


def test_a_name_with_a_slash_is_no_part_of_a_path(client: BackendClient) -> None:
    with pytest.raises(BackendError, match="an escape for a dot, a slash") as refusal:
        client.shrinks.check("a/b", 1)
    assert refusal.value.status == 400


@pytest.mark.parametrize("asked", ["", "partitions=x", "partitions=99999999999", "partitions=1.5"])
def test_what_is_no_number_is_refused(client: BackendClient, asked: str) -> None:
    found = client.sender.exchange("GET", f"/v1/topics/orders/shrink?{asked}", endless=False)
    assert found.status == 400


def test_nothing_is_recorded_and_nothing_changed(client: BackendClient) -> None:
    before = client.topics.describe(["orders"])
    client.shrinks.check("orders", 1)
    assert client.operations.list() == ()
    assert client.topics.describe(["orders"]) == before
