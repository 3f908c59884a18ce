"""Keys that come too early, and terminals that are too small: neither does any harm."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from textual import events
from textual._time import get_time
from textual.geometry import Size

from kshunt.tui.actions.view_names import BROKERS, OVERVIEW, PARTITIONS, VIEWS
from kshunt.tui.app import KshuntApp
from kshunt.tui.changes.wizard.change_service import ChangePreview
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.intent import Intent
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.question_parts import AskPart, PreviewPart
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.terminal.input import GROW, LEAST, KeyDone, grown
from kshunt.tui.text.glyphs import UNICODE
from tests.support.tui.app import RETRY_S, ManualTime, Shown, at_step, dashboard, until_frame
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import HOSTILE, incident
from tests.support.tui.screen import Emulator, emulated, same
from tests.support.tui.shrinks import Shrinking, choose_orders

TINY = [(1, 1), (5, 3), (10, 2), (19, 60), (200, 4)]
OPEN = {
    "the view": (),
    "the palette": ("colon",),
    "a search in the palette": ("colon", "o", "r"),
    "a wizard": ("p",),
    "a dialogue": ("enter",),
    "a question": ("f", "c"),
    "the filter": ("slash", "o", "r"),
    "the help": ("question_mark",),
}


# Terminals that are too small


@pytest.mark.slow
@pytest.mark.parametrize("what", OPEN)
async def test_a_terminal_that_shrank_comes_back_to_the_same_place(shown: Shown, what: str) -> None:
    await shown.press(*OPEN[what])
    await shown.until(lambda: not shown.app.changing or shown.app.screen is not shown.view, what)
    await shown.until_shown()
    before, screen, focused = shown.frame(), shown.app.screen, shown.app.focused
    for size in TINY:
        await shown.pilot.resize_terminal(*size)
        assert shown.app.size == grown(Size(*size))
        # The driver knows its size before the application has heard of it.
        await shown.until(lambda: shown.app.too_small, f"{size} is known to be too small")
        await shown.pilot.press("y", "enter", "escape", "j", "x", "q", "2")
        shown.app.post_message(events.Paste("y"))
        await shown.pilot.resize_terminal(80, 24)
        await until_frame(shown, before, f"{what} as it was, before {size}")
    assert (shown.app.screen, shown.app.focused) == (screen, focused)
    assert shown.backend.changes == []


async def test_a_new_size_comes_through_where_the_process_gets_no_processor(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks of a timer at the clock more time passes than it waits."""
    looks = count()

    def late() -> float:
        task = asyncio.current_task()
        once = task is not None and task.get_name().startswith("set_timer")
        return get_time() + (next(looks) if once else 0.0)

    monkeypatch.setattr("textual.timer._time", SimpleNamespace(get_time=late))
    for lines in (60, 24, 40):
        await shown.pilot.resize_terminal(80, lines)
        await shown.until(lambda lines=lines: len(shown.lines()) == lines, f"{lines} lines")  # type: ignore[misc]
    assert next(looks) > 0


def _says(terminal: Emulator, words: str) -> bool:
    return terminal.text().replace("\n", "").strip() == words


async def test_a_terminal_that_is_too_small_says_so(tmp_path: Path) -> None:
    async with ScriptedBackend(tmp_path / "s", incident()) as backend:
        app = KshuntApp(backend.address, start_view=PARTITIONS, retry_s=(RETRY_S,))
        async with emulated(app) as (pilot, terminal):
            shown = Shown(app, pilot, backend, ManualTime())
            await shown.until(lambda: bool(app.store.jobs), "the first table is shown")
            for width, height in [(10, 2), (40, 4), (15, 50), (9, 3), (10, 2), LEAST]:
                terminal.resize(width, height)
                await pilot.resize_terminal(width, height)
                if app.too_small:
                    words = GROW[: width * height].strip()
                    await shown.until(partial(_says, terminal, words), "it says so")
            await same(app, pilot, terminal, "it has grown to the least that is enough")
            terminal.resize(80, 24)
            await pilot.resize_terminal(80, 24)
            await same(app, pilot, terminal, "it has grown")


async def test_a_terminal_that_is_too_small_can_be_left(shown: Shown) -> None:
    await shown.pilot.resize_terminal(3, 2)
    await shown.pilot.press("q")
    assert shown.app._exit is False
    await shown.pilot.press("ctrl+q")
    assert shown.app._exit is True


@pytest.mark.parametrize("view", VIEWS)
async def test_it_starts_in_a_terminal_of_one_cell(tmp_path: Path, view: str) -> None:
    async with dashboard(tmp_path / "s", incident(), size=(1, 1), start_view=view) as shown:
        assert shown.app.too_small
        await shown.pilot.resize_terminal(80, 24)
        await shown.until(lambda: len(shown.lines()) == 24, "it has grown")
        assert not shown.app.too_small


# Keys that come too early


async def test_a_key_does_nothing_to_what_opened_after_it_was_pressed(shown: Shown) -> None:
    """It was handed to the table, and would come back by way of the app."""
    key = events.Key("escape", None)
    shown.app.post_message(key)
    for _ in range(100):
        if not key.is_forwarded:
            await asyncio.sleep(0)
    assert key.is_forwarded
    dialogue = HelpScreen(PARTITIONS)
    shown.app.push_screen(dialogue)
    await shown.pilot.pause()
    assert shown.app.screen is dialogue
    await shown.pilot.press("escape")
    await shown.closed()


async def test_nothing_is_agreed_to_before_the_question_was_in_sight(shown: Shown) -> None:
    await shown.press("f", "c")
    question = await shown.dialog(ConfirmScreen)
    part = question.query_one(AskPart)
    assert part.was_painted
    part.was_painted = False
    await shown.press("y", "right", "enter")
    assert shown.app.screen is question
    assert shown.backend.changes == []
    part.was_painted = True
    await shown.press("y")
    await shown.until(lambda: shown.backend.changes, "it is agreed to")


async def unpainted(shown: Shown) -> tuple[ConfirmScreen, AskPart]:
    """An open question, of which the app does not know yet that it was painted."""
    await shown.press("f", "c")
    question = await shown.dialog(ConfirmScreen)
    part = question.query_one(AskPart)
    part.was_painted = False
    shown.app.paints_question(part)
    return question, part


async def another_frame(shown: Shown, question: ConfirmScreen) -> None:
    """Let it be painted once more."""
    before_s = shown.app._paints_at_s[question]
    question.refresh()
    await shown.until(lambda: shown.app._paints_at_s[question] > before_s, "a frame is begun")


def tell_painted(shown: Shown, part: AskPart) -> None:
    """Let the app know that it was painted."""
    part.was_painted = True
    shown.app.question_was_painted(part)


async def test_a_key_that_follows_its_question_before_the_app_knows_agrees(shown: Shown) -> None:
    """On a busy machine an answer can be there before it is noted that the question is."""
    question, part = await unpainted(shown)
    burst(shown, "y")
    await shown.pilot.pause()
    assert shown.app.screen is question
    assert shown.backend.changes == []
    tell_painted(shown, part)
    await shown.until(lambda: shown.backend.changes, "it is agreed to")


async def test_a_key_agrees_although_its_question_is_painted_again_before_the_app_knows(
    shown: Shown,
) -> None:
    """A busy machine lays out a dialogue in several frames, and the first one has the question."""
    question, part = await unpainted(shown)
    await another_frame(shown, question)
    burst(shown, "y")
    await another_frame(shown, question)
    tell_painted(shown, part)
    await shown.until(lambda: shown.backend.changes, "it is agreed to")


async def test_a_frame_that_has_to_wait_shows_its_question_once_it_is_sent(shown: Shown) -> None:
    question, part = await unpainted(shown)
    app = shown.app
    # As `DiffApp` does where the terminal is busy.
    app._frame_due = app.set_timer(3_600, app._send_held)
    await another_frame(shown, question)
    assert part not in app._shown_at_s
    early = events.Key("y", "y").set_sender(app)
    app._frame_due.stop()
    app._send_held()
    assert app._shown_at_s[part] > early.time
    app.post_message(early)
    await shown.pilot.pause()
    tell_painted(shown, part)
    await shown.pilot.pause()
    assert shown.backend.changes == []
    await shown.pilot.press("y")
    await shown.until(lambda: shown.backend.changes, "it is agreed to")


async def test_a_key_from_before_the_first_frame_of_a_question_agrees_to_nothing(
    shown: Shown,
) -> None:
    question, part = await unpainted(shown)
    burst(shown, "y")
    await another_frame(shown, question)
    tell_painted(shown, part)
    await shown.pilot.pause()
    assert shown.app.screen is question
    assert shown.backend.changes == []


async def test_a_question_that_is_answered_twice_is_answered_once(shown: Shown) -> None:
    await shown.press("f", "c")
    question = await shown.dialog(ConfirmScreen)
    question.dismiss(True)
    question.dismiss(True)
    await shown.until(lambda: shown.backend.changes, "it is sent")
    await shown.until(lambda: shown.app.screen is not shown.view, "what came of it is shown")
    question.dismiss(False)
    assert shown.app.screen is not shown.view
    await shown.press("escape")
    await shown.closed()
    assert len(shown.backend.changes) == 1


async def test_what_is_said_to_a_view_that_is_being_opened_is_said_once_it_is(
    tmp_path: Path,
) -> None:
    async with dashboard(tmp_path / "s", incident(), start_view=OVERVIEW) as shown:
        shown.app.switch_mode(BROKERS)
        shown.app.say("Said early.")
        await shown.until(lambda: "Said early." in shown.frame(), "it is said")


def test_a_preview_that_is_not_there_yet_does_not_scroll() -> None:
    part = PreviewPart(cast(Intent, None), cast(ChangePreview, None), UNICODE)
    part.scroll(1)
    part.page(1)


async def test_what_is_pasted_is_text_and_no_command(shown: Shown) -> None:
    await shown.press("slash")
    shown.app.post_message(events.Paste(f"{HOSTILE}\x1b[2J\x07\u202e\nmore"))
    await shown.until(lambda: f"{HOSTILE}?[2J??" in shown.frame(), "it is shown as it is")


# Keys that come in one packet


def burst(shown: Shown, *keys: str) -> None:
    """Post all keys together, as a terminal's driver does when they come late over a slow line."""
    for key in keys:
        letter = key if len(key) == 1 else None
        shown.app.post_message(events.Key(key, letter).set_sender(shown.app))


async def test_keys_of_one_packet_act_in_their_order(shown: Shown) -> None:
    await shown.press("slash", "o", "l", "d")
    burst(shown, "ctrl+u", "n", "e", "left", "w", "backspace", "W", "home", "a")
    await shown.until(lambda: "anWe" in shown.frame(), "they did")


async def test_tab_and_enter_between_letters_of_one_packet_part_them(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        Shrinking(shown.backend)
        await choose_orders(shown)
        await shown.press("minus")
        wizard = await at_step(shown, Step.GOAL)
        fields = [wizard.input(place) for place in range(4)]
        burst(shown, "4", "tab", "ctrl+u", "s", "a", "m", "shift+tab", "3", "tab", "end", "e")
        await shown.until(
            lambda: [one.value for one in fields[:2]] == ["3", "same"], "both have it"
        )
        burst(shown, "enter", "ctrl+u", "4", "h", "enter", "y", "e", "s", "enter", "q")
        await shown.until(lambda: [one.value for one in fields[2:]] == ["4h", "yes"], "and these")
        assert wizard.step is Step.CHOICES
        assert wizard.input(4).value.endswith("q")


async def test_a_key_does_not_wait_for_one_whose_dialogue_is_gone(shown: Shown) -> None:
    await shown.press("question_mark")
    burst(shown, "escape")
    await shown.until(lambda: shown.app.screen is shown.view, "it is closed")
    burst(shown, "j", "j")
    await shown.until(lambda: shown.grid.cursor_row == 2, "the next ones act")


async def test_a_key_that_is_lost_holds_up_no_other(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(KeyDone, "bubble", False)
        burst(shown, "j", "j", "j")
        await shown.until(lambda: shown.grid.cursor_row == 3, "all acted")
    burst(shown, "k")
    await shown.until(lambda: shown.grid.cursor_row == 2, "and so does this")
