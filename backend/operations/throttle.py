"""Changes to throttles that an operator asks for (KIP-179).

Goals
    What an operator sets is what is in force. Where an operation of ours throttles a broker, its
    share becomes what the operator set, so that it still comes off with the operation; elsewhere
    it is the operator's own, and stays.
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
from dataclasses import replace
from typing import Final

from backend.domain.answers import ChangeAnswer
from backend.domain.operation import NOBODY, Asker, Operation, OperationKind, OperationState
from backend.domain.throttle import ThrottledRate, ThrottledReplicas
from backend.errors import BadInput
from backend.operations.context import Context
from backend.operations.drift import ListDrift, accept, drift
from backend.operations.ownership import Ownership, Present, RateCellId
from backend.operations.ownership_cells import (
    NO_RATE_FOUND,
    FoundRate,
    RateCell,
    RateKey,
    ShareState,
)
from backend.operations.registry import Registry
from backend.operations.results import counted, listed, results

_KEYS: Final = {
    RateKey.LEADER: "leader_bytes_per_s",
    RateKey.FOLLOWER: "follower_bytes_per_s",
}


class ThrottleChanges:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._admin = context.admin
        self._registry = context.registry

    async def alter_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        *,
        validate_only: bool,
        asker: Asker = NOBODY,
    ) -> ChangeAnswer:
        """KIP-179, alterInterbrokerThrottledRates, with results by broker.

        Raises:
            BadInput: no broker is named.
            Conflict: the journal's record of a broker's throttle cannot be read.
            NotActing: another backend acts for this cluster.
        """
        if not rates:
            raise BadInput("No broker is named; nothing was changed.")
        context = self._context
        async with context.lock:
            if validate_only:
                outcomes = await self._admin.alter_interbroker_throttled_rates(
                    rates, validate_only=True, timeout_s=context.timeout_s
                )
                return ChangeAnswer(True, None, results(outcomes))
            self._registry.require()
            context.throttling.check_readable(rates, ())
            present = await context.throttling.present(rates)
            held, notes = await self._held(rates)
            ours = [b for b in sorted(rates) if _throttled_by_us(self._registry.ownership, b)]
            if ours:
                words = f"The running operation puts back the earlier rates of {listed(ours)}"
                notes = (*notes, f"{words} at its end.")
            after = rated(self._registry.ownership, rates, present, held)
            operation = await self._registry.begin(
                OperationKind.THROTTLED_RATES,
                f"rates of {counted(len(rates), 'broker')}: {listed(sorted(rates))}",
                asker=asker,
                details={str(broker): rate_words(rate) for broker, rate in rates.items()},
                ownership=after,
            )
            self._registry.require()
            outcomes = await self._admin.alter_interbroker_throttled_rates(
                _but_held(rates, held), validate_only=False, timeout_s=context.timeout_s
            )
            await context.throttling.confirm()
            answer = ChangeAnswer(False, operation.id, results(outcomes), notes)
            return await recorded(self._registry, operation, answer)

    async def _held(
        self, rates: Mapping[int, ThrottledRate]
    ) -> tuple[dict[int, int], tuple[str, ...]]:
        """Brokers that a pause holds, with their floor; the rate goes into the pause's record."""
        held: dict[int, int] = {}
        notes = []
        for operation_id in self._registry.unfinished:
            operation, work = self._registry.get(operation_id), self._registry.work(operation_id)
            if operation is None or work is None or work.pause is None:
                continue
            mine = work.pause.rates.keys() & rates.keys()
            if not mine:
                continue
            later = {b: rates[b].follower_bytes_per_s for b in mine}
            pause = replace(work.pause, rates={**work.pause.rates, **later})
            await self._registry.put(operation, replace(work, pause=pause))
            for broker in mine:
                cell = self._registry.ownership.rates[broker, RateKey.FOLLOWER]
                held[broker] = cell.wanted_bytes_per_s or 0
            notes.append(
                f"Operation {operation_id} is paused: as followers {listed(sorted(mine))} stay at "
                "the floor until it is resumed."
            )
        return held, tuple(notes)

    async def alter_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        *,
        validate_only: bool,
        asker: Asker = NOBODY,
    ) -> ChangeAnswer:
        """KIP-179, alterInterbrokerThrottledReplicas, with results by topic.

        Raises:
            BadInput: no topic is named.
            Conflict: the journal's record of a topic's throttle cannot be read.
            NotActing: another backend acts for this cluster.
        """
        if not replicas:
            raise BadInput("No topic is named; nothing was changed.")
        context = self._context
        async with context.lock:
            if validate_only:
                outcomes = await self._admin.alter_interbroker_throttled_replicas(
                    replicas, validate_only=True, timeout_s=context.timeout_s
                )
                return ChangeAnswer(True, None, results(outcomes))
            self._registry.require()
            context.throttling.check_readable((), replicas)
            operation = await self._registry.begin(
                OperationKind.THROTTLED_REPLICAS,
                f"throttled replicas of {counted(len(replicas), 'topic')}: {listed(replicas)}",
                asker=asker,
                details={
                    t: f"leaders {r.leaders}, followers {r.followers}" for t, r in replicas.items()
                },
            )
            self._registry.require()
            outcomes = await self._admin.alter_interbroker_throttled_replicas(
                replicas, validate_only=False, timeout_s=context.timeout_s
            )
            await self._accept({t for t, outcome in outcomes.items() if outcome.ok})
            answer = ChangeAnswer(False, operation.id, results(outcomes))
            return await recorded(self._registry, operation, answer)

    async def _accept(self, topics: set[str]) -> None:
        """What an operator listed through us is no drift."""
        present = await self._context.throttling.present()
        ownership = self._registry.ownership
        meant = [
            one
            for one in drift(ownership, present)
            if isinstance(one, ListDrift) and one.topic in topics
        ]
        await self._registry.keep(accept(ownership, meant, present).after)


def _throttled_by_us(ownership: Ownership, broker: int) -> bool:
    return any(cell.held_rates for (b, _), cell in ownership.rates.items() if b == broker)


def rated(
    ownership: Ownership,
    rates: Mapping[int, ThrottledRate],
    present: Present,
    held: Collection[int] = (),
) -> Ownership:
    """The ownership in which every running operation's share is what an operator set.

    Followers of the brokers that are `held` by a pause stay at its floor.
    """
    for broker, rate in rates.items():
        for key, name in _KEYS.items():
            cell_id: RateCellId = (broker, key)
            cell, found = ownership.rates.get(cell_id), present.rates.get(cell_id)
            floored = key is RateKey.FOLLOWER and broker in held
            if cell is None or not cell.held_rates or floored:
                continue
            value: int | None = getattr(rate, name)
            if value is None:
                ownership = replace(
                    ownership, rates={**ownership.rates, cell_id: _freed(cell, found)}
                )
                continue
            holders = [o for o, s in cell.shares.items() if s.state is ShareState.HELD]
            for operation_id in holders:
                ownership = ownership.change(operation_id, {cell_id: value}, present).after
    return ownership


def _freed(cell: RateCell, found: FoundRate | None) -> RateCell:
    """The cell of a rate that an operator wants to be gone.

    Where it could not be read, what is ours is still there, and goes when it can be.
    """
    freed = cell.accepted(NO_RATE_FOUND)
    if found is not None:
        return freed.insisted(found)
    return replace(freed, known=freed.known | cell.known | {cell.wanted_bytes_per_s})


def _but_held(
    rates: Mapping[int, ThrottledRate], held: Mapping[int, int]
) -> dict[int, ThrottledRate]:
    return {
        broker: ThrottledRate(rate.leader_bytes_per_s, held[broker]) if broker in held else rate
        for broker, rate in rates.items()
    }


async def recorded(registry: Registry, operation: Operation, answer: ChangeAnswer) -> ChangeAnswer:
    """End an operation that ends with its answer."""
    failed = answer.failures
    state = OperationState.FAILED if len(failed) == len(answer.results) else OperationState.DONE
    if answer.results and not failed:
        outcome = "done"
    else:
        outcome = f"{len(failed)} of {len(answer.results)} failed: {listed(failed, 3)}"
    await registry.move(operation.id, state, outcome)
    return answer


def rate_words(rate: ThrottledRate) -> str:
    """`leader 1000 B/s, follower none`."""

    def words(value: int | None) -> str:
        return "none" if value is None else f"{value} B/s"

    return f"leader {words(rate.leader_bytes_per_s)}, follower {words(rate.follower_bytes_per_s)}"
