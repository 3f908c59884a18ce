"""The change that repairs a fault, filled in with what the diagnosis worked out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.tui.facts.row_keys import ListRowKey, RateRowKey
from kshunt.tui.facts.stuck_words import REMEDIES, Remedy
from kshunt.tui.feed.polled_facts import DRIFT, ORPHANS
from kshunt.tui.tables.targets import FIX

if TYPE_CHECKING:
    from kshunt.backend.domain.cluster.metadata import TopicPartition
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.replicas.stuck_causes import Stuck
    from kshunt.tui.data.store import Store
    from kshunt.tui.shell.dashboard import Changes
    from kshunt.tui.tables.model import RowKey
    from kshunt.tui.tables.targets import Item

Fix = Callable[["Changes"], None]
"""Opens the preview of a change."""


def fix_of_item(store: Store, item: Item) -> Fix | None:
    """What repairs the thing that an attention line says; None where nobody here can."""
    target = item.target
    if target is None or not target.mends:
        return None
    operation = store.scene.operation(target.key) if isinstance(target.key, str) else None
    fixes: dict[str, Callable[[], Fix | None]] = {
        FIX: lambda: _rates(store),
        "pause": lambda: _resume(operation),
        "confirm_shrink": lambda: _confirm(operation),
        "reapply": lambda: _drift(store, target.key),
        "remove_orphans": lambda: _orphans(store),
        "adopt": lambda: lambda changes: changes.adopt(),
        "elect": lambda: lambda changes: changes.elect(None),
    }
    found = fixes.get(target.mends)
    return None if found is None else found()


def fix_of_replica(store: Store, stuck: Stuck) -> Fix | None:
    """What helps a replica that does not advance; None where nobody here can."""
    fixes: dict[Remedy, Callable[[], Fix | None]] = {
        Remedy.CANCEL: lambda: _cancel(stuck.partition),
        Remedy.RAISE_RATES: lambda: _rates(store),
        Remedy.RESUME: lambda: _resume(_paused(store, stuck.partition)),
        Remedy.REMOVE_ORPHANS: lambda: _orphans(store),
    }
    remedy = REMEDIES.get(stuck.cause)
    return None if remedy is None else fixes[remedy]()


def _paused(store: Store, partition: TopicPartition) -> Operation | None:
    """The paused operation that a partition belongs to."""
    paused = (
        one
        for one in store.scene.operations
        if one.state is OperationState.PAUSED and partition in one.partitions
    )
    return next(paused, None)


def _rates(store: Store) -> Fix | None:
    """Raises every throttle that keeps something from arriving, and not the first one alone."""
    from kshunt.backend.domain.forecast.what_if import sufficient_rates
    from kshunt.tui.facts.moves.needed_rates import needed_rates, rounded_up

    snapshot = store.scene.snapshot
    if snapshot is None or not (needed := needed_rates(snapshot)):
        return None
    rates = rounded_up(sufficient_rates(snapshot, needed), snapshot)
    return lambda changes: changes.set_rates(rates, _nothing)


def _nothing() -> None:
    """Nothing was typed that would have to go."""


def _cancel(partition: TopicPartition) -> Fix:
    return lambda changes: changes.cancel([partition])


def _resume(operation: Operation | None) -> Fix | None:
    if operation is None or "resume" not in operation.actions:
        return None
    return lambda changes: changes.steer(operation, "resume")


def _confirm(operation: Operation | None) -> Fix | None:
    return None if operation is None else lambda changes: changes.confirm_shrink(operation)


def _drift(store: Store, key: RowKey | None) -> Fix | None:
    drift = [
        one
        for one in store.scene.answer(DRIFT)
        if key in (RateRowKey(one.broker or 0), ListRowKey(one.topic or ""))
    ]
    return (lambda changes: changes.decide_drift(drift, ours=True)) if drift else None


def _orphans(store: Store) -> Fix | None:
    orphans = store.scene.answer(ORPHANS)
    return (lambda changes: changes.remove_orphans(orphans)) if orphans else None
