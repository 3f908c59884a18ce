"""What is wrong, the most urgent first: one list for the head of the screen and for `!`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from backend.domain.lifecycle import OperationState
from tui.text import plural
from tui.views import OPERATIONS, THROTTLES, number_key

if TYPE_CHECKING:
    from backend.domain.operation import Operation
    from backend.domain.steering import Standing
    from tui.store import Store

_THROTTLES, _OPERATIONS = number_key(THROTTLES), number_key(OPERATIONS)


def attention(store: Store) -> tuple[str, ...]:
    """One sentence for each thing that an operator should look at."""
    from tui.tables.mending import drift_words, owner_words

    found = [
        f"Drift: {drift_words(one)} ({owner_words(one.operations)})."
        for one in sorted(store.drift, key=lambda one: one.id)
    ]
    found += _paused(store.operations)
    if store.summary is not None:
        found += store.summary.problems
        if store.summary.stuck:
            from tui.tables.causes import stuck_sentence

            found.append(stuck_sentence(store.summary.stuck))
    if store.standing is not None:
        found += _standing(store.standing)
    moving = store.summary is not None and store.summary.moving_partitions
    # While moves run, lists name what has arrived already until somebody verifies.
    if store.orphans and not moving:
        found.append(
            f"{plural(len(store.orphans), 'orphan throttle')}: {_THROTTLES} shows them, x removes."
        )
    found += [f"{about} could not be read: {why}" for about, why in store.unanswered.items()]
    return tuple(line[:1].upper() + line[1:] for line in found)


def _paused(operations: Sequence[Operation]) -> list[str]:
    """Said before what stands still because of it."""
    return [
        f"Operation {one.id} is paused, its copies are held: {_OPERATIONS}, then p, resumes it."
        for one in operations
        if one.state is OperationState.PAUSED
    ]


def _standing(standing: Standing) -> list[str]:
    return [
        *standing.remarks,
        *(f"Journal entry not acted upon: {entry}" for entry in standing.unreadable),
    ]
