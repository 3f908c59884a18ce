"""The safety view of a shrink, as a wizard's preview: more lines than there is room for."""

from __future__ import annotations

from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll

from kshunt.tui.changes.wizard.change_service import READ_ONLY, ChangePreview
from kshunt.tui.changes.wizard.intent import Intent
from kshunt.tui.changes.wizard.shrink_findings import headline, safety_lines
from kshunt.tui.dialogs.dialog import Composed, Lines
from kshunt.tui.grid.pane import Pane
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.tables.targets import Item
from kshunt.tui.text.glyphs import Glyphs

AROUND: Final = 8
"""Lines of the screen that are not the view's: frame, steps, headline, what is below, keys."""
LEAST: Final = 3


class SafetyPart(Composed, Vertical):
    """What a shrink would do, what speaks against it, who is concerned."""

    def __init__(
        self,
        intent: Intent,
        looked: ChangePreview,
        glyphs: Glyphs,
        removal: Item | None = None,
        *,
        read_only: bool,
    ) -> None:
        """`removal` is what takes partitions of the topic away already."""
        super().__init__(classes="part")
        self.removal = removal
        self._intent, self._looked, self._glyphs = intent, looked, glyphs
        self._read_only = read_only
        self._most = 0
        """Lines that there are for it; 0 until that is known."""

    @property
    def refused(self) -> bool:
        """True where it could not be started."""
        check, request = self._looked.check, self._intent.shrink
        assert check is not None
        assert request is not None
        return self._looked.refused is not None or bool(check.refusals(request.insisted))

    @property
    def insistable(self) -> bool:
        """True where nothing but the operator's word is missing."""
        check, request = self._looked.check, self._intent.shrink
        assert check is not None
        assert request is not None
        refusals = check.refusals(request.insisted)
        return bool(refusals) and all(one.insistable for one in refusals)

    def compose(self) -> ComposeResult:
        """The verdict, the lines, and how many more there are."""
        if self._read_only:
            yield Lines(READ_ONLY, classes="-warn", id="banner")
        yield Lines("", id="verdict", classes="headline")
        with VerticalScroll(id="safety", can_focus=False):
            yield Pane(glyphs=self._glyphs, id="safety-lines")
        yield Lines("", id="below", classes="hint")

    def on_mount(self) -> None:
        """Say it."""
        words, tone = self._headline()
        line = self.query_one("#verdict", Lines)
        line.say(words)
        line.add_class(f"-{tone}")
        self._fit()
        request, check = self._intent.shrink, self._looked.check
        assert check is not None
        assert request is not None
        findings = safety_lines(check, request, self._glyphs)
        lines = [*self._refusal(), *self._leaving(), *findings, *self._notes()]
        self.query_one(Pane).show(f"{check.topic}: what to know before", lines)
        self.call_after_refresh(self._say_below)

    def _headline(self) -> tuple[str, str]:
        check, request = self._looked.check, self._intent.shrink
        assert check is not None
        assert request is not None
        if self._looked.refused is not None:
            return f"It cannot start: {self._looked.refused.title}.", "bad"
        return headline(check, request.insisted)

    def _refusal(self) -> list[PaneLine]:
        """Why the rehearsal refused the shrink, in addition to the findings."""
        error = self._looked.refused
        if error is None:
            return []
        lines = [PaneLine("Refused", error.message, "bad", 6)]
        return [*lines, PaneLine("", error.advice, "dim", 4)] if error.advice else lines

    def _leaving(self) -> list[PaneLine]:
        """What removes partitions already; the wizard's line of keys names its key."""
        return [] if self.removal is None else [PaneLine("Leaving", self.removal.text, "warn", 2)]

    def _notes(self) -> list[PaneLine]:
        """What the backend says it will do; its warnings are above, as findings."""
        notes = [PaneLine("", note, "", 4) for note in self._looked.rehearsal.notes]
        return [notes[0]._replace(label="It says"), *notes[1:]] if notes else []

    def on_resize(self, event: events.Resize) -> None:
        """Show the lines that there is room for."""
        self._fit()
        self.call_after_refresh(self._say_below)

    def fit(self, most: int) -> None:
        """Take `most` lines at most, so that the keys below stay in sight."""
        self._most = most
        self._fit()
        self.call_after_refresh(self._say_below)

    def _fit(self) -> None:
        around = AROUND + self._read_only
        heights = [self.app.size.height - around]
        if self._most:
            others = (one for one in self.children if one.id != "safety")
            taken = sum(one.outer_size.height + one.styles.margin.height for one in others)
            heights.append(self._most - taken)
        self.query_one("#safety").styles.max_height = max(min(heights), LEAST)

    def _say_below(self) -> None:
        """How many lines are out of sight."""
        for view in self.query("#safety"):
            left = max(round(view.max_scroll_y - view.scroll_offset.y), 0)
            words = f"{left:,} more below: j k scroll" if left else "that is everything"
            self.query_one("#below", Lines).say(words)

    def scroll(self, rows: int) -> None:
        """Move through the lines."""
        self.query_one("#safety").scroll_relative(y=rows, animate=False)
        self.call_after_refresh(self._say_below)

    def page(self, pages: int) -> None:
        """Move through the lines by whole pages."""
        self.scroll(pages * max(self.query_one("#safety").size.height - 1, 1))
