"""Topics altered (KIP-179's early draft): partitions, replication factor and assignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.topics.alteration import AlteredTopic


class AlterationAdmin(Protocol):
    """See the module's text."""

    async def alter(
        self, topics: Mapping[str, AlteredTopic], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """KIP-179's early draft, alterTopics: each topic for itself.

        A success says that the alteration has begun; the moves run without a throttle. The
        draft's errors: INVALID_TOPIC_EXCEPTION for a topic that does not exist,
        INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, UNKNOWN_MEMBER_ID for a broker that does
        not exist, INVALID_REPLICA_ASSIGNMENT, CLUSTER_AUTHORIZATION_FAILED; and
        REASSIGNMENT_IN_PROGRESS. REPLICA_PLACEMENT_FAILED has the words of a placer (KIP-660): the
        cluster's, or ours where the verb is composed. What a broker's policies and quotas refuse
        has their own codes.
        Where the answer was lost and the change not seen, the message says so.

        Raises:
            ClusterUnreachable: the cluster did not answer before anything was written.
        """
        ...
