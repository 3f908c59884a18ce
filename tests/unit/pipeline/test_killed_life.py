"""`kill -9` in batches, compaction, roll-ups and retention of one folder of results.

Another process continues each time. At the end the folder is that of a job that nobody killed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshunt.backend.delivered_files.result_files import (
    RUN,
    current_files,
    hour_folders,
    read_manifest,
)
from kshunt.backend.domain.pipeline.result_columns import QUARANTINE_BROKERS, RATES, STALLS
from kshunt.backend.domain.pipeline.roll_up_columns import ALL_TABLES, MOVES
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, hour_folder
from kshunt.backend.pipeline.results.stream_state import newest
from tests.support.pipeline.delivered import by_every_value
from tests.support.pipeline.killed.life import ENDED, MOMENTS, killed, live
from tests.support.pipeline.recorded import START_MS
from tests.support.pipeline.recorded_days import record
from tests.support.pipeline.spark import same

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class Lives:
    """Two folders of results of one recording."""

    killed: Path
    killed_at: list[str]
    whole: Path
    """Of a job that nobody killed."""


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    folder = tmp_path_factory.mktemp("lives")
    record(folder / "recording")
    killed_in, whole = (folder / name / "results" for name in ("killed", "whole"))
    killed_at = killed(folder / "recording", killed_in)
    live(folder / "recording", whole)
    return Lives(killed_in, killed_at, whole)


def test_each_process_was_killed_and_the_last_one_ended(lives: Lives) -> None:
    *killed_at, last = lives.killed_at
    assert last == ENDED
    assert len(killed_at) == len(MOMENTS)
    for pattern, change in zip(MOMENTS.values(), killed_at, strict=True):
        assert re.search(pattern, change)


@pytest.mark.parametrize("table", [table.name for table in ALL_TABLES])
def test_rows_are_those_of_a_job_that_nobody_killed(lives: Lives, table: str) -> None:
    found = rows_of(lives.whole, table)
    assert found or table == QUARANTINE_BROKERS.name
    same(rows_of(lives.killed, table), found)


def rows_of(results: Path, table: str) -> list[dict[str, Any]]:
    """A table as any reader finds it; no row names a folder or a run."""
    parts = [pq.ParquetFile(path).read() for path in current_files(results, table)]
    rows = pa.concat_tables(parts).to_pylist() if parts else []
    for row in rows:
        row.pop("made_of", None)
        if "detail" in row:
            row["detail"] = row["detail"].replace(str(results.parent), "")
    return by_every_value(rows)


def test_nothing_is_left_over_and_the_manifest_names_what_is_there(lives: Lives) -> None:
    assert things_in(lives.killed) == things_in(lives.whole)
    manifest = read_manifest(lives.killed)
    for table in ALL_TABLES:
        hours = {hour.name: hour.path for hour in hour_folders(lives.killed / table.name)}
        named = manifest.hours.get(table.name, {})
        assert named.keys() <= hours.keys()
        for name, path in hours.items():
            runs = {part.name for part in path.glob(f"{RUN}*")}
            assert runs == ({f"{RUN}{named[name]}"} if name in named else set())
    assert {run for by_hour in manifest.hours.values() for run in by_hour.values()} == set(
        manifest.runs
    )
    assert newest(lives.killed) == newest(lives.whole)


def things_in(results: Path) -> list[str]:
    """Its folders and files, without the ids of runs."""
    names = (str(path.relative_to(results)) for path in results.rglob("*"))
    return sorted(re.sub(rf"{RUN}\d+-\w+", RUN, name) for name in names)


def test_the_life_had_compaction_roll_ups_and_retention(lives: Lives) -> None:
    days = {name: len(days_of(lives.whole, name)) for name in (RATES.name, STALLS.name)}
    assert days == {RATES.name: 1, STALLS.name: 2}
    assert len(days_of(lives.whole, MOVES.by_hour.name)) == 2
    assert hour_folder(START_MS + 2 * DAY_MS) in read_manifest(lives.whole).hours[RATES.name]


def days_of(results: Path, table: str) -> set[str]:
    return {hour.path.parent.name for hour in hour_folders(results / table)}
