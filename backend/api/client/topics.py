"""The client's part for whole topics: which there are, what they are, and how they are altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.api.schema.topics import (
    TopicConfigs,
    Topics,
    TopicsAnswer,
    altered_topics,
)
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.domain.topics.descriptions import TopicsDescribed, TopicSummary


class TopicsClient(Requests):
    """Options are those of every change: see `backend_client`."""

    def topics(self) -> tuple[TopicSummary, ...]:
        """Every topic of the cluster, by name."""
        return self._ask(Topics, "/v1/topics").topics

    def describe_topics(
        self, topics: Sequence[str] | None = None, *, configs: bool = True, min_isr: bool = False
    ) -> TopicsDescribed:
        """Topics with their partitions, all or those named; one that there is not is absent."""
        named = None if topics is None else list(topics)
        body = {"topics": named, "configs": configs, "min_isr": min_isr}
        return self._send(TopicsAnswer, "/v1/topics/describe", body).described()

    def topic_configs(self, topic: str) -> tuple[TopicConfig, ...]:
        """Everything a topic is configured with, sorted by name.

        Raises:
            BackendError: there is no such topic (`status` 404), or it cannot be read.
        """
        return self._ask(TopicConfigs, f"/v1/topics/{quote(topic, safe='')}/configs").configs

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
            "topics": altered_topics(topics),
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return self._send(ChangeAnswer, "/v1/topics/alter", body)
