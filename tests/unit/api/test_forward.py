"""A change is carried out by the backend that acts, whichever was asked: over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from kshunt.backend.api.forwarding import outbound
from kshunt.backend.api.forwarding.outbound import FORWARDED_TO, is_change
from kshunt.backend.api.forwarding.signatures import STATEMENT
from kshunt.backend.api.http.route_roles import Declared
from kshunt.backend.api.server.authentication import AccessPolicy
from kshunt.backend.api.server.listener import Listen
from kshunt.backend.clock import SystemClock
from kshunt.backend.operations.lease.lease import LeaseState, LeaseTimes
from kshunt.backend.operations.lease.lease_manager import BackendIdentity, LeaseManager
from tests.support.access.forward import Application, Place, ask, at, beat, gated, real_app, served
from tests.support.operations.journal import DEADLINE_S, embedded_cluster, journal
from tests.support.waiting import wait_until_async

CHANGE = "/v1/reassignments"


@dataclass
class Pair:
    """Two backends that serve; `one` is asked, and `two` acts unless the test says otherwise."""

    one: Place
    two: Place
    apps: tuple[Application, Application]
    listen: tuple[Listen, Listen]


@pytest.fixture(params=["socket", "port"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    wanted = [Listen(tmp_path / name) for name in ("1", "2")]
    if request.param == "port":
        wanted = [Listen(), Listen()]
    places = [Place(at("one", "")), Place(at("two", ""))]
    apps = Application("one"), Application("two")
    async with AsyncExitStack() as stack:
        listens = []
        for place, app, listen in zip(places, apps, wanted, strict=True):
            layer = gated(app, place, AccessPolicy(listen.path is not None))
            listens.append(await stack.enter_async_context(served(layer, listen)))
            place.me = replace(place.me, address=listens[-1].address)
        places[0].active = beat(places[1].me)
        yield Pair(places[0], places[1], apps, (listens[0], listens[1]))


async def test_a_change_is_answered_by_the_backend_that_acts(pair: Pair) -> None:
    body = {"plan": {"partitions": []}, "reason": "größer"}
    answer = await ask(
        pair.listen[0], "POST", f"{CHANGE}?why=a%2Fb&x=1", json=body, headers={"x-who": "me"}
    )
    assert answer.status_code == 202
    assert answer.headers["content-type"] == "application/kshunt+json"
    assert answer.headers[FORWARDED_TO] == pair.two.me.address
    said = answer.json()
    assert said["by"] == "two"
    assert json.loads(said["body"]) == body
    assert "x-who" not in said["headers"]
    assert STATEMENT in said["headers"]
    assert pair.apps[1].asked == [f"{CHANGE}?why=a%2Fb&x=1"]


@pytest.mark.parametrize(
    ("method", "path", "body", "goes_on"),
    [
        ("POST", CHANGE, "{", True),
        ("DELETE", "/v1/throttles/orphans", "", False),
        ("POST", "/v1/orphans/remove", "", True),
        ("POST", "/v1/reassignments/verify", "{}", True),
        ("POST", "/v1/reassignments/verify", '{"preserve_throttles": true}', False),
        ("POST", CHANGE, '{"validate_only": true}', False),
        ("POST", "/v1/reassignments/progress", "{}", False),
        ("POST", "/v1/reassignments/generate", "{}", False),
        ("POST", "/v1/operations/preview", "{}", False),
        ("POST", "/v1/topics/describe", "{}", False),
        ("POST", "/v1/plans", "{}", False),
        ("POST", "/v1/rehearsals", "{}", False),
        ("POST", "/v1/presence", "{}", False),
        ("POST", "/v1/proposals/x/approve", "{}", True),
        ("POST", "/v1/operations/x/notes", "{}", True),
        ("POST", "/v1/topics/delete-partitions", "{}", True),
        ("GET", "/v1/operations", "", False),
        ("POST", "/elsewhere", "{}", False),
    ],
)
async def test_only_changes_go_on(
    pair: Pair, method: str, path: str, body: str, goes_on: bool
) -> None:
    answer = await ask(pair.listen[0], method, path, content=body)
    assert answer.json()["by"] == ("two" if goes_on else "one")
    assert answer.json()["body"] == body
    assert (FORWARDED_TO in answer.headers) == goes_on
    asks = json.loads(body) if body.endswith("}") else None
    found = Declared(real_app()).of({"type": "http", "method": method, "path": path})
    assert (found is not None and is_change(found, asks)) == goes_on


async def test_what_a_proposal_would_do_is_what_the_backend_that_acts_says(pair: Pair) -> None:
    path = "/v1/proposals/x/preview"
    answer = await ask(pair.listen[0], "GET", path)
    assert answer.json()["by"] == "two"
    assert (await ask(pair.listen[0], "GET", "/v1/proposals")).json()["by"] == "one"


async def test_a_backend_that_acts_answers_itself(pair: Pair) -> None:
    pair.one.active = None
    answer = await ask(pair.listen[0], "POST", CHANGE, json={})
    assert answer.json()["by"] == "one"
    assert FORWARDED_TO not in answer.headers


async def test_the_first_change_of_a_cluster_goes_to_whoever_begins_to_act(pair: Pair) -> None:
    """Nobody acts yet: two backends are asked at the same time, and the other one wins."""
    winner = pair.one.active
    pair.one.active, pair.one.wins, pair.one.duty = None, winner, LeaseState.IDLE
    body = {"throttle": 1}
    answer = await ask(pair.listen[0], "POST", CHANGE, json=body)
    assert (answer.status_code, answer.json()["by"]) == (202, "two")
    assert json.loads(answer.json()["body"]) == body
    assert answer.headers[FORWARDED_TO] == pair.two.me.address


async def test_a_backend_that_begins_to_act_answers_itself(pair: Pair) -> None:
    pair.one.active, pair.one.duty = None, LeaseState.IDLE
    for sent, duty in (({"validate_only": True}, LeaseState.IDLE), ({}, LeaseState.ACT)):
        answer = await ask(pair.listen[0], "POST", CHANGE, json=sent)
        assert answer.json()["by"] == "one"
        assert json.loads(answer.json()["body"]) == sent
        assert pair.one.duty is duty


def refused(answer: httpx.Response, pair: Pair, *words: str) -> None:
    """It is a problem that says who acts and what to do; nobody was asked."""
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert pair.one.active is not None
    for word in (
        "two is the active backend",
        pair.one.active.host,
        pair.one.active.address,
        "2023-11-14 22:13:20 UTC",
        "Nothing was changed",
        *words,
    ):
        assert word in said["detail"]
    assert "takes over 6 s later" in said["advice"]
    assert [app.asked for app in pair.apps] == [[], []]


async def test_an_address_of_another_host_is_not_tried_here(pair: Pair) -> None:
    for elsewhere in (
        replace(pair.two.me, host="there"),
        replace(pair.two.me, boot_id="another kernel of that name"),
    ):
        pair.one.active = beat(elsewhere)
        refused(
            await ask(pair.listen[0], "POST", CHANGE, json={}),
            pair,
            "its own host",
            "this backend runs on here",
        )


@pytest.mark.parametrize("address", ["unix:/nowhere/at/all", "http://127.0.0.1:1", "pigeon:7"])
async def test_an_address_where_nobody_answers_is_said(
    pair: Pair, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbound, "DECIDE_S", 0.2)
    pair.one.active = beat(replace(pair.two.me, address=address))
    refused(await ask(pair.listen[0], "POST", CHANGE, json={}), pair)


async def test_a_change_does_not_go_round(pair: Pair) -> None:
    pair.two.active = beat(pair.one.me)
    answer = await ask(pair.listen[0], "POST", CHANGE, json={})
    assert answer.status_code == 409
    assert "taking over" in answer.json()["advice"]
    assert [app.asked for app in pair.apps] == [[], []]


async def test_a_change_that_is_meant_for_another_backend_is_refused(pair: Pair) -> None:
    pair.one.active = beat(replace(pair.two.me, backend="three"))
    answer = await ask(pair.listen[0], "POST", CHANGE, json={})
    assert answer.status_code == 409
    assert "not its target" in answer.json()["detail"]
    assert pair.apps[1].asked == []


async def test_what_may_have_been_carried_out_is_not_said_to_be_undone(pair: Pair) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        pair.one.active = beat(replace(pair.two.me, address=f"http://127.0.0.1:{port}"))
        answer = await ask(pair.listen[0], "POST", CHANGE, json={})
    assert answer.status_code == 502
    assert "may have been carried out" in answer.json()["advice"]
    assert "Nothing was changed" not in answer.text


async def test_a_client_that_leaves_is_not_waited_for(pair: Pair) -> None:
    pair.apps[1].holds = True
    asking = asyncio.create_task(ask(pair.listen[0], "POST", CHANGE, json={}))
    await wait_until_async(lambda: pair.apps[1].asked, DEADLINE_S, "it is asked")
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await wait_until_async(lambda: pair.apps[1].left, DEADLINE_S, "it knows that nobody waits")


# --- with the journal of a cluster


@asynccontextmanager
async def whole(where: Any, topic: str, name: str, folder: Path) -> AsyncIterator[LeaseManager]:
    """A backend with its lease, that serves; it ends in order."""
    listen = Listen(folder / name)
    quick = LeaseTimes(beat_s=0.4, act_within_s=4.0, silence_s=5.0)
    async with journal(where, topic, name) as its:
        lease_manager = LeaseManager(
            its, BackendIdentity.here(name, listen.address, 1), SystemClock(), terms=quick
        )
        run = asyncio.create_task(lease_manager.run())

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await lease_manager.ready(DEADLINE_S)
            await Application(name)(scope, receive, send)

        async with served(gated(app, lease_manager, AccessPolicy(by_file=True)), listen):
            try:
                yield lease_manager
            finally:
                run.cancel()
                await asyncio.gather(run, return_exceptions=True)
                await lease_manager.release()


async def test_whichever_backend_is_asked_the_one_that_acts_answers(tmp_path: Path) -> None:
    async def who(name: str) -> str:
        answer = await ask(Listen(tmp_path / name), "POST", CHANGE, json={})
        return str(answer.json()["by"])

    with embedded_cluster() as where:
        topic = where.topic()
        async with whole(where, topic, "two", tmp_path) as two:
            async with whole(where, topic, "one", tmp_path):
                assert await who("one") == "one"
                assert await who("two") == "one"
                assert await who("one") == "one"
            await wait_until_async(
                lambda: two.duty is LeaseState.IDLE, DEADLINE_S, "backends ignore"
            )
            assert await who("two") == "two"
