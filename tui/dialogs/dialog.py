"""What every dialogue is made of: a box with a title that Escape always closes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.css.query import NoMatches
from textual.screen import ModalScreen
from textual.widget import MountError, Widget
from textual.widgets import Static

from kshunt.tui.actions import bind, dialog_bindings
from kshunt.tui.text.fitting import printable
from kshunt.tui.workers import run_latest

T = TypeVar("T")

SCROLL_KEYS: Final[tuple[Binding, ...]] = (
    Binding("down,j", "scroll(1)", "Down", show=False),
    Binding("up,k", "scroll(-1)", "Up", show=False),
)
"""Of a dialogue with more lines than there is room for; vim's and the arrows."""
PAGE_KEYS: Final[tuple[Binding, ...]] = (
    Binding("pagedown", "page(1)", "Page down", show=False),
    Binding("pageup", "page(-1)", "Page up", show=False),
)
CLOSE_KEYS: Final[tuple[Binding, ...]] = (Binding("enter,q", "close", "Close", show=False),)
"""Of a dialogue that asks nothing."""


if TYPE_CHECKING:
    _Mixed = Widget
else:
    # Textual looks for styles in the first base that is a widget, and in no other one.
    _Mixed = object


class Composed(_Mixed):
    """What looks for the lines that its `compose` has made: at its beginning, and later.

    A key may close it at any time. Textual then makes no lines, or has removed some of them, and
    still tells it that it begins, that it has another size, and that a screen was painted.
    """

    @property
    def is_being_removed(self) -> bool:
        """Whether its lines may be gone: to be asked after each wait."""
        return self._pruning or self._closing or self._closed

    async def on_event(self, event: events.Event) -> None:
        """Leave out what needs lines while it is being taken down."""
        needs_lines = isinstance(event, events.Mount | events.Resize)
        if not (needs_lines and self.is_being_removed):
            await super().on_event(event)

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call this once the screen was painted, unless it is being taken down by then."""

        def painted() -> Any:
            return None if self.is_being_removed else callback(*args, **kwargs)

        return super().call_after_refresh(painted)


class Dialog(Composed, ModalScreen[T]):
    """A box over the view. Subclasses say what is in it, and what it answers."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]

    def __init__(self, title: str, opened_by: str = "") -> None:
        """`opened_by`: an action, whose keys close the dialogue where they have no other use."""
        super().__init__()
        self._title = title
        if opened_by:
            own = self._bindings.key_to_bindings
            bind(self, [one for one in dialog_bindings(opened_by) if one.key not in own])

    def compose(self) -> ComposeResult:
        """The box."""
        with Vertical(id="dialog") as box:
            box.border_title = Text(printable(self._title))
            yield from self.compose_body()

    def call_it(self, title: str) -> None:
        """Show another title."""
        self.query_one("#dialog").border_title = Text(printable(title))

    def compose_body(self) -> Iterable[Widget]:
        """What is in the box."""
        raise NotImplementedError

    def ask(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do what waits for the backend; its answer is dropped once the dialogue was closed.

        It takes the place of what was asked before.
        """

        async def unless_closed() -> None:
            try:
                await work()
            except (NoMatches, MountError):
                if self in self.app.screen_stack:
                    raise

        run_latest(self, unless_closed, "ask")

    def action_close(self) -> None:
        """Close without an answer."""
        self.dismiss(None)

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close with an answer; a dialogue that is no longer in sight has given its own."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


class Lines(Static):
    """Text that is shown as it is: nothing in it is markup."""

    def __init__(self, text: Text | str = "", *, id: str | None = None, classes: str = "") -> None:
        super().__init__(id=id, classes=classes, markup=False)
        self.say(text)

    def say(self, text: Text | str) -> None:
        """Show another text."""
        shown = text if isinstance(text, Text) else Text(printable(text))
        self.plain = shown.plain
        self.update(shown)

    def say_above(self, text: str) -> None:
        """Show another text above the last line, which stays."""
        last = self.plain.rpartition("\n")[2]
        self.say(Text("\n".join(filter(None, (printable(text), last)))))


async def replace_children(place: Widget, *widgets: Widget) -> None:
    """Remove what a widget holds, and mount others in it."""
    await remove_children(place, place.children)
    await place.mount(*widgets)


async def remove_children(place: Widget, children: Sequence[Widget]) -> None:
    """Remove some of what a widget holds, to the end even where the caller is cancelled.

    Textual waits for the tasks of the removed widgets by `asyncio.gather`. A worker that is
    cancelled there cancels those tasks, and the application waits for the same ones: it would end.
    """

    async def removed() -> None:
        await place.remove_children(list(children))

    await asyncio.shield(asyncio.ensure_future(removed()))


def fact_lines(facts: Sequence[tuple[str, str]]) -> Iterable[Widget]:
    """Label and value, one a line; long values wrap under themselves."""
    width = max((len(label) for label, _ in facts), default=0)
    for label, value in facts:
        yield Horizontal(
            Lines(label.ljust(width + 2), classes="label"),
            Lines(value, classes="value"),
            classes="fact",
        )
