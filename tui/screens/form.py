"""Typed values: each field is checked as it is left, and its mistake is said beneath it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input

from backend.errors import KshuntError
from tui.screens.dialog import Dialog, Lines


@dataclass(frozen=True)
class FormField:
    """One line to type into."""

    label: str
    value: str
    hint: str
    """What can be typed."""
    parse: Callable[[str], Any]
    """From text to value; raises a `KshuntError`. Called in a thread, so it may read files."""
    complete: Callable[[str], tuple[str, Sequence[str]]] | None = None
    """For Tab: the text completed, and what else it could become."""


class FormInput(Input):
    """An input whose Tab completes before it leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "screen.complete", "Complete", show=False),
        Binding("down", "app.focus_next", "Next", show=False),
        Binding("up", "app.focus_previous", "Previous", show=False),
    ]


class FormScreen(Dialog[tuple[Any, ...]]):
    """Answers with the parsed values, or None."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, title: str, facts: Sequence[str], fields: Sequence[FormField]) -> None:
        super().__init__(title)
        self.fields = tuple(fields)
        self._facts = facts
        self._checking = False
        self._completed = ""
        """What was completed last: its hint lists what else it could be."""

    def compose_body(self) -> Iterable[Widget]:
        """Facts, then label, input and hint of each field."""
        with VerticalScroll(can_focus=False):
            for fact in self._facts:
                yield Lines(fact, classes="effect")
            for place, field in enumerate(self.fields):
                yield Lines(field.label, classes="label")
                with Horizontal(classes="entry"):
                    yield Lines("> ", classes="prompt")
                    yield FormInput(field.value, id=f"field-{place}", compact=True)
                yield Lines(field.hint, id=f"hint-{place}", classes="hint")
        tab = ", Tab completes" if any(field.complete for field in self.fields) else ""
        yield Lines(f"Enter goes on{tab}, Esc changes nothing", classes="hint")

    def on_mount(self) -> None:
        """Begin in the first field; a cursor that blinks would repaint for ever."""
        for entry in self.query(Input):
            entry.cursor_blink = False
        self.input(0).focus()

    def input(self, place: int) -> Input:
        """The input of a field."""
        return self.query_one(f"#field-{place}", Input)

    def hint(self, place: int) -> Lines:
        """The line beneath a field."""
        return self.query_one(f"#hint-{place}", Lines)

    def _say(self, place: int, text: str, *, wrong: bool = False) -> None:
        self.hint(place).say(text)
        self.hint(place).set_class(wrong, "-bad")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if event.value != self._completed:
            place = self._place(event.input)
            self._say(place, self.fields[place].hint)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        if not self._checking:
            self._checking = True
            self.run_worker(self._check(self._place(event.input)))

    def _place(self, widget: Widget) -> int:
        return int((widget.id or "field-0").removeprefix("field-"))

    async def _check(self, place: int) -> None:
        """Check up to this field, then go on to the next one or answer."""
        try:
            last = place == len(self.fields) - 1
            values = [await self._parsed(number) for number in range(place + 1)]
            if any(value is _WRONG for value in values):
                self.input(values.index(_WRONG)).focus()
            elif last:
                self.dismiss(tuple(values))
            else:
                self.input(place + 1).focus()
        finally:
            self._checking = False

    async def _parsed(self, place: int) -> Any:
        try:
            return await asyncio.to_thread(self.fields[place].parse, self.input(place).value)
        except KshuntError as error:
            self._say(place, str(error), wrong=True)
            return _WRONG

    async def action_complete(self) -> None:
        """Complete what is typed; go to the next field where there is nothing to complete."""
        focused = self.focused
        if not isinstance(focused, Input):
            return
        place = self._place(focused)
        complete = self.fields[place].complete
        if complete is None:
            self.focus_next()
            return
        text, others = await asyncio.to_thread(complete, focused.value)
        if text == focused.value and not others:
            self.focus_next()
            return
        self._completed = text
        focused.value = text
        focused.cursor_position = len(text)
        if others:
            self._say(place, "  ".join(others))


_WRONG = object()
"""A field whose text cannot be used."""
