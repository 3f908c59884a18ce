"""The seeds' own RPCs (KIP-179 and its early draft, KIP-183, KIP-694), answered by the controller.

Any broker answers: it forwards what an administrator asks to the controller, as brokers do in
KRaft, so nobody is told NOT_CONTROLLER. Only ReplicaStatus is for the leader, as its draft says.

A commit returns when everything it decided is true, elections included, so an answer is never
early, nothing is waited for, and the requests' timeouts have no effect.

Where a seed leaves something open:

- A partition, broker or topic that a request names twice, and not alike, is INVALID_REQUEST for
  the whole request. KIP-183 allows duplicates, and they are alike there.
- ReplicaStatus asked of a broker that does not lead is NOT_LEADER_OR_FOLLOWER, which the draft
  forgets. The leader is no follower of its own partition: UNKNOWN_TOPIC_OR_PARTITION.
- DeletePartitions names the partitions on the wire, and the number that stays in Java. Only the
  last ones can go, so they name the number; any others are INVALID_PARTITIONS. None at all, for
  a topic, takes back what was to be deleted later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.alter_topics import AlterTopicsEntry, alter_topics
from kshunt.backend.embedded.controller.decision import DecidedItem, Decision, KafkaError
from kshunt.backend.embedded.controller.elections import elect_preferred_leaders
from kshunt.backend.embedded.controller.shrink import delete_partitions
from kshunt.backend.embedded.controller.throttled_reassign import reassign_partitions
from kshunt.backend.embedded.controller.throttles import (
    RateRequest,
    ReplicasRequest,
    alter_interbroker_throttled_rates,
    alter_interbroker_throttled_replicas,
)
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.responses import committed
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import PartitionModeCode
from kshunt.backend.embedded.net.api import WireReply
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.error_codes import INVALID_REQUEST, NOT_LEADER_OR_FOLLOWER
from kshunt.backend.wire import kip_requests

Key = TypeVar("Key")
Value = TypeVar("Value")

UNKNOWN = -1
"""ReplicaStatus: the time and the lag of a replica that cannot be described."""


def handlers(world: World) -> dict[int, Handler]:
    """The seeds' RPCs by API key."""
    answers = _Seeds(world)
    return {
        kip_requests.REASSIGN_PARTITIONS_KEY: answers.reassign_partitions,
        kip_requests.ALTER_INTERBROKER_THROTTLED_RATES_KEY: answers.alter_rates,
        kip_requests.ALTER_INTERBROKER_THROTTLED_REPLICAS_KEY: answers.alter_replicas,
        kip_requests.ALTER_TOPICS_KEY: answers.alter_topics,
        kip_requests.REPLICA_STATUS_KEY: answers.replica_status,
        kip_requests.ELECT_PREFERRED_LEADERS_KEY: answers.elect_preferred_leaders,
        kip_requests.DELETE_PARTITIONS_KEY: answers.delete_partitions,
    }


class _Seeds:
    """One method an API."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def _image(self) -> ClusterImage:
        return self._world.core.image

    async def reassign_partitions(self, context: RequestContext, message: Any) -> Any:
        targets = _once(
            (TopicPartition(topic.topic, entry.partition_id), tuple(entry.broker))
            for topic in message.topic_reassignments
            for entry in topic.partition_reassignments
        )
        decision = committed(
            self._world,
            reassign_partitions(
                self._image,
                targets,
                throttle_bytes_per_s=message.throttle,
                remove_throttle=message.remove_throttle,
                validate_only=message.validate_only,
            ),
        )
        return kip_requests.ReassignPartitionsResponse(
            version=context.version, reassign_partition_result=_by_topic(decision.results)
        )

    async def alter_rates(self, context: RequestContext, message: Any) -> Any:
        rates = _once(
            (entry.broker_id, RateRequest(entry.leader_rate, entry.follower_rate))
            for entry in message.broker_throttles
        )
        decision = committed(
            self._world,
            alter_interbroker_throttled_rates(
                self._image,
                rates,
                remove_throttle=message.remove_throttle,
                validate_only=message.validate_only,
            ),
        )
        return kip_requests.AlterInterbrokerThrottledRatesResponse(
            version=context.version,
            broker_error=[(one.item, int(one.error), one.message) for one in decision.results],
        )

    async def alter_replicas(self, context: RequestContext, message: Any) -> Any:
        replicas = _once(
            (TopicPartition(topic.topic, entry.partition_id), _roles(entry, context.version))
            for topic in message.topic_throttles
            for entry in topic.partition_throttles
        )
        decision = committed(
            self._world,
            alter_interbroker_throttled_replicas(
                self._image,
                replicas,
                remove_throttle=message.remove_throttle,
                validate_only=message.validate_only,
            ),
        )
        return kip_requests.AlterInterbrokerThrottledReplicasResponse(
            version=context.version, topic_errors=_by_topic(decision.results)
        )

    async def alter_topics(self, context: RequestContext, message: Any) -> Any:
        asked = [
            AlterTopicsEntry(
                entry.topic,
                entry.partitions,
                entry.replicas,
                _once((one.partition, tuple(one.brokers)) for one in entry.partition_assignment),
            )
            for entry in message.altered_topic
        ]
        core, placement = self._world.core, self._world.placement_for(context.principal)
        altered = alter_topics(core.image, asked, core.random, placement=placement)
        decision = committed(self._world, altered)
        return kip_requests.AlterTopicsResponse(
            version=context.version,
            altered_topic=[(one.item, int(one.error), one.message) for one in decision.results],
        )

    async def replica_status(self, context: RequestContext, message: Any) -> Any:
        entries = [
            (one.topic, one.partition, one.broker, *self._status(context.broker_id, one))
            for one in message.replica
        ]
        return kip_requests.ReplicaStatusResponse(version=context.version, replica_status=entries)

    def _status(self, asked_broker: int, replica: Any) -> tuple[int, int, int]:
        """Error, time of the status, and lag in messages of one follower."""
        error = _undescribed(self._image, asked_broker, replica)
        plane = self._world.core.plane
        held = plane.named(replica.topic, replica.partition)
        if error or held is None:
            return error or KafkaError.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN, UNKNOWN
        leader_end = plane.log_end_offset(held, asked_broker)
        end = plane.log_end_offset(held, replica.broker)
        if leader_end is None or end is None:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN, UNKNOWN
        return KafkaError.NONE, plane.now_ms, max(leader_end - end, 0)

    async def elect_preferred_leaders(self, context: RequestContext, message: Any) -> Any:
        named = message.topic_partitions
        asked = named and [
            TopicPartition(entry.topic, number) for entry in named for number in entry.partition_id
        ]
        decision = committed(self._world, elect_preferred_leaders(self._image, asked))
        return kip_requests.ElectPreferredLeadersResponse(
            version=context.version, replica_election_result=_by_topic(decision.results)
        )

    async def delete_partitions(self, context: RequestContext, message: Any) -> Any:
        asked = _once((topic.name, tuple(sorted(topic.partitions))) for topic in message.topics)
        counts = {name: _left_of(self._image, name, goes) for name, goes in asked.items()}
        decision = committed(
            self._world,
            delete_partitions(
                self._image,
                {name: count for name, count in counts.items() if count is not None},
                self._world.core.now_ms,
                delay_ms=message.delete_partitions_delay,
            ),
        )
        responses = [
            (name, list(self._deletions(name, goes, counts[name], decision)))
            for name, goes in asked.items()
        ]
        return kip_requests.DeletePartitionsResponse(version=context.version, responses=responses)

    def _deletions(
        self,
        name: str,
        goes: Sequence[int],
        count: int | None,
        decision: Decision[TopicPartition],
    ) -> Iterator[tuple[int, int, int, str | None]]:
        """Partition, mode, error and message; what refuses the topic is said of each partition."""
        results = [one for one in decision.results if one.item.topic == name]
        if count is None:
            message = f"Only the last partitions of topic {name} can be deleted."
            item = TopicPartition(name, UNKNOWN)
            results = [DecidedItem(item, KafkaError.INVALID_PARTITIONS, message)]
        for one in results:
            numbers = [one.item.partition] if one.ok else goes or (UNKNOWN,)
            for number in numbers:
                mode = one.status_code
                if mode is None:
                    mode = _mode(self._image, name, number)
                yield number, mode, int(one.error), one.message


def _once(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, Value]:
    """The pairs by key.

    Raises:
        WireReply: a key is there twice, with two values.
    """
    found: dict[Key, Value] = {}
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            raise WireReply(INVALID_REQUEST, f"{key} is named twice, with different values.")
    return found


def _by_topic(
    results: Iterable[DecidedItem[TopicPartition]],
) -> list[tuple[str, list[tuple[int, int, str | None]]]]:
    """Results in the shape that most of the seeds' answers have."""
    topics: dict[str, list[tuple[int, int, str | None]]] = {}
    for one in results:
        entry = (one.item.partition, int(one.error), one.message)
        topics.setdefault(one.item.topic, []).append(entry)
    return list(topics.items())


def _roles(entry: Any, version: int) -> ReplicasRequest:
    """A partition's throttled brokers; version 0 has one list for both roles."""
    if version == 0:
        both = _brokers(entry.broker_id)
        return ReplicasRequest(both, both)
    return ReplicasRequest(_brokers(entry.leaders), _brokers(entry.followers))


def _brokers(listed: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if listed is None else tuple(listed)


def _undescribed(image: ClusterImage, asked_broker: int, replica: Any) -> int:
    """Why a broker cannot tell the status of a replica, in the draft's codes; or 0."""
    partition = image.partition(replica.topic, replica.partition)
    if image.topic(replica.topic) is None:
        return KafkaError.INVALID_TOPIC_EXCEPTION
    if partition is None:
        return KafkaError.INVALID_PARTITIONS
    if partition.leader != asked_broker:
        return NOT_LEADER_OR_FOLLOWER
    if replica.broker not in image.brokers:
        return KafkaError.UNKNOWN_MEMBER_ID
    follows = replica.broker in partition.replicas and replica.broker != asked_broker
    return KafkaError.NONE if follows else KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def _left_of(image: ClusterImage, name: str, goes: Sequence[int]) -> int | None:
    """How many partitions a topic keeps if these go, or None if they are not its last ones.

    A partition whose data goes already does not count. A topic that there is not keeps any
    number, since the controller says what is wrong.
    """
    topic = image.topic(name)
    if topic is None:
        return 1
    present = sorted(n for n, p in topic.partitions.items() if p.mode is not PartitionModeCode.NONE)
    remaining = len(present) - len(goes)
    return remaining if remaining >= 0 and present[remaining:] == list(goes) else None


def _mode(image: ClusterImage, name: str, number: int) -> int:
    """A partition's mode; None (-1) for one that there is not."""
    partition = image.partition(name, number)
    return int(PartitionModeCode.NONE if partition is None else partition.mode)
