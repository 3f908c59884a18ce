"""The table `throttle_effect`, with arrays.

`kshunt.backend.pipeline.tables.throttle_effect` makes the same by Spark, and says what it means.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kshunt.backend.domain.pipeline.result_columns import THROTTLE_EFFECT, TICK_S
from kshunt.backend.domain.throttles.configs import RATE_MIN_BYTES_PER_S, RATE_SPARE
from kshunt.backend.pipeline.kernels.nan_arithmetic import Floats, ratio
from kshunt.backend.pipeline.kernels.replica_runs import NULL, Bools, Ints
from kshunt.backend.pipeline.kernels.throttle_advice import (
    BINDS,
    BINDS_ALL,
    BINDS_ALONE,
    FOLLOWER,
    GREW,
    HELD_ELSEWHERE,
    LAG_S,
    LAGGING,
    LEADER,
    LOWER,
    MOSTLY_USED,
    NOT_LOWER,
    PAUSED,
    PUSHED_OUT,
    RAISE,
    SEEN_S,
    SHORT,
    SLACK,
    SLACK_LEFT,
)
from kshunt.backend.pipeline.light.followers import COLUMNS, SLICE_MS, Followers, steady_by_side
from kshunt.backend.pipeline.light.grouped import Groups, at_places, known_only, moments
from kshunt.backend.pipeline.light.light_tables import Rates, in_columns

_TICK_MS: Final = TICK_S * 1000
_KEEP, _LOWER, _RAISE, _NO_EFFECT = "keep", "lower", "raise", "no effect"


def throttle_effect(rates: Rates, start_ms: int) -> Any:
    """The table `throttle_effect` from a moment on; a piece is right if `rates` has all of it and
    what is before."""
    rows = Followers.of(rates(COLUMNS))
    each = _listed(rows)
    shares = {LEADER: _share(each, each.leader, each.leader_rate)}
    shares[FOLLOWER] = _share(each, each.follower, each.follower_rate)
    steady = steady_by_side(rows)
    made = [
        _advised(_by_rate(each, shares[side], shares[other], start_ms), side, steady[side])
        for side, other in ((LEADER, FOLLOWER), (FOLLOWER, LEADER))
    ]
    return pa.concat_tables(made)


# What was achieved


@dataclass(frozen=True, eq=False)
class _Each:
    """Of each piece of time and replica what it advanced under each pair of rates."""

    piece: Ints
    rid: Ints
    leader: Ints
    leader_rate: Ints
    follower: Ints
    follower_rate: Ints
    copy: Bools
    start: Floats
    """Milliseconds; NaN: nothing was copied."""
    end: Floats
    ticks: Ints
    """In which something could be copied, a bit each."""
    copied: Floats
    """Bytes."""
    in_sync: Floats
    """Bytes, while it was in the ISR."""
    in_sync_s: Floats
    written: Floats
    held: Ints
    """Rows in which it was out of the ISR."""


def _listed(rows: Followers) -> _Each:
    r = rows.some((rows.leader_rate != NULL) | (rows.follower_rate != NULL))
    within = r.at % SLICE_MS
    # What it advanced before the piece began is not of it.
    inside = np.fmin(1.0, ratio(within.astype(np.float64), r.elapsed_s * 1000))
    last = within // _TICK_MS + 1
    elapsed = np.floor(np.nan_to_num(r.elapsed_s) / TICK_S + 0.5).astype(np.int64)
    ticks = np.maximum(1, np.minimum(elapsed, last))
    mask = ((1 << ticks) - 1) << (last - ticks)
    known = ~np.isnan(r.advanced)
    works, rests = r.copied & known & ~r.excused, ~r.copied & known
    keys = (r.piece, r.rid, r.leader, r.leader_rate, r.follower, r.follower_rate)
    groups = Groups.by(*keys)
    gained, at = r.advanced * inside, np.where(r.copied, r.at.astype(np.float64), np.nan)
    piece, rid, leader, leader_rate, follower, follower_rate = map(groups.first, keys)
    return _Each(
        piece=piece,
        rid=rid,
        leader=leader,
        leader_rate=leader_rate,
        follower=follower,
        follower_rate=follower_rate,
        copy=groups.any(r.copied),
        start=groups.least(at),
        end=groups.most(at),
        ticks=groups.bits(np.where(works, mask, 0)),
        copied=groups.sum(np.where(works, gained, np.nan)),
        in_sync=groups.sum(np.where(rests, gained, np.nan)),
        in_sync_s=groups.sum(np.where(rests, r.elapsed_s * inside, np.nan)),
        written=groups.mean(r.written),
        held=groups.count(~r.in_isr & ~r.excused),
    )


@dataclass(frozen=True, eq=False)
class _Share:
    """What all that share a rate of one side use of it together."""

    groups: Groups
    """By piece of time, owner and rate."""
    owner: Ints
    rate: Ints
    first: Bools
    """Of each row: a replica that had two leaders, or rates, under one rate of this side counts
    once."""
    took: Floats
    """Of each row."""
    seconds: Floats
    """Of each group."""
    used: Floats
    """Of each group, B/s."""


def _share(each: _Each, owner: Ints, rate: Ints) -> _Share:
    groups = Groups.by(each.piece, owner, rate)
    order = np.lexsort(
        (each.follower_rate, each.leader_rate, each.leader, ~each.copy, each.rid, groups.of)
    )
    begins = np.ones(len(order), np.bool_)
    of, rid = groups.of[order], each.rid[order]
    begins[1:] = (of[1:] != of[:-1]) | (rid[1:] != rid[:-1])
    first = np.empty(len(order), np.bool_)
    first[order] = begins
    seconds = np.array([mask.bit_count() for mask in groups.bits(each.ticks).tolist()], np.float64)
    seconds *= TICK_S
    took = ratio(each.in_sync, np.fmax(seconds[groups.of], each.in_sync_s))
    used = ratio(groups.sum(each.copied), seconds) + np.nan_to_num(groups.sum(took))
    return _Share(groups, owner, rate, first, took, seconds, used)


@dataclass(frozen=True, eq=False)
class _Effects:
    """One row a rate in force under which something was copied."""

    piece: Ints
    owner: Ints
    rate: Ints
    start: Floats
    end: Floats
    seconds: Floats
    used: Floats
    copies: Ints
    achieved: Floats
    in_sync: Floats
    written: Floats
    held_elsewhere: Floats

    @property
    def share_used(self) -> Floats:
        """Of the rate."""
        return self.used / self.rate


def _by_rate(each: _Each, own: _Share, other: _Share, start_ms: int) -> _Effects:
    groups = own.groups
    used_there = other.used[other.groups.of]
    bound = (other.rate != NULL) & (used_there >= other.rate.astype(np.float64) * BINDS)
    held = groups.whole_sum(each.held).astype(np.float64)
    held_there = groups.whole_sum(np.where(bound, each.held, 0)).astype(np.float64)
    found = _Effects(
        piece=groups.first(each.piece),
        owner=groups.first(own.owner),
        rate=groups.first(own.rate),
        start=groups.least(each.start),
        end=groups.most(each.end),
        seconds=own.seconds,
        used=own.used,
        copies=groups.count(own.first & each.copy),
        achieved=ratio(groups.sum(each.copied), own.seconds),
        in_sync=groups.sum(own.took),
        written=groups.sum(np.where(own.first, each.written, np.nan)),
        held_elsewhere=ratio(held_there, held),
    )
    which = (found.rate != NULL) & (found.start >= start_ms)
    return _Effects(*(getattr(found, field.name)[which] for field in fields(found)))


# Advice


def _advised(e: _Effects, side: str, steady: Any) -> Any:
    """The rows of one side, with what became of the followers that share it."""
    place = steady.places(e.piece, e.owner)

    def counted(values: Ints) -> Ints:
        return np.array([values[at] if at >= 0 else 0 for at in place.tolist()], np.int64)

    first, second = at_places(steady.p95_first_s, place), at_places(steady.p95_second_s, place)
    grew = second >= np.fmax(LAG_S, first * GREW)
    followers, pushed = counted(steady.steady), counted(steady.pushed_out) > 0
    lower, higher = _other_rates(e)
    advice, reason = _advice(e, pushed, grew, followers == 0, lower < e.rate)
    asked = {_RAISE: higher, _LOWER: lower}
    recommended = [int(asked.get(what, e.rate)[n]) for n, what in enumerate(advice)]
    return in_columns(
        THROTTLE_EFFECT,
        {
            "start": moments(e.start),
            "end": moments(e.end),
            "seconds": e.seconds,
            "broker": e.owner,
            "direction": pa.array([side] * len(advice), pa.string()),
            "permitted_bytes_per_s": e.rate,
            "copies": e.copies,
            "achieved_bytes_per_s": known_only(e.achieved),
            "in_sync_bytes_per_s": known_only(e.in_sync),
            "share_used": known_only(e.share_used),
            "written_bytes_per_s": known_only(e.written),
            "held_elsewhere": known_only(e.held_elsewhere),
            "steady": followers,
            "left_isr": counted(steady.left),
            "joined_isr": counted(steady.joined),
            "steady_lag_p50_s": known_only(at_places(steady.lag_p50_s, place)),
            "steady_lag_p95_s": known_only(at_places(steady.lag_p95_s, place)),
            "steady_lag_change_s": known_only(second - first),
            "advice": pa.array(advice, pa.string()),
            "recommended_bytes_per_s": pa.array(recommended, pa.int64()),
            "reason": pa.array(reason, pa.string()),
        },
    )


def _other_rates(e: _Effects) -> tuple[Ints, Ints]:
    """A lower one, that still carries what is written, and a higher one."""
    rate, written = e.rate.astype(np.float64), np.nan_to_num(e.written) * RATE_SPARE
    down = _rounded(np.maximum(np.fmin(rate, e.used) * LOWER, written), up=False)
    # Rounded down it might carry less than is written.
    down = np.maximum(np.maximum(down, np.ceil(written).astype(np.int64)), RATE_MIN_BYTES_PER_S)
    return down, _rounded(np.maximum(rate * RAISE, written), up=True)


def _rounded(rate: Floats, *, up: bool) -> Ints:
    """Two figures of it."""
    digits = np.floor(np.log10(np.where(rate > 0, rate, 1.0)))
    unit = np.power(10.0, np.maximum(digits - 1, 0))
    whole = np.ceil(rate / unit) if up else np.floor(rate / unit)
    return np.asarray(whole * unit).astype(np.int64)


def _advice(
    e: _Effects, pushed: Bools, grew: Bools, nobody: Bools, lower: Bools
) -> tuple[list[str], list[str]]:
    """Of each row advice and reason: the first whose condition holds."""
    used, suffers = e.share_used, pushed | grew
    cases: tuple[tuple[Bools, str, str], ...] = (
        (e.rate <= RATE_MIN_BYTES_PER_S, _KEEP, PAUSED),
        (e.seconds < SEEN_S, _KEEP, SHORT),
        (pushed & lower, _LOWER, PUSHED_OUT),
        (suffers & lower, _LOWER, LAGGING),
        (suffers, _KEEP, NOT_LOWER),
        ((used >= BINDS) & nobody, _RAISE, BINDS_ALONE),
        (used >= BINDS, _RAISE, BINDS_ALL),
        (e.held_elsewhere >= 0.5, _KEEP, HELD_ELSEWHERE),
        (used < SLACK, _NO_EFFECT, SLACK_LEFT),
        (np.ones(len(used), np.bool_), _KEEP, MOSTLY_USED),
    )
    which = np.argmax([condition for condition, _, _ in cases], axis=0).tolist()
    return [cases[n][1] for n in which], [cases[n][2] for n in which]
