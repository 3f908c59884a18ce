"""Topics, altered and shrunk by the seeds' RPCs.

AlterTopics (KIP-179's early draft): the checks are those of the composed way (`alterations`), so
that both answer alike; then the RPC, if the cluster has it. It has no way to only validate, which
is always composed. Which brokers take the replicas that the request does not place is the
cluster's choice. DeletePartitions (KIP-694) is a cluster's with the seeds' RPCs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from backend.admin import alter_topics as composed
from backend.admin import seed_requests
from backend.admin.alterations import Alteration
from backend.admin.faults import decode_message, item_result, raise_for_code
from backend.admin.native_calls import (
    LOST,
    Native,
    NotNative,
    answered,
    has,
    log_fallback,
    timed_out,
)
from backend.admin.port import ItemResult
from backend.domain.alteration import AlteredTopic
from backend.domain.cluster import TopicPartition
from backend.errors import KshuntError, NotSupported
from backend.wire import seeds
from backend.wire.raw import RawAnswer, RawRequest


async def alter_topics(
    cluster: Native,
    topics: Mapping[str, AlteredTopic],
    *,
    validate_only: bool,
    timeout_s: float,
    random: Random,
) -> Mapping[str, ItemResult]:
    """See `ClusterAdmin.alter_topics`, and the module's text."""
    if not topics:
        return {}
    results, plans = await composed.prepared(cluster, topics, random, timeout_s)
    if validate_only:
        results.update(await composed.validated(cluster, plans, timeout_s))
    elif plans:
        wanted = {topic: topics[topic] for topic in plans}
        results.update(await _altered(cluster, wanted, plans, timeout_s))
    return {topic: results[topic] for topic in topics}


async def _altered(
    cluster: Native,
    wanted: Mapping[str, AlteredTopic],
    plans: Mapping[str, Alteration],
    timeout_s: float,
) -> Mapping[str, ItemResult]:
    if not await has(cluster, seeds.ALTER_TOPICS_KEY, timeout_s):
        return await composed.carried_out(cluster, plans, timeout_s)
    why: KshuntError | NotNative
    try:
        return await answered(
            cluster,
            lambda: seed_requests.alter_topics_request(wanted),
            lambda answer: seed_requests.topics_altered(answer, wanted),
            timeout_s=timeout_s,
            lane="write",
        )
    except LOST as lost:
        found, known = await composed.read_back(cluster, plans, lost, timeout_s, chosen_here=False)
        if not known or timed_out(lost) or any(result.ok for result in found.values()):
            return found
        why = lost
    except NotNative as refused:
        why = refused
    log_fallback("AlterTopics", why)
    return await composed.carried_out(cluster, plans, timeout_s)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What became of one partition."""

    mode: int
    """KIP-694: 0 ReadWrite, 1 ReadOnly until the delay is over, -1 None."""
    result: ItemResult


async def delete_partitions(
    cluster: Native, partitions: Iterable[TopicPartition], *, delay_ms: int, timeout_s: float
) -> Mapping[TopicPartition, Deletion]:
    """Delete the last partitions of topics after a delay, in which they can still be read.

    Partitions that were to go and are not named any more stay: they are in the answer as
    ReadWrite.

    Raises:
        NotSupported: the cluster has no such call.
        BrokerUnreachable: it did not answer in time; the deletion may be under way.
        ClusterError: it refuses the whole request.
    """
    if not await has(cluster, seeds.DELETE_PARTITIONS_KEY, timeout_s):
        raise NotSupported("This cluster cannot delete partitions (KIP-694).")
    topics: dict[str, list[int]] = {}
    for topic, number in dict.fromkeys(partitions):
        topics.setdefault(topic, []).append(number)
    message = seeds.DeletePartitionsRequest(
        timeout_ms=int(timeout_s * 1000),
        delete_partitions_delay=delay_ms,
        topics=[(topic, sorted(numbers)) for topic, numbers in topics.items()],
    )
    answer = await cluster.ask_controller(
        lambda: RawRequest.of(message), timeout_s=timeout_s, lane="write"
    )
    return _deletions(answer)


def _deletions(answer: RawAnswer) -> Mapping[TopicPartition, Deletion]:
    response = decode_message(seeds.DeletePartitionsResponse, answer)
    raise_for_code(response.error_code, response.error_message, "Deleting partitions")
    return {
        TopicPartition(topic.name, entry.partition_index): Deletion(
            entry.status_code, item_result(entry.error_code, entry.error_message)
        )
        for topic in response.responses
        for entry in topic.partitions
    }
