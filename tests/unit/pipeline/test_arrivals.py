"""What a copy brought between its last sample outside the ISR and the first one in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kshunt.backend.delivered_files.minutes import copies_by_minute
from kshunt.backend.domain.pipeline.result_columns import RATES
from kshunt.backend.pipeline.kernels import rate_step
from kshunt.backend.pipeline.kernels.arrow_columns import arrow_of
from kshunt.backend.pipeline.kernels.quality import ordered
from kshunt.backend.pipeline.kernels.rates import COPY, RateState, rates
from kshunt.backend.pipeline.kernels.replica_runs import NULL
from kshunt.backend.pipeline.light.light_tables import move_pairs
from kshunt.backend.pipeline.reports.operation_results import read
from kshunt.backend.pipeline.reports.report_document import OperationFigures, report
from kshunt.backend.pipeline.reports.week_rates import WeekRates
from tests.support.pipeline.recorded import START_MS, Row, sample, table, time_of
from tests.support.pipeline.reported import write_results

OPERATION = "op-7f3a"
WHOLE, HALF = 13_100_000, 4_800_000
"""Bytes of the leader's log, and what the last sample outside the ISR saw of the copy."""
AS_SCHEMA = pa.schema(arrow_of(RATES.columns))


def copy(at_s: float, size: int, **others: Any) -> Row:
    """A copy under way; a message has 100 bytes."""
    whole = {"leader_log_end_offset": WHOLE // 100, "leader_size_bytes": WHOLE}
    moved = {"operation_id": OPERATION, "size_bytes": size}
    return sample(at_s, size // 100, **{**whole, **moved, **others})


def arrived(at_s: float, size: int = WHOLE, **others: Any) -> Row:
    """In the ISR, once the controller has ended the move."""
    over = {"in_isr": True, "adding": False, "operation_id": None}
    return copy(at_s, size, **{**over, **others})


def step(rows: Sequence[Row], state: RateState | None = None) -> tuple[Any, RateState]:
    """The rates of samples, and what is carried on."""
    (samples,) = table(rows).combine_chunks().to_batches()
    order = ordered(samples)
    settings = rate_step.SETTINGS
    before = RateState.nothing(len(settings.windows)) if state is None else state
    made = rates(rate_step.samples_of(samples, order), before, settings)
    return rate_step.rows_of(samples, order, made, AS_SCHEMA), made.state


def copied(rows: Sequence[Row]) -> list[tuple[int | None, int | None, float | None]]:
    """Of each row from which broker, how many bytes, and in how long."""
    made = step(rows)[0]
    names = ("copied_from", "copied_bytes", "copied_s")
    return list(zip(*(made.column(name).to_pylist() for name in names), strict=True))


BEGUN = [copy(0, 0), copy(5, HALF)]
REST = WHOLE - HALF


def test_what_was_left_belongs_to_the_copy_once_it_is_in_the_isr() -> None:
    rows = [*BEGUN, arrived(10), arrived(15)]
    assert copied(rows) == [
        (1, None, None),
        (1, HALF, 5.0),
        (1, REST, 5.0),
        (None, None, None),
    ]


@pytest.mark.parametrize("leader", [2, 3])
def test_it_does_too_if_the_leadership_changes_with_the_arrival(leader: int) -> None:
    """As it does where the former leader is removed: the new replica, or another one, leads."""
    assert copied([*BEGUN, arrived(10, leader=leader)])[2] == (1, REST, 5.0)


def test_what_it_lacks_still_was_not_copied() -> None:
    late = arrived(10, WHOLE - 1_000, leader=3, adding=True)
    assert copied([*BEGUN, late])[2] == (1, REST - 1_000, 5.0)


def test_what_was_left_of_a_cancelled_copy_was_not_copied() -> None:
    """Its log stays on the broker for a while, outside of the ISR."""
    left = copy(10, HALF, adding=False, operation_id=None)
    assert sum(size or 0 for _, size, _ in copied([*BEGUN, left])) == HALF


def test_what_was_left_of_a_replica_that_is_seen_no_more_was_not_copied() -> None:
    others = [copy(at_s, WHOLE, rid=9, broker=1, in_isr=True, adding=False) for at_s in (0, 5, 10)]
    found = copied([*BEGUN, *others])
    assert sum(size or 0 for _, size, _ in found) == HALF


@pytest.mark.parametrize("leader", [1, 3])
def test_of_a_log_that_retention_cut_short_no_more_counts_than_it_holds(leader: int) -> None:
    """The rest was deleted from the leader's log before it could be copied."""
    end = arrived(10, 3_000_000, leader=leader) | {"log_end_offset": WHOLE // 100}
    assert copied([*BEGUN, end])[2] == (1, 3_000_000, 5.0)


def test_of_a_log_that_retention_cut_and_that_grew_it_counts_by_how_much_it_grew() -> None:
    """As at every other row of a copy."""
    deleted = 2_000_000
    end = arrived(10, WHOLE - deleted) | {"log_end_offset": WHOLE // 100}
    assert copied([*BEGUN, end])[2] == (1, REST - deleted, 5.0)


def test_nothing_is_concluded_across_a_gap() -> None:
    assert copied([*BEGUN, arrived(400)])[2] == (None, None, None)


def test_a_replica_that_nothing_moves_arrives_alike() -> None:
    out = [row | {"adding": False, "operation_id": None} for row in BEGUN]
    assert copied([*out, arrived(10)])[2] == (1, REST, 5.0)


def test_the_state_of_a_stream_carries_a_copy_and_that_of_a_former_version_does_not() -> None:
    _, state = step(BEGUN)
    kept = rate_step.packed(state)
    again = rate_step.unpacked(state.rid, state.at, kept, len(state.marks))
    after, _ = step([arrived(10, leader=3)], again)
    assert after.column("copied_bytes").to_pylist() == [REST]

    without = pa.array([one[: -8 * len(COPY)] for one in kept.to_pylist()], pa.binary())
    former = rate_step.unpacked(state.rid, state.at, without, len(state.marks))
    assert [former.of(name).tolist() for name in COPY] == [[NULL], [NULL]]
    assert np.array_equal(former.fixed[: -len(COPY)], state.fixed[: -len(COPY)])
    after, _ = step([arrived(10, leader=3)], former)
    assert after.column("copied_bytes").to_pylist() == [None]


# Where it is told


def written(folder: Path, rows: Sequence[Row]) -> Path:
    made = step(rows)[0].to_pylist()
    write_results(folder, RATES, made)
    return next(folder.rglob("*.parquet"))


def test_a_report_has_all_that_was_copied_and_its_rate(tmp_path: Path) -> None:
    written(tmp_path / "results", [*BEGUN, arrived(10), arrived(15)])
    material = read(OPERATION, tmp_path, tmp_path / "results")
    figures = OperationFigures.of(material)
    assert figures.copies.bytes.tolist() == [WHOLE]
    assert figures.history.rate_bytes_per_s.tolist() == [HALF / 5, REST / 5, 0.0]
    words = str(report(material, START_MS + 60_000).blocks[0])
    assert "13.1 MB into 1 replica" in words
    assert "1.31 MB/s" in words


def test_a_pair_of_brokers_has_all_that_was_copied() -> None:
    made = pa.Table.from_batches([step([*BEGUN, arrived(10, leader=3)])[0]])
    (pair,) = move_pairs(lambda names: made.select(list(names))).to_pylist()
    assert (pair["source"], pair["destination"], pair["n"], pair["bytes"]) == (1, 2, 1, WHOLE)


def test_minutes_have_it_and_of_former_versions_what_rows_outside_the_isr_say(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, [*BEGUN, arrived(10)])
    (minute,) = copies_by_minute(path).to_pylist()
    assert (minute["copied_bytes"], minute["copy_s"]) == (WHOLE, 10.0)
    assert minute["lag_byte_s"] == REST * 5
    former = tmp_path / "former.parquet"
    columns = [name for name in RATES.names if not name.startswith("copied_")]
    pq.write_table(pq.read_table(path, columns=columns, partitioning=None), former)
    (minute,) = copies_by_minute(former).to_pylist()
    assert (minute["copied_bytes"], minute["copy_s"]) == (HALF, 5.0)


@pytest.mark.parametrize("cut", [False, True], ids=["in one hour", "at the end of an hour"])
def test_a_week_counts_it_for_the_operation_whose_copy_it_was(*, cut: bool) -> None:
    made = pa.Table.from_batches([step([*BEGUN, arrived(10), arrived(15)])[0]])
    week = WeekRates()
    parts = [made.slice(0, 2), made.slice(2)] if cut else [made]
    for number, rows in enumerate(parts):
        week.add(START_MS + number * 3_600_000, rows)
    assert sum(week.copied_by_hour.values()) == WHOLE
    assert sum(week.others_by_hour.values()) == sum(week.behind_by_hour.values()) == 0
    ((key, one),) = week.copies.items()
    assert key[0] == OPERATION
    assert (one.copied_bytes, one.arrived_ms) == (WHOLE, START_MS + 10_000)
    assert time_of(one.out_ms or 0) == time_of(START_MS + 5_000)
