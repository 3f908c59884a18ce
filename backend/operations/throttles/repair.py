"""Throttles that are not as they should be, repaired on an operator's word: drift and orphans.

Each is shown with an id that holds its values. So a repair leaves out what has changed since it was
shown, and says so. Nothing is written that nobody has seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias, TypeVar

from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.text.formatting import exact_rate_text, listed, many
from kshunt.backend.domain.throttles.configs import SETTING_WORDS
from kshunt.backend.domain.throttles.owners import (
    OwnedThrottle,
    SettingValue,
    ShownDrift,
    ShownOrphan,
)
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.journal.entries import Body
from kshunt.backend.operations.ownership.cells import Lift, RateKey
from kshunt.backend.operations.ownership.drift import (
    ListDrift,
    RateDrift,
    accept,
    drift,
    reapply,
)
from kshunt.backend.operations.ownership.listing import owned_throttles
from kshunt.backend.operations.ownership.ownership import Ownership, found_settings, planned
from kshunt.backend.operations.state.ownership_documents import readable
from kshunt.backend.operations.throttles.changes import recorded
from kshunt.backend.operations.throttles.orphans import (
    Orphan,
    OrphanFacts,
    OrphanRate,
    orphans,
    removal,
)

Drift: TypeAlias = RateDrift | ListDrift
_Shown = TypeVar("_Shown", RateDrift | ListDrift, Orphan)

_CHANGED = "CHANGED_SINCE"


def change_id(shown: Drift | Orphan) -> str:
    """A short name that is another one when anything about it is."""
    return hashlib.blake2b(repr(_facts(shown)).encode(), digest_size=6).hexdigest()


def _facts(shown: object) -> object:
    """The fields of a value; sets in an order of their own."""
    if hasattr(shown, "__dataclass_fields__"):
        return [_facts(getattr(shown, name)) for name in shown.__dataclass_fields__]
    if isinstance(shown, frozenset):
        return sorted(shown)
    return shown


def shown_drift(one: Drift) -> ShownDrift:
    """A drift with both values, as an operator is asked about it."""
    about = change_id(one), one.key.value
    if isinstance(one, RateDrift):
        wanted = SettingValue(one.wanted_bytes_per_s)
        found = SettingValue(one.found.value_bytes_per_s)
        return ShownDrift(
            *about, one.broker, None, one.kind, wanted, found, operations=one.operations
        )
    wanted, found = (SettingValue(replicas=str(each)) for each in (one.wanted, one.found))
    changed = str(one.replicas)
    return ShownDrift(*about, None, one.topic, one.kind, wanted, found, changed, one.operations)


def shown_orphan(one: Orphan) -> ShownOrphan:
    """An orphan with its value and likely origin, likewise."""
    about = change_id(one), one.key.value
    if isinstance(one, OrphanRate):
        value = SettingValue(one.rate_bytes_per_s)
        return ShownOrphan(*about, one.broker, None, one.origin, value, one.operations)
    value = SettingValue(replicas=str(one.replicas))
    return ShownOrphan(*about, None, one.topic, one.origin, value, one.operations)


def still_there(shown: Iterable[_Shown], ids: Collection[str]) -> dict[str, _Shown]:
    """Those of the ids that are still so, by id."""
    found = {change_id(one): one for one in shown}
    return {one: found[one] for one in ids if one in found}


class ThrottleRepair:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._admin = context.admin
        self._registry = context.registry

    async def drift(self) -> tuple[Drift, ...]:
        """Changes that somebody else made to throttles of running operations."""
        present = await self._context.throttling.present()
        return drift(self._registry.ownership, present)

    async def owned(self) -> tuple[OwnedThrottle, ...]:
        """Every setting in which an operation has a share: its value, owners, what comes back."""
        present = await self._context.throttling.present()
        return owned_throttles(self._registry.ownership, present, self._who)

    def _who(self, operation_id: str) -> str:
        operation = self._registry.get(operation_id)
        return "" if operation is None else operation.who

    async def reapply_or_accept(
        self, ids: Collection[str], change: Change, *, ours: bool
    ) -> ChangeAnswer:
        """Put our throttle back where it drifted (`ours`), or keep what somebody else set.

        Raises:
            BadInput: none is named.
            NotActive: another backend acts for this cluster.
        """
        if not ids:
            raise BadInput("No drift is named; nothing was changed.")
        async with self._context.lock:
            present = await self._context.throttling.present()
            ownership = self._registry.ownership
            chosen = still_there(drift(ownership, present), ids)
            answers = _answers(chosen, ids, "restored" if ours else "kept")
            if change.validate_only:
                return ChangeAnswer(True, None, answers)
            verb = "restored" if ours else "accepted"
            decide = reapply if ours else accept
            step = decide(ownership, chosen.values(), present)
            operation = await self._registry.begin(
                OperationKind.DRIFT,
                f"drift {verb}: {listed(chosen.values(), 3) or 'it was already removed'}",
                requester=change.requester,
                requested={one: str(found) for one, found in chosen.items()},
                ownership=step.after,
            )
            written = await self._context.throttling.carry_out(step.writes, present)
            answer = ChangeAnswer(False, operation.id, answers, written.problems)
            throttles = await self._context.throttling.read_back(
                ((o.broker, o.key) for o in chosen.values() if isinstance(o, RateDrift)),
                ((o.topic, o.key) for o in chosen.values() if isinstance(o, ListDrift)),
            )
            return await recorded(self._registry, operation, answer, throttles)

    async def orphans(self) -> tuple[Orphan, ...]:
        """Rates and listed replicas that no move justifies and no operation of ours holds."""
        return orphans(await self._situation())

    async def remove_orphans(self, ids: Collection[str], change: Change) -> ChangeAnswer:
        """Remove throttles that are still orphans.

        Raises:
            BadInput: none is named.
            NotActive: another backend acts for this cluster.
        """
        if not ids:
            raise BadInput("No orphan is named; nothing was changed.")
        async with self._context.lock:
            situation = await self._situation()
            chosen = still_there(orphans(situation), ids)
            answers = _answers(chosen, ids, "removed")
            plan = removal(chosen.values(), situation)
            left_alone = tuple(
                f"{orphan_words(one)}: {why}" for one, why in plan.left_alone.items()
            )
            if change.validate_only:
                return ChangeAnswer(True, None, answers, left_alone)
            self._registry.require()
            operation = await self._registry.begin(
                OperationKind.ORPHANS,
                f"remove {many(len(chosen), 'orphan throttle')}",
                requester=change.requester,
                requested={one: orphan_words(orphan) for one, orphan in chosen.items()},
            )
            written = await self._context.throttling.write(plan.writes, situation.present)
            await self._context.throttling.confirm()
            answer = ChangeAnswer(False, operation.id, answers, (*left_alone, *written.problems))
            throttles = await self._context.throttling.read_back(
                plan.writes.rates, plan.writes.lists
            )
            return await recorded(self._registry, operation, answer, throttles)

    async def prior(self, lost: Mapping[str, Body]) -> tuple[OwnedThrottle, ...]:
        """Each setting of ownership records that the journal has lost, and what comes back."""
        remembered = self._remembered(lost)
        present = await self._context.throttling.present(remembered.brokers, remembered.topics)
        return owned_throttles(remembered, present, self._who)

    def _remembered(self, lost: Mapping[str, Body]) -> Ownership:
        """What nobody owns since: what is owned again has a prior value of its own."""
        ours, (found, _) = self._registry.ownership, readable(dict(lost))
        return Ownership(
            {i: cell for i, cell in found.rates.items() if i not in ours.rates},
            {i: cell for i, cell in found.lists.items() if i not in ours.lists},
        )

    async def restore_prior(self, lost: Mapping[str, Body], change: Change) -> ChangeAnswer:
        """Bring back what was there before the throttles of ownership records that were lost.

        A setting that is no longer what kshunt wrote stays as it is.

        Raises:
            BadInput: nothing was lost.
            NotActive: another backend acts for this cluster.
        """
        if not lost:
            raise BadInput("This host remembers no value that the journal lost.")
        async with self._context.lock:
            remembered = self._remembered(lost)
            throttling = self._context.throttling
            present = await throttling.present(remembered.brokers, remembered.topics)
            after, answers = remembered, await self.prior(lost)
            for operation_id in sorted(_holders(remembered)):
                after = after.lift(operation_id, present, Lift.UNDONE).after
            step = planned(after, present, remembered.rates, remembered.lists)
            results = tuple(
                Result(_setting(one), 0, "NONE", f"{_value_words(one.prior_value)} again")
                for one in answers
            )
            if change.validate_only:
                return ChangeAnswer(True, None, results)
            self._registry.require()
            ours = self._registry.ownership
            operation = await self._registry.begin(
                OperationKind.ORPHANS,
                f"restore {many(len(results), 'setting')} of a lost journal",
                requester=change.requester,
                ownership=Ownership(
                    {**step.after.rates, **ours.rates}, {**step.after.lists, **ours.lists}
                ),
            )
            written = await self._context.throttling.carry_out(step.writes, present)
            answer = ChangeAnswer(False, operation.id, results, written.problems)
            throttles = await self._context.throttling.read_back(
                step.writes.rates, step.writes.lists
            )
            return await recorded(self._registry, operation, answer, throttles)

    async def _situation(self) -> OrphanFacts:
        timeout_s = self._context.timeout_s
        ongoing = await self._context.ongoing()
        state = await self._admin.cluster.describe(timeout_s=timeout_s)
        topics = state.assignment.topics
        found = await self._admin.throttles.describe(
            sorted(state.brokers), topics, timeout_s=timeout_s
        )
        present = found_settings(found, topics)
        copying = {b for b, key in present.rates if key is RateKey.LOG_DIRS}
        rated = {b for b in copying if present.rates[b, RateKey.LOG_DIRS].own_bytes_per_s}
        states = partition_states(state.assignment)
        return OrphanFacts(
            present,
            self._registry.ownership,
            ongoing,
            {partition: one.replicas for partition, one in states.items()},
            frozenset([broker for broker in rated if await self._copies_dirs(broker)]),
        )

    async def _copies_dirs(self, broker: int) -> bool:
        """True while a replica moves between directories there, or nobody knows."""
        try:
            columns = await self._admin.logs.dirs(broker, timeout_s=self._context.timeout_s)
        except KshuntError:
            return True
        return bool(columns.is_future.any())


def _answers(
    chosen: Mapping[str, Drift | Orphan], ids: Iterable[str], done: str
) -> tuple[Result, ...]:
    return tuple(
        Result(_words(chosen[one]), 0, "NONE", done)
        if one in chosen
        else Result(one, -1, _CHANGED, "it was removed, or has changed since it was shown")
        for one in dict.fromkeys(ids)
    )


def _holders(ownership: Ownership) -> set[str]:
    """Every operation that has a share in something."""
    rates = {operation_id for cell in ownership.rates.values() for operation_id in cell.shares}
    return rates | {o for cell in ownership.lists.values() for o in cell.shares}


def _setting(one: OwnedThrottle) -> str:
    where = f"topic {one.topic}" if one.broker is None else f"broker {one.broker}"
    return f"{where} {SETTING_WORDS[one.setting]}"


def _value_words(value: SettingValue | None) -> str:
    if value is None or value.replicas == "":
        return "unset"
    return exact_rate_text(value.rate_bytes_per_s) if value.replicas is None else value.replicas


def _words(one: Drift | Orphan) -> str:
    return str(one) if isinstance(one, RateDrift | ListDrift) else orphan_words(one)


def orphan_words(orphan: Orphan) -> str:
    """What it is, for an operator."""
    if isinstance(orphan, OrphanRate):
        rate = exact_rate_text(orphan.rate_bytes_per_s)
        return f"{orphan.key.words} of broker {orphan.broker}: {rate}"
    return f"{orphan.key.words} of topic {orphan.topic}: {orphan.replicas}"
