"""Of two backends one acts: the other passes on what it is asked, and who was stopped is fenced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from kshunt.backend.api.forwarding.outbound import FORWARDED_TO
from tests.support.brokers.launcher import RealKafka
from tests.support.faults.kill_backend import BEFORE, Boundary, passed_by
from tests.support.faults.kills import (
    TARGET,
    Ground,
    asked_until,
    backend,
    client_of,
    embedded,
    ended,
    hurry,
    made,
    moves,
    prepared,
    prior_rates,
    problems_of,
    read,
    start,
)
from tests.support.serving import serve_process

pytestmark = pytest.mark.slow


@asynccontextmanager
async def on_kafka(kafka: RealKafka, name: str) -> AsyncIterator[Ground]:
    """The shared cluster; others may keep another journal there."""
    async with prior_rates(kafka.bootstrap_servers):
        topic, journal = f"fenced-{name}", f"__fenced_{name}"
        yield await prepared(kafka.bootstrap_servers, kafka.cluster_id, topic, 40, journal)


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def ground(request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    if request.param == "embedded":
        place: AbstractAsyncContextManager[Ground] = embedded("fenced")
    else:
        place = on_kafka(request.getfixturevalue("kafka"), "stopped")
    async with place as found:
        yield found


@asynccontextmanager
async def served(
    ground: Ground, folder: Path, name: str
) -> AsyncIterator[tuple[int, httpx.AsyncClient]]:
    """A backend's process id and a client of it: `kshunt serve`, where the journal is its own."""
    if ground.journal == "__kshunt_journal":
        with serve_process(ground.servers, folder / f"{name}.sock") as serving:
            async with client_of(folder / f"{name}.sock") as client:
                yield serving.pid, client
        return
    async with backend(ground, folder, name, watched=True) as (process, client):
        assert process.pid is not None
        yield process.pid, client


async def name_of(client: httpx.AsyncClient) -> str:
    return str((await read(client, "/v1/backend"))["backend"])


async def until_active(client: httpx.AsyncClient) -> None:
    async def so() -> bool:
        return str((await read(client, "/v1/backend"))["duty"]) == "act"

    await asked_until(so, "it acts")


async def follows(client: httpx.AsyncClient, actor: str) -> None:
    """Wait until it does, and says that the other one acts."""

    async def so() -> bool:
        status = await read(client, "/v1/backend")
        active = status["acting"]
        return status["duty"] == "follow" and active is not None and active["backend"] == actor

    await asked_until(so, f"it follows {actor}")


def writers(ground: Ground) -> list[str]:
    """Who wrote each record of the journal, in the log's order, whatever became of it."""
    records = ground.records(committed=False)
    return [json.loads(value)["writer"] for _, value in records if value is not None]


def assert_fenced(ground: Ground, former: str, successor: str) -> None:
    """The successor's first record is after the last one of the former."""
    found = writers(ground)
    assert {former, successor} <= set(found)
    assert former not in found[found.index(successor) :]


async def test_one_that_was_stopped_writes_nothing_after_another_has_taken_over(
    ground: Ground, tmp_path: Path
) -> None:
    before = await asyncio.to_thread(ground.seen)
    async with (
        served(ground, tmp_path, "one") as (pid, one),
        served(ground, tmp_path, "two") as (_, two),
    ):
        names = await name_of(one), await name_of(two)
        operation = await start(one, ground)
        await follows(two, names[0])
        os.kill(pid, signal.SIGSTOP)
        try:
            await until_active(two)
            written = await asyncio.to_thread(writers, ground)
        finally:
            os.kill(pid, signal.SIGCONT)
        await follows(one, names[1])
        # The one that was stopped passes on what it is asked.
        await hurry(one)
        assert await ended(two, operation) == "done"
        assert await ended(one, operation) == "done"
        assert await problems_of(ground, before, TARGET) == []
        await follows(one, names[1])
        found = await asyncio.to_thread(writers, ground)
        assert set(found[: len(written)]) == set(names)
        assert names[0] not in found[len(written) :], found


async def test_a_change_that_a_stand_by_is_asked_for_is_done_by_the_one_that_acts(
    tmp_path: Path,
) -> None:
    async with (
        embedded("forwarded") as ground,
        served(ground, tmp_path, "one") as (_, one),
        served(ground, tmp_path, "two") as (_, two),
    ):
        before = await asyncio.to_thread(ground.seen)
        await start(one, ground)
        await follows(two, await name_of(one))
        [found] = await moves(two)
        answer = await two.post(f"/v1/operations/{found['id']}/cancel", json={"who": "two"})
        assert answer.status_code == 200
        assert answer.headers[FORWARDED_TO] == f"unix:{tmp_path / 'one.sock'}"
        assert await ended(two, found["id"]) == "cancelled"
        assert set(writers(ground)) == {await name_of(one)}
        assert (await asyncio.to_thread(ground.seen)).differences(before.configs) == []


STOPS = (
    Boundary(BEFORE, 4, "lists"),
    Boundary(BEFORE, 5, "rates broker 1"),
    Boundary(BEFORE, 9, "append reassign:starting"),
    Boundary(BEFORE, 10, "submit"),
    Boundary(BEFORE, 11, "append reassign:running"),
)
"""Where a backend can fall asleep as it starts a move."""


async def test_one_that_wakes_up_in_the_middle_changes_nothing_more(tmp_path: Path) -> None:
    """Each place on a cluster of its own, and all together: most of the time a lease runs out."""
    outcomes = await asyncio.gather(
        *(_slept(at, made(tmp_path / str(at.number))) for at in STOPS), return_exceptions=True
    )
    problems = dict(zip(map(str, STOPS), outcomes, strict=True))
    assert {at: problem for at, problem in problems.items() if problem is not None} == {}


async def _slept(at: Boundary, folder: Path) -> None:
    """One falls asleep there, and wakes up when another one has ended the move.

    Raises:
        AssertionError: it was not fenced, or something is not as it must be.
    """
    asleep = ("--at", f"{at.when}:{at.number}", "--signal", "STOP")
    async with (
        embedded("asleep") as ground,
        backend(ground, folder, "one", *asleep, watched=True) as (process, one),
        backend(ground, folder, "two", watched=False) as (_, two),
    ):
        before = await asyncio.to_thread(ground.seen)
        names = await name_of(one), await name_of(two)
        started = asyncio.create_task(start(one, ground))
        await until_active(two)
        try:
            [found] = await moves(two)
            await asked_until(lambda: _in_state(two, "running"), "it goes on")
            await hurry(two)
            assert await ended(two, found["id"]) == "done"
        finally:
            os.kill(process.pid or 0, signal.SIGCONT)
        with pytest.raises(AssertionError, match=r"changed|fenced"):
            await started
        await follows(one, names[1])
        slept = [b for b in passed_by(folder / "one.passed") if b.number == at.number]
        assert slept[0].what.startswith(at.what)
        assert await problems_of(ground, before, TARGET) == []
        await asyncio.to_thread(assert_fenced, ground, *names)


async def _in_state(client: httpx.AsyncClient, state: str) -> bool:
    return bool([one for one in await moves(client) if one["state"] == state])
