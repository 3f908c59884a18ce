"""How an operation went, from its rows of `rates`: pure functions on arrays.

Constraints: linear in the rows but for one sort, no Python loop over them.

Algorithm: what remains in all is a sum of changes, added up in the order of time. A change is what
a replica lacked at a sample less what it lacked at the one before. So a sample that is missing
leaves what was known, and nothing is interpolated. A replica has arrived at the first sample in the
ISR after its last one outside, and lacks nothing from then on. What was copied between two samples
is spread evenly over the time between them, up to that arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kshunt.backend.delivered_files.copies import NEEDED, with_copies
from kshunt.backend.domain.pipeline.result_columns import TICK_S
from kshunt.backend.pipeline.reports.document import Floats

TICK_MS: Final = TICK_S * 1000
NO_BROKER: Final = -1
ALIKE_MS: Final = 30_000
"""Changes of a rate within this time are one: a command to many brokers takes its time."""
LEADER, FOLLOWER = "leader", "follower"

Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class OperationRows:
    """The replicas of an operation's partitions, by replica and time. Shape (rows,)."""

    at_ms: Longs
    rid: Longs
    topic: Longs
    """Place in `topics`."""
    topics: tuple[str, ...]
    partition: Longs
    broker: Longs
    leader: Longs
    """NO_BROKER where there is none."""
    remaining_bytes: Floats
    copied_from: Longs
    """NO_BROKER where the row belongs to no copy."""
    copied_bytes: Floats
    """What the copy brought since the replica's row before; also at the row of its arrival."""
    copied_s: Floats
    catch_up_bytes_per_s: Floats
    in_isr: Mask
    adding: Mask
    removing: Mask
    moved: Mask
    """Rows of replicas that were added at some time; where none was, of all."""
    leader_rate: Floats
    """NaN where none is in force."""
    follower_rate: Floats

    def __len__(self) -> int:
        return len(self.at_ms)

    @property
    def copied(self) -> Mask:
        """Rows at which one of those is copied: added, or out of the ISR."""
        found: Mask = self.moved & (self.adding | ~self.in_isr) & (self.leader != self.broker)
        return found

    @property
    def known(self) -> Mask:
        """Rows that say what a copy brought."""
        found: Mask = self.moved & (self.copied_from != NO_BROKER) & np.isfinite(self.copied_bytes)
        return found

    def partition_text(self, row: int) -> str:
        """`topic-3` of a row."""
        return f"{self.topics[self.topic[row]]}-{self.partition[row]}"


COLUMNS: Final = (
    "at", "rid", "topic", "partition", "remaining_bytes", "catch_up_30s_bytes_per_s", "removing",
    "leader_throttle_bytes_per_s", "follower_throttle_bytes_per_s", *NEEDED,
)  # fmt: skip
"""What is read of `rates`."""


def rows_of(table: Any) -> OperationRows:
    """The columns of a `pyarrow.Table` of rates as arrays."""
    table = with_copies(table.sort_by([("rid", "ascending"), ("at", "ascending")]))
    topics = pc.dictionary_encode(table["topic"].combine_chunks())

    def longs(name: str, unknown: int = NO_BROKER) -> Longs:
        found: Longs = table[name].cast(pa.int64()).fill_null(unknown).to_numpy()
        return found

    def floats(name: str) -> Floats:
        found: Floats = table[name].cast(pa.float64()).fill_null(float("nan")).to_numpy()
        return found

    def flags(name: str) -> Mask:
        return np.asarray(table[name].to_numpy(), np.bool_)

    at = table["at"].cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()).to_numpy()
    rid, adding = longs("rid"), flags("adding")
    return OperationRows(
        at_ms=at,
        rid=rid,
        topic=np.asarray(topics.indices.to_numpy(), np.int64),
        topics=tuple(topics.dictionary.to_pylist()),
        partition=longs("partition"),
        broker=longs("broker"),
        leader=longs("leader"),
        remaining_bytes=floats("remaining_bytes"),
        copied_from=longs("copied_from"),
        copied_bytes=floats("copied_bytes"),
        copied_s=floats("copied_s"),
        catch_up_bytes_per_s=floats("catch_up_30s_bytes_per_s"),
        in_isr=flags("in_isr"),
        adding=adding,
        removing=flags("removing"),
        moved=np.isin(rid, rid[adding]) if adding.any() else np.ones(len(rid), np.bool_),
        leader_rate=floats("leader_throttle_bytes_per_s"),
        follower_rate=floats("follower_throttle_bytes_per_s"),
    )


# Copies


@dataclass(frozen=True, eq=False)
class OperationCopies:
    """The replicas that were copied. Arrays have shape (copies,)."""

    row: Longs
    """The first row of each at which it was copied."""
    arrived_ms: Floats
    """When it was first seen in the ISR for good; NaN where it was not."""
    bytes: Floats
    """What it copied, as far as is known."""
    seconds: Floats
    """In what time."""
    remaining_bytes: Floats
    """What it lacked at its last sample; NaN where it arrived, or that is not known."""
    last_ms: Floats
    """Its last sample."""

    def __len__(self) -> int:
        return len(self.row)


def copies_of(rows: OperationRows) -> OperationCopies:
    """One entry a replica that was copied at some time, in the order of the rows."""
    copied = rows.copied
    begins = np.flatnonzero(np.r_[True, np.diff(rows.rid) != 0]) if len(rows) else np.empty(0, int)
    place = np.arange(len(rows))
    some = _any(copied, begins)
    first = _reduced(np.minimum, np.where(copied, place, len(rows)), begins)[some]
    last_out = _reduced(np.maximum, np.where(rows.in_isr, -1, place), begins)[some]
    last = np.r_[begins[1:], len(rows)][some] - 1 if len(begins) else begins
    # Who is in the ISR from the first row on had arrived before somebody looked.
    arrival = np.maximum(last_out + 1, first)
    arrived = arrival <= last
    at = rows.at_ms[np.minimum(arrival, len(rows) - 1)].astype(np.float64)
    gained = np.where(rows.known, rows.copied_bytes, 0.0)
    took = np.where(rows.known, rows.copied_s, 0.0)
    return OperationCopies(
        row=first,
        arrived_ms=np.where(arrived, at, np.nan),
        bytes=_reduced(np.add, gained, begins)[some],
        seconds=_reduced(np.add, took, begins)[some],
        remaining_bytes=np.where(arrived, np.nan, rows.remaining_bytes[last]),
        last_ms=rows.at_ms[last].astype(np.float64),
    )


def _any(flags: Mask, begins: Longs) -> Mask:
    found: Mask = np.logical_or.reduceat(flags, begins) if len(begins) else flags
    return found


def _reduced(by: Any, values: NDArray[Any], begins: Longs) -> NDArray[Any]:
    found: NDArray[Any] = by.reduceat(values, begins) if len(begins) else values
    return found


# Over time


@dataclass(frozen=True, eq=False)
class OperationHistory:
    """What was seen tick by tick. Arrays have shape (ticks,)."""

    at_ms: Floats
    """When each tick ended."""
    remaining_bytes: Floats
    """NaN before anything is known."""
    rate_bytes_per_s: Floats
    """Of all copies together."""
    permitted_bytes_per_s: Floats
    """What the throttles let through together; NaN where something is not held by one."""
    arrived: Longs
    """Copies in the ISR by then."""


def history_of(rows: OperationRows, copies: OperationCopies) -> OperationHistory:
    """The course from the first copy on, to the last sample of one."""
    copied = np.flatnonzero(rows.copied)
    if not len(copied):
        nothing = np.empty(0)
        return OperationHistory(nothing, nothing, nothing, nothing, nothing.astype(np.int64))
    ends = copies.arrived_ms[np.isfinite(copies.arrived_ms)]
    begin = int(rows.at_ms[copied].min()) // TICK_MS
    end = int(max(rows.at_ms[copied].max(), ends.max(initial=0))) // TICK_MS
    count = end - begin + 1
    arrivals = (ends // TICK_MS).astype(np.int64) - begin
    return OperationHistory(
        at_ms=np.arange(begin + 1, end + 2, dtype=np.float64) * TICK_MS,
        remaining_bytes=_remaining(rows, copies, begin, count),
        rate_bytes_per_s=_rate(rows, begin, count),
        permitted_bytes_per_s=_permitted(rows, begin, count),
        arrived=np.cumsum(np.bincount(np.clip(arrivals, 0, count - 1), minlength=count)),
    )


def _remaining(rows: OperationRows, copies: OperationCopies, begin: int, count: int) -> Floats:
    known = np.flatnonzero(rows.copied & np.isfinite(rows.remaining_bytes))
    lacks, rid = rows.remaining_bytes[known], rows.rid[known]
    same = np.r_[False, rid[1:] == rid[:-1]] if len(rid) else np.empty(0, np.bool_)
    change = lacks - np.where(same, np.r_[0.0, lacks[:-1]], 0.0) if len(rid) else lacks
    sums = np.bincount(rows.at_ms[known] // TICK_MS - begin, change, count)
    # A replica that has arrived lacks nothing.
    last = np.r_[rid[1:] != rid[:-1], True] if len(rid) else same
    left = dict(zip(rid[last].tolist(), lacks[last].tolist(), strict=True))
    for row, at_ms in zip(copies.row, copies.arrived_ms, strict=True):
        if np.isfinite(at_ms):
            place = min(max(int(at_ms) // TICK_MS - begin, 0), count - 1)
            sums[place] -= left.get(int(rows.rid[row]), 0.0)
    total = np.cumsum(sums)
    seen = np.zeros(count, np.bool_)
    if len(known):
        seen[int(rows.at_ms[known].min()) // TICK_MS - begin :] = True
    return np.where(seen, np.maximum(total, 0.0), np.nan)


def _rate(rows: OperationRows, begin: int, count: int) -> Floats:
    known = np.flatnonzero(rows.known & (rows.copied_s > 0))
    speed = rows.copied_bytes[known] / rows.copied_s[known]
    until = rows.at_ms[known] / TICK_MS - begin
    since = np.maximum(until - rows.copied_s[known] * 1000 / TICK_MS, 0.0)
    # A piece of a line from `since` to `until`: its mean over each tick is a difference of sums.
    return np.maximum(_steps(since, speed, count) - _steps(until, speed, count), 0.0)


def _steps(at: Floats, height: Floats, count: int) -> Floats:
    """The mean over each tick of steps that go up at some moments; moments in ticks."""
    place = np.minimum(at.astype(np.int64), count - 1)
    within = np.clip(1.0 - (at - place), 0.0, 1.0) * height
    partly = np.bincount(place, within, count)
    whole = np.cumsum(np.bincount(place, height, count))
    found: Floats = partly + np.r_[0.0, whole[:-1]]
    return found


def _permitted(rows: OperationRows, begin: int, count: int) -> Floats:
    """By tick what is less: what the leaders may send, or what the followers may fetch."""
    held = np.flatnonzero(rows.copied & ~rows.in_isr)
    tick = rows.at_ms[held] // TICK_MS - begin
    sides = (
        _side(tick, rows.leader[held], rows.leader_rate[held], count),
        _side(tick, rows.broker[held], rows.follower_rate[held], count),
    )
    least = np.minimum(*sides)
    # Ticks without a sample are as those before them.
    place = np.maximum.accumulate(np.where(np.isnan(least), 0, np.arange(count)))
    filled = least[place]
    return np.where(np.isfinite(filled), filled, np.nan)


def _side(tick: Longs, broker: Longs, rate: Floats, count: int) -> Floats:
    """The sum over brokers; inf where a copy is not held on this side, NaN where there is none."""
    sums = np.full(count, np.nan)
    limit = np.where(np.isnan(rate), np.inf, rate)
    order = np.lexsort((limit, broker, tick))
    tick, broker, limit = tick[order], broker[order], limit[order]
    last = np.flatnonzero(np.r_[(np.diff(tick) != 0) | (np.diff(broker) != 0), True][: len(tick)])
    there = np.unique(tick)
    sums[there] = 0.0
    np.add.at(sums, tick[last], limit[last])
    return sums


# What happened


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened at a moment."""

    at_ms: float
    text: str


@dataclass(frozen=True, slots=True)
class RateChange:
    """A rate in force for copies that became another one; None is none."""

    at_ms: float
    brokers: tuple[int, ...]
    direction: str
    before: float | None
    after: float | None


def throttle_changes(rows: OperationRows) -> list[RateChange]:
    """When rates in force for copies changed, in the order of time.

    What changed alike on several brokers, or for several copies, is told once.
    """
    held = np.flatnonzero(rows.copied & ~rows.in_isr)
    found = _changes(rows, held, rows.leader, rows.leader_rate, LEADER)
    found += _changes(rows, held, rows.broker, rows.follower_rate, FOLLOWER)
    return sorted(found, key=lambda change: (change.at_ms, change.direction, change.brokers))


def _changes(
    rows: OperationRows, held: Longs, brokers: Longs, rates: Floats, direction: str
) -> list[RateChange]:
    """Each copy by itself: one that arrives, or another leader, changes no rate."""
    rid, broker = rows.rid[held], brokers[held]
    rate = np.where(np.isnan(rates[held]), -1.0, rates[held])
    same = (np.diff(rid) == 0) & (np.diff(broker) == 0)
    turns = np.flatnonzero(same & (np.diff(rate) != 0)) + 1
    begun: dict[tuple[float, float], float] = {}
    seen: dict[tuple[float, float, float], set[int]] = {}
    for i in turns[np.argsort(rows.at_ms[held[turns]], kind="stable")]:
        what, at_ms = (float(rate[i - 1]), float(rate[i])), float(rows.at_ms[held[i]])
        if at_ms - begun.get(what, -np.inf) > ALIKE_MS:
            begun[what] = at_ms
        seen.setdefault((begun[what], *what), set()).add(int(broker[i]))
    return [
        RateChange(at_ms, tuple(sorted(some)), direction, _known(before), _known(after))
        for (at_ms, before, after), some in seen.items()
    ]


def _known(rate: float) -> float | None:
    return None if rate < 0 else rate


def elections(rows: OperationRows) -> list[HistoryEvent]:
    """Changes of a partition's leader."""
    turns = np.flatnonzero((np.diff(rows.rid) == 0) & (np.diff(rows.leader) != 0)) + 1
    seen: dict[tuple[str, int, int], float] = {}
    for i in turns[np.argsort(rows.at_ms[turns], kind="stable")]:
        key = (rows.partition_text(i), int(rows.leader[i - 1]), int(rows.leader[i]))
        seen.setdefault(key, float(rows.at_ms[i]))
    return [
        HistoryEvent(at_ms, f"{name}: leader {_leader(before)} → {_leader(after)}")
        for (name, before, after), at_ms in seen.items()
    ]


def _leader(broker: int) -> str:
    return "none" if broker == NO_BROKER else str(broker)


def isr_losses(rows: OperationRows) -> list[HistoryEvent]:
    """Replicas that nothing moves, and that were in the ISR and then out of it."""
    still = (np.diff(rows.rid) == 0) & ~(rows.adding | rows.removing)[1:]
    left = np.flatnonzero(still & rows.in_isr[:-1] & ~rows.in_isr[1:] & ~rows.adding[:-1]) + 1
    return [
        HistoryEvent(
            float(rows.at_ms[i]), f"{rows.partition_text(i)}: broker {rows.broker[i]} left the ISR"
        )
        for i in left[np.argsort(rows.at_ms[left], kind="stable")]
    ]


# Pairs


@dataclass(frozen=True, slots=True)
class Pair:
    """What went from one broker to another."""

    source: int
    destination: int
    copies: int
    bytes: float
    seconds: float
    """Summed over its copies."""
    quantiles: tuple[float, float, float] | None
    """10, 50 and 90 % of the catch-up rates of a copy over 30 s, in B/s."""

    @property
    def mean_bytes_per_s(self) -> float:
        """Of one copy; NaN where it is not known."""
        return self.bytes / self.seconds if self.seconds else float("nan")


def pairs_of(rows: OperationRows) -> Sequence[Pair]:
    """The pairs of the copies, those with the slowest copies first."""
    known = np.flatnonzero(rows.known)
    keys = rows.copied_from[known] << 32 | rows.broker[known]
    known = known[np.argsort(keys, kind="stable")]
    pairs, begins = np.unique(np.sort(keys), return_index=True)
    found = []
    for pair, some in zip(pairs.tolist(), np.split(known, begins[1:]), strict=False):
        speeds = rows.catch_up_bytes_per_s[some]
        speeds = speeds[np.isfinite(speeds)]
        quantiles = np.quantile(speeds, (0.1, 0.5, 0.9)).tolist() if len(speeds) else None
        found.append(
            Pair(
                pair >> 32,
                pair & 0xFFFFFFFF,
                len(np.unique(rows.rid[some])),
                float(rows.copied_bytes[some].sum()),
                float(np.nansum(rows.copied_s[some])),
                None if quantiles is None else (quantiles[0], quantiles[1], quantiles[2]),
            )
        )
    return sorted(found, key=lambda pair: np.nan_to_num(pair.mean_bytes_per_s, nan=np.inf))
