"""Partitions are deleted by `KafkaAdmin`, where the cluster can (KIP-694); elsewhere it says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.kips.partition_deletion import Partitions, Shrink, decided
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.shrink.delete_partitions import (
    DELAY_MS_MAX,
    NO_PARTITION,
    DeletedPartition,
    DeletePartitions,
    ShrinkSupport,
)
from kshunt.backend.embedded.net.server import RequestContext
from kshunt.backend.errors import Conflict
from kshunt.backend.wire import kip_requests
from tests.support.native import (
    T0,
    T1,
    TIMEOUT_S,
    administered,
    enable,
    hang_up,
    refusing,
    stay_silent,
)

DELETE = kip_requests.DELETE_PARTITIONS_KEY
RW, RO, NONE = PartitionMode.READ_WRITE, PartitionMode.READ_ONLY, PartitionMode.NONE
KEPT, LATER, NOW = DeletedPartition(RW), DeletedPartition(RO), DeletedPartition(NONE)
LIST_REASSIGNMENTS, CLUSTER_FORBIDDEN = 46, 31
NO_TOPIC, INTERNAL, PARTITIONS, INVALID, MOVING = 3, 17, 37, 42, 60


async def shrink(
    admin: Reached,
    topics: Mapping[str, DeletePartitions],
    *,
    validate_only: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Mapping[TopicPartition, DeletedPartition]:
    return await admin.partition_deletions.delete(
        topics, validate_only=validate_only, timeout_s=timeout_s
    )


@pytest.mark.conforms("kip-694:errors")
@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (DeletePartitions(0), PARTITIONS),
        (DeletePartitions(-1), PARTITIONS),
        (DeletePartitions(4), PARTITIONS),
        (DeletePartitions(5), PARTITIONS),
        (DeletePartitions(2, -1), INVALID),
        (DeletePartitions(2, DELAY_MS_MAX + 1), INVALID),
    ],
)
def test_what_cannot_be_meant_is_refused(wanted: DeletePartitions, code: int) -> None:
    found = decided("t", wanted, Partitions(dict.fromkeys(range(4), RW), ()), 0)
    assert isinstance(found, tuple)
    number, refusal = found
    assert (number, refusal.error_code, refusal.mode) == (NO_PARTITION, code, RW)
    assert refusal.message


def test_a_topic_that_cannot_shrink_says_why() -> None:
    two = Partitions({0: RW, 1: RW}, {0})
    assert isinstance(decided("t", DeletePartitions(1), two, 0), Shrink), "only what stays moves"
    for topic, present, number, code in (
        ("t", Partitions({}, ()), NO_PARTITION, NO_TOPIC),
        ("__consumer_offsets", Partitions({0: RW, 1: RW}, ()), NO_PARTITION, INTERNAL),
        ("t", Partitions({0: RW, 1: RW}, {1}), 1, MOVING),
    ):
        found = decided(topic, DeletePartitions(1), present, 0)
        assert isinstance(found, tuple)
        assert (found[0], found[1].error_code) == (number, code)


@pytest.mark.conforms("kip-694:taking-back")
def test_what_is_kept_and_was_to_go_stays() -> None:
    present = Partitions({0: RW, 1: RO, 2: RO, 3: RO, 4: NONE}, (), {1: 500, 2: 900, 3: 700})
    assert decided("t", DeletePartitions(2, 9), present, 0) == Shrink([2, 3], [1], RO, 9)
    assert decided("t", DeletePartitions(4), present, 0) == Shrink([], [1, 2, 3], NONE)
    assert decided("t", DeletePartitions(3, 0), present, 0) == Shrink([3], [1, 2], NONE)
    assert isinstance(decided("t", DeletePartitions(5), present, 0), tuple), "4 is on its way out"


def test_a_promised_delay_is_not_shortened_by_a_request_without_one() -> None:
    present = Partitions({0: RW, 1: RW, 2: RO, 3: RO}, (), {2: 500, 3: 900})
    # Nothing is left to ask for.
    assert decided("t", DeletePartitions(2), present, 100) == Shrink([2, 3], [], RO, asks=False)
    # The RPC sets the delay of all anew: the longest of them, for those that go now, too.
    assert decided("t", DeletePartitions(1), present, 100) == Shrink([1, 2, 3], [], RO, 800)
    assert decided("t", DeletePartitions(3), present, 100) == Shrink([3], [2], RO, 800)
    # What is over is over, and still goes by the cluster's own look.
    assert decided("t", DeletePartitions(1), present, 1_000) == Shrink([1, 2, 3], [], RO, 1)
    # An explicit delay is taken as it is.
    assert decided("t", DeletePartitions(2, 0), present, 100) == Shrink([2, 3], [], NONE)
    assert decided("t", DeletePartitions(2, 5), present, 100) == Shrink([2, 3], [], RO, 5)
    unknown = Partitions(present.modes, (), {2: 500})
    assert isinstance(decided("t", DeletePartitions(2), unknown, 100), Shrink)
    refused = decided("t", DeletePartitions(1), unknown, 100)
    assert isinstance(refused, tuple)
    assert refused[1].error_code == INVALID


async def test_a_later_request_without_a_delay_leaves_the_promised_one() -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        await shrink(admin, {"t": DeletePartitions(1, 60_000)})
        promised = cluster.at("t", 1).deletion
        cluster.pass_s(5)
        cluster.asked.clear()
        for validate_only in (True, False):
            found = await shrink(admin, {"t": DeletePartitions(1)}, validate_only=validate_only)
            assert found == {T1: LATER}
        assert DELETE not in cluster.asked
        assert cluster.at("t", 1).deletion == promised
        assert await shrink(admin, {"t": DeletePartitions(1, 0)}) == {T1: NOW}


@pytest.mark.conforms("kip-694:delete-partitions")
async def test_the_last_partition_is_readable_until_it_goes() -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        later = {"t": DeletePartitions(1, 60_000)}
        assert await shrink(admin, later, validate_only=True) == {T1: LATER}
        assert DELETE not in cluster.asked
        assert int(cluster.at("t", 1).mode) == RW
        assert await shrink(admin, later) == {T1: LATER}
        again = {"t": DeletePartitions(2), "none": DeletePartitions(1)}
        for validate_only in (True, False):
            results = await shrink(admin, again, validate_only=validate_only)
            assert results[T1] == KEPT
            assert results[TopicPartition("none", NO_PARTITION)].error_code == NO_TOPIC
        assert cluster.at("t", 1).deletion is None
        assert await shrink(admin, {"t": DeletePartitions(1)}) == {T1: NOW}
        described = await admin.topics.describe(
            ["t"], configs=False, min_isr=False, timeout_s=TIMEOUT_S
        )
        assert [one.mode for one in described.topics[0].partitions] == [RW, NONE]
        assert described.topics[0].changing
        cluster.pass_s(5)
        assert cluster.image.partition(*T1) is None
        kept = cluster.image.partition(*T0)
        assert kept is not None
        assert int(kept.mode) == RW


@pytest.mark.conforms("kip-694:immediate-delete")
async def test_each_delay_is_a_request_of_its_own() -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        cluster.create("u", [1], [1], [1])
        asked = {"t": DeletePartitions(1), "u": DeletePartitions(1, 60_000)}
        results = await shrink(admin, asked)
        u = [TopicPartition("u", number) for number in (1, 2)]
        assert results == {T1: NOW, u[0]: LATER, u[1]: LATER}
        assert cluster.asked.count(DELETE) == 2
        assert await shrink(admin, {}) == {}


async def test_a_cluster_that_does_not_delete_partitions_says_so() -> None:
    async with administered() as (cluster, admin):
        assert (
            await admin.partition_deletions.support(timeout_s=TIMEOUT_S) is ShrinkSupport.DISABLED
        )
        for validate_only in (True, False):
            with pytest.raises(Conflict, match="disabled"):
                await shrink(admin, {"t": DeletePartitions(1)}, validate_only=validate_only)
        enable(cluster)
        assert await admin.partition_deletions.support(timeout_s=TIMEOUT_S) is ShrinkSupport.ENABLED


@pytest.mark.parametrize("lost", [hang_up, stay_silent])
async def test_a_lost_answer_is_looked_for_in_the_cluster(lost: Any) -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        served = cluster.own[DELETE]

        async def last_words(context: RequestContext, message: Any) -> Any:
            await served(context, message)
            return await lost(context, message)

        cluster.instead[DELETE] = last_words
        wanted = {"t": DeletePartitions(1, 60_000)}
        assert await shrink(admin, wanted, timeout_s=1.0) == {T1: LATER}
        cluster.instead[DELETE] = lost
        results = await shrink(admin, {"t": DeletePartitions(2)}, timeout_s=1.0)
        assert not results[T1].ok
        assert results[T1].mode is RO, "it is as it was"


async def test_what_the_controller_refuses_is_said_of_each_partition() -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        cluster.instead[DELETE] = refusing(41)
        results = await shrink(admin, {"t": DeletePartitions(1)})
        assert list(results) == [T1]
        assert not results[T1].ok


async def test_who_may_not_list_moves_sees_topics_without_them() -> None:
    async with administered() as (cluster, admin):
        cluster.move("t", 1, 4)
        seen = []
        for code in (0, CLUSTER_FORBIDDEN):
            if code:
                cluster.instead[LIST_REASSIGNMENTS] = refusing(code)
            found = await admin.topics.describe(configs=False, min_isr=False, timeout_s=TIMEOUT_S)
            seen.append([(one.adding, one.removing) for one in found.topics[0].partitions])
        assert seen == [[((), ()), ((4,), (2, 3))], [((), ()), ((), ())]]


async def test_a_partition_that_moves_does_not_go() -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        cluster.move("t", 1, 4)
        for validate_only in (True, False):
            results = await shrink(admin, {"t": DeletePartitions(1)}, validate_only=validate_only)
            assert {p: one.error_code for p, one in results.items()} == {T1: MOVING}
