"""One batch of new samples, worked in this thread; see `light_job` beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
from kshunt.backend.pipeline.light.broker_loads import broker_load
from kshunt.backend.pipeline.light.broker_rows import broker_rows
from kshunt.backend.pipeline.light.light_tables import Rates, eta, move_pairs
from kshunt.backend.pipeline.light.throttle_effects import throttle_effect

_RATES: Final = pa.schema(arrow_of(RATES.columns))


def _pairs(piece: Piece[Rates]) -> Any:
    return move_pairs(piece.rates)


def _forecasts(piece: Piece[Rates]) -> Any:
    return eta(piece.rates)


def _effects(piece: Piece[Rates]) -> Any:
    return throttle_effect(piece.rates, piece.start_ms)


def _loads(piece: Piece[Rates]) -> Any:
    assert piece.sieve is not None
    found = broker_rows(piece.sieve, piece.start_ms, piece.end_ms)
    piece.files.append(found.files)
    return broker_load(found.rows, piece.rates, piece.start_ms)


DERIVED: Final = (
    DerivedTable(MOVE_PAIRS, _pairs, PAIR_S),
    DerivedTable(THROTTLE_EFFECT, _effects, EFFECT_S, BEFORE_S),
    DerivedTable(BROKER_LOAD, _loads, HOUR_MS // 1000),
    DerivedTable(ETA, _forecasts),
)
"""What is made beside rates and stalls."""


@dataclass(slots=True)
class LightBatch(BatchWork[list[RowGroups], Rates]):
    """One batch at work; its samples are parts of files."""

    @property
    def derived(self) -> Sequence[DerivedTable[Rates]]:
        """See `BatchWork.derived`."""
        return DERIVED

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
        files = [file for path in paths for file in sorted(path.glob("[!._]*.parquet"))]

        def rates(names: Sequence[str]) -> Any:
            schema = pa.schema([_RATES.field(name) for name in names])
            return _of_time(files, schema, since_ms, until_ms)

        return rates


def _of_time(files: Sequence[Path], schema: Any, since_ms: int, until_ms: int) -> Any:
    """The rows of some files of [since_ms, until_ms), in these columns; `at` is one of them."""
    tables = [schema.empty_table()]
    for path in files:
        with pq.ParquetFile(path) as file:
            tables.append(file.read(schema.names, use_threads=False).select(schema.names))
    rows = pa.concat_tables([t if t.schema.equals(schema) else t.cast(schema) for t in tables])
    since, until = (
        pa.scalar(at * 1000, pa.int64()).cast(schema.field("at").type)
        for at in (since_ms, until_ms)
    )
    return rows.filter(pc.and_(pc.greater_equal(rows["at"], since), pc.less(rows["at"], until)))
