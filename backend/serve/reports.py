"""Reports that a backend writes by itself: of each week, and of each operation that ended.

Goals
    Each page is written once, whole, and also after a backend was down when it was due.
Constraints
    The event loop only looks; reading is left to a thread. What fails is logged once, tried again,
    and ends nothing.
Algorithm
    A page is due when its results are settled, and its file does not exist. So files are the only
    memory: a backend that starts later writes what is still due, and replaces nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.clock import Clock
from kshunt.backend.domain.audit.lines import AuditRow, selected
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.errors import ConfigError, KshuntError
from kshunt.backend.files import make_folder, replace_file
from kshunt.backend.operations.audit.lines import read_audit
from kshunt.backend.pipeline.reports.document import Document
from kshunt.backend.pipeline.reports.formats import drawn
from kshunt.backend.pipeline.reports.operation_results import NoOperation, NoResults
from kshunt.backend.pipeline.reports.operation_results import read as read_operation
from kshunt.backend.pipeline.reports.report_document import report
from kshunt.backend.pipeline.reports.week_document import week_report
from kshunt.backend.pipeline.reports.week_results import Stopped, WeekJournal, read_week

if TYPE_CHECKING:
    from kshunt.backend.api.core.backend import Backend

log = logging.getLogger(__name__)

LOOK_S: Final = 10.0
WEEK_SETTLED_MS: Final = 600_000
"""For this time after a week its last hour may still change: see the stream's settled hours."""
AFTER_END_MS: Final = 20_000
"""The report of an operation has its samples up to this long after its end."""
OPERATION_SETTLED_MS: Final = 180_000
"""For this time after the end of an operation its report waits for results of those samples."""
PATIENCE_MS: Final = HOUR_MS
"""Results of an operation may be this late."""
LOOKED_BACK_MS: Final = DAY_MS
"""A backend that starts writes reports of operations that ended within this time."""
PAUSE_MOST_MS: Final = 600_000
"""Before a page is tried again the pause doubles, from `LOOK_S` up to this: reading takes long."""
JOURNAL_MS: Final = 300_000
"""A backend waits this long from its start for the journal; then it reports a week without."""
SUFFIX: Final = ".html"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """What the journal says now."""

    operations: Sequence[Operation]
    """Newest first."""
    audit: Callable[[], Sequence[AuditRow]]
    """All of it; that takes a while."""


def check_folder(folder: Path) -> None:
    """Make the folder of reports, and see whether a file can be written there.

    Raises:
        ConfigError: it cannot.
    """
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"Reports cannot be written to {folder}: {error.strerror}. Nothing was started.",
            advice="Name another folder by --reports, or allow this user to write there.",
        ) from None


@dataclass(eq=False)
class ReportWriter:
    """Writes what is due; every method but `stopping` is used by one thread at a time."""

    folder: Path
    samples: Path
    results: Path
    clock: Clock
    stopping: threading.Event = field(default_factory=threading.Event)
    _began_ms: int = field(init=False)
    _settled: set[str] = field(default_factory=set)
    """Names of pages that are there, or never will be."""
    _said: dict[str, str] = field(default_factory=dict)
    """What was logged last about a page that failed."""
    _paused: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of a page that could not be written: when it is tried again, and after which pause."""

    def __post_init__(self) -> None:
        self._began_ms = self.clock.now_ms()

    def look(self, journal: JournalFacts | None) -> None:
        """Write each page that is due; None: the journal is not read yet."""
        now_ms = self.clock.now_ms()
        waits = journal is None and now_ms < self._began_ms + JOURNAL_MS
        week = Week.at(now_ms - WEEK_SETTLED_MS).before
        if not waits:
            self._write(f"week-{week}", partial(self._week, week, journal, now_ms))
        for operation in () if journal is None else self._ended(journal.operations, now_ms):
            self._write(f"operation-{operation.id}", partial(self._operation, operation, now_ms))

    def _ended(self, operations: Sequence[Operation], now_ms: int) -> list[Operation]:
        return [
            one
            for one in operations
            if one.ended_ms is not None
            and now_ms - LOOKED_BACK_MS <= one.ended_ms <= now_ms - AFTER_END_MS
            and _ID.fullmatch(one.id)
        ]

    def _write(self, name: str, made: Callable[[], Document | None]) -> None:
        path = self.folder / f"{name}{SUFFIX}"
        if name in self._settled or self.stopping.is_set() or not self._is_its_turn(name):
            return
        try:
            if not path.exists():
                document = made()
                if document is not None:
                    replace_file(path, drawn(document, SUFFIX).encode())
                    log.info("Report written: %s", path)
            self._settled.add(name)
            self._paused.pop(name, None)
        except (Stopped, _NotYet):
            return
        except (KshuntError, OSError) as error:
            self._failed(name, str(error))
        # An edge: whatever is wrong with a report, the backend continues.
        except Exception as error:
            if name not in self._said:
                log.exception("The report %s failed", path)
            self._said[name] = str(error)

    def _is_its_turn(self, name: str) -> bool:
        """Whether a page may be tried now; if so, notes when it may be tried again."""
        now_ms = self.clock.now_ms()
        at_ms, pause_ms = self._paused.get(name, (now_ms, 0))
        if now_ms < at_ms:
            return False
        pause_ms = min(2 * pause_ms or round(LOOK_S * 1000), PAUSE_MOST_MS)
        self._paused[name] = now_ms + pause_ms, pause_ms
        return True

    def _failed(self, name: str, why: str) -> None:
        if self._said.get(name) != why:
            log.warning("The report %s is not written yet: %s", name, why)
        self._said[name] = why

    def _week(self, week: Week, journal: JournalFacts | None, now_ms: int) -> Document | None:
        """None where nothing is known of the week."""
        told = None
        if journal is not None:
            audit = selected(journal.audit(), since_ms=week.from_ms, until_ms=week.to_ms)
            told = WeekJournal.of(week, journal.operations, audit)
        material = read_week(week, self.samples, self.results, told, self.stopping.is_set)
        return None if material.is_empty else week_report(material, now_ms)

    def _operation(self, operation: Operation, now_ms: int) -> Document | None:
        """None where it copied nothing.

        Raises:
            _NotYet: its results are late.
        """
        ended_ms, since_ms = operation.ended_ms or now_ms, operation.started_ms - HOUR_MS
        try:
            material = read_operation(operation.id, self.samples, self.results, since_ms)
        except NoOperation:
            # Samples of its last moments are not written yet.
            if now_ms < ended_ms + OPERATION_SETTLED_MS:
                raise _NotYet from None
            return None
        except NoResults as error:
            if now_ms < ended_ms + PATIENCE_MS:
                raise _NotYet from None
            log.warning("There is no report of operation %s: %s", operation.id, error)
            return None
        newest_ms = material.results_newest_ms or 0
        if newest_ms < ended_ms + AFTER_END_MS and now_ms < ended_ms + OPERATION_SETTLED_MS:
            raise _NotYet
        return report(material, now_ms)


class _NotYet(Exception):
    """The page cannot be written now, and nothing is wrong."""


@contextlib.asynccontextmanager
async def writing_reports(backend: Backend, writer: ReportWriter) -> AsyncIterator[None]:
    """Write what is due until the block ends."""
    with ThreadPoolExecutor(1, "reports") as thread:
        task = asyncio.create_task(_run(backend, writer, thread), name="reports")
        try:
            yield
        finally:
            writer.stopping.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _run(backend: Backend, writer: ReportWriter, thread: ThreadPoolExecutor) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await loop.run_in_executor(thread, writer.look, journal_of(backend))
        await backend.clock.wait_s(LOOK_S)


def journal_of(backend: Backend) -> JournalFacts | None:
    """What a backend knows of its cluster's journal; None where it has not read it."""
    state = backend.membership.state
    if not state.entries:
        return None
    return JournalFacts(tuple(backend.registry), lambda: read_audit(state))
