"""What ends a shrink before its point of no return: it says why, and all is as it was before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus
from tests.support.shrink.one_topic_case import (
    EARLY,
    LATE,
    RECORDS,
    SETTINGS,
    TOPIC,
    does,
    is_as_before,
    orders,
    outcome,
    run,
    ticks,
    to,
)
from tests.support.shrink.shrink_in_memory import DENIED, PaperDriver

Phase = ShrinkPhase
Change = Callable[[PaperDriver], object]
BACK = "; all of it was reverted"
NOTHING = " Nothing was changed."
REPLICAS = [(1, 2), (2, 3), (3, 1), (1, 3)]


def refused(verb: str) -> Change:
    return lambda driver: driver.cluster.refuses.update({verb: DENIED})


def copy_exists(driver: PaperDriver) -> None:
    driver.cluster.create(driver.work.copy, [(1,)])


def copy_is_gone(driver: PaperDriver) -> None:
    del driver.cluster.topics_by_name[driver.work.copy]


def another_partition(driver: PaperDriver) -> None:
    topic = driver.cluster.topics_by_name[TOPIC]
    topic.replicas.append((1, 2))
    topic.records.append([])


def no_super_user(driver: PaperDriver) -> None:
    driver.cluster.may_write = False


def job(status: JobStatus, *, verify: bool) -> Change:
    """Jobs that copy, or that compare, come to this."""

    def answer(command: JobCommand) -> JobStatus | None:
        return status if command.verify is verify else None

    def change(driver: PaperDriver) -> None:
        driver.cluster.answers = answer

    return change


def compared(**said: Any) -> JobStatus:
    """A comparison of seven records with eight."""
    found = {"equal": False, "source_records": 7_000, "target_records": 8_000, **said}
    return JobStatus(ended="complete", verified=found)


@dataclass(frozen=True)
class Refusal:
    """Something that ends a shrink."""

    phase: ShrinkPhase
    change: Change
    words: str
    others: tuple[str, ...] = ()
    """Topics that somebody else created, which stay."""
    request: Mapping[str, Any] = field(default_factory=dict)
    ticks: int = 0


REFUSALS = [
    Refusal(
        Phase.CHECK,
        copy_exists,
        f"there is already a topic orders.kshunt-ID.{NOTHING}",
        others=("orders.kshunt-ID",),
    ),
    Refusal(
        Phase.QUIESCE,
        another_partition,
        f"orders has 5 partitions, but had 4 when the shrink began.{BACK}",
    ),
    Refusal(
        Phase.QUIESCE,
        no_super_user,
        "With the write block only super users can write, and kshunt is not one: it could not "
        f"copy orders back.{BACK}",
        request={"write_block": True},
    ),
    Refusal(
        Phase.QUIESCE,
        refused("write_blocks.create"),
        f"Blocking writes to orders: TOPIC_AUTHORIZATION_FAILED: not you{BACK}",
        request={"write_block": True},
    ),
    Refusal(
        Phase.COPY,
        copy_exists,
        f"orders.kshunt-ID was created by somebody else.{BACK}",
        others=("orders.kshunt-ID",),
    ),
    Refusal(
        Phase.COPY,
        refused("topics.create"),
        f"Creating orders.kshunt-ID: TOPIC_AUTHORIZATION_FAILED: not you{BACK}",
    ),
    Refusal(
        Phase.COPY,
        job(JobStatus(ended="failed", words="no Java"), verify=False),
        f"no Java{BACK}",
    ),
    Refusal(
        Phase.VERIFY,
        job(JobStatus(ended="complete"), verify=True),
        f"the verification gave no result{BACK}",
    ),
    Refusal(
        Phase.VERIFY,
        job(compared(), verify=True),
        "the topics are NOT equal: 7,000 records in the first, 8,000 in the second" + BACK,
    ),
    Refusal(
        Phase.VERIFY,
        job(
            compared(
                differing=[{"bucket": n} for n in range(10)],
                misordered=1_200,
                foreign=0,
                missing=["a", "b", "c", "d"],
                doubled=[],
            ),
            verify=True,
        ),
        "the topics are NOT equal: 7,000 records in the first, 8,000 in the second; buckets of "
        "keys that differ: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more; 1,200 misordered; missing: a, b, c "
        f"and 1 more{BACK}",
    ),
    Refusal(
        Phase.SEAL,
        refused("configs.alter"),
        "Sealing orders: TOPIC_AUTHORIZATION_FAILED: not you",
    ),
    Refusal(
        Phase.VERIFY_REST,
        job(compared(equal=True, positions={"0": 1}, target_ends={}), verify=True),
        f"the job compared other offsets than those of the sealed source{BACK}",
    ),
    Refusal(
        Phase.VERIFY_REST,
        refused("topics.delete"),
        "Deleting orders: TOPIC_AUTHORIZATION_FAILED: not you",
    ),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: f"{case.phase}: {case.words[:60]}")
def test_it_ends_with_the_reason_and_all_is_as_it_was(tmp_path: Path, case: Refusal) -> None:
    driver = orders(tmp_path)

    async def comes_to_nothing(driver: PaperDriver) -> None:
        for _ in range(10):
            if driver.operation.state is OperationState.LIFTING:
                break
            await driver.tick()
        driver.cluster.refuses.clear()
        await driver.until()

    wrote = case.phase is Phase.VERIFY_REST
    late = does(writes_one) if wrote else ticks(0)
    run(
        driver,
        to(Phase.CONFIRM if wrote else case.phase),
        late,
        to(case.phase),
        does(case.change),
        comes_to_nothing,
        **case.request,
    )
    assert driver.operation.state is OperationState.FAILED
    assert outcome(driver).startswith(case.words)
    assert outcome(driver).endswith((BACK, NOTHING))
    found = driver.cluster.topics_by_name.pop(TOPIC)
    assert found.configs == SETTINGS
    assert found.records[:3] == [list(words) for words in RECORDS[:3]]
    assert driver.cluster.committed == {("early", TOPIC): EARLY, ("late", TOPIC): LATE}
    others = {name.replace(driver.operation_id, "ID") for name in driver.cluster.topics_by_name}
    assert others == set(case.others)
    assert not driver.cluster.blocked
    assert list(driver.folder.iterdir()) == []


def writes_one(driver: PaperDriver) -> None:
    """Somebody writes once more before the seal."""
    driver.cluster.topics_by_name[TOPIC].records[3].append("d1")


@pytest.mark.parametrize("phase", [Phase.QUIESCE, Phase.COPY, Phase.CONFIRM, Phase.SEAL])
def test_a_source_that_is_gone_or_another_is_left_alone(tmp_path: Path, phase: ShrinkPhase) -> None:
    for anew, words in (
        (
            False,
            "orders does not exist any more: somebody deleted it.; orders does not exist any more",
        ),
        (
            True,
            "orders was deleted and created again by somebody else.; "
            "orders does not exist any more",
        ),
    ):
        driver = orders(tmp_path / str(anew))
        driver.folder.mkdir()

        def gone(driver: PaperDriver, anew: bool = anew) -> None:
            del driver.cluster.topics_by_name[TOPIC]
            if anew:
                driver.cluster.create(TOPIC, REPLICAS, retention_ms="5")

        run(driver, to(phase), does(gone), does(PaperDriver.begin), lambda driver: driver.until())
        copied = phase in (Phase.CONFIRM, Phase.SEAL)
        assert driver.operation.state is OperationState.FAILED
        assert outcome(driver) == words + ("; orders.kshunt-ID was kept" if copied else "")
        if anew:
            assert driver.cluster.topics_by_name[TOPIC].configs == {"retention.ms": "5"}
        assert (driver.work.copy in driver.cluster.topics_by_name) is copied


def test_a_copy_that_somebody_deletes_ends_it(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def deleted(driver: PaperDriver) -> None:
        while not driver.work.copy_id:
            await driver.tick()
        copy_is_gone(driver)
        # Another backend takes over.
        driver.begin()
        await driver.until()

    run(
        driver,
        does(job(JobStatus(running=True), verify=False)),
        to(Phase.COPY),
        deleted,
    )
    assert outcome(driver) == (
        f"orders.kshunt-ID does not exist any more: somebody deleted it.{BACK}"
    )
    is_as_before(driver)


def test_a_source_that_goes_before_the_first_look_changes_nothing(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    def gone(driver: PaperDriver) -> None:
        del driver.cluster.topics_by_name[TOPIC]

    run(driver, does(gone), lambda driver: driver.until())
    assert driver.operation.state is OperationState.FAILED
    assert outcome(driver).endswith(NOTHING)
    assert driver.cluster.done == []
