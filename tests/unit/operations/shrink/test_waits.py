"""What a shrink waits for: each phase says so and for whom, and continues once it is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.phases import ShrinkPhase
from kshunt.backend.operations.shrink.job_port import JobStatus
from tests.support.shrink.one_topic_case import (
    TOPIC,
    does,
    is_shrunk,
    nothing_left,
    orders,
    run,
    said,
    ticks,
    to,
)
from tests.support.shrink.shrink_in_memory import DENIED, LATER, PaperDriver

Phase = ShrinkPhase
Change = Callable[[PaperDriver], object]


def slow(*brokers: int) -> Change:
    """Brokers that have not learnt of what was written last."""
    return lambda driver: driver.cluster.unlearnt.update(brokers)


def learnt(driver: PaperDriver) -> None:
    driver.cluster.unlearnt.clear()


def silent(*partitions: int) -> Change:
    """Leaders that do not say where their partitions end."""
    return lambda driver: driver.cluster.silent.update(partitions)


def heard(driver: PaperDriver) -> None:
    driver.cluster.silent.clear()


def reads(*groups: str) -> Change:
    return lambda driver: driver.cluster.reading.update(groups)


def stopped(driver: PaperDriver) -> None:
    driver.cluster.reading.clear()


def job(status: JobStatus) -> Change:
    """Jobs that stand like this."""

    def change(driver: PaperDriver) -> None:
        driver.cluster.answers = lambda command: status

    return change


def own_jobs(driver: PaperDriver) -> None:
    driver.cluster.answers = lambda command: None


def open_transaction(driver: PaperDriver) -> None:
    driver.cluster.transactions[2] = 1


def committed(driver: PaperDriver) -> None:
    driver.cluster.transactions.clear()


def not_replicated(driver: PaperDriver) -> None:
    driver.cluster.unreplicated[3] = 1


def replicated(driver: PaperDriver) -> None:
    driver.cluster.unreplicated.clear()


def unknown_group(driver: PaperDriver) -> None:
    driver.cluster.unread["group slow"] = "no answer"


def known_group(driver: PaperDriver) -> None:
    driver.cluster.unread.clear()


def foreign_topic(driver: PaperDriver) -> None:
    driver.cluster.create(TOPIC, [(1,)])


def no_foreign_topic(driver: PaperDriver) -> None:
    del driver.cluster.topics_by_name[TOPIC]


def refused(verb: str) -> Change:
    return lambda driver: driver.cluster.refuses.update({verb: DENIED})


def unanswered(verb: str) -> Change:
    return lambda driver: driver.cluster.refuses.update({verb: LATER})


def allowed(driver: PaperDriver) -> None:
    driver.cluster.refuses.clear()


@dataclass(frozen=True)
class Wait:
    """Something that a shrink waits for."""

    phase: ShrinkPhase
    begins: Change
    words: str
    ends: Change
    needs: str = ""
    ticks: int = 2


ANEW = (
    "somebody created orders again (auto.create.topics.enable?); the operation continues when "
    "that topic is deleted; every record is in orders.kshunt-ID"
)
UNSTARTED = JobStatus(running=True)
HALF = JobStatus(running=True, records_done=3, records_total=8)
OVER = JobStatus(running=True, records_done=9, records_total=8)
NO_BROKER = JobStatus(ended="failed", words="no broker", retriable=True)
NO_JAVA = JobStatus(ended="failed", words="no Java")
KILLED = JobStatus(ended="stopped")
REFUSED = "TOPIC_AUTHORIZATION_FAILED: not you"

WAITS = [
    Wait(
        Phase.QUIESCE,
        silent(3),
        "the log ends of the partitions to remove are unknown: a leader does not answer",
        heard,
    ),
    Wait(
        Phase.COPY,
        slow(1),
        "brokers are learning that the source keeps its records",
        learnt,
    ),
    Wait(
        Phase.COPY,
        silent(0),
        "no step was taken: The log ends of orders are unknown: silence",
        heard,
    ),
    Wait(
        Phase.COPY,
        unknown_group,
        "no step was taken: Not all of its consumer groups are known: group slow: no answer",
        known_group,
    ),
    Wait(
        Phase.COPY,
        unanswered("configs.alter"),
        "no step was taken: Keeping the records of orders: REQUEST_TIMED_OUT: nobody answered",
        allowed,
    ),
    Wait(
        Phase.COPY,
        unanswered("topics.create"),
        "no step was taken: Creating orders.kshunt-ID: REQUEST_TIMED_OUT: nobody answered",
        allowed,
    ),
    Wait(Phase.COPY, job(UNSTARTED), "the job is starting", own_jobs, ticks=4),
    Wait(Phase.COPY, job(HALF), "5 records left to copy", own_jobs, ticks=4),
    Wait(Phase.COPY, job(OVER), "0 records left to copy", own_jobs, ticks=4),
    Wait(
        Phase.COPY, job(NO_BROKER), "the job starts again in a moment: no broker", own_jobs, ticks=4
    ),
    Wait(
        Phase.COPY,
        job(KILLED),
        "the job starts again in a moment: somebody else stopped it",
        own_jobs,
        ticks=4,
    ),
    Wait(Phase.VERIFY, job(UNSTARTED), "orders and orders.kshunt-ID are compared", own_jobs),
    Wait(
        Phase.VERIFY,
        job(NO_JAVA),
        "the job starts again in a moment: no Java",
        own_jobs,
        needs="operator",
    ),
    Wait(
        Phase.SEAL,
        reads("late", "early"),
        "these groups have members, stop them: early, late",
        stopped,
        needs="groups",
    ),
    Wait(Phase.SEAL, slow(3), "brokers are learning that the source accepts no records", learnt),
    Wait(
        Phase.SEAL,
        silent(1),
        "the log ends of the source are unknown: a leader does not answer",
        heard,
    ),
    Wait(
        Phase.SEAL,
        open_transaction,
        "a transaction is open on partition 2",
        committed,
        needs="producers",
    ),
    Wait(
        Phase.SEAL,
        not_replicated,
        "the last records of partition 3 are being replicated",
        replicated,
    ),
    Wait(
        Phase.SEAL,
        unanswered("configs.alter"),
        "no step was taken: Sealing orders: REQUEST_TIMED_OUT: nobody answered",
        allowed,
    ),
    Wait(
        Phase.VERIFY_REST,
        reads("late"),
        "these groups have members, stop them: late",
        stopped,
        needs="groups",
    ),
    Wait(
        Phase.VERIFY_REST,
        silent(2),
        "no step was taken: The log ends of orders are unknown.",
        heard,
    ),
    Wait(
        Phase.VERIFY_REST,
        unanswered("topics.delete"),
        "no step was taken: Deleting orders: REQUEST_TIMED_OUT: nobody answered",
        allowed,
    ),
    Wait(Phase.DELETE, slow(2), "brokers are learning that the source is deleted", learnt),
    Wait(Phase.CREATE, foreign_topic, ANEW, no_foreign_topic, needs="operator"),
    Wait(Phase.CREATE, slow(2), "brokers are learning of orders", learnt),
    Wait(
        Phase.CREATE,
        refused("groups.alter_offsets"),
        f"no step was taken: Setting the first offset of kshunt-shrink-ID-back: {REFUSED}",
        allowed,
        needs="operator",
    ),
    Wait(
        Phase.CREATE,
        refused("topics.create"),
        f"no step was taken: Creating orders: {REFUSED}",
        allowed,
        needs="operator",
    ),
    Wait(Phase.COPY_BACK, job(HALF), "5 records left to copy", own_jobs),
    Wait(
        Phase.COPY_BACK,
        job(NO_JAVA),
        "the job starts again in a moment: no Java",
        own_jobs,
        needs="operator",
    ),
    Wait(Phase.VERIFY_BACK, job(HALF), "orders.kshunt-ID and orders are compared", own_jobs),
    Wait(
        Phase.TRANSLATE,
        reads("early"),
        "these groups have members, stop them: early",
        stopped,
        needs="groups",
        ticks=4,
    ),
    Wait(
        Phase.TRANSLATE,
        refused("groups.alter_offsets"),
        f"no step was taken: Moving group early: {REFUSED}",
        allowed,
        needs="operator",
        ticks=4,
    ),
    Wait(
        Phase.CLEAN_UP,
        refused("configs.alter"),
        f"no step was taken: Restoring the settings of orders: {REFUSED}",
        allowed,
        needs="operator",
    ),
    Wait(
        Phase.CLEAN_UP,
        refused("topics.delete"),
        f"no step was taken: Deleting orders.kshunt-ID: {REFUSED}",
        allowed,
        needs="operator",
    ),
    Wait(
        Phase.CLEAN_UP,
        refused("groups.delete"),
        f"no step was taken: Deleting group kshunt-shrink-ID: {REFUSED}",
        allowed,
        needs="operator",
    ),
]


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: f"{wait.phase}: {wait.words[:60]}")
def test_it_says_what_it_waits_for_and_goes_on(tmp_path: Path, wait: Wait) -> None:
    driver = orders(tmp_path)

    async def waits(driver: PaperDriver) -> None:
        for _ in range(3):
            await driver.tick()
            now = driver.runner._live[driver.operation_id]
            assert (said(driver) or now.words, now.needs) == (wait.words, wait.needs)

    steps = (to(wait.phase), does(wait.begins), ticks(wait.ticks), waits, does(wait.ends))
    # A job that runs is another one from then on.
    again = does(PaperDriver.begin)
    run(driver, *steps, again, PaperDriver.to_end)
    assert driver.operation.state is OperationState.DONE, driver.operation.outcome
    is_shrunk(driver)
    nothing_left(driver)
