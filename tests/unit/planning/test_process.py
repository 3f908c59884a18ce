"""The processes that plan and rehearse for a backend: what goes wrong with one, and its end."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.goals import Goal
from kshunt.backend.domain.planning.requests import PlanRequest, RehearsalRequest
from kshunt.backend.errors import BadInput, Conflict, KshuntError
from kshunt.backend.limits import LIMITS
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.planning.planner_pool import COMMAND, Planners
from kshunt.backend.planning.question import LENGTH
from kshunt.backend.rehearsal.picture import Picture

HANGS = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
END_S = 30.0


def picture(partitions: int = 4) -> Picture:
    """Four brokers; a replica of each partition on two of them."""
    facts = [
        PartitionSituation(
            TopicPartition("t", number),
            (number % 4, (number + 1) % 4),
            number % 4,
            (number % 4, (number + 1) % 4),
            10**9,
            1e3,
        )
        for number in range(partitions)
    ]
    return Picture(Situation.of(facts, map(BrokerFacts, range(4))), cluster_id="c")


def away_from_0(found: Picture) -> Mapping[TopicPartition, tuple[int, ...]]:
    return {name: (2, 3) for name, row in found.situation.current().items() if 0 in row}


async def test_a_process_answers_and_is_gone() -> None:
    answer = await Planners().answer(picture(), PlanRequest(Goal.DRAIN, (0,)))
    assert not any(0 in target for target in answer.proposal.targets.values())
    assert answer.cluster_id == "c"


async def test_what_cannot_be_planned_comes_with_its_advice() -> None:
    with pytest.raises(BadInput, match="99"):
        await Planners().answer(picture(), PlanRequest(Goal.DRAIN, (99,)))


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [(TopicPartition("t", 9), (2, 3), "no partition t-9"), (TopicPartition("t", 0), (2, 9), "9")],
)
async def test_a_plan_of_what_is_not_there_starts_no_process(
    name: TopicPartition, target: tuple[int, ...], words: str
) -> None:
    question = RehearsalRequest({name: target}, deadline_ms=2**42)
    with pytest.raises(BadInput, match=words):
        await Planners(("/no/such/program",)).answer(picture(), question)


async def test_one_that_takes_too_long_is_ended() -> None:
    planners = Planners(HANGS, limit_s=0.2)
    with pytest.raises(Conflict, match="took more than"):
        await planners.answer(picture(), PlanRequest(Goal.LEADERS))


async def test_one_that_fails_leaves_its_last_words() -> None:
    planners = Planners((sys.executable, "-c", "raise SystemExit('no room left')"))
    with pytest.raises(KshuntError, match="no room left"):
        await planners.answer(picture(), PlanRequest(Goal.LEADERS))


async def test_who_gives_up_ends_it_and_makes_room(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    os.mkfifo(told)
    script = f"""
import os, pathlib, sys
pathlib.Path({str(told)!r}).write_text(str(os.getpid()))
sys.stdin.buffer.read()
"""
    planners = Planners((sys.executable, "-c", script))
    asking = asyncio.create_task(planners.answer(picture(), PlanRequest(Goal.LEADERS)))
    pid = int(await asyncio.to_thread(told.read_text))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_only_so_many_wait() -> None:
    planners = Planners(HANGS)
    question = PlanRequest(Goal.LEADERS)
    waiting = [
        asyncio.create_task(planners.answer(picture(), question))
        for _ in range(LIMITS.planners_waiting)
    ]
    await asyncio.sleep(0)
    with pytest.raises(Conflict, match="are already waiting"):
        await planners.answer(picture(), question)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def test_it_ends_with_whoever_asked() -> None:
    found = picture(4_000)
    question = RehearsalRequest(dict(away_from_0(found)), deadline_ms=2**42)
    data = pickle.dumps((found, question))
    for said in (LENGTH.pack(len(data)) + data, LENGTH.pack(len(data)) + data[:100], b"x"):
        done = subprocess.run(COMMAND, input=said, capture_output=True, timeout=END_S, check=False)
        assert (done.returncode, done.stdout) == (1, b"")
