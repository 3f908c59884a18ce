"""Members of consumer groups on the wire: what kafka-python does not read.

ConsumerGroupDescribe (KIP-848) describes groups of type `consumer`; its versions 0 and 1 are those
of Kafka 3.7 and later, and version 1 adds a byte for each member. Members of classic groups say
what they subscribe and are assigned in bytes that no broker looks into: a member may have written
anything there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kshunt.backend.wire.api_keys import CONSUMER_GROUP_DESCRIBE_KEY
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest
from kshunt.backend.wire.reader import Reader, array_length, string, tags

_VERSIONS: Final = (0, 1)
_FLEXIBLE_FROM: Final = 0
_MEMBER_TYPE_FROM: Final = 1
_UUID_BYTES: Final = 16
_OPERATIONS_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """One member."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    subscribed: tuple[str, ...]
    """Topics that it subscribes by name."""
    assigned: tuple[tuple[str, tuple[int, ...]], ...]
    """Topics and their partitions."""


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """One group."""

    name: str
    error_code: int
    error_message: str | None
    state: str
    members: tuple[DescribedMember, ...]


def describe_request(groups: Sequence[str]) -> RawRequest:
    """Ask a coordinator for its groups of type `consumer`."""

    def body(_version: int) -> bytes:
        without_operations = b"\x00"
        names = [string(name, flexible=True) for name in groups]
        count = array_length(len(names), flexible=True)
        return b"".join((count, *names, without_operations, tags(flexible=True)))

    name, key = "ConsumerGroupDescribe", CONSUMER_GROUP_DESCRIBE_KEY
    return RawRequest(name, key, _VERSIONS, _FLEXIBLE_FROM, body)


def described(answer: RawAnswer) -> tuple[DescribedGroup, ...]:
    """The groups of an answer.

    Raises:
        WireError: the bytes are malformed.
    """
    reader = Reader(answer.body, flexible=True, what="ConsumerGroupDescribe answer")
    reader.int32()
    groups = tuple(_group(reader, answer.version) for _ in range(reader.count()))
    reader.tags()
    reader.end()
    return groups


def _group(reader: Reader, version: int) -> DescribedGroup:
    code, message = reader.int16(), reader.nullable_string()
    name, state = reader.string(), reader.string()
    _group_epoch, _assignment_epoch = reader.int32(), reader.int32()
    _assignor = reader.string()
    members = tuple(_member(reader, version) for _ in range(reader.count()))
    reader.skip(_OPERATIONS_BYTES)
    reader.tags()
    return DescribedGroup(name, code, message, state, members)


def _member(reader: Reader, version: int) -> DescribedMember:
    member_id, instance_id = reader.string(), reader.nullable_string()
    _rack, _epoch = reader.nullable_string(), reader.int32()
    client_id, host = reader.string(), reader.string()
    subscribed = tuple(reader.string() for _ in range(reader.count()))
    _regex = reader.nullable_string()
    assigned = _assignment(reader)
    _target = _assignment(reader)
    if version >= _MEMBER_TYPE_FROM:
        reader.skip(1)
    reader.tags()
    return DescribedMember(member_id, instance_id, client_id, host, subscribed, assigned)


def _assignment(reader: Reader) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found = []
    for _ in range(reader.count()):
        reader.skip(_UUID_BYTES)
        topic = reader.string()
        found.append((topic, tuple(reader.int32() for _ in range(reader.count()))))
        reader.tags()
    reader.tags()
    return tuple(found)


def assigned_in(assignment: bytes, topic: str) -> tuple[int, ...]:
    """The partitions of a topic in what a classic member was assigned (ConsumerProtocol, KIP-54).

    Raises:
        WireError: the bytes are malformed.
    """
    if not assignment:
        return ()
    reader = Reader(assignment, flexible=False, what="assignment of a group's member")
    reader.int16()
    found: list[int] = []
    for _ in range(reader.count()):
        name = reader.string()
        numbers = [reader.int32() for _ in range(reader.count())]
        found += numbers if name == topic else ()
    return tuple(sorted(found))


def subscribes(metadata: bytes, topic: str) -> bool:
    """True where a classic member's subscription names the topic.

    Raises:
        WireError: the bytes are malformed.
    """
    if not metadata:
        return False
    reader = Reader(metadata, flexible=False, what="subscription of a group's member")
    reader.int16()
    return topic in {reader.string() for _ in range(reader.count())}
