"""One topic that is shrunk on paper, and steps to take it to a phase."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from kshunt.backend.domain.shrink.phases import ShrinkPhase, ShrinkRequest
from tests.support.shrink.driver import TICKS_MAX
from tests.support.shrink.shrink_in_memory import PaperCluster, PaperDriver

Step = Callable[[PaperDriver], Awaitable[object]]
TOPIC: Final = "orders"
SETTINGS: Final = {"retention.ms": "86400000", "max.message.bytes": "500000"}
RECORDS: Final = (("a0", "a1", "a2"), ("b0", "b1"), ("c0", "c1"), ("d0",))
EARLY: Final = {0: 1, 1: 1, 2: 0, 3: 0}
LATE: Final = {0: 3, 1: 2, 2: 2, 3: 1}


def orders(folder: Path, **fields: Any) -> PaperDriver:
    """A topic of four partitions with records, and two groups at different places."""
    cluster = PaperCluster()
    topic = cluster.create(TOPIC, [(1, 2), (2, 3), (3, 1), (1, 3)], **SETTINGS)
    topic.records = [list(words) for words in RECORDS]
    cluster.committed = {("early", TOPIC): dict(EARLY), ("late", TOPIC): dict(LATE)}
    return PaperDriver("", folder, cluster=cluster, **fields)


def run(driver: PaperDriver, *steps: Step, delay_ms: int = 0, **changes: Any) -> None:
    """Start a shrink to two partitions, do these steps, and let go."""

    async def all_of_them() -> None:
        await driver.open()
        await driver.start(ShrinkRequest(TOPIC, 2, delay_ms, **changes))
        for step in steps:
            await step(driver)
        await driver.close()

    asyncio.run(all_of_them())


def to(phase: ShrinkPhase) -> Step:
    """Continue until it is in a phase; the topic's name is typed where that is asked for."""

    async def reach(driver: PaperDriver) -> None:
        for _ in range(TICKS_MAX):
            if driver.work.phase is phase:
                return
            assert not driver.operation.state.ended, driver.operation.outcome
            if driver.needs == "confirm":
                await driver.confirm()
            await driver.tick()
        raise AssertionError(f"it does not come to {phase}: {driver.words}")

    return reach


def ticks(count: int) -> Step:
    """That many ticks."""

    async def go_on(driver: PaperDriver) -> None:
        for _ in range(count):
            await driver.tick()

    return go_on


def does(change: Callable[[PaperDriver], object]) -> Step:
    """What somebody does to the cluster meanwhile."""

    async def done(driver: PaperDriver) -> None:
        change(driver)

    return done


def said(driver: PaperDriver) -> str:
    """What it does or waits for; its id as `ID`."""
    return driver.words.replace(driver.operation_id, "ID")


def outcome(driver: PaperDriver) -> str:
    """What came of it; its id as `ID`."""
    return driver.operation.outcome.replace(driver.operation_id, "ID")


def is_shrunk(driver: PaperDriver, topic: str = TOPIC) -> None:
    """Each record is there once and in order, and each group has before it what it had not read."""
    found = driver.cluster.topics_by_name[topic]
    assert found.records == [["a0", "a1", "a2", "c0", "c1"], ["b0", "b1", "d0"]]
    assert found.configs == SETTINGS
    assert driver.cluster.committed[("early", topic)] == {0: 1, 1: 1}
    assert driver.cluster.committed[("late", topic)] == {0: 5, 1: 3}


def is_as_before(driver: PaperDriver) -> None:
    """Nothing of the topic has changed."""
    found = driver.cluster.topics_by_name[TOPIC]
    assert found.records == [list(words) for words in RECORDS]
    assert found.configs == SETTINGS
    assert driver.cluster.committed == {("early", TOPIC): EARLY, ("late", TOPIC): LATE}


def nothing_left(driver: PaperDriver, *topics: str) -> None:
    """No topic, no group and no file of the shrink is there any more."""
    assert set(driver.cluster.topics_by_name) == {*topics} or {TOPIC}
    assert {name for name, _ in driver.cluster.committed} == {"early", "late"}
    assert not driver.cluster.blocked
    assert list(driver.folder.iterdir()) == []
