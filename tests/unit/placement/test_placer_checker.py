"""The checker of placements: what can stand, and the fault of what cannot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kshunt.backend.placement.checker import Expected, check_answer
from kshunt.backend.placement.placer import ReplicaPlacementFailed, UsableBroker
from tests.support.placement.placers import broker, brokers, in_racks

FENCED = [broker(0), broker(1), broker(2, fenced=True)]
RACKS = in_racks(2, 2, 1)
FENCED_RACKS = [
    *(broker(0, "a"), broker(1, "a"), broker(2, "b", fenced=True)),
    *(broker(3, "b", fenced=True), broker(4, "c"), broker(5, "c", fenced=True)),
]


def check(
    answer: Sequence[Sequence[object]],
    given: Sequence[UsableBroker],
    *,
    partitions: int = 1,
    ignores_racks: bool = False,
) -> list[tuple[int, ...]]:
    wanted = len(answer[0]) if answer else 1
    return check_answer("p", answer, Expected(7, partitions, wanted, given, ignores_racks))


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        ([0, 1], brokers(3)),
        ([2, 0, 4], RACKS),
        ([2, 0, 4, 1], RACKS),
        ([0, 1, 2], FENCED),
        # As Kafka does: racks before fences, and a fenced one where its rack has no other.
        ([0, 2, 4], FENCED_RACKS),
        ([4, 0, 2, 5], FENCED_RACKS),
        # As a placer that uses every broker that is up before any fenced one.
        ([0, 1, 4], FENCED_RACKS),
        ([1, 0, 4, 3], FENCED_RACKS),
    ],
)
def test_what_can_stand(answer: list[int], given: list[UsableBroker]) -> None:
    assert check([answer], given) == [tuple(answer)]


@pytest.mark.parametrize(
    ("answer", "given", "fault"),
    [
        ([0, 9], brokers(3), "names broker 9, which must not be used"),
        ([1, 1], brokers(3), "names broker 1 more than once"),
        ([1, "2"], brokers(3), "names '2', which is not a broker id"),
        ([True, 2], brokers(3), "names True, which is not a broker id"),
        ([0, 1.0], brokers(3), r"names 1\.0, which is not a broker id"),
        ([0, None], brokers(3), "names None, which is not a broker id"),
        ([0, [1]], brokers(3), r"names \[1\], which is not a broker id"),
        ([0, 2], FENCED, "uses broker 2, which is fenced, although broker 1 is free"),
        ([2, 0, 1], FENCED, "is led by broker 2, which is fenced"),
        ([2, 0, 4], FENCED_RACKS, "is led by broker 2, which is fenced"),
        ([0, 5], FENCED_RACKS, "uses broker 5, which is fenced, although broker 4 is free"),
        ([0, 1], RACKS, "covers 1 of 2 possible racks"),
        ([0, 1, 2], RACKS, "covers 2 of 3 possible racks"),
        ([0, 1, 2, 3], RACKS, "covers 2 of 3 possible racks"),
        ([0, 1], FENCED_RACKS, "covers 1 of 2 possible racks"),
    ],
)
def test_the_fault_of_what_cannot(
    answer: list[object], given: list[UsableBroker], fault: str
) -> None:
    with pytest.raises(ReplicaPlacementFailed, match=f"placer p .* partition 7 {fault}"):
        check([answer], given)


def test_as_many_lists_as_partitions_of_one_length() -> None:
    with pytest.raises(ReplicaPlacementFailed, match="placed 1 of 2 partitions"):
        check([[0]], brokers(3), partitions=2)
    with pytest.raises(ReplicaPlacementFailed, match="placed 0 of 1 partitions"):
        check([], brokers(3))
    with pytest.raises(ReplicaPlacementFailed, match="placed more than 1 partitions"):
        check([[0], [1]], brokers(3))
    with pytest.raises(
        ReplicaPlacementFailed, match="partition 8 has 1 of the 2 requested replicas"
    ):
        check([[0, 1], [2]], brokers(3), partitions=2)
    with pytest.raises(
        ReplicaPlacementFailed, match="partition 8 has more than the 1 requested replicas"
    ):
        check([[0], [2, 1]], brokers(3), partitions=2)


def test_racks_count_unless_the_placer_declares_otherwise_or_a_broker_has_none() -> None:
    assert check([[0, 1]], RACKS, ignores_racks=True) == [(0, 1)]
    assert check([[0, 1]], [*RACKS, broker(9)]) == [(0, 1)]
    with pytest.raises(ReplicaPlacementFailed, match="broker 1 is free"):
        check([[0, 2]], FENCED_RACKS, ignores_racks=True)


def test_integers_of_numpy_become_pythons() -> None:
    [found] = check([np.array([2, 0], dtype=np.int32)], brokers(3))  # type: ignore[list-item]
    assert found == (2, 0)
    assert [type(one) for one in found] == [int, int]
