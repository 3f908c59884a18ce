"""A partition as a command would have it: in-sync replicas, leader, and the end of its move.

Algorithm (Kafka's PartitionChangeBuilder; KIP-455)
    1. The command states the wished replicas and ISR.
    2. If every target replica is in the ISR, the move is over: what is being removed goes.
    3. The leader stays while it is a replica, in the ISR and online. Otherwise the first replica
       in preferred order that is in the ISR and online becomes leader. Without one, and if the
       topic allows unclean elections, the first online replica becomes leader, and it alone is
       then in sync. Otherwise the partition has no leader.
       Such an election may end the move as well: then step 2 once more.
    4. The ISR never becomes empty: its last member stays though it is offline, since only that
       member has all the data.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kshunt.backend.domain.cluster.config_names import UNCLEAN_ELECTION
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import (
    PartitionImage,
    RegisteredBroker,
    TopicImage,
)
from kshunt.backend.embedded.metadata.records import (
    NO_DIR,
    NO_LEADER,
    PartitionChanged,
    PartitionModeCode,
)
from kshunt.backend.embedded.metadata.records import ResourceType as Resource


class Election(enum.Enum):
    """Whom a partition may take as its leader."""

    ONLINE = "online"
    """Keep the leader if it can stay, else any online member of the ISR (Kafka's ONLINE)."""
    PREFERRED = "preferred"
    """The first replica if it is online and in the ISR, else as ONLINE."""
    UNCLEAN = "unclean"
    """As ONLINE, and if that gives nobody, any online replica: data may be lost."""


@dataclass(slots=True)
class PartitionChangeBuilder:
    """A partition that a command is changing; `record` says what is different in the end."""

    topic: TopicImage
    number: int
    old: PartitionImage
    online: Callable[[int, str], bool]
    """True if a broker's replica in a directory can lead."""
    unclean: bool = False
    """The topic's `unclean.leader.election.enable`."""
    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    leader: int = NO_LEADER
    log_dirs: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.replicas, self.isr = self.old.replicas, self.old.isr
        self.adding, self.removing = self.old.adding, self.old.removing
        self.leader = self.old.leader
        self.log_dirs = dict(zip(self.old.replicas, self.old.log_dirs, strict=True))

    def usable(self, broker: int) -> bool:
        """True if this broker's replica can lead."""
        return self.online(broker, self.log_dirs.get(broker, NO_DIR))

    def shrink(self, gone: Iterable[int]) -> None:
        """Take brokers out of the ISR, but never the last."""
        lost = set(gone)
        self.isr = tuple(broker for broker in self.isr if broker not in lost) or self.isr

    def complete(self, election: Election = Election.ONLINE) -> None:
        """End the move if it can end, and see to the leader."""
        self._end_move()
        self._elect(election)
        self._end_move()

    def record(self) -> PartitionChanged | None:
        """What is different from before, or None."""
        leader = self.leader if self._new_epoch() else None
        log_dirs = tuple(self.log_dirs.get(broker, NO_DIR) for broker in self.replicas)
        old = self.old
        change = PartitionChanged(
            self.topic.topic_id,
            self.number,
            replicas=_changed(old.replicas, self.replicas),
            adding=_changed(old.adding, self.adding),
            removing=_changed(old.removing, self.removing),
            isr=_changed(old.isr, self.isr),
            leader=leader,
            log_dirs=None if log_dirs == old.log_dirs else log_dirs,
        )
        nothing = PartitionChanged(self.topic.topic_id, self.number)
        return None if change == nothing else change

    def _new_epoch(self) -> bool:
        """A new leader, or a removed replica, which the new epoch fences off."""
        return self.leader != self.old.leader or not set(self.old.replicas) <= set(self.replicas)

    def _end_move(self) -> None:
        target = tuple(broker for broker in self.replicas if broker not in self.removing)
        if not (self.adding or self.removing) or not set(target) <= set(self.isr):
            return
        self.replicas, self.adding, self.removing = target, (), ()
        self.isr = tuple(broker for broker in self.isr if broker in target)

    def _elect(self, election: Election) -> None:
        candidates = [b for b in self.replicas if b in self.isr and self.usable(b)]
        preferred = self.replicas[0]
        if election is Election.PREFERRED and preferred in candidates:
            self.leader = preferred
        elif self.leader in candidates:
            return
        elif candidates:
            self.leader = candidates[0]
        else:
            self._elect_unclean(allowed=self.unclean or election is Election.UNCLEAN)

    def _elect_unclean(self, *, allowed: bool) -> None:
        candidates = [b for b in self.replicas if self.usable(b)] if allowed else []
        self.leader = candidates[0] if candidates else NO_LEADER
        if candidates:
            self.isr = (self.leader,)


def _changed(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if old == new else new


def draft(
    image: ClusterImage,
    topic: TopicImage,
    number: int,
    *,
    online: Callable[[int, str], bool] | None = None,
) -> PartitionChangeBuilder:
    """A partition to change; `online` overrides what the image says of the brokers.

    Raises:
        KeyError: the topic has no such partition.
    """
    old = topic.partitions[number]
    unclean = image.config(Resource.TOPIC, topic.name, UNCLEAN_ELECTION).value == "true"
    return PartitionChangeBuilder(topic, number, old, online or image.is_online, unclean)


def records_of(drafts: Iterable[PartitionChangeBuilder]) -> Iterator[PartitionChanged]:
    """The changes of several drafts, without those that change nothing."""
    return (change for change in (one.record() for one in drafts) if change is not None)


def is_being_deleted(partition: PartitionImage) -> bool:
    """True for a partition whose data is being deleted (KIP-694's mode None): it has no leader."""
    return partition.mode is PartitionModeCode.NONE


class DirChooser:
    """Gives new replicas a log directory, the broker's directories in turn.

    Kafka's broker takes the directory with the fewest partitions; in turn is the same for
    replicas that only come.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._brokers = image.brokers
        self._count = {broker: image.hosted_count(broker) for broker in image.brokers}

    def choose(self, broker: int) -> str:
        """A working directory of a broker, or `NO_DIR` if it has none."""
        state: RegisteredBroker | None = self._brokers.get(broker)
        if state is None or not state.online_dirs:
            return NO_DIR
        self._count[broker] += 1
        return state.online_dirs[self._count[broker] % len(state.online_dirs)]
