"""Drift: our throttle was deleted, changed, widened or narrowed by somebody else while we run.

Goals
    An operator who watches an operation sees within a tick that its throttle is not what it should
    be, with both values. The operator has two ways out: put ours back, or keep theirs.
Constraints
    Pure. What was decided and did not take hold yet is no drift (`Ownership.outstanding`), nor is
    a setting that could not be read. Only settings that a running operation throttles drift.
Algorithm
    `reapply`: ours is written over the foreign value, which does not come back in the end.
    `accept`: the foreign value is the one to keep. For a rate, the shares want no rate there any
    more (`Ownership.change` asks for one again). For a list, what was put in stays in the end, and
    what was taken out belongs to no share any more. Until either, nothing is written there: an
    operation that ends leaves the foreign value as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kshunt.backend.domain.text.formatting import exact_rate_text
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.domain.throttles.owners import DriftKind
from kshunt.backend.operations.ownership.cells import (
    FoundRate,
    ListCell,
    ListKey,
    RateCell,
    RateKey,
)
from kshunt.backend.operations.ownership.ownership import (
    FoundSettings,
    ListCellId,
    Ownership,
    OwnershipStep,
    RateCellId,
    SettingValues,
    planned,
)


@dataclass(frozen=True, slots=True)
class RateDrift:
    """A rate that is not what it should be."""

    broker: int
    key: RateKey
    kind: DriftKind
    wanted_bytes_per_s: int | None
    found: FoundRate
    operations: tuple[str, ...]
    """Who has a share of it, sorted."""

    def __str__(self) -> str:
        found = exact_rate_text(self.found.value_bytes_per_s)
        wanted = exact_rate_text(self.wanted_bytes_per_s)
        return (
            f"{self.key.words} of broker {self.broker} was {self.kind}: {found} instead of {wanted}"
        )


@dataclass(frozen=True, slots=True)
class ListDrift:
    """A list that is not what it should be."""

    topic: str
    key: ListKey
    kind: DriftKind
    wanted: ReplicaSet
    found: ReplicaSet
    replicas: ReplicaSet
    """Those that were put in or taken out; `*` for all."""
    operations: tuple[str, ...]
    """Who has a share of the list, sorted."""

    def __str__(self) -> str:
        what = "also lists" if self.kind is DriftKind.WIDENED else "lacks"
        return f"{self.key.words} of topic {self.topic} was {self.kind}: it {what} {self.replicas}"


def drift(ownership: Ownership, present: FoundSettings) -> tuple[RateDrift | ListDrift, ...]:
    """Everything that somebody else did to what operations throttle, by broker and by topic."""
    found: list[RateDrift | ListDrift] = []
    for i, rate_cell in sorted(ownership.rates.items()):
        if i in present.rates:
            found.extend(_rate_drift(i, rate_cell, present.rates[i]))
    for j, list_cell in sorted(ownership.lists.items()):
        if j in present.lists and j[0] not in present.gone_topics:
            found.extend(_list_drift(j, list_cell, present.lists[j]))
    return tuple(found)


def _rate_drift(i: RateCellId, cell: RateCell, found: FoundRate) -> Iterable[RateDrift]:
    # Where no share wants a rate there is nothing of ours to drift from.
    if cell.prior is None or not cell.held_rates or not cell.is_foreign(found):
        return
    kind = DriftKind.DELETED if found.own_bytes_per_s is None else DriftKind.CHANGED
    operations = tuple(sorted(o for o in cell.shares if cell.holds(o)))
    yield RateDrift(*i, kind, cell.wanted_bytes_per_s, found, operations)


def _list_drift(j: ListCellId, cell: ListCell, found: ReplicaSet) -> Iterable[ListDrift]:
    if cell.prior is None or not cell.live:
        return
    operations = tuple(sorted(o for o in cell.shares if cell.holds(o)))
    for kind, replicas in (
        (DriftKind.NARROWED, cell.missing(found)),
        (DriftKind.WIDENED, cell.extra(found)),
    ):
        if replicas:
            yield ListDrift(*j, kind, cell.wanted, found, replicas, operations)


def reapply(
    ownership: Ownership, chosen: Iterable[RateDrift | ListDrift], present: FoundSettings
) -> OwnershipStep:
    """Put ours back: what to write. What has changed since `drift` said so is left out."""
    rates, lists = dict(ownership.rates), dict(ownership.lists)
    wider: dict[ListCellId, ReplicaSet] = {}
    ids: list[RateCellId] = []
    for one in _still(ownership, chosen, present):
        if isinstance(one, RateDrift):
            i = (one.broker, one.key)
            rates[i] = rates[i].insisted(one.found)
            ids.append(i)
            continue
        j = (one.topic, one.key)
        if one.kind is DriftKind.WIDENED:
            wider[j] = one.replicas
            if one.replicas.everything:
                lists[j] = lists[j].insisted(one.wanted.pairs)
        elif not one.replicas.everything:
            lists[j] = lists[j].insisted(one.replicas.pairs)
        wider.setdefault(j, ReplicaSet())
    step = planned(Ownership(rates, lists), present, ids, ())
    written = {j: _aim(step.after.lists[j], extra, present.lists[j]) for j, extra in wider.items()}
    return OwnershipStep(step.after, SettingValues(step.writes.rates, written))


def _aim(cell: ListCell, extra: ReplicaSet, found: ReplicaSet) -> ReplicaSet:
    if extra.everything or cell.wanted.everything:
        return cell.wanted
    return (found - extra) | ReplicaSet(cell.pending)


def accept(
    ownership: Ownership, chosen: Iterable[RateDrift | ListDrift], present: FoundSettings
) -> OwnershipStep:
    """Keep theirs: nothing is written. What has changed since `drift` said so is left out, as
    nobody has seen it."""
    rates, lists = dict(ownership.rates), dict(ownership.lists)
    for one in _still(ownership, chosen, present):
        if isinstance(one, RateDrift):
            i = (one.broker, one.key)
            rates[i] = rates[i].accepted(one.found)
            continue
        j = (one.topic, one.key)
        if one.kind is DriftKind.WIDENED:
            lists[j] = lists[j].accepted_wider(one.replicas)
        else:
            lists[j] = lists[j].accepted_narrower(one.found, one.replicas)
    return OwnershipStep(replace(ownership, rates=rates, lists=lists), SettingValues())


def _still(
    ownership: Ownership, chosen: Iterable[RateDrift | ListDrift], present: FoundSettings
) -> list[RateDrift | ListDrift]:
    """Those of the chosen that are as they were shown; both values may not have changed."""
    wanted = set(chosen)
    return [one for one in drift(ownership, present) if one in wanted]
