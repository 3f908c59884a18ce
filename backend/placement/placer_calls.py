"""How a placer is asked: with a deadline, one question at a time, and with its answer checked.

Goals
    1. Whatever a placer does, its caller gets a placement that can be used, or an error that
       names the placer and the fault.
    2. A placer that hangs costs one deadline, not one at each request.

Constraints
    - Python cannot end a thread: a placer that hangs keeps its thread until it ends by itself, or
      until the process does.
    - A placer may keep state between what it is told and what it is asked
      (`optional_interfaces`), and need not know of threads.

Algorithm
    1. Each placer has one question at a time. A caller that comes meanwhile waits until that one
       is answered or overdue; a placer whose question is overdue is not asked.
    2. A daemon thread tells the placer what it wants to know, asks it and makes plain lists of its
       answer, which may be lazy. The caller waits until the deadline.
    3. The answer is checked (`checker`) against the brokers that the placer chooses from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from threading import Lock, Thread
from typing import Final, TypeVar

from kshunt.backend.domain.cluster.broker_loads import BrokerLoads
from kshunt.backend.placement.checker import Expected, check_answer
from kshunt.backend.placement.optional_interfaces import (
    BrokerSelecting,
    ClusterAware,
    ExistingReplicasAware,
    RequestAware,
)
from kshunt.backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    ReplicaPlacer,
    UsableBroker,
    forget_placers,
)

DEADLINE_S: Final = 5.0
"""A placer decides from what it knows; one that takes longer waits for something."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """What is to be placed, and what the caller knows of it."""

    start_partition: int
    num_partitions: int
    num_replicas: int
    brokers: Sequence[UsableBroker]
    """Every registered broker, fenced ones too."""
    topic: str | None = None
    principal: str | None = None
    """Who asks, as Kafka writes it: `User:alice`."""
    loads: BrokerLoads | None = None
    """None leaves a placer what it observed last."""
    existing: Sequence[Sequence[int]] = ()
    """The replica lists of the partitions that the topic has, by number."""


@dataclass(frozen=True, slots=True)
class _PlacerQuestion:
    thread: Thread
    until_s: float
    """When it is overdue, on the monotonic clock."""


_asked: dict[int, _PlacerQuestion] = {}
"""The last question to each placer, by `id()`: a thread that runs keeps its placer alive."""
_turn = Lock()


def place_with(
    placer: ReplicaPlacer, name: str, request: PlacementRequest, *, deadline_s: float = DEADLINE_S
) -> list[tuple[int, ...]]:
    """Ask a placer: the one way in which anything here does.

    Args:
        placer: From `load_placer`.
        name: Its name there, for errors.
        request: The question.
        deadline_s: How long it may take, from when its turn comes.

    Returns:
        The replica list of each partition from `start_partition` on, preferred leader first.

    Raises:
        InvalidReplicationFactor: the placer says so.
        ReplicaPlacementFailed: the placer says so, in its own words; or it fails otherwise, does
            not answer in time, still hangs from an earlier question, or answers what cannot stand.
    """
    candidates, lists = _ask(placer, name, lambda: _answer(placer, request), deadline_s)
    ignores_racks = bool(getattr(placer, "ignores_racks", False))
    expected = Expected(
        request.start_partition,
        request.num_partitions,
        request.num_replicas,
        candidates,
        ignores_racks,
    )
    return check_answer(name, lists, expected)


def close_placers(deadline_s: float = DEADLINE_S) -> None:
    """Close every loaded placer, and let one that fails or hangs at that be."""
    for name, placer in forget_placers():
        close_placer(name, placer, deadline_s)


def close_placer(name: str, placer: ReplicaPlacer, deadline_s: float = DEADLINE_S) -> None:
    """Close one placer. One that fails or hangs at that is ignored."""
    with suppress(ReplicaPlacementFailed):
        _ask(placer, name, placer.close, deadline_s)


def _answer(
    placer: ReplicaPlacer, request: PlacementRequest
) -> tuple[tuple[UsableBroker, ...], list[tuple[object, ...]]]:
    """Where the placer chooses from, and what it chooses, in plain values."""
    if isinstance(placer, RequestAware):
        placer.describe(request.topic, request.principal)
    if isinstance(placer, ClusterAware) and request.loads is not None:
        placer.observe(request.loads)
    if isinstance(placer, ExistingReplicasAware):
        placer.follow(request.existing)
    candidates = tuple(request.brokers)
    if isinstance(placer, BrokerSelecting):
        candidates = tuple(placer.candidates(request.num_replicas, candidates))
    if not all(broker in request.brokers for broker in candidates):
        raise ReplicaPlacementFailed(
            "The placer asks for brokers that do not exist.",
            advice="Nothing was placed; this is a fault of the placer.",
        )
    lists = placer.place(
        request.start_partition,
        request.num_partitions,
        request.num_replicas,
        iter(request.brokers),
    )
    # One more than asked for shows that there are too many, even where there is no end of them.
    first = islice(lists, request.num_partitions + 1)
    return candidates, [tuple(islice(one, request.num_replicas + 1)) for one in first]


def _ask(placer: ReplicaPlacer, name: str, question: Callable[[], T], deadline_s: float) -> T:
    answer: Future[T] = Future()
    thread = Thread(
        target=_fulfil, args=(answer, question), name=f"kshunt-placer-{name}", daemon=True
    )
    _start_in_turn(placer, name, thread, deadline_s)
    if not wait([answer], deadline_s).done:
        raise ReplicaPlacementFailed(
            f"The placer {name} gave no answer within {deadline_s:g} s and was stopped.",
            advice="Nothing was placed. kshunt does not call it again while it hangs.",
        )
    error = answer.exception()
    if error is None:
        return answer.result()
    if isinstance(error, (InvalidReplicationFactor, ReplicaPlacementFailed)):
        raise error
    said = f": {error}" if str(error) else ""
    raise ReplicaPlacementFailed(
        f"The placer {name} failed: {type(error).__name__}{said}.", advice="Nothing was placed."
    ) from error


def _fulfil(answer: Future[T], question: Callable[[], T]) -> None:
    try:
        answer.set_result(question())
    # The edge of the thread: who waits is told whatever happened, an exit of the placer too.
    except BaseException as error:  # noqa: BLE001
        answer.set_exception(error)


def _start_in_turn(placer: ReplicaPlacer, name: str, thread: Thread, deadline_s: float) -> None:
    """Start the thread as soon as no other one asks this placer."""
    while True:
        with _turn:
            earlier = _asked.get(id(placer))
            if earlier is None or not earlier.thread.is_alive():
                _asked[id(placer)] = _PlacerQuestion(thread, time.monotonic() + deadline_s)
                thread.start()
                return
        left_s = earlier.until_s - time.monotonic()
        if left_s <= 0:
            raise ReplicaPlacementFailed(
                f"The placer {name} hangs: it has not answered an earlier request.",
                advice="Nothing was placed. Choose another placer, or restart this process.",
            )
        earlier.thread.join(left_s)
