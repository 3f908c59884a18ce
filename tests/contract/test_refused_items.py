"""Mistakes are answered item by item, in the seeds' codes, on the four clusters alike."""

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import UNTHROTTLED, ThrottledRate
from tests.support.admin import (
    NO_RATE,
    NOWHERE,
    TIMEOUT_S,
    lists,
    replicas_become,
    topic_with,
)
from tests.support.clusters import EVERY, ContractCluster, flavours

# Also Kafka that is reached through ZooKeeper.
pytestmark = pytest.mark.parametrize("cluster", flavours(EVERY), indirect=True, scope="module")

RATE = 2_000_000


@pytest.mark.conforms("kip-179:results-by-partition", "kip-179:replicas-validated")
async def test_a_mistake_in_a_plan_or_a_throttle_is_answered_for_itself(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "each", [[1, 2], [1, 2]])
    sound, stranger, absent = (TopicPartition(topic, number) for number in (0, 1, 9))
    plan = {absent: [1], sound: [2, 1], stranger: [1, NOWHERE]}
    outcome = await admin.reassignments.reassign(plan, ReassignOptions(), {})
    assert {p: r.error_name for p, r in outcome.results.items()} == {
        absent: "UNKNOWN_TOPIC_OR_PARTITION",
        sound: "NONE",
        stranger: "INVALID_REPLICA_ASSIGNMENT",
    }
    await replicas_become(admin, sound, (2, 1))
    for pair, name in (
        (f"0:{NOWHERE}", "BROKER_NOT_AVAILABLE"),
        ("9:1", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("0:9999999999", "BROKER_NOT_AVAILABLE"),
    ):
        for only in (True, False):
            found = await admin.throttles.alter_replicas(
                {topic: lists(pair, "")}, validate_only=only, timeout_s=TIMEOUT_S
            )
            assert found[topic].error_name == name
    slow = {1: ThrottledRate(5, None), 2: ThrottledRate(RATE, UNTHROTTLED)}
    rates = await admin.throttles.alter_rates(slow, validate_only=False, timeout_s=TIMEOUT_S)
    assert {b: r.error_name for b, r in rates.items()} == {1: "INVALID_REQUEST", 2: "NONE"}
    read = await admin.throttles.describe([1, 2], [topic], timeout_s=TIMEOUT_S)
    assert read.replicas == {}
    assert [read.rates[b].rate for b in (1, 2)] == [NO_RATE, ThrottledRate(RATE, None)]


@pytest.mark.conforms("kip-179-early-draft:status-error-17", "kip-179-early-draft:status-error-37")
async def test_the_lag_of_what_does_not_exist_is_unknown(admin: Reached) -> None:
    """The draft tells a topic that does not exist from a partition that does not."""
    there = await topic_with(admin, "there", [[1]])
    asked = [TopicPartition("no-such-topic", 0), TopicPartition(there, 7)]
    found = await admin.replicas.status(asked, timeout_s=TIMEOUT_S)
    assert [(one.partition, one.result.error_name) for one in found] == [
        (asked[0], "INVALID_TOPIC_EXCEPTION"),
        (asked[1], "INVALID_PARTITIONS"),
    ]
    assert {(one.lag_messages, one.status_ms, one.in_isr) for one in found} == {(-1, -1, False)}
