"""Which groups of a coordinator have to do with a topic: by committed offsets, or by members.

Goals
    Every group that would miss records, or read some twice, if the topic's partitions changed.
Constraints
    - A broker lists the groups that it coordinates, and knows their offsets and members; no
      request finds groups by topic.
    - A cluster may have thousands of groups, most of which have nothing to do with the topic.
    - One broker or group that does not answer must not hide the others.
Algorithm
    `KafkaGroups.of_topic` asks all brokers at the same time. For each broker:
    1. List its groups.
    2. Fetch what they committed for the topic: many groups in a request, or one in each request
       before OffsetFetch version 8.
    3. Describe the groups that committed anything and those that may have members. Keep the
       groups that read the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.error_mapping import decode_message, raise_for_code
from kshunt.backend.domain.topics.groups import (
    INACTIVE_STATES,
    ConsumerGroup,
    GroupMember,
)
from kshunt.backend.error_codes import GROUP_ID_NOT_FOUND, error_name
from kshunt.backend.errors import ClusterError, NotSupported
from kshunt.backend.wire.api_keys import OFFSET_FETCH_KEY
from kshunt.backend.wire.group_describe import assigned_in, describe_request, described, subscribes
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest
from kshunt.backend.wire.reader import WireError

OFFSETS_PER_REQUEST: Final = 20_000
"""Groups times partitions that one request asks for."""
GROUPS_PER_DESCRIPTION: Final = 100
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_BATCHED_FROM: Final = 8
_NAMES_UNTIL: Final = 9
"""From version 10 on, OffsetFetch has topic ids."""
_READERS: Final = ("consumer", "streams", "")
"""Protocol types of groups that commit offsets; it is empty for one that never had members. Of a
Streams group (KIP-1071) offsets and state are read, and its members are not."""


@dataclass(slots=True)
class FoundGroups:
    """What one coordinator said."""

    groups: list[ConsumerGroup] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

    def described(self, group: str, error_code: int) -> bool:
        """Whether a group was described; a group that has gone since needs no word."""
        if error_code not in (0, GROUP_ID_NOT_FOUND):
            self.unread[f"group {group}"] = f"members: {error_name(error_code)}"
        return not error_code


@dataclass(frozen=True, slots=True)
class _Listed:
    """A group as its coordinator lists it."""

    name: str
    state: str
    """Empty where the broker does not say (before Kafka 2.6)."""
    kind: str


async def of_coordinator(
    calls: BrokerCalls, broker: int, topic: str, numbers: Sequence[int], timeout_s: float
) -> FoundGroups:
    """The groups of one broker that have to do with these partitions of a topic."""
    found = FoundGroups()
    try:
        listed = await _listed(calls, broker, found, timeout_s)
        committed = await _committed(calls, broker, topic, numbers, listed, found, timeout_s)
        wanted = [one for one in listed if one.name in committed or _may_have_members(one)]
        for some in _chunks(wanted, GROUPS_PER_DESCRIPTION):
            await _describe(calls, broker, topic, some, committed, found, timeout_s)
    except (ClusterError, NotSupported) as why:
        found.unread[f"groups of broker {broker}"] = why.message
    return found


def _may_have_members(group: _Listed) -> bool:
    return group.state not in INACTIVE_STATES


async def _listed(
    calls: BrokerCalls, broker: int, found: FoundGroups, timeout_s: float
) -> Sequence[_Listed]:
    request = RawRequest.of(ListGroupsRequest(states_filter=[], types_filter=[]))
    answer = await calls.call(broker, request, timeout_s=timeout_s)
    response = await _decoded(ListGroupsResponse, answer)
    raise_for_code(response.error_code, None, f"Listing the groups of broker {broker}")
    others = sorted(g.group_id for g in response.groups if g.protocol_type == "share")
    if others:
        found.unread[f"share groups {', '.join(others[:5])}"] = (
            "the topics that they read are unknown, and they have no committed offsets to move"
        )
    return [
        _Listed(one.group_id, one.group_state or "", (one.group_type or CLASSIC).lower())
        for one in response.groups
        if one.protocol_type in _READERS
    ]


async def _committed(
    calls: BrokerCalls,
    broker: int,
    topic: str,
    numbers: Sequence[int],
    listed: Sequence[_Listed],
    found: FoundGroups,
    timeout_s: float,
) -> Mapping[str, Mapping[int, int]]:
    """Committed offsets by group and partition; a group without any is absent."""
    highest = await calls.highest_version(OFFSET_FETCH_KEY, broker, timeout_s=timeout_s)
    many = highest >= _BATCHED_FROM
    size = max(1, OFFSETS_PER_REQUEST // max(1, len(numbers))) if many else 1
    committed: dict[str, Mapping[int, int]] = {}
    for some in _chunks([one.name for one in listed], size):
        request = _offsets_request(some, topic, numbers, many=many)
        answer = await calls.call(broker, request, timeout_s=timeout_s)
        response = await _decoded(OffsetFetchResponse, answer)
        entries = {one.group_id: one for one in response.groups} if many else {some[0]: response}
        offsets = {name: _offsets(name, topic, one, found) for name, one in entries.items()}
        committed |= {name: one for name, one in offsets.items() if one}
    return committed


def _offsets_request(
    groups: Sequence[str], topic: str, numbers: Sequence[int], *, many: bool
) -> RawRequest:
    topics = [(topic, list(numbers))]
    if not many:
        message = OffsetFetchRequest(group_id=groups[0], topics=topics)
        return RawRequest.of(message, min_version=2, max_version=_BATCHED_FROM - 1)
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    of_topic = of_group.OffsetFetchRequestTopics
    wanted = [of_topic(name=topic, partition_indexes=list(numbers))]
    message = OffsetFetchRequest(
        groups=[of_group(group_id=name, topics=wanted) for name in groups], require_stable=False
    )
    return RawRequest.of(message, min_version=_BATCHED_FROM, max_version=_NAMES_UNTIL)


def _offsets(group: str, topic: str, entry: Any, found: FoundGroups) -> Mapping[int, int]:
    code = entry.error_code or 0
    entries = [one for t in entry.topics or () if t.name == topic for one in t.partitions]
    code = code or next((one.error_code for one in entries if one.error_code), 0)
    if code not in (0, GROUP_ID_NOT_FOUND):
        found.unread[f"group {group}"] = f"its committed offsets: {error_name(code)}"
    return {
        one.partition_index: one.committed_offset
        for one in entries
        if not one.error_code and one.committed_offset >= 0
    }


async def _describe(
    calls: BrokerCalls,
    broker: int,
    topic: str,
    wanted: Sequence[_Listed],
    committed: Mapping[str, Mapping[int, int]],
    found: FoundGroups,
    timeout_s: float,
) -> None:
    """Add those of the groups that have to do with the topic."""
    newer = [one.name for one in wanted if one.kind == CONSUMER]
    classic = [one.name for one in wanted if one.kind == CLASSIC]
    members = await _classic_members(calls, broker, topic, classic, found, timeout_s)
    members |= await _consumer_members(calls, broker, topic, newer, found, timeout_s)
    for one in wanted:
        state, reads, people = members.get(one.name, (one.state or "Unknown", False, ()))
        if reads or one.name in committed:
            offsets = committed.get(one.name, {})
            found.groups.append(ConsumerGroup(one.name, state, one.kind, offsets, people))


_Members = dict[str, tuple[str, bool, tuple[GroupMember, ...]]]
"""By group: its state, whether a member reads the topic, and all members."""


async def _classic_members(
    calls: BrokerCalls,
    broker: int,
    topic: str,
    groups: Sequence[str],
    found: FoundGroups,
    timeout_s: float,
) -> _Members:
    if not groups:
        return {}
    message = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
    answer = await calls.call(broker, RawRequest.of(message), timeout_s=timeout_s)
    members: _Members = {}
    for group in (await _decoded(DescribeGroupsResponse, answer)).groups:
        if not found.described(group.group_id, group.error_code):
            continue
        try:
            people = tuple(_classic_member(one, topic) for one in group.members)
            reads = any(
                one.partitions or subscribes(raw.member_metadata, topic)
                for one, raw in zip(people, group.members, strict=True)
            )
        except WireError as unreadable:
            # Whatever a member wrote there is its own affair; its group may still be named.
            found.unread[f"group {group.group_id}"] = unreadable.message
            people, reads = (), False
        members[group.group_id] = (group.group_state, reads, people)
    return members


def _classic_member(raw: Any, topic: str) -> GroupMember:
    partitions = assigned_in(bytes(raw.member_assignment or b""), topic)
    instance = raw.group_instance_id or None
    return GroupMember(raw.member_id, raw.client_id, raw.client_host, instance, partitions)


async def _consumer_members(
    calls: BrokerCalls,
    broker: int,
    topic: str,
    groups: Sequence[str],
    found: FoundGroups,
    timeout_s: float,
) -> _Members:
    """Of groups of type `consumer` (KIP-848)."""
    if not groups:
        return {}
    answer = await calls.call(broker, describe_request(groups), timeout_s=timeout_s)
    members: _Members = {}
    for group in described(answer):
        if not found.described(group.name, group.error_code):
            continue
        people, reads = [], False
        for one in group.members:
            numbers = _of_topic(one.assigned, topic)
            reads = reads or bool(numbers) or topic in one.subscribed
            people.append(
                GroupMember(one.member_id, one.client_id, one.host, one.instance_id, numbers)
            )
        members[group.name] = (group.state, reads, tuple(people))
    return members


def _of_topic(assigned: Iterable[tuple[str, tuple[int, ...]]], topic: str) -> tuple[int, ...]:
    return tuple(
        sorted(number for name, numbers in assigned if name == topic for number in numbers)
    )


async def _decoded(response_class: Any, answer: RawAnswer) -> Any:
    """A message, decoded off the event loop: there may be thousands of groups."""
    return await asyncio.to_thread(decode_message, response_class, answer)


def _chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
