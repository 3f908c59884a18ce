"""What a shrink does once more: jobs that end early, copies of what came meanwhile, the seal."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase
from kshunt.backend.domain.topics.groups import ActiveProducer
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus
from kshunt.backend.operations.shrink.preparation import ROUNDS_MAX, SMALL_RECORDS
from kshunt.backend.operations.shrink.step import LogEnds, topic_id_digits
from tests.support.shrink.one_topic_case import (
    SETTINGS,
    TOPIC,
    does,
    is_shrunk,
    nothing_left,
    orders,
    outcome,
    run,
    said,
    ticks,
    to,
)
from tests.support.shrink.shrink_in_memory import PaperDriver

Phase = ShrinkPhase
LOST = JobStatus(ended="failed", words="no broker", retriable=True)


def wrote(driver: PaperDriver, partition: int, *words: str) -> None:
    driver.cluster.topics_by_name[TOPIC].records[partition] += words


def test_a_job_is_begun_again_after_a_pause_that_doubles(tmp_path: Path) -> None:
    driver, begun_s = orders(tmp_path), list[float]()

    def fails(command: JobCommand) -> JobStatus:
        begun_s.append(driver.clock.seconds)
        return LOST

    driver.cluster.answers = fails
    run(driver, to(Phase.COPY), ticks(200))
    pauses = [round(after - before) for before, after in pairwise(begun_s)]
    assert pauses == [5, 10, 20, 40, 60, 60]


def test_a_job_that_succeeds_meanwhile_begins_with_the_short_pause(tmp_path: Path) -> None:
    driver, begun_s = orders(tmp_path), list[float]()
    left = {"copy": 2, "verify": 1}

    def fails(command: JobCommand) -> JobStatus | None:
        kind = "verify" if command.verify else "copy"
        begun_s.append(driver.clock.seconds)
        left[kind] -= 1
        return LOST if left[kind] >= 0 else None

    driver.cluster.answers = fails
    run(driver, to(Phase.CONFIRM))
    pauses = [round(after - before) for before, after in pairwise(begun_s)]
    assert pauses == [5, 10, 1, 5]


@pytest.mark.parametrize(
    ("more", "rounds"), [(SMALL_RECORDS, 1), (SMALL_RECORDS + 1, 2)], ids=["small", "large"]
)
def test_what_came_meanwhile_is_copied_before_the_seal_where_it_is_much(
    tmp_path: Path, more: int, rounds: int
) -> None:
    driver, written = orders(tmp_path), list[int]()

    def busy(command: JobCommand) -> JobStatus | None:
        if not written:
            written.append(more)
            wrote(driver, 1, *(f"late{n}" for n in range(more)))
        return None

    driver.cluster.answers = busy
    run(driver, to(Phase.VERIFY))
    assert driver.work.rounds == rounds
    copied = sum(map(len, driver.cluster.topics_by_name[driver.work.copy].records))
    assert copied == 8 + (more if rounds == 2 else 0)


def test_a_writer_that_is_quicker_is_sealed_first(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    def busy(command: JobCommand) -> JobStatus | None:
        wrote(driver, 1, *(f"late{n}" for n in range(SMALL_RECORDS + 1)))
        return None

    driver.cluster.answers = busy
    run(driver, to(Phase.VERIFY))
    assert driver.work.rounds == ROUNDS_MAX


def test_what_came_after_the_comparison_is_copied_and_compared_too(tmp_path: Path) -> None:
    driver, commands = orders(tmp_path), list[JobCommand]()

    def noted(command: JobCommand) -> None:
        commands.append(command)

    driver.cluster.answers = noted
    run(
        driver,
        to(Phase.CONFIRM),
        does(lambda driver: wrote(driver, 1, "b2")),
        PaperDriver.to_end,
        keyless="as-source",
    )
    assert outcome(driver).startswith("orders has 2 partitions, 9 records")
    kinds = [("verify" if one.verify else "copy", one.strip_header) for one in commands]
    assert kinds == [
        *(("copy", False), ("verify", False)) * 2,
        *(("copy", True), ("verify", True)),
    ]
    assert [one.until for one in commands] == [
        {0: 3, 1: 2, 2: 2, 3: 1}, None, {0: 3, 1: 3, 2: 2, 3: 1}, None, {0: 5, 1: 4}, None,
    ]  # fmt: skip
    assert {one.keyless for one in commands if not one.verify and not one.strip_header} == {
        "as-source"
    }
    assert len({one.folder for one in commands}) == 2


def test_nothing_is_copied_twice_where_nothing_came(tmp_path: Path) -> None:
    driver, commands = orders(tmp_path), list[bool]()

    def noted(command: JobCommand) -> None:
        commands.append(command.verify)

    driver.cluster.answers = noted
    run(driver, PaperDriver.to_end)
    assert commands == [False, True, False, True]
    is_shrunk(driver)


@pytest.mark.parametrize("undone", [False, True], ids=["a record came", "the seal is off"])
def test_a_seal_that_did_not_hold_is_put_on_anew(tmp_path: Path, undone: bool) -> None:
    driver = orders(tmp_path)

    def leaks(driver: PaperDriver) -> None:
        if undone:
            del driver.cluster.topics_by_name[TOPIC].configs["max.message.bytes"]
        else:
            wrote(driver, 1, "late")

    async def anew(driver: PaperDriver) -> None:
        await driver.tick()
        assert said(driver) == (
            "new records arrived, or the seal was removed; kshunt seals the source again"
        )
        assert (driver.work.phase, driver.work.sealed) == (Phase.SEAL, None)
        await driver.to_end()

    run(driver, to(Phase.VERIFY_REST), does(leaks), anew)
    assert driver.operation.state is OperationState.DONE
    assert len(driver.cluster.topics_by_name[TOPIC].records[1]) == (3 if undone else 4)
    nothing_left(driver)


def test_the_ends_of_a_sealed_source_have_to_stand_still_for_two_seconds(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    seen = list[tuple[ShrinkPhase, str]]()

    async def still(driver: PaperDriver) -> None:
        for _ in range(3):
            await driver.tick()
            seen.append((driver.work.phase, said(driver)))

    run(driver, to(Phase.SEAL), still)
    waits = (Phase.SEAL, "the source is sealed; kshunt waits until its log ends do not change")
    assert seen[:2] == [waits, waits]
    assert seen[2][0] is Phase.COPY_REST


# Until nobody writes


def test_who_writes_to_partitions_that_go_is_named(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def waits(driver: PaperDriver) -> None:
        await driver.tick()
        assert said(driver) == "no record for 0s of 30s"
        await driver.tick()
        wrote(driver, 3, "late")
        wrote(driver, 0, "stays")
        now_ms = driver.clock.now_ms()
        lately = ActiveProducer(7, 0, now_ms - 1_000)
        driver.cluster.producers = {
            1: (replace(lately, producer_id=1),),  # of a partition that stays
            2: (lately, replace(lately, producer_id=8, last_ms=now_ms - 1_001)),
            3: (replace(lately, producer_id=9, transactional_id="billing"),),
        }
        await driver.tick()
        words = "last written: partition 3, by producer 7, billing"
        assert said(driver) == f"no record for 0s of 30s; {words}"
        assert driver.needs == "producers"
        await ticks(29)(driver)
        assert said(driver) == f"no record for 29s of 30s; {words}"
        progress = driver.runner.progress(driver.operation, driver.work)
        assert progress.phases[1].done == 29_000
        await driver.tick()
        assert driver.work.phase is Phase.COPY

    run(driver, to(Phase.QUIESCE), waits, delay_ms=30_000)


def test_log_ends_stand_still_from_the_first_look_and_from_each_move() -> None:
    ends, seen = LogEnds(), list[tuple[float, tuple[int, ...]]]()
    for found, now_s in (
        ({0: 5, 1: 5}, 100.0),
        ({0: 5, 1: 5}, 103.0),
        ({0: 5, 1: 6}, 104.0),
        ({0: 5}, 105.0),  # a leader that is silent for a moment has moved nothing
    ):
        seen.append((ends.still_s(found, now_s), ends.moved))
    assert seen == [(0.0, ()), (3.0, ()), (0.0, (1,)), (0.0, (1,))]


def test_what_is_compared_again_on_demand_is_no_other(tmp_path: Path) -> None:
    """A producer wrote the new topic: somebody agrees, and the copy is kept."""
    driver = orders(tmp_path)

    async def woken(driver: PaperDriver) -> None:
        wrote(driver, 0, "woken")
        await driver.until("confirm")
        assert "9 in the second" in driver.words
        await driver.verbs.pause(driver.operation_id, Change())
        await ticks(3)(driver)
        await driver.verbs.resume(driver.operation_id, Change())
        await driver.tick()
        assert (driver.work.differs, driver.work.verified_back) == ("", None)
        await driver.until("confirm")
        only = await driver.verbs.confirm(driver.operation_id, TOPIC, Change(validate_only=True))
        assert only.results[0].message.startswith(
            "continues after its point of no return (verify back), "
            "although the topics are NOT equal"
        )
        assert only.notes == ()
        await driver.confirm()
        assert driver.work.accepted
        await driver.verbs.pause(driver.operation_id, Change())
        await ticks(3)(driver)
        await driver.verbs.resume(driver.operation_id, Change())
        await driver.tick()
        assert driver.work.differs, "what was accepted stays so"
        await driver.to_end()

    run(driver, to(Phase.COPY_BACK), woken)
    assert driver.operation.state is OperationState.DONE
    assert outcome(driver).endswith("; orders.kshunt-ID stays, because orders differs from it")
    assert driver.work.copy in driver.cluster.topics_by_name


def test_a_setting_that_brokers_are_slow_to_learn_is_written_once(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    driver.cluster.unlearnt.add(1)
    run(driver, to(Phase.COPY), ticks(4))
    assert driver.cluster.done == ["configs.alter"]


def test_source_and_copy_keep_every_record_while_they_are_copied(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    run(driver, to(Phase.VERIFY))
    keeps = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
    topics = driver.cluster.topics_by_name
    assert topics[TOPIC].configs == {**SETTINGS, **keeps}
    assert topics[driver.work.copy].configs == {
        **keeps,
        "max.message.bytes": "500100",
        "message.timestamp.before.max.ms": str(2**63 - 1),
        "message.timestamp.type": "CreateTime",
    }


def test_a_topic_is_deleted_by_its_id_where_it_has_one() -> None:
    assert topic_id_digits("AAAAAAAAAAAAAAAAAAAAAQ") == "0" * 31 + "1"
    assert topic_id_digits("") == ""
