"""The embedded brokers' data plane over real sockets: unmodified clients, and Produce."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Assigned
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonAssigned

from kshunt.backend.embedded.controller.shrink import delete_partitions
from kshunt.backend.embedded.handlers.data.partition_lookup import DataCode
from kshunt.backend.embedded.logs.batch import TRANSACTIONAL, read_header
from kshunt.backend.embedded.logs.crc import crc32c
from kshunt.backend.embedded.metadata.records import NO_LEADER, ResourceType
from kshunt.backend.embedded.replication.columns import BrokerState
from tests.support.embedded.connection import connected
from tests.support.embedded.data import (
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    batch,
    fetch_fields,
    produce_fields,
    serving,
)
from tests.support.waiting import wait_until_async

DEADLINE_S = 30.0
TOPIC = "orders"


def transactional(producer_id: int, sequence: int = 0) -> bytes:
    return batch(
        2,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=TRANSACTIONAL,
    )


# --- unmodified clients


def produced_with_librdkafka(bootstrap: str, count: int, parts: int) -> list[KafkaError]:
    """Write numbered records with all a record can have; the errors of those that failed."""
    producer = Producer(
        {"log_level": 0, "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5}
    )
    failed: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for number in range(count):
        producer.produce(
            TOPIC,
            b"value %d" % number,
            key=b"key %d" % number,
            headers=[("number", b"%d" % number)],
            timestamp=1_000 + number,
            partition=number % parts,
            on_delivery=note,
        )
    assert producer.flush(DEADLINE_S) == 0
    return failed


def read_with_librdkafka(
    bootstrap: str, count: int, parts: int = 1, isolation: str = "read_committed"
) -> list[Message]:
    """The first records of a topic's partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
    )
    consumer.assign([Assigned(TOPIC, number, OFFSET_BEGINNING) for number in range(parts)])
    found: list[Message] = []
    while len(found) < count:
        got = consumer.poll(DEADLINE_S)
        assert got is not None, f"{len(found)} of {count} records came"
        found.append(got)
    consumer.close()
    assert [message.error() for message in found if message.error()] == []
    return found


async def test_librdkafka_writes_and_reads_in_order() -> None:
    async with serving(pumped=True) as cluster:
        cluster.create(TOPIC, [1, 2, 3], [2, 3, 1], [3, 1, 2])
        boot = cluster.bootstrap_servers
        assert await asyncio.to_thread(produced_with_librdkafka, boot, 3_000, 3) == []
        found = await asyncio.to_thread(read_with_librdkafka, boot, 3_000, 3)
    for part in range(3):
        own = [message for message in found if message.partition() == part]
        assert [message.offset() for message in own] == list(range(1_000))
        for number, message in zip(range(part, 3_000, 3), own, strict=True):
            assert message.key() == b"key %d" % number
            assert message.value() == b"value %d" % number
            assert message.headers() == [("number", b"%d" % number)]
            assert message.timestamp()[1] == 1_000 + number


def roundtrip_of_kafka_python(bootstrap: str) -> list[tuple[int, bytes, bytes, Any, int]]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=False)
    for number in range(200):
        producer.send(TOPIC, b"%d" % number, b"k", [("h", b"x")], 0, 1_000 + number)
    producer.flush(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, isolation_level="read_committed"
    )
    part = PythonAssigned(TOPIC, 0)
    consumer.assign([part])
    consumer.seek(part, 0)
    found: list[Any] = []
    while len(found) < 200:
        got = consumer.poll(timeout_ms=int(DEADLINE_S * 1000))
        assert got
        found += got[part]
    at = consumer.offsets_for_times({part: 1_150})[part]
    assert (at.offset, at.timestamp) == (150, 1_150)
    assert consumer.beginning_offsets([part]) == {part: 0}
    assert consumer.end_offsets([part]) == {part: 200}
    consumer.close()
    return [(r.offset, r.key, r.value, list(r.headers), r.timestamp) for r in found]


async def test_kafka_python_writes_reads_and_looks_up_offsets() -> None:
    async with serving(pumped=True) as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        found = await asyncio.to_thread(roundtrip_of_kafka_python, cluster.bootstrap_servers)
    assert found == [(n, b"k", b"%d" % n, [("h", b"x")], 1_000 + n) for n in range(200)]


async def test_counted_and_real_records_of_one_partition_are_read_together() -> None:
    async with serving(pumped=True) as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        cluster.fill(TOPIC, 100_000)
        boot = cluster.bootstrap_servers
        assert await asyncio.to_thread(produced_with_librdkafka, boot, 10, 1) == []
        found = await asyncio.to_thread(read_with_librdkafka, boot, 110)
    assert [message.offset() for message in found] == list(range(110))
    assert {len(message.value() or b"") for message in found[:100]} == {1_000 - 18}
    assert [message.value() for message in found[100:]] == [b"value %d" % n for n in range(10)]


async def test_read_committed_leaves_out_what_was_aborted() -> None:
    async with serving(pumped=True) as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        for producer_id, commit in ((7, False), (8, True)):
            await cluster.produce(1, TOPIC, transactional(producer_id))
            cluster.plane.append_marker(
                cluster.held(TOPIC), producer_id, 0, commit=commit, coordinator_epoch=0
            )
        await cluster.produce(1, TOPIC, batch(1))
        boot = cluster.bootstrap_servers
        committed = await asyncio.to_thread(read_with_librdkafka, boot, 3)
        every = await asyncio.to_thread(read_with_librdkafka, boot, 5, 1, "read_uncommitted")
    assert [message.offset() for message in committed] == [3, 4, 6]
    assert [message.offset() for message in every] == [0, 1, 3, 4, 6]


# --- Produce


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_of_produce_and_fetch(version: int) -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        for base in (0, 3):
            answer = await cluster.produce(1, TOPIC, batch(3), version=version)
            assert (answer.error_code, answer.base_offset) == (0, base)
            assert answer.log_append_time_ms == -1
            assert version < 5 or answer.log_start_offset == 0
        for fetching in (version + 1, version + 5):
            found = await cluster.fetch(1, TOPIC, 4, version=fetching)
            assert (found.error_code, found.high_watermark) == (0, 6)
            assert read_header(found.records).base_offset == 3
            assert len(found.records) == len(batch(3))


async def test_acks_all_waits_for_the_followers() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        cluster.plane.set_broker_state(3, BrokerState.STALLED)
        late = await cluster.produce(1, TOPIC, batch(2), timeout_ms=500)
        assert (late.error_code, late.base_offset) == (DataCode.REQUEST_TIMED_OUT, 0)
        assert cluster.plane.high_watermark(cluster.held(TOPIC)) == 0
        quick = await cluster.produce(1, TOPIC, batch(2), acks=1)
        assert (quick.error_code, quick.base_offset) == (0, 2)
        assert (await cluster.fetch(1, TOPIC, 0)).records == b""
        cluster.plane.set_broker_state(3, BrokerState.UP)
        assert (await cluster.produce(1, TOPIC, batch(1))).base_offset == 4
        assert (await cluster.fetch(1, TOPIC, 0)).high_watermark == 5


async def test_too_few_replicas_in_sync() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3], min_insync_replicas="3")
        cluster.plane.set_broker_state(3, BrokerState.DOWN)
        shrunk = await cluster.produce(1, TOPIC, batch(1), timeout_ms=60_000)
        assert shrunk.error_code == DataCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert cluster.at(TOPIC).isr == (1, 2)
        refused = await cluster.produce(1, TOPIC, batch(1))
        assert (refused.error_code, refused.base_offset) == (DataCode.NOT_ENOUGH_REPLICAS, -1)
        assert (await cluster.produce(1, TOPIC, batch(1), acks=1)).base_offset == 1


async def test_a_topic_needs_no_more_in_sync_than_it_has_replicas() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1], min_insync_replicas="2")
        assert (await cluster.produce(1, TOPIC, batch(1))).error_code == 0


async def test_a_leader_that_loses_its_place_tells_who_waits() -> None:
    async with serving(pumped=True) as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        cluster.plane.set_broker_state(3, BrokerState.STALLED)
        waiting = asyncio.create_task(
            cluster.produce(1, TOPIC, batch(1), version=10, timeout_ms=60_000)
        )
        await wait_until_async(lambda: cluster.end(TOPIC, 1) == 1, DEADLINE_S, "an append")
        cluster.core.stop_broker(1)
        cluster.world.changed()
        answer = await waiting
        assert answer.error_code == DataCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == cluster.at(TOPIC).leader != NO_LEADER


async def test_the_wrong_broker_names_the_leader() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2])
        fields = produce_fields(cluster, TOPIC, batch(1), 10)
        produced = await cluster.ask(2, PRODUCE, 10, **fields)
        fetched = await cluster.ask(2, FETCH, 16, **fetch_fields(cluster, {TOPIC: {0: 0}}, 16))
        entries = (
            produced.responses[0].partition_responses[0],
            fetched.responses[0].partitions[0],
        )
        for answer, entry in zip((produced, fetched), entries, strict=True):
            assert entry.error_code == DataCode.NOT_LEADER_OR_FOLLOWER
            assert (entry.current_leader.leader_id, entry.current_leader.leader_epoch) == (1, 0)
            (node,) = answer.node_endpoints
            where = (1, "127.0.0.1", cluster.servers[1].port, "r1")
            assert (node.node_id, node.host, node.port, node.rack) == where
        assert (await cluster.produce(3, TOPIC, batch(1))).error_code == 6


def second_batch_of_kafkas_zstd() -> bytes:
    data = bytearray(batch(1))
    data[22] |= 4
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "version", "code"),
    [
        (None, 9, DataCode.INVALID_RECORD),
        (b"", 9, DataCode.INVALID_RECORD),
        (batch(1) + batch(1), 9, DataCode.INVALID_RECORD),
        (b"short", 9, 2),
        (batch(1)[:-1] + b"?", 9, 2),
        (batch(1, size_bytes=5_000), 9, 10),
        (second_batch_of_kafkas_zstd(), 6, DataCode.UNSUPPORTED_COMPRESSION_TYPE),
        (second_batch_of_kafkas_zstd(), 7, 0),
    ],
)
async def test_what_a_partition_takes(data: bytes | None, version: int, code: int) -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3], max_message_bytes="2000")
        answer = await cluster.produce(1, TOPIC, data, version=version)
        assert (answer.error_code, answer.base_offset) == (code, 0 if code == 0 else -1)


async def test_unknown_partitions_and_acks() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        assert (await cluster.produce(1, "nowhere", batch(1))).error_code == 3
        assert (await cluster.produce(1, TOPIC, batch(1), index=1)).error_code == 3
        assert (await cluster.produce(1, "nowhere", batch(1), version=13)).error_code == 100
        assert (await cluster.produce(1, TOPIC, batch(1), acks=2)).error_code == 21
        cluster.create("__consumer_offsets", [1])
        assert (await cluster.produce(1, "__consumer_offsets", batch(1))).error_code == 17
        assert cluster.end(TOPIC, 1) == 0


async def test_acks_none_has_no_answer_and_an_error_ends_the_connection() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        async with connected(cluster.servers[1]) as client:
            client.ask(1, PRODUCE, 9, **produce_fields(cluster, TOPIC, batch(2), 9, acks=0))
            client.ask(2, LIST_OFFSETS, 2, replica_id=-1, isolation_level=0, topics=[])
            assert (await client.answer())[0] == 2
            assert cluster.end(TOPIC, 1) == 2
            client.ask(3, PRODUCE, 9, **produce_fields(cluster, "nowhere", batch(2), 9, acks=0))
            assert await client.ends() == b""


async def test_an_idempotent_producer_that_repeats_itself_gets_the_same_answer() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        same = batch(3, producer_id=5, producer_epoch=0, base_sequence=0)
        gap = batch(1, producer_id=5, producer_epoch=0, base_sequence=9)
        await cluster.produce(1, TOPIC, batch(1))
        for _ in range(2):
            answer = await cluster.produce(1, TOPIC, same)
            assert (answer.error_code, answer.base_offset) == (0, 1)
        assert cluster.end(TOPIC, 1) == 4
        out_of_order = await cluster.produce(1, TOPIC, gap)
        assert (out_of_order.error_code, out_of_order.log_start_offset) == (45, 0)


async def test_transactional_batches_ask_the_coordinator() -> None:
    seen = []

    def may_write(*asked: object) -> bool:
        seen.append(asked)
        return asked[0] == 1

    async with serving(may_write=may_write) as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        assert (await cluster.produce(1, TOPIC, transactional(1))).error_code == 0
        for version, code in (
            (10, DataCode.INVALID_TXN_STATE),
            (11, DataCode.TRANSACTION_ABORTABLE),
        ):
            answer = await cluster.produce(1, TOPIC, transactional(2), version=version)
            assert answer.error_code == code
        assert (await cluster.produce(1, TOPIC, batch(1))).error_code == 0
    assert seen == [(1, 0, TOPIC, 0), (2, 0, TOPIC, 0), (2, 0, TOPIC, 0)]


async def test_the_time_of_the_append() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3], message_timestamp_type="LogAppendTime")
        cluster.pass_s(5)
        answer = await cluster.produce(1, TOPIC, batch(2))
        assert answer.log_append_time_ms == 5_000
        records = (await cluster.fetch(1, TOPIC, 0)).records
        header = read_header(records)
        assert (header.max_ms, header.attributes) == (5_000, 8)
        assert header.crc == crc32c(bytes(records[21:]))


# --- modes of KIP-694


@pytest.mark.conforms("kip-694:mode-read-only")
async def test_a_read_only_partition_is_read_and_not_written() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3], [1, 2, 3])
        cluster.set(ResourceType.BROKER, "", delete_topic_partition_enable="true")
        await cluster.produce(1, TOPIC, batch(2), index=1)
        for delay_ms, produced, fetched in (
            (60_000, DataCode.POLICY_VIOLATION, DataCode.NONE),
            (0, DataCode.UNKNOWN_TOPIC_OR_PARTITION, DataCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            decision = delete_partitions(
                cluster.image, {TOPIC: 1}, cluster.core.now_ms, delay_ms=delay_ms
            )
            assert cluster.world.commit(decision).error == 0
            refused = await cluster.produce(1, TOPIC, batch(1), index=1)
            assert refused.error_code == produced
            fields = fetch_fields(cluster, {TOPIC: {1: 0}}, 12)
            answer = await cluster.ask(1, FETCH, 12, **fields)
            found = answer.responses[0].partitions[0]
            assert found.error_code == fetched
            assert bool(found.records) is (fetched == DataCode.NONE)
        assert (await cluster.produce(1, TOPIC, batch(1))).error_code == 0
