"""The journal in a topic: on the embedded cluster, and on real Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.audit.lines import audit_key
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.embedded.net.server import BrokerServer
from kshunt.backend.errors import (
    Conflict,
    JournalFenced,
    JournalUnavailable,
    JournalUnusable,
    WrongCluster,
)
from kshunt.backend.journal_storage.topic import fenced_transactions as topic_log
from kshunt.backend.journal_storage.topic import topic_journal as journal_topic
from kshunt.backend.journal_storage.topic.acls import acl_remarks
from kshunt.backend.journal_storage.topic.clients import (
    TOPIC_CONFIG,
    TopicFacts,
    remarks_of,
    topic_faults,
)
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal, transactional_id
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    Body,
    EntryKind,
    Heartbeat,
    JournalState,
    operation_key,
)
from kshunt.backend.operations.journal.records import signed
from tests.support.access.keys import KEYS
from tests.support.operations.journal import (
    DEADLINE_S,
    Where,
    a_stand_by_sees,
    bodies,
    each_server,
    journal,
    raw_producer,
    written_by,
)
from tests.support.topics import create_topic
from tests.support.waiting import wait_until, wait_until_async

END_TXN, PRODUCE = 26, 0
GOOD = {"cleanup.policy": "compact"}


# --- the topic


async def test_a_journal_is_made_and_found_again(where: Where) -> None:
    topic = where.topic()
    await a_stand_by_sees(where, topic, JournalState())
    async with journal(where, topic) as one:
        assert await one.open() == JournalState()
        assert one.remarks == ()
        await one.append({"operation/a": {"text": "why"}, "throttle/broker/1": {"prior": None}})
        await one.append({"throttle/broker/1": None, "operation/b": {}})
        await one.append({})
        ours = one.state
    assert bodies(ours) == {"operation/a": {"text": "why"}, "operation/b": {}}
    assert ours.entries["operation/a"].header.writer == "one"
    await a_stand_by_sees(where, topic, ours)
    async with journal(where, topic, "two") as two:
        assert await two.open() == ours
    partitions = AdminClient({"bootstrap.servers": where.servers}).list_topics(topic).topics[topic]
    assert [len(one.replicas) for one in partitions.partitions.values()] == [3]


async def test_a_large_operation_is_kept_and_shrinks_again(where: Where) -> None:
    topic = where.topic()
    moves = [{"topic": f"t{n * n}", "partition": n, "replicas": [n % 5, 7]} for n in range(10_000)]
    async with journal(where, topic) as one:
        await one.open()
        await one.append({"operation/large": {"moves": moves, "noise": "ab" * 100_000}})
        await a_stand_by_sees(where, topic, one.state)
        await one.append({"operation/large": {"moves": []}})
        await a_stand_by_sees(where, topic, one.state)
        assert bodies(one.state) == {"operation/large": {"moves": []}}


@pytest.mark.parametrize(
    ("config", "partitions", "words"),
    [
        ({"cleanup.policy": "delete"}, 1, "cleanup.policy is delete"),
        ({"cleanup.policy": "compact,delete"}, 1, "cleanup.policy is compact,delete"),
        (GOOD, 2, "2 partitions"),
    ],
)
async def test_a_topic_that_would_lose_entries_is_refused(
    where: Where, config: Mapping[str, str], partitions: int, words: str
) -> None:
    topic = where.topic()
    create_topic(where.servers, topic, [[1, 2, 3]] * partitions, config)
    async with journal(where, topic) as one:
        with pytest.raises(JournalUnusable, match=words) as refused:
            await one.open()
        assert ("cleanup.policy=compact" in refused.value.advice) == (config != GOOD)
        assert ("delete the topic" in refused.value.advice) == (partitions > 1)
        with pytest.raises(JournalFenced):
            await one.append({"operation/a": {}})


async def test_a_topic_that_is_less_safe_than_it_could_be_is_remarked_on(where: Where) -> None:
    topic = where.topic()
    create_topic(where.servers, topic, [[1, 2]], {"cleanup.policy": "compact"})
    async with journal(where, topic) as one:
        await one.open()
        assert one.remarks == ("replication factor 2; 3 would be possible",)


async def test_settings_that_somebody_changes_meanwhile_are_remarked_on(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_topic, "SETTINGS_S", 0.0)
    topic = where.topic()
    async with journal(where, topic) as one:
        await one.open()
        changed = ConfigResource(ResourceType.TOPIC, topic)
        changed.add_incremental_config(
            ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        )
        admin = AdminClient({"bootstrap.servers": where.servers})
        admin.incremental_alter_configs([changed])[changed].result(DEADLINE_S)
        async with asyncio.timeout(DEADLINE_S):
            while not one.remarks:
                await one.append({"operation/a": {}})
        assert "cleanup.policy is delete" in one.remarks[0]
        assert "--add-config cleanup.policy=compact" in one.remarks[0]
        assert "Keep the topic" in one.remarks[0]


def test_settings_are_judged() -> None:
    good = TopicFacts(1, 3, {**TOPIC_CONFIG, "min.insync.replicas": "2"})
    assert (topic_faults(good), remarks_of(good, 9)) == ((), ())
    unclean = {**good.config, "unclean.leader.election.enable": "true"}
    assert "unclean" in remarks_of(TopicFacts(1, 3, unclean), 3)[0]
    assert "more than" in remarks_of(TopicFacts(1, 1, good.config), 1)[0]
    alone = {**good.config, "min.insync.replicas": "1"}
    assert "only copy" in remarks_of(TopicFacts(1, 3, alone), 3)[0]
    assert remarks_of(TopicFacts(1, 1, alone), 1) == ()
    assert transactional_id("abc") == "kshunt-journal-abc"


@pytest.mark.parametrize(
    ("writers", "words"),
    [
        (set(), ""),
        ({"User:kshunt"}, ""),
        ({"User:kshunt", "User:*"}, "all principals"),
        ({"User:kshunt", "User:app"}, "several principals to write t: User:app, User:kshunt"),
        ({f"User:{n}" for n in range(9)}, "and 4 more"),
    ],
)
def test_acls_that_let_others_write_are_remarked_on(writers: set[str], words: str) -> None:
    remarks = acl_remarks("t", writers)
    assert bool(remarks) == bool(words)
    assert words in " ".join(remarks)


async def test_another_cluster_is_refused(where: Where) -> None:
    async with journal(where, where.topic(), cluster_id="elsewhere") as one:
        with pytest.raises(WrongCluster, match="not to elsewhere"):
            await one.open()


async def test_what_cannot_be_read_is_listed_and_stays(where: Where) -> None:
    topic = where.topic()
    async with journal(where, topic) as one:
        await one.open()
        await one.append({"operation/a": {}})
        producer = raw_producer(where)
        newer = {"format": 9, "cluster_id": where.cluster_id, "key": "operation/a"}
        number = 2 * SystemClock().now_ms()
        producer.produce(topic, signed(newer, number, KEYS), b"operation/a", partition=0)
        producer.produce(topic, b"?", b"lock/x", partition=0)
        assert producer.flush(DEADLINE_S) == 0
        state = await one.open()
        assert state.entries == {}
        assert [one.why for one in state.unreadable.values()] == [UnreadableReason.NEWER]
        assert [one.why for one in state.aside.values()] == [UnreadableReason.DAMAGED]
        with pytest.raises(Conflict, match="newer"):
            await one.append({"operation/b": {}, "operation/a": {}})
        await a_stand_by_sees(where, topic, state)
        await one.append({"operation/a": {}, "lock/x": None}, replacing=["operation/a"])
        assert bodies(one.state) == {"operation/a": {}}
        await a_stand_by_sees(where, topic, one.state)


async def test_what_others_write_while_a_backend_acts_is_put_right(where: Where) -> None:
    topic = where.topic()
    line = audit_key(10**12, 1)
    entries: dict[str, Body] = {"operation/a": {"n": 1}, "throttle/broker/1": {}, line: {"x": "y"}}
    noise: dict[str, Body] = {"operation/large": {"noise": Random(1).randbytes(400_000).hex()}}
    async with journal(where, topic) as one:
        await one.open()
        await one.append({**entries, **noise, BACKEND_KEY: {}})
        ours = one.state.entries
        producer = raw_producer(where)
        for key in (*ours, "manifest", "operation/large#0000"):
            producer.produce(topic, None, key.encode(), partition=0)
        producer.produce(topic, b"?", b"operation/a", partition=0)
        producer.produce(topic, b"?", b"operation/large#0000", partition=0)
        producer.produce(topic, b"?", b"operation/new", partition=0)
        assert producer.flush(DEADLINE_S) == 0
        for n in range(2):
            await one.append({BACKEND_KEY: {"n": n}})
        assert "wrote" in " ".join(one.remarks)
        assert set(one.state.aside) == {"operation/new"}
        async with journal(where, topic, "two") as two:
            found = await two.open()
    assert {key: e.body for key, e in found.entries.items() if key != BACKEND_KEY} == {
        **entries,
        **noise,
    }
    assert (found.missing, found.unreadable) == ((), {})


async def test_a_tombstone_of_somebody_else_ends_no_heartbeat(where: Where) -> None:
    topic = where.topic()
    beat = Heartbeat("one", "host", "unix:/x", 1, 2).body()
    async with journal(where, topic) as one, journal(where, topic, "two") as two:
        await one.open()
        await one.append({BACKEND_KEY: beat})
        producer = raw_producer(where)
        producer.produce(topic, None, BACKEND_KEY.encode(), partition=0)
        assert producer.flush(DEADLINE_S) == 0

        async def is_seen() -> bool:
            return isinstance((await two.peek()).heartbeat, Heartbeat)

        # Kafka acknowledges a transaction before its end is in the log.
        await wait_until_async(is_seen, DEADLINE_S, "the heartbeat is seen")
        await one.append({BACKEND_KEY: None})
        assert one.state.heartbeat is None
        await a_stand_by_sees(where, topic, one.state)


# --- one writes, others follow


async def test_the_second_writer_fences_the_first(where: Where) -> None:
    topic = where.topic()
    async with journal(where, topic) as one, journal(where, topic, "two") as two:
        await one.open()
        await one.append({"operation/a": {"n": 1}})
        assert bodies(await two.open()) == {"operation/a": {"n": 1}}
        await two.append({"operation/b": {}})
        for _ in range(2):
            with pytest.raises(JournalFenced, match="taken over the journal"):
                await one.append({"operation/a": {"n": 2}, "operation/c": {}})
        await two.append({"operation/d": {}})
        assert sorted(bodies(two.state)) == ["operation/a", "operation/b", "operation/d"]
        await a_stand_by_sees(where, topic, two.state)
        assert written_by(where.servers, topic) == ["one", "two", "two"]


async def test_a_transaction_that_its_writer_left_leaves_nothing(where: Where) -> None:
    topic = where.topic()
    async with journal(where, topic) as one:
        await one.open()
        await one.append({"operation/a": {"n": 1}})
        dying = raw_producer(
            where, **{"transactional.id": transactional_id(where.cluster_id, topic)}
        )
        dying.init_transactions(DEADLINE_S)
        dying.begin_transaction()
        for key in (b"operation/a", b"operation/b"):
            dying.produce(topic, None, key, partition=0)
        assert dying.flush(DEADLINE_S) == 0
        async with journal(where, topic, "two") as two:
            assert bodies(await two.open()) == {"operation/a": {"n": 1}}
            await two.append({"operation/c": {}})
            await a_stand_by_sees(where, topic, two.state)


async def test_a_stand_by_follows(where: Where) -> None:
    topic = where.topic()
    async with journal(where, topic) as one, journal(where, topic, "two") as two:
        async with aclosing(two.follow()) as states:
            assert await anext(states) == JournalState()
            await one.open()
            for n in range(3):
                await one.append({operation_key(str(n)): {}, audit_key(10**12, n): {"n": n}})
                seen = await anext(states)
                while seen != one.state:
                    seen = await anext(states)
            assert await anext(states) is seen
        assert await two.open() == seen


# --- faults


async def test_what_is_in_doubt_is_found_out(
    embedded: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_log, "APPEND_TIMEOUT_S", 0.4)
    topic = embedded.topic()
    async with journal(embedded, topic) as one:
        await one.open()
        first, second = audit_key(10**12, 1), audit_key(10**12, 2)
        for key, repeat in ((first, True), (second, False)):
            await one.append({"operation/a": {"before": key}})
            each_server(embedded, lambda server: server.faults.stall())
            with pytest.raises(JournalUnavailable, match="is unknown") as lost:
                await one.append({key: {}})
            assert lost.value.written is None
            with pytest.raises(JournalUnavailable, match="is unknown"):
                await one.resolve()
            assert key not in one.state.entries
            each_server(embedded, lambda server: server.faults.heal())
            monkeypatch.setattr(topic_log, "APPEND_TIMEOUT_S", DEADLINE_S)
            if repeat:
                await one.append({key: {}})
            assert await one.resolve()
            assert key in one.state.entries
            monkeypatch.setattr(topic_log, "APPEND_TIMEOUT_S", 0.4)
        await a_stand_by_sees(embedded, topic, one.state)
        assert written_by(embedded.servers, topic) == ["one"] * 4


def cut(api_key: int, server: BrokerServer) -> None:
    server.faults.cut(api_key)


async def test_answers_that_are_cut_off_do_no_harm(embedded: Where) -> None:
    topic = embedded.topic()
    async with journal(embedded, topic) as one:
        await one.open()
        for n, api in enumerate((END_TXN, PRODUCE, END_TXN)):
            each_server(embedded, partial(cut, api))
            await one.append({audit_key(10**12, n): {}})
        each_server(embedded, lambda server: server.faults.heal())
        await a_stand_by_sees(embedded, topic, one.state)
        assert written_by(embedded.servers, topic) == ["one"] * 3


async def test_brokers_restart_while_entries_are_written(embedded: Where) -> None:
    cluster, topic = embedded.embedded, embedded.topic()
    assert cluster is not None
    over, written = threading.Event(), 0

    async def in_sync(running: EmbeddedCluster) -> bool:
        return all(len(p.isr) == 3 for p in running.image.topics[topic].partitions.values())

    def restart() -> None:
        # Each once, and then again until there was time for some entries.
        rounds = (broker for _ in range(20) for broker in (1, 2, 3))
        for number, broker in enumerate(rounds):
            if number >= 3 and written > 5:
                break
            cluster.call(partial(EmbeddedCluster.stop_broker, broker=broker))
            over.wait(0.2)
            cluster.call(partial(EmbeddedCluster.start_broker, broker=broker))
            wait_until(lambda: cluster.call(in_sync), DEADLINE_S, "all are in sync")
        over.set()

    async with journal(embedded, topic) as one:
        await one.open()
        restarting = asyncio.create_task(asyncio.to_thread(restart))
        while not over.is_set():
            await appended(one, {audit_key(10**12, written): {"n": written}, "operation/a": {}})
            written += 1
        await restarting
        ours = one.state
    assert written > 5
    assert list(ours.of(EntryKind.AUDIT)) == [f"1000000000000-{n:04d}" for n in range(written)]
    await a_stand_by_sees(embedded, topic, ours)


async def appended(one: TopicJournal, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Append, again and again if need be."""
    while True:
        try:
            return await one.append(entries)
        except JournalUnavailable:
            continue
