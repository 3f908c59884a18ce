"""What happened, as the overview lists it: operations by their own times, and what was seen.

Constraints
    Bounded. A moment of the past shows the same events on whichever way it was reached: there,
    only operations are listed, since each says itself when it started and ended.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.text.formatting import limit_text, listed, many
from kshunt.tui.facts.cockpit.marks import (
    CHANGE,
    INCIDENT,
    Kind,
    MarkerCounts,
    counted,
    snapshot_marks,
)

EVENTS_MOST: Final = 200
"""Events that are remembered, and listed."""
BROKERS_NAMED: Final = 3
DONE_TOGETHER_MS: Final = 30_000
"""Replicas that stop moving within this time share an event."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    at_ms: int
    """By the backend's clock."""
    kind: Kind
    text: str
    """A sentence."""
    operation: str = ""
    """The operation that it is about, by its id."""


class EventLog:
    """What was seen of one cluster, from one snapshot to the next. For one thread."""

    def __init__(self) -> None:
        self._seen: deque[Event] = deque(maxlen=EVENTS_MOST)
        self._before: Snapshot | None = None
        self._counts = MarkerCounts()
        self._done: Event | None = None
        self._done_count = 0

    def take(self, snapshot: Snapshot) -> None:
        """A live snapshot came."""
        before, was = self._before, self._counts
        if before is not None and snapshot.taken_ms <= before.taken_ms:
            return
        if before is not None and snapshot.cluster_id != before.cluster_id:
            self._seen.clear()
            before = None
        now = counted(snapshot, was)
        self._before, self._counts = snapshot, now
        at_ms = snapshot.taken_ms
        if before is None:
            words = f"{many(now.moving, 'replica')} moving" if now.moving else "nothing moves"
            self._seen.append(Event(at_ms, CHANGE, f"First snapshot here: {words}."))
        else:
            self._take_done(was.moving - now.moving, at_ms)
            found = [(one.kind, one.text) for one in snapshot_marks(before, snapshot, was, now)]
            found += _led_elsewhere(before, snapshot)
            found += _throttled_otherwise(before, snapshot)
            self._seen.extend(Event(at_ms, kind, text) for kind, text in found)

    def _take_done(self, count: int, at_ms: int) -> None:
        """Replicas stopped moving; what ends within a while is one event."""
        if count <= 0:
            return
        if self._done and at_ms - self._done.at_ms < DONE_TOGETHER_MS:
            count += self._done_count
            self._seen = deque(
                (one for one in self._seen if one is not self._done), maxlen=EVENTS_MOST
            )
            at_ms = self._done.at_ms
        self._done_count = count
        self._done = Event(at_ms, CHANGE, f"{_ended(count)}.")
        self._seen.append(self._done)

    def events(self, operations: Iterable[Operation], *, past: bool) -> tuple[Event, ...]:
        """The newest first; `past` leaves out what was seen."""
        found = [*operation_events(operations), *(() if past else self._seen)]
        return tuple(sorted(found, key=lambda event: -event.at_ms)[:EVENTS_MOST])


def _ended(count: int) -> str:
    return "1 replica ended its move" if count == 1 else f"{count:,} replicas ended their moves"


def operation_events(operations: Iterable[Operation]) -> Iterator[Event]:
    """When operations started and ended, as they say themselves."""
    for one in operations:
        by = f" by {one.who}" if one.who else ""
        yield Event(one.started_ms, CHANGE, f"{one.id} started{by}: {one.summary}", one.id)
        if one.ended_ms is not None:
            how = f": {one.outcome}" if one.outcome else ""
            kind: Kind = INCIDENT if one.state.went_wrong else CHANGE
            yield Event(one.ended_ms, kind, f"{one.id} {one.state.brief}{how}", one.id)


def _led_elsewhere(before: Snapshot, after: Snapshot) -> Iterator[tuple[Kind, str]]:
    """Leaders that changed, where the partitions are those of before."""
    old, new = before.replicas, after.replicas
    if new.leader is old.leader or before.topics is not after.topics or len(old) != len(new):
        return
    same = (old.partition == new.partition) & (old.topic_index == new.topic_index)
    moved = (old.leader != new.leader) & same & (new.position == 0)
    count = int(np.count_nonzero(moved))
    if count:
        verb = "is" if count == 1 else "are"
        yield CHANGE, f"{many(count, 'partition')} {verb} led by another broker."


def _throttled_otherwise(before: Snapshot, after: Snapshot) -> Iterator[tuple[Kind, str]]:
    """Rates that changed; brokers whose rates changed alike share a sentence."""
    if before.throttles is after.throttles:
        return
    changes: dict[tuple[str, int | None, int | None], list[int]] = {}
    for broker, throttle in sorted(after.throttles.rates.items()):
        known = before.throttles.rates.get(broker)
        if known is None:
            continue
        old, new = known.rate, throttle.rate
        for side, was, now in (
            ("Leader", old.leader_bytes_per_s, new.leader_bytes_per_s),
            ("Follower", old.follower_bytes_per_s, new.follower_bytes_per_s),
        ):
            if was != now:
                changes.setdefault((side, was, now), []).append(broker)
    by_rates = Counter((was, now, tuple(ids)) for (_, was, now), ids in changes.items())
    for (side, was, now), ids in changes.items():
        both = by_rates[was, now, tuple(ids)] == 2
        if both and side == "Follower":
            continue
        noun = "Both rates" if both else f"{side} rate"
        named = f"broker {ids[0]}" if len(ids) == 1 else f"brokers {listed(ids, BROKERS_NAMED)}"
        yield CHANGE, f"{noun} of {named}: {limit_text(was)}, now {limit_text(now)}."
