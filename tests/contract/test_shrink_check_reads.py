"""Who reads a topic and who writes it, on embedded clusters and on Kafka; and the whole check."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.shrink.check import KeyUse, Severity, ShrinkCheck
from kshunt.backend.domain.topics.partitioners import KeyPlacing, Partitioner
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.embedded.net.server import RequestContext
from kshunt.backend.operations.shrink.check import ShrinkChecks
from kshunt.backend.wire.group_describe import assigned_in, described, subscribes
from kshunt.backend.wire.raw_request import RawAnswer
from kshunt.backend.wire.reader import WireError
from tests.support.admin import (
    DEADLINE_S,
    TIMEOUT_S,
    connected,
    fresh_name,
    replicas_become,
    topic_with,
    unthrottle,
)
from tests.support.clusters import KAFKA, ContractCluster
from tests.support.embedded.background import running
from tests.support.native import LIST_OFFSETS, administered, refusing, stay_silent
from tests.support.shrink.check import THREE_BY_TWO, commit, member, on_thread, transaction, write
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until_async

SIX = range(6)


def checks_of(admin: Reached, watch_s: float = 0.0) -> ShrinkChecks:
    return ShrinkChecks(admin, SystemClock(), timeout_s=TIMEOUT_S, watch_s=watch_s)


def codes(check: ShrinkCheck, severity: Severity = Severity.REFUSE) -> set[str]:
    return {one.code for one in check.findings if one.severity is severity}


# Reads


async def test_groups_are_found_by_what_they_committed_and_by_their_members(
    admin: Reached,
) -> None:
    topic = await topic_with(admin, "groups", THREE_BY_TWO)
    other = await topic_with(admin, "groups", [[1]])
    servers, work = admin.cluster.bootstrap_servers, asyncio.to_thread
    await work(write, servers, topic, dict.fromkeys(SIX, 10))
    one, two, three, elsewhere = (f"{topic}-{n}" for n in ("a", "b", "c", "elsewhere"))
    await work(commit, servers, one, topic, {n: n for n in SIX})
    await work(commit, servers, two, topic, {5: 10})
    await work(commit, servers, elsewhere, other, {0: 0})
    async with on_thread(member(servers, three, topic, {"client.id": "reader"})):
        read = await admin.groups.of_topic(topic, timeout_s=TIMEOUT_S)
    found = {group.name: group for group in read.groups}
    assert not {what for what in read.unread if topic in what}
    assert [group.name for group in read.groups] == [one, two, three]
    assert found[one].committed == {n: n for n in SIX}
    assert (found[one].state, found[one].active, found[one].kind) == ("Empty", False, "classic")
    assert found[two].committed == {5: 10}
    assert found[three].committed == {}
    (reader,) = found[three].members
    assert (reader.client_id, reader.partitions) == ("reader", tuple(SIX))
    assert reader.host == "/127.0.0.1"
    assert found[three].active


async def test_offsets_say_where_logs_begin_and_end_and_what_is_not_committed(
    admin: Reached,
) -> None:
    topic = await topic_with(admin, "offsets", [[1], [2], [3]])
    servers = admin.cluster.bootstrap_servers
    await asyncio.to_thread(write, servers, topic, {0: 10})
    async with on_thread(transaction(servers, f"{topic}-tx", topic, 1)):
        read = await admin.records.offsets(topic, timeout_s=TIMEOUT_S)
    assert read.unread == {}
    first, second, third = (read.offsets[number] for number in range(3))
    assert (first.start, first.end, first.stable_end) == (0, 10, 10)
    assert (second.start, second.end, second.stable_end) == (0, 1, 0)
    assert (third.start, third.end) == (0, 0)
    assert third.oldest_ms is None
    assert third.newest_ms is None
    assert first.oldest_ms is not None
    assert first.newest_ms is not None
    assert first.oldest_ms <= first.newest_ms


async def test_producers_are_told_by_kafka_and_said_to_be_unknown_elsewhere(
    admin: Reached, cluster: ContractCluster
) -> None:
    topic = await topic_with(admin, "producers", [[1], [2]])
    servers, name = admin.cluster.bootstrap_servers, f"{topic}-tx"
    idempotent = {"enable.idempotence": True}
    await asyncio.to_thread(write, servers, topic, {0: 3}, settings=idempotent)
    async with on_thread(transaction(servers, name, topic, 1)):
        read = await admin.records.producers(topic, timeout_s=TIMEOUT_S)
    if cluster.flavour != KAFKA:
        assert read.producers == {}
        assert "DescribeProducers" in read.unread["producers on broker 1"]
        return
    assert read.unread == {}
    (idle,), (writer,) = read.producers[0], read.producers[1]
    assert (idle.transaction_start, idle.transactional_id) == (None, None)
    assert (writer.transaction_start, writer.transactional_id) == (0, name)
    assert writer.last_ms > 0


async def test_the_last_records_tell_of_keys(admin: Reached) -> None:
    topic = await topic_with(admin, "sample", [[1], [2], [3]])
    servers = admin.cluster.bootstrap_servers
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        settings = {"compression.type": codec}
        await asyncio.to_thread(write, servers, topic, {0: 8}, settings=settings)
    await asyncio.to_thread(write, servers, topic, {1: 2}, key=None)
    ends = {0: (0, 40), 1: (0, 2), 2: (0, 0)}
    seen = await admin.records.sample(topic, ends, partitions=3, timeout_s=TIMEOUT_S)
    assert seen.unread == {}
    assert (seen.records, seen.keyed, seen.partitions) == (42, 40, (0, 1))
    # All have one key.
    assert (seen.seen.keys, seen.seen.partitions) == (1, 3)
    assert seen.largest_bytes == 3


@pytest.mark.parametrize("partitioner", Partitioner)
async def test_the_last_records_tell_which_partitioner_their_keys_follow(
    admin: Reached, partitioner: Partitioner
) -> None:
    topic = await topic_with(admin, f"by-{partitioner}", [[1], [2], [3], [1], [2]])
    name = {"crc32": "consistent_random"}.get(partitioner, f"{partitioner}_random")

    def write_keys() -> None:
        settings = {"bootstrap.servers": admin.cluster.bootstrap_servers, "log_level": 0}
        producer = Producer({**settings, "partitioner": name})
        for number in range(300):
            producer.produce(topic, b"v", b"customer-%d" % (number % 90))
        assert producer.flush(TIMEOUT_S) == 0

    await asyncio.to_thread(write_keys)
    read = await admin.records.offsets(topic, timeout_s=TIMEOUT_S)
    ends = {number: (one.start, one.end) for number, one in read.offsets.items()}
    sample = await admin.records.sample(topic, ends, partitions=5, timeout_s=TIMEOUT_S)
    assert sample.seen.keys == 90
    assert sample.seen.followed() == (KeyPlacing.ONE, (partitioner,))


async def test_a_topic_that_is_not_there_has_nobody(admin: Reached) -> None:
    assert (await admin.groups.of_topic("nosuch", timeout_s=TIMEOUT_S)).groups == ()
    assert (await admin.records.offsets("nosuch", timeout_s=TIMEOUT_S)).offsets == {}
    assert (await admin.records.producers("nosuch", timeout_s=TIMEOUT_S)).producers == {}
    sample = await admin.records.sample("nosuch", {}, partitions=1, timeout_s=TIMEOUT_S)
    assert (sample.records, sample.unread) == (0, {})


@pytest.mark.kafka
@pytest.mark.parametrize("cluster", [KAFKA], indirect=True)
async def test_groups_of_the_newer_protocol_are_described_too(admin: Reached) -> None:
    topic = await topic_with(admin, "kip848", [[1], [2], [3]])
    servers, group = admin.cluster.bootstrap_servers, f"{topic}-g"
    newer = {"group.protocol": "consumer", "client.id": "newer"}
    async with on_thread(member(servers, group, topic, newer)):
        read = await admin.groups.of_topic(topic, timeout_s=TIMEOUT_S)
    (found,) = read.groups
    assert (found.name, found.kind, found.active) == (group, "consumer", True)
    (reader,) = found.members
    assert (reader.client_id, reader.partitions) == ("newer", (0, 1, 2))


# Old brokers, and faults


async def test_brokers_before_kafka_3_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """One group a request, and no newest timestamp."""
    monkeypatch.setitem(KAFKA_APIS, 9, replace(KAFKA_APIS[9], max_version=7))
    monkeypatch.setitem(KAFKA_APIS, 16, replace(KAFKA_APIS[16], max_version=2))
    monkeypatch.setitem(KAFKA_APIS, 2, replace(KAFKA_APIS[2], max_version=5))
    with running(ClusterSpec(plain_brokers(2))) as handle:
        servers = handle.bootstrap_servers
        await asyncio.to_thread(create_topic, servers, "t", [[1], [2]])
        await asyncio.to_thread(write, servers, "t", {0: 2, 1: 2})
        for group in ("a", "b"):
            await asyncio.to_thread(commit, servers, group, "t", {0: 1, 1: 2})
        async with connected(servers) as admin:
            read = await admin.groups.of_topic("t", timeout_s=TIMEOUT_S)
            assert {group.name: group.committed for group in read.groups} == {
                "a": {0: 1, 1: 2},
                "b": {0: 1, 1: 2},
            }
            assert {group.state for group in read.groups} == {"Empty"}
            found = (await admin.records.offsets("t", timeout_s=TIMEOUT_S)).offsets[0]
            assert (found.end, found.newest_ms) == (2, None)
            assert found.oldest_ms is not None


async def test_what_brokers_do_not_have_or_refuse_is_said_and_hides_nothing() -> None:
    async with administered() as (cluster, admin):
        read = await admin.groups.of_topic("t", timeout_s=TIMEOUT_S)
        assert set(read.unread) == {f"groups of broker {broker}" for broker in range(1, 5)}
        cluster.instead[LIST_OFFSETS] = refusing(6)
        offsets = await admin.records.offsets("t", timeout_s=TIMEOUT_S)
        assert offsets.offsets == {}
        assert offsets.unread["t-0"] == "NOT_LEADER_OR_FOLLOWER"
        check = await checks_of(admin).check("t", 1)
        assert check.current == 2
        assert check.partitions[0].records is None
        assert "not-read" in codes(check, Severity.WARN)
        assert "sizes" not in str(check.unread)
        assert check.total_bytes is not None


async def test_a_silent_broker_hides_nothing_of_the_others() -> None:
    async with administered() as (cluster, admin):
        own = cluster.own[LIST_OFFSETS]

        async def silent(context: RequestContext, message: Any) -> Any:
            return await (stay_silent if context.broker_id == 2 else own)(context, message)

        cluster.instead[LIST_OFFSETS] = silent
        checks = ShrinkChecks(admin, SystemClock(), timeout_s=2.0, watch_s=0.0)
        check = await asyncio.wait_for(checks.check("t", 1), DEADLINE_S)
        unread = {one.what for one in check.unread}
        assert "offsets on broker 2" in unread
        assert check.partitions[0].log_end_offset is None
        assert "offsets" not in unread
        assert set((await admin.records.offsets("t", timeout_s=1.0)).offsets) == {0}


def test_members_on_the_wire_are_read_or_refused() -> None:
    member = (
        b"\x02m\x00\x00\x00\x00\x00\x01\x02c\x03/h\x02\x02t\x00"
        b"\x02" + bytes(16) + b"\x02t\x03\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00"
        b"\x01\x00\x00"
    )
    group = b"\x00\x00\x00\x02g\x07Stable\x00\x00\x00\x01\x00\x00\x00\x01\x02u\x02" + member
    body = bytes(4) + b"\x02" + group + b"\x80\x00\x00\x00\x00" + b"\x00"
    (found,) = described(RawAnswer(0, body))
    assert (found.name, found.state, found.error_code) == ("g", "Stable", 0)
    (one,) = found.members
    assert (one.client_id, one.host, one.subscribed) == ("c", "/h", ("t",))
    assert one.assigned == (("t", (1, 5)),)
    for size in range(len(body)):
        with pytest.raises(WireError):
            described(RawAnswer(0, body[:size]))


def test_what_classic_members_wrote_is_read_or_refused() -> None:
    assignment = b"\0\0\0\0\0\2\0\1t\0\0\0\2\0\0\0\5\0\0\0\1\0\1u\0\0\0\0\xff\xff\xff\xff"
    assert assigned_in(assignment, "t") == (1, 5)
    assert assigned_in(assignment, "u") == ()
    assert assigned_in(b"", "t") == ()
    subscription = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"
    assert subscribes(subscription, "t")
    assert not subscribes(subscription, "u")
    assert not subscribes(b"", "t")
    for broken in (b"\0", b"\0\0\x7f\xff\xff\xff", b"sink-connector"):
        with pytest.raises(WireError):
            assigned_in(broken, "t")
        with pytest.raises(WireError):
            subscribes(broken, "t")


# The check


async def test_a_topic_with_readers_and_writers_is_seen_whole(
    admin: Reached, cluster: ContractCluster
) -> None:
    topic = await topic_with(admin, "whole", THREE_BY_TWO)
    servers, work = admin.cluster.bootstrap_servers, asyncio.to_thread
    await work(write, servers, topic, dict.fromkeys(SIX, 10))
    groups = {"a": dict.fromkeys(SIX, 10), "b": dict.fromkeys(SIX, 4), "c": {0: 2, 5: 3}}
    for name, offsets in groups.items():
        await work(commit, servers, f"{topic}-{name}", topic, offsets)
    async with (
        on_thread(member(servers, f"{topic}-m", topic, {"client.id": "me"})),
        on_thread(transaction(servers, f"{topic}-tx", topic, 5)),
    ):
        check = await checks_of(admin, watch_s=0.1).check(topic, 4)
    assert not check.refusals(), check.findings
    assert (check.current, check.wanted, check.native) == (6, 4, False)
    assert [one.number for one in check.partitions] == [4, 5]
    four, five = check.partitions
    assert (four.records, four.log_end_offset, four.open_transaction_at) == (10, 10, None)
    assert (five.records, five.open_transaction_at) == (11, 10)
    assert four.size_bytes is not None
    assert four.size_bytes > 0
    assert four.written_meanwhile == 0
    lags = {one.name.removeprefix(f"{topic}-"): one for one in check.groups}
    assert (lags["a"].unread_doomed, lags["a"].unread_all) == (1, 1)
    assert (lags["b"].unread_doomed, lags["b"].unread_all) == (13, 37)
    assert (lags["c"].unread_doomed, lags["c"].no_position) == (8, (4,))
    assert lags["m"].members[0].client_id == "me"
    assert check.keys is KeyUse.ALL
    assert check.copy_bytes is not None
    assert check.watched_ms >= 100
    warned = codes(check, Severity.WARN)
    assert {"writing", "open-transaction", "groups-active", "no-position", "keyed"} <= warned
    if cluster.flavour == KAFKA:
        assert check.unread == ()
        assert warned & {"room-unknown", "not-read"} == set()
        (writer,) = [one for one in five.producers or () if one.transaction_start is not None]
        assert writer.transactional_id == f"{topic}-tx"


async def test_a_producer_that_wakes_up_is_seen_to_write(admin: Reached) -> None:
    topic = await topic_with(admin, "wakes", [[1], [2]])
    checking = asyncio.create_task(checks_of(admin, watch_s=2.0).check(topic, 1))
    producer = Producer({"log_level": 0, "bootstrap.servers": admin.cluster.bootstrap_servers})
    while not checking.done():
        producer.produce(topic, b"v", partition=1)
        await asyncio.to_thread(producer.flush, TIMEOUT_S)
    check = await checking
    assert check.partitions[0].written_meanwhile
    (writing,) = [one for one in check.findings if one.code == "writing"]
    assert "arrived during the check" in writing.words


async def test_what_cannot_be_meant_is_refused_and_nothing_else_asked(admin: Reached) -> None:
    topic = await topic_with(admin, "bad", [[1], [2]])
    checks = checks_of(admin)
    for count, code in ((0, "count-not-positive"), (-3, "count-not-positive")):
        assert codes(await checks.check(topic, count)) == {code}
    for count in (2, 3, 2**31 - 1):
        check = await checks.check(topic, count)
        assert codes(check) == {"count-not-smaller"}
        assert check.groups == ()
    for unknown in ("nosuch", "no such!", "x" * 249):
        check = await checks.check(unknown, 1)
        assert (codes(check), check.current) == ({"unknown"}, 0)
    state = await admin.cluster.describe(timeout_s=TIMEOUT_S)
    assert "nosuch" not in state.assignment.topics


async def test_internal_and_compacted_topics_are_refused(
    admin: Reached, cluster: ContractCluster
) -> None:
    topic, servers = fresh_name("compacted"), admin.cluster.bootstrap_servers
    compact = {"cleanup.policy": "compact"}
    await asyncio.to_thread(create_topic, servers, topic, [[1], [2]], compact)
    await asyncio.to_thread(write, servers, topic, {0: 3})
    await asyncio.to_thread(commit, servers, f"{topic}-g", topic, {0: 0})
    checks = checks_of(admin)
    check = await checks.check(topic, 1)
    assert codes(check) == {"compacted"}
    assert not check.refusals({"compacted"})
    # A broker that hosts nothing of the topic says what is free as well.
    assert "room-unknown" not in codes(check, Severity.WARN)
    internal = "__consumer_offsets"
    if cluster.flavour != KAFKA:
        internal = "__kshunt_journal"
        await asyncio.to_thread(create_topic, servers, internal, [[1], [2]])
    found = await checks.check(internal, 1)
    assert [one.code for one in found.refusals({"internal", "compacted"})] == ["internal"]


async def test_a_running_reassignment_is_refused(admin: Reached, cluster: ContractCluster) -> None:
    topic = await topic_with(admin, "moving", [[1], [2]], records=2_000)
    first = TopicPartition(topic, 0)
    await admin.reassignments.reassign(
        {first: (3,)}, ReassignOptions(throttle_bytes_per_s=1_024, timeout_s=TIMEOUT_S), {}
    )
    try:
        check = await checks_of(admin).check(topic, 1)
        assert codes(check) == {"reassigning"}
    finally:
        await admin.reassignments.alter({first: None}, timeout_s=TIMEOUT_S)
        await unthrottle(admin, cluster.broker_ids)
    await replicas_become(admin, first, (1,))

    async def still() -> bool:
        return not codes(await checks_of(admin).check(topic, 1))

    await wait_until_async(still, DEADLINE_S, "nothing speaks against it")


async def test_limits_that_would_harm_a_copy_are_seen(admin: Reached) -> None:
    topic, servers = fresh_name("limits"), admin.cluster.bootstrap_servers
    await asyncio.to_thread(create_topic, servers, topic, [[1], [2]])
    await asyncio.to_thread(produce, servers, topic, 20, 20_000, 1)
    limits = {
        "max.message.bytes": "10000",
        "retention.bytes": "300000",
        "retention.ms": "600000",
        "message.timestamp.type": "LogAppendTime",
    }
    await asyncio.to_thread(_configure, servers, topic, limits)

    async def seen() -> bool:
        check = await checks_of(admin).check(topic, 1, copy_rate_bytes_per_s=500.0)
        return (
            codes(check) == {"retention-short", "retention-bytes"}
            and {"record-limit", "log-append-time"} <= codes(check, Severity.WARN)
            and check.keys is KeyUse.NONE
            and check.partitions[0].expires_in_ms is not None
        )

    await wait_until_async(seen, DEADLINE_S, "every limit is seen")
    assert (await admin.records.offsets(topic, timeout_s=TIMEOUT_S)).offsets[1].end == 20


def _configure(servers: str, topic: str, values: dict[str, str]) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    client = AdminClient({"log_level": 0, "bootstrap.servers": servers})
    client.incremental_alter_configs([resource])[resource].result(timeout=DEADLINE_S)


async def test_where_the_cluster_deletes_partitions_what_is_unread_is_lost() -> None:
    static = {"delete.topic.partition.enable": "true"}
    with running(ClusterSpec(plain_brokers(2), static=static)) as handle:
        servers = handle.bootstrap_servers
        await asyncio.to_thread(create_topic, servers, "t", [[1], [2]])
        await asyncio.to_thread(write, servers, "t", {0: 5, 1: 5})
        await asyncio.to_thread(commit, servers, "g", "t", {0: 5, 1: 1})
        async with connected(servers) as admin:
            check = await checks_of(admin).check("t", 1)
    assert (check.native, check.copy_bytes) == (True, 0)
    assert not check.refusals()
    assert {"unread-lost", "keyed"} <= codes(check, Severity.WARN)


async def test_an_offline_partition_is_refused() -> None:
    with running(ClusterSpec(plain_brokers(2))) as handle:
        servers = handle.bootstrap_servers
        await asyncio.to_thread(create_topic, servers, "t", [[1], [2]])
        async with connected(servers) as admin:
            await asyncio.to_thread(handle.call, lambda cluster: cluster.stop_broker(2))

            async def gone() -> bool:
                return "offline" in codes(await checks_of(admin).check("t", 1))

            await wait_until_async(gone, DEADLINE_S, "the partition is seen to be offline")
