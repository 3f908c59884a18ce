"""Elections of leaders: the order in which they are held, what they cost, and their answers.

Plain values and pure functions, without arrays: the API's client reads them too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kshunt.backend.domain.cluster.metadata import NO_BROKER, PartitionState, TopicPartition
from kshunt.backend.domain.reassignment.answers import ChangeAnswer


@dataclass(frozen=True, slots=True)
class LeaderCount:
    """How many partitions a broker leads before an election and after it."""

    broker: int
    leaders_before: int
    leaders_after: int
    leaders_preferred: int
    """How many it would lead if every preferred replica led."""
    skew_before: float
    """Leaders above an even share over the brokers that are up, as a fraction of that share: 0.5
    is 50 % more, -1 is none."""
    skew_after: float


@dataclass(frozen=True, slots=True)
class ElectionAnswer(ChangeAnswer):
    """The result of an election of preferred leaders (KIP-183)."""

    leaders: tuple[LeaderCount, ...] = ()
    """By broker, for a preview; empty for an election that was held."""


@dataclass(frozen=True, slots=True)
class LastSeenEnd:
    """A replica's log end offset, and when its broker said it."""

    offset: int
    at_ms: int
    """Milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class UncleanLoss:
    """What an unclean election of one partition would lose for good."""

    topic: str
    partition: int
    candidate: int
    """The broker that would lead, or `NO_BROKER`."""
    candidate_end: int | None
    """Its log end offset; None if it is not known."""
    known_end: int | None
    """The highest log end offset that any replica is known to have had."""
    known_ms: int | None
    """When that was, milliseconds since the epoch; what was written later is lost too."""
    lost_messages: int | None
    """None where it cannot be known: nobody saw how far the last members of the ISR were."""
    lost_messages_min: int
    """It is this many at least; 0 where nothing is known."""

    @property
    def name(self) -> TopicPartition:
        """Which partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        if self.candidate == NO_BROKER:
            return "no replica is up"
        if self.candidate_end is None:
            count = (
                f"an UNKNOWN number of messages: broker {self.candidate} does not report its "
                "log end offset"
            )
        elif self.lost_messages is None:
            count = (
                f"an UNKNOWN number of messages, at least {self.lost_messages_min}: the log ends "
                "of the last ISR members are unknown"
            )
        else:
            count = (
                f"{self.lost_messages} messages, and those written after the log end "
                f"{self.known_end} was seen"
            )
        return f"with broker {self.candidate} as leader the partition may lose {count}"


@dataclass(frozen=True, slots=True)
class UncleanAnswer(ChangeAnswer):
    """The result of an unclean election, or the messages that it would lose."""

    losses: tuple[UncleanLoss, ...] = ()
    """Of each partition that has no leader, in their order."""


def in_batches(
    preferred: Mapping[TopicPartition, int], size: int | None
) -> list[list[TopicPartition]]:
    """Partitions in batches of at most `size`, the preferred leaders of each in turn.

    So no broker takes over all of its partitions at one moment while the others wait; None is
    one batch.
    """
    by_broker: dict[int, list[TopicPartition]] = {}
    for partition in sorted(preferred):
        by_broker.setdefault(preferred[partition], []).append(partition)
    turns = sorted(
        (turn, broker, partition)
        for broker, partitions in by_broker.items()
        for turn, partition in enumerate(partitions)
    )
    ordered = [partition for _, _, partition in turns]
    step = size or max(len(ordered), 1)
    return [ordered[start : start + step] for start in range(0, len(ordered), step)]


def leader_counts(
    before: Mapping[int, int],
    after: Mapping[int, int],
    preferred: Mapping[int, int],
    live: Collection[int],
) -> tuple[LeaderCount, ...]:
    """The leaders of every broker that is up, or that leads; each mapping is leaders by broker."""

    def skew(leaders: Mapping[int, int], broker: int) -> float:
        even = sum(leaders.values()) / max(len(live), 1)
        return round(leaders.get(broker, 0) / even - 1, 4) if even else 0.0

    return tuple(
        LeaderCount(
            broker,
            before.get(broker, 0),
            after.get(broker, 0),
            preferred.get(broker, 0),
            skew(before, broker),
            skew(after, broker),
        )
        for broker in sorted({*live, *before, *after})
    )


def able_to_lead(state: PartitionState, live: Collection[int]) -> list[int]:
    """The replicas on brokers and in directories that are up, in the order of the assignment."""
    return [b for b in state.replicas if b in live and b not in state.offline]


def unclean_loss(
    state: PartitionState,
    live: Collection[int],
    ends: Mapping[int, LastSeenEnd],
    candidate: int | None = None,
) -> UncleanLoss:
    """What is lost if `candidate` leads, or else the first replica that is up.

    Goals: never a number that is too small without saying so.
    Constraints: nobody can be asked how far a dead replica was; `ends` holds what each replica
    said last, and may lack some.
    Algorithm: every member of the ISR has every message that was acknowledged, so the last known
    end of one that is down stands for what there was. An ISR may be empty: KIP-966 keeps the
    replicas that may lead elsewhere. Then all replicas that are down stand for it, and only if the
    ends of all of them are known. Without such an end the difference to other replicas is a lower
    bound, and the loss is unknown.
    """
    able = able_to_lead(state, live)
    leads = candidate if candidate is not None else (able or [NO_BROKER])[0]
    down = [broker for broker in state.replicas if broker not in able]
    witnesses = [broker for broker in state.isr if broker in down]
    seen = [broker for broker in witnesses or down if broker in ends]
    certain = bool(seen) if witnesses else len(seen) == len(down) > 0
    known = max((ends[b] for b in state.replicas if b in ends), key=_offset, default=None)
    own = ends.get(leads)
    least = 0 if own is None or known is None else known.offset - own.offset
    return UncleanLoss(
        state.partition.topic,
        state.partition.partition,
        leads,
        None if own is None else own.offset,
        None if known is None else known.offset,
        None if known is None else known.at_ms,
        least if certain and own is not None else None,
        least,
    )


def _offset(end: LastSeenEnd) -> int:
    return end.offset


def names(partitions: Sequence[TopicPartition]) -> list[str]:
    """The partitions as an operator types them to confirm, sorted."""
    return sorted(map(str, partitions))
