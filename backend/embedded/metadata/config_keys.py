"""The configuration keys that this cluster knows, with Kafka's types, defaults and limits.

Names and defaults are Kafka's (`TopicConfig`, `ServerLogConfigs`, `QuotaConfig`), except the two
`delete.topic.partition` keys of KIP-694 and the placer of KIP-660.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.cluster.config_names import (
    CLEANUP_POLICY,
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_TYPE,
    MIN_ISR,
    PLACER_CLASS,
    RETENTION_BYTES,
    RETENTION_MS,
    SHRINK_ENABLE,
    UNCLEAN_ELECTION,
)
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.placement.placer_names import KAFKA_STRIPED, SHIPPED

SHRINK_INTERVAL_MS: Final = "delete.topic.partition.interval.delay.ms"
AUTHORIZER_CLASS: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_IF_NO_ACL: Final = "allow.everyone.if.no.acl.found"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only authorizer that there is here."""

READ_ONLY: Final = frozenset(
    {
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "default.replication.factor",
        "delete.topic.enable",
        "num.partitions",
        "replica.lag.time.max.ms",
        ALLOW_IF_NO_ACL,
        AUTHORIZER_CLASS,
        PLACER_CLASS,
        SUPER_USERS,
    }
)
"""The brokers' keys that are read only when a broker starts. A client that could name the placer
could have the brokers run any code that they can import."""

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1

_REPLICA_LIST = re.compile(r"\*|(\d+:\d+)(,\d+:\d+)*")
_INTEGER = re.compile(r"[+-]?\d{1,20}")


class ConfigType(enum.IntEnum):
    """Kafka's config types, as DescribeConfigs numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8


class ConfigSourceNumber(enum.IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key that a resource may have."""

    name: str
    type: ConfigType
    default: str | None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    """Allowed values, or allowed entries of a list."""
    broker_synonym: str | None = None
    """For a topic's key: the broker's key that it falls back to."""
    replica_list: bool = False
    """True for KIP-73's `partition:broker` lists."""

    def problem(self, value: str) -> str | None:
        """Why a value cannot stand, in Kafka's words, or None."""
        if self.replica_list:
            return _replica_list_problem(value.replace(" ", ""))
        if self.type in (ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE):
            return self._number_problem(value)
        if self.type is ConfigType.BOOLEAN:
            known = value.strip().lower() in ("true", "false")
            return None if known else "Expected value to be either true or false"
        entries = split(value) if self.type is ConfigType.LIST else [value]
        if self.choices and not set(entries) <= set(self.choices):
            return f"String must be one of: {', '.join(self.choices)}"
        return None

    def _number_problem(self, value: str) -> str | None:
        if self.type is not ConfigType.DOUBLE and not _INTEGER.fullmatch(value.strip()):
            return f"Not a number of type {self.type.name}"
        try:
            number = float(value) if self.type is ConfigType.DOUBLE else int(value)
        except ValueError:
            return "Not a number of type DOUBLE"
        largest = INT_MAX if self.type is ConfigType.INT else LONG_MAX
        if not -largest - 1 <= number <= largest:
            return f"Not a number of type {self.type.name}"
        if self.minimum is not None and number < self.minimum:
            return f"Value must be at least {self.minimum:g}"
        if self.maximum is not None and number > self.maximum:
            return f"Value must be no more than {self.maximum:g}"
        return None


def split(value: str) -> list[str]:
    """The entries of a list value; an empty value has none."""
    return [entry.strip() for entry in value.split(",")] if value.strip() else []


def _replica_list_problem(value: str) -> str | None:
    if value in ("", "none") or _REPLICA_LIST.fullmatch(value):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


_B, _S, _I, _L, _D, _LIST, _C = ConfigType

_TOPIC: Final = (
    ConfigKey(CLEANUP_POLICY, _LIST, "delete", choices=("compact", "delete")),
    ConfigKey(
        "compression.type",
        _S,
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        broker_synonym="compression.type",
    ),
    ConfigKey("delete.retention.ms", _L, "86400000", 0),
    ConfigKey("file.delete.delay.ms", _L, "60000", 0),
    ConfigKey("flush.messages", _L, str(LONG_MAX), 1),
    ConfigKey("flush.ms", _L, str(LONG_MAX), 0),
    ConfigKey(FOLLOWER_REPLICAS, _LIST, "", replica_list=True),
    ConfigKey("index.interval.bytes", _I, "4096", 0),
    ConfigKey(LEADER_REPLICAS, _LIST, "", replica_list=True),
    ConfigKey("max.compaction.lag.ms", _L, str(LONG_MAX), 1),
    ConfigKey(MAX_MESSAGE_BYTES, _I, "1048588", 0, broker_synonym="message.max.bytes"),
    ConfigKey(MESSAGE_TIMESTAMP_TYPE, _S, "CreateTime", choices=("CreateTime", "LogAppendTime")),
    ConfigKey("min.cleanable.dirty.ratio", _D, "0.5", 0, 1),
    ConfigKey("min.compaction.lag.ms", _L, "0", 0),
    ConfigKey(MIN_ISR, _I, "1", 1, broker_synonym=MIN_ISR),
    ConfigKey("preallocate", _B, "false"),
    ConfigKey(RETENTION_BYTES, _L, "-1", broker_synonym="log.retention.bytes"),
    ConfigKey(RETENTION_MS, _L, "604800000", -1, broker_synonym="log.retention.ms"),
    ConfigKey("segment.bytes", _I, "1073741824", 14, broker_synonym="log.segment.bytes"),
    ConfigKey("segment.index.bytes", _I, "10485760", 4),
    ConfigKey("segment.jitter.ms", _L, "0", 0),
    ConfigKey("segment.ms", _L, "604800000", 1, broker_synonym="log.roll.ms"),
    ConfigKey(UNCLEAN_ELECTION, _B, "false", broker_synonym=UNCLEAN_ELECTION),
)

_BROKER: Final = (
    ConfigKey(ALLOW_IF_NO_ACL, _B, "false"),
    ConfigKey(AUTHORIZER_CLASS, _C, "", choices=("", STANDARD_AUTHORIZER)),
    ConfigKey("auto.create.topics.enable", _B, "true"),
    ConfigKey("auto.leader.rebalance.enable", _B, "true"),
    ConfigKey("background.threads", _I, "10", 1),
    ConfigKey(
        "compression.type",
        _S,
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    ConfigKey("default.replication.factor", _I, "1", 1),
    ConfigKey("delete.topic.enable", _B, "true"),
    ConfigKey(SHRINK_ENABLE, _B, "false"),
    ConfigKey(SHRINK_INTERVAL_MS, _L, "300000", 1),
    ConfigKey(FOLLOWER_RATE, _L, str(LONG_MAX), 0),
    ConfigKey(LEADER_RATE, _L, str(LONG_MAX), 0),
    ConfigKey("log.retention.bytes", _L, "-1"),
    ConfigKey("log.retention.ms", _L, "604800000", -1),
    ConfigKey("log.roll.ms", _L, "604800000", 1),
    ConfigKey("log.segment.bytes", _I, "1073741824", 14),
    ConfigKey("message.max.bytes", _I, "1048588", 0),
    ConfigKey(MIN_ISR, _I, "1", 1),
    ConfigKey("num.io.threads", _I, "8", 1),
    ConfigKey("num.network.threads", _I, "3", 1),
    ConfigKey("num.partitions", _I, "1", 1),
    ConfigKey("num.replica.fetchers", _I, "1", 1),
    ConfigKey(LOG_DIR_RATE, _L, str(LONG_MAX), 0),
    ConfigKey("replica.lag.time.max.ms", _L, "30000", 1),
    ConfigKey(PLACER_CLASS, _C, KAFKA_STRIPED, choices=(*SHIPPED, KAFKA_STRIPED)),
    ConfigKey(SUPER_USERS, _S, ""),
    ConfigKey(UNCLEAN_ELECTION, _B, "false"),
)

KEYS: Final[Mapping[ResourceType, Mapping[str, ConfigKey]]] = {
    ResourceType.TOPIC: {key.name: key for key in _TOPIC},
    ResourceType.BROKER: {key.name: key for key in _BROKER},
}
"""Every known key by the kind of its resource, sorted by name."""
