"""How the data pipeline stands, in words for an operator: pure decisions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.pipeline.delivered import (
    ABSENT,
    STALE_MS,
    STREAM,
    FileAsideRow,
    PipelineProcess,
    PipelineState,
    PipelineStatus,
    Rows,
    SampleGap,
    SamplesStatus,
    TableStatus,
)
from kshunt.backend.domain.pipeline.result_columns import ETA, RATES, RESULTS
from kshunt.backend.domain.replicas.snapshot import UNKNOWN

if TYPE_CHECKING:
    from kshunt.backend.telemetry.recording.recorder import RecorderStatus

FILES_NAMED: Final = 3
"""This many of the files that were set aside are named."""
FOLLOWING: Final = (RATES.name, ETA.name)
"""Tables that follow each sample; the others have what is over."""


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """What there is to judge by."""

    folder: Path | None
    """Of the results; None where none was named."""
    samples_folder: Path | None
    """None where no samples are recorded to a folder."""
    samples: SamplesStatus | None
    process: PipelineProcess | None
    now_ms: int
    tables: Sequence[TableStatus] = ()
    files: Rows[FileAsideRow] | None = None
    """Files of samples that were set aside in a day, the last found first; None: not known."""
    unreadable: str = ""
    """Why the results cannot be read; empty where they can."""


def samples_of(status: RecorderStatus) -> SamplesStatus:
    """What a recorder says of itself."""
    return SamplesStatus(
        None if status.written_ms == UNKNOWN else status.written_ms,
        status.problem,
        status.rows_dropped + status.rows_lost,
        status.moments_skipped,
        tuple(SampleGap(gap.from_ms, gap.to_ms, gap.text) for gap in status.gaps),
    )


def status_of(seen: PipelineFacts) -> PipelineStatus:
    """Whether there are results, how old they are, and what to do about it."""
    if seen.folder is None and seen.samples is not None:
        reason = "Samples go to a topic, and the folder of results is not configured."
        return _status(seen, PipelineState.ABSENT, reason, "kshunt serve --results DIR")
    if seen.folder is None:
        return _status(seen, PipelineState.ABSENT, ABSENT.reason, ABSENT.command)
    if seen.unreadable:
        return _status(seen, PipelineState.FAILED, seen.unreadable)
    if seen.process is not None and not seen.process.running:
        error = seen.process.last_error or "It is being started."
        return _status(seen, PipelineState.RESTARTING, error)
    if _newest_ms(seen) is None:
        return _nothing(seen)
    if seen.process is None and seen.tables and not _streams(seen):
        reason = "A backfill made them, and no process keeps them up to date."
        return _status(seen, PipelineState.UNATTENDED, reason, _run(seen))
    behind_s = _behind_s(seen)
    if behind_s is not None and behind_s * 1000 > STALE_MS:
        if seen.process is not None and seen.now_ms - seen.process.since_ms < STALE_MS:
            return _status(seen, PipelineState.RUNNING, "It has begun, and catches up.")
        reason = "Results do not follow the samples."
        command = "" if seen.process is not None else _run(seen)
        return _status(seen, PipelineState.LATE, reason, command)
    return _status(seen, PipelineState.RUNNING)


def _nothing(seen: PipelineFacts) -> PipelineStatus:
    if seen.process is not None:
        return _status(seen, PipelineState.RUNNING, "It has begun, but has delivered nothing yet.")
    if seen.samples is not None:
        reason = "Samples are recorded, but no process makes results of them."
        return _status(seen, PipelineState.ABSENT, reason, _run(seen))
    reason = f"There are no results in {seen.folder}."
    return _status(seen, PipelineState.ABSENT, reason, _run(seen))


def _status(
    seen: PipelineFacts, state: PipelineState, reason: str = "", command: str = ""
) -> PipelineStatus:
    return PipelineStatus(
        state,
        reason,
        command,
        "" if seen.folder is None else str(seen.folder),
        _newest_ms(seen),
        _behind_s(seen),
        seen.process,
        seen.samples,
        tuple(seen.tables),
        0 if seen.files is None else len(seen.files.rows) + seen.files.more,
        () if seen.files is None else seen.files.rows[:FILES_NAMED],
    )


def _newest_ms(seen: PipelineFacts) -> int | None:
    found = [table.newest_ms for table in seen.tables if table.table in FOLLOWING]
    return max((at for at in found if at is not None), default=None)


def _behind_s(seen: PipelineFacts) -> float | None:
    """By how much results are older than samples; than the clock, where nobody says of samples."""
    newest = _newest_ms(seen)
    if newest is None:
        return None
    sample_ms = seen.now_ms if seen.samples is None else seen.samples.written_ms
    return None if sample_ms is None else max(sample_ms - newest, 0) / 1000


def _streams(seen: PipelineFacts) -> bool:
    """The newest of what follows samples was made by a stream."""
    following = [one for one in seen.tables if one.table in FOLLOWING and one.newest_ms is not None]
    newest = max(following, key=lambda one: one.newest_ms or 0, default=None)
    return newest is not None and newest.source == STREAM


def _run(seen: PipelineFacts) -> str:
    """The command that makes results of the samples, and continues to do so."""
    samples, folder = seen.samples_folder, seen.folder
    if samples is None and folder is not None and folder.name == RESULTS:
        samples = folder.parent
    words = ["kshunt", "pipeline", "run", "--samples", "DIR" if samples is None else str(samples)]
    if folder is not None and (samples is None or folder != samples / RESULTS):
        words += ["--results", str(folder)]
    return shlex.join(words)
