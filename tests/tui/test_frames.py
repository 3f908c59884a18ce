"""Golden frames: every screen in plain text, at 80x24 and at 160x50.

After an intended change, write them anew with KSHUNT_REWRITE_FRAMES=1 and read the diff.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.result import ResultScreen
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.dialogs.dialog import Lines
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.feed.polled_facts import ORPHANS
from tests.support.tui.app import (
    SIZES,
    Shown,
    answer_form,
    at_size,
    at_step,
    check_frame,
    named,
    plan_file,
    plotted,
)
from tests.support.tui.cluster import DRIFT, ORPHAN, START_MS, eventful


@pytest.fixture(params=SIZES)
async def shown(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard at each size."""
    async with at_size(tmp_path, eventful(), request.param) as running:
        yield running


async def test_partitions(shown: Shown) -> None:
    await shown.press("j", "j", "space")
    await check_frame(named("partitions", shown), shown)


async def test_partitions_followed(shown: Shown) -> None:
    await shown.press("f")
    await check_frame(named("following", shown), shown)


async def test_brokers(shown: Shown) -> None:
    await shown.press("3")
    if shown.size[1] > 40:
        await plotted(shown)
    await check_frame(named("brokers", shown), shown)


async def test_throttles(shown: Shown) -> None:
    await shown.press("4", "j")
    await check_frame(named("throttles", shown), shown)


HISTORY = (
    AuditLine(START_MS + 61_000, "requested", "ada@bastion-1", "move 6 partitions of 3 topics"),
    AuditLine(START_MS + 61_400, "started", "ada@bastion-1"),
)


async def test_operations(shown: Shown) -> None:
    shown.backend.audit = [("op-1", line) for line in HISTORY]
    await shown.press("5")
    await shown.until(lambda: "08:54:21 requested" in shown.frame(), "its history is shown")
    await check_frame(named("operations", shown), shown)


async def test_drift_and_orphans(shown: Shown) -> None:
    shown.backend.drift = {"d1": DRIFT}
    shown.backend.orphans = {"o1": ORPHAN}
    await shown.press("4")
    shown.time.now += 10
    await shown.publish()
    await shown.until(lambda: "1 drifted" in shown.frame(), "the drift is seen")
    await shown.until(lambda: shown.app.store.scene.answer(ORPHANS), "the orphan is known")
    await shown.publish()
    await shown.press("j")
    await check_frame(named("drift", shown), shown)
    await shown.press("5")
    await shown.until(lambda: "running !" in shown.frame(), "the operation is marked")
    await check_frame(named("drift-operation", shown), shown)


async def test_a_paused_operation(shown: Shown) -> None:
    paused = replace(
        shown.backend.cluster.operations["op-1"],
        state=OperationState.PAUSED,
        actions=("resume", "cancel"),
        outcome="its copies are held",
        waiting=2,
    )
    shown.backend.announce(paused)
    await shown.press("5")
    await shown.until(lambda: "held by the pause" in shown.frame(), "it is paused")
    await check_frame(named("paused", shown), shown)


async def test_another_backend_acts(shown: Shown) -> None:
    shown.backend.status = replace(
        shown.backend.status,
        duty="follow",
        acting="kshunt-9f8e7d6c",
        host="bastion-2",
        unreadable=("operation/0badc0de",),
    )
    shown.time.now += 10
    await shown.publish()
    await shown.until(lambda: "follows kshunt-9f8e7d6c" in shown.frame(), "it is said")
    await check_frame(named("follows", shown), shown)


async def test_a_question_that_has_to_be_asked_again(shown: Shown) -> None:
    shown.backend.preview = replace(
        shown.backend.preview,
        warnings=("orders-0 would be at min.insync.replicas until its copy is done.",),
    )
    await shown.press("5", "j", "p")
    await shown.until(lambda: "pause" in shown.said or shown.app.screen is not shown.view, "asked")
    await shown.press("k", "p")
    await shown.dialog(ConfirmScreen)
    await check_frame(named("blast", shown), shown)
    shown.backend.preview = replace(shown.backend.preview, fingerprint="a-2")
    await shown.pilot.press("y")
    await shown.until(lambda: shown.app.screen.query("#changed"), "it is asked again")
    await check_frame(named("blast-changed", shown), shown)


async def test_help(shown: Shown) -> None:
    await shown.press("question_mark")
    await shown.dialog(HelpScreen)
    await check_frame(named("help", shown), shown)


async def test_details(shown: Shown) -> None:
    await shown.press("f", "enter")
    if shown.size[1] < 36:
        await shown.dialog(RowDetailsScreen)
    await shown.until(lambda: "The cluster has no topic" in shown.frame(), "it was asked")
    if shown.size[1] > 36:
        await plotted(shown)
    await check_frame(named("details", shown), shown)


async def test_a_filter_being_typed(shown: Shown) -> None:
    await shown.press("slash")
    await shown.write("pay behind:>")
    await check_frame(named("filter", shown), shown)


async def test_a_question_and_its_answer(shown: Shown) -> None:
    await shown.press("f", "C")
    await shown.dialog(ConfirmScreen)
    await check_frame(named("confirm", shown), shown)
    await shown.write("kSh-9x")
    await shown.pilot.press("enter")
    result = await shown.dialog(ResultScreen)
    await shown.until(lambda: result.query_one("#live", Lines).plain, "how it goes is said")
    await check_frame(named("result", shown), shown)


async def test_a_plan_that_would_fail_in_part(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3], ("orders", 9): [1, 2, 3]})
    await shown.press("r")
    await answer_form(shown, str(path), "30MB/s", "5/200", "")
    await at_step(shown, Step.PREVIEW)
    await check_frame(named("reassign", shown), shown)


async def test_a_form_with_a_mistake(shown: Shown) -> None:
    await shown.press("4", "e")
    form = await shown.dialog(WizardScreen)
    form.input(0).value = "fast"
    await shown.pilot.press("enter")
    await shown.until(lambda: "is not a rate" in form.hint(0).plain, "the mistake is said")
    await check_frame(named("form", shown), shown)


async def test_an_election_of_every_leader(shown: Shown) -> None:
    await shown.press("L")
    await at_step(shown, Step.PREVIEW)
    await check_frame(named("election", shown), shown)
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    await check_frame(named("election-confirm", shown), shown)


async def test_the_audit(shown: Shown) -> None:
    shown.backend.audit = [("op-1", line) for line in HISTORY]
    await shown.press("5", "v")
    await shown.until(lambda: "2 of 2" in shown.frame(), "it is read")
    await check_frame(named("audit", shown), shown)


async def test_a_silent_broker(shown: Shown) -> None:
    shown.backend.cluster.down = {3: "connection refused"}
    await shown.publish()
    await shown.press("3")
    if shown.size[1] > 40:
        await plotted(shown)
    await check_frame(named("silent-broker", shown), shown)


async def test_a_lost_connection(shown: Shown) -> None:
    await shown.press("f", "j")
    await shown.backend.stop()
    await shown.until(lambda: "CONNECTION LOST" in shown.frame(), "the loss is said")
    # The reason names a socket of this run.
    head, rest = shown.lines()[0], shown.lines()[3:]
    assert "CONNECTION LOST" in head
    assert any("adding" in line for line in rest)
