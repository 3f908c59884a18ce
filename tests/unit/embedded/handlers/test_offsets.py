"""The embedded brokers' Fetch and offset APIs, byte by byte and error by error."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

import pytest

from kshunt.backend.embedded.handlers.data import list_offsets
from kshunt.backend.embedded.handlers.data.fetch_bytes import (
    FetchedPartition,
    FetchedTopic,
    fetch_answer,
)
from kshunt.backend.embedded.handlers.data.list_offsets_bytes import (
    ListedOffset,
    list_offsets_answer,
)
from kshunt.backend.embedded.handlers.data.partition_lookup import DataCode
from kshunt.backend.embedded.logs.producers import AbortedTransaction
from kshunt.backend.embedded.metadata.image_values import RegisteredBroker as BrokerImage
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireRequestHeader
from kshunt.backend.embedded.net.server import RequestContext
from kshunt.backend.embedded.replication.columns import BrokerState
from tests.support.embedded.connection import connected
from tests.support.embedded.data import (
    FETCH,
    LIST_OFFSETS,
    LISTED,
    DataCluster,
    asked,
    batch,
    fetch_fields,
    serving,
)

DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH = 21, 23
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
DEBUGGING = -2
TOPIC = "orders"
OK = DataCode.NONE


# --- Fetch


async def written(cluster: DataCluster, batches: int = 3, records: int = 10) -> int:
    """A topic with some batches of one size, which is returned."""
    cluster.create(TOPIC, [1, 2, 3], [1, 2, 3])
    for _ in range(batches):
        await cluster.produce(1, TOPIC, batch(records))
    return len(batch(records))


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, OK), (0, DataCode.FENCED_LEADER_EPOCH), (1, OK), (2, 75)]
)
async def test_leader_epochs_are_checked(epoch: int, code: int) -> None:
    async with serving() as cluster:
        await written(cluster)
        cluster.core.stop_broker(2)
        cluster.core.stop_broker(1)
        assert cluster.at(TOPIC).leader == 3
        epoch += cluster.at(TOPIC).leader_epoch - 1 if epoch >= 0 else 0
        found = await cluster.fetch(3, TOPIC, 0, leader_epoch=epoch)
        assert found.error_code == code
        assert (await cluster.list_offset(3, TOPIC, LATEST, leader_epoch=epoch)).error_code == code
        answer = await ask_epoch(cluster, 3, 0, current_leader_epoch=epoch)
        assert answer.error_code == code


async def test_fetch_beyond_the_log() -> None:
    async with serving() as cluster:
        await written(cluster)
        for offset, code in ((-1, 1), (0, 0), (30, 0), (31, 1)):
            found = await cluster.fetch(1, TOPIC, offset)
            assert (found.error_code, found.high_watermark) == (code, 30 if code == 0 else -1)
        assert (await cluster.fetch(1, "nowhere", 0)).error_code == 3
        assert (await cluster.fetch(1, "nowhere", 0, version=13)).error_code == 100
        assert (await cluster.fetch(1, TOPIC, 0, replica_id=2)).error_code == 6


async def test_sizes_bound_what_is_fetched() -> None:
    async with serving() as cluster:
        size = await written(cluster)

        async def sizes(partition_max_bytes: int, max_bytes: int) -> list[int]:
            wanted = {TOPIC: {0: 0, 1: 0}, "second": {0: 0}}
            fields = fetch_fields(cluster, wanted, 12, partition_max_bytes=partition_max_bytes)
            answer = await cluster.ask(1, FETCH, 12, **fields | {"max_bytes": max_bytes})
            return [len(p.records) // size for t in answer.responses for p in t.partitions]

        cluster.create("second", [1])
        await cluster.produce(1, "second", batch(10))
        assert await sizes(1 << 20, 1 << 20) == [3, 0, 1]
        assert await sizes(1, 1 << 20) == [1, 0, 0]
        assert await sizes(2 * size, 1 << 20) == [2, 0, 1]
        assert await sizes(1 << 20, 3 * size) == [3, 0, 0]
        assert await sizes(1 << 20, 1) == [1, 0, 0]


async def test_a_fetch_waits_for_enough_bytes() -> None:
    async with serving() as cluster:
        size = await written(cluster, batches=1)
        fields = fetch_fields(cluster, {TOPIC: {0: 0}}, 12, max_wait_ms=60_000, min_bytes=2 * size)
        async with connected(cluster.servers[1]) as client:
            waiting = asyncio.create_task(asked(client, FETCH, 12, **fields))
            cluster.create("other", [2])
            cluster.world.changed()
            assert (await cluster.fetch(1, TOPIC, 0)).high_watermark == 10
            assert not waiting.done()
            await cluster.produce(1, TOPIC, batch(10))
            found = (await waiting).responses[0].partitions[0]
        assert (len(found.records), found.high_watermark) == (2 * size, 20)


async def test_a_fetch_that_waits_in_vain_answers_what_there_is() -> None:
    async with serving() as cluster:
        size = await written(cluster, batches=1)
        begin = time.monotonic()
        found = await cluster.fetch(1, TOPIC, 0, min_bytes=10_000, max_wait_ms=50)
        assert len(found.records) == size
        assert time.monotonic() - begin >= 0.05


async def test_a_fetch_that_waits_learns_of_a_new_leader() -> None:
    async with serving() as cluster:
        await written(cluster)
        fields = fetch_fields(cluster, {TOPIC: {0: 30}}, 12, max_wait_ms=60_000)
        async with connected(cluster.servers[1]) as client:
            waiting = asyncio.create_task(asked(client, FETCH, 12, **fields))
            await cluster.fetch(1, TOPIC, 0)
            cluster.core.stop_broker(1)
            cluster.world.changed()
            found = (await waiting).responses[0].partitions[0]
        assert found.error_code == 6
        assert found.current_leader.leader_id == cluster.at(TOPIC).leader


async def test_there_are_no_fetch_sessions() -> None:
    async with serving() as cluster:
        await written(cluster)
        for epoch, code in ((0, 0), (-1, 0), (1, DataCode.FETCH_SESSION_ID_NOT_FOUND)):
            fields = fetch_fields(cluster, {TOPIC: {0: 0}}, 12, session_id=9, session_epoch=epoch)
            answer = await cluster.ask(1, FETCH, 12, **fields)
            assert (answer.error_code, answer.session_id) == (code, 0)
            assert len(answer.responses) == (code == 0)


async def test_a_client_whose_log_diverges_is_told_where() -> None:
    async with serving() as cluster:
        await written(cluster)
        cluster.core.stop_broker(1)
        leader, epoch = cluster.at(TOPIC).leader, cluster.at(TOPIC).leader_epoch
        await cluster.produce(leader, TOPIC, batch(1))
        found = await cluster.fetch(leader, TOPIC, 31, last_fetched_epoch=0)
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 30)
        found = await cluster.fetch(leader, TOPIC, 30, last_fetched_epoch=0)
        assert (found.diverging_epoch, len(found.records) > 0) == (None, True)
        unknown = await cluster.fetch(leader, TOPIC, 30, last_fetched_epoch=epoch + 1)
        assert unknown.error_code == DataCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_answers_are_kafka_pythons_bytes(version: int) -> None:
    made = KAFKA_APIS[FETCH].response
    topic_id, records = UUID(int=5), b"r" * 300
    node = BrokerImage(1, 1, "i", "host", 9, "r1", ())
    plain = FetchedPartition(3, 0, 10, 9, 1, [AbortedTransaction(7, 2, 5)], batches=[records])
    lost = FetchedPartition(4, 6, leader=(1, 8))
    torn = FetchedPartition(5, 0, 10, 10, 0, diverging=(2, 6))
    topic = made.FetchableTopicResponse(version=version, topic="t", topic_id=topic_id)
    part = topic.PartitionData
    aborted = [part.AbortedTransaction(version=version, producer_id=7, first_offset=2)]
    topic.partitions = [
        part(
            version=version,
            partition_index=one.index,
            error_code=one.error,
            high_watermark=one.high_watermark,
            last_stable_offset=one.last_stable_offset,
            log_start_offset=one.log_start_offset,
            aborted_transactions=aborted if one is plain else None,
            records=records if one is plain else b"",
        )
        for one in (plain, lost, torn)
    ]
    answer = made(version=version, responses=[topic])
    if version >= 12:
        leader = part.LeaderIdAndEpoch(version=version, leader_id=1, leader_epoch=8)
        topic.partitions[1].current_leader = leader
        epoch = part.EpochEndOffset(version=version, epoch=2, end_offset=6)
        topic.partitions[2].diverging_epoch = epoch
    if version >= 16:
        named = made.NodeEndpoint(version=version, node_id=1, host="host", port=9, rack="r1")
        answer.node_endpoints = [named]
    own = fetch_answer(version, [FetchedTopic("t", topic_id, [plain, lost, torn])], [node])
    assert own == bytes(answer.encode(version=version))


# --- ListOffsets


async def test_offsets_by_timestamp() -> None:
    async with serving() as cluster:
        await written(cluster)
        for version, timestamp, expected in (
            (1, LATEST, (30, -1, -1)),
            (4, LATEST, (30, -1, 0)),
            (9, EARLIEST, (0, -1, 0)),
            (9, MAX_TIMESTAMP, (9, 9, 0)),
            (9, EARLIEST_LOCAL, (0, -1, 0)),
            (9, LATEST_TIERED, (-1, -1, -1)),
            (9, 4, (4, 4, 0)),
            (9, 10, (-1, -1, -1)),
        ):
            found = await cluster.list_offset(1, TOPIC, timestamp, version=version)
            known = (found.offset, found.timestamp, found.leader_epoch)
            assert (found.error_code, *known) == (0, *expected), (version, timestamp)
        for version, timestamp in ((6, MAX_TIMESTAMP), (7, EARLIEST_LOCAL), (8, LATEST_TIERED)):
            found = await cluster.list_offset(1, TOPIC, timestamp, version=version)
            assert found.error_code == DataCode.UNSUPPORTED_VERSION


async def test_each_replica_tells_its_own_end() -> None:
    async with serving(4) as cluster:
        await written(cluster)
        cluster.plane.set_broker_state(3, BrokerState.STALLED)
        await cluster.produce(1, TOPIC, batch(5), acks=1)
        cluster.pass_s(1)
        ends = [await cluster.list_offset(b, TOPIC, LATEST, replica_id=-2) for b in (1, 2, 3, 4)]
        assert [(end.error_code, end.offset) for end in ends] == [
            (0, 35),
            (0, 35),
            (0, 30),
            (6, -1),
        ]
        begin = await cluster.list_offset(3, TOPIC, EARLIEST, replica_id=-2)
        assert (begin.error_code, begin.offset) == (0, 0)
        consumer = await cluster.list_offset(1, TOPIC, LATEST)
        assert consumer.offset == 30
        await cluster.produce(1, TOPIC, batch(20), acks=1)
        for replica, offset in ((-1, -1), (DEBUGGING, 45)):
            hidden = await cluster.list_offset(1, TOPIC, 10, replica_id=replica)
            assert hidden.offset == offset
        assert (await cluster.list_offset(2, TOPIC, LATEST)).error_code == 6
        assert (await cluster.list_offset(1, TOPIC, LATEST, index=7)).error_code == 3
        assert (await cluster.list_offset(1, "nowhere", LATEST, replica_id=-2)).error_code == 3


async def test_counted_partitions_tell_their_ends_without_a_log() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1, 2, 3])
        cluster.fill(TOPIC, 1_000_000, 10_000)
        cluster.pass_s(10)
        end = await cluster.list_offset(1, TOPIC, LATEST, replica_id=DEBUGGING)
        assert (end.offset, cluster.held(TOPIC).log) == (1_100, None)


async def test_committed_ends() -> None:
    async with serving() as cluster:
        await written(cluster, batches=1)
        data = batch(2, producer_id=4, producer_epoch=0, base_sequence=0, attributes=0x10)
        await cluster.produce(1, TOPIC, data)
        for isolation, offset in ((0, 12), (1, 10)):
            found = await cluster.list_offset(1, TOPIC, LATEST, isolation_level=isolation)
            assert found.offset == offset
        fetched = await cluster.fetch(1, TOPIC, 0, isolation_level=1)
        assert (fetched.last_stable_offset, fetched.high_watermark) == (10, 12)
        assert len(fetched.records) == len(batch(10))
        every = await cluster.fetch(1, TOPIC, 0)
        assert len(every.records) == len(batch(10)) + len(data)


async def test_a_partition_that_is_named_twice() -> None:
    async with serving() as cluster:
        await written(cluster)
        one = LISTED.ListOffsetsPartition(version=4, partition_index=0, timestamp=-1)
        one.current_leader_epoch = -1
        topics = [LISTED(version=4, name=TOPIC, partitions=[one, one])]
        answer = await cluster.ask(
            1, LIST_OFFSETS, 4, replica_id=-2, isolation_level=0, topics=topics
        )
        assert {p.error_code for p in answer.topics[0].partitions} == {DataCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", range(1, 11))
def test_list_offsets_answers_are_kafka_pythons_bytes(version: int) -> None:
    made = KAFKA_APIS[LIST_OFFSETS].response
    topic = made.ListOffsetsTopicResponse(version=version, name="t")
    found = [ListedOffset(0, 0, 1 << 40, -1, 3), ListedOffset(1, 6, -1, -1, -1)]
    topic.partitions = [
        topic.ListOffsetsPartitionResponse(
            version=version,
            partition_index=one.number,
            error_code=one.error,
            timestamp=one.timestamp_ms,
            offset=one.offset,
            leader_epoch=one.leader_epoch,
        )
        for one in found
    ]
    expected = made(version=version, topics=[topic]).encode(version=version)
    assert list_offsets_answer(version, [("t", found)]) == bytes(expected)


@pytest.mark.bench
async def test_a_brokers_replicas_in_ten_milliseconds() -> None:
    """What a dashboard asks of each of a hundred brokers."""
    async with serving() as cluster:
        topics = []
        for number in range(100):
            cluster.create(f"t{number}", *[[1, 2, 3]] * 20)
            parts = [
                LISTED.ListOffsetsPartition(version=7, partition_index=index, timestamp=LATEST)
                for index in range(20)
            ]
            topics.append(LISTED(version=7, name=f"t{number}", partitions=parts))
        api = KAFKA_APIS[LIST_OFFSETS]
        data = bytes(api.request(version=7, replica_id=-2, topics=topics).encode(version=7))
        handler = list_offsets.handlers(cluster.world)[LIST_OFFSETS]
        context = RequestContext(2, WireRequestHeader(LIST_OFFSETS, 7, 1, None), 1, ("", 0))
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            await handler(context, api.request.decode(data, version=7))
            times.append(time.perf_counter() - begin)
        assert min(times) < 0.010


# --- DeleteRecords and OffsetForLeaderEpoch


async def delete(cluster: DataCluster, broker: int, offset: int, topic: str = TOPIC) -> Any:
    made = KAFKA_APIS[DELETE_RECORDS].request.DeleteRecordsTopic
    part = made.DeleteRecordsPartition(version=2, partition_index=0, offset=offset)
    named = made(version=2, name=topic, partitions=[part])
    answer = await cluster.ask(broker, DELETE_RECORDS, 2, topics=[named], timeout_ms=1_000)
    return answer.topics[0].partitions[0]


async def test_records_are_deleted_up_to_an_offset() -> None:
    async with serving() as cluster:
        await written(cluster)
        for offset, code, low in ((20, 0, 20), (10, 0, 20), (31, 1, -1), (-2, 1, -1), (-1, 0, 30)):
            found = await delete(cluster, 1, offset)
            assert (found.error_code, found.low_watermark) == (code, low), offset
        assert (await cluster.list_offset(1, TOPIC, EARLIEST)).offset == 30
        assert (await cluster.fetch(1, TOPIC, 29)).error_code == DataCode.OFFSET_OUT_OF_RANGE
        assert (await delete(cluster, 2, 0)).error_code == DataCode.NOT_LEADER_OR_FOLLOWER
        assert (await delete(cluster, 1, 0, "nowhere")).error_code == 3


async def test_records_of_a_compacted_topic_stay() -> None:
    async with serving() as cluster:
        cluster.create(TOPIC, [1], cleanup_policy="compact")
        assert (await delete(cluster, 1, 0)).error_code == DataCode.POLICY_VIOLATION
        cluster.create("both", [1], cleanup_policy="compact,delete")
        assert (await delete(cluster, 1, 0, "both")).error_code == OK


async def ask_epoch(cluster: DataCluster, broker: int, epoch: int, **more: Any) -> Any:
    made = KAFKA_APIS[OFFSET_FOR_LEADER_EPOCH].request.OffsetForLeaderTopic
    fields = {"current_leader_epoch": -1} | more
    part = made.OffsetForLeaderPartition(version=4, partition=0, leader_epoch=epoch, **fields)
    named = made(version=4, topic=TOPIC, partitions=[part])
    answer = await cluster.ask(broker, OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=[named])
    return answer.topics[0].partitions[0]


async def test_where_leader_epochs_end() -> None:
    async with serving() as cluster:
        await written(cluster)
        cluster.core.stop_broker(1)
        leader, epoch = cluster.at(TOPIC).leader, cluster.at(TOPIC).leader_epoch
        await cluster.produce(leader, TOPIC, batch(2))
        for wanted, expected in ((0, (0, 30)), (epoch, (epoch, 32)), (epoch + 1, (-1, -1))):
            found = await ask_epoch(cluster, leader, wanted)
            assert (found.error_code, found.leader_epoch, found.end_offset) == (0, *expected)
        assert (await ask_epoch(cluster, 5 - leader, 0)).error_code == 6
