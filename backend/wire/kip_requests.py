"""The RPCs of KIP-179, KIP-183 and KIP-694, which Apache Kafka never shipped as their seeds say.

Keys: an API key is an int16. Kafka hands its own out from 0 upwards and is below 100, so the
seeds' begin at 10,000, where no release meets them. Clients ignore keys in ApiVersions that they do
not know: librdkafka, kafka-python and Apache's Java client all do.

Versions: version 0 of each message is byte for byte what its seed writes down. The seeds of 2017
are older than flexible versions (KIP-482) and write plain STRINGs, so theirs are not flexible;
KIP-694 writes COMPACT_STRING and TAG_BUFFER, so its is. Names and order are the seeds' as well,
in the case of Kafka's schema files; `error_messgae` is spelled out.

Where a seed contradicts itself, its newest wording holds:

- AlterInterbrokerThrottledRates and -Replicas list their last fields in two orders. A line with
  `=>` is what gives the order in Kafka's notation: remove_throttle, timeout, validate_only.
- AlterInterbrokerThrottledReplicas has one list of brokers a partition on the wire, where its
  AdminClient method has leaders and followers, each of which may be null for all. Version 0 is
  the wire as written: its brokers are throttled in both roles. Version 1 (flexible, as it is
  new) replaces the list by `leaders` and `followers`.
- ReplicaStatusResponse names IsrTime, FollowerTime and MaxLag in its first line only; the later
  revision describes StatusTime and Lag, and only those are sent.
- DeletePartitionsRequest had `immediate_delete`, a BOOLEAN. The revision makes it
  `delete_partitions_delay`, a LONG, in the unit of the other times: milliseconds.
- The mode of a partition is ReadWrite 0, ReadOnly 1, None -1. The older "online, offline,
  readOnly" of the same seed gives the last two codes the other way round.

KIP-694 puts `mode` into Metadata as a plain field of a version that Kafka has since given to
  something else. Here it is a tagged field of the partition
  (`kshunt.backend.wire.partition_modes`), which clients that do not know it
  ignore. The seed's "specified version", below which Metadata answers LEADER_NOT_AVAILABLE while
  `delete.topic.partition.enable` is on, is thus the first with tagged fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka.protocol.api_message import ApiMessage

from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode
from kshunt.backend.wire.partition_modes import mode_fields, read_mode, read_tags, tag_section
from kshunt.backend.wire.reader import Reader

SCHEMAS: Final = "kshunt.backend.wire.kip_schemas"
"""The package that holds the schemas."""

FIRST_PRIVATE_KEY: Final = 10_000
"""Kafka hands out its own from 0 upwards."""

REASSIGN_PARTITIONS_KEY: Final = FIRST_PRIVATE_KEY
ALTER_INTERBROKER_THROTTLED_RATES_KEY: Final = FIRST_PRIVATE_KEY + 1
ALTER_INTERBROKER_THROTTLED_REPLICAS_KEY: Final = FIRST_PRIVATE_KEY + 2
ALTER_TOPICS_KEY: Final = FIRST_PRIVATE_KEY + 3
REPLICA_STATUS_KEY: Final = FIRST_PRIVATE_KEY + 4
ELECT_PREFERRED_LEADERS_KEY: Final = FIRST_PRIVATE_KEY + 5
DELETE_PARTITIONS_KEY: Final = FIRST_PRIVATE_KEY + 6

UNTHROTTLED: Final = (1 << 63) - 1
"""`Long.MAX_VALUE`: KIP-179's throttle of a reassignment that has none."""
UNCHANGED: Final = -1
"""AlterTopics: the number of partitions or replicas stays what it is."""

METADATA_TAGS_FROM: Final = 9
"""The first version of Metadata that has tagged fields."""

_TOPIC_IDS_FROM: Final = 10
_UUID_BYTES: Final = 16
_INT32_BYTES: Final = 4


def _message(name: str) -> Any:
    """What kafka-python makes of the schema of that name, as it makes its own messages.

    Its metaclass is called rather than subclassed from, because to a type checker the package
    is untyped.
    """
    return type(ApiMessage)(name, (ApiMessage,), {"__module__": __name__}, load_json=SCHEMAS)


ReassignPartitionsRequest: Final = _message("ReassignPartitionsRequest")
"""KIP-179: move partitions to these brokers, throttled if so wished."""

ReassignPartitionsResponse: Final = _message("ReassignPartitionsResponse")
"""KIP-179: which partitions move, and why the others do not."""

AlterInterbrokerThrottledRatesRequest: Final = _message("AlterInterbrokerThrottledRatesRequest")
"""KIP-179: replace the rates of these brokers, in bytes a second."""

AlterInterbrokerThrottledRatesResponse: Final = _message("AlterInterbrokerThrottledRatesResponse")
"""KIP-179: what became of each broker."""

AlterInterbrokerThrottledReplicasRequest: Final = _message(
    "AlterInterbrokerThrottledReplicasRequest"
)
"""KIP-179: replace the throttled replicas of these topics; see the module on its versions."""

AlterInterbrokerThrottledReplicasResponse: Final = _message(
    "AlterInterbrokerThrottledReplicasResponse"
)
"""KIP-179: what became of each partition."""

AlterTopicsRequest: Final = _message("AlterTopicsRequest")
"""KIP-179's early draft: alter partition counts, replication factors or assignments."""

AlterTopicsResponse: Final = _message("AlterTopicsResponse")
"""KIP-179's early draft: an error a topic, which is an INT32 there."""

ReplicaStatusRequest: Final = _message("ReplicaStatusRequest")
"""KIP-179's early draft: how far these followers are, asked of their leader."""

ReplicaStatusResponse: Final = _message("ReplicaStatusResponse")
"""KIP-179's early draft: the lag of each follower in messages, and since when."""

ElectPreferredLeadersRequest: Final = _message("ElectPreferredLeadersRequest")
"""KIP-183: make the preferred replica the leader; of null, everywhere."""

ElectPreferredLeadersResponse: Final = _message("ElectPreferredLeadersResponse")
"""KIP-183: sent when the elections are complete or timed out."""

DeletePartitionsRequest: Final = _message("DeletePartitionsRequest")
"""KIP-694: take these partitions from their topics, after a delay."""

DeletePartitionsResponse: Final = _message("DeletePartitionsResponse")
"""KIP-694: the mode of each partition, or its error."""


MESSAGES: Final[dict[int, tuple[Any, Any]]] = {
    REASSIGN_PARTITIONS_KEY: (ReassignPartitionsRequest, ReassignPartitionsResponse),
    ALTER_INTERBROKER_THROTTLED_RATES_KEY: (
        AlterInterbrokerThrottledRatesRequest,
        AlterInterbrokerThrottledRatesResponse,
    ),
    ALTER_INTERBROKER_THROTTLED_REPLICAS_KEY: (
        AlterInterbrokerThrottledReplicasRequest,
        AlterInterbrokerThrottledReplicasResponse,
    ),
    ALTER_TOPICS_KEY: (AlterTopicsRequest, AlterTopicsResponse),
    REPLICA_STATUS_KEY: (ReplicaStatusRequest, ReplicaStatusResponse),
    ELECT_PREFERRED_LEADERS_KEY: (ElectPreferredLeadersRequest, ElectPreferredLeadersResponse),
    DELETE_PARTITIONS_KEY: (DeletePartitionsRequest, DeletePartitionsResponse),
}
"""Request and response of each of the seeds' API keys."""


def add_modes(
    body: bytes,
    version: int,
    modes: Mapping[tuple[str, int], int],
    deletes_ms: Mapping[tuple[str, int], int] | None = None,
) -> bytes:
    """A Metadata answer with the mode of these (topic, partition) pairs, where it has them.

    `deletes_ms` is when their data goes, where that is known.

    ReadWrite is what a client assumes, and is not written. A version without tagged fields is
    given back as it is: its clients cannot know the mode (KIP-694 on compatibility).

    Raises:
        WireError: the bytes are no Metadata answer.
    """
    written = {which: mode for which, mode in modes.items() if mode != PartitionMode.READ_WRITE}
    if not written or version < METADATA_TAGS_FROM:
        return body
    out: list[bytes] = []
    copied = 0

    def visit(topic: str, partition: int, reader: Reader) -> None:
        nonlocal copied
        start = reader.at
        fields = read_tags(reader)
        mode = written.get((topic, partition))
        if mode is not None:
            goes_ms = (deletes_ms or {}).get((topic, partition), UNKNOWN_MS)
            fields |= mode_fields(PartitionMode(mode), goes_ms)
            out.extend((body[copied:start], tag_section(fields)))
            copied = reader.at

    _visit_partitions(body, version, visit)
    out.append(body[copied:])
    return b"".join(out)


def read_modes(body: bytes, version: int) -> dict[tuple[str, int], int]:
    """The partitions of a Metadata answer that are not ReadWrite, with their modes.

    Raises:
        WireError: the bytes are no Metadata answer, or a tagged field of a mode has another length.
    """
    modes: dict[tuple[str, int], int] = {}

    def visit(topic: str, partition: int, reader: Reader) -> None:
        mode, _deletes_ms = read_mode(read_tags(reader), reader)
        if mode != PartitionMode.READ_WRITE:
            modes[topic, partition] = mode

    if version >= METADATA_TAGS_FROM:
        _visit_partitions(body, version, visit)
    return modes


def _visit_partitions(body: bytes, version: int, visit: Callable[[str, int, Reader], None]) -> None:
    """Call `visit` at the tagged fields of each partition; it reads past them."""
    reader = Reader(body, flexible=True, what="Metadata answer")
    reader.skip(_INT32_BYTES)
    for _ in range(reader.count()):
        reader.skip(_INT32_BYTES)
        reader.string()
        reader.skip(_INT32_BYTES)
        reader.nullable_string()
        reader.tags()
    reader.nullable_string()
    reader.skip(_INT32_BYTES)
    for _ in range(reader.count()):
        reader.int16()
        # A topic that is asked for by an unknown id has no name, and no partitions.
        topic = reader.nullable_string() or ""
        reader.skip((_UUID_BYTES if version >= _TOPIC_IDS_FROM else 0) + 1)
        for _ in range(reader.count()):
            reader.int16()
            partition = reader.int32()
            reader.skip(2 * _INT32_BYTES)
            for _ in range(3):
                reader.skip(_INT32_BYTES * reader.count())
            visit(topic, partition, reader)
        reader.skip(_INT32_BYTES)
        reader.tags()
