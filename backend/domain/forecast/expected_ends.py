"""When operations, and all that moves, will be done: of an outlook on their copies.

Goals
    One end for each, as a range, with what it waits for until then and the bytes on the way.
Algorithm
    An operation is over when the last of its copies is; what never arrives is counted apart. What
    holds up the copy that ends last holds up the operation: another resource's bytes do not
    matter. Ranges are those of `ranges`; the burndown is stretched to their middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints
from kshunt.backend.domain.forecast.outlook import UNKNOWN, Outlook
from kshunt.backend.domain.forecast.ranges import (
    HOLDS,
    OPERATION,
    WRITES,
    held_by,
    ranges,
    writes_place,
)
from kshunt.backend.domain.replicas.expected_end_values import (
    Bottleneck,
    ExpectedEnd,
    Resource,
    ResourceKind,
    Shortage,
)
from kshunt.backend.domain.throttles.configs import RATE_MIN_BYTES_PER_S

POINTS_MAX: Final = 24
"""Of a burndown."""
BOTTLENECKS_MAX: Final = 6
BRIEF: Final = 0.03
"""What holds it up for a smaller share of the time is not told."""
SPARE: Final = 1.1
"""What is written varies; a rate that would do has so much to spare."""
ARRIVE_S: Final = 3_600.0
"""In about this time copies arrive under the rate that is named."""
HELD: Final = "held by a pause"
TURN: Final = Resource(ResourceKind.TURN)


@dataclass(frozen=True, eq=False)
class Group:
    """Copies that are done together."""

    rows: Ints
    """Places of its copies."""
    age_s: float
    """For how long it has been watched."""


def expected_ends(
    found: Outlook, groups: Sequence[Group], quantiles: Floats, at_ms: int
) -> list[ExpectedEnd]:
    """Of each group; `quantiles` as `ranges` takes them."""
    last = np.array([_last(found, group.rows) for group in groups], np.int64)
    seconds = np.where(last >= 0, found.seconds[last], np.inf) if len(last) else np.empty(0)
    age_s = np.array([group.age_s for group in groups])
    by_throttle = found.held_by_throttle[last] & (last >= 0) if len(last) else last > 0
    waiting = np.array([found.copies.waiting[group.rows].sum() for group in groups], np.int64)
    holds = held_by(by_throttle, waiting > 0)
    writes = np.array(
        [
            writes_place(found.copies, group.rows, end_s)
            for group, end_s in zip(groups, seconds.tolist(), strict=True)
        ],
        np.int64,
    )
    made = ranges(OPERATION, seconds, age_s, holds, writes, quantiles)
    on_the_way = _on_the_way(found, last)
    burndowns = _burndowns(found, groups)
    ends = []
    for place, group in enumerate(groups):
        low, middle, high = (
            None if np.isnan(end) else round(end, 1) for end in made.ends_s[place].tolist()
        )
        stretch = 1.0 if middle is None else middle / max(float(seconds[place]), 1e-9)
        never, unknown, held = _counts(found, group.rows)
        ends.append(
            ExpectedEnd(
                at_ms,
                len(group.rows),
                low,
                middle,
                high,
                never=never,
                unknown=unknown,
                held=held,
                waiting=int(waiting[place]),
                held_by=HOLDS[holds[place]],
                writes=WRITES[writes[place]],
                watched_s=round(group.age_s, 1),
                bottlenecks=_bottlenecks(found, on_the_way[place], float(seconds[place]), stretch),
                shortage=_shortage(found, group.rows),
                why=_why(found, group.rows),
                burndown=_thinned(burndowns[place], float(seconds[place]), stretch),
                left_bytes=_left_bytes(found, group.rows),
                model_s=None if middle is None else round(float(seconds[place]), 1),
            )
        )
    return ends


def _last(found: Outlook, rows: Ints) -> int:
    """The copy that ends last of those that end; -1 where none does."""
    finite = rows[np.isfinite(found.seconds[rows])]
    return int(finite[found.seconds[finite].argmax()]) if len(finite) else -1


def _counts(found: Outlook, rows: Ints) -> tuple[int, int, int]:
    """Who never arrives, of whom that is not known, and who is held."""
    words = [found.why[row] for row in rows.tolist()]
    unknown = sum(word in UNKNOWN for word in words)
    held, arrives = words.count(HELD), words.count("")
    return len(words) - unknown - held - arrives, unknown, held


def _why(found: Outlook, rows: Ints) -> str:
    """The commonest reason of those that do not arrive."""
    words = [found.why[row] for row in rows.tolist()]
    kept = [word for word in words if word not in ("", HELD, *UNKNOWN)]
    return max(sorted(set(kept)), key=kept.count) if kept else ""


def _left_bytes(found: Outlook, rows: Ints) -> int | None:
    """What these copies lack; None where that is not known of one of them."""
    left = float(found.copies.remaining_bytes[rows].sum())
    return round(left) if np.isfinite(left) else None


# What holds it up

_Way = list[tuple[float, int]]
"""From when on, and the number of a resource; -1: its turn has not come."""


def _on_the_way(found: Outlook, last: Ints) -> list[_Way]:
    """Of each of some copies what holds it up, moment by moment."""
    ways: list[_Way] = [[] for _ in last]
    place_in_run = np.full(len(found.copies) + 1, -1)
    place_in_run[found.ran] = np.arange(len(found.ran))
    wanted = place_in_run[last]
    where = np.full(len(found.ran) + 1, -1)
    for moment in found.run.moments:
        where[moment.active] = np.arange(len(moment.active))
        places = where[wanted]
        for way, place in zip(ways, places.tolist(), strict=True):
            if place >= 0:
                way.append((moment.at_s, int(moment.tight[place])))
        where[moment.active] = -1
    for way, run in zip(ways, wanted.tolist(), strict=True):
        if run >= 0 and found.run.begins_s[run] > 0:
            way.insert(0, (0.0, -1))
    return ways


def _bottlenecks(
    found: Outlook, way: _Way, seconds: float, stretch: float
) -> tuple[Bottleneck, ...]:
    """What holds it up in turn; the time of what does so briefly is given to what follows."""
    if not np.isfinite(seconds):
        return ()
    kept: list[tuple[int, float]] = []
    begins_s = 0.0
    for number, until_s in _merged(way, seconds):
        if until_s - begins_s < BRIEF * seconds and until_s < seconds:
            continue
        begins_s = until_s
        if kept and kept[-1][0] == number:
            kept.pop()
        kept.append((number, until_s))
    named = [
        Bottleneck(resource, round(until_s * stretch, 1))
        for number, until_s in kept
        if (resource := TURN if number < 0 else found.limits.resource(number)) is not None
    ]
    return tuple(named[:BOTTLENECKS_MAX])


def _merged(way: _Way, seconds: float) -> Iterator[tuple[int, float]]:
    """Each resource, and until when it holds, one after the other."""
    for place, (_, number) in enumerate(way):
        if place + 1 == len(way):
            yield number, seconds
        elif way[place + 1][1] != number:
            yield number, way[place + 1][0]


# What never arrives


def _shortage(found: Outlook, rows: Ints) -> Shortage | None:
    """Of the resource that keeps most of these copies from arriving; None where none does."""
    never = rows[found.never[rows]]
    tight = found.tight[never]
    tight = tight[tight < found.limits.nothing]
    if not len(tight):
        return None
    number = int(np.bincount(tight).argmax())
    resource = found.limits.resource(number)
    if resource is None:
        return None
    rate, in_sync = found.throttle(resource)
    through = (found.ways.passes == number).any(axis=1)
    written = in_sync + float(np.nansum(found.copies.written_bytes_per_s[through]))
    lacks = float(np.nansum(found.copies.remaining_bytes[through]))
    if not np.isfinite(rate):
        return Shortage(resource, round(float(found.ways.capacity[number])), round(written), None)
    needs = max(SPARE * written + lacks / ARRIVE_S, RATE_MIN_BYTES_PER_S)
    return Shortage(resource, round(rate), round(written), int(np.ceil(needs / 1_000)) * 1_000)


# The bytes on the way


def _burndowns(found: Outlook, groups: Sequence[Group]) -> list[list[tuple[float, float]]]:
    """Of each group the bytes that are left of copies that arrive, moment by moment."""
    arrives = np.isfinite(found.seconds)
    member = np.zeros((len(groups), len(found.copies)), np.bool_)
    for place, group in enumerate(groups):
        member[place, group.rows] = arrives[group.rows]
    weights = member[:, found.ran].astype(np.float64)
    left = found.copies.remaining_bytes[found.ran].copy()
    waits = found.copies.waiting[found.ran]
    points: list[list[tuple[float, float]]] = [[] for _ in groups]
    for moment in found.run.moments:
        waits[moment.active] = False
        left[~waits] = 0.0
        left[moment.active] = moment.remaining_bytes
        for mine, sum_bytes in zip(points, (weights @ left).tolist(), strict=True):
            mine.append((moment.at_s, sum_bytes))
    return points


def _thinned(
    points: list[tuple[float, float]], seconds: float, stretch: float
) -> tuple[tuple[float, int], ...]:
    """At most `POINTS_MAX` of them, to the end; none where it does not end."""
    if not np.isfinite(seconds):
        return ()
    before = [point for point in points if point[0] < seconds]
    step = max(1, -(-len(before) // (POINTS_MAX - 1)))
    chosen = [(round(at_s * stretch, 1), round(left)) for at_s, left in before[::step]]
    return (*chosen, (round(seconds * stretch, 1), 0))
