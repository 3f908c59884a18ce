"""The arithmetic of rates, stalls and quality on arrays: that of loops over lists, cut anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kshunt.backend.domain.pipeline.result_columns import GAP_S, RATES, STALL_S, UNKNOWN_CAUSE
from kshunt.backend.pipeline.kernels import packed_rows, rate_step
from kshunt.backend.pipeline.kernels import stalls as stall_step
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA
from kshunt.backend.pipeline.kernels.quality import Checks, checked
from kshunt.backend.pipeline.kernels.rate_step import SETTINGS
from kshunt.backend.pipeline.kernels.replica_runs import NULL, ReplicaRuns
from kshunt.backend.pipeline.tables.rates import MADE_SCHEMA
from tests.support.pipeline.rates_reference import reference_rates, reference_stalls, tick_after
from tests.support.pipeline.recorded import START_MS, Row, sample, simulated, table, time_of
from tests.support.pipeline.spark import same

CUTS = [(), (0.3, 0.31), tuple(np.linspace(0.05, 0.95, 10))]
ALL = Checks(0, START_MS * 2, 0, 0, GAP_S * 1000)


def shuffled(*kinds: tuple[Any, Any, int], buckets: int = 8) -> list[Any]:
    """Rows in their columns as parcels, in the order that a worker gets them in."""
    packed = [
        parcel
        for rows, schema, kind in kinds
        for parcel in packed_rows.pack(rows.to_batches(), schema=schema, kind=kind, buckets=buckets)
    ]
    rows = pa.Table.from_batches(packed, packed_rows.PARCEL).combine_chunks()
    batches: list[Any] = rows.sort_by("bucket").to_batches(max_chunksize=3)
    return batches


def stepped(rows: Sequence[Row], state: Any, checks: Checks | None = None) -> Any:
    """What a worker makes of samples."""
    kinds = [(table(rows), SAMPLES_SCHEMA, packed_rows.SAMPLES)]
    kinds += [(state, rate_step.STATE_SCHEMA, packed_rows.STATE)] if state is not None else []
    work = rate_step.Work(SETTINGS, SAMPLES_SCHEMA, MADE_SCHEMA, checks, carries=True)
    return pa.Table.from_batches(rate_step.work(shuffled(*kinds), work), MADE_SCHEMA)


def of_kind(made: Any, kind: int) -> Any:
    return made.filter(pc.equal(made["_kind"], kind))


def carried(made: Any) -> Any:
    state = of_kind(made, rate_step.STATE)
    return pa.table([state["rid"], state["_number"], state["_kept"]], rate_step.STATE_SCHEMA)


def parts(rows: Sequence[Row], shares: Sequence[float]) -> list[list[Row]]:
    """The rows cut at some ticks."""
    cuts = sorted({tick_after(rows, share) for share in shares})
    return [
        [row for row in rows if sum(row["at"] >= cut for cut in cuts) == i]
        for i in range(len(cuts) + 1)
    ]


def newest_ms(rows: Sequence[Row]) -> int:
    newest: float = max(row["at"] for row in rows).timestamp()
    return round(newest * 1000)


@pytest.mark.parametrize("shares", CUTS)
def test_rates_are_those_of_the_reference_wherever_they_are_cut(shares: Sequence[float]) -> None:
    rows = simulated(seed=len(shares), replicas=20, seconds=900)
    found: list[Row] = []
    state = None
    for part in parts(rows, shares):
        made = stepped(part, state)
        found += of_kind(made, rate_step.ROW).select(list(RATES.names)).to_pylist()
        state = carried(made)
    found.sort(key=lambda row: (row["rid"], row["tick"]))
    same(found, [{name: row[name] for name in RATES.names} for row in reference_rates(rows)])


def causes_of(rows: Sequence[Row], cut_s: float | None = None) -> dict[int, str]:
    """The cause of each replica's only stall; with a cut, the state is carried over it."""
    settings = stall_step.StallSettings(
        START_MS + 60_000, GAP_S * 1000, STALL_S * 1000, UNKNOWN_CAUSE
    )
    cut = None if cut_s is None else time_of(START_MS + round(cut_s * 1000))
    parts = [[r for r in rows if cut is None or r["at"] < cut]]
    parts += [] if cut is None else [[r for r in rows if r["at"] >= cut]]
    state = pa.RecordBatch.from_pylist([], stall_step.STATE)
    for part in parts:
        rows_in = [{name: row.get(name) for name in stall_step.RATES.names} for row in part]
        rates = pa.RecordBatch.from_pylist(rows_in, stall_step.RATES)
        made = stall_step.islands(rates, state, settings)
        state = made.filter(made.column("open")).select(stall_step.STATE.names)
    found: list[Row] = made.to_pylist()
    return {row["rid"]: row["cause"] for row in found}


def stalled(rid: int, causes: Sequence[str | None], **others: Any) -> list[Row]:
    """A replica that does not advance, with a diagnosis each five seconds."""
    return [sample(5 * i, 7, rid=rid, cause=cause, **others) for i, cause in enumerate(causes)]


@pytest.mark.parametrize("cut_s", [None, 5, 10])
def test_of_causes_with_as_many_votes_the_one_diagnosed_last_counts(cut_s: float | None) -> None:
    rows = stalled(1, ["ZEBRA", "APPLE", "ZEBRA", "APPLE"])
    rows += stalled(2, ["APPLE", "ZEBRA", "APPLE", "ZEBRA"])
    rows += stalled(3, ["APPLE", "APPLE", "ZEBRA", None])
    found = causes_of(rows, cut_s)
    assert found == {1: "apple", 2: "zebra", 3: "apple"}


@pytest.mark.parametrize("neighbour", ["APPLE", "ZEBRA", None])
def test_a_stall_without_a_diagnosis_stays_unknown_whoever_shares_its_worker(
    neighbour: str | None,
) -> None:
    rows = stalled(1, [None, "NONE", None]) + stalled(2, [neighbour] * 3)
    assert causes_of(rows)[1] == UNKNOWN_CAUSE
    rows = stalled(1, [None, "MIDDLE", None]) + stalled(2, [neighbour] * 3)
    assert causes_of(rows)[1] == "middle"


@pytest.mark.parametrize("shares", CUTS)
def test_stalls_are_those_of_the_reference_wherever_they_are_cut(shares: Sequence[float]) -> None:
    rates = reference_rates(simulated(seed=5 + len(shares), replicas=30, seconds=900))
    found: list[tuple[Any, ...]] = []
    state = stall_step.STATE.empty_table()
    cut = parts(rates, shares)
    for i, part in enumerate(cut):
        rows = pa.table({n: [r.get(n) for r in part] for n in stall_step.RATES.names})
        kinds = (
            (rows, stall_step.RATES, packed_rows.SAMPLES),
            (state, stall_step.STATE, packed_rows.STATE),
        )
        unit = 1000
        settings = stall_step.StallSettings(
            newest_ms(part), GAP_S * unit, STALL_S * unit, UNKNOWN_CAUSE
        )
        made = pa.Table.from_batches(stall_step.work(shuffled(*kinds), settings), stall_step.MADE)
        state = made.filter(made["open"]).select(stall_step.STATE.names)
        found += [
            (row["rid"], time_of(row["start"]), time_of(row["at"]), row["open"], row["cause"])
            for row in made.to_pylist()
            if row["at"] - row["start"] >= STALL_S * unit and (i == len(cut) - 1 or not row["open"])
        ]
    assert sorted(found) == reference_stalls(rates)


def test_bad_rows_are_left_out_and_odd_ones_counted_in_the_same_pass() -> None:
    rows = [
        sample(0, 0),
        sample(5, 5),
        sample(5, 5, size_bytes=None),  # the same moment, and knows less
        sample(10, None),
        sample(15, 4),
        sample(20, 3),  # shorter than before
        sample(25, 9, leader=3),  # another leader is another matter
        sample(30, 2_000_000, leader=3),  # beyond its leader
        sample(400, 2_000_001, leader=3, leader_log_end_offset=3_000_000),  # after a gap
        sample(405, 1, topic=None, lag_messages=-1),
        sample(-5, 1),
    ]
    batch = packed_rows.conform(table(rows).to_batches()[0], SAMPLES_SCHEMA)
    found = checked(batch, Checks(START_MS, START_MS + 10**6, 0, START_MS + 2_000, 150_000))
    assert found.order.tolist() == [0, 1, 3, 4, 5, 6, 7, 8]
    broken = Counter({name: count for name, count in found.counts.items() if count})
    assert broken == {
        "rows": 10,
        "keys_known": 1,
        "time_plausible": 1,
        "lag_not_negative": 1,
        "unique": 1,
        "not_ahead_of_leader": 1,
        "log_grows": 1,
        "no_gap": 1,
    }


def test_counts_come_out_once_whatever_the_number_of_buckets() -> None:
    rows = simulated(seed=3, replicas=30, seconds=300)
    made = of_kind(stepped([*rows, rows[0]], None, ALL), rate_step.COUNT)
    counts = dict(zip(made["_name"].to_pylist(), made["_number"].to_pylist(), strict=True))
    assert (counts["rows"], counts["unique"]) == (len(rows) + 1, 1)


def test_what_is_carried_of_a_replica_that_rests_takes_little() -> None:
    rows = [sample(at_s, 100, in_isr=True, adding=False) for at_s in range(0, 3600, 60)]
    (kept,) = carried(stepped(rows, None))["kept"].to_pylist()
    assert len(kept) < 700


def test_parts_of_a_file_have_its_rows_in_the_columns_that_are_asked_for(tmp_path: Any) -> None:
    path = str(tmp_path / "x.parquet")
    rows = table([sample(at_s, at_s) for at_s in range(10)])
    pq.write_table(rows.drop(["cause"]), path, row_group_size=4)
    text = packed_rows.as_text([packed_rows.RowGroups(path, 1, 3)])
    asked = [pa.record_batch([[text]], ["parts"])]
    packed = list(packed_rows.pack_files(asked, schema=SAMPLES_SCHEMA, buckets=4))
    ((samples, state),) = packed_rows.unpack(packed, samples=SAMPLES_SCHEMA, state=stall_step.STATE)
    assert samples["log_end_offset"].to_pylist() == [4, 5, 6, 7, 8, 9]
    assert samples["cause"].null_count == 6
    assert len(state) == 0


def test_nothing_is_known_from_before_a_replica_and_sums_begin_with_it() -> None:
    runs = ReplicaRuns.of_keys(np.array([3, 3, 3, 5, 7, 7]))
    last = runs.last(np.array([False, True, False, False, True, True]))
    assert last.tolist() == [-1, 1, 1, -1, 4, 5]
    assert runs.before(last).tolist() == [-1, -1, 1, -1, -1, 4]
    assert runs.ends.tolist() == [2, 3, 5]
    near_the_end = np.array([NULL, 1, 1, -5, NULL, 2])
    assert runs.sums(near_the_end).tolist()[3:] == [-5, NULL, NULL + 2]
