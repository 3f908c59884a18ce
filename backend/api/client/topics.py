"""The client's part for whole topics: which there are, what they are, and how they are altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from kshunt.backend.api.client.sending.sender import UNPREVIEWED, Subject
from kshunt.backend.api.schema.topics import (
    TopicConfigs,
    Topics,
    TopicsAnswer,
    altered_topics,
)
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.domain.topics.descriptions import TopicsDescribed, TopicSummary


class TopicsClient(Subject):
    """Whole topics."""

    def list(self) -> tuple[TopicSummary, ...]:
        """Every topic of the cluster, by name."""
        return self._sender.ask(Topics, "/v1/topics").topics

    def describe(
        self, topics: Sequence[str] | None = None, *, configs: bool = True, min_isr: bool = False
    ) -> TopicsDescribed:
        """Topics with their partitions, all or those named; one that there is not is absent."""
        named = None if topics is None else list(topics)
        body = {"topics": named, "configs": configs, "min_isr": min_isr}
        return self._sender.send(TopicsAnswer, "/v1/topics/describe", body).described()

    def configs(self, topic: str) -> tuple[TopicConfig, ...]:
        """The whole configuration of a topic, sorted by name.

        Raises:
            BackendError: there is no such topic (`status` 404), or it cannot be read.
        """
        path = f"/v1/topics/{quote(topic, safe='')}/configs"
        return self._sender.ask(TopicConfigs, path).configs

    def alter(
        self,
        topics: Mapping[str, AlteredTopic],
        change: Change = ANONYMOUS_CHANGE,
        *,
        timeout_ms: int = 10_000,
    ) -> ChangeAnswer:
        """Alter topics (KIP-179's early draft): partitions, replication factor, assignment."""
        body = {"topics": altered_topics(topics), "timeout_ms": timeout_ms}
        path = "/v1/topics/alter"
        return self._sender.change(ChangeAnswer, path, change, body, omit=UNPREVIEWED)
