"""The report of a week: figures, words, both formats, and where there is little to tell."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from kshunt import __version__
from kshunt.backend.cli.report import main
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.delivered_files.result_files import hour_folders
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.pipeline.result_columns import ETA, RATES, ResultTable
from kshunt.backend.domain.pipeline.roll_up_columns import MOVES
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.errors import ConfigError
from kshunt.backend.limits import LIMITS
from kshunt.backend.pipeline.reports.document import Bar, Bars, Document
from kshunt.backend.pipeline.reports.formats import drawn
from kshunt.backend.pipeline.reports.operation_results import read as read_operation
from kshunt.backend.pipeline.reports.report_document import OperationFigures
from kshunt.backend.pipeline.reports.week_document import WeekFigures, week_report
from kshunt.backend.pipeline.reports.week_operations import week_operations
from kshunt.backend.pipeline.reports.week_results import (
    Stopped,
    WeekJournal,
    WeekMaterial,
    missing_hours,
    read_week,
)
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain
from kshunt.backend.pipeline.results.result_runs import new_run
from tests.support.pipeline.recorded import Row, sample, time_of, write
from tests.support.pipeline.reported import (
    MB,
    OPERATION,
    arrow,
    moved,
    of_tables,
    write_results,
)
from tests.support.pipeline.weeks import (
    BAD,
    GOOD,
    OTHER,
    TOPIC,
    WEEK,
    at,
    copied,
    forecast,
    journal,
    operation,
    rate,
    write_week,
)

GOLDEN = Path(__file__).with_name("week-report.md")
NOW_MS = WEEK.to_ms + 600_000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A week in which much happens."""
    folder = write_week(tmp_path_factory.mktemp("week"))
    gap = f'{{"from_ms": {at(1, 9)}, "to_ms": {at(1, 10)}, "why": "crash", "text": "killed"}}\n'
    after = gap.replace(str(at(1, 9)), str(WEEK.to_ms)).replace(str(at(1, 10)), str(NOW_MS))
    (folder / "gaps.jsonl").write_text(gap + after.replace("killed", "later"))
    return folder


def material_of(folder: Path, told: WeekJournal | None = None, week: Week = WEEK) -> WeekMaterial:
    return read_week(week, folder, folder / "results", told)


def made(folder: Path, **tables: Sequence[Row]) -> Path:
    """A recording with these results."""
    by_name = {table.name: table for table in (RATES, ETA)}
    for name, rows in tables.items():
        write_results(folder / "results", by_name[name], rows)
    return folder


def markdown(material: WeekMaterial, now_ms: float = NOW_MS) -> str:
    return drawn(week_report(material, now_ms), ".md").replace(__version__, "VERSION")


def section(text: str, name: str) -> str:
    """What stands under a heading."""
    return text.partition(f"## {name}\n")[2].partition("\n## ")[0].strip()


# In words


def test_markdown_says_what_is_to_be_said(whole: Path) -> None:
    text = markdown(material_of(whole, journal()))
    if os.environ.get("KSHUNT_REWRITE_FRAMES"):
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8"), f"the report is not as in {GOLDEN.name}"


def test_html_draws_each_chart_by_itself_and_no_name_is_markup(whole: Path) -> None:
    text = drawn(week_report(material_of(whole, journal()), NOW_MS), ".html")
    assert not re.search(r"<(script|link|img|iframe|a|b)\b", text)
    assert "<b>eu" not in text
    assert "orders|&lt;b&gt;eu&lt;/b&gt;" in text
    assert "disk &lt;full&gt;" in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    charts = [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert len(charts) == 5
    titles = {chart.find("title").get("id") for chart in charts}  # type: ignore[union-attr]
    assert len(titles) == len(charts)
    bars = [float(bar.get("width", "nan")) for chart in charts for bar in chart.iter("rect")]
    assert len(bars) >= 7
    assert all(0 <= width <= 760 for width in bars)


def test_bars_show_names_that_would_be_markup_or_hide() -> None:
    names = ["</text><script>", "```", "a\u202eb", "long " * 20]
    page = Document("x", [Bars("Some", [Bar(name, 1.0, "1") for name in names])])
    html, text = drawn(page, ".html"), drawn(page, ".md")
    assert "<script>" not in html
    assert "a[U+202E]b" in html
    assert "a[U+202E]b" in text
    assert text.count("```") == 2
    assert max(map(len, text.splitlines())) <= 78


def test_bars_of_nothing_are_drawn(whole: Path) -> None:
    page = Document("x", [Bars("None", [Bar("Mon", 0.0, "0 B")]), Bars("Empty", [])])
    for chart in re.findall(r"<svg.*?</svg>", drawn(page, ".html"), re.DOTALL):
        ElementTree.fromstring(chart)
    assert "Mon |  0 B" in drawn(page, ".md")


# Figures


def test_a_day_has_its_bottleneck_its_bytes_and_its_time_under_a_throttle(whole: Path) -> None:
    figures = WeekFigures.of(material_of(whole), NOW_MS)
    rates, days = figures.material.rates, WEEK.days_ms
    copied = [round(figures.of_day(rates.copied_by_hour, day)) for day in days]
    assert copied == [30 * 1_200 * MB, 100 * 1_200 * MB, 0, 0, 0, 0, 0]
    assert figures.longest_of(days[0]) == ("follower throttle of broker 4", 358 * 5.0)
    assert figures.longest_of(days[1]) == ("broker 1 sending", 1_199 * 5.0)
    assert figures.longest_of(days[2]) is None
    assert list(figures.held_s) == ["broker 1 sending", "follower throttle of broker 4"]
    throttled = [rates.throttled_minutes.get(day, 0) for day in days]
    assert throttled == [30, 100, 0, 60, 0, 0, 0]
    assert rates.idle_minutes[days[3]] == 60
    assert sum(rates.idle_minutes.values()) == 60
    assert round(sum(rates.others_by_hour.values())) == 20 * 30 * MB
    assert rates.written[TOPIC] == 540 * 90 * MB
    assert rates.written[OTHER] == 540 * 30 * MB


def test_a_replica_that_leaves_the_isr_counts_once_also_over_an_hours_end(whole: Path) -> None:
    drops = material_of(whole).rates.drops
    assert [(drop.at_ms, drop.broker) for drop in drops] == [
        (at(1, 9, 30 * 60), 3),
        (at(1, 9, 59 * 60), 3),
    ]


def test_what_a_move_adds_or_removes_does_not_leave_the_isr(tmp_path: Path) -> None:
    rows = [
        rate(at(0, 9), rid=1),
        rate(at(0, 9, 60), rid=1, removing=True, in_isr=False),
        rate(at(0, 9), rid=2, adding=True, in_isr=False),
        rate(at(0, 9, 60), rid=2, adding=True, in_isr=True),
        rate(at(0, 9, 61), rid=2, in_isr=False),
    ]
    assert material_of(made(tmp_path, rates=rows)).rates.drops == []


def test_a_stall_counts_once_and_only_as_far_as_it_lies_in_the_week(whole: Path) -> None:
    figures = WeekFigures.of(material_of(whole), NOW_MS)
    assert figures.stalls is not None
    low = 3_000 + 600 + 300
    assert figures.stalls.causes == {"throttle too low": (low, 3), "broker down": (1_200.0, 1)}
    assert figures.stalls.by_day[WEEK.days_ms[0]] == 600
    assert figures.stalls.by_day[WEEK.days_ms[6]] == 300


def test_a_first_forecast_is_judged_by_the_end_that_samples_saw(whole: Path) -> None:
    by_id = {one.id: one for one in week_operations(material_of(whole, journal()))}
    assert set(by_id) == {GOOD, BAD, "op-rate"}
    good, bad = by_id[GOOD], by_id[BAD]
    assert good.ended_ms == at(0, 9, 600 + 30 * 60)
    assert good.forecast is not None
    assert good.forecast.at_ms == at(0, 9, 605)
    assert good.held is True
    assert (good.copies, good.arrived, good.copied_bytes) == (1, 1, 30 * 1_200 * MB)
    assert bad.ended_ms is None
    assert bad.held is None


def test_a_week_and_an_operation_are_told_alike(tmp_path: Path) -> None:
    samples = moved()
    for table, rows in of_tables(samples, 420).items():
        write_results(tmp_path / "results", table, rows)
    material = read_operation(OPERATION, tmp_path, tmp_path / "results")
    alone = OperationFigures.of(material)
    (one,) = week_operations(material_of(tmp_path))
    assert one.id == OPERATION
    assert (one.copies, one.arrived) == (len(alone.copies), 4)
    assert one.ended_ms == alone.ended_ms
    assert one.copied_bytes == pytest.approx(alone.copies.bytes.sum())
    assert one.bound == "follower throttle of broker 4"


@pytest.mark.parametrize(
    ("state", "left_s", "held"),
    [
        (OperationState.DONE, 600.0, True),
        (OperationState.DONE, 400.0, False),
        (OperationState.DONE, 900.0, False),
        (OperationState.CANCELLED, 600.0, None),
        (None, 600.0, True),
    ],
)
def test_only_what_completed_is_judged(
    tmp_path: Path, state: OperationState | None, left_s: float, held: bool | None
) -> None:
    rows = copied(GOOD, at(0, 9), 10, 10, arrives=True)
    folder = made(tmp_path, rates=rows, eta=[forecast(GOOD, at(0, 9), left_s, "broker 1 sending")])
    told = None if state is None else WeekJournal.of(WEEK, [operation(GOOD, state, 0, 0.2)], [])
    (one,) = week_operations(material_of(folder, told))
    assert one.true_s == (None if held is None else 600.0)
    assert one.held is held


def test_an_operation_that_runs_on_after_the_week_has_no_end_in_it(tmp_path: Path) -> None:
    rows = copied(GOOD, at(6, 23, 3_000), 20, 10, arrives=True)
    told = WeekJournal.of(WEEK, [operation(GOOD, OperationState.DONE, 6, 30)], [])
    folder = made(tmp_path, rates=rows)
    text = markdown(material_of(folder, told))
    assert "after the week" in section(text, "Operations")
    assert "0 of 1" in section(text, "Operations")
    (later,) = week_operations(material_of(folder, told, Week(2026, 48)))
    assert later.ended_ms == WEEK.to_ms + 600_000


def test_copies_that_are_no_longer_seen_are_told_from_those_under_way(tmp_path: Path) -> None:
    gone = copied(BAD, at(0, 9), 10, 11, arrives=False)
    running = copied(GOOD, at(0, 9), 60, 10, arrives=False)
    text = section(markdown(material_of(made(tmp_path, rates=gone + running))), "Operations")
    assert "not completed, or no longer recorded; last seen 2026-11-16 09:09:00" in text
    assert "none yet" in text


def test_operations_that_the_journal_lists_no_more_are_said_to_be_missing() -> None:
    ended = operation(GOOD, OperationState.DONE, 1, 1)
    several = [replace(ended, id=f"{number}") for number in range(LIMITS.operations_kept)]
    assert not WeekJournal.of(WEEK, several, []).whole
    assert WeekJournal.of(WEEK, several[1:], []).whole
    before = replace(ended, ended_ms=WEEK.from_ms - 1)
    assert WeekJournal.of(WEEK, [*several, before], []).whole


# Where something is missing


def test_an_empty_week_says_so_and_what_is_missing(tmp_path: Path) -> None:
    material = material_of(tmp_path)
    assert material.is_empty
    text = markdown(material)
    assert "Results have nothing of this week" in section(text, "In short")
    assert "(168 hours): nothing was recorded" in section(text, "Gaps and data quality")
    assert "have no table stalls" in section(text, "Stalls")
    assert "have no table eta" in section(text, "What held operations up")
    assert r"have no table broker\_load" in section(text, "Load of brokers")
    assert "without it" in section(text, "Throttles")
    assert "nan" not in text


def test_a_week_that_runs_says_what_is_not_yet(tmp_path: Path) -> None:
    folder = made(tmp_path, rates=[rate(at(0, 0)), rate(at(0, 1))])
    text = markdown(material_of(folder), at(0, 2))
    assert "the week has not ended" in text
    assert "2 of 2 hours have results" in text
    assert "Tue 2026-11-17 |  not yet" in text
    assert section(text, "Gaps and data quality").startswith("Every hour of the week has results")


def test_hours_that_have_samples_and_no_results_are_told_from_lost_ones(tmp_path: Path) -> None:
    moment = at(2, 5)
    write(tmp_path, [sample(0) | {"at": time_of(moment)}])
    text = section(markdown(material_of(tmp_path)), "Gaps and data quality")
    assert "samples are there for 1 hour of it: kshunt pipeline backfill makes results" in text
    assert not material_of(tmp_path).is_empty


def test_a_file_that_cannot_be_read_costs_its_hour_and_is_named(tmp_path: Path) -> None:
    folder = made(tmp_path, rates=[rate(at(0, 9)), rate(at(0, 10))])
    torn = next((folder / "results" / "rates").rglob("hour=09/*/*.parquet"))
    torn.write_bytes(torn.read_bytes()[:50])
    material = material_of(folder)
    assert material.rates.hours == {at(0, 10)}
    assert f"Not read: {torn} cannot be read".replace("_", r"\_") in markdown(material)


def test_results_of_two_versions_are_one_week(tmp_path: Path) -> None:
    old, new = copied(GOOD, at(0, 9), 10, 10, arrives=False), [rate(at(0, 10), rid=10)]
    made(tmp_path, rates=[*old, *new])
    models = [forecast(GOOD, at(0, hour), 60, "broker 1 sending", model=hour) for hour in (3, 4)]
    made(tmp_path, eta=models)
    # An earlier version knew neither throttles nor operations.
    missing = {"follower_throttle_bytes_per_s", "operation_id", "leader_throttle_bytes_per_s"}
    path = next((tmp_path / "results" / "rates").rglob("hour=09/*/*.parquet"))
    rows = pq.read_table(path)
    pq.write_table(rows.select([name for name in rows.column_names if name not in missing]), path)
    material = material_of(tmp_path)
    assert material.rates.hours == {at(0, 9), at(0, 10)}
    assert sum(material.rates.others_by_hour.values()) == 10 * 1_200 * MB
    assert material.rates.throttled_minutes[WEEK.from_ms] == 0
    assert "by version 3, 4 of the model" in markdown(material)


def test_a_week_is_told_alike_from_rows_and_from_roll_ups_when_the_rows_are_gone(
    tmp_path: Path,
) -> None:
    folder = write_week(tmp_path)
    # A copy that arrives with the end of an hour, and a replica that leaves the ISR with it.
    late = copied("op-late", at(4, 9, 3_480), 2, 30, arrives=True)
    falls = [rate(at(4, 9, 3_540), rid=31), rate(at(4, 10, 5), rid=31, in_isr=False)]
    write_results(folder / "results", RATES, [*late, *falls], batch=7)
    rows = material_of(folder, journal())
    assert {day for day, _, _ in rows.forecasts.held_s} == {at(0, 0), at(1, 0)}
    assert any(drop.at_ms == at(4, 10, 5) for drop in rows.rates.drops)
    done = maintain(folder / "results", KeptDays(365, 730), lambda: WEEK.to_ms + 5 * DAY_MS)
    tables = [folder / "results" / table.name for table in (RATES, ETA)]
    assert done.rolled_hours == sum(len(hour_folders(table)) for table in tables) > 8
    rolled = material_of(folder, journal())
    gone = maintain(folder / "results", KeptDays(0, 730), lambda: WEEK.to_ms + 5 * DAY_MS)
    assert gone.deleted_hours > 0
    assert not any(map(hour_folders, tables))
    after = material_of(folder, journal())
    texts = [markdown(one).partition("## Source")[0] for one in (rows, rolled, after)]
    assert texts[0] == texts[1] == texts[2]
    for one in (rolled, after):
        assert one.rates.copies == rows.rates.copies
        assert one.rates.drops == rows.rates.drops
        assert +one.rates.written == +rows.rates.written
        assert one.forecasts.held_s == rows.forecasts.held_s
        assert one.forecasts.first == rows.forecasts.first
        assert one.forecasts.models == rows.forecasts.models
    assert section(texts[2], "Load of brokers") == section(texts[0], "Load of brokers")


def test_hours_that_are_too_old_when_they_are_maintained_first_are_rolled_up_before(
    tmp_path: Path,
) -> None:
    folder = write_week(tmp_path)
    text = markdown(material_of(folder)).partition("## Source")[0]
    maintain(folder / "results", KeptDays(0, 730), lambda: WEEK.to_ms + 5 * DAY_MS)
    assert not hour_folders(folder / "results" / RATES.name)
    assert markdown(material_of(folder)).partition("## Source")[0] == text


def test_an_hour_that_a_backfill_made_again_is_read_from_its_rows(tmp_path: Path) -> None:
    folder = made(tmp_path, rates=copied(GOOD, at(0, 9), 10, 10, arrives=False))
    results, now_ms = folder / "results", WEEK.to_ms
    maintain(results, KeptDays(365, 730), lambda: now_ms)
    before = sum(material_of(folder).rates.copied_by_hour.values())
    with new_run(results, at(0, 9), at(0, 10), now_ms) as run:
        run.write(RATES, arrow(RATES.columns, copied(GOOD, at(0, 9), 20, 10, arrives=False)))
        run.publish([at(0, 9)], now_ms, None)
    assert sum(material_of(folder).rates.copied_by_hour.values()) == 2 * before


def test_a_damaged_roll_up_is_named_and_the_rows_are_read(tmp_path: Path) -> None:
    folder = made(tmp_path, rates=copied(GOOD, at(0, 9), 10, 10, arrives=False))
    results = folder / "results"
    maintain(results, KeptDays(365, 730), lambda: WEEK.to_ms)
    whole = material_of(folder)
    torn = next((results / MOVES.by_hour.name).rglob("*.parquet"))
    torn.write_bytes(torn.read_bytes()[:50])
    material = material_of(folder)
    assert material.rates.copied_by_hour == whole.rates.copied_by_hour
    assert any(str(torn) in problem for problem in material.problems)


def test_missing_hours_are_stretches() -> None:
    hours = {HOUR_MS, 4 * HOUR_MS}
    found = missing_hours(hours, 0, 6 * HOUR_MS)
    stretches = [(one.start // HOUR_MS, one.stop // HOUR_MS) for one in found]
    assert stretches == [(0, 1), (2, 4), (5, 6)]


def test_reading_ends_when_somebody_stops_it(whole: Path) -> None:
    with pytest.raises(Stopped):
        read_week(WEEK, whole, whole / "results", None, lambda: True)


# The command


def test_the_command_writes_a_page_of_a_week(whole: Path, tmp_path: Path) -> None:
    target = tmp_path / "week.html"
    assert main(["--week", "2026-W47", "--samples", str(whole), "--to", str(target)]) == 0
    assert "<h1>Week 2026-W47</h1>" in target.read_text("utf-8")


def test_a_day_names_its_week(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--week", "2026-11-22", "--samples", str(whole)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("# Week 2026-W47\n")
    assert "without it" in section(said, "In short")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs either OPERATION or --week"),
        (["op", "--week", "last"], "needs either OPERATION or --week"),
        (["--week", "2026-W54"], "'2026-W54' is not a week"),
        (["--week", "2026-02-30"], "'2026-02-30' is not a week"),
        (["--week", "yesterday"], "'yesterday' is not a week"),
        (["--week", "9000-W01"], "week 9000-W01 has not begun"),
        (["--week", "last", "--to", "week.pdf"], "must end in .md or .html"),
        (["--week", "last", "--backend", "ftp://x"], "is not the address of a backend"),
        (["--week", "last", "--command-config", "x"], "--command-config"),
        (["--week"], "--week needs a value"),
    ],
)
def test_wrong_words_are_refused(words: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        main([*words, "--samples", str(tmp_path)])


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        main(["--week", "last", "--samples", str(tmp_path / "none")])


def test_a_backend_that_does_not_answer_leaves_the_report_without_its_journal(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"unix:{tmp_path}/none.sock"
    assert main(["--week", "2026-W47", "--samples", str(whole), "--backend", address]) == 0
    said = capsys.readouterr()
    assert "The report is made without the journal" in said.err
    assert "without it" in said.out


def test_tables_are_those_of_the_pipeline(whole: Path) -> None:
    for table in (RATES, ETA):
        assert isinstance(table, ResultTable)
        path = next((whole / "results" / table.name).rglob("*.parquet"))
        assert pq.read_schema(path).names == list(table.names)
