"""What only a cluster with the seeds' RPCs can do to a topic: delete partitions (KIP-694)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.admin.faults import decode_message, item_result, raise_for_code
from backend.admin.native_calls import Native, has
from backend.admin.port import ItemResult
from backend.domain.cluster import TopicPartition
from backend.errors import NotSupported
from backend.wire import seeds
from backend.wire.raw import RawAnswer, RawRequest


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
