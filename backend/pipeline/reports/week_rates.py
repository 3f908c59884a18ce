"""What `rates` say of a week, hour by hour: sums that fit into memory, whatever the cluster.

Goals
    Copied bytes, throttles, the ISR, topics and the ends of operations, each as far as it is known.
Constraints
    A week of a large cluster is gigabytes. One hour is in memory at a time, in the order of time,
    and no Python loop runs over rows.
Algorithm
    What must be carried from one hour to the next is a value for each replica: was it in the ISR,
    who moved it, and how far its copy for an operation is. At the row at which a copy arrives,
    nothing moves it any more: what it brought belongs to whoever moved it at the row before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.delivered_files.copies import NEEDED, with_copies
from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS

MINUTE_MS: Final = 60_000
COLUMNS: Final = (
    "at", "rid", "topic", "partition", "removing", "leader_throttle_bytes_per_s",
    "follower_throttle_bytes_per_s", "operation_id", *NEEDED,
)  # fmt: skip
"""What is read of `rates`."""

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class CopyOfOperation:
    """One replica that an operation may have copied; times in milliseconds."""

    first_ms: int
    """The first sample with the operation."""
    last_ms: int
    out_ms: int | None = None
    """The last sample at which it was copied."""
    arrived_ms: int | None = None
    """The first sample in the ISR after that."""
    added: bool = False
    """The operation added it."""
    copied_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class IsrDrop:
    """A replica that nothing moved, and that left the ISR."""

    at_ms: int
    """The first sample outside."""
    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, eq=False)
class _Last:
    """The last row of each replica so far, by replica."""

    rid: Longs
    in_isr: Mask
    adding: Mask
    operation: Any
    """An Arrow array of ids."""

    @classmethod
    def nothing(cls) -> _Last:
        none = np.empty(0, np.bool_)
        return cls(np.empty(0, np.int64), none, none, pa.array([], pa.string()))

    def places(self, rids: Longs) -> Longs:
        """Where these replicas are; -1: nowhere."""
        if not len(self.rid):
            return np.full(len(rids), -1)
        place = np.minimum(np.searchsorted(self.rid, rids), len(self.rid) - 1)
        found: Longs = np.where(self.rid[place] == rids, place, -1)
        return found

    def followed_by(self, rows: _HourRows) -> _Last:
        """After an hour."""
        last = np.append(rows.starts[1:], len(rows.rid)) - 1
        others = np.flatnonzero(~np.isin(self.rid, rows.rid[last]))
        rid = np.append(self.rid[others], rows.rid[last])
        order = np.argsort(rid, kind="stable")
        operation = pa.concat_arrays(
            [self.operation.take(pa.array(others)), rows.operation.take(pa.array(last))]
        )
        return _Last(
            rid[order],
            np.append(self.in_isr[others], rows.in_isr[last])[order],
            np.append(self.adding[others], rows.adding[last])[order],
            operation.take(pa.array(order)),
        )


@dataclass(frozen=True, eq=False)
class _HourRows:
    """The rows of an hour, by replica and time."""

    table: Any
    at_ms: Longs
    rid: Longs
    broker: Longs
    leader: Longs
    advanced: Floats
    in_isr: Mask
    adding: Mask
    removing: Mask
    throttled: Mask
    copying: Mask
    """Rows of replicas that are added, or out of the ISR."""
    copied: Floats
    """What the copy that a row belongs to brought since the row before; NaN where none did."""
    operation: Any
    """An Arrow array: which operation of kshunt moves the partition."""
    starts: Longs
    """The first row of each replica."""

    @classmethod
    def of(cls, table: Any) -> _HourRows:
        table = with_copies(table.sort_by([("rid", "ascending"), ("at", "ascending")]))

        def longs(name: str) -> Longs:
            found: Longs = table[name].cast(pa.int64()).fill_null(NO_BROKER).to_numpy()
            return found

        def flags(name: str) -> Mask:
            return np.asarray(table[name].cast(pa.bool_()).fill_null(False).to_numpy(), np.bool_)

        def floats(name: str) -> Floats:
            found: Floats = table[name].cast(pa.float64()).fill_null(float("nan")).to_numpy()
            return found

        def there(name: str) -> Mask:
            return np.asarray(pc.is_valid(table[name]).to_numpy(), np.bool_)

        rid, broker, leader = (longs(name) for name in ("rid", "broker", "leader"))
        in_isr, adding = flags("in_isr"), flags("adding")
        at = millis_column(table["at"]).to_numpy()
        leader_rate, follower_rate = (f"{s}_throttle_bytes_per_s" for s in ("leader", "follower"))
        return cls(
            table=table,
            at_ms=at,
            rid=rid,
            broker=broker,
            leader=leader,
            advanced=floats("advanced_bytes"),
            in_isr=in_isr,
            adding=adding,
            removing=flags("removing"),
            throttled=there(leader_rate) | there(follower_rate),
            copying=(adding | ~in_isr) & (leader != broker),
            copied=np.where(there("copied_from"), floats("copied_bytes"), np.nan),
            operation=table["operation_id"].cast(pa.string()).combine_chunks(),
            starts=np.flatnonzero(np.append(True, np.diff(rid) != 0)),
        )

    def of_copies(self, before: _Last) -> _HourRows:
        """The same, but rows at which a copy arrives are as the row before them was moved."""
        arrives = np.flatnonzero(np.isfinite(self.copied) & ~self.copying)
        if not len(arrives):
            return self
        first = np.isin(arrives, self.starts)
        inside, across = arrives[~first], before.places(self.rid[arrives[first]])
        known = across >= 0
        arrives = np.append(inside, arrives[first][known])
        adding, across = self.adding.copy(), across[known]
        adding[arrives] = np.append(self.adding[inside - 1], before.adding[across])
        moved_by = pa.concat_arrays(
            [self.operation.take(pa.array(inside - 1)), before.operation.take(pa.array(across))]
        )
        place = np.arange(len(self.rid))
        place[arrives] = len(place) + np.arange(len(arrives))
        operation = pa.concat_arrays([self.operation, moved_by]).take(pa.array(place))
        return replace(self, adding=adding, operation=operation)


@dataclass(slots=True)
class WeekRates:
    """All of it; `add` takes one hour after the other."""

    hours: set[int] = field(default_factory=set)
    """When the hours begin of which there are rows."""
    copied_by_hour: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Bytes that operations of kshunt copied."""
    others_by_hour: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Bytes of replicas that somebody else added."""
    behind_by_hour: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Bytes of replicas that nobody moved, and that came back into the ISR."""
    throttled_minutes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By day: minutes in which a sample was under a throttle."""
    idle_minutes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By day: of those, minutes in which nothing was copied."""
    drops: list[IsrDrop] = field(default_factory=list)
    """In the order of time."""
    written: Counter[str] = field(default_factory=Counter)
    """Bytes that were written to the leaders' logs, by topic."""
    copies: dict[tuple[str, int], CopyOfOperation] = field(default_factory=dict)
    """By operation and replica."""
    newest_ms: int | None = None
    _before: _Last = field(default_factory=_Last.nothing)

    def add(self, hour_ms: int, table: Any) -> None:
        """Take the rows of an hour."""
        if not len(table):
            return
        rows = _HourRows.of(table)
        self.hours.add(hour_ms)
        self.newest_ms = max(self.newest_ms or 0, int(rows.at_ms.max()))
        copies = rows.of_copies(self._before)
        self._add_bytes(hour_ms, copies)
        self._add_throttles(hour_ms - hour_ms % DAY_MS, rows)
        self._add_drops(rows)
        self._add_copies(copies)
        self._before = self._before.followed_by(rows)

    def _add_bytes(self, hour_ms: int, rows: _HourRows) -> None:
        known, copied = np.isfinite(rows.advanced), np.isfinite(rows.copied)
        ours = np.asarray(pc.is_valid(rows.operation), np.bool_)
        moved = copied & rows.adding
        for mask, sums in (
            (moved & ours, self.copied_by_hour),
            (moved & ~ours, self.others_by_hour),
            (copied & ~rows.adding, self.behind_by_hour),
        ):
            sums[hour_ms] += float(rows.copied[mask].sum())
        led = pa.table({"topic": rows.table["topic"], "written": rows.advanced})
        led = led.filter(pa.array((rows.leader == rows.broker) & known))
        summed = led.group_by("topic").aggregate([("written", "sum")])
        names, sizes = (summed[name].to_pylist() for name in ("topic", "written_sum"))
        self.written.update(dict(zip(names, map(round, sizes), strict=True)))

    def _add_throttles(self, day_ms: int, rows: _HourRows) -> None:
        minutes = rows.at_ms // MINUTE_MS
        throttled = np.unique(minutes[rows.throttled])
        busy = np.unique(minutes[rows.copying | np.isfinite(rows.copied)])
        self.throttled_minutes[day_ms] += len(throttled)
        self.idle_minutes[day_ms] += len(np.setdiff1d(throttled, busy))

    def _add_drops(self, rows: _HourRows) -> None:
        first = np.append(True, np.diff(rows.rid) != 0)
        was_in = np.append(False, rows.in_isr[:-1])
        place = self._before.places(rows.rid[rows.starts])
        # One that was never seen was not in it.
        was_in[rows.starts] = np.append(self._before.in_isr, False)[place]
        left = was_in & ~rows.in_isr & ~rows.adding & ~rows.removing
        # What a move added has its own way into the ISR.
        after_a_move = np.append(False, rows.adding[:-1]) & ~first
        places = np.flatnonzero(left & ~after_a_move)
        places = places[np.argsort(rows.at_ms[places], kind="stable")]
        some = rows.table.select(["topic", "partition"]).take(pa.array(places))
        self.drops += [
            IsrDrop(int(rows.at_ms[place]), str(topic), int(partition), int(rows.broker[place]))
            for place, topic, partition in zip(
                places, some["topic"].to_pylist(), some["partition"].to_pylist(), strict=True
            )
        ]

    def _add_copies(self, rows: _HourRows) -> None:
        places = np.flatnonzero(np.asarray(pc.is_valid(rows.operation), np.bool_))
        if not len(places):
            return
        names = pc.dictionary_encode(rows.operation.take(pa.array(places)))
        whose = np.asarray(names.indices.to_numpy(), np.int64)
        operations = names.dictionary.to_pylist()
        order = np.lexsort((rows.at_ms[places], rows.rid[places], whose))
        places, whose = places[order], whose[order]
        rid = rows.rid[places]
        starts = np.flatnonzero(np.append(True, (np.diff(whose) != 0) | (np.diff(rid) != 0)))
        for start, end in zip(starts, np.append(starts[1:], len(places)), strict=True):
            key = (str(operations[whose[start]]), int(rid[start]))
            self._add_copy(key, rows, places[start:end])

    def _add_copy(self, key: tuple[str, int], rows: _HourRows, places: Longs) -> None:
        """Rows of one replica for one operation, in the order of time."""
        at, copying = rows.at_ms[places], rows.copying[places]
        copy = self.copies.get(key)
        if copy is None:
            copy = self.copies[key] = CopyOfOperation(int(at[0]), int(at[0]))
        copy.last_ms = int(at[-1])
        copy.added |= bool(rows.adding[places].any())
        copy.copied_bytes += float(np.nansum(rows.copied[places]))
        out = np.flatnonzero(copying)
        if len(out):
            copy.out_ms, copy.arrived_ms = int(at[out[-1]]), None
        after = int(out[-1]) + 1 if len(out) else 0
        if copy.out_ms is not None and copy.arrived_ms is None and after < len(at):
            copy.arrived_ms = int(at[after])
