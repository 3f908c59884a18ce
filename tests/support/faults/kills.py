"""What the kill and fencing tests share: a cluster with throttles of its own, and one operation.

The cluster has what an operator may have set before: a broker with rates of its own, a default rate
for all brokers, a topic with replicas in its lists. What is checked is read with other clients than
kshunt's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import httpx
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.rpc.configs import BROKER
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.operations.journal.entries import EntryKind, JournalState
from kshunt.backend.operations.journal.replay import JournalReplay
from kshunt.backend.wire.raw_request import RawRequest
from tests.support.access.keys import keys_of
from tests.support.admin import connected, unthrottle
from tests.support.audit_checker import AuditedCluster, RequestedMove, lines_of, problems
from tests.support.clusters import BROKERS
from tests.support.embedded.background import running
from tests.support.faults.kill_backend import forked
from tests.support.topics import create_topic, produce, records_of
from tests.support.waiting import wait_until_async

DEADLINE_S: Final = 90.0
ASK_S: Final = 0.3
SHOWN_S: Final = 60.0
SLOW, FAST = 2_000, 1_000_000_000
"""Bytes a second: a move that takes minutes, and one that takes no time."""
RECORD_BYTES: Final = 100_000
BEFORE: Final = {0: (1, 2), 1: (2, 1), 2: (1, 3), 3: (2, 3)}
"""The topic's replicas by partition; the last one does not move."""
TARGET: Final = {0: (3, 2), 1: (2, 3), 2: (1, 2)}
RETURNED: Final = {0: (2, 1), 1: (2, 1), 2: (1, 3)}
"""After a cancellation. Kafka takes the new replicas out of the list that the move has made, in
which those that were to stay come first."""
PRIOR: Final = (
    (BROKER, "1", LEADER_RATE, "70000000"),
    (BROKER, "1", FOLLOWER_RATE, "80000000"),
    (BROKER, "", LEADER_RATE, "90000000"),
)
"""Kind, name, key and value; the broker without a name is the default of all of them."""
PRIOR_LISTS: Final = {LEADER_REPLICAS: "0:1,3:2", FOLLOWER_REPLICAS: "3:3"}
"""One of them is a replica that the move throttles too."""
SET, DELETE = 0, 1
"""Operations of IncrementalAlterConfigs (KIP-339)."""

Json = dict[str, Any]
Records = list[tuple[bytes, bytes | None]]
"""Key and value of each record of a journal, in the log's order."""
Configs = Mapping[tuple[str, str], tuple[str | None, int]]
"""Value and source, by resource and key."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster, as another client sees it."""

    configs: Configs
    replicas: Mapping[int, tuple[int, ...]]
    """Of the topic, by partition."""

    def differences(self, before: Configs) -> list[str]:
        """Each setting that is not what it was before."""
        keys = sorted(self.configs.keys() | before.keys())
        return [
            f"{name} {key} is {self.configs.get((name, key))}, was {before.get((name, key))}"
            for name, key in keys
            if self.configs.get((name, key)) != before.get((name, key))
        ]

    def as_cluster(self, topic: str) -> AuditedCluster:
        """For the checker of the audit: what is set on brokers and on the topic itself."""
        settings = {
            ("topic" if name == topic else "broker", name, key): value
            for (name, key), (value, source) in self.configs.items()
            if source in OWN and value is not None
        }
        return AuditedCluster(
            settings, {(topic, number): at for number, at in self.replicas.items()}
        )


@dataclass(frozen=True, slots=True)
class Ground:
    """A topic on a cluster with throttles of an operator's, and where the journal is."""

    servers: str
    cluster_id: str
    topic: str
    journal: str = JOURNAL_TOPIC

    def seen(self) -> Seen:
        """All configurations of the brokers and of the topic, and where its replicas are."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        named = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in BROKERS]
        named.append(ConfigResource(ResourceType.TOPIC, self.topic))
        # librdkafka takes one broker in a call.
        asked = [admin.describe_configs([resource])[resource] for resource in named]
        configs = {
            (resource.name, key): (entry.value, entry.source)
            for resource, found in zip(named, asked, strict=True)
            for key, entry in found.result(DEADLINE_S).items()
        }
        partitions = admin.list_topics(self.topic, DEADLINE_S).topics[self.topic].partitions
        return Seen(configs, {p.id: tuple(p.replicas) for p in partitions.values()})

    def untold(self, records: Records, seen: Seen, before: Seen) -> list[str]:
        """What the audit says and is not so."""
        lines = lines_of(records)
        moves = {
            (self.topic, number): RequestedMove(before.replicas[number], target)
            for number, target in TARGET.items()
        }
        begun = [x for x in lines if (x["event"], x["kind"]) == ("requested", "reassign")]
        asked = {line["operation_id"]: moves for line in begun}
        return problems(lines, seen.as_cluster(self.topic), asked)

    def plan(self) -> Json:
        """The move, in Kafka's JSON."""
        moves = [
            {"topic": self.topic, "partition": partition, "replicas": list(target)}
            for partition, target in TARGET.items()
        ]
        return {"version": 1, "partitions": moves}

    def records(self, *, committed: bool = True) -> Records:
        """Key and value of each record of the journal, in the log's order; none without a topic."""
        known = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        if self.journal not in known.list_topics(timeout=DEADLINE_S).topics:
            return []
        return records_of(self.servers, self.journal, committed=committed)

    def journalled(self, records: Records) -> JournalState:
        """What the journal's records amount to."""
        fold = JournalReplay(self.cluster_id, keys_of(self.cluster_id))
        for key, value in records:
            fold.take(key, value)
        return fold.state()

    def unsettled(self, records: Records) -> list[str]:
        """What the journal holds that somebody would have to continue; nothing, in the end."""
        state = self.journalled(records)
        live = [
            f"operation {name} is {entry.body['state']}"
            for name, entry in state.of(EntryKind.OPERATION).items()
            if entry.body["state"] not in ("done", "cancelled", "failed")
        ]
        owned = [*state.of(EntryKind.BROKER_THROTTLE), *state.of(EntryKind.TOPIC_THROTTLE)]
        return [*live, *(f"a throttle of {name} is owned" for name in owned), *state.unreadable]


OWN: Final = (1, 2)
"""Sources of a topic's and of a broker's own settings, in librdkafka's numbers."""


async def _write(admin: Reached, kind: int, name: str, key: str, value: str | None) -> None:
    operation = DELETE if value is None else SET
    message = IncrementalAlterConfigsRequest(
        resources=[(kind, name, [(key, operation, value)])], validate_only=False
    )
    # A broker's own configuration is written by that broker alone.
    broker = int(name) if kind == BROKER and name else 1
    await admin.cluster.call(broker, RawRequest.of(message), timeout_s=DEADLINE_S, lane="write")


@asynccontextmanager
async def prior_rates(servers: str) -> AsyncIterator[None]:
    """Rates that an operator has set; gone at the end."""
    async with connected(servers) as admin:
        for kind, name, key, value in PRIOR:
            await _write(admin, kind, name, key, value)
        try:
            yield
        finally:
            for kind, name, key, _ in PRIOR:
                await _write(admin, kind, name, key, None)
            # What could not be decided leaves its throttle, and whatever follows writes less.
            await unthrottle(admin, BROKERS)


async def prepared(
    servers: str, cluster_id: str, topic: str, records: int, journal: str = JOURNAL_TOPIC
) -> Ground:
    """A ground with a new topic, which holds that many records in each partition."""
    await asyncio.to_thread(create_topic, servers, topic, list(BEFORE.values()), PRIOR_LISTS)
    for partition in TARGET:
        await asyncio.to_thread(produce, servers, topic, records, RECORD_BYTES, partition)
    return Ground(servers, cluster_id, topic, journal)


# --- one operation, by the API


async def asked_until(
    condition: Callable[[], Awaitable[bool]], what: str, deadline_s: float = DEADLINE_S
) -> None:
    """Ask a backend until the condition holds; less often than a test may look at itself."""
    pause = asyncio.Event()

    async def slowly() -> bool:
        if await condition():
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(pause.wait(), ASK_S)
        return False

    await wait_until_async(slowly, deadline_s, what)


@asynccontextmanager
async def client_of(socket: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the backend on that socket, once it serves."""
    transport = httpx.AsyncHTTPTransport(uds=str(socket), verify=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://kshunt", timeout=DEADLINE_S, trust_env=False
    ) as client:

        async def serves() -> bool:
            try:
                return (await client.get("/healthz")).status_code == 200
            except httpx.TransportError:
                return False

        await asked_until(serves, f"a backend serves on {socket}")
        yield client


async def read(client: httpx.AsyncClient, path: str) -> Json:
    """An answer. A connection that was idle for long is closed by the server, as by any other."""
    try:
        answer = await client.get(path)
    except httpx.RemoteProtocolError:
        answer = await client.get(path)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    found: Json = answer.json()
    return found


async def change(client: httpx.AsyncClient, path: str, body: Json | None = None) -> Json:
    """A change that succeeds with all its items; its answer."""
    answer = await client.post(path, json={"who": "a test", **(body or {})})
    assert answer.status_code == 200, f"{path}: {answer.text}"
    found: Json = answer.json()
    assert all(result["error_code"] == 0 for result in found["results"]), f"{path}: {found}"
    return found


async def start(client: httpx.AsyncClient, ground: Ground) -> str:
    """Start the move at the slow rate; its operation's id."""
    body = {"plan": ground.plan(), "throttle_bytes_per_s": SLOW}
    return str((await change(client, "/v1/reassignments", body))["operation_id"])


async def hurry(client: httpx.AsyncClient) -> str:
    """Let the move continue at the fast rate; returns the id of that change.

    To be asked only while it is slow, and so runs on: rates that come after its end stay.
    """
    rates = [
        {"broker": broker, "leader_bytes_per_s": FAST, "follower_bytes_per_s": FAST}
        for broker in BROKERS
    ]
    return str((await change(client, "/v1/throttles/rates", {"rates": rates}))["operation_id"])


async def moves(client: httpx.AsyncClient) -> list[Json]:
    """The reassignments that a backend knows of."""
    found = (await read(client, "/v1/operations"))["operations"]
    return [operation for operation in found if operation["kind"] == "reassign"]


async def ended(client: httpx.AsyncClient, operation_id: str) -> str:
    """The state in which the operation ended."""
    state = ""

    async def over() -> bool:
        nonlocal state
        operation = await read(client, f"/v1/operations/{operation_id}")
        state = operation["state"]
        return operation["ended_ms"] is not None

    await asked_until(over, "the operation ends")
    return state


async def problems_of(
    ground: Ground, before: Seen, wanted: Mapping[int, Sequence[int]]
) -> list[str]:
    """What is not as it must be: settings as before, replicas where they are wanted, all ended."""
    found: list[str] = []

    async def as_before() -> bool:
        # Brokers show a change some moments after its answer.
        seen = await asyncio.to_thread(ground.seen)
        found[:] = seen.differences(before.configs)
        expected = {**before.replicas, **wanted}
        if seen.replicas != expected:
            found.append(f"replicas are {seen.replicas}, not {expected}")
        records = await asyncio.to_thread(ground.records)
        found.extend(ground.unsettled(records))
        found.extend(ground.untold(records, seen, before))
        return not found

    try:
        await asked_until(as_before, "all is as it was", SHOWN_S)
    except AssertionError:
        return found
    return []


@asynccontextmanager
async def embedded(name: str) -> AsyncIterator[Ground]:
    """A cluster of its own."""
    with running(ClusterSpec(plain_brokers(3))) as cluster:
        cluster_id = cluster.call(lambda c: c.world.cluster_id)
        async with prior_rates(cluster.bootstrap_servers):
            yield await prepared(cluster.bootstrap_servers, cluster_id, f"moving-{name}", 3)


# --- backends


def made(folder: Path) -> Path:
    """A new folder."""
    folder.mkdir()
    return folder


@asynccontextmanager
async def backend(
    ground: Ground, folder: Path, name: str, *arguments: str, watched: bool
) -> AsyncIterator[tuple[BaseProcess, httpx.AsyncClient]]:
    """A backend of its own process, which may have ended by itself at the end."""
    socket = folder / f"{name}.sock"
    options = ["--bootstrap-server", ground.servers, "--socket", str(socket), *arguments]
    if watched:
        options += ["--passed", str(folder / f"{name}.passed"), "--journal", ground.journal]
    process = forked(options, folder / f"{name}.log", watched=watched)
    try:
        async with client_of(socket) as client:
            yield process, client
        process.terminate()
        await gone(process)
    finally:
        process.kill()
        process.join()


async def gone(process: BaseProcess) -> None:
    await wait_until_async(lambda: process.exitcode is not None, DEADLINE_S, "the backend ends")
