"""Why a replica does not advance: the causes, and what each was found from.

A new cause is added here, in `kshunt.backend.telemetry.stuck.diagnosis` and
`kshunt.backend.telemetry.stuck.evidence`, with a sentence in
`kshunt.backend.domain.replicas.stuck_sentences`. If nothing is copied while the cause holds, add it
to `kshunt.backend.telemetry.sampling.rate_windows` too. The change that helps is named in
`kshunt.tui.facts.stuck_words`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import TopicPartition

Replica: TypeAlias = tuple[TopicPartition, int]
"""A partition, and the broker that hosts it."""


class Cause(enum.IntEnum):
    """One cause a replica: of those that hold, the first that `diagnose` of telemetry looks for.

    Numbers say nothing of that order; frames and samples hold them. The order goes from what stops
    everything to what only slows down. Each cause is judged by facts that the ones before it would
    make worthless. A broker that is down reports neither offsets nor rates. Without a leader,
    nothing is written that a throttle could be too low for. A disk or a link is to blame only where
    no throttle explains what is seen. So an operator who removes the cause that is named either
    sees the replica advance or sees the next cause.

    The three causes that are throttles exclude each other. A throttle that no move justifies is
    an orphan whatever its rate: the remedy is to remove it and not to raise it.
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
    """Nothing above explains it: producers write faster than it copies from its leader."""
    TOO_SHORT = 14
    """It has not come nearer yet, and was not watched for long enough to say more."""
    PAUSED = 15
    """`THROTTLE_FLOOR` on purpose: an operation of ours is paused and holds it. Not stuck."""
    DELETION_WAITS = 16
    """Its partition is being deleted, and its broker is not there to delete it (KIP-694)."""

    @property
    def is_stuck(self) -> bool:
        """Whether somebody must do something before the replica can arrive."""
        return self not in (Cause.NONE, Cause.WAITING_TURN, Cause.TOO_SHORT, Cause.PAUSED)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is copied until something happens that nobody can foresee."""
        return self in (
            *(Cause.BROKER_DOWN, Cause.LOG_DIR_OFFLINE, Cause.NO_LEADER, Cause.CONTROLLER),
            *(Cause.SOURCE_UNREACHABLE, Cause.DISK_FULL),
        )

    @property
    def is_curable(self) -> bool:
        """Whether the replica may arrive under another rate."""
        return self in (
            *(Cause.THROTTLE_FLOOR, Cause.THROTTLE_TOO_LOW, Cause.THROTTLE_ORPHAN),
            *(Cause.COPY_TOO_SLOW, Cause.LOG_DIR_MOVE),
        )

    @property
    def key(self) -> str:
        """Its name in the API: `throttle_too_low`."""
        return self.name.lower()


STUCK_CAUSES: Final = tuple(cause for cause in Cause if cause.is_stuck)
IDLE_CAUSES: Final = tuple(cause for cause in Cause if cause.is_idle)
CURABLE_CAUSES: Final = tuple(cause for cause in Cause if cause.is_curable)


@dataclass(frozen=True, slots=True)
class CauseText:
    """A cause in words that hold of every replica that has it."""

    short: str
    """Two or three words, for a column."""
    reason: str
    action: str
    """Empty where nothing is to be done."""


CAUSE_TEXTS: Final[Mapping[Cause, CauseText]] = {
    Cause.BROKER_DOWN: CauseText(
        "broker down",
        "Its broker is not registered, or does not answer.",
        "Start the broker, or cancel the move and choose another one.",
    ),
    Cause.LOG_DIR_OFFLINE: CauseText(
        "log dir offline",
        "Its broker runs, but the log directory that holds it does not work.",
        "Free space if the disk is full, or repair it. Then restart the broker, or cancel the "
        "move.",
    ),
    Cause.NO_LEADER: CauseText(
        "no leader",
        "The partition has no leader, so there is nothing to fetch.",
        "Bring back a broker of the ISR; an unclean election is the last resort and loses records.",
    ),
    Cause.CONTROLLER: CauseText(
        "controller silent",
        "Everything is copied, but the controller does not update the ISR or end the move.",
        "Check the controller's log, and whether the controllers have a majority.",
    ),
    Cause.SOURCE_UNREACHABLE: CauseText(
        "source unreachable",
        "The partition's leader does not answer.",
        "Bring the leader's broker back. If it is fenced, another replica of the ISR takes over.",
    ),
    Cause.THROTTLE_FLOOR: CauseText(
        "throttle holds it",
        "A throttle of its move is 0, or at the floor that only holds it.",
        "Raise the throttle, or resume the operation that set it if it is paused elsewhere.",
    ),
    Cause.THROTTLE_TOO_LOW: CauseText(
        "throttle too low",
        "A throttle of its move is at or below the write rate of the replicas that share it.",
        "Raise the throttle to the rate that kshunt shows.",
    ),
    Cause.THROTTLE_ORPHAN: CauseText(
        "orphan throttle",
        "A throttle holds it, but no move needs that throttle.",
        "Remove the rate and the topic's throttled replicas, unless somebody needs them.",
    ),
    Cause.REMAINING_OUT_OF_ISR: CauseText(
        "waits for a replica",
        "It is in sync; its move waits for a replica that stays and does not catch up.",
        "Help the replica that stays, or move it elsewhere in the same reassignment.",
    ),
    Cause.DISK_FULL: CauseText(
        "disk full",
        "Its log directory has less free space than it needs.",
        "Free space on the broker, or move the replica to another directory.",
    ),
    Cause.LOG_DIR_MOVE: CauseText(
        "dir move too slow",
        "It moves to another directory of its broker, and the throttle for that is too low.",
        "Raise replica.alter.log.dirs.io.max.bytes.per.second of its broker.",
    ),
    Cause.WAITING_TURN: CauseText(
        "waits for its turn",
        "The throttle is enough, but others that share it are served first: not stuck.",
        "",
    ),
    Cause.COPY_TOO_SLOW: CauseText(
        "copy too slow",
        "No throttle explains it: producers write faster than it copies from its leader.",
        "Check the network, the disks, and its broker's log for ReplicaFetcherThread errors.",
    ),
    Cause.TOO_SHORT: CauseText(
        "watched too short",
        "It has not come nearer yet, and was not watched long enough to say more.",
        "",
    ),
    Cause.PAUSED: CauseText(
        "paused",
        "The operation that moves it is paused: the copy continues when you resume it.",
        "",
    ),
    Cause.DELETION_WAITS: CauseText(
        "deletion waits",
        "Its partition is being deleted, but its broker is not there to delete its data.",
        "Start the broker or repair its disk. If the broker is gone for good, unregister it.",
    ),
}
"""Every cause but NONE."""


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
class SharedThrottle:
    """A throttle under which a replica waits for its turn."""

    broker: int
    key: str
    """Kafka's name of the rate."""
    others: int
    """How many other replicas share it."""


@dataclass(frozen=True, slots=True)
class StuckEvidence:
    """What a cause was found from. What the cause is not about has its default."""

    registered: bool = True
    """Whether the cluster lists the broker that is missed."""
    answers: bool = True
    """Whether that broker answers."""
    failed: FailedRequest | None = None
    """What that broker was asked last and did not answer."""
    leader: int | None = None
    controller: int | None = None
    """None also where the cluster names none."""
    in_sync: tuple[int, ...] = ()
    """Brokers of the partition's ISR."""
    could_lead: tuple[int, ...] = ()
    """Brokers of which one has to come back so that the partition has a leader."""
    offline_dirs: tuple[str, ...] = ()
    """Paths of log directories that do not work."""
    free_bytes: int | None = None
    """In the log directory; of one that is offline, when its broker last answered."""
    lag_bytes: int | None = None
    fetched_bytes_per_s: int | None = None
    """What the replica gets."""
    written_bytes_per_s: int | None = None
    """What is written to its partition."""
    watched_s: int | None = None
    shared: SharedThrottle | None = None
    waits_for: tuple[Stuck, ...] = ()
    """Replicas of the same partition that its move waits for."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """One replica that does not advance. `stuck_sentences` says it in words."""

    partition: TopicPartition
    broker: int
    cause: Cause
    rates: tuple[RateNeed, ...] = ()
    """The throttles that are too low; empty for other causes."""
    evidence: StuckEvidence | None = None
    """None where nothing is known but the cause."""
