"""What a topic is configured with: from the cluster to the client."""

from __future__ import annotations

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.errors import BackendError, ClusterUnreachable
from tests.support.native import DESCRIBE_CONFIGS, TIMEOUT_S, administered, hang_up
from tests.support.topics import create_topic


async def test_a_topics_own_settings_are_told_from_what_it_inherits() -> None:
    async with administered() as (cluster, admin):
        cluster.create("strict", [1, 2], min_insync_replicas="2")
        found = await admin.configs.describe("strict", timeout_s=TIMEOUT_S)
        assert found is not None
        by_name = {one.name: one for one in found}
        assert [one.name for one in found] == sorted(by_name)
        own = by_name["min.insync.replicas"]
        assert (own.value, own.source, own.is_default) == ("2", "DYNAMIC_TOPIC_CONFIG", False)
        assert any(one.is_default for one in found)


async def test_a_topic_that_is_not_there_has_none() -> None:
    async with administered() as (_, admin):
        assert await admin.configs.describe("nosuch", timeout_s=TIMEOUT_S) is None
        assert await admin.configs.describe("no such!", timeout_s=TIMEOUT_S) is None


async def test_a_cluster_that_does_not_answer_is_unreachable() -> None:
    async with administered() as (cluster, admin):
        cluster.instead[DESCRIBE_CONFIGS] = hang_up
        with pytest.raises(ClusterUnreachable):
            await admin.configs.describe("t", timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "orders", [[1], [2]])
    return bootstrap


def test_the_client_reads_what_the_route_says(client: BackendClient) -> None:
    found = {one.name: one for one in client.topics.configs("orders")}
    assert found["min.insync.replicas"].value == "1"
    assert found["min.insync.replicas"].is_default


@pytest.mark.parametrize(
    "topic", ["nosuch", "a/../b", "x" * 249, "..", "%2e", "é", "\x00", "a b", "💥"]
)
def test_an_unknown_topic_is_a_problem_of_its_own(client: BackendClient, topic: str) -> None:
    with pytest.raises(BackendError) as refusal:
        client.topics.configs(topic)
    # A name that means two things in a path is refused before a route is looked for.
    assert refusal.value.status in (400, 404, 405)
    assert refusal.value.message
