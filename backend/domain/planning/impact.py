"""What a plan does to brokers and partitions: the figures an operator looks at before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.domain.cluster.metadata import TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerImpact:
    """One broker, before and after."""

    broker: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int
    bytes_before: int
    bytes_peak: int
    bytes_after: int
    received_bytes: int
    """Copied to it."""
    sent_bytes: int
    """Copied from it."""
    disk_bytes: int | None
    """The total size of its directories; None if unknown."""

    @property
    def changes(self) -> bool:
        """Whether the plan has to do with it at all."""
        return bool(self.received_bytes or self.sent_bytes) or (
            (self.replicas_before, self.leaders_before, self.bytes_peak, self.bytes_after)
            != (self.replicas_after, self.leaders_after, self.bytes_before, self.bytes_before)
        )

    @property
    def peak_share(self) -> float | None:
        """How full it becomes, 0 to 1 or more; None where the size of its disks is not known."""
        return None if not self.disk_bytes else self.bytes_peak / self.disk_bytes


@dataclass(frozen=True, slots=True)
class Impact:
    """A plan as a whole."""

    partitions: int
    """Whose replica list changes."""
    reordered: int
    """Of them: the same brokers in another order; nothing is copied."""
    added: int
    """Replicas that are copied."""
    removed: int
    moved_bytes: int
    unknown_sizes: int
    """Partitions of unknown size among those that are copied."""
    leaders_moved: int
    """Partitions whose leader is not in the target."""
    preferred_moved: int
    """Partitions with another preferred leader."""
    fewer_racks: tuple[TopicPartition, ...]
    """Partitions that lie in fewer racks afterwards."""
    more_racks: int
    under_min_isr: tuple[TopicPartition, ...]
    """Partitions that will have fewer replicas than `min.insync.replicas`."""
    on_the_edge: tuple[TopicPartition, ...]
    """Partitions without a spare replica during the move: at most `min.insync.replicas` are in
    sync."""
    brokers: tuple[BrokerImpact, ...]
    """All of them, by id."""
    phases: tuple[int, ...] = ()
    """Partitions in each phase, one after the other, for a limited number of parallel moves; all
    in one phase without a limit. Moves that end early make room for others, so a real one has
    no such edges."""
