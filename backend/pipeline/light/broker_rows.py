"""The recorded samples of brokers that `broker_load` is made of, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kshunt.backend.domain.pipeline.result_columns import GROWTH_S
from kshunt.backend.domain.pipeline.sample_columns import BROKER_SAMPLES
from kshunt.backend.pipeline.kernels.arrow_columns import arrow_of
from kshunt.backend.pipeline.kernels.replica_runs import ints, millis
from kshunt.backend.pipeline.light.grouped import Groups, numbers
from kshunt.backend.pipeline.samples.broker_expectations import (
    BROKER_KEYS,
    KNOWN_BEFORE,
    NOT_NEGATIVE,
)
from kshunt.backend.pipeline.samples.expectations import TimeBounds
from kshunt.backend.pipeline.samples.file_sieve import FileSieve, Sifted
from kshunt.backend.telemetry.recording.layout import SampleTable, counted, within

POINT_MS: Final = 300_000
"""Of so much time growth takes one sample."""
_SCHEMA: Final = pa.schema(arrow_of(BROKER_SAMPLES))


@dataclass(frozen=True, slots=True)
class BrokerRows:
    """Samples of a time, and the files that they are in."""

    rows: Any
    """An Arrow table of those that break no expectation."""
    files: Sifted
    """Of the time itself, without what was read before it."""


@dataclass(slots=True)
class BrokerHistory:
    """Samples of brokers, of which former hours are read once: they do not change any more."""

    _points: dict[int, tuple[tuple[Path, ...], Any]] = field(default_factory=dict)
    """By hour: its files, and the rows that growth is made of."""

    def rows(self, sieve: FileSieve, start_ms: int, end_ms: int) -> BrokerRows:
        """What `broker_load` of [start_ms, end_ms), whole hours, is made of.

        Of so much before it as growth looks back, there are the rows that growth needs.
        """
        before_ms = start_ms - GROWTH_S * 1000
        hours = within(counted(sieve.folder, SampleTable.BROKERS), before_ms, end_ms)
        files = sieve.sifted(SampleTable.BROKERS, within(hours, start_ms, end_ms))
        bounds = TimeBounds.of(before_ms, end_ms)
        tables = [_SCHEMA.empty_table()]
        for hour, paths in hours.items() if files.good else ():
            if hour >= start_ms:
                tables.append(good_rows(_read(files.good.get(hour, ())), bounds))
                self._points[hour] = paths, growth_points(tables[-1])
                continue
            if self._points.get(hour, ((), None))[0] != paths:
                found = _read(sieve.sifted(SampleTable.BROKERS, {hour: paths}).paths)
                self._points[hour] = paths, growth_points(good_rows(found, bounds))
            tables.append(self._points[hour][1])
        self._points = {hour: known for hour, known in self._points.items() if hour >= before_ms}
        return BrokerRows(pa.concat_tables(tables), files)


def growth_points(rows: Any) -> Any:
    """Of each broker the last sample of each five minutes whose disks are known."""
    known = pc.and_(pc.is_valid(rows["disk_total_bytes"]), pc.is_valid(rows["disk_usable_bytes"]))
    rows = rows.filter(known)
    at = millis(rows["at"])
    points = Groups.by(ints(rows["broker"]), at // POINT_MS)
    last = points.last_row(at.astype(np.float64), np.ones(len(at), np.bool_))
    return rows.take(pa.array(last))


def _read(paths: Sequence[Path]) -> Any:
    tables = [_SCHEMA.empty_table()]
    for path in paths:
        with pq.ParquetFile(path) as file:
            names = [name for name in _SCHEMA.names if name in file.schema_arrow.names]
            rows = file.read(names, use_threads=False)
        columns = [
            rows[field.name].cast(field.type)
            if field.name in names
            else pa.nulls(len(rows), field.type)
            for field in _SCHEMA
        ]
        tables.append(pa.table(columns, schema=_SCHEMA))
    return pa.concat_tables(tables)


def good_rows(rows: Any, bounds: TimeBounds) -> Any:
    """Those that break no expectation; of rows with one key the one that knows most."""
    at = millis(rows["at"])
    fits = (at >= bounds.earliest_ms) & (at <= bounds.latest_ms)
    for name in BROKER_KEYS:
        fits &= pc.is_valid(rows[name]).to_numpy()
    for name in NOT_NEGATIVE:
        fits &= ~(numbers(rows[name]) < 0)
    rows = rows.filter(pa.array(fits))
    keys = [("broker", "ascending"), ("at", "ascending")]
    # What is not known comes last.
    most_first: Any = [*keys, *((name, "descending") for name in KNOWN_BEFORE)]
    rows = rows.take(pc.sort_indices(rows, most_first))
    first = np.ones(len(rows), np.bool_)
    broker, at = ints(rows["broker"]), millis(rows["at"])
    first[1:] = (broker[1:] != broker[:-1]) | (at[1:] != at[:-1])
    return rows.filter(pa.array(first))
