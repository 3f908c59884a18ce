"""One batch of new samples, worked in this thread; see `light_job` next to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kshunt.backend.arrow_rows import with_columns
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    EFFECT_S,
    ETA,
    MOVE_PAIRS,
    PAIR_S,
    RATES,
    THROTTLE_EFFECT,
)
from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from kshunt.backend.pipeline.batches.arrivals import BUCKETS
from kshunt.backend.pipeline.batches.batch_work import (
    BatchWork,
    DerivedTable,
    Piece,
    WorkerFindings,
)
from kshunt.backend.pipeline.kernels import stream_step
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA, arrow_of
from kshunt.backend.pipeline.kernels.packed_rows import RowGroups, conform, rows_of
from kshunt.backend.pipeline.kernels.throttle_advice import BEFORE_S
from kshunt.backend.pipeline.kernels.ticks import COLUMNS
from kshunt.backend.pipeline.light.broker_loads import COLUMNS as LOAD_COLUMNS
from kshunt.backend.pipeline.light.broker_loads import broker_load
from kshunt.backend.pipeline.light.broker_rows import BrokerHistory
from kshunt.backend.pipeline.light.followers import COLUMNS as FOLLOWER_COLUMNS
from kshunt.backend.pipeline.light.light_tables import PAIR_COLUMNS, Rates, eta, move_pairs
from kshunt.backend.pipeline.light.throttle_effects import throttle_effect

_NEEDED: Final = {*COLUMNS, *PAIR_COLUMNS, *FOLLOWER_COLUMNS, *LOAD_COLUMNS}
_USED: Final = pa.schema(arrow_of([one for one in RATES.columns if one.name in _NEEDED]))


def _pairs(piece: Piece[Rates]) -> Any:
    return move_pairs(piece.rates)


def _forecasts(piece: Piece[Rates]) -> Any:
    return eta(piece.rates)


def _effects(piece: Piece[Rates]) -> Any:
    return throttle_effect(piece.rates, piece.start_ms)


DERIVED: Final = (
    DerivedTable(MOVE_PAIRS, _pairs, PAIR_S),
    DerivedTable(THROTTLE_EFFECT, _effects, EFFECT_S, BEFORE_S),
    DerivedTable(ETA, _forecasts),
)
"""What is made in addition to rates, stalls and the load of brokers."""


@dataclass(slots=True)
class RatesFiles:
    """Files of rates, of which each is asked only once for its times: none is written anew."""

    _spans: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """The times of the first and the last rate, in milliseconds."""

    def of_time(self, folders: Sequence[Path], since_ms: int, until_ms: int) -> list[Path]:
        """The files of some folders that may have rates of [since_ms, until_ms)."""
        files = [file for path in folders for file in sorted(path.glob("[!._]*.parquet"))]
        if len(files) < 2:
            # The one that a batch has just written.
            return files
        spans = self._spans = {file: self._spans.get(file) or _span(file) for file in files}
        return [
            file for file, (first, last) in spans.items() if last >= since_ms and first < until_ms
        ]


def _span(path: Path) -> tuple[int, int]:
    about = pq.read_metadata(path)
    place = about.schema.to_arrow_schema().get_field_index("at")
    found = [about.row_group(n).column(place).statistics for n in range(about.num_row_groups)]
    known = [one for one in found if one is not None and one.has_min_max]
    if len(known) < len(found):
        return 0, sys.maxsize
    times = [round(at.timestamp() * 1000) for one in known for at in (one.min, one.max)]
    return min(times, default=0), max(times, default=0)


@dataclass(slots=True)
class Memory:
    """What need not be read again from batch to batch."""

    brokers: BrokerHistory = field(default_factory=BrokerHistory)
    rates: RatesFiles = field(default_factory=RatesFiles)


@dataclass(slots=True)
class LightBatch(BatchWork[list[RowGroups], Rates]):
    """One batch at work; its samples are parts of files."""

    memory: Memory = field(kw_only=True)
    files_read: dict[Path, Any] = field(init=False, default_factory=dict)
    """Files of rates, in the columns that tables are made of."""

    @property
    def derived(self) -> Sequence[DerivedTable[Rates]]:
        """See `BatchWork.derived`."""
        return *DERIVED, DerivedTable(BROKER_LOAD, self._loads, HOUR_MS // 1000)

    def _loads(self, piece: Piece[Rates]) -> Any:
        assert piece.sieve is not None
        found = self.memory.brokers.rows(piece.sieve, piece.start_ms, piece.end_ms)
        piece.files.append(found.files)
        return broker_load(found.rows, piece.rates, piece.start_ms)

    @property
    def _is_whole(self) -> bool:
        # Files are what a small batch costs most.
        return True

    def _worked(self, step: stream_step.WorkerBatch) -> WorkerFindings:
        parts = self.arrived.samples
        read = (rows for part in parts for rows in rows_of(part, SAMPLES_SCHEMA))
        new = [stream_step.no_rows(SAMPLES_SCHEMA), *(conform(r, SAMPLES_SCHEMA) for r in read)]
        found = stream_step.work_rows(list(range(BUCKETS)), new, step)
        return WorkerFindings.of(pa.Table.from_batches(found, stream_step.FOUND))

    def _read(self, paths: Sequence[Path], since_ms: int, until_ms: int) -> Rates:
        files = self.memory.rates.of_time(paths, since_ms, until_ms)

        def rates(names: Sequence[str]) -> Any:
            tables = [_USED.empty_table(), *map(self._file, files)]
            rows = pa.concat_tables(tables).select(list(names))
            since, until = (
                pa.scalar(at * 1000, pa.int64()).cast(_USED.field("at").type)
                for at in (since_ms, until_ms)
            )
            at = rows["at"]
            return rows.filter(pc.and_(pc.greater_equal(at, since), pc.less(at, until)))

        return rates

    def _file(self, path: Path) -> Any:
        """The rates of a file; each table that is made of them reads it from here."""
        if path not in self.files_read:
            with pq.ParquetFile(path) as file:
                rows = file.read(_USED.names, use_threads=False)
            # Former versions of kshunt wrote fewer columns.
            self.files_read[path] = with_columns(rows, _USED)
        return self.files_read[path]
