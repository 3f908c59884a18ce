"""Why a replica does not advance: the causes, in the order in which they are looked for."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from backend.domain.cluster import TopicPartition


class Cause(enum.IntEnum):
    """One cause a replica: of those that hold, the first one here.

    The order goes from what stops everything to what only slows down, and each cause is judged
    by facts that the ones before it would make worthless: a broker that is down tells neither
    offsets nor rates, without a leader nothing is written that a throttle could be too low for,
    and a disk or a link is to blame only where no throttle explains what is seen. So whoever
    removes the cause that is named either sees the replica advance or sees the next cause.

    The three causes that are throttles exclude each other: a throttle that no move justifies is
    an orphan whatever its rate, since the remedy is to take it off and not to raise it.
    """

    NONE = 0
    """It advances, or it is where it should be."""
    BROKER_DOWN = 1
    """Its broker is not registered, or does not answer."""
    LOG_DIR_OFFLINE = 2
    """Its broker runs, and the log directory that it lies in does not work."""
    NO_LEADER = 3
    """The partition has no leader, so there is nothing to fetch."""
    CONTROLLER = 4
    """It has all records, and the controller does not take note: the ISR or the move stays."""
    SOURCE_UNREACHABLE = 5
    """The partition's leader does not answer."""
    THROTTLE_FLOOR = 6
    """A throttle of a move is 0, or at the floor that only holds (a paused move)."""
    THROTTLE_TOO_LOW = 7
    """A throttle of a move is at or below what is written to the replicas that share it."""
    THROTTLE_ORPHAN = 8
    """A throttle holds it, and there is no move that the throttle belongs to."""
    REMAINING_OUT_OF_ISR = 9
    """It is in sync; the move waits for a replica that stays and does not catch up."""
    DISK_FULL = 10
    """Its log directory has less free than it lacks."""
    LOG_DIR_MOVE = 11
    """It moves to another directory of its broker, and that throttle is too low."""
    WAITING_TURN = 12
    """The throttle suffices, and others that share it are served first: not stuck."""
    COPY_TOO_SLOW = 13
    """Nothing above explains it: the way from its leader carries less than is written."""
    TOO_SHORT = 14
    """It has not come nearer yet, and was not watched for long enough to say more."""

    @property
    def is_stuck(self) -> bool:
        """Whether somebody must do something before the replica can arrive."""
        return self not in (Cause.NONE, Cause.WAITING_TURN, Cause.TOO_SHORT)


@dataclass(frozen=True, slots=True)
class RateNeed:
    """A throttle that is too low, and the rate that would do."""

    broker: int
    key: str
    """Kafka's name of the rate, for example follower.replication.throttled.rate."""
    has_bytes_per_s: int
    written_bytes_per_s: int
    """What is written to all replicas that count against it; at this rate nothing arrives."""
    needs_bytes_per_s: int
    """A rate under which all replicas that share it arrive, in about an hour."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """One replica that does not advance, for an operator."""

    partition: TopicPartition
    broker: int
    cause: Cause
    reason: str
    """What is so, in one sentence."""
    action: str
    """What to do next, in one sentence; empty where nothing is to be done."""
    rates: tuple[RateNeed, ...] = ()
    """The throttles that are too low; empty for other causes."""
