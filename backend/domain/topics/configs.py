"""What a topic is configured with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One setting of a topic, as it is in force."""

    name: str
    value: str | None
    """None where the cluster does not show it."""
    source: str
    """Kafka's name of where the value is set: `DYNAMIC_TOPIC_CONFIG` is the topic itself."""
    is_default: bool
    """True where neither the topic nor a broker sets it: it is what Kafka ships with."""
