"""What a dialogue holds is replaced whole, however soon the next change comes."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App, ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static
from textual.worker import Worker

from kshunt.tui.dialogs.dialog import replace_children

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

        app.run_worker(replace, group="ask", exclusive=True)  # type: ignore[arg-type]
        for _ in range(turns):
            await asyncio.sleep(0)
        second: Worker[None] = app.run_worker(replace, group="ask", exclusive=True)
        await second.wait()
        await pilot.pause()
        assert app.is_running
        assert [type(child) for child in box.children] == [Static]
