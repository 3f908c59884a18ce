"""A backend that is killed before any commit to ZooKeeper leaves nothing undone; and KIP-179's rule
of recovery for what no journal explains.

The journal's znodes hold the audit too: after each kill its lines are compared with the cluster.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from kazoo.client import KazooClient

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import ClusterError, NotActive
from kshunt.backend.journal_storage.zookeeper.znode_journal import RECORDS as JOURNAL
from kshunt.backend.operations.moves.schedule import Caps
from kshunt.backend.operations.reassignment.starting import ReassignRequest
from tests.support.admin import fresh_name
from tests.support.audit_checker import AuditedCluster, RequestedMove, lines_of, problems
from tests.support.brokers.zookeeper import ZooKeeperKafka
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until_async
from tests.support.zookeeper.kill_backend import DEADLINE_S, backend_of, forked
from tests.support.zookeeper.znodes import (
    ON_ZOOKEEPER,
    client_of,
    jsoned,
    named_for_removal,
    unjsoned,
)

pytestmark = ON_ZOOKEEPER

RATE = 2_000_000
SLOW = 20_000
RECORDS, RECORD_BYTES = 40, 50_000
BEFORE, AFTER = {"0": [1, 2]}, {"0": [3, 2]}
PRIOR = {"leader.replication.throttled.rate": "70000000"}
"""On broker 1, by an operator."""
PRIOR_LISTS = {"leader.replication.throttled.replicas": "7:2"}
SAME_AS_BEFORE = "/config/brokers/2"
"""The backend writes rates to several brokers in one go; the first and the last are enough."""
REASSIGN = "/admin/reassign_partitions"
SEED = ("/admin/throttled_replicas_removal", "/admin/throttled_rates_removal")


@pytest.fixture
def client(zookeeper: ZooKeeperKafka) -> Iterator[KazooClient]:
    with client_of(zookeeper.connect) as found:
        found.ensure_path("/config/brokers/1")
        configure(found, "brokers/1", PRIOR)
        yield found
        configure(found, "brokers/1", {})


def configure(client: KazooClient, entity: str, config: Mapping[str, str]) -> None:
    """Set a configuration as Kafka's own tool does."""
    client.ensure_path(f"/config/{entity}")
    client.set(f"/config/{entity}", jsoned({"version": 1, "config": dict(config)}))
    change = jsoned({"version": 2, "entity_path": entity})
    client.create("/config/changes/config_change_", change, sequence=True)


def configs(client: KazooClient, topic: str) -> dict[str, Any]:
    """What is configured; a broker of which nothing is, is as one that never was."""
    entities = (f"topics/{topic}", "brokers/1", "brokers/2", "brokers/3")
    found = {e: (unjsoned(client, f"/config/{e}") or {"config": {}})["config"] for e in entities}
    return {entity: config for entity, config in found.items() if config}


def replicas(client: KazooClient, topic: str) -> Any:
    return unjsoned(client, f"/brokers/topics/{topic}")["partitions"]


def audited(client: KazooClient) -> dict[bytes, bytes]:
    """The records of the journal that are lines of the audit, by key."""
    names = client.get_children(JOURNAL) if client.exists(JOURNAL) else []
    keys = {name: unquote_to_bytes(name) for name in names}
    ours = {name: key for name, key in keys.items() if key.startswith(b"audit/")}
    return {key: client.get(f"{JOURNAL}/{name}")[0] for name, key in ours.items()}


def untold(client: KazooClient, topic: str, before: Collection[bytes], *, begun: bool) -> list[str]:
    """What the audit says of the only move since `before`, and is not so."""
    records = [item for item in audited(client).items() if item[0] not in before]
    lines = lines_of(records)
    begins = [(line["event"], line["kind"]) == ("requested", "reassign") for line in lines]
    asked = {line["operation_id"] for line, begin in zip(lines, begins, strict=True) if begin}
    if len(asked) != begun:
        return [f"moves in the audit: {sorted(asked)}"]
    settings = {
        (entity.split("/")[0].removesuffix("s"), entity.split("/")[1], key): value
        for entity, config in configs(client, topic).items()
        for key, value in config.items()
    }
    (number, original), (_, target) = *BEFORE.items(), *AFTER.items()
    there = replicas(client, topic)
    cluster = AuditedCluster(settings, {(topic, int(p)): tuple(at) for p, at in there.items()})
    move = {(topic, int(number)): RequestedMove(tuple(original), tuple(target))}
    return problems(lines, cluster, dict.fromkeys(asked, move))


def new_topic(zookeeper: ZooKeeperKafka) -> str:
    topic = fresh_name("zk-killed")
    create_topic(zookeeper.bootstrap_servers, topic, [[1, 2]], PRIOR_LISTS)
    produce(zookeeper.bootstrap_servers, topic, RECORDS, RECORD_BYTES, 0)
    return topic


def moving(
    zookeeper: ZooKeeperKafka, topic: str, passed: Path, at: int = 0
) -> tuple[int, list[str]]:
    """Have a process move the topic's partition; its exit code, and the commits it came to."""
    entry = {"topic": topic, "partition": 0, "replicas": AFTER["0"]}
    plan = json.dumps({"version": 1, "partitions": [entry]})
    arguments = ["--plan", plan, "--rate", str(RATE), "--zookeeper", zookeeper.connect]
    process = forked([*arguments, "--passed", str(passed), "--at", str(at)])
    process.join(DEADLINE_S)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("it did not end")
    return process.exitcode, passed.read_text().splitlines()


async def test_wherever_a_backend_is_killed_its_heir_ends_what_it_began(
    zookeeper: ZooKeeperKafka, client: KazooClient, tmp_path: Path
) -> None:
    topic = new_topic(zookeeper)
    before, told = configs(client, topic), set(audited(client))
    code, steps = await asyncio.to_thread(moving, zookeeper, topic, tmp_path / "whole")
    assert code == 0
    assert configs(client, topic) == before
    assert untold(client, topic, told, begun=True) == []
    assert replicas(client, topic) == AFTER
    shown = "\n".join(steps)
    in_order = [SEED[0], f"/config/topics/{topic}", "/config/brokers/", REASSIGN]
    places = [shown.index(name) for name in in_order]
    assert places == sorted(places), shown
    intent = 1 + next(at for at, step in enumerate(steps) if SEED[0] in step)
    problems: dict[str, list[str]] = {}
    for at in range(1, len(steps) + 1):
        if SAME_AS_BEFORE in steps[at - 1]:
            continue
        problems[steps[at - 1]] = await killed(zookeeper, client, tmp_path, at, begun=at > intent)
    assert {step: found for step, found in problems.items() if found} == {}
    assert len(problems) > 10


async def killed(
    zookeeper: ZooKeeperKafka, client: KazooClient, folder: Path, at: int, *, begun: bool
) -> list[str]:
    """What is wrong after a backend was killed before this commit, and another one has gone on."""
    topic = new_topic(zookeeper)
    before, told = configs(client, topic), set(audited(client))
    code, _ = await asyncio.to_thread(moving, zookeeper, topic, folder / f"at-{at}", at)
    if code != -signal.SIGKILL:
        return [f"it was not killed: {code}"]
    wanted = AFTER if begun else BEFORE
    problems: list[str] = []

    def over() -> bool:
        problems[:] = [
            *(
                [f"{configs(client, topic)}, was {before}"]
                if configs(client, topic) != before
                else []
            ),
            *(f"{path} is there" for path in (REASSIGN, *SEED) if client.exists(path)),
            *([f"replicas {replicas(client, topic)}"] if replicas(client, topic) != wanted else []),
            *untold(client, topic, told, begun=begun),
        ]
        return not problems

    async with backend_of(zookeeper.connect):
        try:
            await wait_until_async(over, 2 * DEADLINE_S, "it is as it must be")
        except AssertionError:
            return problems
    return []


@pytest.mark.conforms("kip-179:failover-of-a-backend")
async def test_what_only_the_seeds_znodes_name_goes_when_nothing_moves(
    zookeeper: ZooKeeperKafka, client: KazooClient
) -> None:
    """As another program leaves it that follows KIP-179, or one whose /kshunt was deleted."""
    topic = new_topic(zookeeper)
    keys = {"leader.replication.throttled.replicas": "0:1", "retention.ms": "7200000"}
    configure(client, f"topics/{topic}", keys)
    rates = dict.fromkeys(
        ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), "20000"
    )
    configure(client, "brokers/2", rates)
    client.create(SEED[0], jsoned({"version": 1, "topics": [topic, "was-deleted"]}))
    client.create(SEED[1], jsoned({"version": 1, "brokers": [2]}))
    entry = {"topic": topic, "partition": 0, "replicas": AFTER["0"]}
    client.create(REASSIGN, jsoned({"version": 1, "partitions": [entry]}))
    async with backend_of(zookeeper.connect) as backend:
        await backend.snapshot()
        # While it runs the throttle stays: it takes a minute and more at this rate.
        assert named_for_removal(client) == ([topic, "was-deleted"], [2])
        configure(client, "brokers/2", dict.fromkeys(rates, "1000000000"))
        await wait_until_async(
            lambda: named_for_removal(client) == ([], []), DEADLINE_S, "the records have gone"
        )
        assert client.exists(REASSIGN) is None
        assert unjsoned(client, f"/config/topics/{topic}")["config"] == {"retention.ms": "7200000"}
        assert unjsoned(client, "/config/brokers/2")["config"] == {}
        assert client.exists("/config/topics/was-deleted") is None
        assert configs(client, topic)["brokers/1"] == PRIOR


async def test_a_queue_waits_until_the_znode_has_gone(
    zookeeper: ZooKeeperKafka, client: KazooClient
) -> None:
    """A controller takes nothing more while it is there; brokers would take it at any time."""
    topic = fresh_name("zk-queue")
    create_topic(zookeeper.bootstrap_servers, topic, [[1], [1], [1]])
    targets = {TopicPartition(topic, number): (2,) for number in range(3)}
    request = ReassignRequest(ReassignmentPlan(targets), caps=Caps(per_broker=1))
    async with backend_of(zookeeper.connect) as backend:
        await backend.ready()
        answer = await backend.reassignments.start(request)

        def over() -> bool:
            operation = backend.registry.get(answer.operation_id or "")
            return operation is not None and operation.state.ended

        await wait_until_async(over, DEADLINE_S, "one after the other has moved")
        assert backend.registry.known.operations[answer.operation_id or ""].state == "done"
    assert replicas(client, topic) == {"0": [2], "1": [2], "2": [2]}


async def test_a_session_that_is_lost_in_the_middle_of_a_move_loses_nothing(
    zookeeper: ZooKeeperKafka, client: KazooClient
) -> None:
    topic = new_topic(zookeeper)
    before, told = configs(client, topic), set(audited(client))
    plan = ReassignmentPlan({TopicPartition(topic, 0): tuple(AFTER["0"])})
    async with backend_of(zookeeper.connect) as backend:
        await backend.ready()
        answer = await backend.reassignments.start(ReassignRequest(plan, SLOW))
        assert named_for_removal(client) == ([topic], [1, 2, 3])
        # The server comes back with what it has acknowledged, and brokers reconnect as we do.
        await asyncio.to_thread(zookeeper.server.kill)
        await asyncio.to_thread(zookeeper.server.start)
        fast = dict.fromkeys((1, 2, 3), ThrottledRate(10**9, 10**9))

        async def hurried() -> bool:
            try:
                changed = await backend.throttles.alter_rates(fast, Change())
            except (NotActive, ClusterError):
                return False
            return not changed.failures

        await wait_until_async(hurried, DEADLINE_S, "the backend acts again")

        def over() -> bool:
            operation = backend.registry.get(answer.operation_id or "")
            return operation is not None and operation.state.ended

        await wait_until_async(over, DEADLINE_S, "the operation ends")
        assert backend.registry.known.operations[answer.operation_id or ""].state == "done"
    assert replicas(client, topic) == AFTER
    assert configs(client, topic) == before
    assert named_for_removal(client) == ([], [])
    assert untold(client, topic, told, begun=True) == []


async def test_half_a_removal_record_is_shown_and_left(
    zookeeper: ZooKeeperKafka, client: KazooClient
) -> None:
    half = b'{"version":1,"bro'
    client.create(SEED[1], half)
    try:
        async with backend_of(zookeeper.connect) as backend:
            await backend.ready()
            assert any(SEED[1] in remark for remark in backend.membership.remarks)
            assert client.get(SEED[1])[0] == half
    finally:
        client.delete(SEED[1])
