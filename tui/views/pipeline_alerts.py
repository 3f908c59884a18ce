"""What needs attention about recorded samples and the data pipeline."""

from __future__ import annotations

from typing import Final

from kshunt.backend.domain.pipeline.delivered import (
    PipelineProcess,
    PipelineState,
    PipelineStatus,
    RunsAs,
    SamplesStatus,
)
from kshunt.backend.domain.pipeline.file_faults import fault_text
from kshunt.backend.domain.text.formatting import many
from kshunt.tui.actions.view_names import HISTORY
from kshunt.tui.facts.forecast import age_text
from kshunt.tui.tables.targets import Item, ScreenTarget
from kshunt.tui.text.fitting import printable

UNWRITTEN_MS: Final = 120_000
"""A recorder that has written nothing for longer than this has stopped."""
MISSED_MS: Final = 3_600_000
"""The dashboard points out a gap in the samples for this long after its end."""

_HISTORY: Final = ScreenTarget(HISTORY)


def pipeline_alerts(pipeline_status: PipelineStatus, now_ms: int) -> list[Item]:
    """One sentence each: samples that are not recorded or lack, results that grow old."""
    found = [] if pipeline_status.samples is None else _samples(pipeline_status.samples, now_ms)
    found += _files(pipeline_status)
    reason = printable(pipeline_status.reason)
    behind = "" if pipeline_status.behind_s is None else age_text(pipeline_status.behind_s * 1000)
    match pipeline_status.state:
        case PipelineState.LATE:
            run = f": {pipeline_status.command}" if pipeline_status.command else ""
            found.append(_item(f"Results of the pipeline are {behind} behind{run}.", "late"))
        case PipelineState.RESTARTING:
            found.append(_item(f"{_fails(pipeline_status.process)}: {reason}", "late"))
        case PipelineState.FAILED:
            found.append(_item(f"Results of the pipeline cannot be read: {reason}", "late"))
        case _:
            pass
    return found


def _fails(process: PipelineProcess | None) -> str:
    """What has failed, and how often it did so before."""
    count = process.restarts if process is not None else 0
    if process is not None and process.runs_as is RunsAs.THREAD:
        before = f" (it failed {many(count, 'time')} before)" if count else ""
        return f"The backend makes no results of the samples and tries again{before}"
    times = f" ({many(count, 'time')} so far)" if count else ""
    return f"The pipeline ended and is starting again{times}"


def _files(pipeline_status: PipelineStatus) -> list[Item]:
    """What no result has rows of, until a day has passed or a backfill finds it repaired."""
    if not pipeline_status.aside:
        return []
    last = pipeline_status.aside[0]
    count = many(pipeline_status.files_aside, "file")
    # A path is long: what is wrong comes before it.
    about = f"{printable(fault_text(last.fault))} ({printable(last.file)})"
    return [
        _item(f"The pipeline set aside {count} of samples, the last one because {about}.", "files")
    ]


def _samples(samples: SamplesStatus, now_ms: int) -> list[Item]:
    if samples.problem:
        return [_item(f"Samples are not recorded: {printable(samples.problem)}", "samples", "bad")]
    found = []
    if samples.written_ms is not None and now_ms - samples.written_ms > UNWRITTEN_MS:
        age = age_text(now_ms - samples.written_ms)
        found.append(_item(f"No sample was recorded for {age}.", "samples"))
    lately = [one for one in samples.missed if now_ms - one.to_ms < MISSED_MS]
    if lately:
        more = f" (and {len(lately) - 1} more gaps)" if len(lately) > 2 else ""
        more = " (and 1 more gap)" if len(lately) == 2 else more
        found.append(_item(f"Samples lack: {printable(lately[-1].text)}{more}", "gaps"))
    return found


def _item(text: str, id: str, tone: str = "warn") -> Item:
    return Item(text, tone, _HISTORY, f"pipeline {id}")
