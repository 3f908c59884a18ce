"""AlterTopics (KIP-179's early draft) on three clusters: what becomes of each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.wire import kip_requests
from tests.support.admin import (
    DEADLINE_S,
    TIMEOUT_S,
    nothing_moves,
    states_of,
    topic_with,
)
from tests.support.clusters import ContractCluster, differs
from tests.support.waiting import wait_until_async

NOWHERE = 99
"""No broker has this id."""
OK = "NONE"
NO_TOPIC = "INVALID_TOPIC_EXCEPTION"
PARTITIONS = "INVALID_PARTITIONS"
FACTOR = "INVALID_REPLICATION_FACTOR"
STRANGER = "UNKNOWN_MEMBER_ID"
ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"

REFUSED: Mapping[str, tuple[AlteredTopic, str]] = {
    "fewer partitions": (AlteredTopic(1), PARTITIONS),
    "no partitions": (AlteredTopic(0), PARTITIONS),
    "a negative count": (AlteredTopic(-2), PARTITIONS),
    "too many partitions": (AlteredTopic(10_003), PARTITIONS),
    "no number for the wire": (AlteredTopic(2**31, 3), PARTITIONS),
    "no replicas": (AlteredTopic(-1, 0), FACTOR),
    "a negative factor": (AlteredTopic(-1, -2), FACTOR),
    "more replicas than brokers": (AlteredTopic(-1, 4), FACTOR),
    "an unknown broker": (AlteredTopic(assignments={0: [1, NOWHERE]}), STRANGER),
    "an unknown broker of a new partition": (AlteredTopic(3, -1, {2: [NOWHERE, 1]}), STRANGER),
    "no such partition": (AlteredTopic(assignments={2: [1, 2]}), ASSIGNMENT),
    "a negative partition": (AlteredTopic(assignments={-1: [1, 2]}), ASSIGNMENT),
    "a partition beyond the count": (AlteredTopic(3, -1, {2: [1, 2], 3: [1, 2]}), ASSIGNMENT),
    "a new partition left out": (AlteredTopic(4, -1, {2: [1, 2]}), ASSIGNMENT),
    "a new partition with too few": (AlteredTopic(3, -1, {2: [1]}), ASSIGNMENT),
    "an old partition left out": (AlteredTopic(-1, 1, {0: [1]}), ASSIGNMENT),
    "other lists than the factor": (AlteredTopic(-1, 3, {0: [1, 2], 1: [2, 3]}), ASSIGNMENT),
    "a list that changes the factor": (AlteredTopic(assignments={0: [1, 2, 3]}), ASSIGNMENT),
    "an empty list": (AlteredTopic(assignments={0: []}), ASSIGNMENT),
    "a broker named twice": (AlteredTopic(assignments={0: [1, 1]}), ASSIGNMENT),
}
"""Requests for a topic of two partitions with two replicas, on three brokers."""

TAKEN: Mapping[str, tuple[AlteredTopic, Sequence[Sequence[int] | int]]] = {
    "no change": (AlteredTopic(), ([1, 2], [2, 3])),
    "no change, in numbers": (AlteredTopic(2, 2), ([1, 2], [2, 3])),
    "no change, in brokers": (AlteredTopic(assignments={1: [2, 3]}), ([1, 2], [2, 3])),
    "more partitions": (AlteredTopic(4), ([1, 2], [2, 3], 2, 2)),
    "more partitions, placed": (AlteredTopic(3, 2, {2: [3, 1]}), ([1, 2], [2, 3], [3, 1])),
    "more replicas": (AlteredTopic(-1, 3), ([1, 2, 3], [2, 3, 1])),
    "more replicas, placed": (
        AlteredTopic(-1, 3, {0: [3, 2, 1], 1: [2, 1, 3]}),
        ([3, 2, 1], [2, 1, 3]),
    ),
    "fewer replicas": (AlteredTopic(-1, 1), ([1], [2])),
    "elsewhere": (AlteredTopic(assignments={0: [3, 1]}), ([3, 1], [2, 3])),
    "another order": (AlteredTopic(assignments={1: [3, 2]}), ([1, 2], [3, 2])),
    "more of both": (AlteredTopic(3, 3), ([1, 2, 3], [2, 3, 1], 3)),
    "more and fewer": (AlteredTopic(4, 1), ([1], [2], 1, 1)),
    "more and fewer, placed": (
        AlteredTopic(3, 1, {0: [3], 1: [1], 2: [2]}),
        ([3], [1], [2]),
    ),
    "all at once": (
        AlteredTopic(3, 3, {0: [3, 2, 1], 1: [1, 2, 3], 2: [2, 3, 1]}),
        ([3, 2, 1], [1, 2, 3], [2, 3, 1]),
    ),
}
"""Requests for such a topic, and where its partitions are in the end: brokers, or how many where
the cluster chooses."""


async def alter(
    admin: Reached, topics: Mapping[str, AlteredTopic], *, validate_only: bool = False
) -> Mapping[str, ItemResult]:
    return await admin.alterations.alter(topics, validate_only=validate_only, timeout_s=TIMEOUT_S)


async def become(admin: Reached, topic: str, wanted: Sequence[Sequence[int] | int]) -> None:
    """Wait until a topic's partitions are there, and nothing of it moves."""

    async def there() -> bool:
        states = await states_of(admin, topic)
        return len(states) == len(wanted) and all(
            len(set(states[number].replicas)) == one
            if isinstance(one, int)
            else states[number].replicas == tuple(one)
            for number, one in enumerate(wanted)
        )

    await wait_until_async(there, DEADLINE_S, f"{topic} is on {wanted}")
    await nothing_moves(admin, topic)


@pytest.mark.conforms(
    "kip-179-early-draft:alter-by-topic",
    "kip-179-early-draft:alter-error-17",
    "kip-179-early-draft:alter-error-37",
    "kip-179-early-draft:alter-fewer",
    "kip-179-early-draft:alter-error-38",
    "kip-179-early-draft:alter-error-25",
    "kip-179-early-draft:alter-error-39",
)
async def test_each_mistake_has_the_drafts_code_and_changes_nothing(
    cluster: ContractCluster, admin: Reached
) -> None:
    version = await admin.cluster.highest_version(
        kip_requests.ALTER_TOPICS_KEY, timeout_s=TIMEOUT_S
    )
    assert (version >= 0) == differs("speaks the seeds", cluster)
    # All of them in one call: each is answered for itself.
    topics = {what: await topic_with(admin, "refused", [[1, 2], [2, 3]]) for what in REFUSED}
    asked = {topics[what]: wanted for what, (wanted, _) in REFUSED.items()}
    codes = {topics[what]: code for what, (_, code) in REFUSED.items()}
    sound = await topic_with(admin, "sound", [[1, 2], [2, 3]])
    asked |= {"no-such-topic": AlteredTopic(3), "no/topic": AlteredTopic(), sound: AlteredTopic(3)}
    codes |= {"no-such-topic": NO_TOPIC, "no/topic": NO_TOPIC, sound: OK}
    names = {topic: what for what, topic in topics.items()}
    for validate_only in (True, False):
        results = await alter(admin, asked, validate_only=validate_only)
        found = {topic: result.error_name for topic, result in results.items()}
        assert {names.get(t, t): found[t] for t in codes if found[t] != codes[t]} == {}
        assert all(result.ok or result.message for result in results.values())
    await become(admin, sound, ([1, 2], [2, 3], 2))
    for topic in topics.values():
        await become(admin, topic, ([1, 2], [2, 3]))


@pytest.mark.conforms("kip-179-early-draft:alter-topics", "kip-179-early-draft:alter-started")
async def test_each_request_leads_where_it_says(cluster: ContractCluster, admin: Reached) -> None:
    topics = {what: await topic_with(admin, "taken", [[1, 2], [2, 3]]) for what in TAKEN}
    asked = {topics[what]: wanted for what, (wanted, _) in TAKEN.items()}
    checked = await alter(admin, asked, validate_only=True)
    assert {result.error_name for result in checked.values()} == {OK}
    for topic in topics.values():
        await become(admin, topic, ([1, 2], [2, 3]))
    results = await alter(admin, asked)
    assert list(results) == list(asked)
    assert {topic: r for topic, r in results.items() if not r.ok} == {}
    for what, (_, wanted) in TAKEN.items():
        await become(admin, topics[what], wanted)


@pytest.mark.conforms("kip-179-early-draft:alter-in-progress")
async def test_what_moves_is_not_altered(cluster: ContractCluster, admin: Reached) -> None:
    topic = await topic_with(admin, "moving", [[1], [2]], records=20_000)
    moving = TopicPartition(topic, 0)
    options = ReassignOptions(throttle_bytes_per_s=100_000)
    assert (await admin.reassignments.reassign({moving: [2]}, options, {})).results[moving].ok

    async def answer(wanted: AlteredTopic) -> str:
        return (await alter(admin, {topic: wanted}))[topic].error_name

    for wanted in (
        AlteredTopic(assignments={0: [3]}),
        AlteredTopic(-1, 2),
        AlteredTopic(3),
        AlteredTopic(3, -1, {2: [3]}),
    ):
        assert await answer(wanted) == "REASSIGNMENT_IN_PROGRESS"
    # What it moves to is what it has.
    assert await answer(AlteredTopic(2, 1, {0: [2], 1: [2]})) == OK
    assert await answer(AlteredTopic(assignments={1: [3]})) == OK
    ongoing = await admin.reassignments.ongoing(timeout_s=TIMEOUT_S)
    assert ongoing[moving].target == (2,)
    await admin.reassignments.alter({moving: None}, timeout_s=TIMEOUT_S)
    await become(admin, topic, ([1], [3]))


@pytest.mark.conforms("kip-179-early-draft:alter-automatic")
async def test_replicas_are_spread_over_the_brokers_that_have_none(admin: Reached) -> None:
    topic = await topic_with(admin, "spread", [[1]] * 12)
    assert (await alter(admin, {topic: AlteredTopic(-1, 2)}))[topic].ok
    await become(admin, topic, [2] * 12)
    states = await states_of(admin, topic)
    assert all(state.replicas[0] == 1 for state in states.values())
    assert {state.replicas[1] for state in states.values()} == {2, 3}


async def test_no_topic_is_no_question(admin: Reached) -> None:
    assert await alter(admin, {}) == {}
