"""When copies will have come into the ISR: the table `eta` of one tick.

Goals: an ETA that knows what copies share and will share once others have ended; a range that
holds as often as it says; no end where there is none.

Constraints: only what replicas' rates of one tick say, so that ticks can be worked out anywhere
and in any order; 20,000 copies within about a second.

Algorithm: `kshunt.backend.domain.forecast` has the model, and how ranges are made of it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.forecast.outlook import Outlook
from kshunt.backend.domain.forecast.ranges import (
    COPY,
    OPERATION,
    SOME,
    WRITES,
    held_by,
    ranges,
    writes_place,
)
from kshunt.backend.pipeline.kernels.arrival_forecast import forecast_tick
from kshunt.backend.pipeline.kernels.ticks import Tick

TOGETHER_MS: Final = 1_500.0
"""Within this, replicas of a partition are sampled."""
SILENT: Final = "a broker says nothing of its copies"
NOT_STARTED: Final = "not started"

OUT: Final = pa.schema(
    [
        ("at", pa.timestamp("us", tz="UTC")),
        ("tick", pa.timestamp("us", tz="UTC")),
        ("rid", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("leader", pa.int32()),
        ("operation_id", pa.string()),
        ("copies", pa.int64()),
        ("remaining_bytes", pa.int64()),
        ("rate_bytes_per_s", pa.float64()),
        ("stage", pa.float64()),
        ("throttled", pa.bool_()),
        ("bound", pa.string()),
        ("writes", pa.string()),
        ("p10_s", pa.float64()),
        ("p50_s", pa.float64()),
        ("p90_s", pa.float64()),
        ("why", pa.string()),
        ("model", pa.int32()),
    ]
)


def eta(rates: Any, quantiles: Floats, model: int) -> Any:
    """The rows of `eta` of whole ticks, from a `pyarrow.Table` of `rates` with `COLUMNS`.

    `quantiles` as `kshunt.backend.domain.forecast.ranges` takes them.
    """
    if not len(rates):
        return OUT.empty_table()
    # By replica as well: sums of floats depend on their order, and rows come in any.
    rates = rates.sort_by([("tick", "ascending"), ("rid", "ascending")])
    rows = Tick.of(rates)
    begins = np.flatnonzero(np.diff(rows.tick_ms, prepend=-1.0))
    ends = np.append(begins[1:], len(rows.tick_ms))
    copies, operations = _EtaRows(), _EtaRows()
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        tick = rows.part(begin, end)
        copying = np.flatnonzero(tick.copies)
        if len(copying):
            expected = forecast_tick(tick, copying)
            copies.add(copying + begin, expected, tick.age_s[copying], tick.remaining[copying])
            _add_operations(operations, tick, copying, expected, begin)
    return pa.concat_tables(
        [
            _table(rates, copies, COPY, quantiles, model),
            _table(rates, operations, OPERATION, quantiles, model),
        ]
    )


class _EtaRows:
    """Rows as they are made, tick by tick."""

    def __init__(self) -> None:
        self.rows: list[Ints] = []
        """Of each the row of `rates` that it is of, or the newest of them."""
        self.seconds: list[Floats] = []
        self.rate: list[Floats] = []
        self.age_s: list[Floats] = []
        self.remaining: list[Floats] = []
        self.copies: list[Ints] = []
        self.throttled: list[Mask] = []
        self.by_throttle: list[Mask] = []
        """A throttle gives no more."""
        self.writes: list[Ints] = []
        """Places in `WRITES`."""
        self.bound: list[str | None] = []
        self.why: list[str | None] = []

    def add(self, rows: Ints, outlook: Outlook, age_s: Floats, remaining: Floats) -> None:
        """The copies of a tick."""
        self.rows.append(rows)
        self.seconds.append(outlook.seconds)
        self.rate.append(outlook.rate_bytes_per_s)
        self.age_s.append(age_s)
        self.remaining.append(remaining)
        self.copies.append(np.ones(len(rows), np.int64))
        self.throttled.append(outlook.throttled)
        self.by_throttle.append(outlook.held_by_throttle)
        self.writes.append(np.full(len(rows), SOME))
        self.bound += _bounds(outlook)
        self.why += [why or None for why in outlook.why]


def _add_operations(made: _EtaRows, tick: Tick, rows: Ints, outlook: Outlook, begin: int) -> None:
    """An operation is over when the last of its copies that stay is in the ISR."""
    staying = np.where(tick.removing[rows], -1, tick.operation[rows])
    hidden = _hidden(tick)
    for operation in np.unique(staying[staying >= 0]).tolist():
        mine = np.flatnonzero(staying == operation)
        last = mine[np.argmax(outlook.seconds[mine])]
        gone = operation in hidden
        newest = rows[mine[np.argmax(tick.at_ms[rows[mine]])]]
        made.rows.append(np.array([newest + begin]))
        end_s = np.inf if gone else float(outlook.seconds[last])
        made.seconds.append(np.array([end_s]))
        made.rate.append(np.array([outlook.rate_bytes_per_s[mine].sum()]))
        made.age_s.append(np.array([np.nanmax(tick.age_s[rows[mine]])]))
        made.remaining.append(np.array([tick.remaining[rows[mine]].sum()]))
        made.copies.append(np.array([len(mine)]))
        made.throttled.append(np.array([outlook.throttled[mine].any()]))
        made.by_throttle.append(outlook.held_by_throttle[[last]])
        made.writes.append(np.array([writes_place(outlook.copies, mine, end_s)]))
        made.bound.append(None if gone else _bound(outlook, int(last)))
        made.why.append(SILENT if gone else outlook.why[last] or None)


def _bounds(outlook: Outlook) -> list[str | None]:
    """What each copy waits for; a few resources hold them all."""
    tight = outlook.tight.tolist()
    resources = {one: outlook.limits.resource(int(one)) for one in set(tight)}
    names = {one: None if held is None else str(held) for one, held in resources.items()}
    waiting = np.isnan(outlook.copies.remaining_bytes).tolist()
    return [NOT_STARTED if waits else names[one] for one, waits in zip(tight, waiting, strict=True)]


def _bound(outlook: Outlook, place: int) -> str | None:
    """What a copy waits for; None where nothing is known to hold it."""
    if np.isnan(outlook.copies.remaining_bytes[place]):
        return NOT_STARTED
    resource = outlook.limits.resource(int(outlook.tight[place]))
    return None if resource is None else str(resource)


def _hidden(tick: Tick) -> set[int]:
    """Operations of which a partition moves, and no replica is seen to be added.

    A replica that is being removed and was seen last is of a move that still runs.
    """
    place = tick.partition - tick.partition.min()
    newest = np.zeros(int(place.max()) + 1)
    np.maximum.at(newest, place, tick.at_ms)
    leaves = tick.removing & (tick.at_ms >= newest[place] - TOGETHER_MS)
    lost = leaves & ~np.isin(place, place[tick.adding])
    return set(tick.operation[lost & (tick.operation >= 0)].tolist())


def _table(rates: Any, made: _EtaRows, kind: int, quantiles: Floats, model: int) -> Any:
    if not made.rows:
        return OUT.empty_table()
    rows = pa.array(np.concatenate(made.rows))
    count = len(rows)
    throttled = np.concatenate(made.throttled)
    seconds, age_s = np.concatenate(made.seconds), np.concatenate(made.age_s)
    writes = np.concatenate(made.writes)
    of_rates = ["at", "tick", "operation_id"]
    of_rates += ["rid", "topic", "partition", "broker", "leader"] if kind == 0 else []
    values = {
        **{name: rates[name].take(rows).combine_chunks() for name in of_rates},
        "copies": pa.array(np.concatenate(made.copies)),
        "remaining_bytes": _whole(np.concatenate(made.remaining)),
        "rate_bytes_per_s": _floats(np.concatenate(made.rate)),
        "throttled": pa.array(throttled),
        "bound": pa.array(made.bound, pa.string()),
        "why": pa.array(made.why, pa.string()),
        "model": pa.array(np.full(count, model, np.int32)),
        **_ranges(kind, seconds, age_s, np.concatenate(made.by_throttle), writes, quantiles),
    }
    if kind == OPERATION:
        names = pa.array(np.array(WRITES)[writes], pa.string())
        values["writes"] = pc.if_else(pa.array(np.isfinite(seconds)), names, None)
    columns = [values.get(field.name, pa.nulls(count, field.type)) for field in OUT]
    return pa.table(
        [column.cast(field.type) for column, field in zip(columns, OUT, strict=True)], schema=OUT
    )


def _ranges(
    kind: int, seconds: Floats, age_s: Floats, by_throttle: Mask, writes: Ints, quantiles: Floats
) -> dict[str, Any]:
    """The stage and the three quantiles of each row; samples do not say who waits for a turn."""
    holds = held_by(by_throttle, np.zeros_like(by_throttle))
    found = ranges(kind, seconds, age_s, holds, writes, quantiles)
    names = ("p10_s", "p50_s", "p90_s")
    ends = {name: _floats(found.ends_s[:, i]) for i, name in enumerate(names)}
    return {"stage": _floats(found.stage), **ends}


def _floats(values: Floats) -> Any:
    return pa.array(values, pa.float64(), mask=~np.isfinite(values))


def _whole(values: Floats) -> Any:
    known = np.isfinite(values)
    return pa.array(np.where(known, values, 0).astype(np.int64), mask=~known)
