"""The mouse: tabs, titles of columns, keys of the last line, a second click, rows drawn over."""

from __future__ import annotations

from pathlib import Path

from textual import events

from kshunt.tui.actions.view_names import BROKERS, OPERATIONS, OVERVIEW, PARTITIONS
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.dialogs.row_details import RowDetailsScreen
from kshunt.tui.grid.filter_line import FilterLine
from kshunt.tui.grid.key_bar import KeyBar, action_at
from kshunt.tui.grid.selectable_lines import SelectableLines
from kshunt.tui.grid.tabs import ViewTabs
from kshunt.tui.tables.model import RowKey
from kshunt.tui.views.overview.parts import MOVES
from kshunt.tui.views.overview.screen import OverviewScreen
from tests.support.tui.app import Shown, dashboard
from tests.support.tui.cluster import incident, running_move
from tests.support.tui.replay import Recorded


async def click(shown: Shown, words: str, *, line: int, times: int = 1) -> None:
    """Click on words that a line of the screen has."""
    x = shown.lines()[line].index(words)
    await shown.pilot.click(offset=(x, line % shown.size[1]), times=times)
    await shown.until_shown()


def keys(shown: Shown, count: int) -> list[RowKey]:
    """Of the first rows."""
    table = shown.grid.table
    assert table is not None
    return [table.key_of(row) for row in range(count)]


async def test_a_tab_goes_to_its_view(shown: Shown) -> None:
    tabs = shown.lines().index(next(line for line in shown.lines() if "3 Brokers" in line))
    await click(shown, "Brokers", line=tabs)
    assert shown.app.current_mode == BROKERS
    await click(shown, "5", line=tabs)
    assert shown.app.current_mode == OPERATIONS


async def test_a_click_beside_the_tabs_goes_nowhere(shown: Shown) -> None:
    width = shown.app.query_one(ViewTabs).size.width
    await shown.pilot.click(ViewTabs, offset=(width - 1, 0))
    assert shown.app.current_mode == PARTITIONS


async def test_a_key_of_the_last_line_does_what_the_key_does(shown: Shown) -> None:
    await click(shown, "help", line=-1)
    await shown.dialog(HelpScreen)
    await shown.pilot.press("escape")
    await shown.closed()
    await click(shown, "/", line=-1)
    await shown.until(lambda: isinstance(shown.app.focused, FilterLine), "the filter line")


async def test_a_click_on_a_message_brings_the_keys_back(shown: Shown) -> None:
    shown.app.say("Seen.")
    await shown.until(lambda: "Seen." in shown.lines()[-1], "it is said")
    await shown.pilot.click(KeyBar, offset=(2, 0))
    await shown.until(lambda: "help" in shown.lines()[-1], "the keys")


async def test_a_click_elsewhere_brings_the_keys_back_too(shown: Shown) -> None:
    shown.app.say("Seen.")
    await shown.pilot.click("#grid", offset=(5, 3))
    assert shown.said == ""
    await shown.pilot.click("#grid", offset=(4, 0))
    await shown.until(lambda: shown.said.startswith("Sorted by"), "what the click did is said")


async def test_a_footer_of_two_keys_has_two_halves(shown: Shown) -> None:
    await shown.press("4")
    actions = shown.view.key_bar._actions
    line = shown.lines()[-1]
    at = line.index("+/-")
    assert action_at(actions, at) == "faster"
    assert action_at(actions, at + 2) == "slower"
    assert action_at(actions, 0) == ""


async def test_a_title_sorts_and_again_reverses(shown: Shown) -> None:
    titles = next(place for place, line in enumerate(shown.lines()) if " Topic " in line)
    await click(shown, "Bytes", line=titles)
    order = shown.app.store.queries[PARTITIONS].order
    assert (order.key, order.reverse) == ("lag_bytes", True)
    await click(shown, "Bytes", line=titles)
    assert not shown.app.store.queries[PARTITIONS].order.reverse
    await click(shown, "Topic", line=titles)
    assert shown.app.store.queries[PARTITIONS].order.key == "topic"


async def test_a_double_click_opens_the_row_of_the_first_click(shown: Shown) -> None:
    row = keys(shown, 4)[3]
    await shown.pilot.click("#grid", offset=(5, 4), times=2)
    await shown.dialog(RowDetailsScreen)
    assert shown.grid.cursor_key == row


async def drag(shown: Shown, first: int, last: int) -> None:
    """From one line of the table to another, with the button down."""
    await shown.pilot.mouse_down("#grid", offset=(5, first))
    step = 1 if last > first else -1
    for y in range(first, last + step, step):
        region = shown.grid.region
        event = events.MouseMove(
            None, 5, region.y + y, 0, step, 1, False, False, False, 5, region.y + y
        )
        event.set_sender(shown.app)
        shown.app.post_message(event)
    await shown.pilot.pause()
    await shown.pilot.mouse_up("#grid", offset=(5, last))
    await shown.until_shown()


async def test_rows_that_are_drawn_over_are_marked(shown: Shown) -> None:
    rows = keys(shown, 6)
    await drag(shown, 2, 4)
    assert shown.grid.marked == set(rows[1:4])
    await drag(shown, 6, 5)
    assert shown.grid.marked == set(rows[1:6])
    assert shown.app.mouse_captured is None
    await shown.pilot.click("#grid", offset=(5, 1))
    assert len(shown.grid.marked) == 5


async def test_a_table_without_marks_marks_nothing(shown: Shown) -> None:
    await shown.press("3")
    await drag(shown, 1, 3)
    assert shown.grid.marked == set()


async def test_a_click_lets_keys_go_to_a_part_of_the_overview(tmp_path: Path) -> None:
    cluster = incident()
    running_move(cluster)
    async with dashboard(tmp_path / "s", cluster, size=(200, 50), start_view=OVERVIEW) as shown:
        await shown.publish()
        await shown.until(lambda: "Who feeds whom" in shown.frame(), "the parts")
        await shown.pilot.click(f"#{MOVES}", offset=(1, 0))
        assert isinstance(shown.view, OverviewScreen)
        assert shown.view.board is shown.view.query_one(f"#{MOVES}", SelectableLines)


async def test_the_past_is_reached_by_the_keys_of_the_last_line(live: Recorded) -> None:
    await live.go("left_square_bracket")
    before = live.app.playback.position_ms
    await live.pilot.click(KeyBar, offset=(live.lines()[-1].index("back"), 0))
    await live.arrived()
    assert live.app.playback.position_ms == before - 10_000


async def test_text_of_a_dialogue_is_selected_by_drawing_over_it(shown: Shown) -> None:
    await shown.press("question_mark")
    await shown.dialog(HelpScreen)
    place = next(n for n, line in enumerate(shown.lines()) if "Overview. The state" in line)
    for kind, x, y, button in (
        (events.MouseDown, 20, place, 1),
        (events.MouseMove, 30, place, 1),
        (events.MouseMove, 40, place + 1, 1),
        (events.MouseUp, 40, place + 1, 1),
    ):
        event = kind(None, x, y, 0, 0, button, False, False, False, x, y)
        event.set_sender(shown.app)
        shown.app.post_message(event)
        await shown.pilot.pause()
    assert shown.app._exception is None
    assert shown.app.screen.get_selected_text()
    shown.frame()
    await shown.pilot.press("ctrl+c")
    assert shown.app.clipboard
