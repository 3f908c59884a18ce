"""Work that a newer wish replaces."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.worker import Worker


def run_latest(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str
) -> Worker[None]:
    """Run this in a worker, and cancel what was asked for before in the same group.

    It takes a callable and no coroutine. Python warns of a coroutine that is replaced before it
    starts.
    """
    # The type of the variable chooses between the kinds of work that Textual takes.
    worker: Worker[None] = node.run_worker(work, group=group, exclusive=True)
    return worker
