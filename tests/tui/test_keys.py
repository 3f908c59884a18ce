"""The dashboard by its keys: place, filter, sort, views, connection, hostile text, sizes."""

import re
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.tui.actions import (
    ACTIONS,
    FOOTER_MOST,
    FOREIGN,
    IDLE,
    MOVING,
    ORPHANED,
    PENDING,
    RATED,
    actions_of,
    footer_actions,
    footer_key,
    key_table,
)
from kshunt.tui.actions.view_names import PARTITIONS, THROTTLES, VIEWS
from kshunt.tui.app import KshuntApp
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.dialogs.sort import SortScreen
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.grid.plot_panel import PlotPanel
from tests.support.tui.app import RETRY_S, ManualTime, Shown, dashboard, frame
from tests.support.tui.cluster import ScriptedCluster, incident


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard during a throttled move, at 80x24."""
    async with dashboard(tmp_path / "s", incident()) as running:
        yield running


async def test_without_a_backend_it_says_so_and_keeps_trying(tmp_path: Path) -> None:
    app = KshuntApp(
        f"unix:{tmp_path}/none", now_s=ManualTime(), retry_s=(RETRY_S,), start_view="partitions"
    )
    async with app.run_test(size=(80, 24)) as pilot:
        shown = Shown(app, pilot, None, ManualTime())  # type: ignore[arg-type]
        assert "Waiting for the first snapshot" in frame(app)
        await shown.until(lambda: app.store.scene.lost, "the loss is noticed")
        assert "no backend, trying again" in frame(app)
        assert "No backend answers at unix:" in frame(app)
        await shown.press("c", "y", "enter", "l", "r")
        assert "There is no cluster to change yet." in frame(app)


async def test_the_first_screen_tells_what_is_going_on(shown: Shown) -> None:
    text = shown.frame()
    assert shown.backend.cluster.cluster_id in text
    assert "live, <2s old" in text
    assert "Moving 6 partitions" in text
    assert "In sync" in text
    assert "96 replicas" in text


async def test_the_age_of_the_data_is_said(shown: Shown) -> None:
    shown.time.now += 4
    await shown.press("down")
    await shown.until(lambda: "late, 4s old" in shown.frame(), "the age is said")
    shown.time.now += 60
    await shown.until(lambda: "stale, 1m04s old" in shown.frame(), "stale data is called so")


# The operator's place


async def test_the_cursor_stays_on_its_row_through_refreshes(shown: Shown) -> None:
    await shown.press("f", "j", "j")
    before, line = shown.cursor, shown.grid.cursor_row - shown.grid.top_row
    shown.backend.cluster.copy_bytes_per_s = {5: 900_000_000}
    await shown.publish(5.0)
    assert shown.cursor == before
    assert shown.grid.cursor_row != 2, "the row has moved, or this proves nothing"
    assert shown.grid.cursor_row - shown.grid.top_row in (line, shown.grid.cursor_row)


async def test_the_cursor_and_its_line_survive_a_resort_of_a_long_table(tmp_path: Path) -> None:
    cluster = ScriptedCluster.of(5, {"orders": 200, "payments": 200})
    async with dashboard(tmp_path / "s", cluster) as shown:
        await shown.press("pagedown", "pagedown", "pagedown", "j", "j", "k")
        key, line = shown.cursor, shown.grid.cursor_row - shown.grid.top_row
        await shown.press("s", "S", "S", "s", "s")
        assert shown.cursor == key
        assert shown.grid.cursor_row - shown.grid.top_row == line
        assert shown.lines()[3 + 1 + line].split()[0] == shown.grid.cursor_key[0]  # type: ignore[index]


async def test_without_a_place_the_top_of_the_table_stays_in_sight(shown: Shown) -> None:
    await shown.press("f")
    first = shown.cursor
    shown.backend.cluster.copy_bytes_per_s = {3: 2_000_000_000}
    await shown.publish(5.0)
    assert shown.grid.cursor_row == 0
    assert shown.cursor != first
    await shown.press("j", "g")
    assert shown.grid.cursor_row == shown.grid.top_row == 0


async def test_a_row_that_goes_leaves_the_cursor_nearby(shown: Shown) -> None:
    await shown.press("f", "j", "j", "j", "j")
    key = shown.grid.cursor_key
    assert isinstance(key, ReplicaKey)
    shown.backend.cluster.cancel(TopicPartition(key.topic, key.partition))
    await shown.publish()
    assert shown.cursor != str(key)
    assert shown.grid.cursor_row == 4


async def test_keys_move_as_in_vim_and_with_arrows(shown: Shown) -> None:
    rows = []
    for key in ("down", "j", "k", "up", "end", "home", "G", "g", "pagedown", "ctrl+d", "ctrl+u"):
        await shown.press(key)
        rows.append(shown.grid.cursor_row)
    assert rows == [1, 2, 1, 0, 95, 0, 95, 0, 18, 27, 18]


async def test_each_view_keeps_its_place(shown: Shown) -> None:
    await shown.press("j", "j", "j", "3", "j", "4", "G", "5", "2")
    assert shown.grid.cursor_row == 3
    await shown.press("3")
    assert shown.grid.cursor_row == 1
    await shown.press("4")
    assert shown.cursor.endswith("settled.v2')")


async def test_a_view_that_was_out_of_sight_shows_what_came_meanwhile(shown: Shown) -> None:
    await shown.press("3", "2")
    shown.backend.cluster.silent_lag = {5}
    await shown.publish()
    await shown.press("3")
    assert re.search(r"^\s+5 .* \? ", shown.frame(), re.MULTILINE)


async def test_marks_are_kept_by_key(shown: Shown) -> None:
    await shown.press("f", "space", "space")
    marked = set(shown.grid.marked)
    assert len(marked) == 2
    assert "2 marked" in shown.frame()
    assert shown.frame().count("✓") == 2
    await shown.press("s", "S")
    await shown.publish()
    assert shown.grid.marked == marked
    await shown.press("A")
    assert len(shown.grid.marked) == 24
    await shown.press("A")
    assert not shown.grid.marked
    await shown.press("space", "escape")
    assert not shown.grid.marked


# What is shown of it


async def test_the_filter_works_as_it_is_typed_and_says_what_it_cannot_mean(shown: Shown) -> None:
    await shown.press("slash")
    await shown.write("orders add")
    assert "0 of 96" in shown.frame()
    await shown.write("ing")
    assert "2 of 96" in shown.frame()
    await shown.write(" broker:")
    assert "'broker:' needs a value" in shown.said
    assert "0 of 96" in shown.frame()
    await shown.press("enter")
    assert "'broker:' needs a value" in shown.said
    await shown.write("5")
    assert shown.said == ""
    await shown.press("enter")
    assert shown.cursor == "orders-0 on broker 5"
    assert "1 of 96: orders" in shown.frame()
    await shown.press("escape")
    assert "96 replicas" in shown.frame()


async def test_a_filter_that_nothing_passes_says_how_to_go_on(shown: Shown) -> None:
    await shown.press("slash")
    await shown.write("nosuch")
    await shown.press("escape")
    assert "Nothing matches 'nosuch'. / changes the filter." in shown.frame()
    await shown.press("j", "k", "space", "enter", "c", "l", "G")
    assert shown.backend.asked == []
    # Replicas move, so it must not say that nothing does.
    await shown.press("f")
    said = "Nothing that moves or ails matches 'nosuch': f shows all, / filters."
    assert said in shown.frame()


async def test_words_narrow_every_table(shown: Shown) -> None:
    await shown.press("4", "slash")
    assert "words that a row has" in shown.frame()
    await shown.write("broker -3")
    await shown.press("escape")
    assert ": broker -3" in shown.frame(), shown.frame()
    assert "broker 2" in shown.frame()
    assert "broker 3" not in shown.frame()
    await shown.press("3", "slash")
    await shown.write("rack: kafka-2")
    await shown.press("enter")
    assert "Nothing matches 'rack: kafka-2'. / changes the filter." in shown.frame()
    await shown.press("4", "escape")
    assert "broker 3" in shown.frame()
    assert shown.backend.asked == []


async def test_a_view_without_rows_finds_replicas(shown: Shown) -> None:
    await shown.press("1", "slash")
    await shown.until(lambda: shown.app.current_mode == "partitions", "they have a row each")
    await shown.write("nosuch")
    assert "Nothing matches 'nosuch'" in shown.frame()
    await shown.press("escape", "escape")
    assert "96 replicas" in shown.frame()


async def test_following_shows_only_what_moves_worst_first(shown: Shown) -> None:
    await shown.press("f")
    assert "following 24 of 96" in shown.frame()
    assert shown.cursor == "payments.transactions.settled.v2-1 on broker 3"
    await shown.press("f")
    assert "96 replicas" in shown.frame()
    for state in shown.backend.cluster.partitions.values():
        state.copied.clear()
        state.removing.clear()
    await shown.press("f")
    await shown.publish()
    assert "Nothing moves or ails. f shows every replica again." in shown.frame()


async def test_what_moves_may_all_be_filtered_out(shown: Shown) -> None:
    await shown.press("f", "slash")
    await shown.write("nosuch")
    await shown.press("escape")
    frame = " ".join(shown.frame().split())
    assert "Nothing that moves or ails matches 'nosuch': f shows all, / filters." in frame
    assert "Nothing moves or ails" not in frame


async def test_sorting_by_keys_and_by_choice(shown: Shown) -> None:
    await shown.press("s")
    assert "Topic▴" in shown.frame()
    assert "Sorted by Topic" in shown.said
    await shown.press("S")
    assert "Topic▾" in shown.frame()
    await shown.press("o")
    choice = await shown.dialog(SortScreen)
    assert "Lag bytes" in shown.frame()
    await shown.press("j", "j", "j", "j", "j", "j", "enter")
    await shown.closed()
    assert shown.app.store.queries["partitions"].order.key == "lag_bytes"
    assert choice is not shown.app.screen
    assert shown.lines()[4].split()[-2] != "0"


async def test_columns_go_and_come_with_the_width(shown: Shown) -> None:
    wide = ["Topic", "Part", "Broker", "Role", "Status", "Lag msgs", "Lag bytes", "Catch-up"]
    await shown.resize(160, 50)
    header = shown.lines()[3]
    assert all(title in header for title in [*wide, "ETA", "Thr", "Size"])
    await shown.press("f")
    assert re.search(r"Behind: \d+ messages behind", shown.frame())
    await shown.resize(60, 24)
    titles = shown.lines()[3].split()
    assert titles[0] == "Topic"
    assert "Status" in titles
    assert "Size" not in titles
    assert "Thr" not in titles


async def test_the_plot_is_there_where_there_is_room_and_on_request(shown: Shown) -> None:
    assert "Bytes remaining" not in shown.frame()
    for _ in range(5):
        await shown.publish()
    await shown.press("p")
    await shown.until(lambda: "Bytes remaining, last" in shown.frame(), "the plot is drawn")
    await shown.press("p")
    assert not shown.view.query_one(PlotPanel).display
    await shown.resize(160, 50)
    await shown.press("p")
    await shown.until(lambda: "Bytes remaining, last" in shown.frame(), "the plot is drawn")
    assert "now" in shown.frame()


async def test_details_show_the_partition_in_full(shown: Shown) -> None:
    await shown.press("f", "enter")
    await shown.dialog(RowDetailsScreen)
    await shown.until(lambda: "messages behind the" in shown.frame(), "its offsets are said")
    text = shown.frame()
    assert "payments.transactions.settled.v2" in text
    assert "adding" in text
    assert re.search(r"log end [\d,]+, [\d,]+ messages behind the", text)
    await shown.press("escape")
    await shown.closed()


async def test_a_problem_is_said_at_the_top_of_every_view(shown: Shown) -> None:
    shown.backend.cluster.down = {3: "connection refused"}
    await shown.publish()
    for view in "1234":
        await shown.press(view)
        assert "! Broker 3 does not answer: connection refused." in shown.frame()
    await shown.press("3")
    assert "stale" in shown.frame()


async def test_throttles_without_a_move_are_pointed_out(tmp_path: Path) -> None:
    cluster = incident()
    for state in cluster.partitions.values():
        state.copied.clear()
        state.removing.clear()
    async with dashboard(tmp_path / "s", cluster) as shown:
        assert "Nothing moves" in shown.frame()
        await shown.press("4")
        assert "left over" in shown.frame()


# The registry


def test_the_footer_has_at_most_six_keys_and_help_is_one_of_them() -> None:
    words = sorted({word for action in ACTIONS for word in action.when})
    nows = [{MOVING}, {IDLE}, {*words}, *({MOVING, word} for word in words)]
    for view, now in product(VIEWS, nows):
        shown = footer_actions(view, now)
        assert len(shown) <= FOOTER_MOST
        assert shown[-1].id == "help"
        assert len("  ".join(f"{footer_key(a)} {a.hint}" for a in shown)) <= 78


def footer_words(view: str, *now: str) -> str:
    return "  ".join(f"{footer_key(a)} {a.hint}" for a in footer_actions(view, {IDLE, *now}))


def test_the_throttles_view_names_the_keys_that_set_rates() -> None:
    setting = ("+/- 10 %", "= type", "Space mark")
    every = ({RATED}, {RATED, FOREIGN}, {RATED, ORPHANED}, {RATED, FOREIGN, ORPHANED})
    for now in every:
        words = footer_words(THROTTLES, *now)
        assert all(one in words for one in setting), words
    pending = footer_words(THROTTLES, RATED, PENDING, FOREIGN, ORPHANED)
    assert pending.startswith("Esc drop  Enter continue")
    assert "mark" not in footer_words(PARTITIONS)


def test_no_key_means_two_things_in_one_view() -> None:
    for view in VIEWS:
        keys = [key for action in actions_of(view) for key in action.keys]
        assert len(keys) == len(set(keys))


def test_no_key_needs_alt_a_function_key_or_a_mouse() -> None:
    for action in ACTIONS:
        assert not any(re.match(r"alt\+|f\d+$|meta", key) for key in action.keys)


async def test_every_action_has_a_method_and_is_in_the_help(shown: Shown) -> None:
    for view in VIEWS:
        await shown.press(str(VIEWS.index(view) + 1))
        for action in actions_of(view):
            owner = shown.grid if action.where == "grid" else shown.view
            assert hasattr(owner, f"action_{action.id.partition('(')[0]}"), action.id
        await shown.press("question_mark")
        helped = await shown.dialog(HelpScreen)
        said = " ".join(line.plain for line in helped.query("Lines"))
        assert all(action.title in said for action in actions_of(view))
        await shown.press("escape")
        await shown.closed()


def test_the_key_table_lists_every_action_once() -> None:
    table = key_table()
    assert table.count("\n") == len(ACTIONS) + 1
    for action in ACTIONS:
        assert f"| {action.title} | {action.help} |" in table


async def test_the_palette_runs_actions_by_name(shown: Shown) -> None:
    await shown.press("colon")
    await shown.write("follow")
    await shown.until(lambda: "Follow the moves (f)" in shown.frame(), "the action is found")
    await shown.pilot.press("enter")
    await shown.until(lambda: "following" in shown.frame(), "it was run")


async def test_a_message_gives_way_to_the_keys_at_the_next_key(shown: Shown) -> None:
    await shown.press("s")
    assert shown.said
    await shown.press("j")
    assert not shown.said
    assert shown.lines()[-1].startswith(" / filter  f follow")
