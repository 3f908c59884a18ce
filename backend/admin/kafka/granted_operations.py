"""Which operations the cluster's authorizer allows to the principal that we connect as.

Source: KIP-430. A cluster without an authorizer answers with every operation that a resource has.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka.admin import ACLOperation
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.error_mapping import decode_message
from kshunt.backend.admin.rpc.requests import topic_entry, topic_request
from kshunt.backend.wire.api_keys import DESCRIBE_CLUSTER_KEY
from kshunt.backend.wire.raw_request import RawRequest

_VERSION = 0


async def on_cluster(calls: BrokerCalls, *, timeout_s: float) -> frozenset[str] | None:
    """Kafka's names of the operations on the cluster; None before Kafka 2.8, which does not tell.

    Raises:
        ClusterUnreachable: no broker answered in time.
    """
    if not await calls.has(DESCRIBE_CLUSTER_KEY, timeout_s=timeout_s):
        return None
    message = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = await calls.ask_any(
        lambda: RawRequest.of(message, min_version=_VERSION, max_version=_VERSION),
        timeout_s=timeout_s,
    )
    return _names(decode_message(DescribeClusterResponse, answer).authorized_operations)


async def on_topic(calls: BrokerCalls, topic: str, *, timeout_s: float) -> frozenset[str] | None:
    """Kafka's names of the operations on a topic; None where the topic does not exist.

    Raises:
        ClusterUnreachable: no broker answered in time.
        NotAuthorized: the principal may not describe the topic.
    """
    answer = await calls.ask_any(lambda: topic_request(topic, operations=True), timeout_s=timeout_s)
    entry = topic_entry(answer)
    return None if entry is None else _names(entry.authorized_operations)


def _names(found: Collection[int] | None) -> frozenset[str] | None:
    """None where the broker did not say; kafka-python has decoded Kafka's bits."""
    if found is None:
        return None
    return frozenset(ACLOperation(number).name for number in found)
