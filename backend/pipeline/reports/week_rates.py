"""What `rates` say of a week, hour by hour: sums that fit into memory, whatever the cluster.

Goals
    Copied bytes, throttles, the ISR, topics and the ends of operations, each as far as it is known.
Constraints
    A week of a large cluster is gigabytes. One hour is in memory at a time, in the order of time,
    and no Python loop runs over rows.
Algorithm
    What must be carried from one hour to the next is a value for each replica: was it in the ISR,
    and how far its copy for an operation is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS

MINUTE_MS: Final = 60_000
COLUMNS: Final = (
    "at", "rid", "topic", "partition", "broker", "leader", "advanced_bytes", "in_isr", "adding",
    "removing", "leader_throttle_bytes_per_s", "follower_throttle_bytes_per_s", "operation_id",
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
    ours: Mask
    """An operation of kshunt moves the partition."""

    @classmethod
    def of(cls, table: Any) -> _HourRows:
        table = table.sort_by([("rid", "ascending"), ("at", "ascending")])

        def longs(name: str) -> Longs:
            found: Longs = table[name].cast(pa.int64()).fill_null(NO_BROKER).to_numpy()
            return found

        def flags(name: str) -> Mask:
            return np.asarray(table[name].cast(pa.bool_()).fill_null(False).to_numpy(), np.bool_)

        def there(name: str) -> Mask:
            return np.asarray(pc.is_valid(table[name]).to_numpy(), np.bool_)

        at = millis_column(table["at"]).to_numpy()
        leader_rate, follower_rate = (f"{s}_throttle_bytes_per_s" for s in ("leader", "follower"))
        return cls(
            table=table,
            at_ms=at,
            rid=longs("rid"),
            broker=longs("broker"),
            leader=longs("leader"),
            advanced=table["advanced_bytes"].cast(pa.float64()).fill_null(float("nan")).to_numpy(),
            in_isr=flags("in_isr"),
            adding=flags("adding"),
            removing=flags("removing"),
            throttled=there(leader_rate) | there(follower_rate),
            ours=there("operation_id"),
        )

    @property
    def copying(self) -> Mask:
        """Rows of replicas that are added, or out of the ISR."""
        found: Mask = (self.adding | ~self.in_isr) & (self.leader != self.broker)
        return found


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
    _before: tuple[Longs, Mask] | None = None
    """Replicas in order, and which of them were in the ISR at their last sample."""

    def add(self, hour_ms: int, table: Any) -> None:
        """Take the rows of an hour."""
        if not len(table):
            return
        rows = _HourRows.of(table)
        self.hours.add(hour_ms)
        self.newest_ms = max(self.newest_ms or 0, int(rows.at_ms.max()))
        self._add_bytes(hour_ms, rows)
        self._add_throttles(hour_ms - hour_ms % DAY_MS, rows)
        self._add_drops(rows)
        self._add_copies(rows)

    def _add_bytes(self, hour_ms: int, rows: _HourRows) -> None:
        known = np.isfinite(rows.advanced)
        copying = rows.copying & known
        moved = copying & rows.adding
        for mask, sums in (
            (moved & rows.ours, self.copied_by_hour),
            (moved & ~rows.ours, self.others_by_hour),
            (copying & ~rows.adding, self.behind_by_hour),
        ):
            sums[hour_ms] += float(rows.advanced[mask].sum())
        led = pa.table({"topic": rows.table["topic"], "written": rows.advanced})
        led = led.filter(pa.array((rows.leader == rows.broker) & known))
        summed = led.group_by("topic").aggregate([("written", "sum")])
        names, sizes = (summed[name].to_pylist() for name in ("topic", "written_sum"))
        self.written.update(dict(zip(names, map(round, sizes), strict=True)))

    def _add_throttles(self, day_ms: int, rows: _HourRows) -> None:
        minutes = rows.at_ms // MINUTE_MS
        throttled = np.unique(minutes[rows.throttled])
        busy = np.unique(minutes[rows.copying])
        self.throttled_minutes[day_ms] += len(throttled)
        self.idle_minutes[day_ms] += len(np.setdiff1d(throttled, busy))

    def _add_drops(self, rows: _HourRows) -> None:
        first = np.append(True, np.diff(rows.rid) != 0)
        was_in = np.append(False, rows.in_isr[:-1])
        starts = np.flatnonzero(first)
        was_in[starts] = self._was_in(rows.rid[starts])
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
        self._remember(rows, starts)

    def _was_in(self, rids: Longs) -> Mask:
        """Whether each was in the ISR before this hour; one that was never seen was not."""
        found = np.zeros(len(rids), np.bool_)
        if self._before is not None:
            known, in_isr = self._before
            place = np.minimum(np.searchsorted(known, rids), len(known) - 1)
            found = (known[place] == rids) & in_isr[place]
        return found

    def _remember(self, rows: _HourRows, starts: Longs) -> None:
        last = np.append(starts[1:], len(rows.rid)) - 1
        rids, in_isr = rows.rid[last], rows.in_isr[last]
        if self._before is not None:
            others = ~np.isin(self._before[0], rids)
            rids = np.append(rids, self._before[0][others])
            in_isr = np.append(in_isr, self._before[1][others])
        order = np.argsort(rids, kind="stable")
        self._before = rids[order], in_isr[order]

    def _add_copies(self, rows: _HourRows) -> None:
        places = np.flatnonzero(rows.ours)
        if not len(places):
            return
        names = pc.dictionary_encode(rows.table["operation_id"].combine_chunks().take(places))
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
        known = copying & np.isfinite(rows.advanced[places])
        copy.copied_bytes += float(rows.advanced[places][known].sum())
        out = np.flatnonzero(copying)
        if len(out):
            copy.out_ms, copy.arrived_ms = int(at[out[-1]]), None
        after = int(out[-1]) + 1 if len(out) else 0
        if copy.out_ms is not None and copy.arrived_ms is None and after < len(at):
            copy.arrived_ms = int(at[after])
