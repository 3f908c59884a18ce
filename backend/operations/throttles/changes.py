"""Changes to throttles that an operator asks for (KIP-179).

Goals
    What an operator sets is what is in force. Where an operation of ours throttles a broker, its
    share becomes what the operator set, so that it is still removed when the operation ends. Where
    moves run that somebody else started, it is removed when those end, if that is wanted (KIP-179's
    autoRemoveThrottle). Elsewhere it is the operator's own, and stays.
Constraints
    The intent is in the journal before the first effect.
Algorithm
    alter_rates: a rate becomes the rate of every share that lies on the broker; `none` takes the
    shares off there, and nothing comes back in the end. A broker that a pause holds keeps the
    floor; the rate is in force when the operation is resumed.
    alter_replicas: the lists become what was asked. What of it an operation has a share in is
    given up, or added, as if the operator had accepted that drift.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kshunt.backend.admin.kips.throttles.checks import refused_rates, refused_replicas, without
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.text.formatting import exact_rate_text, listed, many
from kshunt.backend.domain.throttles.configs import (
    Move,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    brokers_of,
)
from kshunt.backend.domain.throttles.owners import ShareState
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.core.results import results
from kshunt.backend.operations.core.throttle_writes import shares_held
from kshunt.backend.operations.ownership.cells import (
    NO_RATE_FOUND,
    FoundRate,
    ListKey,
    Pairs,
    RateCell,
    RateKey,
)
from kshunt.backend.operations.ownership.drift import ListDrift, accept, drift
from kshunt.backend.operations.ownership.ownership import (
    NO_SHARES,
    FoundSettings,
    ListCellId,
    Ownership,
    RateCellId,
    Shares,
)
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.throttles.throttles_that_stay import lists_that_stay, rates_that_stay

_KEYS: Final = {
    RateKey.LEADER: "leader_bytes_per_s",
    RateKey.FOLLOWER: "follower_bytes_per_s",
}


@dataclass(frozen=True, slots=True)
class Passing:
    """What is set for moves that somebody else started, and is removed when they end."""

    moves: Mapping[TopicPartition, Move]
    shares: Shares


class ThrottleChanges:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._admin = context.admin
        self._registry = context.registry

    async def alter_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        change: Change,
        *,
        auto_remove: bool = False,
        timeout_s: float | None = None,
    ) -> ChangeAnswer:
        """KIP-179, alterInterbrokerThrottledRates, with results by broker.

        With `auto_remove`, rates of brokers that take part in moves which somebody else started are
        removed when these end. Without such moves they stay, as they do without it, and a note says
        so. `timeout_s` is what the cluster may take; None is the backend's own.

        Raises:
            BadInput: no broker is named.
            Conflict: the journal's record of a broker's throttle cannot be read.
            NotActive: another backend acts for this cluster.
        """
        if not rates:
            raise BadInput("No broker is named; nothing was changed.")
        wait_s = self._context.timeout_s if timeout_s is None else timeout_s
        refused = refused_rates(rates, {})
        fit = {broker: rate for broker, rate in rates.items() if broker not in refused}
        async with self._context.lock:
            ours = [b for b in sorted(fit) if _throttled_by_us(self._registry.ownership, b)]
            passing = await self._passing_rates(fit, ours) if auto_remove else None
            stays = _passing_or_none(passing, auto_remove)
            notes = () if stays is None else rates_that_stay(fit, stays, ours)
            if change.validate_only:
                outcomes = await self._admin.throttles.alter_rates(
                    rates, validate_only=True, timeout_s=wait_s
                )
                return ChangeAnswer(True, None, results(outcomes), notes)
            operation = self._registry.draft(
                OperationKind.THROTTLED_RATES,
                f"rates of {many(len(rates), 'broker')}: {listed(sorted(rates))}",
                requester=change.requester,
                requested={str(broker): both_sides_text(rate) for broker, rate in rates.items()},
            )
            written, more = await self._set_rates(operation, fit, passing, ours, wait_s)
            outcomes = {**written, **refused}
            answer = ChangeAnswer(False, operation.id, results(outcomes), (*notes, *more))
            cells = [(broker, key) for broker in fit for key in _KEYS]
            throttles = await self._context.throttling.read_back(cells, ())
            return await self._end_or_wait(operation, passing, answer, throttles)

    async def _set_rates(
        self,
        operation: Operation,
        rates: Mapping[int, ThrottledRate],
        passing: Passing | None,
        ours: Collection[int],
        timeout_s: float,
    ) -> tuple[Mapping[int, ItemResult], tuple[str, ...]]:
        """Write the intent and then the rates; results by broker, and notes."""
        context = self._context
        self._registry.require()
        context.throttling.check_readable(rates, ())
        present = await context.throttling.present(rates)
        held, notes = await self._held(rates)
        if ours:
            words = f"The running operation restores the earlier rates of {listed(ours)}"
            notes = (*notes, f"{words} at its end.")
        after = with_running_rates(self._registry.ownership, rates, present, held)
        await self._intend(operation, passing, after, present)
        self._registry.require()
        # They are checked, and the floor of a pause is not theirs.
        written = await self._admin.throttles.alter_rates(
            _but_held(rates, held, after), validate_only=False, timeout_s=timeout_s, as_found=True
        )
        await context.throttling.confirm()
        return written, notes

    async def _intend(
        self,
        operation: Operation,
        passing: Passing | None,
        after: Ownership,
        present: FoundSettings,
    ) -> None:
        """Write the intent; what is to be removed again is a share of this operation's own."""
        work = None
        if passing is not None:
            after = after.record(operation.id, passing.shares, present).after
            work = ReassignmentWork(passing.moves, started=frozenset(passing.moves), adopted=True)
        await self._registry.put(operation, work, after)

    async def _end_or_wait(
        self,
        operation: Operation,
        passing: Passing | None,
        answer: ChangeAnswer,
        throttles: tuple[str, ...],
    ) -> ChangeAnswer:
        """End the operation, or let it wait for the moves with which its throttle goes.

        `throttles` is what was read back of the settings.
        """
        if passing is None:
            return await recorded(self._registry, operation, answer, throttles)
        work = self._registry.work(operation.id)
        if work is not None and len(answer.failures) == len(answer.results):
            failed = replace(work, failed=f"refused: {listed(answer.failures, 3)}")
            await self._registry.put(operation, failed)
            return answer
        moved = many(len(passing.moves), "partition")
        words = f"kshunt removes the throttle when the moves of {moved} end"
        await self._registry.move(operation.id, OperationState.RUNNING, words, throttles)
        return replace(answer, notes=(*answer.notes, f"{words}. Others started these moves."))

    async def _passing_rates(
        self, rates: Mapping[int, ThrottledRate], ours: Collection[int]
    ) -> Passing | None:
        """The rates that go with moves of others, and those moves."""
        moves = self._context.foreign(await self._context.ongoing())
        busy = set(brokers_of(moves.values())) - set(ours)
        wanted: dict[RateCellId, int] = {}
        for broker in busy & rates.keys():
            for key, name in _KEYS.items():
                value: int | None = getattr(rates[broker], name)
                if value is not None:
                    wanted[broker, key] = value
        brokers = {broker for broker, _ in wanted}
        touched = {
            partition: move
            for partition, move in moves.items()
            if brokers & {*move.current, *move.target}
        }
        return Passing(touched, Shares(wanted)) if wanted else None

    async def _passing_lists(
        self, replicas: Mapping[str, ThrottledReplicas], present: FoundSettings
    ) -> Passing | None:
        """The listed replicas that go with moves of others, and those moves."""
        moves = self._context.foreign(await self._context.ongoing())
        numbers = {tuple(partition) for partition in moves}
        wanted: dict[ListCellId, Pairs] = {}
        for topic, lists in replicas.items():
            for key, side in zip(ListKey, (lists.leaders, lists.followers), strict=True):
                found = present.lists.get((topic, key), ReplicaSet())
                new = {pair for pair in side.pairs if (topic, pair[0]) in numbers}
                if fresh := frozenset(pair for pair in new if pair not in found):
                    wanted[topic, key] = fresh
        named = {(topic, number) for (topic, _), pairs in wanted.items() for number, _ in pairs}
        touched = {p: move for p, move in moves.items() if tuple(p) in named}
        return Passing(touched, Shares(lists=wanted)) if wanted else None

    async def _held(
        self, rates: Mapping[int, ThrottledRate]
    ) -> tuple[dict[int, set[str]], tuple[str, ...]]:
        """Brokers at the floor of a pause, with the operations that hold them there.

        The rate goes into the record of each pause.
        """
        held: dict[int, set[str]] = {}
        notes = []
        for operation_id in self._registry.unfinished:
            operation, work = self._registry.get(operation_id), self._registry.work(operation_id)
            if operation is None or work is None or work.pause is None:
                continue
            floors = shares_held(self._registry.ownership, operation_id).rates
            mine = {b for b in work.pause.rates.keys() & rates if (b, RateKey.FOLLOWER) in floors}
            if not mine:
                continue
            later = {b: rates[b].follower_bytes_per_s for b in mine}
            pause = replace(work.pause, rates={**work.pause.rates, **later})
            await self._registry.put(operation, replace(work, pause=pause))
            for broker in mine:
                held.setdefault(broker, set()).add(operation_id)
            notes.append(
                f"Operation {operation_id} is paused: as followers {listed(sorted(mine))} stay at "
                "the floor until it is resumed."
            )
        return held, tuple(notes)

    async def alter_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        change: Change,
        *,
        auto_remove: bool = False,
        timeout_s: float | None = None,
    ) -> ChangeAnswer:
        """KIP-179, alterInterbrokerThrottledReplicas, with results by topic.

        A partition or a broker that does not exist is refused, with a result of its own; the other
        partitions of its topic are listed. With `auto_remove`, replicas of partitions that somebody
        else moves leave the lists when the moves end, but for those that were listed before; a note
        says which stay. `timeout_s` is what the cluster may take; None is the backend's own.

        Raises:
            BadInput: no topic is named.
            ClusterUnreachable: the cluster could not be asked what it has; nothing was changed.
            Conflict: the journal's record of a topic's throttle cannot be read.
            NotActive: another backend acts for this cluster.
        """
        if not replicas:
            raise BadInput("No topic is named; nothing was changed.")
        context = self._context
        wait_s = context.timeout_s if timeout_s is None else timeout_s
        async with context.lock:
            refused = await refused_replicas(self._admin.cluster, replicas, wait_s)
            fit = without(replicas, refused)
            present = await context.throttling.present((), fit)
            passing = await self._passing_lists(fit, present) if auto_remove else None
            stays = _passing_or_none(passing, auto_remove)
            notes = () if stays is None else lists_that_stay(fit, stays, self._registry.ownership)
            if change.validate_only:
                foreseen = await self._write_lists(fit, wait_s, validate_only=True)
                outcomes = (*results(refused), *results(foreseen))
                return ChangeAnswer(True, None, outcomes, notes)
            self._registry.require()
            context.throttling.check_readable((), fit)
            operation = self._registry.draft(
                OperationKind.THROTTLED_REPLICAS,
                f"throttled replicas of {many(len(replicas), 'topic')}: {listed(replicas)}",
                requester=change.requester,
                requested={
                    t: f"leaders {r.leaders}, followers {r.followers}" for t, r in replicas.items()
                },
            )
            await self._intend(operation, passing, self._registry.ownership, present)
            self._registry.require()
            written = await self._write_lists(fit, wait_s, validate_only=False)
            await self._accept({t for t, outcome in written.items() if outcome.ok})
            outcomes = (*results(refused), *results(written))
            answer = ChangeAnswer(False, operation.id, outcomes, notes)
            throttles = await context.throttling.read_back(
                (), [(t, key) for t in fit for key in ListKey]
            )
            return await self._end_or_wait(operation, passing, answer, throttles)

    async def _write_lists(
        self, lists: Mapping[str, ThrottledReplicas], timeout_s: float, *, validate_only: bool
    ) -> Mapping[str, ItemResult]:
        """Lists that are checked."""
        if not lists:
            return {}
        return await self._admin.throttles.alter_replicas(
            lists, validate_only=validate_only, timeout_s=timeout_s, as_found=True
        )

    async def _accept(self, topics: set[str]) -> None:
        """What an operator listed through us is no drift."""
        present = await self._context.throttling.present()
        ownership = self._registry.ownership
        meant = [
            one
            for one in drift(ownership, present)
            if isinstance(one, ListDrift) and one.topic in topics
        ]
        await self._registry.save_ownership(accept(ownership, meant, present).after)


def _passing_or_none(passing: Passing | None, auto_remove: bool) -> Shares | None:
    """What ends with moves of others; None where the operator asked for no removal."""
    if not auto_remove:
        return None
    return NO_SHARES if passing is None else passing.shares


def _throttled_by_us(ownership: Ownership, broker: int) -> bool:
    return any(cell.held_rates for (b, _), cell in ownership.rates.items() if b == broker)


def with_running_rates(
    ownership: Ownership,
    rates: Mapping[int, ThrottledRate],
    present: FoundSettings,
    held: Mapping[int, Collection[str]],
) -> Ownership:
    """The ownership in which every running operation's share is what an operator set.

    As followers, the brokers in `held` stay at the floor of the operations that are paused there.
    """
    for broker, rate in rates.items():
        for key, name in _KEYS.items():
            cell_id: RateCellId = (broker, key)
            cell, found = ownership.rates.get(cell_id), present.rates.get(cell_id)
            if cell is None or not cell.held_rates:
                continue
            paused = held.get(broker, ()) if key is RateKey.FOLLOWER else ()
            value: int | None = getattr(rate, name)
            if value is None:
                freed = _freed(cell, found, paused)
                ownership = replace(ownership, rates={**ownership.rates, cell_id: freed})
                continue
            holders = [o for o, s in cell.shares.items() if s.state is ShareState.HELD]
            for operation_id in holders:
                if operation_id not in paused:
                    ownership = ownership.change(operation_id, {cell_id: value}, present).after
    return ownership


def _freed(cell: RateCell, found: FoundRate | None, paused: Collection[str]) -> RateCell:
    """The cell of a rate that an operator wants to be gone; what is `paused` keeps its floor.

    Where it could not be read, what is ours is still there, and goes when it can be.
    """
    freed = cell.accepted(NO_RATE_FOUND, but=paused)
    if found is not None:
        return freed.insisted(found)
    return replace(freed, known=freed.known | cell.known | {cell.wanted_bytes_per_s})


def _but_held(
    rates: Mapping[int, ThrottledRate], held: Collection[int], after: Ownership
) -> dict[int, ThrottledRate]:
    """What to write: as followers, brokers that are held have the floor."""

    def follower(broker: int, rate: ThrottledRate) -> int | None:
        if broker not in held:
            return rate.follower_bytes_per_s
        return after.rates[broker, RateKey.FOLLOWER].wanted_bytes_per_s

    return {b: replace(rate, follower_bytes_per_s=follower(b, rate)) for b, rate in rates.items()}


async def recorded(
    registry: Registry,
    operation: Operation,
    answer: ChangeAnswer,
    throttles: tuple[str, ...] | None = None,
) -> ChangeAnswer:
    """End an operation that ends with its answer; `throttles` is what was read back."""
    failed = answer.failures
    state = OperationState.FAILED if len(failed) == len(answer.results) else OperationState.DONE
    if answer.results and not failed:
        # Its state says it.
        outcome = ""
    else:
        outcome = f"{len(failed)} of {len(answer.results)} failed: {listed(failed, 3)}"
    await registry.move(operation.id, state, outcome, throttles)
    return answer


def both_sides_text(rate: ThrottledRate) -> str:
    """`leader 50 MB/s, follower no rate`."""
    leader, follower = rate.leader_bytes_per_s, rate.follower_bytes_per_s
    return f"leader {exact_rate_text(leader)}, follower {exact_rate_text(follower)}"
