"""How a placer is asked: cut off when it hangs, its errors passed on, its answer checked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count, repeat
from threading import Event, Thread, current_thread
from typing import Any

import pytest

from kshunt.backend.domain.cluster.broker_loads import BrokerLoad, BrokerLoads
from kshunt.backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    UsableBroker,
    load_placer,
)
from kshunt.backend.placement.placer_calls import PlacementRequest, close_placers, place_with
from tests.support.placement.placers import Foreign, ask, brokers
from tests.support.waiting import wait_until

REQUEST = PlacementRequest(0, 2, 2, brokers(3))
DEADLINE_S = 30.0


class Answering(Foreign):
    """Answers what it is given, or what that raises."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def place(self, *_: object) -> Sequence[Sequence[int]]:
        found: Sequence[Sequence[int]] = self.answer()
        return found


class Hanging(Foreign):
    """Does not answer before the test sets `let_go`, and counts how often it is asked."""

    def __init__(self) -> None:
        self.let_go = Event()
        self.asked = 0

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> Sequence[Sequence[int]]:
        self.asked += 1
        self.let_go.wait()
        return super().place(start_partition, num_partitions, num_replicas, brokers)


def raising(error: BaseException) -> Answering:
    def fail() -> None:
        raise error

    return Answering(fail)


@pytest.mark.conforms("kip-660-draft:placer-that-hangs")
def test_a_placer_that_hangs_is_cut_off_and_not_asked_again_while_it_hangs() -> None:
    placer = Hanging()
    with pytest.raises(ReplicaPlacementFailed, match=r"slow gave no answer within 0\.05 s"):
        place_with(placer, "slow", REQUEST, deadline_s=0.05)
    wait_until(lambda: placer.asked, DEADLINE_S, "its thread got that far")
    for _ in range(3):
        with pytest.raises(ReplicaPlacementFailed, match="slow hangs"):
            place_with(placer, "slow", REQUEST, deadline_s=DEADLINE_S)
    assert placer.asked == 1
    assert place_with(Foreign(), "other", REQUEST) == [(0, 1), (0, 1)]
    placer.let_go.set()
    wait_until(lambda: _answers(placer), DEADLINE_S, "it is asked again")
    assert placer.asked == 2


def _answers(placer: Hanging) -> bool:
    try:
        place_with(placer, "slow", REQUEST, deadline_s=DEADLINE_S)
    except ReplicaPlacementFailed:
        return False
    return True


def test_who_comes_while_a_placer_decides_waits_for_its_turn() -> None:
    placer = Hanging()
    placed: list[list[tuple[int, ...]]] = []

    def place() -> None:
        placed.append(place_with(placer, "busy", REQUEST, deadline_s=DEADLINE_S))

    callers = [Thread(target=place) for _ in range(3)]
    for caller in callers:
        caller.start()
    wait_until(lambda: placer.asked, DEADLINE_S, "one of them is asked")
    assert placer.asked == 1
    placer.let_go.set()
    for caller in callers:
        caller.join(DEADLINE_S)
    assert placed == [[(0, 1), (0, 1)]] * 3


@pytest.mark.conforms("kip-660-draft:placement-failed", "kip-660-draft:not-retriable")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("rack"), "The placer p failed: KeyError: 'rack'. Nothing was placed."),
        (TimeoutError(), "The placer p failed: TimeoutError. Nothing was placed."),
        (SystemExit(3), "The placer p failed: SystemExit: 3. Nothing was placed."),
        (ReplicaPlacementFailed("Rack 2 is full."), "Rack 2 is full."),
    ],
)
def test_whatever_it_raises_the_placement_failed(error: BaseException, words: str) -> None:
    with pytest.raises(ReplicaPlacementFailed) as failed:
        place_with(raising(error), "p", REQUEST)
    assert str(failed.value) == words
    assert not failed.value.retriable


@pytest.mark.conforms("kip-660-draft:invalid-factor")
def test_an_invalid_replication_factor_stays_one() -> None:
    with pytest.raises(InvalidReplicationFactor, match="Too many"):
        place_with(raising(InvalidReplicationFactor("Too many.")), "p", REQUEST)


def endless() -> Iterator[Iterator[int]]:
    return (repeat(0) for _ in count())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: None, "p failed: TypeError"),
        (lambda: [0, 1], "p failed: TypeError"),
        (lambda: ["01", "01"], "names '0', which is not a broker id"),
        (lambda: [[0, 1]], "placed 1 of 2"),
        (endless, "placed more than 2"),
        (lambda: [repeat(0), repeat(1)], "partition 0 has more than the 2 requested replicas"),
    ],
)
def test_an_answer_of_another_kind_is_refused(answer: Callable[[], Any], words: str) -> None:
    with pytest.raises(ReplicaPlacementFailed, match=words):
        place_with(Answering(answer), "p", REQUEST)


def test_an_answer_may_be_lazy() -> None:
    lazy = Answering(lambda: ((replica, replica + 1) for replica in range(2)))
    assert place_with(lazy, "p", REQUEST) == [(0, 1), (1, 2)]


class NotingPlacer(Foreign):
    """Notes what it is told, and in which thread."""

    def __init__(self) -> None:
        self.notes: list[tuple[object, ...]] = []
        self.threads: set[str] = set()

    def _note(self, *what: object) -> None:
        self.notes.append(what)
        self.threads.add(current_thread().name)

    def describe(self, topic: str | None, principal: str | None) -> None:
        self._note("describe", topic, principal)

    def observe(self, view: BrokerLoads) -> None:
        self._note("observe", view)

    def follow(self, existing: Sequence[Sequence[int]]) -> None:
        self._note("follow", existing)

    def candidates(
        self, num_replicas: int, brokers: Sequence[UsableBroker]
    ) -> Sequence[UsableBroker]:
        self._note("candidates", num_replicas)
        return brokers[:2]

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> Sequence[Sequence[int]]:
        self._note("place", start_partition)
        return super().place(start_partition, num_partitions, num_replicas, brokers)


@pytest.mark.conforms("kip-660-draft:iterator")
def test_a_placer_is_told_what_it_wants_to_know_and_then_asked() -> None:
    placer = NotingPlacer()
    loads = BrokerLoads({1: BrokerLoad(1, replicas=3)})
    request = PlacementRequest(4, 1, 2, brokers(3), "t", "User:a", loads, [[1, 2]])
    assert place_with(placer, "told", request) == [(0, 1)]
    assert placer.notes == [
        ("describe", "t", "User:a"),
        ("observe", loads),
        ("follow", [[1, 2]]),
        ("candidates", 2),
        ("place", 4),
    ]
    assert placer.threads == {"kshunt-placer-told"}
    place_with(placer, "told", REQUEST)
    assert placer.notes[5:7] == [("describe", None, None), ("follow", ())]


def test_what_a_placer_leaves_out_of_its_choice_it_may_not_use() -> None:
    class Narrow(NotingPlacer):
        def candidates(
            self, num_replicas: int, brokers: Sequence[UsableBroker]
        ) -> Sequence[UsableBroker]:
            return brokers[1:]

    class Wide(NotingPlacer):
        def candidates(
            self, num_replicas: int, brokers: Sequence[UsableBroker]
        ) -> Sequence[UsableBroker]:
            return [UsableBroker(77, None, fenced=False), *brokers]

    with pytest.raises(ReplicaPlacementFailed, match="names broker 0"):
        ask(Narrow(), 1, 2, brokers(3))
    with pytest.raises(ReplicaPlacementFailed, match="for brokers that do not exist"):
        ask(Wide(), 1, 2, brokers(3))


class Closing(Foreign):
    """Fails when it is closed."""

    closed = 0

    def close(self) -> None:
        Closing.closed += 1
        sys.exit(1)


@pytest.mark.conforms("kip-660-draft:closeable")
def test_loaded_placers_are_closed_once_though_one_fails_at_it() -> None:
    close_placers()
    placer = load_placer(f"{__name__}:Closing")
    assert load_placer(f"{__name__}:Closing") is placer
    close_placers()
    close_placers()
    assert Closing.closed == 1
    assert load_placer(f"{__name__}:Closing") is not placer
