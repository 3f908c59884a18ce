"""Lines of the home screen, section by section: their words, tones, order and what is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.domain.audit.past_drift import PastDrift
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.operations.operation import Operation, OperationKind
from kshunt.backend.domain.replicas.expected_end_values import (
    ExpectedEnd,
    Resource,
    ResourceKind,
    Shortage,
)
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, HistoryPoint
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.tui.actions.view_names import OPERATIONS, PARTITIONS
from kshunt.tui.facts.done_words import done_cells
from kshunt.tui.facts.health import Health
from kshunt.tui.facts.moves.bounds import Bound
from kshunt.tui.facts.overview import Home, OperationLine, Overview, Total, WorstReplica
from kshunt.tui.facts.progress import Progress
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.snapshot_facts import Summary
from kshunt.tui.facts.transfer_history import SeenTransfer
from kshunt.tui.tables.lines import Line
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import Item, ScreenTarget
from kshunt.tui.text.glyphs import ASCII
from kshunt.tui.views.attention import OUT_OF_SYNC
from kshunt.tui.views.overview import sections
from kshunt.tui.views.overview.layout import OverviewState, head_lines
from kshunt.tui.views.overview.sections import WANTED, ThrottleCounts

NOW_MS = 1_760_000_120_000
FINE = Health(5, partitions=30)
NO_DRIFT = ThrottleCounts(0, 0, Cell(""))


def overview(summary: Summary | None = None, health: Health = FINE, **others: Any) -> Overview:
    said = {"total": Total(), "now_ms": NOW_MS, **others}
    return Overview(NOW_MS, summary or Summary(), health, **said)


def words(lines: Sequence[Line]) -> list[str]:
    return [" ".join(line.text.split()) for line in lines]


def tones(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """What is said with a tone that is not dim."""
    cells = (cell for line in lines for cell in line.spans)
    return [(cell.text, cell.tone) for cell in cells if cell.tone not in ("", "dim")]


# Health


def health(found: Overview, counts: ThrottleCounts = NO_DRIFT) -> list[Line]:
    return sections.health(found, counts, 400, 3, ASCII)


def test_a_cluster_without_trouble_has_no_tone() -> None:
    lines = health(overview())
    assert words(lines) == [
        "All 5 brokers up. 0 partitions under-replicated, 0 under min-ISR, 0 offline. "
        "0 moving. 0 drift, 0 orphan throttles."
    ]
    assert tones(lines) == []


def test_brokers_that_are_down_come_first_and_are_named() -> None:
    lines = health(overview(health=Health(5, down=(4,), silent=(1, 2))))
    assert words(lines)[0].startswith(
        "1 of 5 brokers down (4), 2 of 5 brokers not answering (1, 2)."
    )
    assert "All" not in words(lines)[0]
    assert [tone for _, tone in tones(lines)] == ["bad", "bad"]


def test_partitions_without_a_leader_come_before_brokers_that_are_well() -> None:
    lines = health(overview(health=Health(5, under_replicated=3, leaderless=2)))
    assert words(lines)[0].startswith("2 offline, 3 partitions under-replicated, 0 under min-ISR.")
    assert tones(lines) == [("2 offline,", "bad"), ("3 partitions under-replicated,", "warn")]


def test_what_is_under_min_isr_is_bad_and_unknown_is_not_nought() -> None:
    assert tones(health(overview(health=Health(5, partitions=9, under_min_isr=1)))) == [
        ("1 under min-ISR,", "bad")
    ]
    unknown = health(overview(health=Health(5, partitions=9, min_isr_unknown=9)))
    assert "min-ISR ?" in words(unknown)[0]
    assert tones(unknown) == []


def test_stuck_replicas_are_counted_only_where_something_moves_or_is_stuck() -> None:
    assert "stuck" not in words(health(overview()))[0]
    assert "4 moving, 0 stuck." in words(health(overview(Summary(moving_partitions=4))))[0]
    stuck = Summary(stuck={Cause.THROTTLE_TOO_LOW: 2})
    assert words(health(overview(stuck)))[0].startswith("2 stuck, 0 moving.")
    assert tones(health(overview(stuck))) == [("2 stuck,", "bad")]


def test_orphan_throttles_warn_only_while_nothing_moves() -> None:
    one = ThrottleCounts(0, 1, Cell(""))
    assert tones(health(overview(), one)) == [("1 orphan throttle.", "warn")]
    assert tones(health(overview(Summary(moving_partitions=1)), one)) == []
    drifted = ThrottleCounts(3, 0, Cell(""))
    assert tones(health(overview(Summary(moving_partitions=1)), drifted)) == [("3 drift,", "warn")]


def test_throttles_that_nobody_looked_up_are_unknown() -> None:
    lines = health(overview(), ThrottleCounts(None, None, Cell("")))
    assert words(lines)[0].endswith("drift ?, orphan throttles ?.")


@pytest.mark.parametrize(("tone", "place"), [("bad", 0), ("warn", -1), ("", -1)])
def test_the_age_of_the_data_stands_first_only_where_it_is_bad(tone: str, place: int) -> None:
    (line,) = health(overview(), ThrottleCounts(0, 0, Cell("12s old", tone)))
    said = [cell for cell in line.spans if cell.text.strip()]
    assert said[place] == Cell("12s old", tone)


# Progress


MOVING = Summary(
    moving_partitions=6,
    rate_bytes_per_s=40e6,
    end=ExpectedEnd(NOW_MS, 6, p10_s=60.0, p50_s=120.0, p90_s=240.0, watched_s=60.0),
)


PAST = PastDrift(2, NOW_MS - 3 * 3_600_000, ("op-7", "op-5"))


def progress(
    width: int = 120, *, held: bool = False, past: PastDrift | None = None, **others: Any
) -> list[Line]:
    found = overview(others.pop("summary", MOVING), **others)
    return sections.progress(Home(found.total, FINE, found, held), width, 5, ASCII, past)


def test_an_idle_cluster_says_what_drifted_in_the_last_day() -> None:
    said = "2 throttles drifted in the last 24 h, the last one 3h00m ago"
    lines = progress(summary=Summary(), past=PAST)
    assert words(lines)[1:] == [f"{said} (op-7, op-5)."]
    assert tones(lines) == [(lines[1].text, "warn")]
    assert words(progress(67, summary=Summary(), past=PAST))[1:] == [f"{said}."]
    one = progress(summary=Summary(), past=PastDrift(1, NOW_MS - 60_000, ("op-7",)))
    assert words(one)[1:] == ["1 throttle drifted in the last 24 h, 1m00s ago (op-7)."]
    assert len(progress(summary=Summary(), past=PastDrift())) == 1
    assert not any("drifted" in line for line in words(progress(past=PAST, total=Total(1, 1))))


def test_throttles_that_are_left_while_nothing_moves_warn() -> None:
    assert tones(progress(summary=Summary(), throttled=True)) == [("Throttles are set.", "warn")]
    quiet = progress(summary=Summary())
    assert words(quiet) == ["Nothing moves. No throttle is set."]
    assert tones(quiet) == []


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (49, "25%, 30.0 GB left"),
        (50, "25% of 40.0 GB, 30.0 GB left"),
        (65, "25% of 40.0 GB, 30.0 GB left"),
        (66, "25% of 40.0 GB, 30.0 GB left, 7 wait"),
    ],
)
def test_the_amounts_say_more_where_there_is_room(width: int, said: str) -> None:
    lines = progress(width, total=Total(10_000_000_000, 30_000_000_000, waiting=7))
    assert lines[0].spans[-1].text == said


def test_amounts_are_at_least_what_is_known() -> None:
    total = Total(10_000_000_000, 30_000_000_000, left_unknown=2, more_bytes=10_000_000_000)
    assert progress(total=total)[0].spans[-1].text == ">20% of >40.0 GB, >30.0 GB left"
    unknown = progress(total=Total(UNKNOWN, 30_000_000_000, waiting=0))[0].spans[-1].text
    assert unknown == "?%, 30.0 GB left"


def test_the_speed_is_compared_with_what_throttles_allow() -> None:
    assert words(progress(permitted_bytes_per_s=50_000_000))[1].endswith(
        "- 40.0 MB/s of 50.0 MB/s allowed"
    )
    assert words(progress(bound=Bound.NONE))[1].endswith("- 40.0 MB/s, no limit")


def test_a_limit_that_is_not_known_is_not_called_none() -> None:
    assert words(progress(bound=Bound.UNKNOWN))[1].endswith("- 40.0 MB/s, limit ?")
    # Leaders' rates bound it, and there is no sum to be told.
    assert words(progress(bound=Bound.ALL))[1].endswith("- 40.0 MB/s")


def test_what_waits_for_its_turn_is_not_idle_while_nothing_is_in_flight() -> None:
    waits = Total(10_000_000_000, 30_000_000_000, waiting=7)
    assert "7 wait" in progress(summary=Summary(), total=waits)[0].text


def test_the_speed_gets_shorter_and_goes_before_the_end_does() -> None:
    whole = words(progress(permitted_bytes_per_s=50_000_000))[1]
    ends = whole.partition(" - ")[0]
    forms = (" - 40.0 MB/s of 50.0 MB/s allowed", " - 40.0 MB/s of 50.0 MB/s", " - 40.0 MB/s", "")
    for form in forms:
        width = len(ends + form)
        assert words(progress(width, permitted_bytes_per_s=50_000_000))[1] == ends + form
        if form:
            shorter = words(progress(width - 1, permitted_bytes_per_s=50_000_000))[1]
            assert len(shorter) < width


def test_what_a_pause_holds_has_no_end() -> None:
    assert words(progress(held=True))[1].startswith("held by a pause")


# What was moved


def course(*rates: float, permitted: int | None = None) -> list[SeenTransfer]:
    points = (
        HistoryPoint(
            NOW_MS + n * 10_000, 1, 1, rate_bytes_per_s=rate, permitted_bytes_per_s=permitted
        )
        for n, rate in enumerate(rates)
    )
    return [SeenTransfer(point) for point in points]


def plot(history: Sequence[SeenTransfer], width: int = 80, most: int = 4) -> list[Line]:
    return sections.plot(history, 900.0, width, most, ASCII)


def test_a_plot_needs_two_moments_something_that_moved_and_room() -> None:
    moved = course(1e6, 2e6, 3e6)
    assert len(plot(moved)) == 4
    assert len(plot(moved, 30)) == 4
    assert plot(moved, 29) == []
    assert plot(course(1e6)) == []
    assert plot(course(0.0, 0.0, math.nan)) == []
    assert sections.plot(moved, 0.0, 80, 4, ASCII) == []


def test_a_plot_that_is_asked_for_its_size_wants_sixteen_lines() -> None:
    assert len(plot(course(1e6, 2e6, 3e6), most=WANTED)) == 16


def test_a_plot_says_its_top_its_span_and_the_limit_where_there_is_one() -> None:
    free = plot(course(*[20e6] * 7))
    assert free[-1].text.endswith(" last 1m00s")
    assert not any("allowed" in line.text for line in free)
    limited = plot(course(*[20e6] * 7, permitted=40_000_000))
    assert limited[1].text.endswith("allowed")
    marks = [cell.tone for line in limited for cell in line.spans if "--" in cell.text]
    assert marks
    assert set(marks) == {"dim"}
    assert not any("allowed" in line.text for line in plot(course(*[2e7] * 7, permitted=4), most=2))


def test_the_plot_beside_the_head_of_a_large_terminal_shows_as_much_of_the_past() -> None:
    found = overview(Summary(moving_replicas=3, moving_partitions=3))
    home = Home(found.total, found.health, found, history=tuple(course(*[20e6] * 7)))
    lines = head_lines(OverviewState(home), 200, 8, ASCII)
    assert any("last 1m00s" in line.text for line in lines)


def test_the_axis_of_a_plot_is_round_and_fits_what_was_moved() -> None:
    said = [line.text[61:].strip() for line in plot(course(17e6, 23e6, 18e6), most=12)]
    assert said == [
        "30.0 MB/s",
        "",
        "",
        "",
        "20.0 MB/s",
        "",
        "",
        "",
        "10.0 MB/s",
        "",
        "",
        "last 20s",
    ]
    far = plot(course(17e6, 23e6, 18e6, permitted=760_000_000), most=12)
    assert far[0].text.endswith(" 30.0 MB/s")
    assert not any("allowed" in line.text for line in far)


def test_a_plot_has_a_gap_where_nothing_is_known_and_a_mark_where_rates_changed() -> None:
    before, after = course(*[20e6] * 5), course(*[20e6] * 5)
    late = [
        replace(one, point=replace(one.point, at_ms=one.at_ms + 200_000, rates_changed=n == 2))
        for n, one in enumerate(after)
    ]
    lines = plot([*before, *late], most=6)
    bottom = lines[-1].text[:60]
    assert bottom.startswith("###")
    assert bottom.endswith("###")
    assert " " * 20 in bottom
    assert "! throttles changed" in lines[-2].text
    assert lines[0].text[:60].count("!") == 1


# Operations


def operation(id: str = "op-1", **others: Any) -> Operation:
    state = others.pop("state", OperationState.RUNNING)
    said = {"who": "ada", **others}
    begun_ms = NOW_MS - 60_000
    return Operation(id, OperationKind.REASSIGN, state, begun_ms, "move 6 partitions", **said)


def running(*found: OperationLine, most: int = 9, more: int = 0, width: int = 140) -> list[Line]:
    home = overview(running=found, running_more=more, ended=(operation("op-0"),))
    return sections.operations(home, width, most, ASCII)


def test_an_operation_that_runs_says_how_far_it_is() -> None:
    (line,) = running(OperationLine(operation(), Progress(1, 4, 30, 0, 40)))
    assert " 25% " in line.text
    assert line.target == ScreenTarget(OPERATIONS, "op-1")
    (line,) = running(OperationLine(operation(), Progress(1, 4, 30, 2, 40, more_bytes=10)))
    assert ">20%" in line.text
    (line,) = running(OperationLine(operation(), Progress(1, 4, 30, 4, UNKNOWN)))
    assert " ?% " in line.text
    (line,) = running(OperationLine(operation(), Progress(1, 4, 30, 4, UNKNOWN), reached=0.5))
    assert "[###---] >50%" in line.text


def test_an_end_that_does_not_come_is_bad() -> None:
    never = ExpectedEnd(NOW_MS, 4, p10_s=1.0, p50_s=2.0, p90_s=3.0, never=1)
    (line,) = running(OperationLine(operation(), Progress(1, 4, 30, 0, 40, never)))
    assert [tone for text, tone in tones([line]) if text.startswith("done")] == ["bad"]
    fine = ExpectedEnd(NOW_MS, 4, p10_s=1.0, p50_s=2.0, p90_s=3.0)
    (line,) = running(OperationLine(operation(), Progress(1, 4, 30, 0, 40, fine)))
    assert not any(text.startswith("done") for text, _ in tones([line]))


def done(end: ExpectedEnd, **how: Any) -> list[str]:
    return [cell.text for cell in done_cells(end, NOW_MS, ASCII, **how)]


def test_what_no_rate_helps_is_not_blamed_on_the_rate() -> None:
    end = ExpectedEnd(NOW_MS, 4, p10_s=1.0, p50_s=2.0, p90_s=900.0, never=2)
    down, slow = {Cause.BROKER_DOWN: 3, Cause.DISK_FULL: 1}, {Cause.THROTTLE_TOO_LOW: 3}
    assert done(end)[1:] == done(end, stuck=slow)[1:] == ["2 not at this rate"]
    assert done(end, stuck=down)[1:] == ["2 never: broker down"]
    assert done(end, stuck={Cause.BROKER_DOWN: 1})[1:] == ["2 not at this rate"]
    assert done(end, stuck=slow, stuck_said=True)[1:] == ["2 not at this rate"]
    assert done(end, stuck=down, stuck_said=True)[1:] == []
    assert done(end, stuck={Cause.THROTTLE_TOO_LOW: 2}, stuck_said=True)[1:] == []


def test_a_brief_end_has_neither_the_range_nor_the_rate_that_would_do() -> None:
    end = ExpectedEnd(NOW_MS, 4, p10_s=1.0, p50_s=2.0, p90_s=900.0)
    assert "(" in done(end)[0]
    assert "(" not in done(end, brief=True)[0]
    throttle = Resource(ResourceKind.LEADER_THROTTLE, (5,))
    never = ExpectedEnd(NOW_MS, 4, never=4, shortage=Shortage(throttle, 1, 2, 30_000_000))
    assert done(never) == ["never: leader throttle of broker 5 is too low, needs 30.0 MB/s"]
    assert done(never, brief=True) == ["not at this rate"]


def test_operations_without_room_are_counted_on_the_last_line() -> None:
    found = [OperationLine(operation(f"op-{n}"), None) for n in range(4)]
    assert len(running(*found, most=4)) == 4
    assert words(running(*found, most=3))[-1] == "and 2 more operations"
    assert words(running(*found, most=4, more=3))[-1] == "and 4 more operations"
    assert words(running(*found, most=5, more=3))[-1] == "and 3 more operations"
    assert words(running(*found, most=9, more=3))[-1] == "and 3 more operations"
    assert [line.key for line in running(*found, most=1)] == [("operation", "op-0")]
    last = running(*found, most=2)[-1]
    assert last.target == ScreenTarget(OPERATIONS)
    assert last.key is not None


def test_the_last_three_that_ended_are_shown_where_none_runs() -> None:
    ended = tuple(
        operation(f"op-{n}", state=OperationState.DONE, ended_ms=NOW_MS - 90_000, who="")
        for n in range(5)
    )
    lines = sections.operations(overview(ended=ended), 140, 9, ASCII)
    assert [line.key for line in lines] == [("operation", f"op-{n}") for n in range(3)]
    assert words(lines)[0] == "op-0 done 1m30s ago ? move 6 partitions"
    assert len(sections.operations(overview(ended=ended), 140, 2, ASCII)) == 2


# Replicas


def replica(partition: int, **others: Any) -> WorstReplica:
    said: dict[str, Any] = {
        "status": "moving",
        "tone": "",
        "lag_bytes": 3_000_000,
        "rate_bytes_per_s": 2e6,
        "eta_s": 90.0,
        "cause": "",
    }
    return WorstReplica(ReplicaKey("orders", partition, 3), **{**said, **others})


def worst(*found: WorstReplica, most: int = 9, behind: int = 0, moving: int = 1) -> list[Line]:
    home = overview(Summary(moving_partitions=moving), worst=found, behind=behind)
    return sections.worst(home, 140, most, ASCII)


def test_a_replica_says_where_it_is_how_much_it_lacks_and_when_it_arrives() -> None:
    (line,) = worst(replica(2))
    assert words([line]) == ["orders-2 on 3 3.00MB 2.00MB/s 1m30s moving"]
    assert line.target == ScreenTarget(PARTITIONS, ReplicaKey("orders", 2, 3))


@pytest.mark.parametrize(("status", "eta"), [("stuck", "stuck"), ("paused", "held")])
def test_that_it_is_stuck_or_held_stands_in_place_of_its_arrival(status: str, eta: str) -> None:
    (line,) = worst(replica(2, status=status, tone="bad", cause="throttle too low"))
    assert words([line]) == [f"orders-2 on 3 3.00MB 2.00MB/s {eta} throttle too low"]
    assert {tone for _, tone in tones([line])} == {"bad"}


def test_replicas_are_counted_only_where_few_lines_are_left() -> None:
    found = [replica(n) for n in range(6)]
    assert words(worst(*found, most=4, behind=20))[-1] == "and 17 more replicas"
    assert [line.key for line in worst(*found, most=5, behind=20)] == [one.key for one in found[:5]]
    assert words(worst(*found[:3], most=4, behind=3))[-1].startswith("orders-2")


@pytest.mark.parametrize(("moving", "text"), [(1, "-insync"), (0, OUT_OF_SYNC)])
def test_the_count_of_replicas_leads_to_those_that_are_behind(moving: int, text: str) -> None:
    found = [replica(n) for n in range(6)]
    last = worst(*found, most=3, behind=6, moving=moving)[-1]
    assert last.target == ScreenTarget(PARTITIONS, filter_text=text)


# What needs attention


def test_things_to_look_at_are_counted_where_there_is_no_room() -> None:
    found = [Item(f"Thing {n}.", "bad" if n else "warn") for n in range(4)]
    lines = sections.items(found, 80, 3, ASCII)
    assert words(lines) == ["! Thing 0.", "! Thing 1.", "and 2 more things"]
    assert [line.key for line in lines] == [("item", "Thing 0."), ("item", "Thing 1."), None]
    assert ("Thing 1.", "bad") in [(text.strip(), tone) for text, tone in tones(lines)]
    assert words(sections.items([], 80, 3, ASCII)) == ["Nothing needs attention."]


def test_a_thing_keeps_its_identity_while_its_words_change() -> None:
    (line,) = sections.items([Item("3 brokers are silent.", id="silent")], 80, 3, ASCII)
    assert line.key == ("item", "silent")
