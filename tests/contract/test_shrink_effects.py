"""What a durable operation does to topics and groups, on embedded clusters and on Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.port.topics import KnownTopic
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.embedded.handler_table import handler_table
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.errors import ClusterUnreachable, NotActive, NotSupported
from kshunt.backend.settings import Settings
from tests.support.admin import DEADLINE_S, TIMEOUT_S, connected, fresh_name, states_of, topic_with
from tests.support.clusters import KAFKA
from tests.support.embedded.background import running
from tests.support.native import administered, hang_up, refusing, stay_silent
from tests.support.shrink.check import commit, member, on_thread, write
from tests.support.topics import create_topic
from tests.support.waiting import wait_until_async

ASSIGNMENT = {0: (1, 2), 1: (2, 3), 2: (3, 1)}
OVERRIDES = {"retention.ms": "-1", "max.message.bytes": "2000000"}
CREATE_TOPICS, DELETE_TOPICS, ALTER_CONFIGS = 19, 20, 44
OFFSET_COMMIT, FIND_COORDINATOR, DELETE_GROUPS = 8, 10, 42
CHANGING = (CREATE_TOPICS, DELETE_TOPICS, ALTER_CONFIGS, OFFSET_COMMIT, DELETE_GROUPS)
NO_ID = "0" * 31 + "1"


async def create(admin: Reached, name: str) -> None:
    result = await admin.topics.create(
        name, ASSIGNMENT, OVERRIDES, validate_only=False, timeout_s=TIMEOUT_S
    )
    assert result.ok, result
    await known(admin, name, len(ASSIGNMENT))


async def known(admin: Reached, name: str, partitions: int) -> str:
    """Wait until every broker knows this number of partitions; the topic's id."""
    found: list[KnownTopic | None] = []

    async def everywhere() -> bool:
        found[:] = (await admin.topics.known(name, timeout_s=TIMEOUT_S)).values()
        return all(one is not None and one.partitions == partitions for one in found)

    await wait_until_async(everywhere, DEADLINE_S, f"{name} has {partitions} partitions")
    (the_id,) = {one.id for one in found if one is not None}
    return the_id


# Topics


async def test_a_topic_is_created_as_it_is_said_and_only_once(admin: Reached) -> None:
    name = fresh_name("created")
    tried = await admin.topics.create(
        name, ASSIGNMENT, OVERRIDES, validate_only=True, timeout_s=TIMEOUT_S
    )
    assert tried.ok
    assert set((await admin.topics.known(name, timeout_s=TIMEOUT_S)).values()) == {
        KnownTopic("", 0)
    }
    assert await admin.configs.overrides(name, timeout_s=TIMEOUT_S) is None
    await create(admin, name)
    states = await states_of(admin, name)
    assert {number: state.replicas for number, state in states.items()} == ASSIGNMENT
    assert await admin.configs.overrides(name, timeout_s=TIMEOUT_S) == OVERRIDES
    again = await admin.topics.create(
        name, ASSIGNMENT, {}, validate_only=False, timeout_s=TIMEOUT_S
    )
    assert again.error_name == "TOPIC_ALREADY_EXISTS"


async def test_a_topic_that_cannot_be_is_refused_with_the_clusters_words(
    admin: Reached,
) -> None:
    name = fresh_name("refused")
    for configs, assignment, code in (
        ({"retention.ms": "often"}, ASSIGNMENT, "INVALID_CONFIG"),
        ({}, {0: (1, 1)}, "INVALID_REPLICA_ASSIGNMENT"),
        ({}, {0: (1, 99)}, "INVALID_REPLICA_ASSIGNMENT"),
    ):
        result = await admin.topics.create(
            name, assignment, configs, validate_only=False, timeout_s=TIMEOUT_S
        )
        assert (result.error_name, result.retriable) == (code, False)
        assert result.message
    assert set((await admin.topics.known(name, timeout_s=TIMEOUT_S)).values()) == {
        KnownTopic("", 0)
    }


async def test_a_topic_is_deleted_by_its_id_and_never_one_that_took_its_name(
    admin: Reached,
) -> None:
    name = fresh_name("deleted")
    await create(admin, name)
    first = await known(admin, name, 3)
    other = await admin.topics.delete(name, topic_id=NO_ID, timeout_s=TIMEOUT_S)
    assert other.error_name == "UNKNOWN_TOPIC_ID"
    assert (await admin.topics.delete(name, topic_id=first, timeout_s=TIMEOUT_S)).ok
    await known(admin, name, 0)
    await create(admin, name)
    assert await known(admin, name, 3) != first
    late = await admin.topics.delete(name, topic_id=first, timeout_s=TIMEOUT_S)
    assert late.error_name == "UNKNOWN_TOPIC_ID"
    await known(admin, name, 3)
    assert (await admin.topics.delete(name, timeout_s=TIMEOUT_S)).ok
    await known(admin, name, 0)
    gone = await admin.topics.delete(name, timeout_s=TIMEOUT_S)
    assert gone.error_name == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_overrides_are_set_and_taken_off_and_each_broker_says_so(admin: Reached) -> None:
    name = fresh_name("configured")
    await create(admin, name)
    changes = {"retention.ms": None, "retention.bytes": "1000", "max.message.bytes": "0"}
    assert (await admin.configs.alter(name, changes, timeout_s=TIMEOUT_S)).ok
    wanted = ["retention.ms", "retention.bytes", "max.message.bytes"]

    async def in_force() -> bool:
        found = await admin.configs.in_force(name, wanted, [1, 2, 3], timeout_s=TIMEOUT_S)
        limits = {values["max.message.bytes"] for values in found.values()}
        return limits == {"0"} and set(found) == {1, 2, 3}

    await wait_until_async(in_force, DEADLINE_S, "every broker says so")
    found = await admin.configs.in_force(name, wanted, [1], timeout_s=TIMEOUT_S)
    assert set(found[1]) == set(wanted)
    assert found[1]["retention.bytes"] == "1000"
    overrides = await admin.configs.overrides(name, timeout_s=TIMEOUT_S)
    assert overrides == {"retention.bytes": "1000", "max.message.bytes": "0"}
    bad = await admin.configs.alter(name, {"retention.ms": "often"}, timeout_s=TIMEOUT_S)
    assert (bad.error_name, bad.retriable) == ("INVALID_CONFIG", False)
    none = await admin.configs.alter("nosuch", changes, timeout_s=TIMEOUT_S)
    assert none.error_name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert await admin.configs.in_force("nosuch", wanted, [1], timeout_s=TIMEOUT_S) == {}


# Groups


async def test_offsets_are_committed_for_groups_without_members_only(admin: Reached) -> None:
    topic = await topic_with(admin, "committed", [[1], [2], [3]])
    servers, group = admin.cluster.bootstrap_servers, f"{topic}-g"
    await asyncio.to_thread(commit, servers, group, topic, {0: 1, 1: 1})
    result = await admin.groups.alter_offsets(group, topic, {1: 5, 2: 7}, timeout_s=TIMEOUT_S)
    assert result.ok
    (read,) = (await admin.groups.of_topic(topic, timeout_s=TIMEOUT_S)).groups
    assert read.committed == {0: 1, 1: 5, 2: 7}
    async with on_thread(member(servers, group, topic)):
        refused = await admin.groups.alter_offsets(group, topic, {1: 6}, timeout_s=TIMEOUT_S)
        assert refused.error_name == "UNKNOWN_MEMBER_ID"
        kept = await admin.groups.delete([group], timeout_s=TIMEOUT_S)
        assert kept[group].error_name == "NON_EMPTY_GROUP"
    (read,) = (await admin.groups.of_topic(topic, timeout_s=TIMEOUT_S)).groups
    assert read.committed == {0: 1, 1: 5, 2: 7}


async def test_groups_are_deleted_each_for_itself(admin: Reached) -> None:
    topic = await topic_with(admin, "groups-deleted", [[1]])
    one, two = f"{topic}-one", f"{topic}-two"
    for group in (one, two):
        await asyncio.to_thread(commit, admin.cluster.bootstrap_servers, group, topic, {0: 0})
    found = await admin.groups.delete([one, "nosuch", two], timeout_s=TIMEOUT_S)
    assert list(found) == [one, "nosuch", two]
    assert (found[one].ok, found[two].ok) == (True, True)
    assert found["nosuch"].error_name == "GROUP_ID_NOT_FOUND"
    assert (await admin.groups.of_topic(topic, timeout_s=TIMEOUT_S)).groups == ()


@pytest.mark.kafka
@pytest.mark.parametrize("cluster", [KAFKA], indirect=True)
async def test_offsets_of_a_group_of_the_newer_protocol_are_committed(admin: Reached) -> None:
    topic = await topic_with(admin, "kip848-committed", [[1], [2]])
    servers, group = admin.cluster.bootstrap_servers, f"{topic}-g"
    newer = {"group.protocol": "consumer"}
    async with on_thread(member(servers, group, topic, newer)):
        refused = await admin.groups.alter_offsets(group, topic, {0: 3}, timeout_s=TIMEOUT_S)
        assert not refused.ok
    result = await admin.groups.alter_offsets(group, topic, {0: 3, 1: 4}, timeout_s=TIMEOUT_S)
    assert result.ok
    (read,) = (await admin.groups.of_topic(topic, timeout_s=TIMEOUT_S)).groups
    assert (read.committed, read.kind) == ({0: 3, 1: 4}, "consumer")


@pytest.mark.kafka
@pytest.mark.parametrize("cluster", [KAFKA], indirect=True)
async def test_offsets_of_a_topic_go_with_it_and_are_committed_for_the_new_one(
    admin: Reached,
) -> None:
    """Brokers forget offsets of deleted topics: those that come after must not be among them."""
    name, group = fresh_name("again"), fresh_name("again-g")
    for turn in range(3):
        await create(admin, name)
        await asyncio.to_thread(
            write, admin.cluster.bootstrap_servers, name, dict.fromkeys(range(3), 9)
        )
        positions = {0: turn, 1: 9, 2: turn}
        result = await admin.groups.alter_offsets(group, name, positions, timeout_s=TIMEOUT_S)
        assert result.ok
        (read,) = (await admin.groups.of_topic(name, timeout_s=TIMEOUT_S)).groups
        assert read.committed == positions
        assert (await admin.topics.delete(name, timeout_s=TIMEOUT_S)).ok
        await known(admin, name, 0)


# Blocks, where there is no authorizer


async def test_without_an_authorizer_nobody_can_be_kept_from_writing(admin: Reached) -> None:
    topic = await topic_with(admin, "unblocked", [[1]])
    for call in (admin.write_blocks.describe, admin.write_blocks.create, admin.write_blocks.delete):
        with pytest.raises(NotSupported) as refused:
            await call(topic, timeout_s=TIMEOUT_S)
        assert refused.value.message
    await asyncio.to_thread(write, admin.cluster.bootstrap_servers, topic, {0: 1})


# Lost answers and faults


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> dict[int, Handler]:
    """Handlers that take the place of those of embedded brokers which begin after this."""
    found: dict[int, Handler] = {}

    def table(*parts: Any) -> dict[int, Handler]:
        def chosen(key: int, own: Handler) -> Handler:
            async def answer(context: RequestContext, message: Any) -> Any:
                return await found.get(key, own)(context, message)

            return answer

        return {key: chosen(key, own) for key, own in handler_table(*parts).items()}

    monkeypatch.setattr("kshunt.backend.embedded.cluster.handler_table", table)
    return found


@asynccontextmanager
async def embedded() -> AsyncIterator[Reached]:
    """An admin of a cluster with a topic `t`."""
    with running(ClusterSpec(plain_brokers(2))) as handle:
        await asyncio.to_thread(create_topic, handle.bootstrap_servers, "t", [[1], [2]])
        async with connected(handle.bootstrap_servers) as admin:
            yield admin


@pytest.mark.parametrize("lost", [hang_up, stay_silent])
async def test_a_lost_answer_is_told_from_a_refusal(
    lost: Handler, instead: dict[int, Handler]
) -> None:
    async with embedded() as admin:
        instead |= dict.fromkeys(CHANGING, lost)
        results = [
            await admin.topics.create("new", {0: (1,)}, {}, validate_only=False, timeout_s=0.5),
            await admin.topics.delete("t", timeout_s=0.5),
            await admin.configs.alter("t", {"retention.ms": "1"}, timeout_s=0.5),
            await admin.groups.alter_offsets("g", "t", {0: 1}, timeout_s=0.5),
            (await admin.groups.delete(["g"], timeout_s=0.5))["g"],
        ]
    for result in results:
        assert (result.error_name, result.retriable) == ("REQUEST_TIMED_OUT", True)
        assert "is unknown" in result.message


async def test_what_was_carried_out_without_an_answer_is_seen() -> None:
    async with administered() as (cluster, admin):
        own = cluster.own[CREATE_TOPICS]

        async def done_and_lost(context: RequestContext, message: Any) -> Any:
            await own(context, message)
            return await hang_up(context, message)

        cluster.instead[CREATE_TOPICS] = done_and_lost
        result = await admin.topics.create(
            "new", {0: (1,)}, {}, validate_only=False, timeout_s=TIMEOUT_S
        )
        assert result.error_name == "REQUEST_TIMED_OUT"
        await known(admin, "new", 1)


async def test_a_coordinator_that_moves_and_a_refusal_are_said(
    instead: dict[int, Handler],
) -> None:
    async with embedded() as admin:
        instead[FIND_COORDINATOR] = refusing(15)
        result = await admin.groups.alter_offsets("g", "t", {0: 1}, timeout_s=TIMEOUT_S)
        assert (result.error_name, result.retriable) == ("COORDINATOR_NOT_AVAILABLE", True)
        deleted = await admin.groups.delete(["g"], timeout_s=TIMEOUT_S)
        assert deleted["g"].error_name == "COORDINATOR_NOT_AVAILABLE"
        del instead[FIND_COORDINATOR]
        instead[OFFSET_COMMIT] = refusing(30)
        result = await admin.groups.alter_offsets("g", "t", {0: 1}, timeout_s=TIMEOUT_S)
        assert (result.error_name, result.retriable) == ("GROUP_AUTHORIZATION_FAILED", False)


async def test_where_nobody_answers_nothing_is_sent_and_it_is_raised() -> None:
    admin = KafkaAdmin(Settings("127.0.0.1:1"))
    try:
        with pytest.raises(ClusterUnreachable):
            await admin.topics.delete("t", timeout_s=1.0)
        with pytest.raises(ClusterUnreachable):
            await admin.groups.alter_offsets("g", "t", {0: 1}, timeout_s=1.0)
    finally:
        await admin.close()


async def test_a_backend_that_does_not_act_changes_nothing() -> None:
    async with embedded() as admin:
        await asyncio.to_thread(commit, admin.cluster.bootstrap_servers, "g", "t", {0: 0})

        def refuse() -> None:
            raise NotActive("Another backend is active.")

        admin.guard = refuse
        with pytest.raises(NotActive):
            await admin.topics.create(
                "new", {0: (1,)}, {}, validate_only=False, timeout_s=TIMEOUT_S
            )
        with pytest.raises(NotActive):
            await admin.topics.delete("t", timeout_s=TIMEOUT_S)
        with pytest.raises(NotActive):
            await admin.configs.alter("t", {"retention.ms": "1"}, timeout_s=TIMEOUT_S)
        with pytest.raises(NotActive):
            await admin.groups.alter_offsets("g", "t", {0: 1}, timeout_s=TIMEOUT_S)
        with pytest.raises(NotActive):
            await admin.groups.delete(["g"], timeout_s=TIMEOUT_S)
        admin.guard = lambda: None
        assert await admin.configs.overrides("t", timeout_s=TIMEOUT_S) == {}
        (group,) = (await admin.groups.of_topic("t", timeout_s=TIMEOUT_S)).groups
        assert group.committed == {0: 0}
        await known(admin, "new", 0)
