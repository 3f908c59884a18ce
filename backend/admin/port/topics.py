"""Topics: described, created and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.topics.descriptions import TopicsDescribed


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic as one broker knows it."""

    id: str
    """32 digits; another topic of the same name has another. Empty where the broker tells none
    (before Kafka 2.8), or knows no such topic."""
    partitions: int
    """0 where it knows no such topic."""


class TopicAdmin(Protocol):
    """See the module's text; `ClusterAdmin` says what a lost answer comes to."""

    async def describe(
        self,
        topics: Sequence[str] | None = None,
        *,
        configs: bool,
        min_isr: bool,
        timeout_s: float,
    ) -> TopicsDescribed:
        """What `kafka-topics --describe` tells, of all topics or of those named.

        A topic that there is not is absent, and so are moves where we may not know of them.
        `configs`: with what is not configured as Kafka ships it. `min_isr`: with the
        min.insync.replicas in force, which costs a request more.

        Raises:
            ClusterUnreachable: no broker answered in time.
            NotAuthorized: the cluster does not show a configuration.
        """
        ...

    async def create(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        configs: Mapping[str, str],
        *,
        validate_only: bool,
        timeout_s: float,
    ) -> ItemResult:
        """Create a topic with these replicas of each partition and these overrides.

        TOPIC_ALREADY_EXISTS where there is one, whatever it is like; a repeated call says so too.

        Raises:
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def delete(self, name: str, *, topic_id: str = "", timeout_s: float) -> ItemResult:
        """Delete the topic with this id, or of this name. Brokers know it for a moment longer: see
        `known`.

        UNKNOWN_TOPIC_ID where none has the id (any more), also if another has the name;
        UNKNOWN_TOPIC_OR_PARTITION where none has the name; TOPIC_DELETION_DISABLED where
        delete.topic.enable is off.

        Raises:
            ClusterUnreachable, BrokerUnreachable: nothing was sent.
        """
        ...

    async def known(self, topic: str, *, timeout_s: float) -> Mapping[int, KnownTopic | None]:
        """What each live broker knows of a topic; None where it does not answer in time.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...
