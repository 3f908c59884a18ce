"""The parts of a large overview as lines: what fits, what is said of the rest, without colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.tui.actions.view_names import OPERATIONS, OVERVIEW, PARTITIONS
from kshunt.tui.facts.brokers.flows import ALL, CopyFlow, Sent
from kshunt.tui.facts.cockpit.cockpit import Cockpit
from kshunt.tui.facts.cockpit.events import Event
from kshunt.tui.facts.cockpit.marks import CHANGE, INCIDENT
from kshunt.tui.facts.overview import Home, HomeBuilder
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.view_query import PARTS as PARTS_ASKED
from kshunt.tui.facts.view_query import Job, Query
from kshunt.tui.tables.gauges import HEAT, curve, gauge, heat, heat_cell, parts_gauge
from kshunt.tui.tables.lines import Line, wrapped
from kshunt.tui.tables.model import Cell, RowKey
from kshunt.tui.text.glyphs import ASCII, UNICODE, Glyphs
from kshunt.tui.views.overview.broker_tiles import tile_lines
from kshunt.tui.views.overview.event_lines import event_lines
from kshunt.tui.views.overview.flow_map import flow_lines, heaviest
from kshunt.tui.views.overview.layout import OverviewState, head_lines
from kshunt.tui.views.overview.part_lines import part_lines, part_title
from kshunt.tui.views.overview.parts import BROKERS, EVENTS, FLOWS, MOVES, PARTS, Layout, layout_for
from tests.support.tui.cluster import ScriptedCluster, moving

STUCK = TopicPartition("orders", 2)
MORE = "z shows more"


def home_of(cluster: ScriptedCluster) -> Home:
    """What is known of a cluster, after some seconds of being looked at."""
    builder = HomeBuilder()
    for _ in range(3):
        snapshot = cluster.step(5.0)
        operations = tuple(cluster.operations.values())
        job = Job(OVERVIEW, Query(group=PARTS_ASKED), snapshot, operations, cluster.now_ms)
        home = builder.home(Facts(snapshot), job, plots=True)
    return home


def wide(brokers: int, moves: int) -> ScriptedCluster:
    """A cluster with this number of brokers, and this number of moves between them."""
    cluster = ScriptedCluster.of(brokers, {"orders": max(moves, brokers)})
    for number, (partition, state) in enumerate(list(cluster.partitions.items())[:moves]):
        first = number * 7 + number // brokers
        targets = (1 + (first + step) % brokers for step in range(brokers))
        target = next(one for one in targets if one not in state.replicas)
        cluster.move(partition, (*state.replicas[:-1], target))
    return cluster


def cockpit_of(cluster: ScriptedCluster) -> Cockpit:
    found = home_of(cluster).cockpit
    assert found is not None
    return found


def texts(lines: Sequence[Line]) -> list[str]:
    return [line.text for line in lines]


# Layouts


@pytest.mark.parametrize(
    ("width", "height", "layout"),
    [
        (80, 24, Layout.PLAIN),
        (120, 36, Layout.MIDDLE),
        (160, 44, Layout.MIDDLE),
        (160, 45, Layout.COCKPIT),
        (200, 50, Layout.COCKPIT),
        (300, 30, Layout.PLAIN),
    ],
)
def test_the_size_of_the_terminal_decides_the_layout(
    width: int, height: int, layout: Layout
) -> None:
    assert layout_for(width, height) is layout


CLUSTERS: dict[str, Callable[[], ScriptedCluster]] = {
    "moving": moving,
    "idle": lambda: ScriptedCluster.of(4, {"orders": 8}),
    "two brokers": lambda: ScriptedCluster.of(2, {"orders": 2}, copies=2),
    "sixty brokers": lambda: wide(60, 240),
    "empty": ScriptedCluster,
}


@cache
def home_named(name: str) -> Home:
    """What is known of one of the clusters: computed once, by the worker that has these tests."""
    return home_of(CLUSTERS[name]())


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(CLUSTERS)),
    st.sampled_from(PARTS),
    st.integers(1, 220),
    st.integers(1, 60),
    st.sampled_from((UNICODE, ASCII)),
)
def test_a_part_fits_any_room(
    name: str, part: str, width: int, height: int, glyphs: Glyphs
) -> None:
    lines = part_lines(part, home_named(name), width, height, glyphs, MORE)
    assert len(lines) <= height
    assert all(cell_len(line.text) <= width for line in lines)
    assert glyphs is UNICODE or all(line.text.isascii() for line in lines)


def test_before_the_first_snapshot_there_is_nothing_in_a_part() -> None:
    assert [part_lines(part, None, 80, 20, UNICODE, MORE) for part in PARTS] == [[]] * len(PARTS)


# Who feeds whom


def sent(pairs: dict[tuple[int, int], CopyFlow]) -> dict[RowKey, Sent]:
    found: dict[RowKey, Sent] = {}
    every: dict[int, CopyFlow] = {}
    for (source, target), flow in pairs.items():
        before = found.get(source, Sent(source, CopyFlow(0, 0.0), {}))
        total = CopyFlow(
            before.total.copies + 1, before.total.rate_bytes_per_s + flow.rate_bytes_per_s
        )
        found[source] = Sent(source, total, {**before.to, target: flow})
        known = every.get(target, CopyFlow(0, 0.0))
        every[target] = replace(known, rate_bytes_per_s=known.rate_bytes_per_s + 1e6, copies=1)
    found[ALL] = Sent(ALL, CopyFlow(len(pairs), 1e6), every)
    return found


def test_the_heaviest_pair_comes_first_and_its_line_is_the_longest() -> None:
    flows = sent({(1, 2): CopyFlow(3, 4e6, 10), (3, 2): CopyFlow(1, 8e6, 10)})
    assert [pair[:2] for pair in heaviest(flows)] == [(3, 2), (1, 2)]
    head, first, second = texts(flow_lines(flows, 78, 20, UNICODE, MORE))
    assert head.split() == ["From", "To", "Rate", "Left", "Copies"]
    assert first.split()[0] == "3"
    assert first.split()[2:5] == ["2", "8.00", "MB/s"]
    assert first.count("━") == pytest.approx(2 * second.count("━"), abs=1)
    assert cell_len(first) == cell_len(second) == cell_len(head)


def test_a_stuck_pair_is_said_and_toned() -> None:
    flows = sent({(1, 2): CopyFlow(3, 0.0, 10, 2), (-1, 3): CopyFlow(1, math.nan, 10)})
    lines = flow_lines(flows, 90, 20, UNICODE, MORE)
    alone, stuck = lines[1:]
    assert [cell.tone for cell in alone.spans if "none" in cell.text] == ["bad"]
    assert [cell.tone for cell in stuck.spans if cell.text == "▸"] == ["bad"]
    assert stuck.text.endswith("! 2 stuck")


def test_below_few_pairs_stand_the_topics_that_move() -> None:
    lines = part_lines(FLOWS, home_named("moving"), 78, 24, UNICODE, MORE)
    head = next(place for place, line in enumerate(lines) if line.text.startswith("Topic"))
    assert lines[head - 1].text == ""
    first = lines[head + 1]
    assert first.text.startswith("payments.transactions.settled.v2 ")
    assert first.target is not None
    assert first.target.filter_text == "topic:payments.transactions.settled.v2 moving"
    assert sum(int(line.text.split()[-1]) for line in lines[head + 1 :]) == 6
    none = texts(part_lines(FLOWS, home_named("moving"), 78, 8, UNICODE, MORE))
    assert not any(line.startswith("Topic") for line in none)


def test_too_many_pairs_become_a_heat_map() -> None:
    lines = texts(flow_lines(cockpit_of(wide(12, 60)).flows, 76, 20, UNICODE, MORE))
    assert lines[0].split()[0] == "From"
    assert lines[0].split()[-1] == "sends"
    assert [line.split()[0] for line in lines[1:13]] == [str(one) for one in range(1, 13)]
    assert lines[13].split()[0] == "gets"
    assert "rows send, columns receive" in "".join(lines[14:])


def test_ids_stand_digit_below_digit_where_columns_are_narrow() -> None:
    lines = texts(flow_lines(cockpit_of(wide(30, 200)).flows, 80, 40, UNICODE, MORE))
    tens, ones = lines[0], lines[1]
    assert ones.startswith("From")
    assert tens.split() == ["1"] * 10 + ["2"] * 10 + ["3"]
    assert len(lines[2]) == len(ones)


def test_senders_that_do_not_fit_are_counted() -> None:
    lines = texts(flow_lines(cockpit_of(wide(30, 200)).flows, 80, 20, UNICODE, MORE))
    senders = len(lines) - 4
    assert lines[-1] == f"and {30 - senders} more brokers that send, z shows more"
    assert len(lines) == 20


def test_pairs_that_do_not_fit_are_counted_where_no_map_fits() -> None:
    flows = cockpit_of(wide(60, 240)).flows
    lines = texts(flow_lines(flows, 44, 10, UNICODE, MORE))
    assert lines[-1] == f"and {len(heaviest(flows)) - 8} more pairs, z shows more"


def test_a_wide_heat_map_has_the_pairs_at_its_right() -> None:
    lines = texts(flow_lines(cockpit_of(wide(12, 60)).flows, 190, 30, UNICODE, ""))
    assert lines[0].count("From") == 2
    assert lines[1].rstrip().split()[-3:-1][1] in ("kB", "MB", "GB")


# Brokers


def tiles(brokers: int, width: int, height: int, moves: int = 6) -> list[str]:
    found = cockpit_of(wide(brokers, moves))
    return texts(tile_lines(found.brokers, found.traffic.brokers, width, height, UNICODE, MORE))


def test_few_brokers_say_what_they_copy_and_what_is_produced_to_them() -> None:
    lines = tiles(6, 116, 16)
    assert lines[0].split()[0] == "1"
    assert "controller" in lines[0]
    assert [line.split()[0] for line in lines[1:6]] == ["in", "out", "disk", "write", "leads"]
    assert lines[6] == ""
    assert lines[7].split()[0] == "4"


def test_brokers_are_tiles_of_four_lines_where_there_is_no_room_for_more() -> None:
    lines = tiles(9, 116, 14)
    assert [line.split()[0] for line in lines[1:4]] == ["in", "out", "disk"]
    assert "leads" in lines[0]
    assert lines[4] == ""
    assert lines[5].split()[0] == "4"


def test_more_brokers_are_low_tiles_and_no_gauge_meets_another() -> None:
    lines = tiles(20, 116, 16, 60)
    assert len(lines) == 14
    assert lines[0].count("disk") == 3
    assert all("━ ━" not in line.replace("  ", "") for line in lines)


def test_many_brokers_have_a_line_each_and_the_rest_is_counted() -> None:
    lines = tiles(60, 116, 16, 60)
    assert lines[0].split()[:4] == ["in", "out", "disk", "leads"]
    assert lines[-1] == "and 32 more brokers, z shows more"
    assert len(lines) == 16
    every = tiles(60, 196, 40, 60)
    assert not any("more" in line for line in every)


def test_a_broker_that_is_down_is_among_those_that_are_shown() -> None:
    cluster = wide(60, 60)
    cluster.down = {59: "connection refused"}
    cluster.step(60.0)
    found = cockpit_of(cluster)
    lines = texts(tile_lines(found.brokers, found.traffic.brokers, 50, 8, UNICODE, MORE))
    assert any(line.split()[0] == "59" and "stale" in line for line in lines[1:])


def test_a_throttle_that_is_used_up_needs_nobody() -> None:
    found = cockpit_of(moving())
    lines = tile_lines(found.brokers, found.traffic.brokers, 116, 16, UNICODE, MORE)
    assert "24.0MB of 25.0MB/s" in "\n".join(texts(lines))
    assert not {cell.tone for line in lines for cell in line.spans} & {"warn", "bad"}


def test_an_idle_broker_says_what_is_written_and_what_it_leads() -> None:
    cluster = ScriptedCluster.of(3, {"orders": 6})
    for state in cluster.partitions.values():
        state.leader = 1
    found = cockpit_of(cluster)
    lines = texts(tile_lines(found.brokers, found.traffic.brokers, 60, 16, UNICODE, MORE))
    assert [line.split()[0] for line in lines[1:4]] == ["write", "leads", "disk"]
    assert "6, preferred 2" in lines[2]


def test_a_line_of_an_idle_broker_says_once_what_it_leads() -> None:
    cluster = ScriptedCluster.of(6, {"orders": 6})
    found = cockpit_of(cluster)
    lines = texts(tile_lines(found.brokers, found.traffic.brokers, 44, 9, UNICODE, MORE))
    assert lines[0].split() == ["write", "leads", "disk"]
    assert all(line.rstrip().endswith("%") for line in lines[1:])


# Moves


def moves(cluster: ScriptedCluster, width: int, height: int) -> list[Line]:
    return part_lines(MOVES, home_of(cluster), width, height, UNICODE, MORE)


def test_each_copy_has_a_lane_and_names_are_whole_where_there_is_room() -> None:
    lines = moves(moving(), 116, 18)
    assert lines[0].text.split() == [
        "queued",
        "0",
        "copying",
        "6",
        "paused",
        "0",
        "stuck",
        "0",
        "done",
        "0",
    ]
    lanes = [line for line in lines if line.key is not None]
    assert len(lanes) == 6
    assert lanes[0].text.startswith("clickstream-web-sessions-eu-west-1-7 ")
    assert lanes[0].target is not None
    assert lanes[0].target.view == PARTITIONS
    ends = {cell_len(lane.text.rstrip()) for lane in lanes}
    assert len(ends) <= 2


def test_lanes_that_do_not_fit_are_counted() -> None:
    lines = texts(moves(wide(12, 60), 96, 12))
    assert lines[-1] == "and 52 more copies, z shows more"
    assert len(lines) == 12


def test_a_stuck_copy_says_why_and_comes_first() -> None:
    cluster = moving()
    cluster.stuck = {(STUCK, 3): Stuck(STUCK, 3, Cause.THROTTLE_TOO_LOW)}
    lines = moves(cluster, 96, 18)
    first = next(line for line in lines if line.key is not None)
    assert first.text.startswith("orders-2")
    assert "throttle too low" in first.text
    assert first.spans[-1].tone == "bad"


def test_short_names_leave_room_for_the_cause_in_full() -> None:
    cluster = ScriptedCluster.of(4, {"orders": 3})
    partition = TopicPartition("orders", 1)
    stay = cluster.partitions[partition].replicas[:-1]
    newcomer = max({1, 2, 3, 4} - {*cluster.partitions[partition].replicas})
    cluster.move(partition, (*stay, newcomer))
    cluster.stuck = {(partition, newcomer): Stuck(partition, newcomer, Cause.THROTTLE_TOO_LOW)}
    home = home_of(cluster)
    assert "Done in" not in moves(cluster, 96, 18)[2].text, "nobody knows when"
    for width in range(56, 80):
        lines = part_lines(MOVES, home, width, 18, UNICODE, MORE)
        lane = next(line for line in lines if line.key is not None)
        assert lane.text.rstrip().endswith("throttle too low"), width
        assert cell_len(lane.text) <= width


def test_what_is_left_out_after_a_comma_is_marked() -> None:
    cells = [Cell("46.9 GB (broker 6)"), Cell("to 55.6 GB (broker 3),"), Cell("1.09x the mean")]
    assert texts(wrapped(cells, 30, 2, UNICODE)) == ["46.9 GB (broker 6)", "to 55.6 GB (broker 3)…"]
    assert texts(wrapped(cells, 60, 1, UNICODE)) == [" ".join(cell.text for cell in cells)]
    assert texts(wrapped([Cell("One."), Cell("Two.")], 5, 1, UNICODE)) == ["One."]


def test_what_is_left_is_drawn_at_the_right() -> None:
    lines = texts(moves(moving(), 116, 18))
    assert any(line.rstrip().endswith("now") for line in lines)
    assert any(" left " in line and " top " in line for line in lines)
    narrow = texts(moves(moving(), 96, 18))
    assert not any(line.rstrip().endswith("now") for line in narrow)


def test_what_was_left_of_an_earlier_batch_is_not_drawn() -> None:
    home = home_of(moving())
    after = home.history[-1]
    still = replace(after, point=replace(after.point, moving_replicas=0, remaining_bytes=10**15))
    again = replace(home, history=(still, *home.history))
    lines = texts(part_lines(MOVES, again, 116, 18, UNICODE, MORE))
    assert not any("1,000 TB" in line or "1.00 PB" in line for line in lines)


def test_while_nothing_moves_the_last_operations_stand_there() -> None:
    cluster = ScriptedCluster.of(3, {"orders": 3})
    assert "No operation is known yet." in moves(cluster, 96, 18)[0].text


# Events


def event(seconds: int, text: str, kind: str = CHANGE, operation: str = "") -> Event:
    return Event(
        1_760_000_000_000 + seconds * 1000,
        INCIDENT if kind == INCIDENT else CHANGE,
        text,
        operation,
    )


def test_an_event_has_its_time_its_sign_and_where_it_leads() -> None:
    now_ms = 1_760_000_100_000
    found = [event(60, "1 replica stuck.", INCIDENT), event(0, "op-1 started", operation="op-1")]
    first, second = event_lines(found, now_ms, 60, 10, UNICODE, MORE)
    assert first.text.split(" ", 1)[1] == "! 1 replica stuck."
    assert first.spans[-1].tone == "bad"
    assert first.key is None
    assert second.target is not None
    assert second.target.view == OPERATIONS


def test_a_long_event_is_wrapped_and_those_that_do_not_fit_are_counted() -> None:
    found = [event(60 - number, f"number {number} " + "word " * 20) for number in range(9)]
    lines = event_lines(found, 1_760_000_100_000, 40, 7, UNICODE, MORE)
    assert len(lines) == 7
    assert lines[-1].text == "and 6 more events, z shows more"
    assert lines[1].text.startswith(" " * 9)


# What is produced


def test_the_flows_of_an_idle_cluster_are_those_of_producers() -> None:
    cluster = ScriptedCluster.of(3, {"orders": 6})
    snapshot = cluster.step()
    rows = snapshot.replicas
    grown = np.full(len(rows), 1e6, np.float32)
    builder = HomeBuilder()
    for later_ms in (0, 5_000, 10_000):
        seen = replace(
            snapshot,
            taken_ms=snapshot.taken_ms + later_ms,
            replicas=replace(rows, fetched_bytes_per_s=grown),
        )
        job = Job(OVERVIEW, Query(group=PARTS_ASKED), seen, (), seen.taken_ms)
        home = builder.home(Facts(seen), job, plots=True)
    assert part_title(FLOWS, home) == "Produced"
    lines = texts(part_lines(FLOWS, home, 60, 20, UNICODE, MORE))
    assert "6.00 MB/s to 1 topic" in lines[0]
    assert any("min-ISR" in line for line in lines)
    for height in range(1, 8):
        low = texts(part_lines(FLOWS, home, 42, height, UNICODE, MORE))
        assert len(low) <= height
        assert not low[-1].endswith(","), height
    assert any(line.rstrip().endswith("now") for line in lines)
    listed = texts(part_lines(MOVES, home, 90, 18, UNICODE, MORE))
    assert any(line.startswith("orders ") and "6.00 MB/s" in line for line in listed)
    assert part_title(FLOWS, home_named("moving")) == "Who feeds whom"


# Gauges


def test_brightness_is_never_the_only_sign() -> None:
    cells = [heat_cell(share, 1, UNICODE) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    assert tuple(cell.tone for cell in cells) == HEAT
    assert len({cell.text for cell in cells}) == len(HEAT)
    plain = [heat_cell(share, 1, ASCII).text for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    assert len(set(plain)) == len(HEAT)
    assert "".join(plain).isascii()
    assert (heat(math.nan), heat(0.0), heat(7.0)) == (HEAT[0], HEAT[0], HEAT[-1])


def test_a_gauge_is_thin_and_its_rest_is_dim() -> None:
    full, rest = gauge(0.5, 8, UNICODE, "strong")
    assert (full.text, full.tone) == ("━━━━", "strong")
    assert (rest.text, rest.tone) == ("────", "heat1")
    assert gauge(0.5, 3, UNICODE) == ()
    assert [cell.text for cell in gauge(0.5, 8, ASCII)] == ["[###---]"]


def test_every_part_of_a_whole_is_seen() -> None:
    cells = parts_gauge([(1, "good"), (998, "strong"), (1, "bad"), (5, "heat1")], 20, UNICODE)
    assert [cell.tone for cell in cells][:3] == ["good", "strong", "bad"]
    assert sum(cell_len(cell.text) for cell in cells) == 20
    assert parts_gauge([(0, "good"), (0, "bad")], 20, UNICODE) == ()


def test_a_curve_is_brighter_towards_its_top() -> None:
    rows, top = curve([5.0, 10.0], [], 4, 5, UNICODE)
    assert top == 10.0
    tones = [row[-1].tone for row in rows]
    assert tones == [*reversed(HEAT)]


# The head


def test_the_rate_stands_at_the_right_of_the_head_where_there_is_room() -> None:
    state = OverviewState(home_named("moving"))
    lines = head_lines(state, 200, 9, UNICODE)
    assert len(lines) == 9
    assert lines[0].text.startswith(" Health")
    assert "allowed" in lines[1].text
    below = texts(head_lines(state, 120, 11, UNICODE))
    assert any(line.startswith(" Rate") for line in below)
    assert all(cell_len(line.text) <= 200 for line in lines)


def test_each_part_has_a_title() -> None:
    titles = [part_title(part, home_named("moving")) for part in (MOVES, FLOWS, BROKERS, EVENTS)]
    assert titles == ["Moves", "Who feeds whom", "Brokers", "Events"]


# Hostile text


@pytest.mark.parametrize("brokers", [5, 12, 60])
@pytest.mark.parametrize("width", [40, 60, 116, 180])
@pytest.mark.parametrize("height", [3, 8, 16, 40])
def test_why_a_broker_is_down_drives_no_terminal(brokers: int, width: int, height: int) -> None:
    cluster = wide(brokers, 2)
    cluster.down = {3: "gone\x1b[2J\u202eaway"}
    found = cockpit_of(cluster)
    for moves in (found, cockpit_of(ailing_idle(brokers))):
        lines = tile_lines(moves.brokers, moves.traffic.brokers, width, height, UNICODE, MORE)
        said = "".join(texts(lines))
        assert "\x1b" not in said
        assert "\u202e" not in said


def ailing_idle(brokers: int) -> ScriptedCluster:
    """Nothing moves, and a broker is down for a hostile reason."""
    cluster = ScriptedCluster.of(brokers, {"orders": brokers})
    cluster.down = {3: "gone\x1b[2J\u202eaway"}
    return cluster
