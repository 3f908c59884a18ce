"""What is worth a message: two looks at a backend compared. Pure.

Goals
    The person on call learns what changed, once, and when it is over.
Constraints
    Only the backend that acts reports news about operations, so that two do not report it twice.
    It calls an operation's state changed only where it changed that state itself. What comes and
    goes by the second is no news.
Algorithm
    - An operation: each state that `_STATES` names, when it ends, and when it waits for somebody.
    - When an operation will be done, once that is known (`kshunt.backend.notify.forecasts`).
    - A proposal: when it waits for a second person, and what became of it.
    - Partitions of a topic that are about to be deleted, or no more
      (`kshunt.backend.notify.deletions`).
    - Drift immediately: engine and journal have agreed that it is not ours.
    - An orphan throttle once it was seen in two looks: a foreign tool sets its throttle before its
      move, and takes it off after.
    - The cluster, once no broker has answered for `SILENT_S`; acting, once it is lost for `LOST_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kshunt.backend.domain.operations.approval import ProposalState, ProposedChange
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.notify.deletions import PendingDeletions, deletion_news
from kshunt.backend.notify.forecasts import ForecastWatch
from kshunt.backend.notify.message import WORDS_MAX, News
from kshunt.backend.notify.proposals import proposal_news

Facts: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Facts for the data by id; each has a `text`."""

SILENT_S: Final = 10.0
LOST_S: Final = 10.0
ATTENTION_S: Final = 600.0
"""The words of what an operation waits for may change with each attempt; no oftener than this."""
REPORTED_MAX: Final = 2_000
"""Operations whose state is remembered."""
FACTS_MAX: Final = 20
"""Drifts or orphans in one message; of more the number is told."""

_State = OperationState
_STATES: Final[Mapping[OperationState, tuple[str, str]]] = {
    _State.PAUSED: ("operation.paused", "is paused"),
    _State.CANCELLING: ("operation.cancelling", "is being cancelled"),
    _State.DONE: ("operation.ended", "is done"),
    _State.CANCELLED: ("operation.ended", "was cancelled"),
    _State.PARTLY_CANCELLED: ("operation.ended", "was partly cancelled"),
    _State.CANCELLED_ELSEWHERE: ("operation.failed", "was cancelled outside kshunt"),
    _State.SUPERSEDED: ("operation.failed", "was superseded by another move"),
    _State.FAILED: ("operation.failed", "has failed"),
}


@dataclass(frozen=True, slots=True)
class BackendMoment:
    """A backend at one moment."""

    at_s: float
    """By a clock that never goes back."""
    backend: str
    """Its id."""
    host: str
    active: bool
    """Whether it may change the cluster at this moment."""
    writes: bool
    """Whether it is the writer of the journal, so that nobody else acts."""
    reachable: bool | None
    """Whether a broker answers; None where that is not known yet."""
    drift: Facts = field(default_factory=dict)
    orphans: Facts | None = None
    """None: nobody looked, or it is another backend's to tell."""
    operations: Sequence[Operation] = ()
    """Those that have not ended."""
    leaving: Mapping[str, PendingDeletions] | None = None
    """Topics of which partitions are about to be deleted, and those of the look before; None where
    the cluster was not seen yet."""
    ends: Mapping[str, ExpectedEnd] = field(default_factory=dict)
    """When each operation will be done, by id."""
    proposals: Sequence[ProposedChange] = ()
    """Changes that take two people: all that are remembered, as they are at this moment."""


@dataclass(slots=True)
class _Reported:
    state: OperationState
    attention: str = ""
    attention_s: float = float("-inf")


class Watch:
    """Remembers what was told, and says what is new."""

    def __init__(self) -> None:
        self._operations: dict[str, _Reported] = {}
        self._drift: Facts = {}
        self._proposals: Mapping[str, ProposalState] = {}
        self._leaving: Mapping[str, PendingDeletions] | None = None
        self._forecasts = ForecastWatch()
        self._orphans: dict[str, Mapping[str, Any]] = {}
        self._suspects: frozenset[str] = frozenset()
        self._reachable = True
        self._silent_since_s: float | None = None
        self._active = False
        self._lost_since_s: float | None = None

    @property
    def active(self) -> bool:
        """Whether it was told that this backend acts."""
        return self._active

    # Operations, as they change

    def operation(self, operation: Operation, at_s: float, *, tell: bool) -> Iterator[News]:
        """What is new of an operation; without `tell` it is only remembered."""
        before = self._operations.pop(operation.id, None)
        reported = self._operations[operation.id] = before or _Reported(operation.state)
        if len(self._operations) > REPORTED_MAX:
            del self._operations[next(iter(self._operations))]
        was, reported.state = (None if before is None else before.state), operation.state
        if not tell:
            return
        waits = operation.state is _State.QUEUED or operation.state.ended
        if was in (None, _State.QUEUED) and not waits:
            yield _of(operation, "operation.started", "has started")
        if was is not operation.state:
            if operation.state in _STATES:
                yield _of(operation, *_STATES[operation.state])
            elif was in (_State.PAUSED, _State.RESUMING) and operation.state is _State.RUNNING:
                yield _of(operation, "operation.resumed", "continues")
        yield from self._attention(operation, reported, at_s)

    def _attention(self, operation: Operation, reported: _Reported, at_s: float) -> Iterator[News]:
        words = needs(operation)
        if not words:
            reported.attention = ""
        elif words != reported.attention and at_s - reported.attention_s >= ATTENTION_S:
            reported.attention, reported.attention_s = words, at_s
            yield _of(operation, "operation.attention", f"needs attention: {words}", needs=words)

    # Everything else, look by look

    def seen(self, seen: BackendMoment) -> Iterator[News]:
        """What is new since the last look."""
        yield from self._of_active(seen)
        yield from self._of_reach(seen)
        if seen.active:
            yield from _differences("drift", "Drift", self._drift, seen.drift)
            self._drift = seen.drift
            yield from self._forecasts.seen(seen.operations, seen.ends, seen.at_s)
            yield from self._of_leaving(seen.leaving)
            yield from proposal_news(self._proposals, seen.proposals)
            self._proposals = {one.id: one.state for one in seen.proposals}
        if seen.orphans is not None:
            yield from self._of_orphans(seen.orphans)

    def ended(self, seen: BackendMoment) -> Iterator[News]:
        """What is to be told as the backend ends in good order."""
        if self._active:
            yield _backend_news(seen, "backend.stopped", "is not active any more: it was stopped")

    def _of_active(self, seen: BackendMoment) -> Iterator[News]:
        if seen.active:
            self._lost_since_s = None
            if not self._active:
                self._active = True
                yield _backend_news(seen, "backend.acts", "is the active backend of this cluster")
        elif self._active:
            if self._lost_since_s is None:
                self._lost_since_s = seen.at_s
            if not seen.writes or seen.at_s - self._lost_since_s >= LOST_S:
                self._active, self._drift, self._proposals = False, {}, {}
                self._leaving = None
                yield _backend_news(
                    seen, "backend.stopped", "is not active any more: it lost its lease"
                )

    def _of_reach(self, seen: BackendMoment) -> Iterator[News]:
        if seen.reachable is None:
            return
        if seen.reachable:
            self._silent_since_s = None
            if not self._reachable:
                self._reachable = True
                yield _reach(seen, "cluster.reachable", "The cluster answers again")
        elif self._reachable:
            if self._silent_since_s is None:
                self._silent_since_s = seen.at_s
            if seen.at_s - self._silent_since_s >= SILENT_S:
                self._reachable = False
                yield _reach(seen, "cluster.unreachable", "No broker answers")

    def _of_leaving(self, leaving: Mapping[str, PendingDeletions] | None) -> Iterator[News]:
        if leaving is not None:
            if self._leaving is not None:
                yield from deletion_news(self._leaving, leaving)
            self._leaving = leaving

    def _of_orphans(self, found: Facts) -> Iterator[News]:
        sure = {id: fact for id, fact in found.items() if id in self._suspects}
        self._suspects = frozenset(found)
        yield from _differences("orphan", "Orphan throttle", self._orphans, sure)
        self._orphans = sure


def needs(operation: Operation) -> str:
    """What an operation waits for that somebody has to do; empty where it continues by itself."""
    if operation.state.ended or operation.state is _State.PAUSED:
        return ""
    if operation.kind is OperationKind.SHRINK:
        progress = operation.details.shrink
        return progress.words if progress is not None and progress.needs else ""
    return "" if operation.outcome_is_progress else operation.outcome


def operation_facts(operation: Operation) -> dict[str, Any]:
    """An operation for the data: without its partitions and details, which may be long."""
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "state": operation.state.value,
        "summary": operation.summary[:WORDS_MAX],
        "outcome": operation.outcome[:WORDS_MAX],
        "who": operation.who[:WORDS_MAX],
        "reason": operation.reason[:WORDS_MAX],
        "started_ms": operation.started_ms,
        "ended_ms": operation.ended_ms,
        "partitions": len(operation.partitions),
        "throttle_bytes_per_s": operation.throttle_bytes_per_s,
    }


def _of(operation: Operation, kind: str, verb: str, **more: str) -> News:
    words = [f"{operation.kind.value} {operation.id} {verb}"]
    if not more:
        words.append(operation.outcome if operation.state.ended else operation.summary)
        if not operation.state.ended and operation.reason:
            words.append(f"({operation.reason})")
    if operation.who and not operation.state.ended:
        words[0] += f", requested by {operation.who}"
    head, *rest = words
    text = f"{head}: {' '.join(word for word in rest if word)}" if any(rest) else head
    data = {"operation": operation_facts(operation), **more}
    return News(kind, text, data, f"operation {operation.id}")


def _backend_news(seen: BackendMoment, kind: str, verb: str) -> News:
    operations = [operation_facts(one) for one in seen.operations[:FACTS_MAX]]
    words = f"Backend {seen.backend} on {seen.host} {verb}"
    if operations:
        named = listed(f"{one.kind.value} {one.id} ({one.state.words})" for one in seen.operations)
        words += f"; {many(len(seen.operations), 'operation')} running: {named}"
    data = {
        "backend": seen.backend,
        "host": seen.host,
        "operations": operations,
        "operations_count": len(seen.operations),
    }
    return News(kind, words, data)


def _reach(seen: BackendMoment, kind: str, words: str) -> News:
    text = f"{words}, as seen by backend {seen.backend} on {seen.host}"
    return News(kind, text, {"backend": seen.backend, "host": seen.host}, "cluster")


def _differences(kind: str, noun: str, before: Facts, after: Facts) -> Iterator[News]:
    appeared = {id: fact for id, fact in after.items() if id not in before}
    gone = {id: fact for id, fact in before.items() if id not in after}
    say: Callable[[str], str] = f"{noun} {{}}".format
    for facts, what, verb in (
        (appeared, "appeared", "appeared"),
        (gone, "gone", "does not exist any more"),
    ):
        if facts:
            texts = listed((str(fact["text"]) for fact in facts.values()), 3)
            shown = list(facts.values())[:FACTS_MAX]
            data = {kind: [_cut(fact) for fact in shown], "count": len(facts)}
            yield News(f"{kind}.{what}", f"{say(verb)}: {texts}", data)


def _cut(fact: Mapping[str, Any]) -> dict[str, Any]:
    """A fact whose texts are not too long: a list of replicas may name thousands."""
    return {name: _cut_value(value) for name, value in fact.items()}


def _cut_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _cut(value)
    return value[:WORDS_MAX] if isinstance(value, str) else value
