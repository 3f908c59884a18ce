"""The check before a shrink, from a cluster to the client of a backend."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.shrink.check import CommittedOffset, KeyUse, Severity
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.domain.topics.partitioners import KeyPlacing, Partitioner
from kshunt.backend.errors import BackendError
from tests.support.shrink.check import commit, write
from tests.support.topics import create_topic

DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "orders", [[1, 2], [2, 3], [3, 1]])
    write(bootstrap, "orders", dict.fromkeys(range(3), 5))
    commit(bootstrap, "readers", "orders", {0: 5, 1: 5, 2: 1})
    return bootstrap


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


def keyed(servers: str, topic: str, partitioner: str | None, first: int) -> None:
    """Sixty records with keys of their own, by a real client."""
    settings = {} if partitioner is None else {"partitioner": partitioner}
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, **settings})
    for number in range(first, first + 60):
        producer.produce(topic, b"v", b"customer-%d" % number)
    assert producer.flush(DEADLINE_S) == 0


def test_the_partitioner_of_real_clients_is_found_and_several_need_a_choice(
    bootstrap: str, client: BackendClient
) -> None:
    change = Change(validate_only=True)
    create_topic(bootstrap, "customers", [[1 + n % 3] for n in range(6)])
    keyed(bootstrap, "customers", None, 0)
    check = client.shrinks.check("customers", 2)
    assert (check.placing, check.partitioner) == (KeyPlacing.ONE, Partitioner.CRC32)
    assert check.distinct_keys == 60
    hits = {one.partitioner: one.keys for one in check.partitioners}
    assert hits[Partitioner.CRC32] == 60 > hits[Partitioner.MURMUR2]
    request = ShrinkRequest("customers", 2, 0)
    assert "It places keys by crc32." in client.shrinks.start(request, change).notes
    keyed(bootstrap, "customers", "murmur2_random", 60)
    check = client.shrinks.check("customers", 2)
    assert check.placing is KeyPlacing.MIXED
    assert [one.code for one in check.refusals()] == ["mixed-keys"]
    with pytest.raises(BackendError, match="follow several partitioners") as refused:
        client.shrinks.start(request, change)
    assert refused.value.status == 409
    chosen = client.shrinks.check("customers", 2, partitioner=Partitioner.MURMUR2)
    assert not chosen.refusals()
    assert chosen.partitioner is Partitioner.MURMUR2
    answer = client.shrinks.start(replace(request, partitioner=Partitioner.MURMUR2), change)
    assert "It places keys by murmur2." in answer.notes
    path = "/v1/topics/customers/shrink?partitions=2&partitioner=md5"
    assert client.sender.exchange("GET", path, endless=False).status == 400


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
