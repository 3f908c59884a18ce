"""Partitions go from the last one down (KIP-694), so that no client sees a gap in the numbers."""

from __future__ import annotations

import pytest

from kshunt.backend.embedded.controller.reassign import alter_partition_reassignments
from kshunt.backend.embedded.controller.shrink import delete_partitions, finish_replica_deletion
from kshunt.backend.embedded.controller.tick import tick
from kshunt.backend.embedded.metadata.records import PartitionModeCode, ReplicaState, ResourceType
from tests.support.embedded.controller import Controller, remove_broker, tp

INTERVAL_MS = 1_000


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


def numbers(controller: Controller) -> list[int]:
    return sorted(controller.image.topics["t"].partitions)


def answer(controller: Controller, number: int, *brokers: int, deleted: bool = True) -> None:
    for broker in brokers:
        controller.do(
            finish_replica_deletion(
                controller.image, tp("t", number), broker, INTERVAL_MS, deleted=deleted
            )
        )


@pytest.mark.conforms("kip-694:deletion-order")
def test_a_partition_stays_listed_while_one_above_it_does() -> None:
    controller = cluster()
    controller.do(delete_partitions(controller.image, {"t": 1}, 0))
    answer(controller, 1, 2, 3)
    answer(controller, 2, 3, 1)
    answer(controller, 3, 1)
    answer(controller, 3, 2, deleted=False)
    assert numbers(controller) == [0, 1, 2, 3]
    controller.do(tick(controller.image, 2 * INTERVAL_MS))
    assert numbers(controller) == [0, 1, 2, 3]
    answer(controller, 3, 2)
    assert numbers(controller) == [0], "those that waited for it go with it"


def test_a_move_of_the_last_partition_holds_up_those_below_it() -> None:
    controller = cluster()
    controller.do(delete_partitions(controller.image, {"t": 2}, 0, delay_ms=500))
    controller.do(alter_partition_reassignments(controller.image, {tp("t", 3): [4]}))
    controller.do(tick(controller.image, INTERVAL_MS))
    assert controller.at("t", 2).mode is PartitionModeCode.READ_ONLY
    controller.catch_up("t", 3)
    controller.do(tick(controller.image, INTERVAL_MS))
    modes = [controller.at("t", number).mode for number in (2, 3)]
    assert modes == [PartitionModeCode.NONE, PartitionModeCode.NONE]


def test_a_broker_that_is_unregistered_while_it_deletes_is_not_waited_for() -> None:
    controller = cluster()
    controller.do(delete_partitions(controller.image, {"t": 3}, 0))
    answer(controller, 3, 1)
    deletion = controller.at("t", 3).deletion
    assert deletion is not None
    assert deletion.replicas[1].state is ReplicaState.DELETION_STARTED
    controller.do(remove_broker(controller.image, 2))
    for now_ms in (INTERVAL_MS, 2 * INTERVAL_MS):
        controller.do(tick(controller.image, now_ms))
    assert numbers(controller) == [0, 1, 2]
