"""Replicas move and leaders change: reassignments (KIP-455, KIP-860) and ElectLeaders (KIP-460).

An election is complete when its commit returns, so its answer is never early; timeouts are as in
`topics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.decision import DecidedItem, KafkaError
from kshunt.backend.embedded.controller.elections import ElectionType, elect_leaders
from kshunt.backend.embedded.controller.reassign import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.responses import check_time, committed, response
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.error_codes import INVALID_REQUEST
from kshunt.backend.wire.api_keys import (
    ALTER_PARTITION_REASSIGNMENTS_KEY,
    ELECT_LEADERS_KEY,
    LIST_PARTITION_REASSIGNMENTS_KEY,
)

_FACTOR_FROM: Final = 1
"""KIP-860: the request says whether the replication factor may change."""
_ELECTION_TYPE_FROM: Final = 1


def handlers(world: World) -> dict[int, Handler]:
    """The APIs of this module by key."""
    answers = _Moves(world)
    return {
        ELECT_LEADERS_KEY: answers.elect_leaders,
        ALTER_PARTITION_REASSIGNMENTS_KEY: answers.alter_reassignments,
        LIST_PARTITION_REASSIGNMENTS_KEY: answers.list_reassignments,
    }


class _Moves:
    """One method an API."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def _image(self) -> ClusterImage:
        return self._world.core.image

    async def alter_reassignments(self, context: RequestContext, message: Any) -> Any:
        """Start, replace or cancel moves, each partition for itself."""
        check_time(message)
        version = context.version
        allowed = version < _FACTOR_FROM or message.allow_replication_factor_change
        targets = {
            TopicPartition(topic.name, entry.partition_index): entry.replicas
            for topic in message.topics
            for entry in topic.partitions
        }
        decision = alter_partition_reassignments(
            self._image, targets, allow_replication_factor_change=allowed
        )
        results = {one.item: one for one in committed(self._world, decision).results}
        made = KAFKA_APIS[ALTER_PARTITION_REASSIGNMENTS_KEY].response.ReassignableTopicResponse
        topics = []
        for topic in message.topics:
            items = [
                TopicPartition(topic.name, entry.partition_index) for entry in topic.partitions
            ]
            entries = [
                made.ReassignablePartitionResponse(
                    version=version,
                    partition_index=item.partition,
                    error_code=int(results[item].error),
                    error_message=self._why(results[item]),
                )
                for item in items
            ]
            topics.append(made(version=version, name=topic.name, partitions=entries))
        answer = response(
            ALTER_PARTITION_REASSIGNMENTS_KEY, version, responses=topics, error_message=None
        )
        if version >= _FACTOR_FROM:
            answer.allow_replication_factor_change = allowed
        return answer

    def _why(self, result: DecidedItem[TopicPartition]) -> str | None:
        """Kafka's words for what the controller refused."""
        topic, number = result.item
        if result.error is KafkaError.NO_REASSIGNMENT_IN_PROGRESS:
            return None
        if self._image.topic(topic) is None:
            return f"Unable to find a topic named {topic}."
        if self._image.partition(topic, number) is None:
            return f"Unable to find partition {topic}:{number}."
        return result.message

    async def list_reassignments(self, context: RequestContext, message: Any) -> Any:
        """The moves that are under way, of all partitions or of these."""
        check_time(message)
        asked = None
        if message.topics is not None:
            asked = [TopicPartition(t.name, n) for t in message.topics for n in t.partition_indexes]
        version = context.version
        made = KAFKA_APIS[LIST_PARTITION_REASSIGNMENTS_KEY].response.OngoingTopicReassignment
        topics: dict[str, list[Any]] = {}
        for move in list_partition_reassignments(self._image, asked):
            one = made.OngoingPartitionReassignment(
                version=version,
                partition_index=move.partition,
                replicas=list(move.replicas),
                adding_replicas=list(move.adding),
                removing_replicas=list(move.removing),
            )
            topics.setdefault(move.topic, []).append(one)
        entries = [made(version=version, name=n, partitions=found) for n, found in topics.items()]
        return response(
            LIST_PARTITION_REASSIGNMENTS_KEY, version, error_message=None, topics=entries
        )

    async def elect_leaders(self, context: RequestContext, message: Any) -> Any:
        """Elect leaders of these partitions, or where it is needed.

        The answer to "all" names every topic, and of each the partitions that were tried.
        """
        check_time(message)
        version = context.version
        kind = message.election_type if version >= _ELECTION_TYPE_FROM else ElectionType.PREFERRED
        if message.topic_partitions is None:
            asked: list[tuple[str, list[int]]] | None = None
        else:
            asked = [(topic.topic, topic.partitions) for topic in message.topic_partitions]
        if kind not in list(ElectionType):
            return _unknown_election(version, kind, asked or [])
        items = None if asked is None else [TopicPartition(t, n) for t, ns in asked for n in ns]
        decision = elect_leaders(self._image, items, ElectionType(kind))
        results = {one.item: one for one in committed(self._world, decision).results}
        if asked is None:
            tried: dict[str, list[int]] = {name: [] for name in self._image.topics}
            for item in results:
                tried[item.topic].append(item.partition)
            asked = list(tried.items())
        return _elected(version, asked, {item: self._outcome(r) for item, r in results.items()})

    def _outcome(self, result: DecidedItem[TopicPartition]) -> tuple[int, str | None]:
        topic, number = result.item
        why = result.message
        if self._image.topic(topic) is None:
            why = f"No such topic as {topic}"
        elif self._image.partition(topic, number) is None:
            why = f"No such partition as {topic}-{number}"
        return int(result.error), why


def _elected(
    version: int,
    asked: list[tuple[str, list[int]]],
    outcomes: Mapping[TopicPartition, tuple[int, str | None]],
    error: int = 0,
) -> Any:
    made = KAFKA_APIS[ELECT_LEADERS_KEY].response.ReplicaElectionResult
    topics = []
    for topic, numbers in asked:
        entries = []
        for number in numbers:
            code, why = outcomes[TopicPartition(topic, number)]
            one = made.PartitionResult(version=version, partition_id=number, error_code=code)
            one.error_message = why
            entries.append(one)
        topics.append(made(version=version, topic=topic, partition_result=entries))
    answer = response(ELECT_LEADERS_KEY, version, replica_election_results=topics)
    if version >= _ELECTION_TYPE_FROM:
        answer.error_code = error
    return answer


def _unknown_election(version: int, kind: int, asked: list[tuple[str, list[int]]]) -> Any:
    outcome = INVALID_REQUEST, f"Unknown election type {kind}"
    outcomes = {TopicPartition(topic, number): outcome for topic, ns in asked for number in ns}
    return _elected(version, asked, outcomes, INVALID_REQUEST)
