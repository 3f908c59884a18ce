"""What the plan wizard reads and says: fields, diff, totals, comparison, files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.goals import Goal, Weighing
from kshunt.backend.domain.planning.proposal import PlanNote
from kshunt.backend.domain.planning.rehearsal import (
    REHEARSED_S_MAX,
    IsrEvent,
    PlanForecast,
    Rehearsal,
)
from kshunt.backend.domain.planning.requests import PlanRequest, RehearsalAnswer
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.errors import BadInput
from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.changes.plan import fields, proposal_tables, proposal_words, rehearsal_tables
from kshunt.tui.changes.plan.diff_grid import SIGNED, DiffGrid
from kshunt.tui.changes.plan.fields import ShownCluster
from kshunt.tui.changes.plan.goals import fields_of, request_of
from kshunt.tui.changes.plan.proposal_part import ProposalPart, Proposed
from kshunt.tui.data.files import complete_path, new_audit_file, new_plan_file, plan_for, save_pair
from kshunt.tui.dialogs.form import FormPart
from kshunt.tui.dialogs.save_file import SaveFileScreen
from kshunt.tui.facts.brokers import disks
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.list_table import ListTable
from kshunt.tui.tables.model import Placed
from kshunt.tui.text.glyphs import ASCII, UNICODE
from tests.support.tui.app import Shown
from tests.support.tui.cluster import START_MS
from tests.support.tui.plans import (
    MB,
    NOTE,
    forecast_at,
    plan_answer,
    planning_shown,
    proposal_of,
    proposed,
    quiet,
    rehearsal_answer,
    rehearsed,
    until,
)

ABOUT = ShownCluster(frozenset(range(1, 6)), ("orders", "payments"), ("/d1", "/d2"))
HERE = "kSh-9xQmT4uB2vWcE0aLrg"


# Fields


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("500GB", 500 * 10**9),
        ("2TiB", 2 * 2**40),
        ("1.5 gb", 1_500_000_000),
        ("1000", 1_000),
        ("10k", 10_000),
        ("none", None),
        ("999999999999999 PB", 2**63 - 1),
    ],
)
def test_limits_are_read(text: str, bytes_: int | None) -> None:
    assert fields.a_limit(text) == bytes_


@pytest.mark.parametrize("text", ["", "-1", "GB", "1e9", "5 i", "5ib", "1.2.3GB", "all"])
def test_limits_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        fields.a_limit(text)


def test_throttles_are_read_each_once() -> None:
    assert fields.throttles("25MB/s, none, 25MB/s,") == (25 * MB, None)
    assert fields.throttles(" ") == ()
    for wrong in ("fast", "1B/s", ", ".join(f"{n}MB/s" for n in range(1, 10))):
        with pytest.raises(BadInput):
            fields.throttles(wrong)


def test_a_deadline_is_by_utc() -> None:
    # 08:53:20 UTC.
    found = fields.a_deadline("09:00", START_MS)
    assert found == START_MS + 400_000
    assert fields.a_deadline("none", START_MS) is fields.a_deadline("", START_MS) is None
    with pytest.raises(BadInput):
        fields.a_deadline("soon", START_MS)


def test_many_topics_are_asked_for_by_a_pattern() -> None:
    names = [f"t{n}" for n in range(1_001)]
    with pytest.raises(BadInput, match="1,001 topics are too many to name"):
        fields.patterns(", ".join(names), names)
    assert len(fields.patterns(", ".join(names[:1_000]), names)) == 1_000
    assert fields.patterns("t*, t1, t*", names) == ("t*", "t1")


READERS: tuple[Callable[[str], object], ...] = (
    lambda text: fields.brokers(text, Goal.DRAIN, ABOUT.brokers),
    lambda text: fields.patterns(text, ABOUT.topics),
    fields.excluded,
    fields.a_weighing,
    fields.a_tolerance,
    fields.a_share,
    fields.a_limit,
    lambda text: fields.a_factor(text, 5),
    lambda text: fields.directories(text, ABOUT.paths),
    fields.throttles,
    lambda text: fields.a_deadline(text, START_MS),
)


@given(st.text(max_size=40), st.sampled_from(range(len(READERS))))
def test_what_is_typed_is_read_or_refused(text: str, reader: int) -> None:
    try:
        READERS[reader](text)
    except BadInput:
        return


@pytest.mark.parametrize("goal", list(Goal))
def test_the_defaults_of_every_goal_are_a_question(goal: Goal) -> None:
    given = {"brokers": "4, 5" if goal is Goal.REPLACE else "4", "factor": "2"}
    fields = fields_of(goal, ABOUT, given)
    request = request_of(goal, tuple(field.parse(field.value) for field in fields))
    assert isinstance(request, PlanRequest)
    assert (request.goal, request.topics, request.by) == (goal, ("*",), Weighing.BYTES)
    assert request.caps is not None


# The diff


@pytest.mark.parametrize(
    ("before", "after", "leader", "text"),
    [
        ((1, 2, 3), (4, 2, 3), 1, "-1* 2 3 > +4 2 3"),
        ((1, 2), (1, 2, 3), 2, "1 2* > 1 2* +3"),
        ((1, 2, 3), (1,), None, "1 -2 -3 > 1"),
        ((1, 2), (2, 1), 1, "1* 2 > 2 1*  only their order"),
    ],
)
def test_the_diff_says_by_signs_what_goes_and_comes(
    before: tuple[int, ...], after: tuple[int, ...], leader: int | None, text: str
) -> None:
    assert proposal_tables.diff_text(before, after, leader, ASCII) == text


def test_directories_are_told_with_their_broker() -> None:
    partition = TopicPartition("orders", 0)
    proposal = replace(
        proposal_of(quiet()),
        before={partition: (1, 2)},
        targets={partition: (1, 2)},
        log_dirs={(partition, 2): "/d2"},
        log_dirs_before={(partition, 2): "/d1"},
    )
    table = proposal_tables.DiffTable(proposal, None, ASCII)
    placed = [Placed(column, 40) for column in table.columns]
    assert [cell.text for cell in table.cells(0, placed)] == ["orders-0", "2: /d1 > /d2"]
    assert (len(table), table.row_of((partition, 2)), table.row_of(partition)) == (1, 0, None)
    assert table.first(0) == table.more(0) == []


def test_a_topic_that_looks_like_a_sign_is_none() -> None:
    assert SIGNED.findall("-1* 2 +30 a-4 4-5 +x") == ["-1*", "+30"]


def part_of(shown: Shown) -> ProposalPart:
    return shown.app.screen.query_one(ProposalPart)


async def test_what_goes_and_what_comes_have_colours_besides(tmp_path: Path) -> None:
    async with planning_shown(tmp_path, start_view=OVERVIEW) as (shown, _):
        await proposed(shown)
        await shown.pilot.press("tab", "j")
        grid = shown.app.screen.query_one(DiffGrid)
        await shown.until(lambda: grid.cursor_row == 1, "the cursor is in the diff")
        for row in (1, 2):
            styles = {
                segment.text: segment.style
                for segment in grid.render_lines(grid.region.reset_offset)[row]
            }
            gone, come = (next(t for t in styles if t[:1] == sign) for sign in "-+")
            assert styles[gone] != styles[come]
            text = grid.render_lines(grid.region.reset_offset)[row].text
            assert text.count(gone) == text.count(come) == 1
            assert len(text) == grid.size.width


@pytest.mark.slow
async def test_twenty_thousand_partitions_are_written_as_they_come_into_sight(
    tmp_path: Path,
) -> None:
    async with planning_shown(tmp_path, start_view=OVERVIEW) as (shown, planning):
        before = {TopicPartition("orders", n): (4, 1, 2) for n in range(20_000)}
        targets = dict.fromkeys(before, (5, 1, 2))
        proposal = replace(planning.answer.proposal, before=before, targets=targets)
        planning.answer = replace(planning.answer, proposal=proposal)
        await proposed(shown)
        await until(shown, "20,000 partitions change")
        await shown.pilot.press("tab", "G")
        await until(shown, "orders-19999")
        await shown.pilot.press("pageup", "g")
        await until(shown, "orders-0 ")


# Totals


def test_what_endangers_partitions_stands_out() -> None:
    answer = plan_answer(quiet(), notes=())
    said = proposal_words.summary(answer, ASCII)
    assert [line.tone for line in said] == ["strong", "", "", "", "warn", ""]
    impact = replace(
        answer.impact,
        fewer_racks=(TopicPartition("orders", 1),),
        under_min_isr=tuple(TopicPartition("orders", n) for n in range(5)),
        more_racks=2,
        phases=tuple(range(1, 11)),
        brokers=tuple(replace(row, disk_bytes=90 * 10**9) for row in answer.impact.brokers),
    )
    more = replace(answer, impact=replace(answer.impact, more_racks=2))
    said = proposal_words.summary(more, ASCII)
    assert ("Racks: no partition spans fewer, 2 partitions more.", "") in said
    texts = dict(proposal_words.summary(replace(answer, impact=impact), ASCII))
    assert texts["! Racks: 1 partition (orders-1) fewer, 2 partitions more."] == "warn"
    under = "! Under min.insync.replicas: 5 partitions (orders-0, orders-1 and 3 more)."
    assert texts[under] == "bad"
    assert texts["! Fullest at its peak: broker 1, 122% (110 GB)."] == "bad"
    assert "With 5/200 moves at a time, 10 phases: 1, 2, 3, 4, 5 partitions and so on." in texts


def test_what_is_not_known_is_said() -> None:
    answer = plan_answer(quiet())
    unknown = tuple(replace(row, disk_bytes=None) for row in answer.impact.brokers)
    impact = replace(answer.impact, brokers=unknown)
    said = [line.text for line in proposal_words.summary(replace(answer, impact=impact), ASCII)]
    assert "Disks: their sizes are unknown." in said
    assert proposal_tables.shares_cell(unknown[0]).text == "?"


@pytest.mark.parametrize(("peak", "tone"), [(90, ""), (91, "warn"), (100, "bad"), (101, "bad")])
def test_a_disk_that_a_plan_fills_has_the_tone_that_the_brokers_view_gives_it(
    peak: int, tone: str
) -> None:
    answer = plan_answer(quiet())
    row = replace(answer.impact.brokers[0], bytes_peak=peak, disk_bytes=100)
    assert proposal_tables.shares_cell(row).tone == tone == disks.peak_tone(peak / 100)


def test_a_measure_without_bytes_is_a_number() -> None:
    told = plan_answer(quiet()).proposal.measure
    measure = replace(told, name="leaders outside the band", in_bytes=False)
    counted = replace(measure, before=12.0, after=0.5)
    assert proposal_words.measure_text(counted, ASCII) == "Leaders outside the band: 12 > 0.5"


@pytest.mark.parametrize(
    ("seconds", "text"), [(400.0, "09:00"), (60_000.0, "+1d 01:33"), (0.0, "08:53")]
)
def test_the_time_of_day_says_which_day(seconds: float, text: str) -> None:
    assert proposal_words.clock_after(START_MS, seconds) == text


def test_notes_are_wrapped_and_the_most_are_counted() -> None:
    table = proposal_tables.notes_table((NOTE,), 40)
    assert table.value_of(0) == "- partition audit-log-3, broker 4: It is"
    assert str(table.value_of(1)).startswith("  being reassigned")
    notes = [PlanNote(f"No {number}.", "") for number in range(1_500)]
    many = proposal_tables.notes_table(notes, 40)
    assert many.value_of(len(many) - 1) == "... and 500 more"


def test_brokers_to_choose_from_and_everything_that_is_known_of_a_cluster() -> None:
    cluster = quiet()
    cluster.down = {2: "connection refused"}
    facts = Facts(cluster.step())
    table = proposal_tables.pick_table(facts)
    rows = [
        [cell.text for cell in table.cells(n, [Placed(c, 10) for c in table.columns])]
        for n in range(len(table))
    ]
    assert rows[0][:5] == ["1", "rack-b", "up", "10", "4"]
    assert rows[1][2] != "up"
    about = proposal_tables.about(facts)
    assert about.brokers == {1, 2, 3, 4, 5}
    assert tuple(about.paths) == ("/var/lib/kafka",)


def test_a_broker_to_choose_has_the_tone_that_the_brokers_view_gives_its_disks() -> None:
    shares = (0.84, 0.86, 0.94, 0.96)
    snapshot = quiet().step()
    sized = tuple(
        replace(one, total_bytes=100, usable_bytes=100 - round(100 * share))
        for one, share in zip(snapshot.log_dirs, (*shares, 0.0), strict=True)
    )
    table = proposal_tables.pick_table(Facts(replace(snapshot, log_dirs=sized)))
    used = next(column for column in table.columns if column.key == "disk")
    tones = [table.cells(n, [Placed(used, 10)])[0].tone for n in range(4)]
    assert tones == ["", "warn", "warn", "bad"] == [disks.disk_tone(share) for share in shares]


# Rehearsals


def test_the_throttle_of_a_deadline_is_a_column_too() -> None:
    answer = rehearsal_answer(plan_answer(quiet()), deadline_s=3_600.0)
    found = rehearsal_tables.candidates(answer)
    assert [one.title for one in found] == ["25.0 MB/s", "100 MB/s", "none", "40.0 MB/s"]


def test_ends_are_ranges_and_a_deadline_has_to_hold_for_the_late_end() -> None:
    answer = rehearsal_answer(plan_answer(quiet()), deadline_s=3_600.0)
    found = rows_by_label(answer)
    assert [text for text, _ in found["Done at (UTC)"]] == ["10:45", "09:18", "09:00", "09:40"]
    assert found["8 times in 10"][3] == ("09:35-09:49", "dim")
    assert [text for text, _ in found["In time"]] == ["no", "yes", "yes", "yes"]
    # Its middle is in time, and its late end is not.
    assert answer.deadline is not None
    sooner = replace(answer, deadline=replace(answer.deadline, at_ms=START_MS + 3_000_000))
    assert rows_by_label(sooner)["In time"][3] == ("no", "bad")


def rows_by_label(answer: RehearsalAnswer) -> dict[str, list[tuple[str, str]]]:
    rows = rehearsal_tables.rows_of(answer, rehearsal_tables.candidates(answer))
    return {row.label: [(cell.text, cell.tone) for cell in row.cells] for row in rows}


def test_what_never_ends_is_said_and_so_is_who_falls_behind() -> None:
    plan = plan_answer(quiet())
    never = rehearsed(plan, MB, None, why="Producers write faster than that.")
    line = replace(never.timeline, under_min_isr=never.timeline.under_min_isr + 2)
    answer = rehearsal_answer(plan, deadline_s=3_600.0)
    first = replace(never, timeline=line)
    found = rows_by_label(replace(answer, rehearsals=(first, *answer.rehearsals[1:])))
    assert found["Done at (UTC)"][0] == ("never", "bad")
    assert found["Takes"][0] == ("-", "")
    assert found["In time"][0] == ("no", "bad")
    assert found["Under min ISR"][0] == ("2", "bad")
    assert rows_by_label(answer)["ISR drops"] == [("0", ""), ("0", ""), ("3", "warn"), ("0", "")]
    assert "In time" not in rows_by_label(rehearsal_answer(plan))


def test_a_rehearsal_that_was_stopped_is_not_one_that_never_ends() -> None:
    plan = plan_answer(quiet())
    said = "The rehearsal was stopped after 30d00h. The plan takes longer than that."
    begun = rehearsed(plan, MB, None, why=said)
    late = replace(begun.timeline, at_s=begun.timeline.at_s * REHEARSED_S_MAX / 3_600)
    answer = rehearsal_answer(plan)
    stopped = (replace(begun, timeline=late), *answer.rehearsals[1:])
    answer = replace(answer, rehearsals=stopped)
    assert rows_by_label(answer)["Done at (UTC)"][0] == ("10:45", "strong")
    chosen = rehearsal_tables.candidates(answer)[0]
    assert chosen.remark == said
    assert chosen.why == ""
    assert rehearsal_tables.event_table(chosen, (), 200).value_of(0) == said


def test_disks_of_unknown_size_are_compared_by_bytes() -> None:
    answer = rehearsal_answer(plan_answer(quiet()))
    unknown = tuple(replace(row, disk_bytes=None) for row in answer.impact.brokers)
    found = rows_by_label(replace(answer, impact=replace(answer.impact, brokers=unknown)))
    assert found["Fullest disk"][0] == ("1: 110GB", "")


def test_a_deadline_is_answered_in_one_line() -> None:
    plan = plan_answer(quiet())
    assert rehearsal_tables.deadline_words(rehearsal_answer(plan)) is None
    able = rehearsal_tables.deadline_words(rehearsal_answer(plan, deadline_s=3_600.0))
    assert able == (
        "Done by 09:53 UTC, in 1h00m, 90% certain: 40.0 MB/s for each broker, in and out.",
        "good",
    )
    late = rehearsal_answer(plan, deadline_s=300.0, possible=False)
    assert rehearsal_tables.deadline_words(late) == (
        "Not possible by 08:58 UTC, in 5m00s; earliest is 09:01 (90% certain), without a throttle.",
        "bad",
    )
    stuck = ExpectedEnd(START_MS, 3, never=3, why=Cause.BROKER_DOWN.key)
    forecasts = (*late.forecasts[:2], PlanForecast(None, stuck))
    said = rehearsal_tables.deadline_words(replace(late, forecasts=forecasts))
    assert said is not None
    assert said.text == "Not possible by 08:58 UTC, in 5m00s: broker down."
    unknown = ExpectedEnd(START_MS, 3, unknown=3)
    forecasts = (*late.forecasts[:2], PlanForecast(None, unknown))
    said = rehearsal_tables.deadline_words(replace(late, forecasts=forecasts))
    assert said is not None
    assert said.text == "Not possible by 08:58 UTC, in 5m00s at any throttle."


def test_thousands_of_isr_events_are_counted() -> None:
    run = rehearsed(plan_answer(quiet()), MB, 60.0)

    def table_of(run: Rehearsal, width: int) -> ListTable[str]:
        chosen = rehearsal_tables.RehearsedThrottle(forecast_at(MB, 60.0), run)
        return rehearsal_tables.event_table(chosen, ("A note.",), width)

    assert table_of(run, 80).value_of(0) == rehearsal_tables.NOBODY_LEAVES
    assert table_of(run, 80).value_of(1) == "A note."
    never = replace(run, finish_s=None, why="Producers write faster than that.")
    assert table_of(never, 40).value_of(1) == "than that."
    event = IsrEvent("orders", 0, 1.0, 2, True)
    table = table_of(replace(run, isr_events=(event,) * 2_500), 80)
    assert table.value_of(len(table) - 2) == "... and 500 more"


# Files


def test_both_files_are_written_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "a.rollback.json"
    save_pair((first, "1"), (second, "2"))
    assert (first.read_text(), second.read_text()) == ("1\n", "2\n")
    other = tmp_path / "b.json"
    with pytest.raises(BadInput, match="No file was replaced"):
        save_pair((other, "3"), (second, "4"))
    assert not other.exists()
    assert second.read_text() == "2\n"


@pytest.mark.parametrize(
    "name",
    ["", "a", "a.txt", ".json", "no/such/a.json", "~nobody-here/a.json", "x" * 300 + ".json"],
)
def test_names_of_files_that_cannot_be_made_are_refused(name: str) -> None:
    with pytest.raises(BadInput):
        new_plan_file(name)


def test_a_home_that_is_not_there_is_said_everywhere() -> None:
    for read in (new_audit_file, lambda text: plan_for(text, HERE)):
        with pytest.raises(BadInput, match="no home folder ~nobody-here"):
            read("~nobody-here/a.json")
    assert complete_path("~nobody-here/a") == ("~nobody-here/a", ())


async def test_a_plan_is_saved_once_with_its_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with planning_shown(tmp_path, start_view=OVERVIEW) as (shown, planning):
        await proposed(shown)
        await shown.pilot.press("s", "enter")
        await until(shown, "Written: kshunt-drain-20251009T085321Z.json and")
        plan = tmp_path / "kshunt-drain-20251009T085321Z.json"
        back = tmp_path / "kshunt-drain-20251009T085321Z.rollback.json"
        proposal = planning.answer.proposal
        assert parse_plan(plan.read_text()).replicas == proposal.targets
        assert parse_plan(back.read_text()).replicas == proposal.before
        assert json.loads(plan.read_text())["cluster_id"] == planning.answer.cluster_id
        await shown.pilot.press("s", "enter")
        await until(shown, "exists; it is not replaced.")
        screen = await shown.dialog(SaveFileScreen)
        screen.query_one(FormPart).input(0).value = "other.txt"
        await shown.pilot.press("enter")
        await until(shown, "The name must end in .json.")
        await shown.pilot.press("escape")
        await until(shown, "To drain broker 4")
        assert parse_plan(plan.read_text()).replicas == proposal.targets


def test_tables_of_a_proposal_keep_their_rows() -> None:
    answer = plan_answer(quiet())
    table = proposal_tables.impact_table(answer.impact, UNICODE)
    made = Proposed(answer, table, proposal_tables.DiffTable(answer.proposal, None, UNICODE))
    assert [made.brokers.key_of(n) for n in range(5)] == [1, 2, 3, 4, 5]
    cells = table.cells(3, [Placed(column, 11) for column in table.columns])
    assert [cell.text for cell in cells] == [
        "4",
        "81.5GB",
        "81.5GB",
        "0B",
        "20%  20%   0%",
        "11→0",
        "3→0",
        "0B",
        "21.4GB",
    ]
