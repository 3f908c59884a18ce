"""The fader: rates that follow the keys within a band that was confirmed once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.domain.operations.approval import ProposalState, ShownProposal
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.tui.actions.view_names import BROKERS, THROTTLES
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.dialogs.form import FormPart
from kshunt.tui.dialogs.rate_band import RateBandScreen
from kshunt.tui.facts.rate_band import RateBand
from tests.support.tui.app import (
    Shown,
    answer_form,
    dashboard,
    focused,
    go_through,
    press_at_random,
)
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import incident
from tests.support.tui.replay import recorded

MB = 1_000_000
RATE = 25 * MB
"""What every broker of the incident has."""
VIEWS = (BROKERS, THROTTLES)


@asynccontextmanager
async def at_broker_2(folder: Path, view: str = BROKERS, **options: Any) -> AsyncIterator[Shown]:
    """The view, with the cursor on broker 2."""
    async with dashboard(folder / "s", incident(), start_view=view, **options) as shown:
        await shown.press("g", "j")
        assert "2" in shown.cursor
        yield shown


async def confirm(
    shown: Shown, low: str = "20MB/s", high: str = "31MB/s", minutes: str = "10", why: str = "test"
) -> None:
    """Confirm a band for the row under the cursor."""
    await shown.pilot.press("B")
    form = await shown.dialog(RateBandScreen)
    part = form.query_one(FormPart)
    for place, value in enumerate((low, high, minutes, why)):
        await focused(shown, part.input(place))
        part.input(place).value = value
        await shown.pilot.press("enter")
    await shown.closed()


def sent(shown: Shown) -> list[tuple[int, str]]:
    """The follower rates of broker 2 that were sent, with their reasons."""
    return [
        (entry["follower_bytes_per_s"], body["reason"])
        for _, body in shown.backend.changes
        for entry in body["rates"]
        if entry["broker"] == 2
    ]


async def rates_sent(shown: Shown, *rates: int) -> None:
    """Wait until exactly these were sent and answered."""
    await shown.until(lambda: len(sent(shown)) >= len(rates), f"{rates} are sent")
    await shown.until(lambda: not shown.app.changing, "the answer is there")
    assert [rate for rate, _ in sent(shown)] == list(rates)


@pytest.mark.parametrize("view", VIEWS)
async def test_within_the_band_a_key_is_applied_without_a_question(
    tmp_path: Path, view: str
) -> None:
    async with at_broker_2(tmp_path, view) as shown:
        await confirm(shown)
        assert "band 20.0 MB/s to 31.0 MB/s, 10m" in shown.lines()[0]
        await shown.pilot.press("plus")
        await rates_sent(shown, 27_500_000)
        assert shown.app.screen is shown.view
        assert shown.said == "Set broker 2 to 27.5 MB/s. u takes a change back."
        [(_, reason)] = sent(shown)
        assert reason == "test (within the band 20.0 MB/s to 31.0 MB/s for 10m00s)"
        # The snapshot does not show it yet: the next step begins from what was set.
        await shown.pilot.press("minus")
        await rates_sent(shown, 27_500_000, RATE)
        assert all(body["validate_only"] is False for _, body in shown.backend.asked)


@pytest.mark.parametrize("view", VIEWS)
async def test_outside_of_the_band_the_preview_opens(tmp_path: Path, view: str) -> None:
    async with at_broker_2(tmp_path, view) as shown:
        await confirm(shown, high="26MB/s")
        await shown.pilot.press("plus")
        await shown.dialog(ConfirmScreen)
        assert "25.0 MB/s → 27.5 MB/s" in shown.frame()
        await shown.pilot.press("escape")
        await shown.closed()
        assert shown.backend.changes == []


async def test_the_band_is_of_the_brokers_that_were_chosen(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        await shown.press("j")
        await shown.pilot.press("plus")
        await shown.dialog(ConfirmScreen)
        assert shown.backend.changes == []


async def test_marked_brokers_are_changed_together(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path, THROTTLES) as shown:
        await shown.press("space", "space")
        await confirm(shown)
        await shown.pilot.press("plus")
        await shown.until(lambda: shown.backend.changes, "it is sent")
        [(_, body)] = shown.backend.changes
        assert [entry["broker"] for entry in body["rates"]] == [2, 3]


async def test_keys_that_come_meanwhile_are_one_request(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown, high="60MB/s")
        shown.backend.held = asyncio.Event()
        await shown.pilot.press("plus")
        await shown.until(lambda: shown.backend.changes, "the first one is under way")
        assert shown.said == "Setting broker 2 to 27.5 MB/s ..."
        await shown.pilot.press("plus", "plus", "minus", "plus")
        assert shown.said == "Setting broker 2 to 33.3 MB/s ..."
        assert len(shown.backend.changes) == 1
        shown.backend.held.set()
        # 25 * 1.1 = 27.5; then two steps more, in three figures.
        await rates_sent(shown, 27_500_000, 33_300_000)


async def test_within_a_band_the_plot_is_what_the_keys_bend(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path, size=(160, 50)) as shown:
        await shown.publish()
        await shown.until(lambda: "Bytes remaining" in shown.frame(), "the plot as always")
        await confirm(shown)
        await shown.publish()
        await shown.until(lambda: "Throughput of moves" in shown.frame(), "what moves get")
        shown.time.now += 601
        await shown.publish()
        await shown.until(lambda: "Bytes remaining" in shown.frame(), "the band has ended")


async def test_u_takes_the_last_one_back(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        await shown.pilot.press("plus")
        await rates_sent(shown, 27_500_000)
        await shown.pilot.press("minus")
        await rates_sent(shown, 27_500_000, RATE)
        await shown.pilot.press("u")
        await rates_sent(shown, 27_500_000, RATE, 27_500_000)
        await shown.pilot.press("u")
        await rates_sent(shown, 27_500_000, RATE, 27_500_000, RATE)
        await shown.press("u")
        assert shown.said == "No rate was changed from here."


async def test_u_drops_what_was_not_sent_and_then_takes_back_what_was(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        shown.backend.held = asyncio.Event()
        await shown.pilot.press("plus")
        await shown.until(lambda: shown.backend.changes, "the first one is under way")
        await shown.pilot.press("plus", "u", "u")
        shown.backend.held.set()
        await rates_sent(shown, 27_500_000, RATE)
        assert shown.app.store.rate_changes == []


async def test_a_change_by_the_wizard_is_taken_back_after_its_preview(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await shown.pilot.press("e")
        await answer_form(shown, "40MB/s", "40MB/s")
        await go_through(shown)
        await shown.pilot.press("escape")
        await shown.closed()
        await shown.publish()
        await shown.pilot.press("u")
        await shown.dialog(ConfirmScreen)
        assert "40.0 MB/s → 25.0 MB/s" in shown.frame()
        await shown.pilot.press("escape")
        await shown.closed()
        assert len(shown.app.store.rate_changes) == 1, "it can still be taken back"
        await shown.pilot.press("u")
        await shown.dialog(ConfirmScreen)
        await shown.pilot.press("y")
        await shown.until(lambda: len(sent(shown)) == 2, "it is sent")
        await shown.until(lambda: not shown.app.store.rate_changes, "nothing is left to take back")
        assert [rate for rate, _ in sent(shown)] == [40 * MB, RATE]


async def test_a_rate_that_somebody_else_changed_is_taken_back_after_a_preview(
    tmp_path: Path,
) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        await shown.pilot.press("plus")
        await rates_sent(shown, 27_500_000)
        shown.backend.cluster.rates[2] = ThrottledRate(21 * MB, 21 * MB)
        shown.time.now += 60
        await shown.publish()
        await shown.pilot.press("u")
        await shown.dialog(ConfirmScreen)
        assert "21.0 MB/s → 25.0 MB/s" in shown.frame()


async def test_a_failure_ends_the_band_and_drops_what_waits(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        shown.backend.held = asyncio.Event()
        shown.backend.refuse = Problem(403, "You may not.")
        await shown.pilot.press("plus")
        await shown.until(lambda: shown.backend.changes, "it is under way")
        await shown.pilot.press("minus")
        shown.backend.held.set()
        await shown.until(lambda: "The band has ended" in shown.said, "the failure is said")
        assert shown.said.startswith("The band has ended: You may not.")
        assert "band" not in shown.lines()[0]
        assert len(shown.backend.changes) == 1
        assert shown.app.store.rate_changes == []


async def test_two_persons_have_no_fader(tmp_path: Path) -> None:
    proposal = ShownProposal(
        *("1a2b3c4d", "rates", "", "set rates", ProposalState.WAITING, "ada", "", 0, 900_000)
    )
    waits = Problem(202, "")
    waits.document = to_document(proposal)
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        shown.backend.refuse = waits
        await shown.pilot.press("plus")
        await shown.until(lambda: "The band has ended" in shown.said, "why is said")
        assert "second person" in shown.said
        assert shown.app.store.band is None


async def test_the_band_ends(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown, minutes="1")
        shown.time.now += 61
        await shown.publish()
        assert "band" not in shown.lines()[0]
        await shown.pilot.press("plus")
        await shown.dialog(ConfirmScreen)
        assert shown.backend.changes == []


async def test_a_step_that_waits_while_the_band_ends_is_not_sent(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown, minutes="1")
        shown.backend.held = asyncio.Event()
        await shown.pilot.press("plus")
        await shown.until(lambda: shown.backend.changes, "the first one is under way")
        await shown.pilot.press("plus")
        shown.time.now += 61
        shown.backend.held.set()
        await shown.until(lambda: "not sent" in shown.said, "it is said")
        await rates_sent(shown, 27_500_000)


async def test_no_minutes_end_it(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        await confirm(shown, minutes="0")
        assert shown.said == "The band has ended."
        assert shown.app.store.band is None


@pytest.mark.parametrize("view", VIEWS)
async def test_read_only_has_no_fader(tmp_path: Path, view: str) -> None:
    async with at_broker_2(tmp_path, view, read_only=True) as shown:
        for key in ("B", "u"):
            await shown.press(key)
            assert shown.said.startswith("READ-ONLY")
            assert shown.app.screen is shown.view


async def test_without_a_connection_nothing_is_sent(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        await shown.backend.stop()
        await shown.until(lambda: shown.app.store.scene.lost, "it is lost")
        for key in ("plus", "B", "u"):
            await shown.pilot.press(key)
            assert shown.said.startswith("The connection is lost")
        assert shown.backend.changes == []


async def test_in_the_past_there_is_no_fader(tmp_path: Path) -> None:
    async with recorded(tmp_path, incident(), start_view=BROKERS) as shown:
        await shown.press("g", "j")
        await confirm(shown)
        await shown.later(5)
        await shown.go("T")
        assert "band" not in shown.lines()[0]
        for key in ("plus", "minus", "B", "u"):
            await shown.go(key)
            assert shown.said.startswith("This is the past")
        assert shown.backend.changes == []


async def test_while_another_change_is_open_nothing_is_stepped(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await confirm(shown)
        shown.app.changing = True
        await shown.press("plus")
        assert shown.said == "A change is running; wait for its answer."
        assert shown.backend.changes == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("none", "80MB/s", "5", ""), "A band needs a rate here"),
        (("20MB/s", "fast", "5", ""), "'fast' is not a rate"),
        (("20MB/s", "80MB/s", "61", ""), "Type a whole number from 0 to 60"),
        (("20MB/s", "80MB/s", "1.5", ""), "Type a whole number from 0 to 60"),
        (("80MB/s", "20MB/s", "5", ""), "The lowest rate is above the highest one"),
    ],
)
async def test_a_band_that_means_nothing(tmp_path: Path, values: Sequence[str], said: str) -> None:
    async with at_broker_2(tmp_path) as shown:
        await shown.pilot.press("B")
        form = await shown.dialog(RateBandScreen)
        part = form.query_one(FormPart)
        for place, value in enumerate(values):
            part.input(place).value = value
        part.input(3).focus()
        await focused(shown, part.input(3))
        await shown.pilot.press("enter")
        await shown.until(lambda: said in shown.frame(), "what is wrong")
        assert shown.app.store.band is None


async def test_keys_in_the_wrong_order_and_terminals_that_shrink(tmp_path: Path) -> None:
    async with at_broker_2(tmp_path) as shown:
        await shown.pilot.press("u", "plus", "escape", "minus", "escape", "B", "escape", "u")
        await shown.closed()
        await confirm(shown)
        for size in ((20, 5), (1, 1), (40, 8), (200, 50)):
            await shown.pilot.resize_terminal(*size)
            await shown.pilot.press("B", "escape")
        await shown.pilot.resize_terminal(60, 8)
        await shown.closed()
        assert "left" in shown.lines()[0]
        assert shown.backend.changes == []


async def test_any_keys_leave_it_running(tmp_path: Path) -> None:
    keys = ("B", "u", "escape", "enter", "tab", "m", "3", "4", "j", "k", "space", "question_mark")
    async with at_broker_2(tmp_path) as shown:
        await press_at_random(shown, lambda: keys, 150, seed=3)


def test_a_band_holds_where_every_set_side_is_inside() -> None:
    band = RateBand("c", frozenset({1, 2}), 20, 80, 600.0, 1_000.0)
    assert band.holds([ThrottledRate(20, 80), ThrottledRate(None, 50)])
    assert not band.holds([ThrottledRate(20, 81)])
    assert not band.holds([ThrottledRate(19, None)])
    assert not band.holds([ThrottledRate(None, None)])
    assert not band.holds([])


def test_a_band_is_of_one_cluster_and_some_brokers_until_a_moment() -> None:
    band = RateBand("c", frozenset({1, 2}), 20, 80, 600.0, 1_000.0)
    assert band.open_for([1], "c", 999.9)
    assert not band.open_for([1], "c", 1_000.0)
    assert not band.open_for([1], "d", 0.0)
    assert not band.open_for([1, 3], "c", 0.0)
    assert not band.open_for([], "c", 0.0)
    assert band.text(1_000.0) == ""
