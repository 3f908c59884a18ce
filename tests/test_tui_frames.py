"""Golden frames: every screen in plain text, at 80x24 and at 160x50.

After a change that is meant, write them anew with KSHUNT_REWRITE_FRAMES=1 and read the diff.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backend.domain.operation import OperationKind, OperationState
from tests.tui_cluster import ScriptedCluster, incident
from tests.tui_support import Shown, answer_form, check_frame, dashboard, plan_file
from tui.screens.confirm import ConfirmScreen
from tui.screens.details import DetailsScreen
from tui.screens.form import FormScreen
from tui.screens.help import HelpScreen
from tui.screens.result import ResultScreen

SIZES = {"80x24": (80, 24), "160x50": (160, 50)}


def eventful() -> ScriptedCluster:
    """A move under way for a minute: one replica falls behind, one broker is silent."""
    cluster = incident()
    cluster.growing = {2}
    cluster.copy_bytes_per_s = {3: 800_000}
    for _ in range(60):
        cluster.step()
    cluster.silent_lag = {3}
    cluster.note(
        OperationKind.REASSIGN,
        "6 partitions of 3 topics",
        state=OperationState.RUNNING,
        throttle_bytes_per_s=25_000_000,
        partitions=tuple(p for p, state in cluster.partitions.items() if state.copied),
    )
    cluster.now_ms += 20_000
    cluster.note(
        OperationKind.THROTTLED_RATES,
        "rates of brokers 1, 2",
        state=OperationState.FAILED,
        outcome="CLUSTER_AUTHORIZATION_FAILED",
    )
    return cluster


@pytest.fixture(params=sorted(SIZES))
async def shown(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard at each size."""
    async with dashboard(tmp_path / "s", eventful(), size=SIZES[request.param]) as running:
        if request.param == "160x50":
            await plotted(running)
        yield running


def named(name: str, shown: Shown) -> str:
    """The frame's name with its size."""
    return f"{name}-{shown.size[0]}x{shown.size[1]}"


async def plotted(shown: Shown) -> None:
    """Wait for the plot, where the screen has one."""
    await shown.until(lambda: "ago" in shown.lines()[-2], "the plot is drawn")


async def test_partitions(shown: Shown) -> None:
    await shown.press("j", "j", "space")
    check_frame(named("partitions", shown), shown)


async def test_partitions_followed(shown: Shown) -> None:
    await shown.press("f")
    check_frame(named("following", shown), shown)


async def test_brokers(shown: Shown) -> None:
    await shown.press("2")
    if shown.size[1] > 40:
        await plotted(shown)
    check_frame(named("brokers", shown), shown)


async def test_throttles(shown: Shown) -> None:
    await shown.press("3", "j")
    check_frame(named("throttles", shown), shown)


async def test_operations(shown: Shown) -> None:
    await shown.press("4")
    await shown.until(lambda: "2 operations" in shown.frame(), "they are listed")
    check_frame(named("operations", shown), shown)


async def test_help(shown: Shown) -> None:
    await shown.press("question_mark")
    await shown.dialog(HelpScreen)
    check_frame(named("help", shown), shown)


async def test_details(shown: Shown) -> None:
    await shown.press("f", "enter")
    await shown.dialog(DetailsScreen)
    check_frame(named("details", shown), shown)


async def test_a_filter_being_typed(shown: Shown) -> None:
    await shown.press("slash")
    await shown.write("pay behind:>")
    check_frame(named("filter", shown), shown)


async def test_a_question_and_its_answer(shown: Shown) -> None:
    await shown.press("f", "C")
    await shown.dialog(ConfirmScreen)
    check_frame(named("confirm", shown), shown)
    await shown.pilot.press("y")
    await shown.dialog(ResultScreen)
    check_frame(named("result", shown), shown)


async def test_a_plan_that_would_fail_in_part(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3], ("orders", 9): [1, 2, 3]})
    await shown.press("r")
    await answer_form(shown, str(path), "30MB/s")
    await shown.dialog(ConfirmScreen)
    check_frame(named("reassign", shown), shown)


async def test_a_form_with_a_mistake(shown: Shown) -> None:
    await shown.press("3", "a")
    form = await shown.dialog(FormScreen)
    form.input(0).value = "fast"
    await shown.pilot.press("enter")
    await shown.until(lambda: "is not a rate" in form.hint(0).plain, "the mistake is said")
    check_frame(named("form", shown), shown)


async def test_a_silent_broker(shown: Shown) -> None:
    shown.backend.cluster.down = {3: "connection refused"}
    await shown.publish()
    await shown.press("2")
    if shown.size[1] > 40:
        await plotted(shown)
    check_frame(named("silent-broker", shown), shown)


async def test_a_lost_connection(shown: Shown) -> None:
    await shown.press("f", "j")
    await shown.backend.stop()
    await shown.until(lambda: "CONNECTION LOST" in shown.frame(), "the loss is said")
    # The reason names a socket of this run.
    head, rest = shown.lines()[0], shown.lines()[3:]
    assert "CONNECTION LOST" in head
    assert any("adding" in line for line in rest)
