"""Every key of a view, by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input

from kshunt.tui.actions import Action, bind, dialog_bindings, help_groups, key_name
from kshunt.tui.actions.view_names import TOPICS
from kshunt.tui.dialogs.dialog import PAGE_KEYS, SCROLL_KEYS, Dialog, Lines, fact_lines

SIGNS: Final = (
    ("?", "Unknown; it is not 0."),
    ("3*", "The preferred replica; it should lead, and is coloured if it does not."),
    ("leader -", "It leads, and is being removed."),
    ("L F", "Throttled on the leader's side, on the follower's side."),
    ("never", "Not at this rate: it falls behind faster than it catches up."),
    (">1m00s", "At least; some replicas report nothing."),
    ("s e t", "On the time bar: a start, an end, a change of a throttle."),
    ("i ! :", "On the time bar: replicas out of the ISR, another incident, another change."),
)

SIGNS_OF: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    TOPICS: (
        ("LSkw, DSkw", "The most leaders, the most data on one broker; 1.0x is an even share."),
        ("Copy", "The share of the bytes of added replicas that is there."),
        ("Under", "Partitions that are under-replicated."),
        ("AtMin", "Partitions at min ISR; `!` if some are under it and refuse writes."),
    )
}
"""What only one view has."""


HINT: Final = "/ finds a key, j k scroll, Esc closes"
TYPED: Final = "Enter keeps these, Esc shows all"
NOTHING: Final = "Esc shows all"
KEPT: Final = "/ changes it, Esc shows all"
LABEL: Final = 12
"""Cells of a row's keys, at the least."""


class HelpRow(NamedTuple):
    """One line of the help."""

    keys: tuple[str, ...]
    """As they are written for people; or the sign, or the label, that the line explains."""
    text: str


class HelpGroup(Vertical):
    """Rows with a title, of which a search hides some."""

    def __init__(self, title: str, rows: Sequence[HelpRow]) -> None:
        super().__init__(classes="part")
        self._title = title
        self._rows = tuple(rows)

    def compose(self) -> Iterable[Widget]:
        """The title, then the rows."""
        yield Lines(self._title, classes="group")
        yield from fact_lines([(" ".join(row.keys).ljust(LABEL), row.text) for row in self._rows])

    def show(self, searched: str, *, by_key: bool) -> int:
        """Show only what matches; the answer is how much that is."""
        found = [matches(row, searched, by_key=by_key) for row in self._rows]
        for line, shown in zip(self.query(".fact"), found, strict=True):
            line.display = shown
        self.display = any(found)
        return sum(found)

    def has_key(self, key: str) -> bool:
        """Whether a row is about this key."""
        return any(key in row.keys for row in self._rows)


class HelpScreen(Dialog[None]):
    """From the registry, so that it cannot lie."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", show=False),
        Binding("enter,q", "leave", "Close", show=False),
        *SCROLL_KEYS,
        *PAGE_KEYS,
    ]

    def __init__(self, view: str, session: Sequence[tuple[str, str]] = ()) -> None:
        """`session`: labels and values that say which cluster is shown, and how."""
        super().__init__(f"Keys of the {view} view")
        bind(self, dialog_bindings("help", "leave"))
        self._view = view
        self._session = session

    def compose_body(self) -> Iterable[Widget]:
        """The line to type into, and the groups."""
        with Horizontal(id="search", classes="entry"):
            yield Lines("/ ", classes="prompt")
            yield Input(id="searched", compact=True, placeholder="a key, or words")
        with VerticalScroll(id="help"):
            for group, actions in help_groups(self._view).items():
                yield HelpGroup(group, [action_row(action) for action in actions])
            signs = (*SIGNS_OF.get(self._view, ()), *SIGNS)
            yield HelpGroup("Signs", [HelpRow((sign,), meaning) for sign, meaning in signs])
            if self._session:
                facts = [HelpRow((label,), value) for label, value in self._session]
                yield HelpGroup("This session", facts)
            yield Lines("", id="nothing")
        yield Lines(HINT, id="keys", classes="hint")

    def on_mount(self) -> None:
        """Let the arrow keys scroll; the line to type into is there once it is wanted."""
        self._entry.cursor_blink = False
        self.query_one("#search").display = False
        self.query_one("#nothing").display = False
        self.query_one("#help").focus()

    @property
    def _entry(self) -> Input:
        return self.query_one("#searched", Input)

    def action_search(self) -> None:
        """Type what is looked for."""
        self.query_one("#search").display = True
        self._entry.focus()
        self.query_one("#keys", Lines).say(TYPED)

    @on(Input.Changed)
    def _show_found(self) -> None:
        searched = self._entry.value.strip()
        groups = list(self.query(HelpGroup))
        by_key = any(group.has_key(searched) for group in groups)
        found = sum(group.show(searched, by_key=by_key) for group in groups)
        nothing = self.query_one("#nothing", Lines)
        nothing.say(f"No key matches '{searched}'.")
        nothing.display = not found
        if self.query_one("#search").display:
            self.query_one("#keys", Lines).say(TYPED if found else NOTHING)
        self.query_one("#help").scroll_home(animate=False)

    @on(Input.Submitted)
    def _keep(self) -> None:
        """Read what was found; an empty line goes."""
        kept = bool(self._entry.value.strip())
        self.query_one("#search").display = kept
        self.query_one("#help").focus()
        self.query_one("#keys", Lines).say(KEPT if kept else HINT)

    def action_close(self) -> None:
        """Show all keys again; close where all are shown."""
        if not self.query_one("#search").display:
            self.dismiss(None)
            return
        self._entry.value = ""
        self._keep()

    def action_leave(self) -> None:
        """Close, also with keys that a search hides."""
        self.dismiss(None)

    def action_scroll(self, rows: int) -> None:
        """Scroll as the arrow keys do."""
        self.query_one("#help").scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll a screenful, also while one types."""
        place = self.query_one("#help")
        place.scroll_relative(y=pages * place.size.height, animate=False)


def matches(row: HelpRow, searched: str, *, by_key: bool) -> bool:
    """Whether a row is what somebody looks for.

    Args:
        row: the row.
        searched: words, each of which the row must have; or a key.
        by_key: whether that is a key. Then only its rows match, and `C` is not `c`.
    """
    if by_key:
        return searched in row.keys
    text = f"{' '.join(row.keys)} {row.text}".lower()
    return all(word in text for word in searched.lower().split())


def action_row(action: Action) -> HelpRow:
    """An action as a row."""
    return HelpRow(tuple(key_name(key) for key in action.keys), words(action))


def words(action: Action) -> str:
    """What an action is called, and what it does where the name does not say it all."""
    return action.title if action.group == "Move" else f"{action.title}. {action.help}"
