"""ElectLeaders (KIP-460), over our own connections to the controller.

librdkafka has the call too. But a client of it that was connected when the controller's broker
went away waits for that broker to return. An election is wanted just because a broker went away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from kafka.protocol.admin import ElectLeadersRequest, ElectLeadersResponse

from kshunt.backend.admin.port.item_result import PartitionResults
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.error_mapping import BrokerDown, decode_message, raise_for_code
from kshunt.backend.admin.rpc.requests import PREFERRED, aligned
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.errors import BrokerUnreachable, ClusterUnreachable
from kshunt.backend.wire.raw_request import RawAnswer, RawRequest

UNCLEAN: Final = 1
"""`ElectionType.UNCLEAN`."""
VERSION_MIN: Final = 1
"""The first with an election type (Kafka 2.4): an older one would hold a preferred election."""


async def elect_leaders(
    calls: BrokerCalls,
    partitions: Sequence[TopicPartition] | None,
    *,
    unclean: bool = False,
    timeout_s: float,
) -> PartitionResults:
    """Elect preferred or unclean leaders; None is for every partition.

    Raises:
        ClusterUnreachable: it did not answer in time.
        NotAuthorized: it refuses this principal.
        NotSupported: it is older than the call.
        ClusterError: it refuses the whole request for another reason.
    """
    asked = None if partitions is None else list(dict.fromkeys(partitions))
    kind = UNCLEAN if unclean else PREFERRED
    try:
        answer = await calls.ask_controller(
            lambda: _request(asked, kind, timeout_s), timeout_s=timeout_s, lane="write"
        )
    except BrokerUnreachable as lost:
        if isinstance(lost, BrokerDown):
            raise
        raise ClusterUnreachable(
            f"The election was not answered. {lost.message}",
            advice="It may still take place; check the leaders before you ask again.",
        ) from lost
    # Off the event loop: there may be very many.
    return await asyncio.to_thread(_elected, answer, asked)


def _request(asked: Iterable[TopicPartition] | None, kind: int, timeout_s: float) -> RawRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in asked or ():
        by_topic.setdefault(topic, []).append(partition)
    message = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=None if asked is None else list(by_topic.items()),
        timeout_ms=int(timeout_s * 1000),
    )
    return RawRequest.of(message, min_version=VERSION_MIN)


def _elected(answer: RawAnswer, asked: Iterable[TopicPartition] | None) -> PartitionResults:
    response = decode_message(ElectLeadersResponse, answer)
    raise_for_code(response.error_code, None, "Electing leaders")
    return aligned(
        asked,
        (
            (topic.topic, entry.partition_id, entry.error_code, entry.error_message)
            for topic in response.replica_election_results
            for entry in topic.partition_result
        ),
    )
