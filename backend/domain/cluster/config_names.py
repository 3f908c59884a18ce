"""Kafka's names in configurations: keys that several packages ask for, and sources of values.

Those of throttles are in `kshunt.backend.domain.throttles.configs`.
"""

from __future__ import annotations

import enum
from typing import Final

CLEANUP_POLICY: Final = "cleanup.policy"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
MESSAGE_TIMESTAMP_TYPE: Final = "message.timestamp.type"
TIMESTAMP_BEFORE_MAX_MS: Final = "message.timestamp.before.max.ms"
TIMESTAMP_DIFFERENCE_MAX_MS: Final = "message.timestamp.difference.max.ms"
PLACER_CLASS: Final = "replica.placer.class.name"
"""Names the placer (KIP-660, New broker configuration)."""
MIN_ISR: Final = "min.insync.replicas"
RETENTION_BYTES: Final = "retention.bytes"
RETENTION_MS: Final = "retention.ms"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
SHRINK_ENABLE: Final = "delete.topic.partition.enable"
"""KIP-694: whether partitions may be deleted."""


class ConfigSource(enum.StrEnum):
    """Where a value is from, by the names of `DescribeConfigsResponse.ConfigSource`."""

    DYNAMIC_TOPIC = "DYNAMIC_TOPIC_CONFIG"
    DYNAMIC_BROKER = "DYNAMIC_BROKER_CONFIG"
    DYNAMIC_DEFAULT_BROKER = "DYNAMIC_DEFAULT_BROKER_CONFIG"
    STATIC = "STATIC_BROKER_CONFIG"
    DEFAULT = "DEFAULT_CONFIG"
