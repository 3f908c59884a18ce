"""Reports that a backend writes by itself: when, once, and also after it was down."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.domain.audit.lines import AuditEntry
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.errors import ConfigError
from kshunt.backend.serve.reports import (
    AFTER_END_MS,
    JOURNAL_MS,
    LOOKED_BACK_MS,
    OPERATION_SETTLED_MS,
    PATIENCE_MS,
    PAUSE_MOST_MS,
    WEEK_SETTLED_MS,
    JournalFacts,
    ReportWriter,
    check_folder,
)
from tests.support.clocks import StoppedClock
from tests.support.pipeline.recorded import START_MS, Row, time_of, write
from tests.support.pipeline.reported import OPERATION, moved, of_tables, write_results
from tests.support.pipeline.weeks import WEEK, journal, operation, rate, write_week

PAGE = "week-2026-W47.html"
OF_OPERATION = f"operation-{OPERATION}.html"
END_MS = START_MS + 420_000
"""When the last copy of the operation of `moved` has arrived."""


def facts(operations: Sequence[Operation] = ()) -> JournalFacts:
    """What the journal of the week says."""
    told = journal()
    lines = [row for row in told.audit if isinstance(row, AuditEntry)]
    return JournalFacts(operations or told.operations, lambda: lines)


def writer_of(folder: Path, clock: StoppedClock, *, samples: Path | None = None) -> ReportWriter:
    """A writer that has just started, next to the recording in a folder."""
    (folder / "reports").mkdir(exist_ok=True)
    samples = samples or folder
    return ReportWriter(folder / "reports", samples, samples / "results", clock)


def pages(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "reports").iterdir())


# Weeks


def test_a_week_is_reported_once_it_is_settled(tmp_path: Path) -> None:
    write_week(tmp_path)
    clock = StoppedClock(WEEK.to_ms - 1)
    writer = writer_of(tmp_path, clock)
    for moment in (WEEK.to_ms - 1, WEEK.to_ms, WEEK.to_ms + WEEK_SETTLED_MS - 1):
        clock.ms = moment
        writer.look(facts())
        assert PAGE not in pages(tmp_path)
    clock.ms = WEEK.to_ms + WEEK_SETTLED_MS
    writer.look(facts())
    assert PAGE in pages(tmp_path)
    text = (tmp_path / "reports" / PAGE).read_text("utf-8")
    assert "3 operations of any kind ended: 1 done" in text
    assert "broker 4 follower rate" in text


def test_a_backend_that_was_down_on_monday_reports_when_it_starts(tmp_path: Path) -> None:
    write_week(tmp_path)
    clock = StoppedClock(WEEK.to_ms + 6 * DAY_MS)
    writer_of(tmp_path, clock).look(facts())
    assert pages(tmp_path) == [PAGE]


def test_a_page_that_is_there_is_never_written_again(tmp_path: Path) -> None:
    write_week(tmp_path)
    clock = StoppedClock(WEEK.to_ms + WEEK_SETTLED_MS)
    writer = writer_of(tmp_path, clock)
    writer.look(facts())
    page = tmp_path / "reports" / PAGE
    page.write_text("mine")
    for other in (writer, writer_of(tmp_path, clock)):
        clock.ms += 60_000
        other.look(facts())
        assert page.read_text() == "mine"
    # A running backend does not bring back what somebody removed.
    page.unlink()
    writer.look(facts())
    assert pages(tmp_path) == []


def test_each_week_gets_its_own_page(tmp_path: Path) -> None:
    write_week(tmp_path)
    next_week = [rate(WEEK.to_ms + hour * 3_600_000) for hour in (1, 2)]
    write_results(tmp_path / "results", RATES, next_week, batch=1)
    clock = StoppedClock(WEEK.to_ms + WEEK_SETTLED_MS)
    writer = writer_of(tmp_path, clock)
    writer.look(facts())
    clock.ms += 7 * DAY_MS
    writer.look(facts())
    assert pages(tmp_path) == [PAGE, "week-2026-W48.html"]


def test_a_week_of_which_nothing_is_known_gets_no_page(tmp_path: Path) -> None:
    clock = StoppedClock(WEEK.to_ms + WEEK_SETTLED_MS)
    elsewhen = [operation("op", OperationState.DONE, -20, 1)]
    writer_of(tmp_path, clock).look(facts(elsewhen))
    assert pages(tmp_path) == []


def test_the_journal_is_waited_for_but_not_for_ever(tmp_path: Path) -> None:
    write_week(tmp_path)
    clock = StoppedClock(WEEK.to_ms + WEEK_SETTLED_MS)
    writer = writer_of(tmp_path, clock)
    writer.look(None)
    clock.ms += JOURNAL_MS - 1
    writer.look(None)
    assert pages(tmp_path) == []
    clock.ms += 1
    writer.look(None)
    assert "made without it" in (tmp_path / "reports" / PAGE).read_text("utf-8")


def test_a_failure_is_logged_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_week(tmp_path)
    manifest = tmp_path / "results" / "manifest.json"
    manifest.write_text("{")
    clock = StoppedClock(WEEK.to_ms + WEEK_SETTLED_MS)
    writer = writer_of(tmp_path, clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            writer.look(facts())
            clock.ms += PAUSE_MOST_MS
    assert len(caplog.records) == 1
    assert "is not written yet" in caplog.text
    manifest.unlink()
    writer.look(facts())
    assert pages(tmp_path) == [PAGE]


def test_a_page_that_failed_is_tried_after_pauses_that_grow(tmp_path: Path) -> None:
    write_week(tmp_path)
    manifest = tmp_path / "results" / "manifest.json"
    manifest.write_text("{")
    clock = StoppedClock(WEEK.to_ms + WEEK_SETTLED_MS)
    writer = writer_of(tmp_path, clock)
    for seconds in (0, 10, 20):
        clock.ms += seconds * 1000
        writer.look(facts())
    manifest.unlink()
    clock.ms += 39_999
    writer.look(facts())
    assert pages(tmp_path) == []
    clock.ms += 1
    writer.look(facts())
    assert pages(tmp_path) == [PAGE]


def test_a_folder_that_is_gone_is_a_failure_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_week(tmp_path)
    clock = StoppedClock(WEEK.to_ms + WEEK_SETTLED_MS)
    writer = writer_of(tmp_path, clock)
    shutil.rmtree(tmp_path / "reports")
    for _ in range(2):
        writer.look(facts())
        clock.ms += PAUSE_MOST_MS
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1
    (tmp_path / "reports").mkdir()
    writer.look(facts())
    assert pages(tmp_path) == [PAGE]


def test_a_backend_that_ends_writes_nothing_more(tmp_path: Path) -> None:
    write_week(tmp_path)
    writer = writer_of(tmp_path, StoppedClock(WEEK.to_ms + WEEK_SETTLED_MS))
    writer.stopping.set()
    writer.look(facts())
    assert pages(tmp_path) == []


# Operations


def ended(id: str = OPERATION, ended_ms: int = END_MS) -> Operation:
    one = operation(id, OperationState.DONE, 0, 1)
    return replace(one, started_ms=START_MS - 5_000, ended_ms=ended_ms)


def recorded(folder: Path, samples: Sequence[Row]) -> Path:
    """A recording with its results."""
    write(folder, samples)
    for table, rows in of_tables(samples, 420).items():
        write_results(folder / "results", table, rows)
    return folder


def test_an_operation_that_ended_is_reported_when_results_are_past_its_end(tmp_path: Path) -> None:
    recorded(tmp_path, moved())
    clock = StoppedClock(END_MS)
    writer = writer_of(tmp_path, clock)
    writer.look(facts([ended()]))
    clock.ms = END_MS + AFTER_END_MS - 1
    writer.look(facts([ended()]))
    assert pages(tmp_path) == []
    clock.ms = END_MS + AFTER_END_MS
    writer.look(facts([ended()]))
    assert pages(tmp_path) == [OF_OPERATION]
    text = (tmp_path / "reports" / OF_OPERATION).read_text("utf-8")
    assert "all 4 copies are in the ISR" in text


def test_an_operation_waits_for_results_of_its_end(tmp_path: Path) -> None:
    recorded(tmp_path, [row for row in moved() if row["at"] <= time_of(END_MS + 10_000)])
    clock = StoppedClock(END_MS + OPERATION_SETTLED_MS - 1)
    writer = writer_of(tmp_path, clock)
    writer.look(facts([ended()]))
    assert pages(tmp_path) == []
    clock.ms += PAUSE_MOST_MS
    writer.look(facts([ended()]))
    assert pages(tmp_path) == [OF_OPERATION]


def test_an_operation_without_results_is_waited_for_and_then_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, moved())
    clock = StoppedClock(END_MS + PATIENCE_MS - 1)
    writer = writer_of(tmp_path, clock)
    writer.look(facts([ended()]))
    assert not caplog.records
    for _ in range(2):
        clock.ms += PAUSE_MOST_MS
        writer.look(facts([ended()]))
    assert len(caplog.records) == 1
    assert f"There is no report of operation {OPERATION}" in caplog.text
    assert pages(tmp_path) == []


@pytest.mark.parametrize(
    "one",
    [
        ended("copied-nothing"),
        ended("../../escape"),
        ended(ended_ms=END_MS - LOOKED_BACK_MS),
        replace(ended(), ended_ms=None, state=OperationState.RUNNING),
    ],
    ids=["copied nothing", "hostile id", "long ago", "runs"],
)
def test_other_operations_get_no_page(
    tmp_path: Path, one: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    recorded(tmp_path, moved())
    clock = StoppedClock(END_MS + OPERATION_SETTLED_MS)
    writer_of(tmp_path, clock).look(facts([one]))
    assert pages(tmp_path) == []
    assert not caplog.records


# The folder


def test_a_folder_is_made(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="Reports cannot be written to"):
        check_folder(tmp_path / "file")
