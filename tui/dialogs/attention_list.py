"""Everything that is wrong, in full; Enter goes where it is to be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from kshunt.tui.actions import bind, dialog_bindings, key_of
from kshunt.tui.dialogs.dialog import Dialog, Lines

if TYPE_CHECKING:
    from kshunt.tui.tables.targets import Item


class AttentionScreen(Dialog[None]):
    """The lines of which the head of the screen shows the first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "close", "Close", show=False),
        Binding("enter", "go", "Go there", show=False),
        Binding("j,down", "choose(1)", "Down", show=False),
        Binding("k,up", "choose(-1)", "Up", show=False),
    ]

    def __init__(self, items: Sequence[Item], mend: Callable[[Item], None]) -> None:
        """`mend` opens the change that helps."""
        super().__init__("Attention", opened_by="attention")
        bind(self, dialog_bindings("fix", "mend"))
        self._items, self._mend = tuple(items), mend
        self._chosen = 0

    def compose_body(self) -> Iterable[Widget]:
        """The lines, the most urgent first."""
        with VerticalScroll(id="details", can_focus=False):
            for item in self._items:
                keys = f"  [{item.target.keys}]" if item.target is not None else ""
                yield Lines(f"! {item.text}{keys}", classes="effect item")
            if not self._items:
                yield Lines("The backend reports no problem.")
        hint = f"j k choose, Enter opens it, {key_of('fix')} fixes it, Esc closes"
        hint = hint if self._items else "Esc closes"
        yield Lines(hint, classes="hint")

    def on_mount(self) -> None:
        """The first one is chosen."""
        self._show_chosen()

    def _show_chosen(self) -> None:
        for place, line in enumerate(self.query(".item")):
            line.set_class(place == self._chosen, "-chosen")
            if place == self._chosen:
                line.scroll_visible(animate=False)

    def action_choose(self, steps: int) -> None:
        """Choose another line."""
        self._chosen = min(max(self._chosen + steps, 0), max(len(self._items) - 1, 0))
        self._show_chosen()

    def action_go(self) -> None:
        """Close, and go where the line leads."""
        from kshunt.tui.shell.dashboard import Dashboard
        from kshunt.tui.shell.navigation import go

        item = self._items[self._chosen] if self._items else None
        self.dismiss(None)
        if item is not None and item.target is not None:
            assert isinstance(self.app, Dashboard)
            go(self.app, item.target)

    def action_mend(self) -> None:
        """Close, and open the change that repairs the chosen thing."""
        item = self._items[self._chosen] if self._items else None
        self.dismiss(None)
        if item is not None:
            self._mend(item)
