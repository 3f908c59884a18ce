"""Where logs begin and end, who writes to them, and the last records, as leaders tell a client.

Offsets are asked for as a consumer does (replica id -1), so that what is told is what can be read.
The timestamps of the first record and of the newest one need version 7 of ListOffsets (Kafka 3.0);
a leader that is older leaves them unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from kshunt.backend.admin.rpc.broker_calls import NO_TOPICS, BrokerCalls
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.error_mapping import decode_message
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.topics.groups import (
    ActiveProducer,
    OffsetsRead,
    PartitionOffsets,
    ProducersRead,
    RecordSample,
)
from kshunt.backend.error_codes import error_name
from kshunt.backend.errors import ClusterError, NotSupported
from kshunt.backend.wire.api_keys import (
    DESCRIBE_PRODUCERS_KEY,
    LIST_OFFSETS_KEY,
    LIST_TRANSACTIONS_KEY,
)
from kshunt.backend.wire.raw_request import RawRequest

CONSUMER: Final = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
_FIRST_RECORD: Final = 0
"""The offset since the beginning of 1970 is that of the first record, with its timestamp."""
_MAX_TIMESTAMP_FROM: Final = 7
_VERSION_MAX: Final = 7


@dataclass(frozen=True, slots=True)
class _Listed:
    """One partition's answer."""

    offset: int
    timestamp_ms: int


_Answers = tuple[dict[int, _Listed], dict[str, str]]
"""By partition; and what could not be read, and why."""


class KafkaRecords:
    """See `RecordAdmin`."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls

    async def offsets(self, topic: str, *, timeout_s: float) -> OffsetsRead:
        """See `RecordAdmin.offsets`."""
        led = await self._led_by(topic, timeout_s)
        unread = dict(_leaderless(topic, led))
        found = await together(
            self._offsets_of_leader(leader, topic, numbers, timeout_s)
            for leader, numbers in led.items()
        )
        offsets: dict[int, PartitionOffsets] = {}
        for one in found:
            offsets |= one.offsets
            unread |= one.unread
        return OffsetsRead(dict(sorted(offsets.items())), unread)

    async def producers(self, topic: str, *, timeout_s: float) -> ProducersRead:
        """See `RecordAdmin.producers`."""
        led = await self._led_by(topic, timeout_s)
        unread = dict(_leaderless(topic, led))
        found = await together(
            self._producers_of_leader(leader, topic, numbers, timeout_s)
            for leader, numbers in led.items()
        )
        producers: dict[int, tuple[ActiveProducer, ...]] = {}
        for one in found:
            producers |= one.producers
            unread |= one.unread
        names = await self._transactional_ids(producers, unread, timeout_s)
        named = {number: _named(some, names) for number, some in sorted(producers.items())}
        return ProducersRead(named, unread)

    async def sample(
        self,
        topic: str,
        ends: Mapping[int, tuple[int, int]],
        *,
        partitions: int,
        timeout_s: float,
    ) -> RecordSample:
        """See `RecordAdmin.sample`."""
        return await asyncio.to_thread(_sample, self._calls, topic, ends, partitions, timeout_s)

    async def _led_by(self, topic: str, timeout_s: float) -> dict[int, list[int]]:
        """The topic's partitions by leader; those without one under `NO_BROKER`.

        Raises:
            ClusterUnreachable: no broker answered in time.
        """
        state = await self._calls.describe([topic], timeout_s=timeout_s)
        led: dict[int, list[int]] = {}
        for item, one in partition_states(state.assignment).items():
            leader = one.leader if one.leader in state.brokers else NO_BROKER
            led.setdefault(leader, []).append(item.partition)
        return {leader: sorted(numbers) for leader, numbers in led.items()}

    async def _offsets_of_leader(
        self, leader: int, topic: str, numbers: Sequence[int], timeout_s: float
    ) -> OffsetsRead:
        asked: Mapping[str, tuple[int, int]] = {
            "start": (EARLIEST, READ_UNCOMMITTED),
            "end": (LATEST, READ_UNCOMMITTED),
            # After the end: what is written meanwhile must not look like an open transaction.
            "stable": (LATEST, READ_COMMITTED),
            "oldest": (_FIRST_RECORD, READ_UNCOMMITTED),
            "newest": (MAX_TIMESTAMP, READ_UNCOMMITTED),
        }
        answers: dict[str, dict[int, _Listed]] = {}
        unread: dict[str, str] = {}
        try:
            if not await self._calls.has(
                LIST_OFFSETS_KEY, version=_MAX_TIMESTAMP_FROM, broker=leader, timeout_s=timeout_s
            ):
                asked = {name: how for name, how in asked.items() if name != "newest"}
            for name, how in asked.items():
                request = _request(topic, numbers, *how)
                answers[name], refused = _listed(
                    topic, await self._calls.call(leader, request, timeout_s=timeout_s)
                )
                unread |= refused
        except (ClusterError, NotSupported) as why:
            unread[f"offsets on broker {leader}"] = why.message
        found = {number: _offsets(number, answers) for number in numbers}
        return OffsetsRead({n: one for n, one in found.items() if one is not None}, unread)

    async def _producers_of_leader(
        self, leader: int, topic: str, numbers: Sequence[int], timeout_s: float
    ) -> ProducersRead:
        of_topic = DescribeProducersRequest.TopicRequest
        message = DescribeProducersRequest(
            topics=[of_topic(name=topic, partition_indexes=list(numbers))]
        )
        what = f"producers on broker {leader}"
        try:
            if not await self._calls.has(
                DESCRIBE_PRODUCERS_KEY, broker=leader, timeout_s=timeout_s
            ):
                return ProducersRead({}, {what: "it does not have DescribeProducers (Kafka 2.8)"})
            answer = await self._calls.call(leader, RawRequest.of(message), timeout_s=timeout_s)
            response = decode_message(DescribeProducersResponse, answer)
        except (ClusterError, NotSupported) as why:
            return ProducersRead({}, {what: why.message})
        found, unread = {}, {}
        for entry in (one for t in response.topics for one in t.partitions):
            if entry.error_code:
                name = f"producers of {topic}-{entry.partition_index}"
                unread[name] = error_name(entry.error_code)
            else:
                found[entry.partition_index] = tuple(map(_producer, entry.active_producers))
        return ProducersRead(found, unread)

    async def _transactional_ids(
        self,
        producers: Mapping[int, Sequence[ActiveProducer]],
        unread: dict[str, str],
        timeout_s: float,
    ) -> Mapping[int, str]:
        """The transactional ids of these producers; each coordinator knows its own."""
        wanted = sorted({one.producer_id for some in producers.values() for one in some})
        if not wanted:
            return {}
        names: dict[int, str] = {}

        async def ask(broker: int) -> None:
            request = RawRequest.of(
                ListTransactionsRequest(state_filters=[], producer_id_filters=wanted), max_version=0
            )
            try:
                if await self._calls.has(LIST_TRANSACTIONS_KEY, broker=broker, timeout_s=timeout_s):
                    answer = await self._calls.call(broker, request, timeout_s=timeout_s)
                    response = decode_message(ListTransactionsResponse, answer)
                    listed = response.transaction_states
                    names.update({one.producer_id: one.transactional_id for one in listed})
            except (ClusterError, NotSupported) as why:
                unread[f"transactional ids on broker {broker}"] = why.message

        state = await self._calls.describe(NO_TOPICS, timeout_s=timeout_s)
        await together(map(ask, sorted(state.brokers)))
        return names


def _leaderless(topic: str, led: dict[int, list[int]]) -> list[tuple[str, str]]:
    return [(f"{topic}-{number}", "it has no leader") for number in led.pop(NO_BROKER, ())]


def _request(topic: str, numbers: Sequence[int], timestamp: int, isolation: int) -> RawRequest:
    of_topic = ListOffsetsRequest.ListOffsetsTopic
    of_partition = of_topic.ListOffsetsPartition
    asked = [of_partition(partition_index=number, timestamp=timestamp) for number in numbers]
    message = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=isolation,
        topics=[of_topic(name=topic, partitions=asked)],
    )
    lowest = _MAX_TIMESTAMP_FROM if timestamp == MAX_TIMESTAMP else 2
    return RawRequest.of(message, min_version=lowest, max_version=_VERSION_MAX)


def _listed(topic: str, answer: Any) -> _Answers:
    found, unread = {}, {}
    for entry in decode_message(ListOffsetsResponse, answer).topics:
        for one in entry.partitions if entry.name == topic else ():
            if one.error_code:
                unread[f"{topic}-{one.partition_index}"] = error_name(one.error_code)
            else:
                found[one.partition_index] = _Listed(one.offset, one.timestamp)
    return found, unread


def _offsets(number: int, answers: Mapping[str, Mapping[int, _Listed]]) -> PartitionOffsets | None:
    """What is known of a partition; None unless its ends are."""
    found = {name: listed[number] for name, listed in answers.items() if number in listed}
    if not {"start", "stable", "end"} <= found.keys():
        return None
    start, end = found["start"].offset, found["end"].offset
    times = {
        name: found[name].timestamp_ms
        for name in ("oldest", "newest")
        # A log without records has none; retention may have overtaken the first one.
        if name in found and found[name].offset >= 0 and found[name].timestamp_ms >= 0
    }
    stable = min(found["stable"].offset, end)
    return PartitionOffsets(start, end, stable, times.get("oldest"), times.get("newest"))


def _producer(raw: Any) -> ActiveProducer:
    start = raw.current_txn_start_offset
    return ActiveProducer(
        raw.producer_id, raw.producer_epoch, raw.last_timestamp, start if start >= 0 else None
    )


def _named(
    producers: Sequence[ActiveProducer], names: Mapping[int, str]
) -> tuple[ActiveProducer, ...]:
    return tuple(
        ActiveProducer(
            one.producer_id,
            one.epoch,
            one.last_ms,
            one.transaction_start,
            names.get(one.producer_id),
        )
        for one in sorted(producers, key=lambda one: one.producer_id)
    )


def _sample(
    calls: BrokerCalls,
    topic: str,
    ends: Mapping[int, tuple[int, int]],
    partitions: int,
    timeout_s: float,
) -> RecordSample:
    # librdkafka is loaded where records are read: most tools never do.
    from kshunt.backend.admin.kafka import record_sample

    return record_sample.sample(
        calls.bootstrap_servers,
        calls.config,
        topic,
        ends,
        partitions=partitions,
        timeout_s=timeout_s,
    )
