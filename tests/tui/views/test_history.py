"""The history: what this session saw, in plots and lines."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.replicas.history import gaps
from kshunt.backend.domain.replicas.snapshot import HistoryPoint
from kshunt.backend.domain.text.axes import Unit
from kshunt.backend.domain.text.plots import Series
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.tui.actions.view_names import HISTORY
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.transfer_history import (
    SeenTransfer,
    SeenTransfers,
    broker_history,
    evenly,
    permitted,
    rates,
    remaining,
    running_s,
    steady,
    within,
)
from kshunt.tui.feed.polled_facts import PIPELINE
from kshunt.tui.text.glyphs import ASCII, UNICODE
from kshunt.tui.text.plots import plot_history
from kshunt.tui.views.history.sections import SPANS_S, span_covering
from tests.support.tui.app import SIZES, Shown, check_frame, dashboard
from tests.support.tui.cluster import START_MS, ScriptedCluster, incident, moving, running_move
from tests.support.tui.plans import quiet
from tests.support.tui.tables import board, choose


async def plotted(shown: Shown) -> None:
    """Wait for the plot, and until somebody has said whether a pipeline runs."""
    await shown.until(lambda: " ago " in shown.frame(), "the plot is drawn")
    await shown.until(
        lambda: shown.app.store.scene.answer(PIPELINE) is not None, "the pipeline is known"
    )
    await shown.until(lambda: "Whether" not in shown.frame(), "it is shown")


@pytest.mark.parametrize("size", sorted(SIZES))
async def test_what_was(size: str, tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), size=SIZES[size], start_view=HISTORY) as shown:
        await plotted(shown)
        await check_frame(f"history-{size}", shown)


async def test_nothing_was_seen_yet(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident(), start_view=HISTORY) as shown:
        await shown.until(lambda: "no history yet" in shown.frame(), "it says so")
        assert "absent: This backend records no samples and" in " ".join(shown.frame().split()) or (
            "Whether" in shown.frame()
        )


async def test_the_span_and_what_is_plotted_are_chosen_by_keys(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=HISTORY) as shown:
        await plotted(shown)
        assert "at most 15m00s" in shown.frame()
        await shown.press("less_than_sign", "less_than_sign")
        assert "at most 5m00s" in shown.frame()
        await shown.press(*["greater_than_sign"] * 9)
        assert "at most 14d00h" in shown.frame()
        for words in ("Bytes remaining", "No copy was stuck", "Produced", "Throughput of moves"):
            await shown.press("tab")
            await shown.until(lambda words=words: words in shown.frame(), words)  # type: ignore[misc]


def at_rest() -> ScriptedCluster:
    """Nothing moves, and producers write to two of the topics."""
    cluster = quiet()
    cluster.produced = {"orders": 1_000_000.0, "audit-log": 50_000.0}
    return cluster


async def watched(shown: Shown) -> None:
    """Look on for twenty seconds, in which ever more is produced."""
    for _ in range(10):
        shown.backend.cluster.produced["orders"] += 200_000.0
        await shown.publish(2)
    await shown.until(lambda: "Produced, last 20s" in shown.frame(), "the plot is drawn")


@pytest.mark.parametrize("size", ["80x24", "120x36", "200x50"])
async def test_while_nothing_moves_it_says_so_and_plots_what_is_produced(
    size: str, tmp_path: Path
) -> None:
    width, height = map(int, size.split("x"))
    room = width, height
    async with dashboard(tmp_path / "s", at_rest(), size=room, start_view=HISTORY) as shown:
        await watched(shown)
        await shown.until(
            lambda: shown.app.store.scene.answer(PIPELINE) is not None, "the pipeline is known"
        )
        await check_frame(f"history-idle-{size}", shown)
        assert "1 B" not in shown.frame()
        assert "Nothing was moved. Produced" in shown.frame()
        for words in (
            "Nothing was copied in the last 20s.",
            "Nothing was left to copy in the last 20s.",
            "No copy was stuck in the last 20s.",
        ):
            await shown.press("tab")
            await shown.until(lambda words=words: words in shown.lines()[3], words)  # type: ignore[misc]


async def test_it_plots_throughput_as_soon_as_something_moves(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", at_rest(), start_view=HISTORY) as shown:
        await watched(shown)
        cluster = shown.backend.cluster
        target = next(iter(cluster.partitions))
        away = cluster.partitions[target].replicas
        cluster.move(target, [*away[:-1], min(cluster.racks.keys() - set(away))])
        await shown.publish(2)
        await shown.publish(2)
        await shown.until(lambda: "Throughput of moves" in shown.frame(), "it is plotted")
        assert " in " in shown.frame()


async def test_nothing_at_all_is_said_in_words_and_an_unknown_rate_is_none(tmp_path: Path) -> None:
    cluster = at_rest()
    cluster.produced = dict.fromkeys(cluster.produced, 0.0)
    async with dashboard(tmp_path / "s", cluster, start_view=HISTORY) as shown:
        await shown.publish(2)
        await shown.until(lambda: "Nothing was produced in the last 2s." in shown.frame(), "words")
    cluster = at_rest()
    cluster.produced = {}
    async with dashboard(tmp_path / "t", cluster, start_view=HISTORY) as shown:
        await shown.publish(2)
        await shown.until(lambda: "Produced: no history yet" in shown.frame(), "unknown")
        assert "?" in shown.frame()


async def test_a_broker_leads_to_its_row(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=HISTORY) as shown:
        await choose(shown, ("broker", 3))
        await shown.publish()
        assert board(shown).cursor_key == ("broker", 3)
        await shown.press("enter")
        assert shown.app.current_mode == "brokers"
        await shown.until(lambda: shown.grid.cursor_key == 3, "the cursor is on it")


async def test_it_fits_every_terminal(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", moving(), start_view=HISTORY) as shown:
        for width, height in ((20, 5), (40, 10), (200, 60), (80, 24)):
            await shown.resize(width, height)
            await shown.until(lambda h=height: len(shown.lines()) <= h, "it fits")  # type: ignore[misc]


async def test_it_can_be_read_in_plain_ascii(tmp_path: Path) -> None:
    async with dashboard(
        tmp_path / "s", moving(), start_view=HISTORY, glyphs=ASCII, plain=True
    ) as shown:
        await plotted(shown)
        assert shown.frame().isascii()


# The course


def next_facts(cluster: ScriptedCluster, seconds: float = 1.0) -> Facts:
    return Facts(cluster.step(seconds))


def test_what_the_backend_remembers_comes_before_what_was_seen() -> None:
    cluster, history = incident(), SeenTransfers()
    for _ in range(5):
        cluster.step()
    history.take(next_facts(cluster))
    moments = history.until(cluster.now_ms)
    assert len(moments) == 6
    assert [moment.load is None for moment in moments] == [True] * 5 + [False]
    assert rates(moments)[-1] == pytest.approx(75_000_000)
    assert permitted(moments)[-1] == 75_000_000
    assert remaining(moments) == sorted(remaining(moments), reverse=True)


def test_a_look_back_adds_nothing_and_shows_what_was() -> None:
    cluster, history = incident(), SeenTransfers()
    first = next_facts(cluster)
    history.take(first)
    history.take(next_facts(cluster))
    history.take(first)
    assert len(history.until(cluster.now_ms)) == 2
    assert len(history.until(first.snapshot.taken_ms)) == 1


@pytest.mark.slow
def test_hours_are_kept_in_bounds_and_a_change_of_rates_with_them() -> None:
    cluster, history = incident(), SeenTransfers()
    facts = next_facts(cluster)
    for second in range(0, 4 * 3_600, 3):
        if second == 600:
            cluster.rates[2] = ThrottledRate(9_000_000, 9_000_000)
            facts = next_facts(cluster)
        at_ms = START_MS + second * 1_000
        facts.snapshot = replace(facts.snapshot, taken_ms=at_ms, history=())
        history.take(facts)
    moments = history.until(START_MS + 10**9)
    assert len(moments) < 1_200
    assert [m.at_ms for m in moments] == sorted({m.at_ms for m in moments})
    assert moments[0].at_ms - START_MS < 120_000
    (changed,) = [m for m in moments if m.point.rates_changed]
    assert 600_000 <= changed.at_ms - START_MS < 720_000
    assert gaps([moment.at_ms for moment in moments]) == []


def test_a_dashboard_that_is_started_late_shows_the_whole_operation() -> None:
    operation = running_move(incident())
    hours = [running_s([operation], operation.started_ms + h * 3_600_000) for h in (0, 2, 30)]
    assert [SPANS_S[span_covering(one)] for one in hours] == [900.0, 21_600.0, 259_200.0]
    assert running_s([replace(operation, state=OperationState.DONE)], 10**15) == 0.0


def test_values_at_equal_steps_of_time_leave_gaps() -> None:
    points = [HistoryPoint(at * 1_000, 1, 1, float(at)) for at in (*range(10), *range(90, 100))]
    moments = [SeenTransfer(point) for point in points]
    drawn = evenly(moments, rates(moments), 10)
    assert [value == value for value in drawn] == [True] + [False] * 8 + [True]
    assert evenly(moments, rates(moments), 0) == []
    slow = [SeenTransfer(HistoryPoint(at * 1_000, 1, 1, float(at))) for at in (0, 10, 20)]
    assert evenly(slow, rates(slow), 6) == [0, 0, 0, 10, 10, 20]


def test_another_cluster_begins_anew() -> None:
    cluster, history = incident(), SeenTransfers()
    history.take(next_facts(cluster))
    cluster.cluster_id = "another"
    cluster.history.clear()
    history.take(next_facts(cluster))
    assert len(history.until(cluster.now_ms)) == 1


def test_what_a_broker_receives_and_sends_adds_up() -> None:
    cluster, history = incident(), SeenTransfers()
    facts = next_facts(cluster)
    history.take(facts)
    moments = history.until(cluster.now_ms)
    series = [broker_history(moments, broker) for broker in cluster.racks]
    fetched = facts.rows.fetched_bytes_per_s[facts.arriving]
    assert sum(received[-1] for received, _ in series) == pytest.approx(float(np.nansum(fetched)))
    assert sum(sent[-1] for _, sent in series) == pytest.approx(float(np.nansum(fetched)))
    assert all(math.isnan(value) for value in broker_history(moments, 99)[0])


def test_a_silent_brokers_rate_is_unknown_and_not_nought() -> None:
    cluster, history = incident(), SeenTransfers()
    cluster.silent_lag = {5}
    history.take(next_facts(cluster))
    assert math.isnan(broker_history(history.until(cluster.now_ms), 5)[0][-1])


def test_a_span_ends_at_the_newest_and_a_plot_moves_seldom() -> None:
    cluster, history = incident(), SeenTransfers()
    for _ in range(30):
        history.take(next_facts(cluster))
    moments = history.until(cluster.now_ms)
    assert len(within(moments, 10)) == 11
    assert steady(moments)[-1].at_ms % 4_000 == 0
    assert not within((), 10)
    assert not steady(())


# Plots


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_plot_has_its_size_and_leaves_out_what_is_unknown(glyphs) -> None:  # type: ignore[no-untyped-def]
    times = [START_MS + second * 1_000 for second in range(400)]
    values = [math.nan if 100 < second < 200 else second * 1e6 for second in range(400)]
    limit = Series([2e8] * 400, "-")
    text = plot_history("Rate", times, [limit, Series(values)], Unit.BYTES, 60, 12, glyphs)
    lines = text.plain.splitlines()
    assert lines[0] == "Rate, last 6m39s"
    assert len(lines) == 12
    assert max(map(len, lines)) <= 60
    assert any("-----" in line for line in lines[1:-2])
    assert glyphs is UNICODE or text.plain.isascii()


def test_nothing_known_is_said() -> None:
    nothing = plot_history("Rate", [1, 2], [Series([math.nan] * 2)], Unit.BYTES, 60, 12, UNICODE)
    assert nothing.plain == "Rate: no history yet"


def test_an_older_backends_history_has_no_rates() -> None:
    cluster, history = incident(), SeenTransfers()
    facts = next_facts(cluster)
    told = facts.snapshot.history[-1]
    old = HistoryPoint(told.at_ms, told.remaining_bytes, told.moving_replicas)
    facts.snapshot = replace(facts.snapshot, history=(old,))
    history.take(facts)
    assert rates(history.until(cluster.now_ms)) == [facts.summary.rate_bytes_per_s]
