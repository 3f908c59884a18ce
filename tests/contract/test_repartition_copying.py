"""What a worker does with a range, on an embedded cluster and on a real one; without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaProducer

from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.pipeline.kernels.copy_errors import (
    CopyFailed,
    CopyFenced,
    RecordsGone,
    RecordTooLarge,
    TopicGone,
    from_json,
    kind_of,
)
from kshunt.backend.pipeline.kernels.copying import AS_SOURCE, Copied, Copying, Range, copy_range
from kshunt.backend.pipeline.kernels.partitioner import NO_KEY, partitions_of_bytes
from kshunt.backend.pipeline.repartition.copy_batches import begun, copy_cuts, next_batch
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from tests.support.clusters import EMULATED, embedded
from tests.support.shrink.copied_topics import filled, held
from tests.support.topics import BROKER_DEADLINE_S, create_topic

# Each starts servers of its own, which takes seconds.
pytestmark = pytest.mark.slow

KEPT = {"retention.ms": "-1"}
LIMIT_BYTES = 20_000


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Brokers of either cluster."""
    if request.param == "kafka":
        yield request.getfixturevalue("kafka").bootstrap_servers
        return
    with embedded(EMULATED) as cluster:
        yield cluster.bootstrap_servers


def topics_of(
    servers: str, name: str, source: int = 2, target: int = 3, limit_bytes: int = 1_000_000
) -> tuple[TopicQuestions, Copying]:
    """An empty source and target, and how to copy one into the other."""
    create_topic(servers, f"{name}-source", [[1 + n % 3] for n in range(source)], KEPT)
    create_topic(
        servers,
        f"{name}-target",
        [[1 + n % 3] for n in range(target)],
        KEPT | {"max.message.bytes": str(limit_bytes)},
    )
    clients = {"bootstrap.servers": servers, "log_level": 0}
    topics = TopicQuestions(clients)
    plan = Copying(
        clients,
        f"{name}-source",
        f"{name}-target",
        name,
        topics.partitions(f"{name}-target"),
        topics.limit_bytes(f"{name}-target"),
    )
    return topics, plan


def copied(topics: TopicQuestions, plan: Copying, most: int = 10**9) -> list[Copied]:
    """Copy everything, batch by batch."""
    way = copy_cuts(topics.starts(plan.source), {}, topics.ends(plan.source), [])
    at, done = begun(topics, plan, way), []
    while batch := next_batch(at, way, most):
        for each in batch.ranges:
            done.append(copy_range(plan, each))
            assert done[-1].failure is None, str(done[-1].failure)
            at[each.partition] = done[-1].position
    return done


def sent(servers: str, topic: str, *values: bytes, partition: int = 0) -> None:
    producer = Producer(
        {"bootstrap.servers": servers, "log_level": 0, "message.max.bytes": 10_000_000}
    )
    for value in values:
        producer.produce(topic, value, b"k", partition)
    assert producer.flush(BROKER_DEADLINE_S) == 0


def test_each_record_is_copied_once_and_stays_as_it_was(servers: str) -> None:
    topics, plan = topics_of(servers, "whole")
    filled(servers, plan.source, seed=1, count=3_000)
    done = copied(topics, plan, most=700)
    before, after = held(servers, plan.source), held(servers, plan.target)
    assert sum(each.records for each in done) == len(before) == 3_000
    places = {(r.partition, r.offset): r for r in before}
    assert Counter(r.source for r in after) == Counter(places.keys())
    for record in after:
        original = places[record.source]
        assert record.content == original.content
        (target,) = partitions_of_bytes([record.key], 3)
        if target == NO_KEY:
            target = (original.partition + original.offset) % 3
        assert record.partition == target
    for p in range(3):
        for q in range(2):
            order = [r.source[1] for r in after if r.partition == p and r.source[0] == q]
            assert order == sorted(order)


def test_timestamps_stay_whatever_they_are(servers: str) -> None:
    topics, plan = topics_of(servers, "times", source=1)
    times = [5_000, 0, 7_000, 0, 1, 0]
    with closing(KafkaProducer(bootstrap_servers=servers.split(","))) as producer:
        for n, at_ms in enumerate(times):
            headers = [("n", b"%d" % n)]
            producer.send(plan.source, b"v%d" % n, b"k", headers, 0, at_ms).get(BROKER_DEADLINE_S)
    # A header without a value, which kafka-python's own call refuses, after a time of 0.
    empty = Producer({"bootstrap.servers": servers, "log_level": 0})
    empty.produce(plan.source, b"last", b"k", 0, timestamp=9_000, headers=[("none", None)])
    assert empty.flush(BROKER_DEADLINE_S) == 0
    assert [r.timestamp_ms for r in held(servers, plan.source)] == [*times, 9_000]
    done = copied(topics, plan, most=4)
    assert sum(each.records for each in done) == 7
    after = held(servers, plan.target)
    assert [r.content for r in after] == [r.content for r in held(servers, plan.source)]
    assert [r.timestamp_ms for r in after] == [*times, 9_000]


def test_a_keys_next_record_lands_where_its_copied_ones_are(servers: str) -> None:
    """Of every partitioner; by librdkafka's default two in three went elsewhere before."""
    for partitioner, name in (
        (Partitioner.CRC32, "consistent_random"),
        (Partitioner.MURMUR2, "murmur2_random"),
        (Partitioner.FNV1A, "fnv1a_random"),
    ):
        topics, plan = topics_of(servers, f"home-{partitioner}", source=7, target=3)
        plan = replace(plan, partitioner=partitioner)
        keys = [b"customer-%d" % n for n in range(200)]
        producer = Producer({"bootstrap.servers": servers, "log_level": 0, "partitioner": name})
        for n in range(3):
            for key in keys:
                producer.produce(plan.source, b"%d" % n, key)
        assert producer.flush(BROKER_DEADLINE_S) == 0
        copied(topics, plan)
        for key in keys:
            producer.produce(plan.target, b"next", key)
        assert producer.flush(BROKER_DEADLINE_S) == 0
        places: dict[bytes | None, set[int]] = {}
        order: dict[bytes | None, list[bytes | None]] = {}
        for record in held(servers, plan.target):
            places.setdefault(record.key, set()).add(record.partition)
            order.setdefault(record.key, []).append(record.value)
        assert {len(found) for found in places.values()} == {1}
        assert {tuple(found) for found in order.values()} == {(b"0", b"1", b"2", b"next")}


def test_what_is_copied_is_not_copied_again(servers: str) -> None:
    topics, plan = topics_of(servers, "again")
    sent(servers, plan.source, b"a", b"b", b"c")
    copied(topics, plan)
    # A worker that does not know how far the copy is asks the group.
    assert sum(each.records for each in copied(topics, plan)) == 0
    believed = copy_range(plan, Range(0, 0, 3))
    assert (believed.position, believed.records, believed.failure) == (3, 0, None)
    sent(servers, plan.source, b"d")
    more = copied(topics, plan)
    assert (sum(each.records for each in more), more[-1].position) == (1, 4)
    assert [r.value for r in held(servers, plan.target)] == [b"a", b"b", b"c", b"d"]


def test_back_into_as_many_partitions_without_the_header(servers: str) -> None:
    topics, plan = topics_of(servers, "there", source=3, target=2)
    filled(servers, plan.source, seed=2, count=600)
    copied(topics, plan)
    topics, back = topics_of(servers, "back", source=1, target=2)
    back = replace(back, source=plan.target, strip_header=True)
    copied(topics, back)
    there, again = held(servers, plan.target), held(servers, back.target)
    assert [(r.partition, r.content) for r in again] == [(r.partition, r.content) for r in there]
    assert not any(name == "kshunt-source" for r in again for name, _ in r.headers)


def test_records_without_key_stay_together_where_they_are_to(servers: str) -> None:
    topics, plan = topics_of(servers, "together")
    filled(servers, plan.source, seed=3, count=400)
    copied(topics, replace(plan, keyless=AS_SOURCE))
    keyless = [r for r in held(servers, plan.target) if r.key is None]
    assert keyless
    assert {r.partition == r.source[0] % 3 for r in keyless} == {True}


def test_a_record_that_is_too_large_is_named_and_nothing_of_its_transaction_stays(
    servers: str,
) -> None:
    topics, plan = topics_of(servers, "large", limit_bytes=LIMIT_BYTES)
    values = [b"%d" % n * 3_000 for n in range(9)]
    sent(servers, plan.source, *values, bytes(LIMIT_BYTES), b"last")
    way = copy_cuts(topics.starts(plan.source), {}, topics.ends(plan.source), [])
    begun(topics, plan, way)
    done = copy_range(plan, Range(0, 0, 11))
    assert isinstance(done.failure, RecordTooLarge), str(done.failure)
    assert (done.failure.topic, done.failure.partition, done.failure.offset) == (plan.source, 0, 9)
    assert "max.message.bytes" in str(done.failure)
    assert topics.committed(plan.group, plan.source, 2) == {0: 0, 1: 0}
    assert held(servers, plan.target) == []
    limit(servers, plan.target, 10 * LIMIT_BYTES)
    copied(topics, replace(plan, limit_bytes=topics.limit_bytes(plan.target)))
    assert [r.value for r in held(servers, plan.target)] == [*values, bytes(LIMIT_BYTES), b"last"]


def limit(servers: str, topic: str, limit_bytes: int) -> None:
    entry = ConfigEntry(
        "max.message.bytes", str(limit_bytes), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result(BROKER_DEADLINE_S)


def test_who_copies_a_partition_later_shuts_the_former_out(servers: str) -> None:
    topics, plan = topics_of(servers, "fenced")
    sent(servers, plan.source, b"a", b"b")
    settings: dict[str, Any] = {**plan.clients, "transactional.id": plan.transactional_id(0)}
    former = Producer(settings)
    former.init_transactions(BROKER_DEADLINE_S)
    former.begin_transaction()
    former.produce(plan.target, b"half done", b"k")
    former.flush(BROKER_DEADLINE_S)
    (done,) = copied(topics, plan)
    assert done.records == 2
    with pytest.raises(KafkaException) as refused:
        former.commit_transaction(BROKER_DEADLINE_S)
    assert kind_of(refused.value.args[0].code()) is CopyFenced
    assert [r.value for r in held(servers, plan.target)] == [b"a", b"b"]


def test_records_that_were_deleted_meanwhile_stop_the_copy(servers: str) -> None:
    topics, plan = topics_of(servers, "gone")
    sent(servers, plan.source, b"a", b"b", b"c")
    way = copy_cuts(topics.starts(plan.source), {}, topics.ends(plan.source), [])
    begun(topics, plan, way)
    admin = AdminClient(dict(plan.clients))
    before = TopicPartition(plan.source, 0, 2)
    admin.delete_records([before])[before].result(BROKER_DEADLINE_S)
    done = copy_range(plan, Range(0, 0, 3))
    assert isinstance(done.failure, RecordsGone), str(done.failure)
    assert done.failure.offset == 0
    assert held(servers, plan.target) == []


def test_a_target_with_records_of_others_is_refused(servers: str) -> None:
    topics, plan = topics_of(servers, "taken")
    sent(servers, plan.source, b"a")
    sent(servers, plan.target, b"somebody's")
    way = copy_cuts(topics.starts(plan.source), {}, topics.ends(plan.source), [])
    with pytest.raises(Conflict, match="is unknown"):
        begun(topics, plan, way)
    assert topics.committed(plan.group, plan.source, 2) == {}


def test_a_topic_that_is_not_there_is_named(servers: str) -> None:
    topics = TopicQuestions({"bootstrap.servers": servers, "log_level": 0}, known_s=0.5)
    with pytest.raises(TopicGone, match="nowhere"):
        topics.partitions("nowhere")


def test_an_open_transaction_ends_what_can_be_copied(servers: str) -> None:
    topics, plan = topics_of(servers, "open")
    sent(servers, plan.source, b"a")
    settings: dict[str, Any] = {**plan.clients, "transactional.id": "open-one"}
    writer = Producer(settings)
    writer.init_transactions(BROKER_DEADLINE_S)
    writer.begin_transaction()
    writer.produce(plan.source, b"open", b"k", 0)
    assert writer.flush(BROKER_DEADLINE_S) == 0
    ends = topics.ends(plan.source)
    assert ends == {0: 1, 1: 0}
    with pytest.raises(BadInput, match="up to offset 1,"):
        copy_cuts(topics.starts(plan.source), {0: 2}, ends, [])
    (done,) = copied(topics, plan)
    assert done.records == 1
    writer.abort_transaction(BROKER_DEADLINE_S)


def test_a_failure_comes_back_as_it_was() -> None:
    failure = RecordTooLarge("t", 3, 1042, "Broker: Message size too large")
    again = from_json(json.dumps(failure.as_json()))
    assert (type(again), str(again)) == (RecordTooLarge, str(failure))
    assert kind_of(-1) is CopyFailed
