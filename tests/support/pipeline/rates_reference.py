"""The table `rates` by loops over lists, to compare with Spark's: slow, and short enough to see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any

from kshunt.backend.domain.pipeline.result_columns import (
    GAP_S,
    STALL_S,
    TICK_S,
    UNKNOWN_CAUSE,
    WINDOWS,
    RateWindow,
)
from tests.support.pipeline.recorded import Row, time_of


@dataclass(slots=True)
class Anchor:
    """The last sample of a tick. Times in milliseconds."""

    row: Row
    samples: int
    at: int
    leader_at: int
    offset: int | None
    segment: int = 0
    """When it began."""


def reference_rates(rows: Sequence[Row]) -> list[Row]:
    """What `rates` is to give, by rid and tick."""
    ordered = sorted(rows, key=lambda row: (row["rid"], row["at"]))
    made: list[Row] = []
    for _, of_replica in groupby(ordered, key=lambda row: row["rid"]):
        anchors = _anchors(list(of_replica))
        _cut(anchors)
        of_one = [_rate_row(anchors, i) for i in range(len(anchors))]
        made += [row | _copied(of_one, i) for i, row in enumerate(of_one)]
    return made


def _tick(row: Row) -> int:
    return int(row["at"].timestamp()) // TICK_S


def _anchors(rows: Sequence[Row]) -> list[Anchor]:
    ticks = [list(some) for _, some in groupby(rows, key=_tick)]
    return [_anchor(some[-1], len(some)) for some in ticks]


def _anchor(row: Row, samples: int) -> Anchor:
    at, leader_at = (round(row[name].timestamp() * 1000) for name in ("at", "leader_at"))
    return Anchor(row, samples, at, leader_at, row["log_end_offset"])


def _cut(anchors: Sequence[Anchor]) -> None:
    """Find the segments."""
    for i, this in enumerate(anchors):
        this.segment = this.at if _breaks(anchors[:i], this) else anchors[i - 1].segment


def _breaks(before: Sequence[Anchor], this: Anchor) -> bool:
    if not before or this.at - before[-1].at > GAP_S * 1000:
        return True
    if this.row["leader"] != before[-1].row["leader"]:
        return True
    for name in ("log_end_offset", "leader_log_end_offset"):
        known = [a.row[name] for a in before if a.row[name] is not None]
        if known and this.row[name] is not None and this.row[name] < known[-1]:
            return True
    return False


def _base(anchors: Sequence[Anchor], i: int, window: RateWindow) -> int | None:
    """Where a window that ends at an anchor starts."""
    this, step = anchors[i], window.step_s * 1000
    marks = [
        j
        for j in range(i)
        if anchors[j].offset is not None
        and anchors[j + 1].at // step > anchors[j].at // step
        and anchors[j].at <= this.at - window.seconds * 1000
    ]
    if marks and anchors[marks[-1]].segment == this.segment:
        return marks[-1]
    known = (
        j for j in range(i) if anchors[j].segment == this.segment and anchors[j].offset is not None
    )
    return next(known, None)


def _clean(anchors: Sequence[Anchor], base: int, i: int, offset: str, size: str) -> tuple[int, int]:
    """Messages and bytes that a log gained between two anchors, where it did not shrink."""
    messages = gained = 0
    before = None
    for j, anchor in enumerate(anchors[: i + 1]):
        row = anchor.row
        if row[offset] is None or row[size] is None:
            continue
        if before is not None and j > base and before.segment == anchor.segment:
            more = row[size] - before.row[size]
            if more >= 0:
                messages += row[offset] - before.row[offset]
                gained += more
        before = anchor
    return messages, gained


OWN = ("log_end_offset", "size_bytes")
LEADERS = ("leader_log_end_offset", "leader_size_bytes")


def _message_size(
    anchors: Sequence[Anchor], i: int, window: RateWindow, names: tuple[str, str]
) -> float | None:
    base = _base(anchors, i, window)
    if base is None or anchors[i].offset is None:
        return None
    messages, gained = _clean(anchors, base, i, *names)
    return gained / messages if messages > 0 else None


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _in_bytes(messages: float | None, size: float | None) -> float | None:
    if messages == 0:
        return 0.0
    return None if messages is None or size is None else messages * size


def _half_up(value: float) -> int:
    return int(value + 0.5)


def _rate_row(anchors: Sequence[Anchor], i: int) -> Row:
    this = anchors[i]
    row: Row = {**this.row, "samples": this.samples}
    leaders = _message_size(anchors, i, WINDOWS[-1], LEADERS)
    size = _first(_message_size(anchors, i, WINDOWS[-1], OWN), leaders)
    row["bytes_per_message"] = size
    row["tick"] = time_of(this.at - this.at % (TICK_S * 1000))
    row["segment_start"] = time_of(this.segment)
    for window in WINDOWS:
        row |= _window(anchors, i, window, size, leaders)
    row |= _step(anchors, i, size) | _remaining(this, row, size)
    return row


def _window(
    anchors: Sequence[Anchor],
    i: int,
    window: RateWindow,
    size: float | None,
    leaders: float | None,
) -> Row:
    names: tuple[str, ...] = ("catch_up_{}_messages_per_s", "catch_up_{}_bytes_per_s")
    names += ("produced_{}_messages_per_s", "produced_{}_bytes_per_s", "span_{}_s")
    messages, in_bytes, produced, produced_bytes, span = (n.format(window.name) for n in names)
    row: Row = dict.fromkeys((messages, in_bytes, produced, produced_bytes, span))
    base, this = _base(anchors, i, window), anchors[i]
    if base is None or this.offset is None:
        return row
    start = anchors[base]
    assert start.offset is not None
    row[span] = (this.at - start.at) / 1000
    row[messages] = (this.offset - start.offset) / row[span]
    own = _first(_message_size(anchors, i, window, OWN), size)
    row[in_bytes] = _in_bytes(row[messages], own)
    ends = [a.row["leader_log_end_offset"] for a in (start, this)]
    if None not in ends and this.leader_at > start.leader_at:
        row[produced] = (ends[1] - ends[0]) / ((this.leader_at - start.leader_at) / 1000)
        theirs = _first(_message_size(anchors, i, window, LEADERS), leaders, size)
        row[produced_bytes] = _in_bytes(row[produced], theirs)
    return row


def _step(anchors: Sequence[Anchor], i: int, size: float | None) -> Row:
    names = ("elapsed_s", "advanced_messages", "advanced_bytes")
    row: Row = dict.fromkeys(names)
    this = anchors[i]
    before = [j for j in range(i) if anchors[j].offset is not None]
    if this.offset is None or not before or anchors[before[-1]].segment != this.segment:
        return row
    j = before[-1]
    start = anchors[j]
    assert start.offset is not None
    row["elapsed_s"] = (this.at - start.at) / 1000
    advanced = row["advanced_messages"] = this.offset - start.offset
    messages, gained = _clean(anchors, j, i, *OWN)
    guessed = _in_bytes(float(advanced), size)
    row["advanced_bytes"] = (
        gained if messages == advanced else None if guessed is None else _half_up(guessed)
    )
    return row


def _remaining(this: Anchor, row: Row, size: float | None) -> Row:
    end, own = row["leader_log_end_offset"], row["log_end_offset"]
    messages: int | None = None
    if end is not None and own is not None:
        produced = row[f"produced_{WINDOWS[0].name}_messages_per_s"] or 0.0
        grown = max(0.0, produced * ((this.at - this.leader_at) / 1000))
        messages = max(0, _half_up(end - own + grown))
    guessed = _in_bytes(None if messages is None else float(messages), size)
    in_bytes: Any = None if guessed is None else _half_up(guessed)
    return {
        "remaining_messages": messages,
        "remaining_bytes": in_bytes if row["lag_bytes"] is None else row["lag_bytes"],
    }


# Copies


def _copied(rows: Sequence[Row], i: int) -> Row:
    """What a replica was copied since its row before; see `result_columns.RATES`."""
    this, before = rows[i], rows[i - 1] if i else None
    nothing = dict.fromkeys(("copied_from", "copied_bytes", "copied_s"))
    if before is not None and this["at"] - before["at"] > timedelta(seconds=GAP_S):
        before = None
    came = before is not None and _is_copied(before) and this["in_isr"]
    if not _is_copied(this) and not came:
        return nothing
    leader = this["leader"] if _is_copied(this) or before is None else before["leader"]
    found: Row = {"copied_from": leader, "copied_s": this["elapsed_s"]}
    found["copied_bytes"] = this["advanced_bytes"]
    if came and before is not None and None is this["advanced_bytes"]:
        lacked = before["remaining_bytes"]
        left = (this["remaining_bytes"] or 0) if _is_copied(this) else 0
        if lacked is not None:
            found["copied_bytes"] = max(0, lacked - left)
            found["copied_s"] = (this["at"] - before["at"]).total_seconds()
            found["copied_from"] = before["leader"]
    sizes = [r["size_bytes"] for r in rows[:i] if None not in (r["size_bytes"], _end(r))]
    size, known = this["size_bytes"], None not in (this["size_bytes"], _end(this))
    if sizes and known and size < sizes[-1] and found["copied_bytes"] is not None:
        found["copied_bytes"] = min(found["copied_bytes"], size)
    return found


def _end(row: Row) -> int | None:
    end: int | None = row["log_end_offset"]
    return end


def _is_copied(row: Row) -> bool:
    return (row["adding"] or not row["in_isr"]) and row["leader"] not in (None, row["broker"])


# Stalls


def reference_stalls(rates: Sequence[Row]) -> list[tuple[Any, ...]]:
    """(rid, start, end, open, cause), as the table is described."""
    newest = max(row["at"] for row in rates)
    found: list[tuple[Any, ...]] = []
    for rid, some in groupby(rates, key=lambda row: row["rid"]):
        island: list[Row] = []
        known: int | None = None
        rows = list(some)
        for row in rows:
            offset = row["log_end_offset"]
            advanced = None not in (offset, known) and offset > known
            near = island and row["at"] - island[-1]["at"] <= timedelta(seconds=GAP_S)
            if not _wants(row) or advanced or not near:
                found += _stall(rid, island, open=False)
                island = []
            if _wants(row):
                island.append(row)
            known = known if offset is None else offset
        seen = newest - rows[-1]["at"] <= timedelta(seconds=GAP_S)
        found += _stall(rid, island, open=seen)
    return found


def _wants(row: Row) -> bool:
    lags = (row["lag_messages"], row["remaining_messages"])
    lag = next((lag for lag in lags if lag is not None), 1)
    return (not row["in_isr"] or row["adding"]) and lag > 0


def _stall(rid: int, island: Sequence[Row], *, open: bool) -> list[tuple[Any, ...]]:
    if not island or island[-1]["at"] - island[0]["at"] < timedelta(seconds=STALL_S):
        return []
    # Of several with equal votes, the one that comes first in the reversed order was seen last.
    votes = Counter(row["cause"].lower() for row in reversed(island) if row["cause"])
    cause = votes.most_common(1)[0][0] if votes else UNKNOWN_CAUSE
    return [(rid, island[0]["at"], island[-1]["at"], open, cause)]


def tick_after(rows: Sequence[Row], share: float) -> Any:
    """A tick's begin with about this share of the samples before it."""
    times = sorted(row["at"] for row in rows)
    at = times[int(share * (len(times) - 1))]
    return at - timedelta(seconds=at.second % TICK_S, microseconds=at.microsecond)
