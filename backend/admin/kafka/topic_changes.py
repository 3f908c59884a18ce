"""One topic created, deleted or configured otherwise, and how brokers show that they know of it.

The small requests over our own connections, each sent once; see `ClusterEffects` for what a lost
answer comes to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kshunt.backend.admin.port.effects import KnownTopic
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.configs import TOPIC, describe_request, topic_configs
from kshunt.backend.admin.rpc.connections import Lane
from kshunt.backend.admin.rpc.error_mapping import (
    BrokerDown,
    decode_message,
    item_result,
    raise_for_code,
)
from kshunt.backend.admin.rpc.requests import UNANSWERED
from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.cluster.error_codes import (
    NOT_CONTROLLER,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.errors import BrokerUnreachable
from kshunt.backend.wire.raw import RawAnswer, RawRequest
from kshunt.backend.wire.reader import WireError

"""The source of what is set on a topic itself."""
_CHOSEN: Final = -1
"""For the number of partitions and replicas, where they are listed."""
_SET, _DELETE = 0, 1
"""`AlterConfigOp.OpType`."""
_NAMES_UNTIL: Final = 5
"""From version 6 on, DeleteTopics has topic ids."""
_OPERATIONS_FROM, _METADATA_UNTIL = 8, 12
"""Metadata tells what we are authorized to do from version 8 on (Kafka 2.3)."""


class ConfigCalls(BrokerCalls, Protocol):
    """What is needed besides."""

    async def topic_configs(
        self, topic: str, *, timeout_s: float
    ) -> tuple[TopicConfig, ...] | None:
        """See `ClusterAdmin.topic_configs`."""
        ...


async def create_topic(
    cluster: BrokerCalls,
    name: str,
    assignment: Mapping[int, Sequence[int]],
    configs: Mapping[str, str],
    *,
    validate_only: bool,
    timeout_s: float,
) -> ItemResult:
    """See `ClusterEffects.create_topic`."""
    of_topic = CreateTopicsRequest.CreatableTopic
    placed = [(number, list(brokers)) for number, brokers in sorted(assignment.items())]
    topic = of_topic(
        name=name,
        num_partitions=_CHOSEN,
        replication_factor=_CHOSEN,
        assignments=placed,
        configs=sorted(configs.items()),
    )
    message = CreateTopicsRequest(
        topics=[topic], timeout_ms=_ms(timeout_s), validate_only=validate_only
    )

    def read(answer: RawAnswer) -> ItemResult:
        return _first(decode_message(CreateTopicsResponse, answer).topics)

    lane: Lane = "read" if validate_only else "write"
    return await by_controller(cluster, lambda: RawRequest.of(message), read, timeout_s, lane)


async def delete_topic(
    cluster: BrokerCalls, name: str, *, topic_id: str = "", timeout_s: float
) -> ItemResult:
    """See `ClusterEffects.delete_topic`."""

    def request() -> RawRequest:
        return _delete_request(name, topic_id, timeout_s)

    def read(answer: RawAnswer) -> ItemResult:
        # One was asked for; by its id it may come back without its name.
        return _first(decode_message(DeleteTopicsResponse, answer).responses)

    return await by_controller(cluster, request, read, timeout_s)


def _delete_request(name: str, topic_id: str, timeout_s: float) -> RawRequest:
    if not topic_id:
        message = DeleteTopicsRequest(topic_names=[name], timeout_ms=_ms(timeout_s))
        return RawRequest.of(message, min_version=1, max_version=_NAMES_UNTIL)
    state = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=UUID(topic_id))
    message = DeleteTopicsRequest(topics=[state], timeout_ms=_ms(timeout_s))
    return RawRequest.of(message, min_version=_NAMES_UNTIL + 1)


async def alter_topic_configs(
    cluster: BrokerCalls, topic: str, changes: Mapping[str, str | None], *, timeout_s: float
) -> ItemResult:
    """See `ClusterEffects.alter_topic_configs`."""
    entries = [
        (key, _DELETE if value is None else _SET, value) for key, value in sorted(changes.items())
    ]
    message = IncrementalAlterConfigsRequest(
        resources=[(TOPIC, topic, entries)], validate_only=False
    )

    def read(answer: RawAnswer) -> ItemResult:
        return _first(decode_message(IncrementalAlterConfigsResponse, answer).responses)

    return await by_controller(cluster, lambda: RawRequest.of(message), read, timeout_s)


def _first(entries: Sequence[Any]) -> ItemResult:
    """The result of the one that was asked for."""
    if not entries:
        return UNANSWERED
    # The words come from Kafka 2.8 on; DeleteTopics had none before.
    return item_result(entries[0].error_code, getattr(entries[0], "error_message", None))


def _ms(timeout_s: float) -> int:
    return int(timeout_s * 1000)


# What brokers know


def topic_request(topic: str, *, operations: bool = False) -> RawRequest:
    """Metadata of one topic; with `operations`, what of them we are authorized to do."""
    message = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=operations,
    )
    return RawRequest.of(message, min_version=_OPERATIONS_FROM, max_version=_METADATA_UNTIL)


def topic_entry(answer: RawAnswer) -> Any | None:
    """What an answer to a `topic_request` says; None where the broker knows no such topic.

    Raises:
        NotAuthorized: it does not show the topic to us.
        ClusterError: it refuses for another reason.
    """
    (entry,) = decode_message(MetadataResponse, answer).topics or (None,)
    if entry is None or entry.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    raise_for_code(entry.error_code, None, f"Metadata of {entry.name}")
    return entry


async def topic_known(
    cluster: BrokerCalls, topic: str, *, timeout_s: float
) -> Mapping[int, KnownTopic | None]:
    """See `ClusterEffects.topic_known`."""
    brokers = sorted((await cluster.describe((), timeout_s=timeout_s)).brokers)

    async def ask(broker: int) -> KnownTopic | None:
        try:
            answer = await cluster.call(broker, topic_request(topic), timeout_s=timeout_s)
        except BrokerUnreachable:
            return None
        entry = await asyncio.to_thread(topic_entry, answer)
        if entry is None:
            return KnownTopic("", 0)
        return KnownTopic(entry.topic_id.hex if entry.topic_id else "", len(entry.partitions))

    return dict(zip(brokers, await together(map(ask, brokers)), strict=True))


async def topic_overrides(
    cluster: ConfigCalls, topic: str, *, timeout_s: float
) -> Mapping[str, str] | None:
    """See `ClusterEffects.topic_overrides`."""
    found = await cluster.topic_configs(topic, timeout_s=timeout_s)
    if found is None:
        return None
    return {one.name: one.value or "" for one in found if one.source == ConfigSource.DYNAMIC_TOPIC}


async def topic_configs_in_force(
    cluster: BrokerCalls,
    topic: str,
    names: Sequence[str],
    brokers: Sequence[int],
    *,
    timeout_s: float,
) -> Mapping[int, Mapping[str, str]]:
    """See `ClusterEffects.topic_configs_in_force`."""
    wanted = list(dict.fromkeys(brokers))

    async def ask(broker: int) -> Mapping[str, str] | None:
        request = describe_request(TOPIC, [topic], names)
        try:
            answer = await cluster.call(broker, request, timeout_s=timeout_s)
        except BrokerUnreachable:
            return None
        found = topic_configs(answer, topic)
        return None if found is None else {one.name: one.value or "" for one in found}

    said = zip(wanted, await together(map(ask, wanted)), strict=True)
    return {broker: values for broker, values in said if values is not None}


# Sending


async def by_controller(
    cluster: BrokerCalls,
    request: Callable[[], RawRequest],
    read: Callable[[RawAnswer], ItemResult],
    timeout_s: float,
    lane: Lane = "write",
) -> ItemResult:
    """The controller's answer to a change; see `result_or_lost`.

    Raises:
        ClusterUnreachable, BrokerDown: nothing was sent.
    """

    async def asked() -> ItemResult:
        return read(await cluster.ask_controller(request, timeout_s=timeout_s, lane=lane))

    result = await result_or_lost(asked)
    if result.error_code != NOT_CONTROLLER:
        return result
    # Who it is by now is learnt from any broker.
    await cluster.describe((), timeout_s=timeout_s)
    return await result_or_lost(asked)


async def result_or_lost(asked: Callable[[], Awaitable[ItemResult]]) -> ItemResult:
    """A change's result; REQUEST_TIMED_OUT where its answer was lost.

    Raises:
        ClusterUnreachable, BrokerDown: nothing was sent.
        NotAuthorized, NotSupported, ClusterError: the whole call was refused.
    """
    try:
        return await asked()
    except BrokerDown:
        raise
    except (BrokerUnreachable, WireError) as lost:
        why = f"whether it was done is not known; look, or repeat it: {lost.message}"
        return item_result(REQUEST_TIMED_OUT, why)
