"""How real brokers keep producers from a topic that is sealed by max.message.bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.domain.cluster.config_names import MAX_MESSAGE_BYTES
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.shrink.sealing import SEALED_BYTES
from tests.support.admin import (
    DEADLINE_S,
    TIMEOUT_S,
    connected,
    replicas_become,
    states_of,
    topic_with,
)
from tests.support.brokers.launcher import RealKafka
from tests.support.shrink.check import write
from tests.support.topics import BROKER_DEADLINE_S
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.kafka

REPLICAS = [[1, 2], [2, 3], [3, 1]]
TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
LARGE = b"v" * 100
KINDS: Mapping[str, Mapping[str, Any]] = {
    "acks=1": {"acks": "1"},
    "acks=all": {"acks": "all"},
    "idempotent": {"enable.idempotence": True},
    "compressed": {"compression.type": "zstd"},
}

TINY_BYTES = 10
"""A record whose key and value have no more than this together, and that has no headers, still gets
in, if it is alone in its batch."""


@pytest.fixture
async def admin(kafka: RealKafka) -> AsyncIterator[Reached]:
    async with connected(kafka.bootstrap_servers) as found:
        yield found


async def limited(admin: Reached, topic: str, limit: int) -> None:
    """Set the limit, and wait until each leader obeys it, which is a little after it says so."""
    change = {MAX_MESSAGE_BYTES: str(limit)}
    assert (await admin.configs.alter(topic, change, timeout_s=TIMEOUT_S)).ok
    leaders = [state.leader for state in (await states_of(admin, topic)).values()]

    async def in_force() -> bool:
        found = await admin.configs.in_force(
            topic, [MAX_MESSAGE_BYTES], leaders, timeout_s=TIMEOUT_S
        )
        return found == dict.fromkeys(leaders, change)

    await wait_until_async(in_force, DEADLINE_S, f"every leader says {change}")
    wanted = 0 if limit > len(LARGE) else TOO_LARGE

    async def obeyed() -> bool:
        found = [
            await asyncio.to_thread(sent, admin.cluster.bootstrap_servers, topic, number, LARGE)
            for number in range(len(leaders))
        ]
        return set(found) == {wanted}

    await wait_until_async(obeyed, DEADLINE_S, f"every leader obeys {change}")


async def ends(admin: Reached, topic: str) -> dict[int, tuple[int, int]]:
    """Of each partition: the log's end, and up to where committed records can be read."""
    read = await admin.records.offsets(topic, timeout_s=TIMEOUT_S)
    assert read.unread == {}
    return {number: (one.end, one.stable_end) for number, one in read.offsets.items()}


def sent(
    servers: str, topic: str, partition: int, value: bytes | None, **settings: Any
) -> int | None:
    """Write a record; the error's code, or 0."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, **settings})
    producer.produce(
        topic,
        value,
        partition=partition,
        on_delivery=lambda error, _: codes.append(error.code() if error else 0),
    )
    assert producer.flush(BROKER_DEADLINE_S) == 0
    return codes[0]


def begun(servers: str, name: str, topic: str, partition: int) -> Producer:
    """A transaction that has tried to write a record."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "transactional.id": name})
    producer.init_transactions(BROKER_DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, LARGE, b"k", partition=partition)
    producer.flush(BROKER_DEADLINE_S)
    return producer


def count(servers: str, topic: str, group: str) -> int:
    """How many records a consumer gets."""
    settings = {"bootstrap.servers": servers, "log_level": 0, "group.id": group}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.partition.eof": True})
    consumer.subscribe([topic])
    records = ended = 0
    try:
        while ended < len(REPLICAS):
            message = consumer.poll(BROKER_DEADLINE_S)
            assert message is not None
            ended += message.error() is not None
            records += message.error() is None
    finally:
        consumer.close()
    return records


async def test_a_sealed_topic_takes_nothing_and_is_read_and_replicated(admin: Reached) -> None:
    topic, servers = await topic_with(admin, "sealed", REPLICAS), admin.cluster.bootstrap_servers
    await asyncio.to_thread(write, servers, topic, dict.fromkeys(range(3), 50))
    await limited(admin, topic, SEALED_BYTES)
    before = {number: end for number, (end, _) in (await ends(admin, topic)).items()}
    for settings in KINDS.values():
        for number in range(3):
            code = await asyncio.to_thread(sent, servers, topic, number, LARGE, **settings)
            assert code == TOO_LARGE, settings
    late = await asyncio.to_thread(begun, servers, f"{topic}-late", topic, 0)
    with pytest.raises(KafkaException):
        await asyncio.to_thread(late.commit_transaction, BROKER_DEADLINE_S)
    await asyncio.to_thread(late.abort_transaction, BROKER_DEADLINE_S)
    # What it was refused is not there; the mark of its end is.
    after = {number: (end, end) for number, end in {**before, 0: before[0] + 1}.items()}

    async def marked() -> bool:
        return await ends(admin, topic) == after

    await wait_until_async(marked, DEADLINE_S, f"the ends are {after}")
    found = await asyncio.to_thread(count, servers, topic, f"{topic}-g")
    assert found == sum(before.values())
    moved = TopicPartition(topic, 1)
    options = ReassignOptions(timeout_s=TIMEOUT_S)
    outcome = await admin.reassignments.reassign({moved: (1, 3)}, options, {})
    assert outcome.results[moved].ok
    await replicas_become(admin, moved, (1, 3))
    again = await asyncio.to_thread(begun, servers, f"{topic}-late", topic, 0)
    await asyncio.to_thread(again.abort_transaction, BROKER_DEADLINE_S)
    await limited(admin, topic, 1_000_000)


async def test_transactions_that_are_open_can_end_in_a_sealed_topic(admin: Reached) -> None:
    topic, servers = (
        await topic_with(admin, "sealed-open", REPLICAS),
        admin.cluster.bootstrap_servers,
    )
    first = await asyncio.to_thread(begun, servers, f"{topic}-1", topic, 0)
    second = await asyncio.to_thread(begun, servers, f"{topic}-2", topic, 1)
    await limited(admin, topic, SEALED_BYTES)
    before = await ends(admin, topic)
    assert [end - stable for end, stable in before.values()][2] == 0
    assert all(end > stable for end, stable in (before[0], before[1]))
    await asyncio.to_thread(first.commit_transaction, BROKER_DEADLINE_S)
    await asyncio.to_thread(second.abort_transaction, BROKER_DEADLINE_S)

    async def settled() -> bool:
        wanted = {number: (before[number][0] + 1,) * 2 for number in (0, 1)}
        return await ends(admin, topic) == {**wanted, 2: before[2]}

    await wait_until_async(settled, DEADLINE_S, "both transactions have their marks")


async def test_the_smallest_records_still_get_into_a_sealed_topic_and_show(
    admin: Reached,
) -> None:
    topic, servers = (
        await topic_with(admin, "sealed-tiny", REPLICAS),
        admin.cluster.bootstrap_servers,
    )
    await limited(admin, topic, SEALED_BYTES)
    before = (await ends(admin, topic))[0][0]
    assert await asyncio.to_thread(sent, servers, topic, 0, b"v" * TINY_BYTES) == 0
    assert await asyncio.to_thread(sent, servers, topic, 0, b"v" * (TINY_BYTES + 1)) == TOO_LARGE
    assert (await ends(admin, topic))[0] == (before + 1, before + 1)


async def test_below_the_size_of_a_marker_a_transaction_never_ends(admin: Reached) -> None:
    """Why the seal is not tighter."""
    topic, servers = (
        await topic_with(admin, "sealed-hard", REPLICAS),
        admin.cluster.bootstrap_servers,
    )
    name = f"{topic}-stuck"
    stuck = await asyncio.to_thread(begun, servers, name, topic, 0)
    await limited(admin, topic, SEALED_BYTES - 1)
    # The coordinator says yes before the leader says no.
    await asyncio.to_thread(stuck.abort_transaction, BROKER_DEADLINE_S)
    await limited(admin, topic, 1_000_000)
    settings = {"bootstrap.servers": servers, "log_level": 0, "transactional.id": name}
    again = Producer(settings)
    with pytest.raises(KafkaException) as refused:
        await asyncio.to_thread(again.init_transactions, 3.0)
    assert refused.value.args[0].code() in (
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError._TIMED_OUT,
    )
    end, stable = (await ends(admin, topic))[0]
    assert (stable, end > 0) == (0, True)
    assert (await admin.topics.delete(topic, timeout_s=TIMEOUT_S)).ok
