"""Pausing and resuming an operation: `kshunt.backend.operations.moves.pause_throttles` decides,
this acts.

A pause changes nothing but the operation's own shares. The floor takes the place of its rate as
follower where that holds only its own copies, and copies that are not listed are listed. So what
somebody else set meanwhile is told from what is ours, and a crash in the middle is no more than a
step that did not take hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.throttle_writes import ThrottleWrites, become, shares_held
from kshunt.backend.operations.moves.cluster_view import ClusterView
from kshunt.backend.operations.moves.pause_throttles import (
    FLOOR_BYTES_PER_S,
    Pause,
    PauseRecord,
    pause_writes,
)
from kshunt.backend.operations.ownership.cells import ListKey, Pairs, RateKey
from kshunt.backend.operations.ownership.ownership import ListCellId, RateCellId, Shares
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork

CHECK_EVERY_S: Final = 10.0
"""A pause that holds is looked at this often: brokers may have come to be shared since."""

State = OperationState


class Pausing:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._checked_s: dict[str, float] = {}

    async def hold(self, operation: Operation, work: ReassignmentWork) -> Pause | None:
        """Hold the operation's copies, as far as that holds nothing else; None: not looked at.

        Raises:
            KshuntError: it could not be read or written; the next tick tries again.
        """
        now_s = self._context.clock.monotonic_s()
        recent = now_s - self._checked_s.get(operation.id, float("-inf")) < CHECK_EVERY_S
        if operation.state is State.PAUSED and recent:
            return None
        self._checked_s[operation.id] = now_s
        registry, throttling = self._context.registry, self._context.throttling
        view = await self._context.view(work.topics, throttles=True)
        held = shares_held(registry.ownership, operation.id)
        record = work.pause or PauseRecord()
        pause = pause_writes(moving(work, view), view, follower_share(held), record)
        present = await throttling.present(pause.rates, pause.topics)
        shares, record = paused_shares(held, pause, record)
        step = become(registry.ownership, operation.id, shares, present, auto_remove=_removes(work))
        changed = step.after != registry.ownership or record != work.pause
        if changed or operation.state is not State.PAUSING:
            words = "; ".join(pause.notes)
            target = State.PAUSED if operation.state is State.PAUSED else State.PAUSING
            operation = self._context.to(operation, target, words)
            await registry.put(operation, replace(work, pause=record), step.after)
        written = await throttling.carry_out(step.writes, present)
        if operation.state is State.PAUSING and not written.problems:
            words = "; ".join(pause.notes) or "its copies are held"
            await registry.put(self._context.to(operation, State.PAUSED, words))
        return pause

    async def resume(self, operation: Operation, work: ReassignmentWork) -> None:
        """Put the operation's shares back as they were before the pause, and let it continue.

        Raises:
            KshuntError: it could not be read or written; the next tick tries again.
        """
        self._checked_s.pop(operation.id, None)
        operation = self._context.to(operation, State.RESUMING)
        written = await self.give_back(operation, work)
        if not written.problems:
            after = self._context.to(operation, State.RUNNING, "resumed", is_progress=True)
            await self._context.registry.put(after, replace(work, pause=None))

    async def give_back(self, operation: Operation, work: ReassignmentWork) -> ThrottleWrites:
        """Make the operation's shares what they were before the pause.

        Raises:
            KshuntError: it could not be read or written; the next tick tries again.
        """
        registry, throttling = self._context.registry, self._context.throttling
        held = shares_held(registry.ownership, operation.id)
        shares = resumed_shares(held, work.pause or PauseRecord())
        present = await throttling.present()
        step = become(registry.ownership, operation.id, shares, present, auto_remove=_removes(work))
        await registry.put(operation, work, step.after)
        return await throttling.carry_out(step.writes, present)


def _removes(work: ReassignmentWork) -> bool:
    """Whether kshunt removes the shares: always those that only a pause has put there."""
    return work.auto_remove or work.throttle_bytes_per_s is None


def moving(work: ReassignmentWork, view: ClusterView) -> tuple[TopicPartition, ...]:
    """The operation's partitions that move where it wants them; elsewhere somebody else leads
    them, and their copies are not ours to hold."""
    return tuple(
        partition
        for partition in work.live
        if partition in view.ongoing
        and view.ongoing[partition].target == work.moves[partition].target
    )


def follower_share(held: Shares) -> Mapping[str, ReplicaSet]:
    """What an operation has listed on the followers' side, by topic."""
    return {
        topic: ReplicaSet(pairs)
        for (topic, key), pairs in held.lists.items()
        if key is ListKey.FOLLOWERS
    }


def paused_shares(held: Shares, pause: Pause, record: PauseRecord) -> tuple[Shares, PauseRecord]:
    """The shares of an operation whose copies are held, and what the pause changed in them.

    The record's rates are those of the shares, not of the brokers: None where it had none.
    """
    hold = {broker for _, broker in pause.held}
    rates: dict[RateCellId, int] = dict(held.rates)
    before: dict[int, int | None] = dict(record.rates)
    for broker in hold & pause.record.rates.keys():
        before.setdefault(broker, held.rates.get((broker, RateKey.FOLLOWER)))
        rates[broker, RateKey.FOLLOWER] = FLOOR_BYTES_PER_S
    for broker in [broker for broker in before if broker not in hold]:
        _put_back(rates, broker, before.pop(broker))
    lists: dict[ListCellId, Pairs] = dict(held.lists)
    for topic, added in pause.record.added.items():
        key = (topic, ListKey.FOLLOWERS)
        lists[key] = lists.get(key, frozenset()) | added.pairs
    for topic, wanted in pause.topics.items():
        key = (topic, ListKey.FOLLOWERS)
        if key in lists and not wanted.followers.everything:
            lists[key] &= wanted.followers.pairs
    listed = {key: pairs for key, pairs in lists.items() if pairs}
    return Shares(rates, listed), PauseRecord(before, pause.record.added)


def resumed_shares(held: Shares, record: PauseRecord) -> Shares:
    """The shares of an operation as they were before its pause."""
    rates, lists = dict(held.rates), dict(held.lists)
    for broker, rate in record.rates.items():
        _put_back(rates, broker, rate)
    for topic, added in record.added.items():
        key = (topic, ListKey.FOLLOWERS)
        if key in lists:
            lists[key] -= added.pairs
    return Shares(rates, {key: pairs for key, pairs in lists.items() if pairs})


def _put_back(rates: dict[RateCellId, int], broker: int, rate_bytes_per_s: int | None) -> None:
    """The share as it was, unless the operation has given it up since."""
    key = (broker, RateKey.FOLLOWER)
    if rate_bytes_per_s is None:
        rates.pop(key, None)
    elif key in rates:
        rates[key] = rate_bytes_per_s
