"""The active backend keeps the forecasts of its operations at points of their way.

Goals
    Of each operation it is known afterwards what was forecast and what came of it, also where
    another backend took over on the way.
Constraints
    The journal gets an entry at a point of the way, and where a throttle changes: not each second.
Algorithm
    A look compares the newest snapshot with what is kept. The throttles in force are compared by a
    digest, which is kept with a forecast: so a backend that takes over sees what changed before
    it. A forecast counts only if it was made after the throttles were seen as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from kshunt.backend.domain.forecast.scoring.milestones import milestone, voided
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import (
    NO_RATE,
    NO_REPLICAS,
    ThrottledRate,
    ThrottledReplicas,
    brokers_of,
)
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork


@dataclass(slots=True)
class _Seen:
    """What is remembered of one operation between two looks."""

    brokers: tuple[int, ...]
    topics: tuple[str, ...]
    of_bytes: int = 0
    rates: Mapping[int, ThrottledRate] | None = None
    lists: Mapping[str, ThrottledReplicas] | None = None
    digest: str = ""
    since_ms: int = 0
    """Since when the throttles are seen as they are."""

    def look(self, snapshot: Snapshot) -> None:
        """Take over the throttles; a broker that does not answer has those that it had."""
        throttles, before = snapshot.throttles, self.rates or {}
        known = {id: one.rate for id, one in throttles.rates.items()}
        unread = [id for id in self.brokers if id not in known and id not in before]
        if any(_answers(id, snapshot) for id in unread):
            # Nobody has read them yet.
            return
        rates = {id: known.get(id) or before.get(id, NO_RATE) for id in self.brokers}
        lists = {topic: throttles.replicas.get(topic, NO_REPLICAS) for topic in self.topics}
        if (rates, lists) == (self.rates, self.lists):
            return
        self.rates, self.lists, self.since_ms = rates, lists, snapshot.taken_ms
        self.digest = _digest(rates, lists)


def _answers(broker: int, snapshot: Snapshot) -> bool:
    status = snapshot.brokers.get(broker)
    return status is not None and not status.stale


def _digest(rates: Mapping[int, ThrottledRate], lists: Mapping[str, ThrottledReplicas]) -> str:
    words = [
        f"{id} {rate.leader_bytes_per_s} {rate.follower_bytes_per_s}" for id, rate in rates.items()
    ]
    words += [f"{topic} {one.leaders} {one.followers}" for topic, one in lists.items()]
    return hashlib.blake2b("\n".join(words).encode(), digest_size=8).hexdigest()


class ForecastKeeper:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._registry = context.registry
        self._latest = context.latest
        self._seen: dict[str, _Seen] = {}

    async def look(self) -> None:
        """Keep what is due of each operation that runs.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not written; a later look tries
                again.
        """
        snapshot = self._latest()
        if snapshot is None:
            return
        running = {}
        for id in self._registry.unfinished:
            operation, work = self._registry.get(id), self._registry.work(id)
            if operation is not None and work is not None:
                seen = self._seen.get(id) or _seen_of(work)
                running[id] = seen
                if operation.state is OperationState.RUNNING:
                    await self._look_at(id, seen, snapshot)
        self._seen = running

    async def _look_at(self, id: str, seen: _Seen, snapshot: Snapshot) -> None:
        before, end = self._registry.forecasts(id), snapshot.expected_ends.get(id)
        seen.look(snapshot)
        if not seen.digest:
            return
        kept = voided(before, seen.digest)
        if end is not None and end.left_bytes is not None:
            known = max((one.of_bytes for one in before), default=0)
            seen.of_bytes = max(seen.of_bytes, known, end.left_bytes)
            new = milestone(end, seen.of_bytes, before, seen.digest)
            if new is not None and new.made_ms >= seen.since_ms:
                kept = (*kept, new)
        if kept != before:
            await self._registry.put_forecasts(id, kept)


def _seen_of(work: ReassignmentWork) -> _Seen:
    return _Seen(brokers_of(work.moves.values()), work.topics)
