"""The brokers view: throttles and how much of them is used, disks, who feeds whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Snapshot
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.facts.brokers.disks import disks_of, peak_tone
from kshunt.tui.facts.brokers.flows import ALL, NOBODY, flows_of
from kshunt.tui.facts.brokers.loads import loads_of
from kshunt.tui.facts.brokers.row import BrokerRow
from kshunt.tui.facts.snapshot_facts import Facts, known_sum
from kshunt.tui.tables.model import NATURAL, Order, fit_columns
from kshunt.tui.text.glyphs import ASCII
from kshunt.tui.views.brokers.details import about
from kshunt.tui.views.brokers.matrix import flow_table, place_table
from kshunt.tui.views.brokers.table import broker_table
from tests.support.tui.app import SIZES, Shown, at_size, check_frame, dashboard, named
from tests.support.tui.cluster import ScriptedCluster, eventful, incident, running_move
from tests.support.tui.tables import SEEDS, facts_of, keys, row_words, scrambled


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard during a throttled move, in the brokers view at 80x24."""
    async with dashboard(tmp_path / "s", incident(), start_view="brokers") as running:
        yield running


@pytest.fixture(params=SIZES)
async def sized(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The brokers view at each size."""
    async with at_size(tmp_path, eventful(), request.param, start_view="brokers") as running:
        yield running


def rows_of(facts: Facts) -> dict[int, BrokerRow]:
    """Every broker's row by its id."""
    table = broker_table(facts, NATURAL)
    found = {id: table.value_of(id) for id in facts.snapshot.brokers}
    return {id: row for id, row in found.items() if row is not None}


def with_dirs(snapshot: Snapshot, *directories: LogDir) -> Facts:
    """The snapshot with these directories; replicas of odd partitions lie in the second one."""
    rows = snapshot.replicas
    dirs = (rows.partition % 2).astype(np.int16)
    changed = replace(
        snapshot,
        log_dirs=directories,
        log_dir_paths=("/a", "/b"),
        replicas=replace(rows, log_dir=dirs),
    )
    return Facts(changed)


# How much of a throttle is used


def test_the_used_share_is_what_the_throttled_copies_take() -> None:
    rows = rows_of(facts_of(incident(), 2.0))
    assert rows[5].used_share(leader=False) == pytest.approx(1.0)
    assert rows[5].used_share(leader=True) == 0.0
    fed = sum(row.throttled_out_bytes_per_s for row in rows.values())
    received = sum(row.throttled_in_bytes_per_s for row in rows.values())
    assert fed == pytest.approx(received) == pytest.approx(75_000_000)


def test_copies_in_no_list_use_nothing_of_a_throttle() -> None:
    cluster = incident()
    cluster.lists = {}
    rows = rows_of(facts_of(cluster, 2.0))
    assert all(row.throttled_in_bytes_per_s == 0 for row in rows.values())
    assert rows[5].rate_in_bytes_per_s > 100_000_000
    words = row_words(broker_table(facts_of(cluster, 2.0), NATURAL), 4, 15)
    assert words["used_in"] == "──────────   0%"


def test_what_is_not_known_of_a_throttle_is_not_made_up() -> None:
    cluster = incident()
    cluster.rates = {5: ThrottledRate(None, 50_000_000)}
    cluster.silent_lag = {3}
    cluster.down = {2: "connection refused"}
    table = broker_table(facts_of(cluster, 2.0), NATURAL)
    said = {row: row_words(table, row, 15) for row in range(len(table))}
    assert said[0]["used_in"] == said[0]["used_out"] == "-"
    assert said[1]["used_in"] == said[1]["follower_rate"] == "?"
    assert said[2]["follower_rate"] == "none"
    assert said[4]["used_in"] == "━━━━━━━━━━ 100%"
    assert row_words(table, 4, 4)["used_in"] == "100%"


@settings(deadline=None)
@given(SEEDS)
def test_loads_of_brokers_add_up(seed: int) -> None:
    facts = scrambled(seed)
    rows, loads = facts.rows, loads_of(facts, sorted(facts.snapshot.brokers))
    assert int(loads.replicas.sum()) == len(rows)
    assert int(loads.moving_in.sum()) == int(rows.adding.sum())
    assert int(loads.preferred.sum()) == int((rows.position == 0).sum())
    behind = facts.behind & (rows.leader != rows.broker)
    known, unknown = known_sum(rows.lag_bytes[behind])
    for lags in (loads.lag_in_bytes, loads.lag_out_bytes):
        assert int(lags[lags > 0].sum()) == max(known, 0)
    assert int(loads.lag_in_unknown.sum()) == unknown
    within = loads.throttled_in_bytes_per_s
    assert float(within[~np.isnan(within)].sum()) >= 0


def test_leaders_stand_beside_those_that_it_is_preferred_for() -> None:
    table = broker_table(facts_of(incident()), NATURAL)
    assert row_words(table, 1, 9)["leaders"] == "5/6"
    assert row_words(table, 1, 2)["leaders"] == "5"


# Disks


def test_the_peak_is_what_is_there_and_what_comes_by_directory() -> None:
    cluster = incident()
    dirs = [LogDir(5, "/b", 1000 * 10**9, 30 * 10**9), LogDir(5, "/a", 10**12, 5 * 10**11)]
    facts = with_dirs(cluster.step(1.0), *dirs)
    a, b = disks_of(facts, 5)
    assert (a.path, b.path) == ("/a", "/b")
    rows = facts.rows
    coming = rows.adding & (rows.broker == 5)
    assert a.arriving_bytes == int(rows.lag_bytes[coming & (rows.log_dir == 0)].sum())
    assert b.arriving_bytes == int(rows.lag_bytes[coming & (rows.log_dir == 1)].sum())
    assert a.peak_bytes == 5 * 10**11 + a.arriving_bytes
    assert b.share == pytest.approx(0.97)
    assert b.peak_share is not None
    assert b.peak_share > 0.97
    row = rows_of(facts)[5]
    assert row.disk.arriving_bytes == a.arriving_bytes + b.arriving_bytes
    assert "to come, at the peak" in dict(broker_table(facts, NATURAL).more(4))["Directory /a"]


def test_a_disk_that_will_be_full_is_said_so() -> None:
    facts = with_dirs(incident().step(1.0), LogDir(5, "/a", 10**11, 10**10))
    assert rows_of(facts)[5].disk.peak_share == pytest.approx(1.148, abs=0.02)
    cell = {c.key: i for i, c in enumerate(broker_table(facts, NATURAL).columns)}
    words = row_words(broker_table(facts, NATURAL), 4, 24)
    assert words["peak"].endswith("FULL")
    assert cell["peak"]
    tones = [peak_tone(share) for share in (None, 0.5, 0.9, 0.91, 1.0)]
    assert tones == ["dim", "", "", "warn", "bad"]
    lines = {line.text: line.tone for line in about(facts, 5)}
    assert any(text.startswith("/a: 90.0 GB of 100 GB, 90%") for text in lines)


def test_a_disk_that_does_not_say_has_no_peak() -> None:
    cluster = incident()
    cluster.silent_lag = {5}
    facts = with_dirs(cluster.step(1.0), LogDir(5, "/a"), LogDir(1, "/a", 10, 5, "KAFKA_STORAGE"))
    words = row_words(broker_table(facts, NATURAL), 4, 20)
    assert (words["disk"], words["peak"]) == ("?", "?")
    (disk,) = disks_of(facts, 5)
    assert (disk.used_bytes, disk.peak_bytes, disk.arriving_unknown) == (UNKNOWN, UNKNOWN, 15)
    assert disk.at_least
    assert any("offline: KAFKA_STORAGE" in line.text for line in about(facts, 1))
    assert any("not reported yet" in line.text for line in about(facts, 2))


def test_partitions_that_wait_may_add_to_the_peak() -> None:
    cluster = incident()
    operation = replace(running_move(cluster), waiting=7)
    lines = about(facts_of(cluster), 5, [operation])
    assert any("7 partitions that wait may add to it" in line.text for line in lines)


# Who feeds whom


@settings(deadline=None)
@given(SEEDS)
def test_flows_add_up(seed: int) -> None:
    facts = scrambled(seed)
    flows, rows = flows_of(facts), facts.rows
    if not rows.adding.any():
        assert flows == {}
        return
    sent = [flows[key] for key in flows if key != ALL]
    total = flows[ALL].total
    assert sum(one.total.copies for one in sent) == total.copies == int(rows.adding.sum())
    for target, flow in flows[ALL].to.items():
        there = [one.to[target] for one in sent if target in one.to]
        assert sum(one.copies for one in there) == flow.copies
        assert sum(one.stuck for one in there) == flow.stuck
        assert sum(max(one.lag_bytes, 0) for one in there) == max(flow.lag_bytes, 0)


def test_the_matrix_says_who_feeds_whom() -> None:
    table = flow_table(facts_of(incident(), 2.0), NATURAL)
    assert keys(table) == [1, 2, 4, ALL]
    assert row_words(table, 3, 12)["total"] == "6 75.0 MB/s"
    assert row_words(table, 1, 6) == {
        "from": "2",
        "total": "2 17M",
        "to 2": ".",
        "to 3": ".",
        "to 5": "2 17M",
    }
    assert dict(table.more(1))["Filter"] == "leader:2 adding"
    assert dict(table.more(1))["To 5"].startswith("2 copies at 16.7 MB/s, ")
    shifted = flow_table(facts_of(incident(), 2.0), NATURAL, 1)
    assert [column.key for column in shifted.columns] == ["from", "total", "to 3", "to 5"]
    assert len(flow_table(facts_of(incident()), NATURAL, 99).columns) == 3


def test_ten_receivers_fit_into_80_columns() -> None:
    cluster = ScriptedCluster.of(11, {"wide": 10})
    for partition, state in cluster.partitions.items():
        cluster.move(partition, [*state.replicas[:2], state.replicas[2] % 11 + 1])
    table = flow_table(facts_of(cluster), Order())
    shown = {column.key for column, _ in fit_columns(table.columns, 78)}
    assert len(table.columns) == 12
    assert shown >= {column.key for column in table.columns} - {"total"}


def test_places_say_in_a_sign_what_each_replica_is() -> None:
    cluster = incident()
    cluster.silent_lag = {3}
    table = place_table(facts_of(cluster, 60.0), NATURAL)
    orders = table.row_of(TopicPartition("orders", 0))
    assert orders is not None
    words = row_words(table, orders, 5)
    assert (words["on 2"], words["on 4"]) == ("L", "-")
    assert words["on 5"].endswith("%")
    moved = table.row_of(TopicPartition("orders", 2))
    assert moved is not None
    assert row_words(table, moved, 5)["on 3"] == "?"
    assert row_words(table, moved, 5)["on 4"] == "L"
    assert len(place_table(facts_of(ScriptedCluster.of(3, {"a": 2})), NATURAL)) == 0


def test_copies_without_a_leader_have_no_source() -> None:
    cluster = incident()
    for state in cluster.partitions.values():
        state.leader = -1
    table = flow_table(facts_of(cluster), NATURAL)
    assert keys(table) == [NOBODY, ALL]
    assert row_words(table, 0)["from"] == "none"


async def test_m_goes_through_the_matrices_and_escape_leaves_them(shown: Shown) -> None:
    await shown.press("j", "m")
    assert "copy matrix" in shown.frame()
    assert ">5" in shown.lines()[3]
    assert shown.grid.cursor_key == 2
    assert "Rows send, columns receive" in shown.frame()
    await shown.press("enter")
    await shown.dialog(RowDetailsScreen)
    await shown.until(lambda: "2 copies at" in shown.frame(), "the flow is said")
    await shown.press("escape")
    await shown.closed()
    await shown.press("l")
    assert "from column 2" not in shown.frame(), "everything fits"
    await shown.press("m")
    assert "partition by broker" in shown.frame()
    assert "L leads" in shown.frame()
    await shown.press("m")
    assert "5 brokers" in shown.frame()
    await shown.press("m", "escape")
    assert "5 brokers" in shown.frame()
    assert "Rows send" not in shown.frame()


async def test_columns_that_do_not_fit_are_shifted_into_sight(shown: Shown) -> None:
    await shown.resize(40, 24)
    await shown.press("m", "m", "s")
    assert len(shown.grid.shown_columns) < 6
    await shown.resize(30, 24)
    hidden = shown.grid.table.columns[-1].key  # type: ignore[union-attr]
    assert hidden not in [column.key for column in shown.grid.shown_columns]
    for _ in range(9):
        await shown.press("right")
    assert shown.grid.shown_columns[-1].key == hidden
    await shown.press("left", *["h"] * 8)
    assert shown.grid.shown_columns[1].key == "on 1"


async def test_a_matrix_of_nothing_says_so(tmp_path: Path) -> None:
    cluster = ScriptedCluster.of(3, {"orders": 3})
    async with dashboard(tmp_path / "s", cluster, start_view="brokers") as shown:
        await shown.press("m")
        assert "Nothing is being copied between brokers." in shown.frame()
        await shown.press("j", "enter", "e", "m", "m")
        assert "3 brokers" in shown.frame()


async def test_the_pane_shows_a_brokers_disks(sized: Shown) -> None:
    await sized.press("j", "enter")
    if sized.size[1] < 36:
        await sized.dialog(RowDetailsScreen)
        await sized.until(lambda: "3.43 GB" in sized.frame(), "disks are said")
        await sized.press("escape")
        await sized.closed()
        return
    assert "uses 16.7 MB/s of its leader rate of 25.0 MB/s (67%)" in sized.frame()
    await check_frame(named("broker", sized), sized)
    await sized.press("enter")
    assert "uses 16.7 MB/s" not in sized.frame()


async def test_matrix_frames(sized: Shown) -> None:
    await sized.press("m")
    await check_frame(named("matrix", sized), sized)
    await sized.press("m")
    await check_frame(named("matrix-places", sized), sized)


async def test_bars_are_ascii_where_there_is_nothing_else(tmp_path: Path) -> None:
    async with dashboard(
        tmp_path / "s", incident(), size=(160, 50), start_view="brokers", glyphs=ASCII
    ) as shown:
        assert re_bar(shown.frame())
        assert "━" not in shown.frame()


def re_bar(text: str) -> bool:
    """Whether a full and an empty bar are there."""
    return "######### 100%" in text and "---------   0%" in text


@pytest.mark.slow
async def test_every_state_fits_every_size(shown: Shown) -> None:
    for size in ((20, 5), (40, 10), (120, 40), (200, 60), (80, 24)):
        await shown.resize(*size)
        await shown.press("m", "l", "m", "right", "h", "m", "enter", "escape")
        await shown.closed()
        assert all(len(line) <= size[0] for line in shown.lines())
