"""A backend that is killed at any boundary of an operation leaves nothing undone.

A newly started backend takes the operation to its end. Then the moves are over, and no throttle
of ours is left. What an operator had set is back, with the source that it had.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.support.brokers.launcher import RealKafka
from tests.support.faults.kill_backend import (
    AFTER,
    APPEND,
    BEFORE,
    EFFECTS,
    OPEN,
    Boundary,
    distinct,
    passed_by,
)
from tests.support.faults.kills import (
    RETURNED,
    TARGET,
    Ground,
    Json,
    asked_until,
    backend,
    change,
    embedded,
    ended,
    gone,
    hurry,
    made,
    moves,
    prepared,
    prior_rates,
    problems_of,
    read,
    start,
)

pytestmark = pytest.mark.slow

AT_ONCE = 8
"""Clusters, each with one backend after the other."""
ATTEMPTS = 3
QUICK = ("--terms", "0.5", "2", "2.5", "2")
"""A lease that is taken over sooner, where clusters cannot be many."""


@dataclass(frozen=True, slots=True)
class Story:
    """What the test asks of a backend, in addition to a move with a throttle."""

    name: str
    steps: tuple[str, ...]
    first: str = ""
    """Boundaries count from this step on, where one is named."""
    last: str = ""
    """And to this one, or to the end."""
    without: frozenset[str] = frozenset()
    """What is not among them."""


MOVE = Story("move", ("hurry",), without=frozenset({"cancel"}))
PAUSE = Story(
    "pause",
    ("pause", "resume", "hurry"),
    first="pause",
    last="resume",
    without=frozenset({OPEN, "lists", "submit", "cancel"}),
)
CANCEL = Story("cancel", ("cancel",), first="cancel", without=frozenset({OPEN, "submit"}))


@dataclass(slots=True)
class StoryRun:
    """A story that was told from its beginning to its end."""

    passed: list[Boundary] = field(default_factory=list)
    begins: dict[str, int] = field(default_factory=dict)
    """By step: how many boundaries were passed before it."""
    ends: dict[str, int] = field(default_factory=dict)

    def of(self, story: Story) -> list[Boundary]:
        """The boundaries that count."""
        first, last = self.begins.get(story.first, 0), self.ends.get(story.last, len(self.passed))
        return self.passed[first:last]


async def tell(client: httpx.AsyncClient, ground: Ground, story: Story, passed: Path) -> StoryRun:
    """Ask for all of it, and wait for its end.

    Raises:
        httpx.TransportError: the backend is gone.
    """
    run = StoryRun()
    operation = await start(client, ground)
    for step in story.steps:
        run.begins[step] = len(passed_by(passed))
        if step == "hurry":
            await hurry(client)
        else:
            await change(client, f"/v1/operations/{operation}/{step}")
        run.ends[step] = len(passed_by(passed))
    await ended(client, operation)
    run.passed = passed_by(passed)
    return run


def acknowledged(passed: Iterable[Boundary], words: str) -> bool:
    """Whether an append with these words has returned."""
    return any(b.when == AFTER and b.verb == APPEND and words in b.what for b in passed)


@dataclass(slots=True)
class Heir:
    """Sees to it that what a dead backend began comes to its end, as an operator would."""

    client: httpx.AsyncClient
    begun: bool
    """Whether the intent was acknowledged."""
    hurried: bool
    """Whether the fast rate was; to set it twice could be after the operation."""
    state: str = "never begun"
    hurrying: str = ""
    """The operation that set the fast rate, if this one did."""

    async def finish(self) -> str:
        """The state in which the operation ended."""
        await asked_until(self._over, f"what was begun ends: {self}")
        if self.hurrying:
            rates = await read(self.client, f"/v1/operations/{self.hurrying}")
            if rates["started_ms"] >= (await moves(self.client))[0]["ended_ms"]:
                raise Undecided("the move ended at the slow rate, before the fast one was set")
        return self.state

    async def _over(self) -> bool:
        found = await moves(self.client)
        if not self.begun:
            return not found and (await read(self.client, "/v1/backend"))["duty"] == "idle"
        if found:
            self.state = found[0]["state"]
            await self._help(found[0])
        return bool(found) and found[0]["ended_ms"] is not None

    async def _help(self, operation: Json) -> None:
        try:
            if operation["state"] == "paused":
                await change(self.client, f"/v1/operations/{operation['id']}/resume")
            elif operation["state"] == "running" and not self.hurried:
                self.hurrying = await hurry(self.client)
                self.hurried = True
        except AssertionError as refused:
            # Until this backend acts it can refuse.
            if "Journal unavailable" in str(refused):
                raise Undecided(str(refused)) from None
            if "stopped being active after it wrote" in str(refused):
                self.hurried = True
            elif "Nothing was changed" not in str(refused):
                raise


class Undecided(Exception):
    """The run did not reach what the test must show, as on a machine that is too busy."""


async def whole(ground: Ground, story: Story, folder: Path, *more: str) -> list[Boundary]:
    """The boundaries of a story that nobody interrupts."""
    before = await asyncio.to_thread(ground.seen)
    async with backend(ground, folder, "one", *more, watched=True) as (_, client):
        run = await tell(client, ground, story, folder / "one.passed")
    wanted = RETURNED if story is CANCEL else TARGET
    assert await problems_of(ground, before, wanted) == []
    return run.of(story)


async def killed(ground: Ground, story: Story, at: Boundary, folder: Path, *more: str) -> list[str]:
    """What is wrong after a backend was killed there, and another one has gone on."""
    before = await asyncio.to_thread(ground.seen)
    arguments = ["--at", f"{at.when}:{at.number}", *more]
    async with backend(ground, folder, "one", *arguments, watched=True) as (process, client):
        try:
            await tell(client, ground, story, folder / "one.passed")
        except httpx.TransportError:
            await gone(process)
        except AssertionError as refused:
            raise Undecided(str(refused)) from None
        if process.exitcode != -signal.SIGKILL:
            raise Undecided(f"its exit code is {process.exitcode}")
    passed = passed_by(folder / "one.passed")
    begun = acknowledged(passed, "reassign:starting")
    async with backend(ground, folder, "two", *more, watched=bool(more)) as (_, client):
        # A cancellation that is in the journal is finished; rates that are set then would stay.
        recorded = acknowledged(passed, "cancel:starting")
        heir = Heir(client, begun, recorded or acknowledged(passed, "throttled_rates:starting"))
        state = await heir.finish()
        wanted = {"done": TARGET, "cancelled": RETURNED}.get(state, {})
        problems = await problems_of(ground, before, wanted)
    expected = "never begun" if not begun else "cancelled" if recorded else "done"
    return problems if state == expected else [*problems, f"it is {state}, not {expected}"]


Grounds = Callable[[str], AbstractAsyncContextManager[Ground]]
"""A ground for one backend and its heir, by a name that no other has."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where stories are told, as often as it takes."""

    grounds: Grounds
    folder: Path
    more: tuple[str, ...] = ()
    """Options of the backends."""

    async def whole(self, story: Story) -> list[Boundary]:
        """The boundaries of a story."""
        async with self.grounds("whole") as ground:
            return await whole(ground, story, made(self.folder / "whole"), *self.more)

    async def killed(self, story: Story, at: Boundary) -> list[str]:
        """What is wrong after a backend was killed there; more than once it may not come there."""
        why, place = [], at
        for attempt in range(ATTEMPTS):
            name = f"{at.when}-{at.number}-{attempt}"
            folder = made(self.folder / name)
            try:
                async with self.grounds(name) as ground:
                    return await killed(ground, story, place, folder, *self.more)
            except Undecided as missed:
                why.append(f"undecided: {missed}")
                place = nearest(at, passed_by(folder / "one.passed"))
        return why


def nearest(at: Boundary, passed: Iterable[Boundary]) -> Boundary:
    """The boundary of the same kind in another run, which may have more or fewer before it.

    An operation that takes longer keeps more forecasts in the journal.
    """
    alike = (b for b in passed if (b.when, b.what) == (at.when, at.what))
    return min(alike, key=lambda b: abs(b.number - at.number), default=at)


@pytest.mark.conforms("kip-179:crash-in-the-middle", "kip-179:failover-of-a-backend")
@pytest.mark.parametrize("story", [MOVE, PAUSE, CANCEL], ids=lambda story: story.name)
async def test_wherever_a_backend_is_killed_its_heir_ends_what_it_began(
    story: Story, tmp_path: Path
) -> None:
    bench = Bench(embedded, tmp_path)
    boundaries = distinct(await bench.whole(story))
    assert {OPEN, *EFFECTS} - {b.verb for b in boundaries} <= story.without
    places = asyncio.Semaphore(AT_ONCE)
    problems: dict[str, list[str]] = {}

    async def one(at: Boundary) -> None:
        async with places:
            problems[str(at)] = await bench.killed(story, at)

    async with asyncio.TaskGroup() as group:
        for at in boundaries:
            group.create_task(one(at))
    assert len(problems) == len(boundaries)
    assert {at: found for at, found in problems.items() if found} == {}


async def test_an_intent_in_doubt_is_not_forgotten_by_the_one_that_wrote_it(tmp_path: Path) -> None:
    """Else it would be carried out when another backend finds it, perhaps days later."""
    async with (
        embedded("doubt") as ground,
        backend(ground, tmp_path, "one", "--at", "doubt:3", watched=True) as (_, client),
    ):
        before = await asyncio.to_thread(ground.seen)
        with pytest.raises(AssertionError, match="The answer is lost"):
            await start(client, ground)
        assert acknowledged(passed_by(tmp_path / "one.passed"), "reassign:starting")
        assert await Heir(client, begun=True, hurried=False).finish() == "done"
        assert await problems_of(ground, before, TARGET) == []


CHOSEN: Final = (
    (BEFORE, "append reassign:starting", 1),
    (AFTER, "append reassign:starting", 1),
    (AFTER, "lists", 1),
    (AFTER, "rates broker 3", 1),
    (BEFORE, "submit", 1),
    (BEFORE, "append reassign:running", 1),
    (AFTER, "append reassign:running", 1),
    (AFTER, "append throttled_rates:starting", 1),
    (BEFORE, "append reassign:lifting", 1),
    (AFTER, "lists", 2),
    (BEFORE, "append reassign:done", 1),
)
"""Before or after what, and the how manieth of its kind."""


@pytest.mark.kafka
async def test_on_kafka_too(kafka: RealKafka, tmp_path: Path) -> None:
    @asynccontextmanager
    async def ground(name: str) -> AsyncIterator[Ground]:
        async with prior_rates(kafka.bootstrap_servers):
            topic, journal = f"killed-{name}", f"__killed_{name}"
            yield await prepared(kafka.bootstrap_servers, kafka.cluster_id, topic, 40, journal)

    bench = Bench(ground, tmp_path, QUICK)
    boundaries = await bench.whole(MOVE)
    problems = {
        str(at): await bench.killed(MOVE, at)
        for at in (chosen(boundaries, *choice) for choice in CHOSEN)
    }
    assert {at: found for at, found in problems.items() if found} == {}


def chosen(boundaries: Iterable[Boundary], when: str, what: str, number: int) -> Boundary:
    alike = [b for b in boundaries if b.when == when and f"{b.what} ".startswith(f"{what} ")]
    return alike[number - 1]
