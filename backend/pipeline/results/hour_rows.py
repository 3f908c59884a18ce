"""Figures of hours as rows of their roll-ups, and back.

Each hour has a row in each of these tables. Where there is nothing to say, its key is null: the row
says that the hour was looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from kshunt.backend.arrow_rows import millis_column
from kshunt.backend.domain.pipeline.roll_up_columns import (
    BOTTLENECKS_BY_HOUR,
    FORECASTS_BY_HOUR,
    ISR_DROPS_BY_HOUR,
    MOVES_BY_HOUR,
    OPERATIONS_BY_HOUR,
    TOPICS_BY_HOUR,
)
from kshunt.backend.pipeline.results.hour_figures import (
    CopyOfOperation,
    HourFigures,
    IsrDrop,
)
from kshunt.backend.pipeline.results.hour_forecasts import FirstForecast, HourForecasts

Columns = dict[str, Any]
Row = dict[str, Any]
Tables = Mapping[str, Any]
"""Rows of roll-ups by the table's name."""


def moves_columns(hour: HourFigures | None) -> Columns:
    """One row; without rows of rates it has no newest one."""
    found = hour or HourFigures(0)
    return {
        "newest": [None if hour is None else hour.newest_ms],
        "own_bytes": [found.copied_bytes],
        "others_bytes": [found.others_bytes],
        "behind_bytes": [found.behind_bytes],
        "throttled_min": [found.throttled_minutes],
        "idle_min": [found.idle_minutes],
    }


def operations_columns(hour: HourFigures | None, start_ms: int) -> Columns:
    """A row a copy."""
    looked: Row = dict.fromkeys(("operation_id", "rid", "out", "arrived", "added"))
    looked |= {"first": start_ms, "last": start_ms, "copied_bytes": 0.0}
    rows = [
        {
            "operation_id": operation,
            "rid": rid,
            "first": copy.first_ms,
            "last": copy.last_ms,
            "out": copy.out_ms,
            "arrived": copy.arrived_ms,
            "added": copy.added,
            "copied_bytes": copy.copied_bytes,
        }
        for (operation, rid), copy in (hour.copies if hour else {}).items()
    ]
    return _columns([looked, *rows])


def topics_columns(hour: HourFigures | None) -> Columns:
    """A row a topic."""
    written = hour.written if hour else {}
    return {"topic": [None, *written], "written_bytes": [0, *written.values()]}


def drops_columns(hour: HourFigures | None, start_ms: int) -> Columns:
    """A row a replica that left the ISR."""
    looked: Row = {"topic": None, "partition": None, "broker": None, "at": start_ms}
    rows = [
        {"topic": one.topic, "partition": one.partition, "broker": one.broker, "at": one.at_ms}
        for one in (hour.drops if hour else ())
    ]
    return _columns([looked, *rows])


def forecasts_columns(hour: HourForecasts) -> Columns:
    """A row an operation that has a first forecast, and one a version of the model."""
    names = ("operation_id", "model", "at", "p10_s", "p50_s", "p90_s")
    rows: list[tuple[Any, ...]] = [(None, model, *(None,) * 4) for model in sorted(hour.models)]
    rows += [
        (operation, None, one.at_ms, one.p10_s, one.p50_s, one.p90_s)
        for operation, one in hour.first.items()
    ]
    rows = rows or [(None,) * len(names)]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _columns(rows: Sequence[Row]) -> Columns:
    return {name: [row[name] for row in rows] for name in rows[0]}


# Back


def hours_of(tables: Tables) -> dict[int, HourFigures]:
    """By when they begin, the hours that have rows of rates."""
    found = {
        row["start"]: HourFigures(
            row["newest"],
            row["own_bytes"],
            row["others_bytes"],
            row["behind_bytes"],
            row["throttled_min"],
            row["idle_min"],
            written={},
        )
        for row in _rows(tables[MOVES_BY_HOUR.name])
        if row["newest"] is not None
    }
    written: dict[int, dict[str, int]] = defaultdict(dict)
    for row in _keyed(tables[TOPICS_BY_HOUR.name], "topic"):
        written[row["start"]][row["topic"]] = row["written_bytes"]
    for start_ms, hour in found.items():
        hour.written = written[start_ms]
    for row in _keyed(tables[ISR_DROPS_BY_HOUR.name], "topic"):
        drop = IsrDrop(row["at"], row["topic"], row["partition"], row["broker"])
        found[row["start"]].drops.append(drop)
    for row in _keyed(tables[OPERATIONS_BY_HOUR.name], "operation_id"):
        found[row["start"]].copies[row["operation_id"], row["rid"]] = CopyOfOperation(
            first_ms=row["first"],
            last_ms=row["last"],
            out_ms=row["out"],
            arrived_ms=row["arrived"],
            added=bool(row["added"]),
            copied_bytes=row["copied_bytes"],
        )
    return found


def forecasts_by_hour(tables: Tables) -> dict[int, HourForecasts]:
    """By when they begin, the hours that were looked at."""
    found: dict[int, HourForecasts] = defaultdict(HourForecasts)
    for row in _rows(tables[FORECASTS_BY_HOUR.name]):
        hour = found[row["start"]]
        if row["model"] is not None:
            hour.models.add(row["model"])
        if row["operation_id"] is not None:
            seconds = (row[name] for name in ("p10_s", "p50_s", "p90_s"))
            hour.first[row["operation_id"]] = FirstForecast(row["at"], *seconds)
    for row in _keyed(tables[BOTTLENECKS_BY_HOUR.name], "bound"):
        if row["start"] in found:
            found[row["start"]].held_s[row["bound"], row["operation_id"]] += row["seconds"]
    return dict(found)


def _keyed(table: Any, key: str) -> list[Row]:
    return [row for row in _rows(table) if row[key] is not None]


def _rows(table: Any) -> list[Row]:
    """Times in milliseconds."""
    for name in ("start", "newest", "first", "last", "out", "arrived", "at"):
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, millis_column(table[name]))
    found: list[Row] = table.to_pylist()
    return found
