"""What a dialogue holds is replaced whole, however soon the next change comes."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable
from functools import partial

import pytest
from textual.app import App, ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.changes.wizard.question_parts import AnswerPart, AskPart
from kshunt.tui.dialogs.dialog import replace_children
from kshunt.tui.dialogs.form import FormField, FormPart
from kshunt.tui.dialogs.rate_band import RateBandScreen
from kshunt.tui.text.glyphs import UNICODE
from kshunt.tui.views.operations import operation_dialog
from kshunt.tui.workers import run_latest
from tests.support.tui.app import Shown

TURNS_MAX = 12
"""Turns of the event loop in which a removal ends, and some more."""


class Rows(App[None]):
    """Rows of the kind that dialogues replace."""

    def compose(self) -> ComposeResult:
        """Five rows."""
        rows = (Horizontal(Static("label"), Static("value")) for _ in range(5))
        yield VerticalScroll(*rows, id="details")


@pytest.mark.parametrize("turns", range(TURNS_MAX))
async def test_a_replacement_that_is_cut_short_does_not_end_the_application(turns: int) -> None:
    app = Rows()
    async with app.run_test() as pilot:
        box = app.query_one("#details")

        async def replace() -> None:
            await replace_children(box, Static("new"))

        run_latest(app, replace, "ask")
        for _ in range(turns):
            await asyncio.sleep(0)
        await run_latest(app, replace, "ask").wait()
        await pilot.pause()
        assert app.is_running
        assert [type(child) for child in box.children] == [Static]


async def test_what_is_asked_for_last_takes_the_place_of_the_rest_of_its_group() -> None:
    app, done = Rows(), list[str]()
    async with app.run_test():

        async def work(name: str) -> None:
            done.append(name)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            first = run_latest(app, partial(work, "first"), "ask")
            other = run_latest(app, partial(work, "other"), "watch")
            last = run_latest(app, partial(work, "last"), "ask")
            for worker in (other, last):
                await worker.wait()
            del first
            gc.collect()
        assert done == ["other", "last"]
        assert [one for one in caught if issubclass(one.category, RuntimeWarning)] == []


ANSWER = ChangeAnswer(False, "op-1", (Result("op-1", 0, "NONE", ""),))
INTENT = Intent("Set", "Set", TargetCluster("kSh-9xQm", "127.0.0.1:9092"), (), lambda *_: ANSWER)


@pytest.mark.parametrize(
    "made",
    [
        lambda: AnswerPart(INTENT, ANSWER, UNICODE),
        lambda: AskPart(INTENT, read_only=False),
        lambda: FormPart(("Why",), (FormField("Why", "", "", str),)),
    ],
)
async def test_a_part_that_is_taken_down_before_its_lines_came_ends_nothing(
    made: Callable[[], Widget], shown: Shown
) -> None:
    part = made()
    shown.view.mount(part)
    await part.remove()
    await shown.pilot.pause()
    assert shown.app._exception is None


async def test_a_dialogue_that_is_closed_before_its_lines_came_ends_nothing(shown: Shown) -> None:
    shown.app.push_screen(RateBandScreen("broker 2", "20MB/s", "80MB/s", "10", ""))
    shown.app.pop_screen()
    await shown.pilot.pause()
    assert shown.app._exception is None
    assert shown.app.screen is shown.view


async def test_an_operation_whose_lines_come_after_it_was_closed_ends_nothing(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialogue = operation_dialog.WatchScreen(shown.app, "op-1")
    read = asyncio.Event()

    async def closed_meanwhile(*_: object) -> tuple[str, list[object]]:
        read.set()
        # What is in it has gone some turns before its work is cancelled.
        while dialogue.query("#watched"):  # noqa: ASYNC110
            await asyncio.sleep(0)
        return "op-1", []

    monkeypatch.setattr(operation_dialog, "operation_lines", closed_meanwhile)
    shown.app.push_screen(dialogue)
    await read.wait()
    shown.app.pop_screen()
    await shown.until(lambda: not dialogue.is_running, "the dialogue is closed")
    assert shown.app._exception is None
