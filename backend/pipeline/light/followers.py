"""Followers as `throttle_effect` looks at them: what they copied, and whether they kept up."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kshunt.backend.domain.pipeline.result_columns import EFFECT_S, WINDOWS
from kshunt.backend.pipeline.kernels.nan_arithmetic import Floats
from kshunt.backend.pipeline.kernels.replica_runs import NULL, Bools, Ints, ints, millis
from kshunt.backend.pipeline.kernels.throttle_advice import (
    BEFORE_S,
    FOLLOWER,
    LEADER,
    NOT_ITS_FAULT,
)
from kshunt.backend.pipeline.light.grouped import Groups, flags, numbers, places_of

SLICE_MS: Final = EFFECT_S * 1000
_WRITTEN: Final = f"produced_{WINDOWS[0].name}"
COLUMNS: Final = (
    "at", "rid", "leader", "broker", "leader_throttle_bytes_per_s", "follower_throttle_bytes_per_s",
    "in_isr", "adding", "removing", "cause", "advanced_bytes", "elapsed_s", "lag_messages",
    f"{_WRITTEN}_messages_per_s", f"{_WRITTEN}_bytes_per_s",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Followers:
    """Rates of replicas that fetch from a leader, as arrays; shape (rows,)."""

    at: Ints
    """Milliseconds."""
    piece: Ints
    """The number of its five minutes."""
    rid: Ints
    leader: Ints
    follower: Ints
    leader_rate: Ints
    """In force, B/s; `NULL`: none."""
    follower_rate: Ints
    in_isr: Bools
    copied: Bools
    """It is added, or out of the ISR."""
    moves: Bools
    """It is added or removed."""
    excused: Bools
    """No throttle is the reason for what it did."""
    advanced: Floats
    """Bytes."""
    elapsed_s: Floats
    lag_s: Floats
    written: Floats
    """To its partition, B/s."""

    @classmethod
    def of(cls, rates: Any) -> Followers:
        """Those of a table of rates with `COLUMNS`."""
        leader, broker = ints(rates["leader"]), ints(rates["broker"])
        rates = rates.filter(pa.array((leader != broker) & (leader != NULL)))
        at, in_isr = millis(rates["at"]), flags(rates["in_isr"])
        adding, removing = flags(rates["adding"]), flags(rates["removing"])
        return cls(
            at=at,
            piece=at // SLICE_MS,
            rid=ints(rates["rid"]),
            leader=ints(rates["leader"]),
            follower=ints(rates["broker"]),
            leader_rate=ints(rates["leader_throttle_bytes_per_s"]),
            follower_rate=ints(rates["follower_throttle_bytes_per_s"]),
            in_isr=in_isr,
            copied=adding | ~in_isr,
            moves=adding | removing,
            excused=flags(pc.is_in(rates["cause"], pa.array(NOT_ITS_FAULT))),
            advanced=numbers(rates["advanced_bytes"]),
            elapsed_s=numbers(rates["elapsed_s"]),
            lag_s=_lag_s(rates),
            written=numbers(rates[f"{_WRITTEN}_bytes_per_s"]),
        )

    def some(self, which: Any) -> Followers:
        """Some of the rows: by a mask, or by their numbers."""
        return Followers(*(getattr(self, field.name)[which] for field in fields(self)))


def _lag_s(rates: Any) -> Floats:
    """By what is written; NaN where it is not known."""
    lag = numbers(rates["lag_messages"])
    messages = numbers(rates[f"{_WRITTEN}_messages_per_s"])
    by_time = np.full(len(lag), np.nan)
    np.divide(lag, messages, out=by_time, where=messages > 0)
    return np.where(lag == 0, 0.0, by_time)


@dataclass(frozen=True, eq=False)
class Steady:
    """Of each piece of time and owner of a side what became of the followers that share it."""

    groups: Groups
    piece: Ints
    owner: Ints
    steady: Ints
    left: Ints
    pushed_out: Ints
    joined: Ints
    lag_p50_s: Floats
    lag_p95_s: Floats
    p95_first_s: Floats
    p95_second_s: Floats

    def places(self, piece: Ints, owner: Ints) -> Ints:
        """Where these are; -1: nothing is known of them."""
        return places_of((piece, owner), (self.piece, self.owner))


@dataclass(frozen=True, eq=False)
class _Replicas:
    """Of each piece of time and replica: when it was in the ISR and out of it, and its lag.

    Times in milliseconds, NaN for never.
    """

    piece: Ints
    leader: Ints
    follower: Ints
    was_in: Bools
    was_out: Bools
    first_in: Floats
    last_out: Floats
    at_fault: Bools
    first_out: Floats
    last_in: Floats
    lag_s: Floats
    lag_first_s: Floats
    lag_second_s: Floats


def steady_by_side(rows: Followers) -> dict[str, Steady]:
    """Of both sides; see `Steady`."""
    each = _each_replica(rows)
    return {LEADER: _steady(each, each.leader), FOLLOWER: _steady(each, each.follower)}


def _steady(each: _Replicas, owner: Ints) -> Steady:
    groups = Groups.by(each.piece, owner)
    left = ~np.isnan(each.last_out) & (each.was_in | (each.last_out > each.first_in))
    joined = ~np.isnan(each.last_in) & (each.was_out | (each.last_in > each.first_out))
    halves = ~np.isnan(each.lag_first_s) & ~np.isnan(each.lag_second_s)
    first, second = (np.where(halves, lag, np.nan) for lag in (each.lag_first_s, each.lag_second_s))
    return Steady(
        groups,
        piece=groups.first(each.piece),
        owner=groups.first(owner),
        steady=groups.count(~np.isnan(each.first_in) | each.was_in),
        left=groups.count(left),
        pushed_out=groups.count(left & each.at_fault),
        joined=groups.count(joined),
        lag_p50_s=groups.percentile(each.lag_s, 0.5),
        lag_p95_s=groups.percentile(each.lag_s, 0.95),
        p95_first_s=groups.percentile(first, 0.95),
        p95_second_s=groups.percentile(second, 0.95),
    )


def _each_replica(rows: Followers) -> _Replicas:
    # Late samples of a piece say how a replica came into the next one.
    late = np.flatnonzero(rows.at % SLICE_MS >= SLICE_MS - BEFORE_S * 1000)
    inside = np.concatenate([np.ones(len(rows.at), np.bool_), np.zeros(len(late), np.bool_)])
    r = rows.some(np.concatenate([np.arange(len(rows.at)), late]))
    piece = r.piece + ~inside
    at, groups = r.at.astype(np.float64), Groups.by(piece, r.rid)
    steady = r.in_isr & ~r.moves
    pushed = inside & ~r.in_isr & ~r.moves
    last, before = groups.last_row(at, inside), groups.last_row(at, ~inside)
    lag = np.where(inside & steady, r.lag_s, np.nan)
    second = r.at % SLICE_MS >= SLICE_MS // 2

    def times(which: Bools) -> Floats:
        return np.where(which, at, np.nan)

    found = _Replicas(
        piece=groups.first(piece),
        leader=r.leader[last],
        follower=r.follower[last],
        was_in=(before >= 0) & steady[before],
        was_out=(before >= 0) & ~r.in_isr[before],
        first_in=groups.least(times(inside & steady)),
        last_out=groups.most(times(pushed)),
        at_fault=groups.any(pushed & ~r.excused),
        first_out=groups.least(times(inside & ~r.in_isr)),
        last_in=groups.most(times(inside & r.in_isr)),
        lag_s=groups.mean(lag),
        lag_first_s=groups.mean(np.where(second, np.nan, lag)),
        lag_second_s=groups.mean(np.where(second, lag, np.nan)),
    )
    seen = last >= 0
    return _Replicas(*(getattr(found, field.name)[seen] for field in fields(found)))
