"""AlterTopics by `KafkaAdmin`: which way is taken, what is read back, what is led back."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.embedded.net.api import WireClose
from kshunt.backend.embedded.net.server import Handler, RequestContext
from tests.support.embedded.listeners import ListeningCluster
from tests.support.native import (
    ALTER_REASSIGNMENTS,
    ALTER_TOPICS,
    BRIEF_S,
    CREATE_PARTITIONS,
    METADATA,
    NOT_CONTROLLER,
    TIMEOUT_S,
    UNSUPPORTED_VERSION,
    administered,
    hang_up,
    refusing,
    stay_silent,
    ways,
)

TOPIC_FORBIDDEN, CLUSTER_FORBIDDEN, NO_BROKER = 29, 31, 39
NOWHERE = 99
MORE = AlteredTopic(3, 3)
"""Of topic t, which has two partitions with two replicas."""
ELSEWHERE = AlteredTopic(assignments={0: [3, 4], 1: [4, 1]})


async def alter(
    admin: Reached, wanted: AlteredTopic = MORE, *, timeout_s: float = TIMEOUT_S, **more: Any
) -> ItemResult:
    asked = {"validate_only": False, **more}
    return (await admin.alterations.alter({"t": wanted}, timeout_s=timeout_s, **asked))["t"]


def replicas_of(cluster: ListeningCluster, topic: str = "t") -> Mapping[int, Sequence[int]]:
    """Where each partition is, or is on its way to."""
    found = cluster.image.topic(topic)
    assert found is not None
    return {number: tuple(partition.target) for number, partition in found.partitions.items()}


def lengths(cluster: ListeningCluster) -> list[int]:
    return [len(set(replicas)) for replicas in replicas_of(cluster).values()]


@pytest.mark.conforms("kip-179-early-draft:alter-started")
@pytest.mark.parametrize(
    ("native", "way"),
    [(True, [ALTER_TOPICS]), (False, [CREATE_PARTITIONS, ALTER_REASSIGNMENTS])],
    ids=["native", "composed"],
)
async def test_the_clusters_own_call_is_used_where_there_is_one(
    native: bool, way: list[int]
) -> None:
    async with administered(native=native) as (cluster, admin):
        assert (await alter(admin, validate_only=True)).ok
        assert ways(cluster) == [CREATE_PARTITIONS]
        assert lengths(cluster) == [2, 2]
        cluster.asked.clear()
        assert (await alter(admin, AlteredTopic(2, 2))).ok
        assert ways(cluster) == []
        assert (await alter(admin)).ok
        assert ways(cluster) == way
        assert lengths(cluster) == [3, 3, 3]


@pytest.mark.parametrize(
    "served",
    [refusing(UNSUPPORTED_VERSION), refusing(NOT_CONTROLLER), hang_up],
    ids=["unsupported", "another controller", "closed"],
)
async def test_a_call_that_is_not_served_is_composed_and_the_log_says_so(
    served: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    async with administered() as (cluster, admin):
        cluster.instead[ALTER_TOPICS] = served
        with caplog.at_level(logging.WARNING, "kshunt.backend.admin"):
            assert (await alter(admin)).ok
        assert "AlterTopics is advertised but not served" in caplog.text
        assert lengths(cluster) == [3, 3, 3]


@pytest.mark.parametrize(
    ("lost", "wanted"),
    [
        (ALTER_TOPICS, MORE),
        (ALTER_TOPICS, ELSEWHERE),
        (CREATE_PARTITIONS, MORE),
        (ALTER_REASSIGNMENTS, MORE),
        (ALTER_REASSIGNMENTS, ELSEWHERE),
    ],
)
async def test_what_was_done_is_seen_though_its_answer_was_lost(
    lost: int, wanted: AlteredTopic
) -> None:
    async with administered(native=lost == ALTER_TOPICS) as (cluster, admin):

        async def done_in_silence(context: RequestContext, message: Any) -> Any:
            await cluster.own[lost](context, message)
            raise WireClose("as a test wants it")

        cluster.instead[lost] = done_in_silence
        assert (await alter(admin, wanted)).ok
        assert all(cluster.asked.count(key) == 1 for key in ways(cluster))
        if wanted is ELSEWHERE:
            assert replicas_of(cluster) == {0: (3, 4), 1: (4, 1)}
        else:
            assert lengths(cluster) == [3, 3, 3]


@pytest.mark.parametrize("silent", [ALTER_TOPICS, CREATE_PARTITIONS, ALTER_REASSIGNMENTS])
async def test_what_is_not_answered_in_time_is_not_done_in_another_way(silent: int) -> None:
    async with administered(native=silent == ALTER_TOPICS) as (cluster, admin):
        # Connections and versions are there; only this call is slow.
        await alter(admin, AlteredTopic(2, 2))
        cluster.instead[silent] = stay_silent
        wanted = ELSEWHERE if silent == ALTER_REASSIGNMENTS else MORE
        result = await alter(admin, wanted, timeout_s=BRIEF_S)
        assert not result.ok
        assert result.retriable
        assert ways(cluster) == [silent]
        assert replicas_of(cluster) == {0: (1, 2), 1: (2, 3)}


async def test_what_cannot_be_read_back_is_not_known() -> None:
    async with administered() as (cluster, admin):

        async def last_words(context: RequestContext, message: Any) -> Any:
            cluster.instead[METADATA] = hang_up
            raise WireClose("as a test wants it")

        cluster.instead[ALTER_TOPICS] = last_words
        result = await alter(admin)
        assert "whether it began is unknown" in result.message
        assert ways(cluster) == [ALTER_TOPICS]


@pytest.mark.conforms("kip-179-early-draft:alter-whole-topic")
async def test_a_topic_that_is_refused_in_part_is_led_back_and_another_goes_on() -> None:
    async with administered(native=False) as (cluster, admin):
        cluster.create("u", [1, 2])
        asked: list[Any] = []

        async def misread(context: RequestContext, message: Any) -> Any:
            # A broker leaves the cluster between our reading and our request.
            for topic in message.topics if not asked else ():
                if topic.name == "t":
                    topic.partitions[1].replicas = [NOWHERE]
            asked.append(message)
            return await cluster.own[ALTER_REASSIGNMENTS](context, message)

        cluster.instead[ALTER_REASSIGNMENTS] = misread
        results = await admin.alterations.alter(
            {"t": ELSEWHERE, "u": AlteredTopic(-1, 1)}, validate_only=False, timeout_s=TIMEOUT_S
        )
        assert results["t"].error_code == NO_BROKER
        assert results["u"].ok
        assert replicas_of(cluster) == {0: (1, 2), 1: (2, 3)}
        assert replicas_of(cluster, "u") == {0: (1,)}
        assert len(asked) == 2


async def test_what_cannot_be_led_back_is_said() -> None:
    async with administered(native=False) as (cluster, admin):
        asked: list[Any] = []

        async def once(context: RequestContext, message: Any) -> Any:
            if asked:
                raise WireClose("as a test wants it")
            asked.append(message)
            message.topics[0].partitions[1].replicas = [NOWHERE]
            return await cluster.own[ALTER_REASSIGNMENTS](context, message)

        cluster.instead[ALTER_REASSIGNMENTS] = once
        result = await alter(admin, ELSEWHERE)
        assert result.error_code == NO_BROKER
        assert result.message.endswith("; still moving: t-0")


async def test_partitions_that_were_added_before_a_refusal_are_named() -> None:
    async with administered(native=False) as (cluster, admin):
        cluster.instead[ALTER_REASSIGNMENTS] = refusing(CLUSTER_FORBIDDEN)
        result = await alter(admin)
        assert result.error_name == "CLUSTER_AUTHORIZATION_FAILED"
        assert result.message.endswith("the 1 partitions that were added remain")
        assert lengths(cluster) == [2, 2, 2]


@pytest.mark.conforms("kip-179-early-draft:authorize-alter", "kip-179-early-draft:alter-error-31")
@pytest.mark.parametrize(
    ("native", "refused", "code"),
    [
        (True, ALTER_TOPICS, CLUSTER_FORBIDDEN),
        (False, ALTER_REASSIGNMENTS, CLUSTER_FORBIDDEN),
        (False, CREATE_PARTITIONS, TOPIC_FORBIDDEN),
    ],
)
async def test_who_may_not_alter_is_told_so_by_one_code(
    native: bool, refused: int, code: int
) -> None:
    async with administered(native=native) as (cluster, admin):
        cluster.instead[refused] = refusing(code)
        wanted = ELSEWHERE if refused == ALTER_REASSIGNMENTS else AlteredTopic(3)
        assert (await alter(admin, wanted)).error_name == "CLUSTER_AUTHORIZATION_FAILED"
        assert replicas_of(cluster) == {0: (1, 2), 1: (2, 3)}
        if refused == CREATE_PARTITIONS:
            checked = await alter(admin, wanted, validate_only=True)
            assert checked.error_name == "CLUSTER_AUTHORIZATION_FAILED"


async def test_a_validation_that_is_not_answered_says_so() -> None:
    async with administered() as (cluster, admin):
        await alter(admin, AlteredTopic(2, 2))
        cluster.instead[CREATE_PARTITIONS] = stay_silent
        assert (await alter(admin, validate_only=True, timeout_s=BRIEF_S)).retriable
