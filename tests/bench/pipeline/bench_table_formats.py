"""What a batch costs that adds a file to each table of results: kshunt's layout, Delta, Iceberg.

The files are the same; only the commit differs. `deltalake` and `pyiceberg[sql-sqlite]` are no
dependencies of kshunt: without them their lines are left out.
`KSHUNT_FORMAT_BATCHES` says how many batches.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshunt.backend.pipeline.results.stream_state import Meta, StreamBatch

pytestmark = pytest.mark.bench

BATCHES: Final = int(os.environ.get("KSHUNT_FORMAT_BATCHES", "120"))
TABLES: Final = tuple(f"table{number}" for number in range(8))
ROWS: Final = 50
HOUR: Final = "date=2026-11-22/hour=03"
Commit = Callable[[int], None]


def rows_of(batch: int) -> Any:
    rng = np.random.default_rng(batch)
    return pa.table(
        {
            "at": pa.array(np.full(ROWS, batch * 5_000_000), pa.timestamp("us", "UTC")),
            "topic": [f"orders-{number}" for number in range(ROWS)],
            "partition": pa.array(rng.integers(0, 50, ROWS), pa.int32()),
            "rate": rng.random(ROWS),
        }
    )


def layout(folder: Path) -> Commit:
    """As the streaming job does it: parts are renamed into place, at last the state."""
    former = Meta()

    def commit(number: int) -> None:
        batch = StreamBatch.begun(folder, number)
        for table in TABLES:
            place = batch.table(table) / HOUR
            place.mkdir(parents=True)
            pq.write_table(rows_of(number), place / "part-0.parquet", compression="zstd")
        batch.state.mkdir()
        batch.publish(Meta(number), former)

    return commit


def delta(folder: Path) -> Commit:
    """A transaction a table, that counts once: `txnAppId` and `txnVersion`."""
    deltalake = pytest.importorskip("deltalake")
    actions = pytest.importorskip("deltalake.transaction")
    schema = rows_of(0).schema.append(pa.field("date", pa.string()))
    tables = {
        name: deltalake.DeltaTable.create(str(folder / name), schema, partition_by=["date"])
        for name in TABLES
    }

    def commit(number: int) -> None:
        for name, table in tables.items():
            path = folder / name / "date=2026-11-22" / f"batch-{number}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(rows_of(number), path, compression="zstd")
            added = actions.AddAction(
                path=f"date=2026-11-22/{path.name}",
                size=path.stat().st_size,
                partition_values={"date": "2026-11-22"},
                modification_time=0,
                data_change=True,
                stats=json.dumps({"numRecords": ROWS}),
            )
            once = deltalake.CommitProperties(
                app_transactions=[deltalake.Transaction("kshunt", number)]
            )
            table.create_write_transaction(
                [added], "append", schema, partition_by=["date"], commit_properties=once
            )
            table.update_incremental()

    return commit


def iceberg(folder: Path) -> Commit:
    """A snapshot a table; the catalogue is SQLite."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("x", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("k")
    tables = {name: catalog.create_table(f"k.{name}", rows_of(0).schema) for name in TABLES}

    def commit(number: int) -> None:
        for name, table in tables.items():
            path = folder / f"{name}-{number}.parquet"
            pq.write_table(rows_of(number), path, compression="zstd")
            table.add_files([f"file://{path}"], check_duplicate_files=False)

    return commit


@pytest.mark.parametrize("form", [layout, delta, iceberg], ids=lambda form: form.__name__)
def test_a_batch(tmp_path: Path, form: Callable[[Path], Commit]) -> None:
    commit = form(tmp_path)
    used_ms = []
    for number in range(BATCHES):
        since_s = time.process_time()
        commit(number)
        used_ms.append(1000 * (time.process_time() - since_s))
    quarter = BATCHES // 4
    first, last = sorted(used_ms[:quarter]), sorted(used_ms[-quarter:])
    files = sum(path.is_file() for path in tmp_path.rglob("*"))
    print(
        f"\n{form.__name__}: CPU of a batch of {len(TABLES)} tables, median of the first quarter "
        f"{first[len(first) // 2]:.1f} ms, of the last {last[len(last) // 2]:.1f} ms; "
        f"{files:,} files after {BATCHES} batches"
    )
