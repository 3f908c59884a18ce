"""Typed values: each field is checked as it is left, and its mistake is said beneath it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from kshunt.backend.errors import KshuntError
from kshunt.tui.dialogs.dialog import Composed, Lines


@dataclass(frozen=True)
class FormField:
    """One line to type into."""

    label: str
    value: str
    hint: str
    """What can be typed."""
    parse: Callable[[str], Any]
    """From text to value; raises a `KshuntError`."""
    complete: Callable[[str], tuple[str, Sequence[str]]] | None = None
    """For Tab: the text completed, and what else it could become."""
    reads: bool = False
    """Whether `parse` reads files: it is called in a thread then, and may take a while."""


class FormInput(Input):
    """An input whose Tab completes before it leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "Complete", show=False),
        Binding("down", "app.focus_next", "Next", show=False),
        Binding("up", "app.focus_previous", "Previous", show=False),
    ]

    class Complete(Message):
        """What is typed is to be completed."""

    def action_complete(self) -> None:
        """Ask for it."""
        self.post_message(self.Complete())


class FormPart(Composed, VerticalScroll, can_focus=False):
    """Fields below each other. What is typed stays, also while other parts are shown."""

    class Filled(Message):
        """Every field holds what can be used."""

        def __init__(self, part: FormPart, values: tuple[Any, ...]) -> None:
            super().__init__()
            self.part = part
            self.values = values

    class Moved(Message):
        """Another field is typed into, or Enter means something else."""

    def __init__(self, lines: Sequence[str], fields: Sequence[FormField], first: int = 0) -> None:
        """`first` is the number of the first field, among those of every part of a screen."""
        super().__init__(classes="form")
        self.fields = {first + place: field for place, field in enumerate(fields)}
        self._lines = lines
        self._checking = False
        self._completed = ""
        """What was completed last: its hint lists what else it could be."""

    def compose(self) -> ComposeResult:
        """Lines, then label, input and hint of each field."""
        for line in self._lines:
            yield Lines(line, classes="effect")
        for place, field in self.fields.items():
            yield Lines(field.label, classes="label")
            yield Horizontal(
                Lines("> ", classes="prompt"),
                FormInput(field.value, id=f"field-{place}", compact=True),
                classes="entry",
            )
            yield Lines(field.hint, id=f"hint-{place}", classes="hint")

    def on_mount(self) -> None:
        """A cursor that blinks would repaint for ever."""
        for entry in self.query(Input):
            entry.cursor_blink = False

    def begin(self) -> None:
        """Put the cursor into the first field."""
        self.input(min(self.fields)).focus()

    def submit(self) -> None:
        """Answer with what every field holds, or go to the first one that cannot be used."""
        self._leave(max(self.fields))

    def on_resize(self) -> None:
        """Whatever height it gets, what is typed into is in sight."""
        self.call_after_refresh(self.show_focused)

    def show_focused(self) -> None:
        """Scroll to the field that is typed into."""
        for entry in self.query(Input):
            if entry.has_focus:
                entry.scroll_visible(animate=False, immediate=True)

    def on_descendant_focus(self) -> None:
        """Enter means something else in the last field."""
        self.post_message(self.Moved())

    @property
    def next_label(self) -> str:
        """The label of the field that Enter goes to; empty where no field follows."""
        focused = self.screen.focused
        place = self._place(focused) if isinstance(focused, Input) else max(self.fields)
        after = self.fields.get(place + 1)
        return "" if after is None else after.label

    @property
    def own_keys(self) -> str:
        """What else can be pressed where one is, with a comma behind it; mostly nothing."""
        return ""

    @property
    def completes(self) -> bool:
        """Whether Tab completes anything here."""
        return any(field.complete for field in self.fields.values())

    def input(self, place: int) -> Input:
        """The input of a field."""
        return self.query_one(f"#field-{place}", Input)

    def text(self, place: int) -> str:
        """What is typed into a field."""
        value: str = self.input(place).value
        return value

    def hint(self, place: int) -> Lines:
        """The line beneath a field."""
        return self.query_one(f"#hint-{place}", Lines)

    def rehint(self, place: int, hint: str) -> None:
        """Say something else of what can be typed."""
        self.fields[place] = replace(self.fields[place], hint=hint)
        self._say(place, hint)

    def _say(self, place: int, text: str, *, wrong: bool = False) -> None:
        self.hint(place).say(text)
        self.hint(place).set_class(wrong, "-bad")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self._completed:
            place = self._place(event.input)
            self._say(place, self.fields[place].hint)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._leave(self._place(event.input))

    def _place(self, widget: Widget) -> int:
        return int((widget.id or "field-0").removeprefix("field-"))

    def _leave(self, place: int) -> None:
        """Check the fields up to this one, then go to the next one or answer."""
        upto = [number for number in self.fields if number <= place]
        if any(self.fields[number].reads for number in upto):
            if not self._checking:
                self._checking = True
                self.run_worker(self._read(upto))
        else:
            self._go_on({number: self._parsed(number, self.text(number)) for number in upto})

    async def _read(self, upto: Sequence[int]) -> None:
        """Check what has to be read; who types on meanwhile stays where they type."""
        try:
            texts = {number: self.text(number) for number in upto}
            values = {
                number: await asyncio.to_thread(self._parsed, number, text)
                for number, text in texts.items()
            }
            closed = self.is_being_removed
            if not closed and texts == {number: self.text(number) for number in upto}:
                self._go_on(values)
        finally:
            self._checking = False

    def _parsed(self, place: int, text: str) -> Any:
        """What a text comes to, or why it cannot be used."""
        try:
            return self.fields[place].parse(text)
        except KshuntError as error:
            return error

    def _go_on(self, values: Mapping[int, Any]) -> None:
        wrong = [place for place, value in values.items() if isinstance(value, KshuntError)]
        for place in wrong:
            self._say(place, str(values[place]), wrong=True)
        if wrong:
            self.input(wrong[0]).focus()
        elif max(values) == max(self.fields):
            self.post_message(self.Filled(self, tuple(values.values())))
        else:
            self.input(max(values) + 1).focus()

    @on(FormInput.Complete)
    async def _complete(self) -> None:
        """Complete what is typed; go to the next field where there is nothing to complete."""
        focused = self.screen.focused
        # By the time that the key is dealt with, the next page's field may have the focus.
        if not isinstance(focused, Input) or self._place(focused) not in self.fields:
            return
        place = self._place(focused)
        complete = self.fields[place].complete
        text: str = focused.value
        others: Sequence[str] = ()
        if complete is not None:
            text, others = await asyncio.to_thread(complete, focused.value)
            if self.is_being_removed:
                return
        if text == focused.value and not others:
            self._next(place)
            return
        self._completed = text
        focused.value = text
        focused.cursor_position = len(text)
        if others:
            self._say(place, "  ".join(others))

    def _next(self, place: int) -> None:
        """To the next field; from the last one on, as Enter does."""
        if place < max(self.fields):
            self.input(place + 1).focus()
        else:
            self._leave(place)


def form_hint(parts: Iterable[FormPart], goes_on: str) -> str:
    """What Enter and Tab do where the cursor is, in words; `goes_on`: what the last field does."""
    found = list(parts)
    label = next((part.next_label for part in found), "")
    enter = f"Enter goes to {label}" if label else f"Enter {goes_on}"
    own = "".join(part.own_keys for part in found)
    return f"{own}{enter}, {'Tab completes, ' if any(part.completes for part in found) else ''}"
