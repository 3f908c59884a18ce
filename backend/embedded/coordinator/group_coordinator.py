"""The group coordinator: all classic groups of the cluster, and the offsets they have committed.

One instance serves every broker; `handlers` answers only where the broker asked coordinates the
group. Offsets are persisted before they show; members are not, and join again after a restart.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.coordinator.classic_group import Group, GroupSettings
from kshunt.backend.embedded.coordinator.codes import CoordinatorCode, CoordinatorError
from kshunt.backend.embedded.coordinator.members import (
    Committer,
    GroupDescription,
    GroupState,
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
    Ticket,
)
from kshunt.backend.embedded.coordinator.offsets import CommittedOffsets, Offset
from kshunt.backend.embedded.metadata.records import Record

Persist = Callable[[Sequence[Record]], None]
"""Returns when records are durable."""


class GroupCoordinator:
    """See the module. Times are seconds of a clock that never goes back."""

    def __init__(
        self,
        persist: Persist,
        *,
        settings: GroupSettings | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.settings = settings or GroupSettings()
        self.offsets = CommittedOffsets()
        """To be read."""
        self._persist = persist
        self._new_id = new_id
        self._groups: dict[str, Group] = {}

    # --- membership

    def join(self, group_id: str, request: JoinRequest, now_s: float) -> Ticket[JoinAnswer]:
        """See `Group.join`; a client without a member id makes the group."""
        refused = self._refused(group_id, request)
        if refused is not CoordinatorCode.NONE:
            return Ticket(JoinAnswer(refused, request.member_id))
        if group_id not in self._groups:
            self._groups[group_id] = Group(group_id, self.settings, self._new_id)
        return self._groups[group_id].join(request, now_s)

    def _refused(self, group_id: str, request: JoinRequest) -> CoordinatorCode:
        shortest, longest = self.settings.session_timeout_min_s, self.settings.session_timeout_max_s
        if not group_id:
            return CoordinatorCode.INVALID_GROUP_ID
        if not shortest <= request.session_timeout_s <= longest:
            return CoordinatorCode.INVALID_SESSION_TIMEOUT
        if group_id not in self._groups and request.member_id:
            return CoordinatorCode.UNKNOWN_MEMBER_ID
        return CoordinatorCode.NONE

    def sync(self, group_id: str, request: SyncRequest, now_s: float) -> Ticket[SyncAnswer]:
        """See `Group.sync`."""
        group = self._groups.get(group_id)
        if group is None:
            return Ticket(SyncAnswer(self._unknown(group_id)))
        return group.sync(request, now_s)

    def heartbeat(self, group_id: str, who: Committer, now_s: float) -> CoordinatorCode:
        """See `Group.heartbeat`."""
        group = self._groups.get(group_id)
        if group is None:
            return self._unknown(group_id)
        return group.heartbeat(who.member_id, who.generation, who.instance_id, now_s)

    def leave(self, group_id: str, who: Committer, now_s: float) -> CoordinatorCode:
        """See `Group.leave`; the generation does not matter."""
        group = self._groups.get(group_id)
        if group is None:
            return self._unknown(group_id)
        return group.leave(who.member_id, who.instance_id, now_s)

    @staticmethod
    def _unknown(group_id: str) -> CoordinatorCode:
        return CoordinatorCode.UNKNOWN_MEMBER_ID if group_id else CoordinatorCode.INVALID_GROUP_ID

    def tick(self, now_s: float) -> bool:
        """Do what is due; True if somebody who waits may have got an answer."""
        changed = [group.tick(now_s) for group in self._groups.values()]
        return any(changed)

    # --- offsets

    def commit(
        self,
        group_id: str,
        who: Committer,
        offsets: Mapping[TopicPartition, Offset],
        now_s: float,
        *,
        producer_id: int | None = None,
    ) -> dict[TopicPartition, CoordinatorCode]:
        """Commit offsets, with `producer_id` when that producer's transaction does.

        Returns:
            Whether each was taken; metadata that is too large fails its partition alone.

        Raises:
            CoordinatorError: somebody may not commit for this group, or not now.
        """
        group = self._groups.get(group_id)
        if group is not None:
            group.check_commit(who, now_s, transactional=producer_id is not None)
        elif who.generation >= 0:
            raise CoordinatorError(CoordinatorCode.ILLEGAL_GENERATION)
        limit = self.settings.metadata_bytes_max
        large = {item for item, one in offsets.items() if len(one.metadata.encode()) > limit}
        accepted = {item: one for item, one in offsets.items() if item not in large}
        self._emit(self.offsets.commit(group_id, accepted, producer_id))
        refused = CoordinatorCode.OFFSET_METADATA_TOO_LARGE
        return {item: refused if item in large else CoordinatorCode.NONE for item in offsets}

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Let the offsets of a producer's transaction hold, or forget them."""
        self._emit(self.offsets.end(producer_id, commit=commit))

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted."""
        self._emit(self.offsets.forget_topic(topic))

    def forget_partitions(self, topic: str, numbers: Iterable[int]) -> None:
        """Partitions of a topic are removed."""
        self._emit(self.offsets.forget_topic(topic, numbers))

    # --- looking and deleting

    def group_ids(self) -> list[str]:
        """All groups that there are, sorted."""
        return sorted(self._groups.keys() | self.offsets.groups())

    def described(self, group_id: str) -> GroupDescription | None:
        """A group, if there is one; those that only commit offsets are empty."""
        if group_id in self._groups:
            return self._groups[group_id].described()
        if group_id in self.offsets.groups():
            return GroupDescription(group_id, GroupState.EMPTY)
        return None

    def delete(self, group_id: str) -> CoordinatorCode:
        """Delete a group without members, with its offsets."""
        if not group_id:
            return CoordinatorCode.INVALID_GROUP_ID
        group = self.described(group_id)
        if group is None:
            return CoordinatorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return CoordinatorCode.NON_EMPTY_GROUP
        self._emit(self.offsets.forget_group(group_id))
        self._groups.pop(group_id, None)
        return CoordinatorCode.NONE

    # --- durability

    def replay(self, record: Record) -> None:
        """Let a record that was persisted become true; records of others are left alone."""
        self.offsets.replay(record)

    def _emit(self, records: Sequence[Record]) -> None:
        if records:
            self._persist(records)
        for record in records:
            self.replay(record)
