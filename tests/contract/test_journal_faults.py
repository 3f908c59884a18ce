"""The journal's topic deleted, the whole cluster restarted, a principal refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.clock import SystemClock
from kshunt.backend.embedded.cluster import EmbeddedCluster
from kshunt.backend.errors import JournalFenced, JournalUnavailable, JournalUnusable, NotAuthorized
from kshunt.backend.journal_storage.topic import fenced_transactions as topic_log
from kshunt.backend.journal_storage.topic import topic_journal as journal_topic
from kshunt.backend.journal_storage.topic.acls import writers_of
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal, transactional_id
from kshunt.backend.operations.journal.entries import BACKEND_KEY, JournalState
from kshunt.backend.operations.lease.lease import LeaseState, LeaseTimes
from kshunt.backend.operations.lease.lease_manager import BackendIdentity, LeaseManager
from tests.support.access.keys import KEYS
from tests.support.brokers.launcher import PASSWORD, USER, RealKafka
from tests.support.operations.journal import (
    DEADLINE_S,
    Where,
    a_stand_by_sees,
    bodies,
    journal,
)
from tests.support.topics import create_topic
from tests.support.waiting import wait_until, wait_until_async

# Each starts servers of its own, which takes seconds.
pytestmark = pytest.mark.slow

QUICK = LeaseTimes(beat_s=0.4, act_within_s=4.0, silence_s=5.0)


def topics(where: Where) -> set[str]:
    admin = AdminClient({"bootstrap.servers": where.servers, "log_level": 0})
    return set(admin.list_topics(timeout=DEADLINE_S).topics)


def delete(where: Where, topic: str, *, anew: bool) -> None:
    admin = AdminClient({"bootstrap.servers": where.servers, "log_level": 0})
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    wait_until(lambda: topic not in topics(where), DEADLINE_S, "the topic is gone")
    if anew:
        create_topic(where.servers, topic, [[1, 2, 3]], {"cleanup.policy": "compact"})


# --- followers


async def test_a_backend_that_only_looks_makes_no_topic(where: Where) -> None:
    topic = where.topic()
    async with journal(where, topic) as its:
        lease_manager = LeaseManager(
            its, BackendIdentity.here("one", "unix:/run/one.sock", 1), SystemClock()
        )
        run = asyncio.create_task(lease_manager.run())
        await wait_until_async(
            lambda: lease_manager.duty is LeaseState.IDLE, DEADLINE_S, "it has looked"
        )
        assert await lease_manager.other(DEADLINE_S) is None
        assert topic not in topics(where)
        await lease_manager.ready(DEADLINE_S)
        assert topic in topics(where)
        assert isinstance(await its.peek(), JournalState)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await lease_manager.release()


# --- the topic


async def fails_as_unusable(one: TopicJournal) -> None:
    """Append until the journal says that it is gone."""
    while True:
        try:
            await one.append({"operation/b": {}})
        except (JournalUnavailable, JournalFenced):
            await SystemClock().wait_s(0.05)
        except JournalUnusable:
            return


async def to_the_end(states: AsyncIterator[JournalState]) -> None:
    async for _ in states:
        pass


@pytest.mark.parametrize("anew", [False, True])
async def test_a_journal_that_was_deleted_is_not_begun_anew_in_silence(
    where: Where, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_log, "APPEND_TIMEOUT_S", 1.0)
    monkeypatch.setattr(journal_topic, "GONE_S", 0.5)
    topic = where.topic()
    async with journal(where, topic) as one, journal(where, topic, "two") as two:
        await one.open()
        await one.append({"operation/a": {}})
        async with aclosing(two.follow()) as states:
            while not bodies(await anext(states)):
                pass
            await asyncio.to_thread(delete, where, topic, anew=anew)
            async with asyncio.timeout(DEADLINE_S):
                await fails_as_unusable(one)
                with pytest.raises(JournalUnusable, match=r"entries: 1 \(operation/a\)"):
                    await to_the_end(states)
        # Who only followed may have missed the last of it.
        with pytest.raises(JournalUnusable, match="created again" if anew else "not exist"):
            await two.open()
        assert bodies(two.state) == bodies(one.state) == {"operation/a": {}}
        assert (topic in topics(where)) == anew
        # Who wrote knows all of it.
        async with asyncio.timeout(DEADLINE_S):
            assert bodies(await opened(one)) == {"operation/a": {}}
            assert "again from memory" in " ".join(one.remarks)
            assert bodies(await opened(two)) == {"operation/a": {}}
            await two.append({"operation/b": {}})
            await a_stand_by_sees(where, topic, two.state)


async def opened(one: TopicJournal) -> JournalState:
    while True:
        try:
            return await one.open()
        except JournalUnavailable:
            await SystemClock().wait_s(0.05)


async def test_a_journal_that_another_backend_began_meanwhile_is_not_written_over(
    embedded: Where,
) -> None:
    topic = embedded.topic()
    async with journal(embedded, topic) as one, journal(embedded, topic, "two") as two:
        await one.open()
        await one.append({"operation/a": {}})
        await asyncio.to_thread(delete, embedded, topic, anew=True)
        await two.open()
        await two.append({"operation/b": {}})
        async with asyncio.timeout(DEADLINE_S):
            await fails_as_unusable(one)
        with pytest.raises(JournalUnusable, match="began a new one"):
            await opened(one)
        assert bodies(one.state) == {"operation/a": {}}


async def test_a_backend_whose_journal_was_deleted_writes_it_anew_and_goes_on(
    embedded: Where,
) -> None:
    topic = embedded.topic()
    async with journal(embedded, topic) as its:
        me = BackendIdentity.here("one", "unix:/run/one.sock", 1)
        lease_manager = LeaseManager(its, me, SystemClock(), terms=QUICK)
        run = asyncio.create_task(lease_manager.run())
        await lease_manager.ready(DEADLINE_S)
        await lease_manager.append({"operation/a": {}})
        await asyncio.to_thread(delete, embedded, topic, anew=True)
        await wait_until_async(lambda: its.remarks, 60.0, "it is written anew")
        await wait_until_async(lambda: lease_manager.duty is LeaseState.ACT, 60.0, "it acts again")
        await lease_manager.append({"operation/b": {}})
        assert {"operation/a", "operation/b"} <= set(bodies(lease_manager.state))
        async with journal(embedded, topic, "reader") as reader:
            assert {"operation/a", "operation/b"} <= set(bodies(await reader.peek()))
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


async def test_a_journal_with_nothing_in_it_may_be_made_anew(embedded: Where) -> None:
    topic = embedded.topic()
    async with journal(embedded, topic) as one:
        await one.open()
        await one.append({BACKEND_KEY: {}})
        await asyncio.to_thread(delete, embedded, topic, anew=True)
        assert await one.open() == JournalState()
        await one.append({"operation/a": {}})
        assert bodies(await one.open()) == {"operation/a": {}}


# --- the cluster


async def test_a_backend_acts_again_when_the_whole_cluster_has_restarted(embedded: Where) -> None:
    cluster, topic = embedded.embedded, embedded.topic()
    assert cluster is not None

    def each(action: Callable[..., Awaitable[None]]) -> None:
        for broker in (1, 2, 3):
            cluster.call(partial(action, broker=broker))

    async with journal(embedded, topic) as its:
        me = BackendIdentity.here("one", "unix:/run/one.sock", 1)
        lease_manager = LeaseManager(its, me, SystemClock(), terms=QUICK)
        run = asyncio.create_task(lease_manager.run())
        await lease_manager.ready(DEADLINE_S)
        await lease_manager.append({"operation/a": {}})
        await asyncio.to_thread(each, EmbeddedCluster.stop_broker)
        await wait_until_async(
            lambda: lease_manager.duty is not LeaseState.ACT, DEADLINE_S, "it stops"
        )
        await asyncio.to_thread(each, EmbeddedCluster.start_broker)
        await wait_until_async(
            lambda: lease_manager.duty is LeaseState.ACT, DEADLINE_S, "it acts again"
        )
        await lease_manager.append({"operation/b": {}})
        assert {"operation/a", "operation/b"} <= set(bodies(lease_manager.state))
        assert lease_manager.trouble is None
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await lease_manager.release()


# --- what a principal may


OVERRIDES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{USER}" password="{PASSWORD}";',
}
TOPIC = "__journal_guarded"


def allow(kafka: RealKafka, on: Mapping[ResourceType, tuple[str, list[AclOperation]]]) -> None:
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL,
            f"User:{USER}", "*", operation, AclPermissionType.ALLOW,
        )
        for kind, (name, operations) in on.items()
        for operation in operations
    ]  # fmt: skip
    client = AdminClient({"log_level": 0, "bootstrap.servers": kafka.bootstrap_servers})
    for future in client.create_acls(bindings).values():
        future.result(timeout=DEADLINE_S)


def guarded_journal(kafka: RealKafka, name: str) -> TopicJournal:
    return TopicJournal(
        kafka.sasl_bootstrap,
        client_config(LOGIN),
        cluster_id=kafka.cluster_id,
        writer=name,
        clock=SystemClock(),
        keys=KEYS,
        topic=TOPIC,
    )


@pytest.mark.kafka
async def test_the_acls_that_are_named_are_those_that_are_needed() -> None:
    with RealKafka(1, OVERRIDES, sasl=True, ready_deadline_s=90.0) as kafka:
        one, two = (guarded_journal(kafka, name) for name in ("one", "two"))
        lease_manager = LeaseManager(
            one, BackendIdentity.here("one", "unix:/run/one.sock", 1), SystemClock()
        )
        run = asyncio.create_task(lease_manager.run())
        with pytest.raises(NotAuthorized, match="needs the ACLs") as refused:
            await lease_manager.ready(DEADLINE_S)
        await asyncio.to_thread(create_topic, kafka.bootstrap_servers, TOPIC, [[1]], GOOD)
        await asyncio.to_thread(allow, kafka, FOLLOWS)
        async with asyncio.timeout(DEADLINE_S):
            assert await follows_in_the_end(two) == JournalState()
        with pytest.raises(NotAuthorized):
            await lease_manager.ready(DEADLINE_S)
        await asyncio.to_thread(allow, kafka, ACTS)
        identity = transactional_id(kafka.cluster_id, TOPIC)
        await asyncio.to_thread(allow, kafka, {ResourceType.TRANSACTIONAL_ID: (identity, WRITES)})
        async with asyncio.timeout(DEADLINE_S):
            await acts_in_the_end(lease_manager)
            await lease_manager.append({"operation/a": {}})
            async with aclosing(two.follow()) as states:
                while not bodies(await anext(states)):
                    pass
        admin = AdminClient({"log_level": 0, "bootstrap.servers": kafka.bootstrap_servers})
        assert await asyncio.to_thread(writers_of, admin, TOPIC) == {f"User:{USER}"}
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await lease_manager.release()
        await one.close()
        await two.close()
    for word in ("Create", "Describe", "DescribeConfigs", "Read", "Write", "kshunt-journal-"):
        assert word in refused.value.advice


WRITES = [AclOperation.DESCRIBE, AclOperation.WRITE]
FOLLOWS = {ResourceType.TOPIC: (TOPIC, [AclOperation.DESCRIBE, AclOperation.READ])}
ACTS = {ResourceType.TOPIC: (TOPIC, [AclOperation.DESCRIBE_CONFIGS, AclOperation.WRITE])}
GOOD = {"cleanup.policy": "compact"}


async def follows_in_the_end(its: TopicJournal) -> JournalState:
    """Brokers take a moment to hear of new ACLs."""
    while True:
        try:
            async with aclosing(its.follow()) as states:
                return await anext(states)
        except NotAuthorized:
            await SystemClock().wait_s(0.05)


async def acts_in_the_end(lease_manager: LeaseManager) -> None:
    """As `follows_in_the_end`."""
    while True:
        try:
            return await lease_manager.ready(DEADLINE_S)
        except NotAuthorized:
            await SystemClock().wait_s(0.05)
