"""What can be done next with the operation that an answer began, and how it goes until then."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.binding import Binding

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.text.formatting import percent_done_text
from kshunt.tui.views.operations.progress_text import progress_text

if TYPE_CHECKING:
    from kshunt.backend.domain.reassignment.answers import ChangeAnswer
    from kshunt.tui.changes.wizard.question_parts import AnswerPart
    from kshunt.tui.data.store import Store
    from kshunt.tui.facts.snapshot_facts import Facts

OFFERED: Final = {"cancel": "c cancels it", "undo": "u undoes it"}
"""Ways back, with their keys; each is previewed and asked about as ever."""

NEXT_KEYS: Final[tuple[Binding, ...]] = (
    Binding("u", "next('undo')", "Undo", show=False),
    Binding("c", "next('cancel')", "Cancel", show=False),
    Binding("p", "next('pause')", "Pause or resume", show=False),
    Binding("O", "next('confirm')", "Cut over a shrink", show=False),
)
"""The keys of `OFFERED`, and those that pause, resume or cut over an operation."""


WAITS: Final = "waits for its turn"
ITEMS_MOST: Final = 2_000
"""Of more items than that, each keeps the words of the answer."""


class NextStep(NamedTuple):
    """What is to be done next with an operation."""

    operation: Operation
    name: str


async def show_progress(store: Store, part: AnswerPart) -> None:
    """Show how the operation of an answer goes."""
    operation, facts = store.scene.operation(part.answer.operation_id), store.facts
    words, since = "", {}
    if operation is not None:
        # It reads every row of the cluster a few times.
        words = await asyncio.to_thread(progress_text, facts, operation)
        if facts is not None and len(part.answer.results) <= ITEMS_MOST:
            since = await asyncio.to_thread(_since, facts, operation)
    part.show_operation(operation, words, keys_text(operation))
    part.show_items(since)


def _since(facts: Facts, operation: Operation) -> dict[str, str]:
    """How each partition of a reassignment is by now, in words."""
    from kshunt.tui.facts.progress import MoveState, move_states

    found = {}
    for partition, (state, share) in move_states(facts, operation).items():
        moving = "moving" if math.isnan(share) else f"moving, {percent_done_text(share)}"
        words = {MoveState.WAITS: WAITS, MoveState.MOVES: moving, MoveState.THERE: "copied"}
        found[str(partition)] = words[state]
    return found


def next_step(store: Store, answer: ChangeAnswer, name: str) -> NextStep | None:
    """A way back, if the backend offers it by now."""
    operation = store.scene.operation(answer.operation_id)
    if operation is None:
        return None
    if name == "pause" and "resume" in operation.actions:
        name = "resume"
    return NextStep(operation, name) if name in operation.actions else None


def keys_text(operation: Operation | None) -> str:
    """The ways back that are open now."""
    offered = [] if operation is None else [OFFERED.get(name, "") for name in operation.actions]
    return ", ".join(filter(None, offered))
