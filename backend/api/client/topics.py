"""The client's part about whole topics; see `backend.api.client.backend_client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.api.schema.base import read_change
from backend.api.schema.shrinks import read_deleted, shrink_json
from backend.api.schema.topics import altered_json, read_described, read_summary
from backend.domain.reassignment.answers import ChangeAnswer
from backend.domain.shrink.delete_partitions import DeletePartitions, ShrinkAnswer, ShrinkSupport
from backend.domain.topics.alteration import AlteredTopic
from backend.domain.topics.descriptions import TopicsDescribed, TopicSummary


class TopicsClient:
    """What `BackendClient` adds to by knowing how to send it."""

    def topics(self) -> tuple[TopicSummary, ...]:
        """Every topic of the cluster, by name."""
        return tuple(map(read_summary, self._get("/v1/topics")["topics"]))

    def describe_topics(
        self, topics: Sequence[str] | None = None, *, configs: bool = True, min_isr: bool = False
    ) -> TopicsDescribed:
        """Topics with their partitions, all or those named; one that there is not is absent."""
        named = None if topics is None else list(topics)
        body = {"topics": named, "configs": configs, "min_isr": min_isr}
        return read_described(self._post("/v1/topics/describe", body))

    def shrink_support(self) -> ShrinkSupport:
        """Whether the cluster deletes partitions by itself (KIP-694)."""
        return ShrinkSupport(self._get("/v1/topics/deletion")["support"])

    # What changes the cluster. Options are those of `BackendClient`'s changes.

    def alter_topics(
        self,
        topics: Mapping[str, AlteredTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Alter topics (KIP-179's early draft): partitions, replication factor, assignment."""
        body = {
            "topics": altered_json(topics),
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return read_change(self._post("/v1/topics/alter", body))

    def delete_partitions(
        self,
        topics: Mapping[str, DeletePartitions],
        *,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ShrinkAnswer:
        """Let topics keep their first partitions, the others go (KIP-694).

        Raises:
            BackendError: the cluster cannot do so by itself, or it is switched off there
                (`status` 409).
        """
        body = {
            "topics": shrink_json(topics),
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return read_deleted(self._post("/v1/topics/delete-partitions", body))

    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        raise NotImplementedError

    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        raise NotImplementedError
