"""Consumer groups of a topic that shrinks: foreseen, waited for, and moved on once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase
from kshunt.backend.operations.shrink.cut_over import GROUPS_AT_ONCE
from tests.support.shrink.one_topic_case import (
    LATE,
    TOPIC,
    does,
    is_shrunk,
    orders,
    outcome,
    run,
    said,
    ticks,
    to,
)
from tests.support.shrink.shrink_in_memory import PaperDriver

Phase = ShrinkPhase


def group_names(driver: PaperDriver) -> dict[str, tuple[int | None, bool]]:
    """Of each group, how much it will read twice, and whether it has gone on."""
    progress = driver.runner.progress(driver.operation, driver.work)
    return {one.name: (one.read_twice, one.committed) for one in progress.groups}


def test_what_a_group_would_read_twice_is_foreseen_and_looked_at_again(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def foresee(driver: PaperDriver) -> None:
        await ticks(3)(driver)
        looked_s = driver.runner._live[driver.operation_id].looked_s
        assert group_names(driver) == {"early": (0, False), "late": (0, False)}
        # Partition 2 is behind partition 0 in the copy, and this group has read it first.
        driver.cluster.committed[("odd", TOPIC)] = {0: 0, 1: 0, 2: 2, 3: 0}
        while driver.clock.seconds < looked_s + 10:
            assert "odd" not in group_names(driver), "ten seconds have not passed"
            await driver.tick()
        await ticks(2)(driver)
        assert group_names(driver)["odd"] == (2, False)

    run(driver, to(Phase.CONFIRM), foresee)


def test_a_machine_without_the_offset_map_foresees_nothing_and_waits_all_the_same(
    tmp_path: Path,
) -> None:
    driver = orders(tmp_path)

    async def elsewhere(driver: PaperDriver) -> None:
        for folder in driver.folder.iterdir():
            shutil.rmtree(folder)
        driver.begin()
        await ticks(3)(driver)
        assert driver.needs == "confirm"
        assert driver.runner._live[driver.operation_id].words == ""
        assert group_names(driver) == {"early": (None, False), "late": (None, False)}

    run(driver, to(Phase.CONFIRM), elsewhere, PaperDriver.to_end)
    is_shrunk(driver)


def test_a_group_without_positions_has_nowhere_to_go_on(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    driver.cluster.committed[("new", TOPIC)] = {}
    run(driver, PaperDriver.to_end)
    assert driver.operation.state is OperationState.DONE
    assert set(driver.work.groups) == {"early", "late"}


def test_so_many_groups_go_on_in_one_tick(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    for number in range(GROUPS_AT_ONCE):
        driver.cluster.committed[(f"g{number}", TOPIC)] = dict(LATE)

    async def count(driver: PaperDriver) -> None:
        while any(place.final is None for place in driver.work.groups.values()):
            await driver.tick()
        found = [sum(place.done for place in driver.work.groups.values())]
        while driver.work.phase is Phase.TRANSLATE:
            await driver.tick()
            found.append(sum(place.done for place in driver.work.groups.values()))
            if found[-1] == GROUPS_AT_ONCE:
                assert said(driver) == "20 consumer groups moved"
        assert found == [0, GROUPS_AT_ONCE, GROUPS_AT_ONCE + 2, GROUPS_AT_ONCE + 2]

    run(driver, to(Phase.TRANSLATE), count, PaperDriver.to_end)
    is_shrunk(driver)
    assert "; 22 consumer groups moved" in outcome(driver)


@pytest.mark.parametrize("code", [25, 27, 68])
def test_a_group_that_has_members_by_then_is_named_and_the_others_go_on(
    tmp_path: Path, code: int
) -> None:
    driver = orders(tmp_path)

    async def busy(driver: PaperDriver) -> None:
        while any(place.final is None for place in driver.work.groups.values()):
            await driver.tick()
        driver.cluster.refuses["groups.alter_offsets"] = ItemResult(code, "BUSY")
        await driver.tick()
        assert said(driver) == "these groups have members, stop them: early, late"
        assert driver.needs == "groups"
        assert not any(place.asked or place.done for place in driver.work.groups.values())
        driver.cluster.refuses.clear()

    run(driver, to(Phase.TRANSLATE), busy, PaperDriver.to_end)
    is_shrunk(driver)


@pytest.mark.parametrize(
    ("read_on", "done"), [({0: 1, 1: 1}, True), ({0: 4, 1: 3}, True), ({0: 0, 1: 9}, False)]
)
def test_a_group_that_reads_already_was_moved_if_it_is_no_further_back(
    tmp_path: Path, read_on: dict[int, int], done: bool
) -> None:
    """Its positions were committed, the answer was lost, and its consumers have begun."""
    driver = orders(tmp_path)

    async def lost(driver: PaperDriver) -> None:
        while any(place.final is None for place in driver.work.groups.values()):
            await driver.tick()
        driver.trail.breaks = lambda place: place == "before groups.alter_offsets"
        await driver.tick()
        driver.trail.breaks = lambda place: False
        assert driver.work.groups["early"].asked
        driver.cluster.committed[("early", TOPIC)] = dict(read_on)
        driver.cluster.reading.add("early")
        await driver.tick()
        assert driver.work.groups["early"].done is done
        assert group_names(driver)["early"] == (0, done)

    run(driver, to(Phase.TRANSLATE), lost)


def test_positions_in_the_deleted_topic_are_not_those_of_a_move(tmp_path: Path) -> None:
    """A coordinator that was down may still know them, and the answer of the move was lost."""
    driver = orders(tmp_path)
    former = {0: 2, 1: 2}

    async def lost(driver: PaperDriver) -> None:
        while any(place.final is None for place in driver.work.groups.values()):
            await driver.tick()
        driver.trail.breaks = lambda place: place == "before groups.alter_offsets"
        await driver.tick()
        driver.trail.breaks = lambda place: False
        place = driver.work.groups["early"]
        assert place.asked
        assert place.final == {0: 1, 1: 1}
        groups = {**driver.work.groups, "early": replace(place, committed={**former, 2: 0, 3: 0})}
        await driver.context.registry.put(
            driver.operation, shrink=replace(driver.work, groups=groups)
        )
        driver.cluster.committed[("early", TOPIC)] = dict(former)

    run(driver, to(Phase.TRANSLATE), lost, PaperDriver.to_end)
    is_shrunk(driver)


def test_a_group_that_was_not_asked_for_is_moved_even_if_it_is_further_on(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    def ahead(driver: PaperDriver) -> None:
        driver.cluster.committed[("early", TOPIC)] = {0: 5, 1: 3}

    run(driver, to(Phase.TRANSLATE), does(ahead), PaperDriver.to_end)
    is_shrunk(driver)


def test_a_broker_that_left_has_no_replica_of_the_topic_that_is_created_anew(
    tmp_path: Path,
) -> None:
    driver = orders(tmp_path)

    async def left(driver: PaperDriver) -> None:
        before = driver.work.assignment
        driver.cluster.refuses["topics.create"] = ItemResult(39, "INVALID_REPLICA_ASSIGNMENT")
        driver.cluster.brokers = (1, 2)
        await driver.tick()
        assert driver.work.assignment != before
        assert {frozenset(one) for one in driver.work.assignment} == {frozenset({1, 2})}
        driver.cluster.refuses.clear()

    run(driver, to(Phase.CREATE), left, PaperDriver.to_end)
    assert driver.operation.state is OperationState.DONE
    assert set(driver.cluster.topics_by_name[TOPIC].replicas) <= {(1, 2), (2, 1)}


def test_a_copy_that_is_slow_to_go_is_waited_for(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def slow(driver: PaperDriver) -> None:
        # It is said to be gone already, and is still there.
        driver.cluster.refuses["topics.delete"] = ItemResult(100, "UNKNOWN_TOPIC_ID")
        await ticks(3)(driver)
        assert said(driver) == "no step was taken: orders.kshunt-ID is being deleted."
        assert driver.needs == ""
        driver.cluster.refuses.clear()

    run(driver, to(Phase.CLEAN_UP), slow, PaperDriver.to_end)
    is_shrunk(driver)


def test_a_final_topic_that_somebody_replaced_is_left_alone(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    def replaced(driver: PaperDriver) -> None:
        del driver.cluster.topics_by_name[TOPIC]
        driver.cluster.create(TOPIC, [(1,)], retention_ms="5")

    run(driver, to(Phase.CLEAN_UP), does(replaced), PaperDriver.to_end)
    assert driver.operation.state is OperationState.DONE
    assert outcome(driver).endswith("; orders does not exist any more; nothing else was changed")
    assert driver.cluster.topics_by_name[TOPIC].configs == {"retention.ms": "5"}
    assert driver.work.copy in driver.cluster.topics_by_name
