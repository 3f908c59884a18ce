"""The write block on real brokers with Kafka's own authorizer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kshunt.backend.admin.connect import Reached
from kshunt.backend.errors import Conflict, NotAuthorized
from tests.support.admin import DEADLINE_S, TIMEOUT_S, connected, topic_with
from tests.support.brokers.launcher import PASSWORD, USER, RealKafka
from tests.support.topics import BROKER_DEADLINE_S
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The principal of a client on the plain listener.
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def guarded() -> Iterator[RealKafka]:
    """A broker with an authorizer."""
    with RealKafka(1, AUTHORIZER, sasl=True) as cluster:
        yield cluster


@pytest.fixture
async def admin(guarded: RealKafka) -> AsyncIterator[Reached]:
    async with connected(guarded.bootstrap_servers) as found:
        yield found


def user(cluster: RealKafka) -> dict[str, Any]:
    """Settings of a client that is no super user."""
    return {
        "bootstrap.servers": cluster.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "log_level": 0,
    }


def super_user(cluster: RealKafka) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}


def written(settings: dict[str, Any], topic: str, **more: Any) -> int:
    """Write a record; the error's code, or 0."""
    codes: list[int] = []
    producer = Producer({**settings, **more})
    producer.produce(
        topic, b"v", b"k", on_delivery=lambda error, _: codes.append(error.code() if error else 0)
    )
    assert producer.flush(BROKER_DEADLINE_S) == 0
    return codes[0]


def readable(settings: dict[str, Any], topic: str) -> int:
    """Read a record; the error's code, or 0."""
    consumer = Consumer(
        {**settings, "group.id": f"readers-of-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        (message,) = consumer.consume(1, BROKER_DEADLINE_S)
    finally:
        consumer.close()
    error = message.error()
    return error.code() if error else 0


def allowed(cluster: RealKafka, topic: str) -> None:
    """An operator's own entries: the user may do everything."""
    entry = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    add_entry(cluster, entry)


def add_entry(cluster: RealKafka, entry: AclBinding) -> None:
    # The client has to live until it has its answer.
    client = AdminClient(super_user(cluster))
    (done,) = client.create_acls([entry]).values()
    done.result(BROKER_DEADLINE_S)


async def shown(admin: Reached, topic: str, *, present: bool, alone: bool = False) -> None:
    async def is_so() -> bool:
        found = await admin.write_blocks.describe(topic, timeout_s=TIMEOUT_S)
        return (found.present, found.alone) == (present, alone)

    await wait_until_async(is_so, DEADLINE_S, f"the block is {present}, alone {alone}")


async def test_nobody_but_super_users_writes_to_a_blocked_topic(
    admin: Reached, guarded: RealKafka
) -> None:
    topic = await topic_with(admin, "blocked", [[1], [1]])
    await asyncio.to_thread(allowed, guarded, topic)
    await shown(admin, topic, present=False)
    assert await asyncio.to_thread(written, user(guarded), topic) == 0
    for _ in range(2):
        assert (await admin.write_blocks.create(topic, timeout_s=TIMEOUT_S)).ok
    await shown(admin, topic, present=True)
    assert (await admin.write_blocks.describe(topic, timeout_s=TIMEOUT_S)).may_write
    for more in ({}, {"acks": "1"}, {"acks": "all"}, {"enable.idempotence": True}):
        assert await asyncio.to_thread(written, user(guarded), topic, **more) == REFUSED
    assert await asyncio.to_thread(written, super_user(guarded), topic) == 0
    assert await asyncio.to_thread(readable, user(guarded), topic) == 0
    for _ in range(2):
        assert (await admin.write_blocks.delete(topic, timeout_s=TIMEOUT_S)).ok
    await shown(admin, topic, present=False)
    assert await asyncio.to_thread(written, user(guarded), topic) == 0


async def test_a_block_that_would_shut_out_readers_is_refused(
    admin: Reached, guarded: RealKafka
) -> None:
    topic = await topic_with(admin, "open", [[1]])
    assert (await admin.write_blocks.describe(topic, timeout_s=TIMEOUT_S)).alone
    with pytest.raises(Conflict) as refused:
        await admin.write_blocks.create(topic, timeout_s=TIMEOUT_S)
    assert "allow.everyone.if.no.acl.found" in refused.value.message
    assert await asyncio.to_thread(written, user(guarded), topic) == 0


async def test_a_block_outlives_the_topic(admin: Reached, guarded: RealKafka) -> None:
    topic = await topic_with(admin, "outlived", [[1]])
    await asyncio.to_thread(allowed, guarded, topic)
    await shown(admin, topic, present=False)
    assert (await admin.write_blocks.create(topic, timeout_s=TIMEOUT_S)).ok
    assert (await admin.topics.delete(topic, timeout_s=TIMEOUT_S)).ok

    async def created() -> bool:
        found = await admin.topics.create(
            topic, {0: (1,)}, {}, validate_only=False, timeout_s=TIMEOUT_S
        )
        return found.ok

    await wait_until_async(created, DEADLINE_S, f"{topic} is there again")
    assert await asyncio.to_thread(written, user(guarded), topic) == REFUSED
    assert (await admin.write_blocks.delete(topic, timeout_s=TIMEOUT_S)).ok


async def test_who_may_not_read_acls_is_told_so(
    guarded: RealKafka, admin: Reached, tmp_path: Any
) -> None:
    topic = await topic_with(admin, "unseen", [[1]])
    cluster_entry = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        "User:somebody",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    await asyncio.to_thread(add_entry, guarded, cluster_entry)
    properties = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{USER}" password="{PASSWORD}";\n'
    )
    async with connected(guarded.sasl_bootstrap, properties) as stranger:

        async def refused() -> bool:
            try:
                await stranger.write_blocks.describe(topic, timeout_s=TIMEOUT_S)
            except NotAuthorized:
                return True
            return False

        await wait_until_async(refused, DEADLINE_S, "the user may not see ACLs")
        with pytest.raises(NotAuthorized):
            await stranger.write_blocks.create(topic, timeout_s=TIMEOUT_S)
        result = await stranger.write_blocks.delete(topic, timeout_s=TIMEOUT_S)
        assert result.error_name == "CLUSTER_AUTHORIZATION_FAILED"
