"""Lines of the history about results of the data pipeline: their words, tones and order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.domain.pipeline.delivered import (
    CauseRow,
    EtaRow,
    FileAsideRow,
    LoadRow,
    PairRow,
    PipelineProcess,
    PipelineState,
    QualityRow,
    Rows,
    RunsAs,
    StallRow,
    TableStatus,
    TransferAnswer,
    TransferHistory,
    TransferPoint,
)
from kshunt.tui.tables.lines import Line
from kshunt.tui.text.glyphs import ASCII
from kshunt.tui.views.history.pipeline_results import even, section_lines, sections
from tests.support.tui.delivered import MINUTE_MS, eta, pipeline_past, pipeline_status

NOW_MS = 1_760_000_120_000
DAY_S = 86_400.0
OF = TableStatus("any", NOW_MS - 4_000, "stream", NOW_MS - 3_000)


def shown(label: str, width: int = 160, **past: Any) -> list[Line]:
    """The lines of one section."""
    found = sections(pipeline_status(NOW_MS), pipeline_past(NOW_MS, **past), NOW_MS, width, ASCII)
    return dict(found)[label]


def words(lines: list[Line]) -> list[str]:
    return [" ".join(line.text.split()) for line in lines]


def tone_of(line: Line, text: str) -> str:
    return next(cell.tone for cell in line.spans if text in cell.text)


def status_words(width: int = 160, unknown: str = "", **status: Any) -> list[str]:
    found = sections(pipeline_status(NOW_MS, **status), None, NOW_MS, width, ASCII, unknown=unknown)
    assert [label for label, _ in found] == ["Pipeline"]
    return words(found[0][1])


# How it stands


def test_whether_a_pipeline_runs_is_not_known_before_somebody_says() -> None:
    found = sections(None, pipeline_past(NOW_MS), NOW_MS, 80, ASCII)
    assert [(label, words(lines)) for label, lines in found] == [
        ("Pipeline", ["kshunt does not know yet whether one runs."])
    ]
    found = sections(None, None, NOW_MS, 80, ASCII, unknown="not recorded")
    assert words(found[0][1]) == ["Not recorded."]


def test_results_that_have_not_come_are_being_asked_for() -> None:
    assert status_words()[-1] == "kshunt is asking for its results."
    assert status_words(unknown="not recorded")[-1] == "Its results are not recorded."
    assert not any("asking" in line for line in status_words(newest_ms=None))


def test_starts_after_failures_are_counted_with_the_last_reason() -> None:
    once = PipelineProcess(True, NOW_MS, 1, "Spark gave up.")
    assert status_words(process=once)[0].endswith("Started again 1 time, last: Spark gave up.")
    assert "Started again" not in status_words(process=PipelineProcess(True, NOW_MS))[0]


def test_a_thread_of_the_backend_is_not_started_again_but_tries_again() -> None:
    thread = PipelineProcess(False, NOW_MS, 2, "The disk is full.", RunsAs.THREAD)
    said = " ".join(status_words(process=thread, state=PipelineState.RESTARTING))
    assert said.startswith("trying again:")
    assert "Failed 2 times, last: The disk is full." in said
    process = replace(thread, runs_as=RunsAs.PROCESS)
    assert status_words(process=process, state=PipelineState.RESTARTING)[0].startswith("restarting")


def test_tables_that_are_not_there_are_named_and_have_no_section() -> None:
    status = pipeline_status(NOW_MS)
    few = replace(status, tables=status.tables[:2])
    found = sections(few, pipeline_past(NOW_MS), NOW_MS, 160, ASCII)
    assert [label for label, _ in found] == ["Pipeline", "Forecast", "Limits", "Copies"]
    assert "Not here: stalls, broker load, pairs, quality." in words(found[0][1])
    assert not any(line.startswith("Not here") for line in status_words(tables=(), newest_ms=None))


def test_two_damaged_tables_are_told_and_no_more() -> None:
    tables = tuple(replace(OF, table=f"t{n}", problem=f"t{n} is ignored.") for n in range(3))
    found = [line for line in status_words(tables=tables) if "is ignored" in line]
    assert found == ["t0 is ignored.", "t1 is ignored."]


@pytest.mark.parametrize(
    ("state", "tone"),
    [
        (PipelineState.RUNNING, "good"),
        (PipelineState.UNATTENDED, ""),
        (PipelineState.RESTARTING, "warn"),
        (PipelineState.LATE, "bad"),
        (PipelineState.FAILED, "bad"),
    ],
)
def test_a_state_has_the_tone_of_how_bad_it_is(state: PipelineState, tone: str) -> None:
    found = sections(pipeline_status(NOW_MS, state=state), None, NOW_MS, 160, ASCII)
    assert tone_of(found[0][1][0], state.value) == tone


def test_every_section_stands_behind_its_label_once() -> None:
    found = sections(pipeline_status(NOW_MS), pipeline_past(NOW_MS), NOW_MS, 160, ASCII)
    lines = section_lines(found, 11)
    labels = [line.text[:11].strip() for line in lines]
    assert [label for label in labels if label] == [label for label, _ in found]
    keys = [line.key for line in lines]
    assert None not in keys
    assert len(set(keys)) == len(keys)


# Forecasts


def test_a_forecast_says_its_end_its_age_what_is_left_and_the_bottleneck() -> None:
    (line,) = shown("Forecast", 200)
    assert words([line]) == [
        "op-1 12m00s to 31m00s (8 in 10), half by 19m00s (stream, <10s old) "
        "45.7 GB left at 68.5 MB/s leader throttle of broker 4"
    ]
    assert line.key == ("forecast", "op-1", 0)


def test_what_a_forecast_does_not_know_is_left_out() -> None:
    row = eta("op-1", NOW_MS, remaining_bytes=None, rate_bytes_per_s=None, bound=None)
    (line,) = words(shown("Forecast", 200, etas=Rows(OF, (row,))))
    assert line.endswith("(stream, <10s old)")


def test_an_end_that_never_comes_is_bad() -> None:
    row = eta("op-1", NOW_MS, p10_s=None, p50_s=None, p90_s=None, why="never: no rate is left")
    (line,) = shown("Forecast", 200, etas=Rows(OF, (row,)))
    assert tone_of(line, "never: no rate is left") == "bad"


def test_forecasts_that_grew_old_are_told_from_none() -> None:
    old = replace(eta("op-1", NOW_MS), at_ms=NOW_MS - 3_600_000)
    assert words(shown("Forecast", etas=Rows(OF, (old,)))) == ["none is fresh (stream, <10s old)"]
    nothing = "no running operation has a forecast (stream, <10s old)"
    assert words(shown("Forecast", etas=Rows(OF))) == [nothing]


def test_a_copy_that_no_operation_makes_has_no_line() -> None:
    foreign = replace(eta("op-1", NOW_MS), operation_id=None)
    assert words(shown("Forecast", etas=Rows(OF, (foreign,))))[0].startswith("none is fresh")


def test_five_forecasts_are_shown_at_most() -> None:
    rows: tuple[EtaRow, ...] = tuple(eta(f"op-{n}", NOW_MS) for n in range(7))
    ids = [words([line])[0].split()[0] for line in shown("Forecast", 200, etas=Rows(OF, rows))]
    assert ids == [f"op-{n}" for n in range(5)]


# Copies


def course(*points: TransferPoint, since_ms: int | None = None) -> TransferAnswer:
    return TransferAnswer(OF, TransferHistory(points, 900.0, since_ms))


def test_nothing_that_was_copied_is_told_from_what_is_not_read_yet() -> None:
    assert words(shown("Copies", course=course())) == ["nothing was copied (stream, <10s old)"]
    assert words(shown("Copies", course=course(since_ms=1))) == ["being read (stream, <10s old)"]


def test_steps_without_a_point_are_unknown_and_not_nought() -> None:
    step_ms = 15 * MINUTE_MS
    ends = (TransferPoint(0, 7.0, 5.0, 1.0), TransferPoint(2 * step_ms, 4.0, 6.0, 1.0))
    times, copied, lag = even(TransferHistory(ends, 900.0))
    assert times == [0, step_ms, 2 * step_ms]
    assert str(copied) == "[5.0, nan, 6.0]"
    assert str(lag) == "[7.0, nan, 4.0]"


def test_the_last_throughput_is_shown_while_results_are_of_the_present() -> None:
    first = NOW_MS - 40 * MINUTE_MS
    points = [TransferPoint(first + n * 15 * MINUTE_MS, 9e9, 40e6 - n * 1e6, 1.0) for n in range(3)]
    head, throughput, lag = words(shown("Copies", 120, course=course(*points)))
    assert head.startswith("last 40m00s, a point each 15m (")
    assert throughput.endswith("38.0 MB/s most 40.0 MB/s")
    assert lag.endswith("9.00 GB most 9.00 GB")
    past = [replace(point, at_ms=point.at_ms - 60 * MINUTE_MS) for point in points]
    _, throughput, _ = words(shown("Copies", 120, course=course(*past)))
    assert throughput.endswith(" - most 40.0 MB/s")


def test_a_course_that_is_still_read_says_so() -> None:
    point = TransferPoint(NOW_MS - MINUTE_MS, 9e9, 40e6, 1.0)
    head = words(shown("Copies", course=course(point, since_ms=NOW_MS - 90 * MINUTE_MS)))[0]
    assert ", more being read (" in head


# Stalls


def test_stalls_are_counted_by_cause_and_open_ones_warn() -> None:
    head, going, over = shown("Stalls")
    assert words([head])[0].startswith(
        "1 still open, 14 in a day: throttle too low 9, broker down 5"
    )
    assert tone_of(head, "still open") == "warn"
    assert words([going, over]) == [
        "orders-2 on 3 11m56s continues throttle too low",
        "payments-0 on 3 10m00s 3h10m ago broker down",
    ]
    assert tone_of(going, "continues") == "warn"
    assert tone_of(over, "ago") == "dim"


def test_stalls_that_are_all_over_warn_nobody() -> None:
    over = CauseRow("unknown", 2, 0, 1, 60.0, 40.0)
    head = shown("Stalls", causes=Rows(OF, (over,)), stalls=Rows(OF))[0]
    assert tone_of(head, "0 still open, 2 in a day: cause not known 2") == ""
    assert words(shown("Stalls", causes=Rows(OF)))[0].startswith("none in a day")


# Limits


def test_what_held_operations_up_is_listed_with_its_share() -> None:
    head, first, second = words(shown("Limits"))
    assert head.startswith("what held operations up in a day (")
    assert " ".join(first.split()) == "leader throttle of broker 4 1h20m 80% 2 operations"
    assert " ".join(second.split()) == "broker 3 sending 20m00s 20% 1 operation"
    assert words(shown("Limits", bottlenecks=Rows(OF)))[0].startswith(
        "nothing was held up in a day"
    )


def test_three_causes_and_five_stalls_are_listed() -> None:
    causes = tuple(CauseRow(f"c{n}", 9 - n, 0, 1, 60.0, 40.0) for n in range(4))
    stalls = tuple(StallRow(NOW_MS - 9_000, NOW_MS - n, 9.0, False, "t", n, 1) for n in range(7))
    head, *rows = words(shown("Stalls", causes=Rows(OF, causes), stalls=Rows(OF, stalls)))
    assert "0 still open, 30 in a day: c0 9, c1 8, c2 7 (" in head
    assert [row.split()[0] for row in rows] == [f"t-{n}" for n in range(5)]


# Load


def load(broker: int, full_in_s: float | None = None, **others: Any) -> LoadRow:
    return LoadRow(
        broker, NOW_MS - 60_000, NOW_MS, full_in_s=full_in_s, **{"disk_used_bytes": 1, **others}
    )


def loads(*rows: LoadRow, width: int = 160) -> list[Line]:
    return shown("Load", width, loads=Rows(OF, rows))


@pytest.mark.parametrize(
    ("full_in_s", "tone"),
    [(DAY_S - 1, "bad"), (DAY_S, "warn"), (7 * DAY_S - 1, "warn"), (7 * DAY_S, "")],
)
def test_a_disk_is_bad_a_day_before_it_is_full_and_warns_for_a_week(
    full_in_s: float, tone: str
) -> None:
    head, first, second = loads(load(1), load(2, full_in_s))
    assert tone_of(head, "broker 2 is full first, in ") == tone
    assert tone_of(first, "growth ?") == ""
    assert tone_of(second, "full in") == tone


def test_the_time_until_a_disk_is_full_counts_from_now() -> None:
    old = replace(load(1, 3_600.0), newest_ms=NOW_MS - 600_000)
    assert words(loads(old))[0].startswith("broker 1 is full first, in 50m00s")
    past = replace(load(1, 60.0), newest_ms=NOW_MS - 600_000)
    assert "in 0s" in words(loads(past))[0]


def test_no_disk_that_fills_is_told_from_disks_that_nobody_reports() -> None:
    assert words(loads(load(1), load(2)))[0].startswith("no disk will be full")
    silent = load(2, disk_used_bytes=None)
    assert words(loads(load(1), silent))[0].startswith("no disk will be full")
    assert words(loads(silent))[0].startswith("no broker reports its disks")
    assert words(loads())[0].startswith("no broker yet")


def test_six_brokers_are_the_five_that_are_full_first_and_a_count() -> None:
    rows = [load(n, None if n == 3 else n * DAY_S) for n in range(6, 0, -1)]
    lines = words(loads(*rows))
    assert [line.split()[1] for line in lines[1:-1]] == ["1", "2", "4", "5", "6"]
    assert lines[-1] == "and 1 more broker"
    five = words(loads(*rows[1:]))
    assert [line.split()[1] for line in five[1:]] == ["1", "2", "3", "4", "5"]


def test_a_broker_says_what_is_known_of_its_disk_and_its_traffic() -> None:
    whole = load(
        *(1, None),
        disk_used_bytes=30,
        disk_total_bytes=40,
        growth_bytes_per_s=-2e6,
        in_bytes_per_s=3e6,
        out_bytes_per_s=0.2,
        leader_share=0.25,
    )
    assert words(loads(whole, load(2, growth_bytes_per_s=5e6)))[1:] == [
        "broker 1 75% used does not fill -2.0MB/s in 3.00MB/s out - leads 25%",
        "broker 2 disk ? does not fill +5.00MB/s in ? out ? leads ?",
    ]


# Pairs and samples


def test_pairs_show_three_rates_each_and_at_most_three_pairs() -> None:
    pairs = [PairRow(n, 9, n % 2 == 0, 5, 2_000_000, 1e6, 2e6, None) for n in range(4)]
    head, *rows = words(shown("Pairs", pairs=Rows(OF, tuple(pairs))))
    assert head.startswith("rate of one copy in a day: 10 %, half, 90 % below (")
    assert rows == [
        "0 > 9 throttled 1.00MB/s 2.00MB/s ? 2.00 MB copied",
        "1 > 9 free 1.00MB/s 2.00MB/s ? 2.00 MB copied",
        "2 > 9 throttled 1.00MB/s 2.00MB/s ? 2.00 MB copied",
    ]
    assert words(shown("Pairs", pairs=Rows(OF)))[0].startswith("nothing was copied in a day")


def test_rows_of_samples_are_counted_once_for_all_expectations() -> None:
    fine = QualityRow("replicas", "unique", "dropped", 0, 1_000, "one row a moment")
    other = QualityRow("replicas", "known", "kept", 0, 1_200, "a broker is named")
    moves = QualityRow("moves", "known", "kept", 0, 300, "a target is named")
    rows = (fine, other, moves)
    assert words(shown("Samples", quality=Rows(OF, rows))) == [
        "1,500 in a day, all as expected (stream, <10s old)"
    ]
    head, row = shown("Samples", quality=Rows(OF, (replace(fine, violations=7), other, moves)))
    assert tone_of(head, "1,500 in a day; not as expected:") == "warn"
    assert words([row]) == ["7 dropped: one row a moment"]
    assert words(shown("Samples", quality=Rows(OF)))[0].startswith("none were checked in a day")
    # Files are no samples.
    files = QualityRow("files", "readable", "quarantined", 2, 9, "the file can be read")
    assert words(shown("Samples", quality=Rows(OF, (*rows, files)))) == [
        "1,500 in a day, all as expected (stream, <10s old)"
    ]


def test_files_that_were_set_aside_are_named_with_what_is_wrong() -> None:
    tables = (TableStatus("quarantine_files", NOW_MS - 4_000, "stream"),)
    aside = (
        FileAsideRow(0, "replicas", "replicas/a.parquet", "column_missing"),
        FileAsideRow(0, "brokers", "brokers/b\x1b.parquet", "of a later version"),
    )
    seen = pipeline_status(NOW_MS, tables=tables, files_aside=12, aside=aside)
    found = dict(sections(seen, pipeline_past(NOW_MS), NOW_MS, 150, ASCII))
    head, *rows = found["Files"]
    assert tone_of(head, "12 files set aside in a day") == "warn"
    assert words(rows) == [
        "replicas/a.parquet: a column is missing",
        "brokers/b?.parquet: of a later version",
    ]
    none = pipeline_status(NOW_MS, tables=tables)
    found = dict(sections(none, pipeline_past(NOW_MS), NOW_MS, 150, ASCII))
    assert words(found["Files"])[0].startswith("none was set aside in a day")
