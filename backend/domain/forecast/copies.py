"""What is known of copies: plain arrays, a row a copy, from wherever they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.forecast.turns import MoveQueue

NOBODY = -1
"""A broker that is not known."""
CHECK_S: Final = 300.0
"""Kafka's default of leader.imbalance.check.interval.seconds. What it is nobody can ask KRaft's
controllers through brokers."""


@dataclass(frozen=True, eq=False)
class NextLeaders:
    """Leaders that the controller changes while copies run: it puts preferred leaders back by
    itself, and the order that a move asks for holds from its start (auto.leader.rebalance.enable;
    Kafka's `ReplicationControlManager.maybeBalancePartitionLeaders`).

    Arrays have shape (copies,).
    """

    first_s: float
    """Until the controller looks for them, as far as can be expected."""
    source: Ints
    """The next leader's broker; `NOBODY`: it does not change."""
    at_source: Mask
    """The leader throttle of the next leader holds the copy."""
    source_after: Floats
    """As in `Copies`, at the next leader."""
    in_sync: Floats
    """Followers in the ISR that fetch from the next leader too, divided by the partition's copies:
    a multiple of what is written."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Replicas that lack something. Arrays have shape (copies,); NaN is what is not known."""

    source: Ints
    """The leader's broker, or `NOBODY`."""
    target: Ints
    remaining_bytes: Floats
    written_bytes_per_s: Floats
    """What producers will continue to write to its leader."""
    written_least_bytes_per_s: Floats
    """The least that it may be: "never" is said only where even this is too much."""
    written_lately_bytes_per_s: Floats
    """What they wrote over the last half minute."""
    seen_bytes_per_s: Floats
    """What it gets, over minutes."""
    source_seen_bytes_per_s: Floats
    """Over half a minute or so, as its part of what its source sends to copies. Where others have
    ended, that is more than the mean of what it got itself."""
    target_seen_bytes_per_s: Floats
    """The same of what its target receives."""
    latest_bytes_per_s: Floats
    """Over the last seconds."""
    begins_bytes_per_s: Floats
    """Since it began, or its throttle got another rate, for as long as it is too early to tell a
    rate by that."""
    age_s: Floats
    """For how long it has been watched."""
    at_source: Mask
    """The leader throttle of its source holds it."""
    at_target: Mask
    """The follower throttle of its target holds it."""
    has_turn: Mask
    """False where it gets nothing because others that share a throttle are served first."""
    stuck: Mask
    """Somebody who watched it says that it does not arrive at these rates."""
    source_after: Floats
    """What its leader throttle loses once it has arrived, as a multiple of what is written. A
    follower in the ISR takes it, and those that the move removes leave it: below 0 it gains."""
    target_after: Floats
    """The same of its follower throttle."""
    why: tuple[str, ...]
    """What keeps it from arriving whatever the rates, in words; empty where nothing does."""
    queue: MoveQueue | None = None
    """Who waits for its turn. What waits has no rates yet."""
    next_leaders: NextLeaders | None = None
    """None: no leader is expected to change."""

    def __len__(self) -> int:
        return len(self.source)

    @property
    def waiting(self) -> Mask:
        """Copies of moves that have not begun."""
        if self.queue is None:
            return np.zeros(len(self), np.bool_)
        found: Mask = self.queue.waits[self.queue.move]
        return found


@dataclass(frozen=True, eq=False)
class BrokerRates:
    """Throttles in force. Arrays have shape (brokers,)."""

    brokers: Ints
    """Sorted; a broker that is absent has no throttle."""
    leader_bytes_per_s: Floats
    """inf: no throttle."""
    follower_bytes_per_s: Floats
    leader_in_sync_bytes_per_s: Floats
    """What listed followers in the ISR take of it: Kafka counts that, and does not hold it back."""
    follower_in_sync_bytes_per_s: Floats
