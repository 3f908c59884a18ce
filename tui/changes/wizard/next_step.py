"""What can be done next with the operation that an answer began, and how it goes until then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.binding import Binding

from kshunt.backend.domain.operations.operation import Operation
from kshunt.tui.views.operations.progress_text import progress_text

if TYPE_CHECKING:
    from kshunt.backend.domain.reassignment.answers import ChangeAnswer
    from kshunt.tui.changes.wizard.question_parts import AnswerPart
    from kshunt.tui.data.store import Store

OFFERED: Final = {"cancel": "c cancels it", "undo": "u undoes it"}
"""Ways back, with their keys; each is previewed and asked about as ever."""

NEXT_KEYS: Final[tuple[Binding, ...]] = (
    Binding("u", "next('undo')", "Undo", show=False),
    Binding("c", "next('cancel')", "Cancel", show=False),
    Binding("p", "next('pause')", "Pause or resume", show=False),
)
"""The keys of `OFFERED`, and the one that holds an operation or lets it go on."""


class NextStep(NamedTuple):
    """What is to be done next with an operation."""

    operation: Operation
    name: str


async def show_progress(store: Store, part: AnswerPart) -> None:
    """Show how the operation of an answer goes."""
    operation = store.scene.operation(part.answer.operation_id)
    # A few passes over every row of the cluster.
    words = (
        "" if operation is None else await asyncio.to_thread(progress_text, store.facts, operation)
    )
    part.show_operation(operation, words, keys_text(operation))


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
