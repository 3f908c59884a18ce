"""KIP-694 on the embedded controller: partitions go, after a delay, and come back if cancelled."""

from __future__ import annotations

import pytest

from kshunt.backend.embedded.controller.brokers import fence_broker
from kshunt.backend.embedded.controller.decision import KafkaError as E
from kshunt.backend.embedded.controller.reassign import alter_partition_reassignments
from kshunt.backend.embedded.controller.shrink import (
    delete_partitions,
    finish_replica_deletion,
)
from kshunt.backend.embedded.controller.tick import tick
from kshunt.backend.embedded.controller.topics import NewPartitions, create_partitions
from kshunt.backend.embedded.metadata.records import (
    NO_LEADER,
    DeletionState,
    PartitionModeCode,
    ReplicaState,
    ResourceType,
)
from tests.support.embedded.controller import (
    Controller,
    errors,
    remove_broker,
    replicas_to_delete,
    tp,
)

INTERVAL_MS = 1000


def cluster() -> Controller:
    controller = Controller()
    controller.create("t", [1, 2], [2, 3], [3, 1], [1, 2])
    controller.set(
        ResourceType.BROKER,
        "",
        delete_topic_partition_enable="true",
        delete_topic_partition_interval_delay_ms=str(INTERVAL_MS),
    )
    return controller


def shrink(controller: Controller, count: int, delay_ms: int = 0, now_ms: int = 0) -> list[E]:
    decision = delete_partitions(controller.image, {"t": count}, now_ms, delay_ms=delay_ms)
    return errors(controller.do(decision))


def states(controller: Controller, number: int) -> list[ReplicaState]:
    deletion = controller.at("t", number).deletion
    assert deletion is not None
    return [replica.state for replica in deletion.replicas]


def numbers(controller: Controller) -> list[int]:
    return sorted(controller.image.topics["t"].partitions)


@pytest.mark.conforms(
    "kip-694:delete-record",
    "kip-694:status-code",
    "kip-694:errors",
    "kip-694:saves-record",
    "kip-694:becomes-read-only",
)
@pytest.mark.parametrize(
    ("topic", "count", "error"),
    [
        ("t", 3, E.NONE),
        ("no", 3, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, E.INVALID_PARTITIONS),
        ("t", 4, E.INVALID_PARTITIONS),
        ("t", 5, E.INVALID_PARTITIONS),
        ("t", 1, E.REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_delete_partitions(topic: str, count: int, error: E) -> None:
    controller = cluster()
    controller.do(alter_partition_reassignments(controller.image, {tp("t", 2): [4]}))
    decision = delete_partitions(controller.image, {topic: count}, 0)
    assert errors(decision) == [error]
    only = delete_partitions(controller.image, {topic: count}, 0, validate_only=True)
    assert (errors(only), only.records) == ([error], ())


@pytest.mark.conforms("kip-694:enable")
def test_it_is_off_by_default_and_a_delay_is_not_negative() -> None:
    controller = Controller()
    controller.create("t", [1], [1])
    off = delete_partitions(controller.image, {"t": 1}, 0)
    assert (off.error, off.records) == (E.TOPIC_DELETION_DISABLED, ())
    assert delete_partitions(cluster().image, {"t": 1}, 0, delay_ms=-1).error is E.INVALID_REQUEST


@pytest.mark.conforms("kip-694:delay-default", "kip-694:states", "kip-694:successful")
def test_without_a_delay_a_partition_goes_at_once() -> None:
    controller = cluster()
    decision = delete_partitions(controller.image, {"t": 2}, 5)
    assert [result.status_code for result in decision.results] == [PartitionModeCode.NONE] * 2
    controller.do(decision)
    going = controller.at("t", 3)
    assert (going.mode, going.leader) == (PartitionModeCode.NONE, NO_LEADER)
    assert going.deletion is not None
    assert going.deletion.state is DeletionState.NON_EXISTENT
    assert states(controller, 3) == [ReplicaState.DELETION_STARTED] * 2
    assert [item for _, item in replicas_to_delete(controller.image, 3)] == [tp("t", 2)]
    for number, broker in ((2, 1), (2, 3), (3, 2), (3, 1)):
        item = tp("t", number)
        controller.do(finish_replica_deletion(controller.image, item, broker, 6, deleted=True))
    assert numbers(controller) == [0, 1]
    late = finish_replica_deletion(controller.image, tp("t", 3), 1, 7, deleted=True)
    assert errors(late) == [E.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.conforms("kip-694:interval", "kip-694:becomes-none")
def test_the_delay_ends_when_the_task_looks() -> None:
    controller = cluster()
    assert shrink(controller, 3, delay_ms=1500, now_ms=100) == [E.NONE]
    assert controller.at("t", 3).mode is PartitionModeCode.READ_ONLY
    assert controller.at("t", 3).leader == 1
    assert tick(controller.image, 2099).records == ()
    controller.do(tick(controller.image, 2100))
    assert controller.at("t", 3).mode is PartitionModeCode.NONE
    assert tick(controller.image, 2100).records == ()


@pytest.mark.conforms("kip-694:taking-back")
def test_a_deletion_is_cancelled_while_it_is_read_only() -> None:
    controller = cluster()
    shrink(controller, 1, delay_ms=1500)
    decision = delete_partitions(controller.image, {"t": 3}, 10, delay_ms=9000)
    assert sorted((r.item.partition, r.status_code) for r in decision.results) == [
        (1, PartitionModeCode.READ_WRITE),
        (2, PartitionModeCode.READ_WRITE),
        (3, PartitionModeCode.READ_ONLY),
    ]
    controller.do(decision)
    assert controller.at("t", 1).deletion is None
    later = controller.at("t", 3).deletion
    assert later is not None
    assert later.deadline_ms == 9010
    assert shrink(controller, 4) == [E.NONE]
    assert list(controller.image.deleting()) == []
    shrink(controller, 3)
    assert shrink(controller, 4) == [E.INVALID_PARTITIONS]


@pytest.mark.conforms("kip-694:ineligible")
def test_a_replica_that_cannot_be_deleted_is_tried_again() -> None:
    controller = cluster()
    shrink(controller, 3)
    item = tp("t", 3)
    controller.do(finish_replica_deletion(controller.image, item, 1, 50, deleted=True))
    controller.do(finish_replica_deletion(controller.image, item, 2, 60, deleted=False))
    assert ReplicaState.DELETION_INELIGIBLE in states(controller, 3)
    assert tick(controller.image, 1059).records == ()
    controller.do(tick(controller.image, 1060))
    assert ReplicaState.DELETION_STARTED in states(controller, 3)
    controller.do(finish_replica_deletion(controller.image, item, 2, 1100, deleted=True))
    assert numbers(controller) == [0, 1, 2]


def test_a_broker_that_is_down_holds_up_its_replica_until_it_returns_or_is_removed() -> None:
    controller = cluster()
    controller.do(fence_broker(controller.image, 2))
    shrink(controller, 3)
    assert states(controller, 3) == [
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_INELIGIBLE,
    ]
    item = tp("t", 3)
    controller.do(finish_replica_deletion(controller.image, item, 1, 1, deleted=True))
    controller.do(remove_broker(controller.image, 2))
    for now_ms in (INTERVAL_MS, INTERVAL_MS + 1):
        controller.do(tick(controller.image, now_ms))
    assert numbers(controller) == [0, 1, 2]


def test_a_topic_that_shrinks_does_not_grow_nor_move_what_goes() -> None:
    controller = cluster()
    shrink(controller, 3)
    grow = create_partitions(controller.image, {"t": NewPartitions(8)}, controller.random)
    assert errors(grow) == [E.INVALID_PARTITIONS]
    move = alter_partition_reassignments(controller.image, {tp("t", 3): [4]})
    assert errors(move) == [E.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_deletion_that_was_cut_off_anywhere_is_finished() -> None:
    whole = cluster()
    start = len(whole.log)
    shrink(whole, 3)
    for cut in range(start + 1, len(whole.log)):
        controller = Controller(brokers=0)
        for record in whole.log[:cut]:
            controller.image.replay(record)
        for now_ms in range(0, 5 * INTERVAL_MS, INTERVAL_MS):
            controller.do(tick(controller.image, now_ms))
            for broker in (1, 2):
                for _, item in list(replicas_to_delete(controller.image, broker)):
                    answer = finish_replica_deletion(
                        controller.image, item, broker, now_ms, deleted=True
                    )
                    controller.do(answer)
        assert numbers(controller) == [0, 1, 2]
