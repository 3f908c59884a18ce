"""A restart of the backend under what is half typed: it stays, and can be sent afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.question_parts import AskPart
from kshunt.tui.changes.wizard.result import ErrorScreen, ResultScreen
from tests.support.tui.app import (
    Shown,
    answer_form,
    at_step,
    focused,
    go_through,
    plan_file,
)
from tests.support.tui.backend import ScriptedBackend

MB = 1_000_000


async def away(shown: Shown) -> None:
    """The backend ends, and the dashboard has noticed."""
    await shown.backend.stop()
    await shown.until(lambda: shown.app.store.scene.lost, "the loss is noticed")


async def back(shown: Shown) -> None:
    """It starts again, and the dashboard follows it."""
    backend: ScriptedBackend = shown.backend
    backend.publish()
    await backend.start()
    await shown.until(lambda: shown.app.store.scene.live, "it is back")
    await shown.until_shown()


def typed(shown: Shown, count: int) -> list[str]:
    """What stands in the fields of the wizard that is open."""
    return [shown.app.screen.query_one(f"#field-{n}", Input).value for n in range(count)]


@pytest.mark.slow
async def test_what_is_typed_into_a_wizard_outlives_the_backend(
    shown: Shown, tmp_path: Path
) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3]})
    await shown.press("r")
    wizard = await at_step(shown, Step.GOAL)
    wizard.input(0).value = str(path)
    await shown.pilot.press("enter")
    await at_step(shown, Step.CHOICES)
    wizard.input(1).value = "30MB/s"
    wizard.input(2).value = "all"
    wizard.input(3).value = "rack b"
    await away(shown)
    assert typed(shown, 4) == [str(path), "30MB/s", "all", "rack b"]
    wizard.input(3).focus()
    await focused(shown, wizard.input(3))
    await shown.pilot.press("enter")
    await at_step(shown, Step.PREVIEW)
    assert "No backend answers" in shown.frame()
    assert "nothing was changed" in shown.frame()
    assert "Enter tries again, Esc goes back" in shown.frame()
    await shown.pilot.press("escape")
    await at_step(shown, Step.CHOICES)
    assert typed(shown, 4) == [str(path), "30MB/s", "all", "rack b"]
    await back(shown)
    assert typed(shown, 4) == [str(path), "30MB/s", "all", "rack b"]
    wizard.input(3).focus()
    await focused(shown, wizard.input(3))
    await shown.pilot.press("enter")
    await at_step(shown, Step.PREVIEW)
    await shown.until(lambda: "Validated" in shown.frame(), "it is validated")
    await go_through(shown)
    ((_, body),) = shown.backend.changes
    assert (body["throttle_bytes_per_s"], body["reason"]) == (30 * MB, "rack b")


async def test_a_preview_is_tried_again_with_enter(shown: Shown) -> None:
    await shown.press("4", "e")
    await at_step(shown, Step.CHOICES)
    await away(shown)
    await answer_form(shown, "50MB/s", "50MB/s")
    await at_step(shown, Step.PREVIEW)
    assert "No backend answers" in shown.frame()
    await back(shown)
    await shown.pilot.press("enter")
    await shown.until(lambda: "Validated" in shown.frame(), "it is validated")
    assert shown.backend.changes == []


@pytest.mark.slow
async def test_a_question_that_cannot_be_sent_keeps_all_that_was_said(shown: Shown) -> None:
    await shown.press("4", "e")
    await answer_form(shown, "50MB/s", "60MB/s")
    wizard = await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    await shown.pilot.press("w")
    await shown.write("night shift")
    await shown.pilot.press("enter")
    await away(shown)
    await shown.pilot.press("y")
    await at_step(shown, Step.WATCH)
    assert "No backend answers" in shown.frame()
    assert "Esc goes back to the preview, what you typed stays" in shown.frame()
    await back(shown)
    assert shown.backend.changes == []
    await shown.pilot.press("escape")
    await at_step(shown, Step.PREVIEW)
    await shown.until(lambda: "Validated" in shown.frame(), "it is validated")
    assert typed(shown, 2) == ["50MB/s", "60MB/s"]
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    assert wizard.place(Step.CONFIRM).query_one(AskPart).reason == "night shift"
    await shown.pilot.press("y")
    await at_step(shown, Step.WATCH)
    ((path, body),) = shown.backend.changes
    assert path == "/v1/throttles/rates"
    assert body["reason"] == "night shift"
    assert {entry["leader_bytes_per_s"] for entry in body["rates"]} == {50 * MB}
    await shown.pilot.press("escape")
    await shown.closed()


async def test_after_a_send_that_failed_nobody_says_that_nothing_was_changed(shown: Shown) -> None:
    await shown.press("4", "e")
    await answer_form(shown, "50MB/s", "60MB/s")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    await away(shown)
    await shown.pilot.press("y")
    await at_step(shown, Step.WATCH)
    await shown.pilot.press("enter")
    await shown.closed()
    assert shown.said != "Nothing was changed."


async def test_rates_that_are_pending_outlive_the_backend(shown: Shown) -> None:
    await shown.press("4", "j", "plus")
    await shown.until(lambda: "What if" in shown.frame(), "it is foreseen")
    await away(shown)
    await shown.pilot.press("enter")
    await shown.pilot.pause()
    assert shown.said == "The connection is lost: nothing can be sent until it is back."
    # Steps continue: they are about what is shown.
    await shown.pilot.press("plus")
    await back(shown)
    await shown.until(lambda: "25.0 MB/s -> 30.3 MB/s" in shown.frame(), "it is still pending")
    await shown.pilot.press("enter")
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press("y")
    await shown.dialog(ResultScreen)
    ((_, body),) = shown.backend.changes
    assert body["rates"] == [
        {"broker": 2, "leader_bytes_per_s": 30_300_000, "follower_bytes_per_s": 30_300_000}
    ]


async def test_rates_stay_pending_where_the_backend_goes_at_the_question(shown: Shown) -> None:
    await shown.press("4", "j", "plus", "enter")
    await shown.dialog(ConfirmScreen)
    await away(shown)
    await shown.pilot.press("y")
    await shown.dialog(ErrorScreen)
    assert "No backend answers" in shown.frame()
    await shown.pilot.press("escape")
    await shown.closed()
    await back(shown)
    assert dict(shown.app.store.queries["throttles"].pending) == {
        2: ThrottledRate(27_500_000, 27_500_000)
    }
    await shown.pilot.press("enter")
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press("y")
    await shown.dialog(ResultScreen)
    assert len(shown.backend.changes) == 1


async def test_pending_rates_are_not_carried_to_another_cluster(shown: Shown) -> None:
    await shown.press("4", "j", "plus")
    await shown.until(lambda: "What if" in shown.frame(), "it is foreseen")
    await away(shown)
    shown.backend.cluster.cluster_id = "somebody-elses"
    await back(shown)
    await shown.until(lambda: "What if" not in shown.frame(), "it is dropped")
    assert shown.app.store.queries["throttles"].pending == ()


async def test_a_rate_that_is_being_typed_outlives_the_backend(shown: Shown) -> None:
    await shown.press("4", "j", "equals_sign")
    line = shown.view.query_one("#rate", Input)
    await shown.write("40")
    await away(shown)
    await shown.write("MB/s")
    await back(shown)
    assert (line.value, line.has_focus) == ("40MB/s", True)
    await shown.pilot.press("enter")
    await shown.until(lambda: "25.0 MB/s -> 40.0 MB/s" in shown.frame(), "it is foreseen")


async def test_a_filter_that_is_being_typed_outlives_the_backend(shown: Shown) -> None:
    await shown.press("slash")
    await shown.write("topic:ord")
    await away(shown)
    await shown.write("ers")
    line = shown.view.query_one("#filter", Input)
    assert (line.value, line.has_focus) == ("topic:orders", True)
    await back(shown)
    assert (line.value, line.has_focus) == ("topic:orders", True)
    await shown.write(" broker:5")
    await shown.press("enter")
    assert shown.app.store.queries["partitions"].filter_text == "topic:orders broker:5"
    table = shown.grid.table
    assert table is not None
    rows = {str(table.key_of(place)) for place in range(len(table))}
    assert rows
    assert all(row.startswith("orders-") and row.endswith(" on broker 5") for row in rows), rows
