"""What `rates` say of an hour: sums that are kept when the rows are gone, whatever the cluster.

Goals
    Copied bytes, throttles, the ISR, topics and the ends of operations, each as far as it is known.
    Of an hour the same comes out for its roll-up and for a report that reads the rows.
Constraints
    A week of a large cluster is gigabytes. One hour is in memory at a time, and no Python loop runs
    over rows.
Algorithm
    What must be known from the hour before is a value for each replica: was it in the ISR, and who
    moved it. At the row at which a copy arrives, nothing moves it any more: what it brought belongs
    to the operation that moved it at the row before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kshunt.backend.delivered_files.columns import millis
from kshunt.backend.delivered_files.copies import NEEDED, with_copies
from kshunt.backend.delivered_files.minutes import MINUTE_MS
from kshunt.backend.domain.cluster.metadata import NO_BROKER

COLUMNS: Final = (
    "at", "rid", "topic", "partition", "removing", "leader_throttle_bytes_per_s",
    "follower_throttle_bytes_per_s", "operation_id", *NEEDED,
)  # fmt: skip
"""What is read of `rates`."""
LAST_COLUMNS: Final = ("at", "rid", "in_isr", "adding", "operation_id")
"""What is read of the hour before."""

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

    def followed_by(self, later: CopyOfOperation) -> CopyOfOperation:
        """What it is together with a later hour of the same copy."""
        out_ms, arrived_ms = later.out_ms, later.arrived_ms
        if out_ms is None:
            out_ms, arrived_ms = self.out_ms, self.arrived_ms
            if out_ms is not None and arrived_ms is None:
                arrived_ms = later.first_ms
        return CopyOfOperation(
            self.first_ms,
            later.last_ms,
            out_ms,
            arrived_ms,
            self.added or later.added,
            self.copied_bytes + later.copied_bytes,
        )


@dataclass(frozen=True, slots=True)
class IsrDrop:
    """A replica that nothing moved, and that left the ISR."""

    at_ms: int
    """The first sample outside."""
    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, eq=False)
class LastRows:
    """The last row of each replica in an hour, by replica."""

    rid: Longs
    in_isr: Mask
    adding: Mask
    operation: Any
    """An Arrow array of ids."""

    @classmethod
    def nothing(cls) -> LastRows:
        """Where the hour is not known."""
        none = np.empty(0, np.bool_)
        return cls(np.empty(0, np.int64), none, none, pa.array([], pa.string()))

    @classmethod
    def of(cls, table: Any) -> LastRows:
        """Of rates with `LAST_COLUMNS`, in any order."""
        table = table.sort_by([("rid", "ascending"), ("at", "ascending")])
        rid = table["rid"].cast(pa.int64()).to_numpy()
        last = np.flatnonzero(np.append(np.diff(rid) != 0, [True] * bool(len(rid))))
        table = table.take(pa.array(last))
        operation = table["operation_id"].cast(pa.string()).combine_chunks()
        return cls(rid[last], _flags(table["in_isr"]), _flags(table["adding"]), operation)

    def places(self, rids: Longs) -> Longs:
        """Where these replicas are; -1: nowhere."""
        if not len(self.rid):
            return np.full(len(rids), -1)
        place = np.minimum(np.searchsorted(self.rid, rids), len(self.rid) - 1)
        found: Longs = np.where(self.rid[place] == rids, place, -1)
        return found


Before = Callable[[Longs], LastRows]
"""The last rows of some replicas in the hour before; those of others may be among them."""


def _flags(column: Any) -> Mask:
    return np.asarray(column.cast(pa.bool_()).fill_null(False).to_numpy(), np.bool_)


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

        def floats(name: str) -> Floats:
            found: Floats = table[name].cast(pa.float64()).fill_null(float("nan")).to_numpy()
            return found

        def there(name: str) -> Mask:
            return np.asarray(pc.is_valid(table[name]).to_numpy(), np.bool_)

        rid, broker, leader = (longs(name) for name in ("rid", "broker", "leader"))
        in_isr, adding = _flags(table["in_isr"]), _flags(table["adding"])
        leader_rate, follower_rate = (f"{s}_throttle_bytes_per_s" for s in ("leader", "follower"))
        return cls(
            table=table,
            at_ms=millis(table["at"]),
            rid=rid,
            broker=broker,
            leader=leader,
            advanced=floats("advanced_bytes"),
            in_isr=in_isr,
            adding=adding,
            removing=_flags(table["removing"]),
            throttled=there(leader_rate) | there(follower_rate),
            copying=(adding | ~in_isr) & (leader != broker),
            copied=np.where(there("copied_from"), floats("copied_bytes"), np.nan),
            operation=table["operation_id"].cast(pa.string()).combine_chunks(),
            starts=np.flatnonzero(np.append(True, np.diff(rid) != 0)),
        )

    @property
    def last(self) -> LastRows:
        """The last row of each replica."""
        last = np.append(self.starts[1:], len(self.rid)) - 1
        operation = self.operation.take(pa.array(last))
        return LastRows(self.rid[last], self.in_isr[last], self.adding[last], operation)

    @property
    def unexplained(self) -> Longs:
        """Replicas whose first row says less without the one before it, of an earlier hour.

        A copy arrives at such a row, or the replica is out of the ISR and nothing moves it.
        """
        first = self.starts
        arrives = np.isfinite(self.copied[first]) & ~self.copying[first]
        out = ~(self.in_isr[first] | self.adding[first] | self.removing[first])
        found: Longs = self.rid[first[arrives | out]]
        return found

    def of_copies(self, before: LastRows) -> _HourRows:
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
class HourFigures:
    """All of it, of one hour."""

    newest_ms: int
    copied_bytes: float = 0.0
    """Bytes that operations of kshunt copied."""
    others_bytes: float = 0.0
    """Bytes of replicas that somebody else added."""
    behind_bytes: float = 0.0
    """Bytes of replicas that nobody moved, and that came back into the ISR."""
    throttled_minutes: int = 0
    """Minutes in which a sample was under a throttle."""
    idle_minutes: int = 0
    """Of those, minutes in which nothing was copied."""
    drops: list[IsrDrop] = field(default_factory=list)
    """In the order of time."""
    written: Mapping[str, int] = field(default_factory=dict)
    """Bytes that were written to the leaders' logs, by topic."""
    copies: dict[tuple[str, int], CopyOfOperation] = field(default_factory=dict)
    """By operation and replica."""


def figures_of(table: Any, before: Before) -> tuple[HourFigures, LastRows]:
    """Of an hour that has rows of rates; and its last rows.

    `before` is asked once, for the replicas of which the hour before says more.
    `table` has `COLUMNS`, in any order.
    """
    rows = _HourRows.of(table)
    earlier = before(rows.unexplained)
    copies = rows.of_copies(earlier)
    found = HourFigures(int(rows.at_ms.max()))
    _add_bytes(found, copies)
    _add_throttles(found, rows)
    _add_drops(found, rows, earlier)
    _add_copies(found, copies)
    return found, rows.last


def _add_bytes(found: HourFigures, rows: _HourRows) -> None:
    known, copied = np.isfinite(rows.advanced), np.isfinite(rows.copied)
    ours = np.asarray(pc.is_valid(rows.operation), np.bool_)
    moved = copied & rows.adding
    found.copied_bytes = float(rows.copied[moved & ours].sum())
    found.others_bytes = float(rows.copied[moved & ~ours].sum())
    found.behind_bytes = float(rows.copied[copied & ~rows.adding].sum())
    led = pa.table({"topic": rows.table["topic"], "written": rows.advanced})
    led = led.filter(pa.array((rows.leader == rows.broker) & known))
    summed = led.group_by("topic").aggregate([("written", "sum")])
    names, sizes = (summed[name].to_pylist() for name in ("topic", "written_sum"))
    found.written = dict(zip(names, map(round, sizes), strict=True))


def _add_throttles(found: HourFigures, rows: _HourRows) -> None:
    minutes = rows.at_ms // MINUTE_MS
    throttled = np.unique(minutes[rows.throttled])
    busy = np.unique(minutes[rows.copying | np.isfinite(rows.copied)])
    found.throttled_minutes = len(throttled)
    found.idle_minutes = len(np.setdiff1d(throttled, busy))


def _add_drops(found: HourFigures, rows: _HourRows, before: LastRows) -> None:
    was_in = np.append(False, rows.in_isr[:-1])
    place = before.places(rows.rid[rows.starts])
    # One that was not seen was not in it.
    was_in[rows.starts] = np.append(before.in_isr, False)[place]
    left = was_in & ~rows.in_isr & ~rows.adding & ~rows.removing
    # What a move added has its own way into the ISR.
    after_a_move = np.append(False, rows.adding[:-1])
    after_a_move[rows.starts] = False
    places = np.flatnonzero(left & ~after_a_move)
    places = places[np.argsort(rows.at_ms[places], kind="stable")]
    some = rows.table.select(["topic", "partition"]).take(pa.array(places))
    found.drops = [
        IsrDrop(int(rows.at_ms[place]), str(topic), int(partition), int(rows.broker[place]))
        for place, topic, partition in zip(
            places, some["topic"].to_pylist(), some["partition"].to_pylist(), strict=True
        )
    ]


def _add_copies(found: HourFigures, rows: _HourRows) -> None:
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
        found.copies[key] = _copy_of(rows, places[start:end])


def _copy_of(rows: _HourRows, places: Longs) -> CopyOfOperation:
    """Rows of one replica for one operation, in the order of time."""
    at, out = rows.at_ms[places], np.flatnonzero(rows.copying[places])
    copy = CopyOfOperation(int(at[0]), int(at[-1]), added=bool(rows.adding[places].any()))
    copy.copied_bytes = float(np.nansum(rows.copied[places]))
    if len(out):
        copy.out_ms, after = int(at[out[-1]]), int(out[-1]) + 1
        copy.arrived_ms = int(at[after]) if after < len(at) else None
    return copy
