"""Every key of a view, by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from kshunt.tui.actions import Action, help_groups, key_name
from kshunt.tui.actions.view_names import TOPICS
from kshunt.tui.dialogs.dialog import CLOSE_KEYS, SCROLL_KEYS, Dialog, Lines, fact_lines

SIGNS: Final = (
    ("?", "Unknown; it is not 0."),
    ("3*", "The preferred replica; it should lead, and is coloured if it does not."),
    ("leader -", "It leads, and is being removed."),
    ("L F", "Throttled on the leader's side, on the follower's side."),
    ("never", "Not at this rate: it falls behind faster than it catches up."),
    (">1m00s", "At least; some replicas report nothing."),
)

SIGNS_OF: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    TOPICS: (
        ("LSkw, DSkw", "The most leaders, the most data on one broker; 1.0x is an even share."),
        ("Copy", "The share of the bytes of added replicas that is there."),
        ("Under", "Partitions that are under-replicated."),
        ("AtMin", "Partitions at min ISR; red if some are under it and refuse writes."),
    )
}
"""What only one view has."""


class HelpScreen(Dialog[None]):
    """From the registry, so that it cannot lie."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE_KEYS,
        *SCROLL_KEYS,
    ]

    def __init__(self, view: str, cluster: Sequence[tuple[str, str]] = ()) -> None:
        """`cluster`: labels and values that say which cluster is shown."""
        super().__init__(f"Keys of the {view} view", opened_by="help")
        self._view = view
        self._cluster = cluster

    def compose_body(self) -> Iterable[Widget]:
        """The groups."""
        with VerticalScroll(id="help"):
            for group, actions in help_groups(self._view).items():
                yield Lines(group, classes="group")
                yield from fact_lines(
                    [
                        (" ".join(key_name(key) for key in action.keys).ljust(12), words(action))
                        for action in actions
                    ]
                )
            yield Lines("Signs", classes="group")
            signs = (*SIGNS_OF.get(self._view, ()), *SIGNS)
            yield from fact_lines([(sign.ljust(12), meaning) for sign, meaning in signs])
            if self._cluster:
                yield Lines("This cluster", classes="group")
                yield from fact_lines([(label.ljust(12), value) for label, value in self._cluster])
        yield Lines("Esc closes", classes="hint")

    def on_mount(self) -> None:
        """Let the arrow keys scroll."""
        self.query_one("#help").focus()

    def action_scroll(self, rows: int) -> None:
        """Scroll as the arrow keys do."""
        self.query_one("#help").scroll_relative(y=rows, animate=False)


def words(action: Action) -> str:
    """What an action is called, and what it does where the name does not say it all."""
    return action.title if action.group == "Move" else f"{action.title}. {action.help}"
