"""Callers take turns at the planners, and none of them can fill the queue."""

from __future__ import annotations

import asyncio
import random

import pytest

from kshunt.backend.errors import Conflict
from kshunt.backend.planning.planner_queue import ANYBODY, PlannerQueue

SEED = 20


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


class Work:
    """Questions whose order of service is noted; each works until the test lets it end."""

    def __init__(self, turns: PlannerQueue) -> None:
        self.served: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.done: list[asyncio.Event] = []
        self._turns = turns

    async def ask(self, caller: str) -> asyncio.Task[None]:
        """One question."""
        task = asyncio.create_task(self._question(caller))
        self.tasks.append(task)
        await settle()
        return task

    async def _question(self, caller: str) -> None:
        async with self._turns.turn(caller):
            self.served.append(caller)
            self.done.append(asyncio.Event())
            await self.done[-1].wait()

    async def finish(self) -> None:
        """Let whatever works or comes to work end, one after the other."""
        at = 0
        while at < len(self.done):
            self.done[at].set()
            await settle()
            at += 1


async def test_one_caller_cannot_fill_the_queue() -> None:
    work = Work(PlannerQueue(1, 3, 8))
    for _ in range(3):
        await work.ask("greedy")
    with pytest.raises(Conflict, match="3 of your plans and rehearsals are already waiting"):
        await (await work.ask("greedy"))
    await work.ask("modest")
    await work.finish()
    assert work.served == ["greedy", "greedy", "modest", "greedy"]
    await work.ask("greedy")
    await work.finish()


async def test_callers_take_turns() -> None:
    work = Work(PlannerQueue(1, 3, 9))
    for caller in ("a", "a", "a", "b", "b", "c"):
        await work.ask(caller)
    await work.finish()
    assert work.served == ["a", "a", "b", "c", "a", "b"]


async def test_all_together_have_a_bound() -> None:
    work = Work(PlannerQueue(1, 3, 4))
    for caller in ("a", "b", "c", ANYBODY):
        await work.ask(caller)
    with pytest.raises(Conflict, match="4 plans and rehearsals are already waiting"):
        await (await work.ask("d"))
    await work.finish()


async def test_where_nobody_is_told_apart_only_the_bound_of_all_counts() -> None:
    work = Work(PlannerQueue(1, 3, 8))
    for _ in range(8):
        await work.ask(ANYBODY)
    with pytest.raises(Conflict, match="8 plans"):
        await (await work.ask(ANYBODY))
    await work.finish()
    assert len(work.served) == 8


async def test_no_place_is_lost_whoever_leaves_when() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        work = Work(PlannerQueue(2, 3, 8))
        for _ in range(8):
            await work.ask(chance.choice("abcd"))
            if chance.random() < 0.5:
                chance.choice(work.tasks).cancel()
            if chance.random() < 0.3 and work.done:
                chance.choice(work.done).set()
        await work.finish()
        await asyncio.gather(*work.tasks, return_exceptions=True)
        assert all(task.done() for task in work.tasks)
        # Both places are free again.
        served = len(work.served)
        await work.ask("x")
        await work.ask("y")
        assert work.served[served:] == ["x", "y"], SEED
        await work.finish()
