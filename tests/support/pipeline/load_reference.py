"""What `throttle_effect` and `broker_load` are, by loops over lists of dicts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS
from tests.support.pipeline.recorded import Row, time_of

SLICE_MS = 300_000
BEFORE_MS = 75_000
NOT_ITS_FAULT = ("BROKER_DOWN", "LOG_DIR_OFFLINE", "NO_LEADER", "SOURCE_UNREACHABLE")
Key = tuple[int, str, int, int]


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def percentile(values: Iterable[float | None], share: float) -> float | None:
    """Between the two nearest, as SQL has it."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    place = share * (len(known) - 1)
    low, high = known[math.floor(place)], known[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known) / len(known)) if known else None


def reference_effects(rates: Sequence[Row]) -> list[Row]:
    """The table `throttle_effect`."""
    followers = [r for r in rates if r["leader"] is not None and r["leader"] != r["broker"]]
    rows = [
        {"key": key, **_interval(key, some), **_others(key, followers)}
        for key, some in sorted(_under(followers).items())
        if any(map(_copied, some))
    ]
    used = {row["key"]: row["share_used"] for row in rows}
    return [_advised(row, _elsewhere(row["key"], followers, used)) for row in rows]


def _sides(row: Row) -> tuple[tuple[str, int, int | None], tuple[str, int, int | None]]:
    return (
        ("leader", row["leader"], row["leader_throttle_bytes_per_s"]),
        ("follower", row["broker"], row["follower_throttle_bytes_per_s"]),
    )


def _copied(row: Row) -> bool:
    return bool(row["adding"] or not row["in_isr"])


def _under(followers: Sequence[Row]) -> Mapping[Key, list[Row]]:
    """The rows that each rate is in force for, in each piece of time."""
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in followers:
        for side, owner, rate in _sides(row):
            if rate is not None:
                found[ms(row["at"]) // SLICE_MS, side, owner, rate].append(row)
    return found


def _inside(row: Row) -> float:
    """The share of what it advanced that is of the piece of time."""
    return float(min(1.0, ms(row["at"]) % SLICE_MS / (row["elapsed_s"] * 1000)))


def _interval(key: Key, rows: Sequence[Row]) -> Row:
    copies = [row for row in rows if _copied(row)]
    ticks: set[int] = set()
    copied = 0.0
    for row in copies:
        if row["advanced_bytes"] is not None and row["cause"] not in NOT_ITS_FAULT:
            last = ms(row["at"]) % SLICE_MS // 5000
            # Half a tick more or less is rounded as SQL does it.
            count = max(1, min(math.floor(row["elapsed_s"] / 5 + 0.5), last + 1))
            ticks |= set(range(last - count + 1, last + 1))
            copied += row["advanced_bytes"] * _inside(row)
    seconds = 5.0 * len(ticks)
    took: dict[tuple[Any, ...], list[float]] = {}
    written: dict[int, dict[tuple[Any, ...], list[float | None]]] = defaultdict(dict)
    pairs = {(row["rid"], *_pair(row)) for row in copies}
    for row in rows:
        pair = _pair(row)
        # Of a replica with two leaders or rates the first counts, and a copy before others.
        place = ((row["rid"], *pair) not in pairs, *pair)
        written[row["rid"]].setdefault(place, []).append(row["produced_30s_bytes_per_s"])
        if not _copied(row) and row["advanced_bytes"] is not None:
            sums = took.setdefault((row["rid"], *pair), [0.0, 0.0])
            sums[0] += row["advanced_bytes"] * _inside(row)
            sums[1] += row["elapsed_s"] * _inside(row)
    shares = [gained / max(seconds, over) for gained, over in took.values() if seconds or over]
    in_sync = sum(shares) if shares else None
    achieved = copied / seconds if seconds else None
    used = None if achieved is None else achieved + (in_sync or 0.0)
    return {
        "start": min(row["at"] for row in copies),
        "end": max(row["at"] for row in copies),
        "seconds": seconds,
        "broker": key[2],
        "direction": key[1],
        "permitted_bytes_per_s": key[3],
        "copies": len({row["rid"] for row in copies}),
        "achieved_bytes_per_s": achieved,
        "in_sync_bytes_per_s": in_sync,
        "written_bytes_per_s": _sum(mean(by[min(by)]) for by in written.values()),
        "used": used,
        "share_used": None if used is None else used / key[3],
    }


def _pair(row: Row) -> tuple[int, int, int]:
    leader_rate, own = row["leader_throttle_bytes_per_s"], row["follower_throttle_bytes_per_s"]
    return row["leader"], -1 if leader_rate is None else leader_rate, -1 if own is None else own


def _others(key: Key, followers: Sequence[Row]) -> Row:
    """What became of the replicas that the interval's broker leads, or hosts."""
    piece, side, owner, _ = key
    start = piece * SLICE_MS
    by_rid: dict[int, list[Row]] = defaultdict(list)
    for row in followers:
        if start - BEFORE_MS <= ms(row["at"]) < start + SLICE_MS:
            by_rid[row["rid"]].append(row)
    each = []
    for some in by_rid.values():
        last = max(some, key=lambda row: row["at"])
        whose = last["leader"] if side == "leader" else last["broker"]
        if ms(last["at"]) >= start and whose == owner:
            each.append(_replica(some, start))
    halves = [one for one in each if None not in (one["first"], one["second"])]
    return {
        **{name: sum(one[name] for one in each) for name in ("steady", "left_isr", "joined_isr")},
        "pushed": sum(one["left_isr"] and one["at_fault"] for one in each),
        "steady_lag_p50_s": percentile((one["lag"] for one in each), 0.5),
        "steady_lag_p95_s": percentile((one["lag"] for one in each), 0.95),
        "first": percentile((one["first"] for one in halves), 0.95),
        "second": percentile((one["second"] for one in halves), 0.95),
    }


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _replica(rows: Sequence[Row], start: int) -> Row:
    prior = [row for row in rows if ms(row["at"]) < start]
    here = [row for row in rows if ms(row["at"]) >= start]
    last = max(prior, key=lambda row: row["at"], default=None)
    steady = [row for row in here if row["in_isr"] and not _moves(row)]
    outs = [row for row in here if not row["in_isr"] and not _moves(row)]
    was_in = last is not None and last["in_isr"] and not _moves(last)
    was_out = last is not None and not last["in_isr"]
    first_in = min((row["at"] for row in steady), default=None)
    last_out = max((row["at"] for row in outs), default=None)
    first_out = min((row["at"] for row in here if not row["in_isr"]), default=None)
    last_in = max((row["at"] for row in here if row["in_isr"]), default=None)
    middle = start + SLICE_MS // 2
    return {
        "steady": bool(steady or was_in),
        "left_isr": bool(outs) and (was_in or (first_in is not None and last_out > first_in)),
        "joined_isr": last_in is not None
        and (was_out or (first_out is not None and last_in > first_out)),
        "at_fault": any(row["cause"] not in NOT_ITS_FAULT for row in outs),
        "lag": mean(_lag_s(row) for row in steady),
        "first": mean(_lag_s(row) for row in steady if ms(row["at"]) < middle),
        "second": mean(_lag_s(row) for row in steady if ms(row["at"]) >= middle),
    }


def _moves(row: Row) -> bool:
    return bool(row["adding"] or row["removing"])


def _lag_s(row: Row) -> float | None:
    lag, written = row["lag_messages"], row["produced_30s_messages_per_s"]
    if lag == 0:
        return 0.0
    return None if lag is None or not written else lag / written


def _elsewhere(
    key: Key, followers: Sequence[Row], used: Mapping[Key, float | None]
) -> float | None:
    held = bound = 0
    for row in followers:
        piece = ms(row["at"]) // SLICE_MS
        own, other = sorted(_sides(row), key=lambda side: side[0] != key[1])
        if row["in_isr"] or (piece, *own) != key or row["cause"] in NOT_ITS_FAULT:
            continue
        held += 1
        bound += other[2] is not None and (used[piece, other[0], other[1], other[2]] or 0) >= 0.9
    return bound / held if held else None


def _advised(row: Row, elsewhere: float | None) -> Row:
    rate, written = row["permitted_bytes_per_s"], 1.1 * (row["written_bytes_per_s"] or 0.0)
    used = rate if row["used"] is None else row["used"]
    lower = max(_figures(max(0.75 * min(rate, used), written), up=False), math.ceil(written), 1000)
    higher = _figures(max(1.5 * rate, written), up=True)
    advice, reason = _advice(row, elsewhere or 0.0, lower < rate)
    first, second = row.pop("first"), row.pop("second")
    for name in ("key", "used", "pushed"):
        row.pop(name)
    return row | {
        "held_elsewhere": elsewhere,
        "steady_lag_change_s": None if None in (first, second) else second - first,
        "advice": advice,
        "reason": reason,
        "recommended_bytes_per_s": {"raise": higher, "lower": lower}.get(advice, rate),
    }


def _advice(row: Row, elsewhere: float, may_lower: bool) -> tuple[str, str]:
    share, first, second = row["share_used"], row["first"], row["second"]
    grew = None not in (first, second) and second >= max(5.0, 1.5 * first)
    if row["permitted_bytes_per_s"] <= 1000:
        return "keep", "it only holds the copies, as in a pause"
    if row["seconds"] < 30:
        return "keep", "there are too few samples of it"
    if row["pushed"] and may_lower:
        return "lower", "steady followers left the ISR"
    if grew and may_lower:
        return "lower", "steady lag grew"
    if row["pushed"] or grew:
        return "keep", (
            "steady followers fall behind, but a lower rate would not carry what is written"
        )
    if share is not None and share >= 0.9:
        with_whom = "steady followers keep up" if row["steady"] else "no steady follower shares it"
        return (
            "raise",
            f"the throttle is the limit, and {with_whom}",
        )
    if elsewhere >= 0.5:
        return "keep", "the throttle at the other end holds the copies"
    if share is not None and share < 0.8:
        return "no effect", "links, disks or brokers are the limit"
    return "keep", "most of the rate is used"


def _figures(rate: float, *, up: bool) -> int:
    unit = 10.0 ** max(math.floor(math.log10(rate)) - 1, 0) if rate > 0 else 1.0
    return int((math.ceil if up else math.floor)(rate / unit) * unit)


# Brokers


def reference_loads(brokers: Sequence[Row], rates: Sequence[Row]) -> list[Row]:
    """The table `broker_load`, sorted by hour and broker."""
    hours = sorted({ms(row["at"]) // HOUR_MS for row in brokers})
    return [
        _load(hour, broker, brokers, rates)
        for hour in hours
        for broker in sorted({r["broker"] for r in brokers if ms(r["at"]) // HOUR_MS == hour})
    ]


def _load(hour: int, broker: int, brokers: Sequence[Row], rates: Sequence[Row]) -> Row:
    all_here = [row for row in brokers if ms(row["at"]) // HOUR_MS == hour]
    here = sorted((r for r in all_here if r["broker"] == broker), key=lambda row: row["at"])
    start = time_of(hour * HOUR_MS)
    led = {
        one: mean(row["leaders"] for row in all_here if row["broker"] == one) or 0.0
        for one in {row["broker"] for row in all_here}
    }
    every = sum(led.values())
    free = _last(here, "disk_usable_bytes")
    total = _last(here, "disk_total_bytes")
    growth, span = _growth([row for row in brokers if row["broker"] == broker], hour)
    return {
        "start": start,
        "hour_of_week": start.weekday() * 24 + start.hour,
        "broker": broker,
        "samples": len(here),
        "newest": here[-1]["at"],
        "answering": mean(float(row["answering"]) for row in here),
        **{
            f"{way}_bytes_per_s": mean(row[f"{way}_bytes_per_s"] for row in here)
            for way in ("in", "out")
        },
        **{
            f"{way}_max_bytes_per_s": max(
                (r[f"{way}_bytes_per_s"] for r in here if r[f"{way}_bytes_per_s"] is not None),
                default=None,
            )
            for way in ("in", "out")
        },
        "produced_bytes_per_s": _written(rates, hour, broker, leads=True),
        "replicated_bytes_per_s": _written(rates, hour, broker, leads=False),
        "leaders": led[broker],
        "leader_share": led[broker] / every if every else None,
        "replicas": mean(row["replicas"] for row in here),
        "log_bytes": _last(here, "log_bytes"),
        "disk_total_bytes": total,
        "disk_used_bytes": _last_used(here),
        "disk_free_bytes": free,
        "growth_bytes_per_s": growth,
        "growth_span_s": span,
        "full_in_s": None if not growth or growth <= 0 or free is None else free / growth,
    }


def _last(rows: Sequence[Row], name: str) -> Any:
    return next((row[name] for row in reversed(rows) if row[name] is not None), None)


def _used(row: Row) -> int | None:
    total, free = row["disk_total_bytes"], row["disk_usable_bytes"]
    return None if None in (total, free) else total - free


def _last_used(rows: Sequence[Row]) -> int | None:
    return next((used for row in reversed(rows) if (used := _used(row)) is not None), None)


def _growth(rows: Sequence[Row], hour: int) -> tuple[float | None, float | None]:
    """By least squares over the last sample of each five minutes of the 24 hours."""
    end = (hour + 1) * HOUR_MS
    points: dict[int, tuple[int, int]] = {}
    for row in sorted(rows, key=lambda row: row["at"]):
        at, used = ms(row["at"]), _used(row)
        if used is not None and end - 24 * HOUR_MS <= at < end:
            points[at // SLICE_MS] = (at, used)
    if not points:
        return None, None
    times = [at / 1000 for at, _ in points.values()]
    sizes = [float(used) for _, used in points.values()]
    span = max(times) - min(times)
    if len(points) < 3:
        return None, span
    t, y = sum(times) / len(times), sum(sizes) / len(sizes)
    spread = sum((one - t) ** 2 for one in times)
    return sum((a - t) * (b - y) for a, b in zip(times, sizes, strict=True)) / spread, span


def _written(rates: Sequence[Row], hour: int, broker: int, *, leads: bool) -> float | None:
    rows = [
        row
        for row in rates
        if ms(row["at"]) // HOUR_MS == hour
        and row["broker"] == broker
        and row["leader"] is not None
        and (row["leader"] == broker) is leads
        and row["advanced_bytes"] is not None
    ]
    if not rows:
        return None
    since = min(ms(row["at"]) - row["elapsed_s"] * 1000 for row in rows)
    span = (max(ms(row["at"]) for row in rows) - since) / 1000
    return float(sum(row["advanced_bytes"] for row in rows) / span)
