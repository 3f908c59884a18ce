"""The control API: what is, faults on demand, and strictness."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from kshunt.backend.embedded.control_api import _BROKER_ACTIONS, control_api, control_app
from kshunt.backend.embedded.controller.topics import NewTopic, create_topics
from kshunt.backend.embedded.core.cluster_core import ControllerLost
from kshunt.backend.embedded.core.spec import BrokerSpec, ClusterSpec, plain_brokers
from kshunt.backend.embedded.data.hosts import Hardware
from kshunt.backend.embedded.running import RunningCluster, run_cluster
from kshunt.backend.embedded.scenario.model import BrokerEvent, Scenario, TopicSpec
from kshunt.backend.errors import BadInput
from tests.support.embedded.background import running
from tests.support.paths import ROOT
from tests.support.waiting import wait_until_async

TOPIC = NewTopic("t", 1, 1)
BROKERS = (
    *plain_brokers(2),
    BrokerSpec(3, "rack-3", ("/kafka/d1", "/kafka/d2"), Hardware(9e6, 8e6)),
    BrokerSpec(4, started=False),
)


@asynccontextmanager
async def served(
    scenario: Scenario | None = None, *, simulated: bool = True
) -> AsyncIterator[tuple[RunningCluster, httpx.AsyncClient]]:
    spec = ClusterSpec(BROKERS, simulated=simulated)
    async with (
        run_cluster(spec, scenario) as here,
        control_api(here) as address,
        httpx.AsyncClient(base_url=address) as client,
    ):
        yield here, client


async def post(client: httpx.AsyncClient, route: str, **body: Any) -> None:
    answer = await client.post(route, json=body)
    assert (answer.status_code, answer.json()) == (200, {}), answer.text


async def brokers(client: httpx.AsyncClient) -> dict[int, dict[str, Any]]:
    return {one["id"]: one for one in (await client.get("/v1/cluster")).json()["brokers"]}


async def test_the_cluster_is_described() -> None:
    scenario = Scenario("mine", "t", "a", BROKERS, topics=(TopicSpec("t", 3),))
    async with served(scenario) as (here, client):
        said = (await client.get("/v1/cluster")).json()
        assert said["cluster_id"] == here.cluster.world.cluster_id
        assert said["bootstrap_servers"] == here.cluster.bootstrap_servers
        assert said["controller"] == here.cluster.image.controller
        assert said["clock"] == {"simulated": True, "now_ms": here.cluster.core.now_ms}
        assert said["scenario"] == "mine"
        assert said["brokers"][2] == {
            "id": 3,
            "state": "up",
            "fenced": False,
            "port": here.cluster.servers[3].port,
            "rack": "rack-3",
            "log_dirs": [
                {"path": "/kafka/d1", "online": True},
                {"path": "/kafka/d2", "online": True},
            ],
        }
        assert said["brokers"][3]["state"] == "never started"


async def test_brokers_stop_crash_hang_and_come_back() -> None:
    async with served() as (here, client):
        await post(client, "/v1/brokers/1/stop")
        assert (await brokers(client))[1]["state"] == "down"
        assert (await brokers(client))[1]["fenced"]
        await post(client, "/v1/brokers/2/crash")
        assert not (await brokers(client))[2]["fenced"]
        await post(client, "/v1/clock/advance", ms=9_000)
        assert (await brokers(client))[2]["fenced"]
        for broker in (1, 2, 4):
            await post(client, f"/v1/brokers/{broker}/start")
        assert {one["state"] for one in (await brokers(client)).values()} == {"up"}
        await post(client, "/v1/brokers/3/stall")
        assert (await brokers(client))[3]["state"] == "stalled"
        await post(client, "/v1/brokers/3/resume")
        assert (await brokers(client))[3]["state"] == "up"
        assert here.cluster.core.plane.is_up(3)


async def test_a_disk_fails_and_heal_brings_everything_back() -> None:
    async with served() as (here, client):
        await post(client, "/v1/brokers/3/fail-log-dir", path="/kafka/d2")
        assert (await brokers(client))[3]["log_dirs"][1] == {"path": "/kafka/d2", "online": False}
        await post(client, "/v1/brokers/1/stop")
        await post(client, "/v1/brokers/2/stall")
        await post(client, "/v1/links", source=1, target=2, bytes_per_s=1_000)
        await post(client, "/v1/network", broker=3, in_bytes_per_s=1, out_bytes_per_s=None)
        limits = here.cluster.core.plane.replication.limits
        assert len(limits._links) == 1
        await post(client, "/v1/heal")
        found = await brokers(client)
        assert [found[n]["state"] for n in (1, 2, 3, 4)] == ["up", "up", "up", "never started"]
        assert all(one["online"] for one in found[3]["log_dirs"])
        assert len(limits._links) == 0
        number = here.cluster.core.plane.broker_number(3)
        assert limits.capacity()[[number]] == [9e6]


async def test_the_controller_fails_over_and_crashes_on_demand() -> None:
    async with served() as (here, client):
        before = here.cluster.image.controller
        await post(client, "/v1/controller/fail-over")
        after = (await client.get("/v1/cluster")).json()
        assert (after["controller"], after["controller_epoch"] > 1) != (before, False)
        assert after["controller"] != before
        epoch = here.cluster.image.controller_epoch
        await post(client, "/v1/controller/crash", after_records=0)
        # It strikes a client's request, and nothing that brokers or time bring.
        await post(client, "/v1/brokers/1/crash")
        await post(client, "/v1/clock/advance", ms=20_000)
        assert here.cluster.image.brokers[1].fenced
        with pytest.raises(ControllerLost):
            here.cluster.world.commit(create_topics(here.cluster.image, [TOPIC], Random(1)))
        assert here.cluster.image.controller_epoch > epoch
        assert here.cluster.image.topics == {}


async def test_connections_are_reset_and_cut() -> None:
    async with served() as (here, client):
        server = here.cluster.servers[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\0\0\0\x20")
        await writer.drain()
        await post(client, "/v1/brokers/1/reset-connections")
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1), 5)
        writer.close()
        await post(client, "/v1/brokers/1/cut", api_key=3, times=2)
        await post(client, "/v1/brokers/1/cut")
        assert [server.faults.takes_cut(key) for key in (3, 3, 18, 18)] == [True, True, True, False]


async def test_a_simulated_clock_is_moved() -> None:
    async with served() as (here, client):
        before = here.cluster.core.now_ms
        await post(client, "/v1/clock/advance", ms=60_000)
        assert here.cluster.core.now_ms == before + 60_000


async def test_the_machines_clock_is_not_moved() -> None:
    async with served(simulated=False) as (_, client):
        answer = await client.post("/v1/clock/advance", json={"ms": 1})
        assert answer.status_code == 422
        assert "machine's clock" in answer.json()["message"]


REFUSED = (
    ("/v1/brokers/9/stop", b"{}", 404, "There is no /v1/brokers/9/stop."),
    ("/v1/brokers/1/explode", b"{}", 404, "There is no /v1/brokers/1/explode."),
    ("/v1/nothing", b"{}", 404, "There is no /v1/nothing."),
    ("/v1/brokers/1/stop", b'{"now": true}', 422, "'now' is unknown."),
    ("/v1/brokers/1/stop", b"[]", 422, "The body is not a JSON object."),
    ("/v1/brokers/1/stop", b"{", 422, "The body is not JSON."),
    ("/v1/brokers/1/stop", b'{"\\ud800": 1}', 422, "The body is not JSON."),
    ("/v1/brokers/1/fail-log-dir", b'{"path": "\\ud800"}', 422, "The body is not JSON."),
    ("/v1/clock/advance", b'{"ms": 1, "ms": 1}', 422, "The body is not JSON."),
    ("/v1/clock/advance", b'{"ms": ' + b"9" * 5_000 + b"}", 422, "The body is not JSON."),
    ("/v1/brokers/1/stop", b"[" * 70_000, 422, "A request holds at most 65536 bytes."),
    ("/v1/brokers/1/stop", b"[" * 60_000, 422, "The body is not JSON."),
    ("/v1/brokers/1/fail-log-dir", b"{}", 422, "'path' is missing."),
    ("/v1/brokers/1/fail-log-dir", b'{"path": 1}', 422, "'path' is not a string."),
    ("/v1/brokers/1/fail-log-dir", b'{"path": "/x"}', 422, "Broker 1 has no log directory /x."),
    ("/v1/brokers/1/cut", b'{"times": -1}', 422, "'times' must be a whole number of at least 0."),
    ("/v1/brokers/1/cut", b'{"api_key": true}', 422, "'api_key' must be a whole number"),
    ("/v1/links", b'{"source": 1, "target": 2}', 422, "'bytes_per_s' is missing."),
    ("/v1/links", b'{"source":1,"target":2,"bytes_per_s":0}', 422, "be a positive"),
    ("/v1/links", b'{"source":1,"target":9,"bytes_per_s":1}', 422, "There is no broker 9."),
    ("/v1/links", b'{"source":1,"target":2,"bytes_per_s":Infinity}', 422, "is not JSON"),
    (
        "/v1/network",
        b'{"broker":4,"in_bytes_per_s":1,"out_bytes_per_s":1}',
        422,
        "No broker 4 was ever started.",
    ),
    ("/v1/controller/crash", b'{"after_records": 1.5}', 422, "'after_records' must be a whole"),
    ("/v1/clock/advance", b'{"ms": -5}', 422, "'ms' must be a whole number of at least 0."),
)


async def test_what_cannot_be_meant_is_refused_in_words() -> None:
    async with served() as (here, client):
        before = here.cluster.core.image.offset
        for path, body, status, words in REFUSED:
            answer = await client.post(path, content=body)
            assert answer.status_code == status, path
            assert words in answer.json()["message"]
        assert here.cluster.core.image.offset == before


async def test_the_manual_names_every_route() -> None:
    said = (ROOT / "docs" / "embedded-cluster.md").read_text()
    async with served() as (here, _):
        paths = [route.path for route in control_app(here).routes if isinstance(route, Route)]
    named = [path.removeprefix("/v1/") for path in paths if "{action}" not in path]
    named += [f"brokers/ID/{action}" for action in _BROKER_ACTIONS]
    missing = [
        n for n in named if f"`{n}`" not in said and f"`…/{n.rpartition('/')[2]}`" not in said
    ]
    assert missing == []


async def test_web_pages_and_foreign_names_are_refused() -> None:
    async with served() as (here, client):
        page = {"origin": "https://example.com"}
        assert (await client.post("/v1/brokers/1/stop", headers=page)).status_code == 403
        foreign = {"host": "example.com"}
        assert (await client.post("/v1/brokers/1/stop", headers=foreign)).status_code == 400
        assert here.cluster.core.plane.is_up(1)


# --- a cluster in a thread


def test_a_cluster_runs_in_the_background() -> None:
    with running(ClusterSpec(BROKERS)) as handle:
        assert handle.bootstrap_servers.count(":") == 3
        assert handle.call(lambda cluster: len(cluster.image.brokers)) == 3
        handle.call(lambda cluster: cluster.start_broker(4))
        assert handle.call(lambda cluster: sorted(cluster.image.brokers)) == [1, 2, 3, 4]
        with pytest.raises(BadInput, match="no broker 9"):
            handle.call(lambda cluster: cluster.start_broker(9))


def test_a_background_cluster_plays_a_scenario() -> None:
    scenario = Scenario("mine", "t", "a", BROKERS, topics=(TopicSpec("t", 3),))
    with running(scenario, seed=3) as handle:
        assert handle.call(lambda cluster: sorted(cluster.image.topics)) == ["t"]


def test_a_background_cluster_that_cannot_start_says_why() -> None:
    with pytest.raises(BadInput, match="needs a broker"), running(ClusterSpec(())):
        pass


async def test_listeners_follow_the_timeline() -> None:
    events = (
        BrokerEvent(1.0, "crash", (1,)),
        BrokerEvent(1.0, "stall", (2,)),
        BrokerEvent(1.0, "start", (4,)),
        BrokerEvent(30.0, "start", (1, 2)),
    )
    async with served(Scenario("mine", "t", "a", BROKERS, events=events)) as (here, client):
        cluster = here.cluster
        ports = {number: server.port for number, server in cluster.servers.items()}

        def answers(broker: int) -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", ports[broker])) == 0

        assert [answers(broker) for broker in (1, 2, 3, 4)] == [True, True, True, False]
        await post(client, "/v1/clock/advance", ms=2_000)
        await wait_until_async(lambda: answers(4), 5, "broker 4 listens where it was said to")
        await wait_until_async(lambda: not answers(1), 5, "broker 1 is gone")
        assert cluster.servers[2].faults.stalled
        await post(client, "/v1/clock/advance", ms=30_000)
        await wait_until_async(lambda: answers(1), 5, "broker 1 is back")
        await wait_until_async(lambda: answers(2), 5, "broker 2 is back")
        assert {one["state"] for one in (await brokers(client)).values()} == {"up"}
        assert {number: one["port"] for number, one in (await brokers(client)).items()} == ports


async def test_a_broker_of_5000_digits_is_not_there() -> None:
    async with served() as (_, client):
        answer = await client.post(f"/v1/brokers/{'9' * 5_000}/stop")
        assert answer.status_code == 404
