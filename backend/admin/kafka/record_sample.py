"""The last few records of partitions: whether they have keys, who placed them, and how large.

Read by librdkafka, which knows every compression. It wants the name of a group and looks for its
coordinator. It joins no group and commits nothing, so this module ignores a refusal by the
coordinator. What a transaction has not committed is looked at too; its keys are as telling.
Importing this module loads librdkafka.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from kshunt.backend.admin.rpc.librdkafka import made
from kshunt.backend.admin.security.client_properties import ClientConfig
from kshunt.backend.domain.topics.groups import RecordSample
from kshunt.backend.domain.topics.partitioners import keys_seen

RECORDS_PER_PARTITION: Final = 100
PARTITIONS_MAX: Final = 64
"""Of a wider topic, the last partitions are looked at: they are those that go."""
_FETCH_BYTES: Final = 64 * 1024
_POLL_S: Final = 0.05


@dataclass(slots=True)
class _Seen:
    """What was read so far."""

    waiting: set[int]
    """Partitions whose end was not reached."""
    counts: dict[int, int] = field(default_factory=dict)
    pairs: set[tuple[bytes, int]] = field(default_factory=set)
    """Keys, each with the partition that it is in."""
    keyed: int = 0
    tombstones: int = 0
    largest_bytes: int = 0
    unread: dict[str, str] = field(default_factory=dict)

    def take(self, message: Any) -> None:
        """Count a record."""
        key, value, number = message.key(), message.value(), message.partition()
        self.counts[number] = self.counts.get(number, 0) + 1
        self.keyed += key is not None
        if key is not None:
            self.pairs.add((key, number))
        self.tombstones += value is None
        self.largest_bytes = max(self.largest_bytes, len(key or b"") + len(value or b""))
        if self.counts[number] >= RECORDS_PER_PARTITION:
            self.waiting.discard(number)


def sample(
    bootstrap_servers: str,
    config: ClientConfig,
    topic: str,
    ends: Mapping[int, tuple[int, int]],
    *,
    partitions: int,
    timeout_s: float,
) -> RecordSample:
    """Read the last records of partitions, given the start and end of each; blocks.

    `partitions` is how many the topic has.

    Raises:
        ConfigError: librdkafka does not take the settings.
    """
    chosen = sorted(number for number, (start, end) in ends.items() if end > start)
    seen = _Seen(set(chosen[-PARTITIONS_MAX:]))
    if seen.waiting:
        settings = _settings(bootstrap_servers, config)
        consumer = made(Consumer, settings, "Nothing was changed.")
        try:
            _read(consumer, topic, ends, seen, time.monotonic() + timeout_s)
        finally:
            consumer.close()
    if seen.waiting:
        names = ", ".join(f"{topic}-{number}" for number in sorted(seen.waiting)[:5])
        seen.unread.setdefault(f"last records of {names}", f"not within {timeout_s:g} s")
    return RecordSample(
        records=sum(seen.counts.values()),
        keyed=seen.keyed,
        tombstones=seen.tombstones,
        largest_bytes=seen.largest_bytes,
        partitions=tuple(sorted(seen.counts)),
        unread=seen.unread,
        seen=keys_seen(seen.pairs, partitions),
    )


def _settings(bootstrap_servers: str, config: ClientConfig) -> dict[str, Any]:
    return {
        **config.librdkafka,
        "bootstrap.servers": bootstrap_servers,
        # It must be set, and is never used: nothing is subscribed, stored or committed.
        "group.id": "kshunt-sample",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # A broker waits this long for more before it says that the end is reached.
        "fetch.wait.max.ms": 50,
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "latest",
        "allow.auto.create.topics": False,
        "fetch.message.max.bytes": _FETCH_BYTES,
        "log_level": 0,
    }


def _read(
    consumer: Consumer,
    topic: str,
    ends: Mapping[int, tuple[int, int]],
    seen: _Seen,
    deadline: float,
) -> None:
    places = [
        TopicPartition(topic, number, max(ends[number][0], ends[number][1] - RECORDS_PER_PARTITION))
        for number in sorted(seen.waiting)
    ]
    consumer.assign(places)
    while seen.waiting and time.monotonic() < deadline:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        refused = message.error()
        if refused is None:
            seen.take(message)
        elif refused.code() == KafkaError._PARTITION_EOF:
            seen.waiting.discard(message.partition())
        elif not refused.retriable() and refused.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            seen.unread[f"last records of {topic}"] = refused.str()
            seen.waiting.clear()
