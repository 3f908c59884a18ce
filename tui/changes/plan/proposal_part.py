"""What the plan wizard shows: brokers to choose from, a proposal, rehearsals side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input

from kshunt.backend.domain.planning.proposal import note_sentences
from kshunt.backend.domain.planning.requests import PlanAnswer
from kshunt.tui.changes.plan.diff_grid import DiffGrid
from kshunt.tui.changes.plan.proposal_tables import CHANGE, notes_table
from kshunt.tui.changes.plan.proposal_words import TonedLine, summary
from kshunt.tui.changes.wizard.change_service import READ_ONLY
from kshunt.tui.dialogs.dialog import Composed, Lines
from kshunt.tui.dialogs.form import FormField, FormPart
from kshunt.tui.grid.grid import Grid
from kshunt.tui.tables.model import Table
from kshunt.tui.text.glyphs import Glyphs

TALL: Final = 36
"""From this height of the terminal, in lines, all tables stand below each other."""
PICKED_MOST: Final = 6
"""Brokers to choose from that are in sight at the same time."""
AROUND: Final = 6
"""Cells of a line that are not the table's: frame, gaps, gutter."""
_TALL_BROKERS: Final = 12
_TALL_NOTES: Final = 8


def said_lines(said: Iterable[TonedLine]) -> Iterable[Widget]:
    """Lines in their tones."""
    for text, tone in said:
        classes = "blast" if tone == "strong" else f"-{tone}" if tone else ""
        yield Lines(text, classes=classes)


class PickForm(FormPart):
    """Fields below a list of brokers: marks become ids in the first field, and the other way."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take the marked brokers", show=False),
        Binding("tab", "fields", "To fields", show=False),
    ]

    def __init__(
        self, head: str, fields: Sequence[FormField], picked: Table | None, glyphs: Glyphs
    ) -> None:
        """Without `picked` there is no list."""
        super().__init__((), fields)
        self._head, self._picked, self._glyphs = head, picked, glyphs

    def compose(self) -> ComposeResult:
        """A line, the list, then the fields."""
        yield Lines(self._head, classes="effect")
        if self._picked is not None:
            grid = Grid(id="pick", marks=True, glyphs=self._glyphs)
            grid.styles.height = min(len(self._picked), PICKED_MOST) + 1
            yield grid
        yield from super().compose()

    def on_mount(self) -> None:
        """Show the brokers, those marked that are typed already."""
        for grid in self.query(Grid):
            assert self._picked is not None
            grid.show_table(self._picked)
            self._mark()

    def begin(self) -> None:
        """With the list, where there is one."""
        if self._picked is not None:
            self.query_one(Grid).focus()
            self.scroll_home(animate=False)
        else:
            super().begin()

    @property
    def _in_list(self) -> bool:
        return any(grid.has_focus for grid in self.query(Grid))

    @property
    def own_keys(self) -> str:
        """In the list brokers can be marked; in a field a blank is typed."""
        if not self._in_list:
            return ""
        return "Space marks, Tab goes to fields, " if self._ids() else "Space marks, "

    @property
    def next_label(self) -> str:
        """From the list Enter goes to the fields, until brokers are chosen: the rest has values."""
        if not self._in_list:
            return super().next_label
        return "" if self._ids() else self.fields[min(self.fields)].label

    def action_take(self) -> None:
        """Answer with the chosen brokers and what the other fields hold; without any, to them."""
        if self._ids():
            self.submit()
        else:
            super().begin()

    def action_fields(self) -> None:
        """From the list to the fields."""
        super().begin()

    def _ids(self) -> list[int]:
        parts = self.text(0).replace(",", " ").split()
        return [int(part) for part in parts if part.isascii() and part.isdigit()]

    @on(Grid.MarksChanged)
    def _marked(self) -> None:
        """Ids stay in the order in which they were chosen."""
        marked, typed = self.query_one(Grid).marked, self._ids()
        if set(typed) != marked:
            new = sorted(id for id in marked if isinstance(id, int) and id not in typed)
            still_marked = [id for id in typed if id in marked]
            self.input(0).value = ", ".join(map(str, [*still_marked, *new]))
            self.post_message(self.Moved())

    @on(Input.Changed, "#field-0")
    def _typed(self) -> None:
        self._mark()

    def _mark(self) -> None:
        for grid in self.query(Grid):
            wanted = {id for id in self._ids() if grid.table and grid.table.row_of(id) is not None}
            if wanted != grid.marked:
                grid.clear_marks()
                grid.mark(wanted)


class Tabs(Lines):
    """Which of some parts is in sight: `[Brokers 5]  Partitions 12  Notes 3`."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """`names` says what each part is called, by its id."""
        super().__init__("", classes="hint")
        self.names = dict(names)
        self.chosen = next(iter(names))

    def on_mount(self) -> None:
        """Say it."""
        self.show()

    def turn(self) -> str:
        """Show the next part; returns its id."""
        ids = list(self.names)
        self.chosen = ids[(ids.index(self.chosen) + 1) % len(ids)]
        self.show()
        return self.chosen

    def show(self) -> None:
        """Say which is in sight."""
        words = (f"[{n}]" if id == self.chosen else n for id, n in self.names.items())
        self.say("  ".join(words))


@dataclass(frozen=True, eq=False, repr=False)
class Proposed:
    """A proposal, with the tables that were made of it in a thread.

    It has no `repr`: Textual asks for one of each work that it starts, with all its arguments.
    """

    answer: PlanAnswer
    brokers: Table
    diff: Table


class ProposalPart(Composed, Vertical):
    """What a plan does: in sentences, by broker, by partition, and what it does not."""

    def __init__(self, proposed: Proposed, glyphs: Glyphs, *, read_only: bool) -> None:
        super().__init__(classes="part")
        self.proposed = proposed
        self._glyphs, self._read_only = glyphs, read_only

    def compose(self) -> ComposeResult:
        """Sentences, then one of three tables, or all of them."""
        answer, glyphs = self.proposed.answer, self._glyphs
        if self._read_only:
            yield Lines(READ_ONLY, classes="-warn", id="banner")
        yield from said_lines(summary(answer, glyphs))
        names = {
            "plan-brokers": f"Brokers {len(self.proposed.brokers):,}",
            "plan-diff": f"Partitions {len(self.proposed.diff):,}",
            "plan-notes": f"Notes {len(note_sentences(answer.proposal.notes)):,}",
        }
        yield Tabs(names)
        yield Grid(id="plan-brokers", glyphs=glyphs)
        yield DiffGrid(CHANGE, id="plan-diff", glyphs=glyphs)
        yield Grid(id="plan-notes", glyphs=glyphs)

    def on_mount(self) -> None:
        """Fill the tables."""
        self.query_one("#plan-diff", Grid).empty_text = "Nothing changes."
        self.query_one("#plan-notes", Grid).empty_text = "The plan reaches all of the goal."
        self.query_one("#plan-brokers", Grid).show_table(self.proposed.brokers)
        self.query_one("#plan-diff", Grid).show_table(self.proposed.diff)
        self._fit()

    def begin(self) -> None:
        """The keys move in the table in sight."""
        self.query_one(f"#{self.query_one(Tabs).chosen}").focus()

    def turn(self) -> None:
        """To the next table."""
        self.query_one(Tabs).turn()
        self._fit()
        self.begin()

    def on_resize(self, event: events.Resize) -> None:
        """Show the tables that there is room for."""
        self._fit()

    def _fit(self) -> None:
        tall, chosen = self.app.size.height >= TALL, self.query_one(Tabs).chosen
        notes = self.proposed.answer.proposal.notes
        wrapped = notes_table(notes, self.app.size.width - AROUND)
        self.query_one("#plan-notes", Grid).show_table(wrapped)
        heights = {
            "plan-brokers": min(len(self.proposed.brokers), _TALL_BROKERS) + 1,
            "plan-diff": None,
            "plan-notes": min(len(wrapped), _TALL_NOTES) + 1,
        }
        for id, height in heights.items():
            grid = self.query_one(f"#{id}", Grid)
            grid.display = id == chosen or (tall and (id != "plan-notes" or bool(notes)))
            grid.styles.height = height if tall and height is not None else "1fr"
