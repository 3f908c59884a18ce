"""Whether throttles bound what is copied, as far as that is known."""

from __future__ import annotations

import enum

import numpy as np

from kshunt.tui.facts.snapshot_facts import Facts


class Bound(enum.Enum):
    """What throttles do to all copies together."""

    ALL = enum.auto()
    """Each copy passes a rate, on its leader's side or on its own; or there is no copy."""
    NONE = enum.auto()
    """A copy passes no rate at all, so nothing bounds the sum."""
    UNKNOWN = enum.auto()
    """The rates of a broker are not known."""


def bound_of(facts: Facts) -> Bound:
    """What the throttles of a snapshot do."""
    rows = facts.rows
    copies = np.flatnonzero(facts.arriving & ~rows.in_isr)
    if not len(copies):
        return Bound.ALL
    rates = {id: one.rate for id, one in facts.snapshot.throttles.rates.items()}
    follower = [id for id, one in rates.items() if one.follower_bytes_per_s is not None]
    leader = [id for id, one in rates.items() if one.leader_bytes_per_s is not None]
    known = list(rates)
    partition = np.searchsorted(facts.starts, copies, side="right") - 1
    target, source = rows.broker[copies], rows.leader[copies]
    unknown = ~np.isin(target, known) | ~np.isin(source, known)
    held = rows.follower_throttled[copies] & np.isin(target, follower)
    held |= facts.leader_listed[partition] & np.isin(source, leader)
    if (~held & ~unknown).any():
        return Bound.NONE
    return Bound.UNKNOWN if (~held).any() else Bound.ALL
