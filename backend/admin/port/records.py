"""The records of a topic: where its logs begin and end, who writes them, and the last few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kshunt.backend.domain.topics.groups import OffsetsRead, ProducersRead, RecordSample


class RecordAdmin(Protocol):
    """See the module's text. Nothing is changed."""

    async def offsets(self, topic: str, *, timeout_s: float) -> OffsetsRead:
        """Where the logs of a topic begin and end, by their leaders; see `PartitionOffsets`.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...

    async def producers(self, topic: str, *, timeout_s: float) -> ProducersRead:
        """The producers that the leaders of a topic's partitions remember (KIP-664).

        A leader without that call (before Kafka 2.8, and every embedded one) is in `unread`.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        ...

    async def sample(
        self,
        topic: str,
        ends: Mapping[int, tuple[int, int]],
        *,
        partitions: int,
        timeout_s: float,
    ) -> RecordSample:
        """The last few records of these partitions, given the start and end offset of each.

        `partitions` is how many the topic has, by which its producers place keys.
        What is not there in time is in `unread`. No group is joined, and nothing committed.
        """
        ...
