"""A topic is shrunk by a durable operation, whose backend is lost anywhere on the way."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kshunt.backend.domain.audit.lines import AuditEntry
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkRequest, phases_of
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.operations.audit.lines import read_audit
from kshunt.backend.operations.shrink import topic_settings
from kshunt.backend.operations.shrink.job_port import JobStatus
from kshunt.backend.operations.shrink.requests import shrink_actions
from tests.support.embedded.background import running
from tests.support.shrink import driver as shrink_driver
from tests.support.shrink.cases import (
    EARLY,
    PARTITIONS,
    PARTITIONS_LEFT,
    SETTINGS,
    Before,
    audit_is_true,
    committed,
    first,
    hunted,
    is_as_before,
    is_shrunk,
    made,
    nothing_left,
    overrides,
    request,
    run,
    started,
    unread,
)
from tests.support.shrink.check import QUIET, member, write
from tests.support.shrink.copied_topics import held
from tests.support.shrink.driver import Driver, Trail
from tests.support.topics import BROKER_DEADLINE_S, create_topic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with running(ClusterSpec(plain_brokers(3), native=False)) as handle:
        yield handle.bootstrap_servers


def test_a_topic_is_shrunk_and_keeps_its_name(servers: str, tmp_path: Path) -> None:
    before, driver = made(servers, "plain"), Driver(servers, tmp_path)
    run(driver, started("plain"), Driver.to_end)
    assert driver.done, driver.operation
    is_shrunk(before)
    nothing_left(before, driver)
    progress = driver.runner.progress(driver.operation, driver.work)
    assert {one.state for one in progress.phases} == {"done"}
    assert all(group.committed for group in progress.groups)
    lines = [one for one in read_audit(driver.book.state) if isinstance(one, AuditEntry)]
    told = [(str(one.event), one.outcome.split(" ")[0]) for one in lines]
    assert told == [
        ("requested", "shrink"),
        ("started", ""),
        ("changed", "the"),
        ("changed", "verified;"),
        ("changed", "the"),
        ("changed", "the"),
        ("ended", "done:"),
    ]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
def test_a_backend_is_lost_once_at_every_place(
    servers: str, tmp_path: Path, elsewhere: bool
) -> None:
    """After each write to the journal, and before and after each effect of each phase."""
    hunted(servers, tmp_path, elsewhere=elsewhere)


@pytest.mark.parametrize("seed", range(2))
def test_a_backend_is_lost_at_any_place(servers: str, tmp_path: Path, seed: int) -> None:
    dice, topic = random.Random(seed), f"random-{seed}"
    before = made(servers, topic)
    driver = Driver(servers, tmp_path)
    driver.trail = Trail(breaks=lambda place: bool(driver.operation_id) and dice.random() < 0.15)
    driver.__post_init__()
    run(driver, started(topic), Driver.to_end)
    assert driver.done, (seed, driver.operation)
    is_shrunk(before)
    audit_is_true(before, driver)
    nothing_left(before, driver)


@pytest.mark.parametrize(
    ("phase", "lost"),
    [
        (ShrinkPhase.CHECK, False),
        (ShrinkPhase.QUIESCE, False),
        (ShrinkPhase.COPY, True),
        (ShrinkPhase.VERIFY, False),
        (ShrinkPhase.CONFIRM, True),
        (ShrinkPhase.SEAL, False),
        (ShrinkPhase.COPY_REST, False),
        (ShrinkPhase.VERIFY_REST, True),
    ],
)
def test_it_is_cancelled_in_every_phase(
    servers: str, tmp_path: Path, phase: ShrinkPhase, lost: bool
) -> None:
    topic = f"given-up-{phase.replace(' ', '-')}-{lost}"
    before, driver = made(servers, topic), Driver(servers, tmp_path)

    async def reach(driver: Driver) -> None:
        while driver.work.phase is not phase:
            await driver.tick()
            if driver.needs == "confirm" and phase is not ShrinkPhase.CONFIRM:
                await driver.confirm()
        seen: set[str] = set()
        if lost:
            driver.trail.breaks = lambda place: first(place, seen)
        await driver.cancel()
        await driver.until()

    run(driver, started(topic), reach)
    assert driver.operation.state is OperationState.CANCELLED, driver.operation
    is_as_before(before)
    audit_is_true(before, driver)
    nothing_left(before, driver)


def test_with_a_new_name_the_old_topic_stays_and_takes_no_records(
    servers: str, tmp_path: Path
) -> None:
    before, driver = made(servers, "renamed"), Driver(servers, tmp_path)
    run(driver, started("renamed", cut_over=CutOver.NEW_NAME, target="named"), Driver.to_end)
    assert driver.done, driver.operation
    is_shrunk(before, "named")
    assert held(servers, "renamed") == before.records
    assert overrides(servers, "renamed") == {**SETTINGS, **topic_settings.SEAL}
    nothing_left(before, driver)
    phases = [one.phase for one in driver.runner.progress(driver.operation, driver.work).phases]
    assert phases == list(phases_of(CutOver.NEW_NAME))


def test_what_is_written_after_the_verification_is_copied_too(servers: str, tmp_path: Path) -> None:
    made(servers, "late")
    driver = Driver(servers, tmp_path)

    async def write_more(driver: Driver) -> None:
        await driver.until("confirm")
        await asyncio.to_thread(write, servers, "late", {0: 3, 3: 2})

    run(driver, started("late"), write_more)
    before = Before(servers, "late", held(servers, "late"))
    run_on(driver)
    assert driver.done, driver.operation
    after = held(servers, "late")
    assert Counter(r.content for r in after) == Counter(r.content for r in before.records)
    found = committed(servers, "late", "late-early", PARTITIONS_LEFT)
    assert unread(after, found) >= before.unread(EARLY)
    nothing_left(before, driver)


def run_on(driver: Driver) -> None:
    """Another backend takes it to its end."""
    run(driver, Driver.to_end)


def test_a_record_that_gets_in_after_the_seal_is_copied_too(servers: str, tmp_path: Path) -> None:
    """One that is as small as a transaction's marker; or somebody takes the seal off."""
    made(servers, "leaky")
    driver = Driver(servers, tmp_path)

    async def leak(driver: Driver) -> None:
        await driver.until("confirm")
        await driver.confirm()
        while driver.work.phase is not ShrinkPhase.VERIFY_REST:
            await driver.tick()
        opened: Mapping[str, str | None] = {"max.message.bytes": None}
        await driver.admin.configs.alter("leaky", opened, timeout_s=10.0)
        await asyncio.to_thread(write, servers, "leaky", {1: 1})

    run(driver, started("leaky"), leak)
    before = Before(servers, "leaky", held(servers, "leaky"))
    run_on(driver)
    assert driver.done, driver.operation
    assert Counter(r.content for r in held(servers, "leaky")) == before.unread({})
    assert overrides(servers, "leaky") == SETTINGS
    nothing_left(before, driver)


def test_groups_with_members_are_waited_for(servers: str, tmp_path: Path) -> None:
    before, driver = made(servers, "read"), Driver(servers, tmp_path)

    async def wait_for_it(driver: Driver) -> None:
        await driver.until("confirm")
        await driver.confirm()
        await driver.until("groups")
        assert "read-early" in driver.words
        assert (
            overrides_now(await driver.admin.configs.overrides("read", timeout_s=10.0)) == "500000"
        )

    run(driver, started("read"))
    with member(servers, "read-early", "read"):
        run(driver, wait_for_it)
    run_on(driver)
    assert driver.done, driver.operation
    is_shrunk(before)


def overrides_now(found: Mapping[str, str] | None) -> str | None:
    return (found or {}).get("max.message.bytes")


def test_a_group_that_reads_the_new_topic_already_is_waited_for(
    servers: str, tmp_path: Path
) -> None:
    before, driver = made(servers, "eager"), Driver(servers, tmp_path)

    async def reach(driver: Driver) -> None:
        await driver.until("confirm")
        await driver.confirm()
        while driver.work.phase is not ShrinkPhase.TRANSLATE:
            await driver.tick()

    async def wait_for_it(driver: Driver) -> None:
        await driver.until("groups")
        assert "eager-early" in driver.words
        assert driver.work.groups["eager-late"].done

    run(driver, started("eager"), reach)
    with member(servers, "eager-early", "eager"):
        run(driver, wait_for_it)
    run_on(driver)
    assert driver.done, driver.operation
    is_shrunk(before)
    nothing_left(before, driver)


def test_a_copy_that_differs_ends_it_and_the_source_is_whole(servers: str, tmp_path: Path) -> None:
    before, driver = made(servers, "spoilt"), Driver(servers, tmp_path)

    async def spoil(driver: Driver) -> None:
        while driver.work.phase is not ShrinkPhase.VERIFY:
            await driver.tick()
        producer = Producer({**QUIET, "bootstrap.servers": servers})
        place = ("kshunt-source", b"9:9")
        producer.produce(driver.work.copy, b"foreign", headers=[place], partition=0)
        assert await asyncio.to_thread(producer.flush, BROKER_DEADLINE_S) == 0
        await driver.until()

    run(driver, started("spoilt"), spoil)
    assert driver.operation.state is OperationState.FAILED
    assert "NOT equal" in driver.operation.outcome
    assert "buckets of keys that differ: 7" in driver.operation.outcome
    is_as_before(before)
    nothing_left(before, driver)


def test_a_comparison_that_cannot_be_made_is_waited_for_and_the_copy_is_kept(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, driver = made(servers, "unread"), Driver(servers, tmp_path)
    compare = shrink_driver._compared
    failed = JobStatus(ended="failed", words="there is no connector")

    async def mended(driver: Driver) -> None:
        monkeypatch.setattr(shrink_driver, "_compared", lambda servers, command: failed)
        await driver.until("operator")
        assert "there is no connector" in driver.words
        assert "cancel" in shrink_actions(driver.operation, driver.work)
        monkeypatch.setattr(shrink_driver, "_compared", compare)
        await driver.to_end()

    run(driver, started("unread"), mended)
    assert driver.done, driver.operation
    is_shrunk(before)


def test_a_producer_that_writes_into_the_new_topic_is_told_of_and_nothing_is_lost(
    servers: str, tmp_path: Path
) -> None:
    before, driver = made(servers, "woken"), Driver(servers, tmp_path)

    async def wake(driver: Driver) -> None:
        await driver.until("confirm")
        await driver.confirm()
        while driver.work.phase is not ShrinkPhase.COPY_BACK:
            await driver.tick()
        await asyncio.to_thread(write, servers, "woken", {0: 1}, key=b"woken")
        await driver.until("confirm")
        assert "NOT equal" in driver.words
        with pytest.raises(Conflict, match="cannot be cancelled any more"):
            await driver.cancel()
        # Compared once more, it is no other.
        await driver.verbs.pause(driver.operation_id, Change())
        while driver.operation.state is not OperationState.PAUSED:
            await driver.tick()
        await driver.verbs.resume(driver.operation_id, Change())
        await driver.tick()
        assert not driver.work.differs
        await driver.until("confirm")
        assert "NOT equal" in driver.words
        await driver.confirm()
        await driver.until()

    run(driver, started("woken"), wake)
    assert driver.done, driver.operation
    is_shrunk(before, extra=1)
    assert "stays" in driver.operation.outcome
    assert len(held(servers, driver.work.copy)) == len(before.records)


def test_somebody_creates_the_topic_before_it_is_created_anew(servers: str, tmp_path: Path) -> None:
    before, driver = made(servers, "taken"), Driver(servers, tmp_path)

    async def take(driver: Driver) -> None:
        await driver.until("confirm")
        await driver.confirm()
        while driver.work.phase is not ShrinkPhase.CREATE:
            await driver.tick()
        await asyncio.to_thread(create_topic, servers, "taken", [[1]])
        await driver.until("operator")
        assert "somebody created taken again" in driver.words
        await driver.admin.topics.delete("taken", timeout_s=10.0)
        await driver.until()

    run(driver, started("taken"), take)
    assert driver.done, driver.operation
    is_shrunk(before)
    nothing_left(before, driver)


def test_what_cannot_be_meant_changes_nothing(servers: str, tmp_path: Path) -> None:
    before, driver = made(servers, "refused"), Driver(servers, tmp_path)
    create_topic(servers, "compacted", [[1], [2]], {"cleanup.policy": "compact"})

    async def refused(driver: Driver) -> None:
        for wanted, kind in (
            (ShrinkRequest("nosuch", 1, 0), BadInput),
            (ShrinkRequest("refused", 0, 0), BadInput),
            (ShrinkRequest("refused", PARTITIONS, 0), BadInput),
            (ShrinkRequest("refused", 1, -1), BadInput),
            (ShrinkRequest("refused", 1, 0, target="other"), BadInput),
            (ShrinkRequest("refused", 1, 0, CutOver.NEW_NAME), BadInput),
            (ShrinkRequest("refused", 1, 0, CutOver.NEW_NAME, "refused"), BadInput),
            (ShrinkRequest("refused", 1, 0, keyless="?"), BadInput),
            (ShrinkRequest("compacted", 1, 0), Conflict),
        ):
            with pytest.raises(kind):
                await driver.verbs.start(wanted, Change())
        only = await driver.verbs.start(request("refused"), Change(validate_only=True))
        assert only.operation_id is None
        assert any("POINT OF NO RETURN" in note for note in only.notes)

    run(driver, refused)
    assert driver.book.state.entries == {}
    is_as_before(before)


def test_a_topic_without_records_is_shrunk(servers: str, tmp_path: Path) -> None:
    create_topic(servers, "empty", [[1], [2], [3]], SETTINGS)
    driver = Driver(servers, tmp_path)
    run(driver, started("empty"), Driver.to_end)
    assert driver.done, driver.operation
    before = Before(servers, "empty", [])
    assert held(servers, "empty") == []
    assert overrides(servers, "empty") == SETTINGS
    nothing_left(before, driver)


def test_only_one_shrink_of_a_topic_runs_and_only_its_name_agrees(
    servers: str, tmp_path: Path
) -> None:
    before, driver = made(servers, "once"), Driver(servers, tmp_path)

    async def twice(driver: Driver) -> None:
        with pytest.raises(Conflict, match="already"):
            await driver.verbs.start(request("once"), Change())
        with pytest.raises(Conflict, match="confirm is not possible"):
            await driver.verbs.confirm(driver.operation_id, "once", Change())
        await driver.until("confirm")
        for typed in ("", "Once", "once ", "other"):
            with pytest.raises(BadInput):
                await driver.verbs.confirm(driver.operation_id, typed, Change())
        await driver.cancel()
        await driver.until()

    run(driver, started("once"), twice)
    is_as_before(before)


def test_it_is_paused_and_goes_on(servers: str, tmp_path: Path) -> None:
    before, driver = made(servers, "paused"), Driver(servers, tmp_path)

    async def pause(driver: Driver) -> None:
        while driver.work.phase is not ShrinkPhase.VERIFY:
            await driver.tick()
        await driver.verbs.pause(driver.operation_id, Change())
        for _ in range(5):
            await driver.tick()
        assert driver.operation.state is OperationState.PAUSED
        assert driver.work.phase is ShrinkPhase.VERIFY
        await driver.verbs.resume(driver.operation_id, Change())
        await driver.to_end()

    run(driver, started("paused"), pause)
    assert driver.done, driver.operation
    is_shrunk(before)
    nothing_left(before, driver)
