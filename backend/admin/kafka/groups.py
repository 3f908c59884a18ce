"""Consumer groups: who reads a topic; groups without members set to other offsets, or deleted.

Only a group's coordinator makes changes, and it may move at any moment. A change that a broker
refuses for that reason comes back as a retriable result. A caller that repeats the change finds
the coordinator anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from kshunt.backend.admin.kafka.coordinated_groups import of_coordinator
from kshunt.backend.admin.kafka.sent_changes import result_or_lost
from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.error_mapping import decode_message, item_error, item_result
from kshunt.backend.admin.rpc.requests import UNANSWERED
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.topics.groups import ConsumerGroup, GroupsRead
from kshunt.backend.errors import ClusterError, NotSupported
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

_GROUP: Final = 0
"""`CoordinatorType.GROUP`."""
_ONE_KEY_UNTIL: Final = 3
"""From version 4 on, FindCoordinator has lists."""
_NOBODY: Final = -1
"""For the generation: the client that commits is no member, so the group must have none."""
_NAMES_UNTIL: Final = 9
"""From version 10 on, OffsetCommit has topic ids."""


class KafkaGroups:
    """See `GroupAdmin`."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls

    async def of_topic(self, topic: str, *, timeout_s: float) -> GroupsRead:
        """See `GroupAdmin.of_topic`."""
        state = await self._calls.describe([topic], timeout_s=timeout_s)
        numbers = sorted(item.partition for item in partition_states(state.assignment))
        found = await together(
            of_coordinator(self._calls, broker, topic, numbers, timeout_s)
            for broker in sorted(state.brokers)
        )
        # While a coordinator moves, two brokers may name a group; the newer one knows its offsets.
        groups: dict[str, ConsumerGroup] = {}
        for group in (group for one in found for group in one.groups):
            known = groups.get(group.name)
            if known is None or len(group.committed) > len(known.committed):
                groups[group.name] = group
        unread = {what: why for one in found for what, why in one.unread.items()}
        return GroupsRead(tuple(groups[name] for name in sorted(groups)), unread)

    async def alter_offsets(
        self, group: str, topic: str, positions: Mapping[int, int], *, timeout_s: float
    ) -> ItemResult:
        """See `GroupAdmin.alter_offsets`."""
        if not positions:
            return OK
        coordinator = await self._coordinator(group, timeout_s)
        if isinstance(coordinator, ItemResult):
            return coordinator
        broker = coordinator

        async def asked() -> ItemResult:
            request = _commit_request(group, topic, positions)
            answer = await self._calls.call(broker, request, timeout_s=timeout_s, lane="write")
            return _committed(answer, topic, positions)

        return await result_or_lost(asked)

    async def delete(self, names: Sequence[str], *, timeout_s: float) -> Mapping[str, ItemResult]:
        """See `GroupAdmin.delete`."""
        wanted = list(dict.fromkeys(names))
        found = await together(self._deleted(name, timeout_s) for name in wanted)
        return dict(zip(wanted, found, strict=True))

    async def _deleted(self, name: str, timeout_s: float) -> ItemResult:
        async def asked() -> ItemResult:
            coordinator = await self._coordinator(name, timeout_s)
            if isinstance(coordinator, ItemResult):
                return coordinator
            request = RawRequest.of(DeleteGroupsRequest(groups_names=[name]))
            answer = await self._calls.call(coordinator, request, timeout_s=timeout_s, lane="write")
            results = decode_message(DeleteGroupsResponse, answer).results
            codes = [one.error_code for one in results if one.group_id == name]
            return item_result(codes[0]) if codes else UNANSWERED

        try:
            return await result_or_lost(asked)
        except (ClusterError, NotSupported) as why:
            return item_error(why)

    async def _coordinator(self, group: str, timeout_s: float) -> int | ItemResult:
        """The broker that has the group; or why it is not known.

        The first question of a cluster's life has Kafka create the topic of offsets.
        """
        request = FindCoordinatorRequest(key=group, key_type=_GROUP)
        answer = await self._calls.ask_controller(
            lambda: RawRequest.of(request, min_version=1, max_version=_ONE_KEY_UNTIL),
            timeout_s=timeout_s,
        )
        found = await asyncio.to_thread(decode_message, FindCoordinatorResponse, answer)
        if found.error_code:
            return item_result(found.error_code, found.error_message)
        return int(found.node_id)


def _commit_request(group: str, topic: str, positions: Mapping[int, int]) -> RawRequest:
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    of_partition = of_topic.OffsetCommitRequestPartition
    partitions = [
        of_partition(partition_index=number, committed_offset=offset, committed_metadata="")
        for number, offset in sorted(positions.items())
    ]
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NOBODY,
        member_id="",
        group_instance_id=None,
        topics=[of_topic(name=topic, partitions=partitions)],
    )
    return RawRequest.of(message, min_version=2, max_version=_NAMES_UNTIL)


def _committed(answer: RawAnswer, topic: str, positions: Mapping[int, int]) -> ItemResult:
    found = {
        one.partition_index: one.error_code
        for entry in decode_message(OffsetCommitResponse, answer).topics
        if entry.name == topic
        for one in entry.partitions
    }
    if not positions.keys() <= found.keys():
        return UNANSWERED
    number, code = next(((n, code) for n, code in sorted(found.items()) if code), (0, 0))
    return item_result(code, f"{topic}-{number} was rejected") if code else OK
