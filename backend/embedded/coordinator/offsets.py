"""What groups have committed, and what open transactions will have committed.

`replay` is the only mutator. A transaction's offsets are pending until it ends; then all of its
producer's hold together, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.coordinator.records import (
    OffsetCommitted,
    OffsetForgotten,
    OffsetPending,
    PendingOffsetsEnded,
)
from kshunt.backend.embedded.metadata.records import Record


@dataclass(frozen=True, slots=True)
class Offset:
    """One committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = 0
    """Milliseconds since the epoch."""


NOTHING: Final = Offset(-1)
"""What a group has where it never committed."""

_Offsets = dict[TopicPartition, Offset]


class CommittedOffsets:
    """See the module."""

    def __init__(self) -> None:
        self._committed: dict[str, _Offsets] = {}
        self._pending: dict[int, dict[str, _Offsets]] = {}

    # --- looking

    def groups(self) -> set[str]:
        """Groups that have offsets, if only pending ones."""
        pending = {group for groups in self._pending.values() for group in groups}
        return pending | self._committed.keys()

    def committed(self, group: str) -> Mapping[TopicPartition, Offset]:
        """A group's offsets."""
        return self._committed.get(group, {})

    def unstable(self, group: str) -> set[TopicPartition]:
        """Partitions for which an open transaction has offsets of the group."""
        return {item for groups in self._pending.values() for item in groups.get(group, ())}

    # --- deciding

    @staticmethod
    def commit(
        group: str, offsets: Mapping[TopicPartition, Offset], producer_id: int | None = None
    ) -> list[Record]:
        """Records that a group commits offsets, in a producer's transaction if there is one."""
        records: list[Record] = []
        for (topic, number), one in offsets.items():
            rest = (group, topic, number, one.offset, one.leader_epoch, one.metadata, one.commit_ms)
            if producer_id is None:
                records.append(OffsetCommitted(*rest))
            else:
                records.append(OffsetPending(producer_id, *rest))
        return records

    def end(self, producer_id: int, *, commit: bool) -> list[Record]:
        """Records that a producer's transaction ended; none if it committed no offsets."""
        ended = [PendingOffsetsEnded(producer_id, commit)]
        return list(ended) if producer_id in self._pending else []

    def forget_group(self, group: str) -> list[Record]:
        """Records that all offsets of a group go."""
        items = self.unstable(group) | self.committed(group).keys()
        return [OffsetForgotten(group, *item) for item in sorted(items)]

    def forget_topic(self, topic: str, numbers: Iterable[int] | None = None) -> list[Record]:
        """Records that all groups' offsets of a topic go, or of some of its partitions."""
        only = None if numbers is None else frozenset(numbers)
        return [
            OffsetForgotten(group, *item)
            for group in sorted(self.groups())
            for item in sorted(self.unstable(group) | self.committed(group).keys())
            if item.topic == topic and (only is None or item.partition in only)
        ]

    # --- becoming true

    def replay(self, record: Record) -> None:
        """Let a record become true; records of others are left alone."""
        self._replay(record)

    @singledispatchmethod
    def _replay(self, record: Record) -> None:
        pass

    @_replay.register
    def _(self, record: OffsetCommitted) -> None:
        self._committed.setdefault(record.group, {})[_item(record)] = _offset(record)

    @_replay.register
    def _(self, record: OffsetPending) -> None:
        groups = self._pending.setdefault(record.producer_id, {})
        groups.setdefault(record.group, {})[_item(record)] = _offset(record)

    @_replay.register
    def _(self, record: PendingOffsetsEnded) -> None:
        pending = self._pending.pop(record.producer_id, {})
        if record.committed:
            for group, offsets in pending.items():
                self._committed.setdefault(group, {}).update(offsets)

    @_replay.register
    def _(self, record: OffsetForgotten) -> None:
        _discard(self._committed, record.group, _item(record))
        for groups in self._pending.values():
            _discard(groups, record.group, _item(record))


def _item(record: OffsetCommitted | OffsetPending | OffsetForgotten) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def _offset(record: OffsetCommitted | OffsetPending) -> Offset:
    return Offset(record.offset, record.leader_epoch, record.metadata, record.commit_ms)


def _discard(groups: dict[str, _Offsets], group: str, item: TopicPartition) -> None:
    offsets = groups.get(group, {})
    offsets.pop(item, None)
    if not offsets:
        groups.pop(group, None)
