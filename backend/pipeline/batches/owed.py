"""Hours of a recording that batches did not see in time, and that a backfill has to make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kshunt.backend.delivered_files.result_files import read_manifest
from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.pipeline.batches.arrivals import unseen_hours
from kshunt.backend.pipeline.batches.batch_work import is_backfilled
from kshunt.backend.pipeline.results.maintenance import KeptDays, kept_from_ms
from kshunt.backend.pipeline.results.stream_state import Meta, newest
from kshunt.backend.telemetry.recording.layout import SampleTable, counted


@dataclass(frozen=True, slots=True)
class HoursToMake:
    """By when they begin, milliseconds since the epoch, in order."""

    earlier: tuple[int, ...] = ()
    """They were recorded before the first batch."""
    missed: tuple[int, ...] = ()
    """Batches saw none or not all of their samples."""


def hours_to_make(samples: Path, results: Path, kept: KeptDays, now_ms: int) -> HoursToMake:
    """Those of a recording, without what would be too old to stay.

    Raises:
        StreamState: what is remembered cannot be understood.
    """
    meta = newest(results)
    unseen = unseen_hours(samples, results, meta or Meta())
    if meta is None or meta.closed_ms is None:
        return HoursToMake(earlier=unseen)
    manifest = read_manifest(results)
    owed = {int(h) for h, since in meta.owed.items() if not is_backfilled(manifest, int(h), since)}
    ended = {h for h in owed if h + HOUR_MS <= (meta.final_ms or 0)}
    recorded = counted(samples, SampleTable.REPLICAS) if ended or unseen else {}
    from_ms = kept_from_ms(results, RATES, kept, now_ms)
    young = {hour for hour in recorded if hour + HOUR_MS > from_ms}
    return HoursToMake(missed=tuple(sorted({*unseen, *ended} & young)))
