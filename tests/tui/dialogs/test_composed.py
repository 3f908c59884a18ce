"""A dialogue or a part of one that is taken down while it waits for the next paint."""

import asyncio
import threading
from typing import Final

from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from kshunt.tui.dialogs.dialog import Composed
from kshunt.tui.dialogs.form import FormField, FormPart
from tests.support.waiting import wait_until_async

DEADLINE_S: Final = 30.0


class Parted(Composed, Vertical):
    """It says something once the screen was painted, in the last of its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def compose(self) -> ComposeResult:
        """Two lines."""
        yield Static(id="first")
        yield Static(id="last")

    def say(self, words: str) -> None:
        """Say it in the last line."""
        self.query_one("#last", Static).update(words)
        self.said.append(words)


async def test_nothing_is_said_in_lines_that_are_being_removed() -> None:
    part = Parted()
    async with App[None]().run_test() as pilot:
        await pilot.app.mount(part)
        part.call_after_refresh(part.say, "here")
        await pilot.pause()
        assert part.said == ["here"]
        part.call_after_refresh(part.say, "gone")
        await part.remove()
        await pilot.pause()
    assert part.said == ["here"]


async def test_a_form_that_is_closed_while_it_reads_goes_nowhere() -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slow(text: str) -> str:
        asked.set()
        assert may_answer.wait(DEADLINE_S)
        return text

    app = App[None]()
    form = FormPart((), (FormField("File", "a.json", "", slow, reads=True),))
    async with app.run_test():
        await app.mount(form)
        # As a worker does that is not cancelled yet when the lines are gone.
        reading = asyncio.create_task(form._read([0]))
        await wait_until_async(asked.is_set, DEADLINE_S, "the form reads")
        await form.remove()
        may_answer.set()
        await reading
