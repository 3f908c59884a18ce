"""A shrink on paper from start to end, where backends are lost and people change their minds."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase
from kshunt.backend.errors import NotActive
from kshunt.backend.operations.shrink.step import ShrinkMemory, ShrinkStep
from tests.support.shrink.cases import first
from tests.support.shrink.one_topic_case import (
    SETTINGS,
    TOPIC,
    is_as_before,
    is_shrunk,
    nothing_left,
    orders,
    outcome,
    run,
    ticks,
    to,
)
from tests.support.shrink.shrink_in_memory import PaperDriver

Phase = ShrinkPhase
NEW_NAME: dict[str, Any] = {"cut_over": CutOver.NEW_NAME, "target": "named"}


def test_a_topic_is_shrunk_and_keeps_its_name(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    run(driver, PaperDriver.to_end)
    assert driver.operation.state is OperationState.DONE
    assert outcome(driver) == "orders has 2 partitions, 8 records; 2 consumer groups moved"
    is_shrunk(driver)
    nothing_left(driver)
    assert driver.cluster.done == [
        "configs.alter",  # the source keeps its records
        "topics.create",
        "configs.alter",  # the seal
        "topics.delete",
        "groups.alter_offsets",  # of the job that copies back
        "topics.create",
        "groups.alter_offsets",
        "groups.alter_offsets",
        "configs.alter",  # as the source was
        "topics.delete",
    ]


def test_with_a_new_name_the_old_topic_stays_and_takes_no_records(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    run(driver, PaperDriver.to_end, **NEW_NAME)
    assert outcome(driver) == (
        "named has 2 partitions, 8 records; 2 consumer groups moved; "
        "orders stays, and accepts no records (max.message.bytes=78)"
    )
    is_shrunk(driver, "named")
    nothing_left(driver, TOPIC, "named")
    assert driver.cluster.topics_by_name[TOPIC].configs == {**SETTINGS, "max.message.bytes": "78"}


def test_a_topic_without_records_and_groups_is_shrunk(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    driver.cluster.topics_by_name[TOPIC].records = [[], [], [], []]
    driver.cluster.committed.clear()
    run(driver, PaperDriver.to_end)
    assert outcome(driver) == "orders has 2 partitions, 0 records"


def test_one_group_and_one_record_are_not_called_many(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    driver.cluster.topics_by_name[TOPIC].records = [["a"], [], [], []]
    driver.cluster.committed = {("early", TOPIC): {0: 0}}
    run(driver, PaperDriver.to_end)
    assert outcome(driver) == "orders has 2 partitions, 1 record; 1 consumer group moved"


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("changes", [{}, NEW_NAME, {"write_block": True}])
def test_a_backend_is_lost_once_at_every_place(
    tmp_path: Path, elsewhere: bool, changes: dict[str, Any]
) -> None:
    """After each write to the journal, and before and after each effect of each phase."""
    driver = orders(tmp_path, elsewhere=elsewhere)
    seen: set[Any] = set()

    def breaks(place: str) -> bool:
        phase = driver.work.phase if driver.operation_id else None
        return phase is not None and first((place, phase), seen)

    driver.trail.breaks = breaks
    run(driver, PaperDriver.to_end, **changes)
    assert driver.operation.state is OperationState.DONE, driver.operation.outcome
    assert len(seen) > 20
    is_shrunk(driver, changes.get("target", TOPIC))
    if not elsewhere:
        nothing_left(driver, *({TOPIC, "named"} if "target" in changes else ()))


CANCELLED_IN = [
    Phase.CHECK, Phase.QUIESCE, Phase.COPY, Phase.VERIFY, Phase.CONFIRM, Phase.SEAL,
    Phase.COPY_REST, Phase.VERIFY_REST,
]  # fmt: skip


@pytest.mark.parametrize("write_block", [False, True])
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("phase", CANCELLED_IN)
def test_it_is_cancelled_in_every_phase(
    tmp_path: Path, phase: ShrinkPhase, lost: bool, write_block: bool
) -> None:
    driver, seen = orders(tmp_path), set[str]()

    async def give_up(driver: PaperDriver) -> None:
        if lost:
            driver.trail.breaks = lambda place: first(place, seen)
        await driver.cancel()
        await driver.until()

    run(driver, to(phase), ticks(1 if phase is Phase.COPY else 0), give_up, write_block=write_block)
    assert driver.operation.state is OperationState.CANCELLED, driver.operation
    assert outcome(driver) == "cancelled; all of it was reverted"
    is_as_before(driver)
    nothing_left(driver)


@pytest.mark.parametrize(
    "phase",
    [Phase.QUIESCE, Phase.COPY, Phase.VERIFY, Phase.COPY_REST, Phase.VERIFY_REST, Phase.COPY_BACK,
     Phase.VERIFY_BACK],
)  # fmt: skip
def test_it_is_paused_and_goes_on(tmp_path: Path, phase: ShrinkPhase) -> None:
    driver = orders(tmp_path)

    async def pause(driver: PaperDriver) -> None:
        await driver.verbs.pause(driver.operation_id, Change())
        await ticks(3)(driver)
        assert driver.operation.state is OperationState.PAUSED
        assert driver.words == "paused; the copied records are kept"
        assert driver.work.phase is phase
        await driver.verbs.resume(driver.operation_id, Change())

    run(driver, to(phase), pause, PaperDriver.to_end)
    assert driver.operation.state is OperationState.DONE
    is_shrunk(driver)


def test_a_write_block_is_lifted_only_where_it_was_not_there_before(tmp_path: Path) -> None:
    for before in (False, True):
        driver = orders(tmp_path)
        driver.cluster.blocked = before
        run(driver, PaperDriver.to_end, write_block=True)
        assert driver.operation.state is OperationState.DONE
        assert driver.cluster.blocked is before
        assert ("write_blocks.create" in driver.cluster.done) is not before


@pytest.mark.parametrize("phase", CANCELLED_IN)
def test_a_backend_that_is_no_longer_active_changes_nothing(
    tmp_path: Path, phase: ShrinkPhase
) -> None:
    driver = orders(tmp_path)

    async def taken_over(driver: PaperDriver) -> None:
        driver.book.active = False
        before = list(driver.trail.done)
        for _ in range(5):
            with suppress(NotActive):
                await driver.tick()
        assert driver.trail.done == before

    run(driver, to(phase), taken_over)


def test_a_step_that_writes_nothing_still_needs_an_active_backend(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def put(driver: PaperDriver) -> None:
        tools = driver.runner._tools
        step = ShrinkStep(tools, driver.operation, driver.work, ShrinkMemory())
        await step.put()
        driver.book.active = False
        with pytest.raises(NotActive):
            await step.put()

    run(driver, to(Phase.COPY), put)
