"""A shrink that somebody asks for, agrees to or steers: what is answered, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.delete_partitions import DELAY_MS_MAX, NO_DELAY
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkRequest
from kshunt.backend.domain.topics.partitioners import KeysSeen, Partitioner
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.operations.operation_control import OperationControl
from kshunt.backend.operations.reassignment.cancelling import Cancellations
from kshunt.backend.operations.reassignment.runner import ReassignmentRunner
from kshunt.backend.operations.reassignment.starting import Reassignments
from kshunt.backend.operations.shrink.job_port import JobCommand
from kshunt.backend.operations.shrink.requests import shrink_actions
from kshunt.backend.operations.state.shrink_work import ShrinkWork
from tests.support.shrink.one_topic_case import TOPIC, orders, outcome, run, ticks, to
from tests.support.shrink.shrink_in_memory import PaperDriver

Phase, State = ShrinkPhase, OperationState
NEW_NAME: dict[str, Any] = {"cut_over": CutOver.NEW_NAME, "target": "named"}
LONG = "x" * 240
NOTHING = "nothing was changed."


def asked(
    driver: PaperDriver, call: Callable[[PaperDriver], Awaitable[ChangeAnswer]]
) -> ChangeAnswer:
    """What a backend answers; its operation's id as `ID`."""

    async def opened() -> ChangeAnswer:
        await driver.open()
        answer = await call(driver)
        await driver.close()
        return answer

    return asyncio.run(opened())


def start(driver: PaperDriver, request: ShrinkRequest, *, dry: bool = True) -> ChangeAnswer:
    return asked(driver, lambda one: one.verbs.start(request, Change(validate_only=dry)))


@dataclass(frozen=True)
class Refused:
    """A request that cannot be meant, or not be carried out now."""

    request: dict[str, Any]
    words: str
    kind: type[Exception] = BadInput
    change: Callable[[PaperDriver], object] = field(default=lambda driver: None)


def may_not_write(driver: PaperDriver) -> None:
    driver.cluster.may_write = False


def no_acls(driver: PaperDriver) -> None:
    driver.cluster.alone = True


REFUSED = [
    Refused({"delay_ms": -1}, f"A delay of -1 ms is not valid; {NOTHING}"),
    Refused({"delay_ms": DELAY_MS_MAX + 1}, f"A delay of {2**53 + 1} ms is not valid; {NOTHING}"),
    Refused({"keyless": "?"}, f"keyless must be one of round-robin, as-source; {NOTHING}"),
    Refused({"target": "x"}, f"A target is named, but the topic is to keep its name; {NOTHING}"),
    *(
        Refused(
            {**NEW_NAME, "target": target},
            f"For a new name, the target must be another topic; {NOTHING}",
        )
        for target in ("", TOPIC)
    ),
    Refused({"topic": "none"}, f"There is no topic none; {NOTHING}"),
    Refused({"topic": LONG}, "is longer than 249 characters"),
    Refused(
        NEW_NAME,
        "There is already a topic named. Nothing was changed.",
        Conflict,
        lambda driver: driver.cluster.create("named", [(1,)]),
    ),
    Refused(
        {"write_block": True},
        "kshunt is not authorized to write orders. Nothing was changed.",
        Conflict,
        may_not_write,
    ),
    Refused({"write_block": True}, "There is no ACL for orders.", Conflict, no_acls),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.words[:40])
def test_what_cannot_be_meant_changes_nothing(tmp_path: Path, case: Refused) -> None:
    driver = orders(tmp_path)
    driver.cluster.create(LONG, [(1,), (2,), (3,)])
    case.change(driver)
    request = ShrinkRequest(**{"topic": TOPIC, "total_count": 2, "delay_ms": 0, **case.request})
    with pytest.raises(case.kind) as refused:
        start(driver, request, dry=False)
    assert case.words in str(refused.value)
    assert driver.book.state.entries == {}


MIXED = KeysSeen(100, 3, {Partitioner.MURMUR2: 75, Partitioner.CRC32: 60})


def test_keys_of_several_partitioners_need_a_choice(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    driver.cluster.seen = MIXED
    with pytest.raises(Conflict, match="follow several partitioners") as refused:
        start(driver, ShrinkRequest(TOPIC, 2, 0), dry=False)
    assert "Choose the partitioner to copy by: murmur2, crc32, fnv1a." in refused.value.advice
    # It cannot be insisted upon without a choice.
    with pytest.raises(Conflict):
        start(driver, ShrinkRequest(TOPIC, 2, 0, insisted=("mixed-keys",)), dry=False)
    assert driver.book.state.entries == {}
    chosen = ShrinkRequest(TOPIC, 2, 0, partitioner=Partitioner.CRC32)
    answer = start(driver, chosen)
    assert "It places keys by crc32." in answer.notes
    assert any("The copy places all keys by crc32" in one for one in answer.warnings)


def test_the_copy_goes_by_the_partitioner_that_was_found(tmp_path: Path) -> None:
    driver, commands = orders(tmp_path), list[JobCommand]()
    driver.cluster.seen = KeysSeen(100, 3, {Partitioner.FNV1A: 100})

    def noted(command: JobCommand) -> None:
        commands.append(command)
        # Other keys come meanwhile; the shrink stays with what it began with.
        driver.cluster.seen = MIXED

    driver.cluster.answers = noted
    run(driver, PaperDriver.to_end)
    assert outcome(driver).startswith("orders has 2 partitions")
    copies = [one for one in commands if not one.verify and not one.strip_header]
    assert {one.partitioner for one in copies} == {Partitioner.FNV1A}


def test_the_longest_delay_and_the_longest_name_can_be_meant(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    # With a dot, `kshunt-` and the eight digits of an operation it has 249 characters.
    longest = "x" * (249 - len(".kshunt-12345678"))
    driver.cluster.create(longest, [(1,), (2,), (3,)])
    assert start(driver, ShrinkRequest(longest, 2, DELAY_MS_MAX)).results[0].message
    driver.cluster.create(longest + "x", [(1,), (2,), (3,)])
    with pytest.raises(BadInput, match="longer than 249"):
        start(driver, ShrinkRequest(longest + "x", 2, 0))


BEFORE = "It copies and compares the records; then it waits until you type the topic's name."
GROUPS = (
    "Then its groups must have no members, and the brokers reject producers (max.message.bytes=78)."
)
NO_RETURN = (
    "POINT OF NO RETURN: then kshunt deletes orders, creates it again with 1 partition, "
    "and copies the records back. Until then you can undo everything."
)
STOP = (
    "A producer that still runs may write between the records that are copied back: stop all "
    "producers before you type the name."
)
DENIED = "During the operation only super users may write orders (ACL)."
READ_ONLY = "orders stays, read-only. In named each record has one more header, kshunt-source."
WAITS = "It waits until the partitions to remove had no new records for 1m00s."


@pytest.mark.parametrize(
    ("request_", "notes"),
    [
        ({}, (NO_DELAY, BEFORE, GROUPS, NO_RETURN, STOP)),
        ({"delay_ms": 60_000}, (WAITS, BEFORE, GROUPS, NO_RETURN, STOP)),
        ({"write_block": True}, (DENIED, BEFORE, GROUPS, NO_RETURN)),
        (
            {"write_block": True, "delay_ms": 60_000},
            (DENIED, WAITS, BEFORE, GROUPS, NO_RETURN),
        ),
        (NEW_NAME, (NO_DELAY, BEFORE, GROUPS, READ_ONLY)),
    ],
)
def test_what_would_be_done_is_said_and_nothing_is_written(
    tmp_path: Path, request_: dict[str, Any], notes: tuple[str, ...]
) -> None:
    driver = orders(tmp_path)
    request = ShrinkRequest(**{"topic": TOPIC, "total_count": 1, "delay_ms": 0, **request_})
    answer = start(driver, request)
    through = request_.get("target", "orders.kshunt-ID")
    assert answer.results[0].message == f"4 partitions become 1, through {through}"
    assert (answer.validate_only, answer.operation_id, answer.notes) == (True, None, notes)
    assert answer.results[0].error_code == 0
    assert [one.split(":")[0] for one in answer.warnings] == [
        "Its records have keys (9 of the 9 records seen)"
    ]
    assert driver.book.state.entries == {}


def test_what_is_begun_is_named_after_what_it_does(tmp_path: Path) -> None:
    driver = orders(tmp_path)
    run(driver, **NEW_NAME)
    operation = driver.operation
    assert operation.summary == "shrink orders to 2 partitions as named"
    assert [str(one) for one in operation.partitions] == ["orders-2", "orders-3"]
    assert driver.work.current == 4


def test_only_one_shrink_of_a_topic_or_its_copy_runs(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def others(driver: PaperDriver) -> None:
        for wanted in (
            ShrinkRequest(TOPIC, 1, 0),
            ShrinkRequest(driver.work.copy, 1, 0),
            ShrinkRequest("other", 1, 0, CutOver.NEW_NAME, TOPIC),
        ):
            with pytest.raises(Conflict) as refused:
                await driver.verbs.start(wanted, Change())
            assert str(refused.value).startswith(
                f"Operation {driver.operation_id} already shrinks orders, through "
                f"orders.kshunt-{driver.operation_id}. Nothing was changed."
            )
        answer = await driver.verbs.start(ShrinkRequest("other", 1, 0), Change())
        assert not answer.validate_only

    driver.cluster.create("other", [(1,), (2,)])
    run(driver, to(Phase.CONFIRM), others)


# Agreeing and steering


def test_the_name_is_typed_exactly_and_who_agreed_is_kept(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def agree(driver: PaperDriver) -> None:
        verbs, id = driver.verbs, driver.operation_id
        with pytest.raises(BadInput, match="'Orders' is not the name of the topic"):
            await verbs.confirm(id, "Orders", Change())
        with pytest.raises(BadInput, match="There is no operation none; nothing was changed"):
            await verbs.confirm("none", TOPIC, Change())
        before = driver.work
        only = await verbs.confirm(id, TOPIC, Change(validate_only=True))
        assert only.results[0].message == "is cut over (confirm)"
        assert only.notes == (GROUPS, NO_RETURN.replace("1 partition,", "2 partitions,"))
        assert (only.validate_only, driver.work) == (True, before)
        answer = await verbs.confirm(id, TOPIC, Change(who="ada", reason="too many"))
        assert (answer.validate_only, answer.operation_id) == (False, id)
        assert (only.results[0].error_code, answer.results[0].error_code) == (0, 0)
        assert answer.results[0].message == "continues: ada: too many"
        assert driver.work.confirmed == "ada: too many"
        with pytest.raises(
            Conflict,
            match=r"confirm is not possible. Nothing was changed. Possible actions: cancel",
        ):
            await verbs.confirm(id, TOPIC, Change())

    run(driver, to(Phase.COPY), to_confirm, agree)


async def to_confirm(driver: PaperDriver) -> None:
    await driver.until("confirm")


def test_a_shrink_is_steered_by_the_verbs_of_every_operation(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def steer(driver: PaperDriver) -> None:
        context = driver.context
        runner, cancellations = ReassignmentRunner(context), Cancellations(context)
        moves = Reassignments(context, runner, cancellations)
        control = OperationControl(context, moves, runner, driver.verbs)
        seen = []
        await control.pause(driver.operation_id, Change())
        seen.append(driver.operation.state)
        await ticks(2)(driver)
        seen.append(driver.operation.state)
        await control.resume(driver.operation_id, Change())
        seen.append(driver.operation.state)
        await control.cancel(driver.operation_id, Change(), timeout_s=1.0)
        seen.append(driver.operation.state)
        assert seen == [State.PAUSING, State.PAUSED, State.RESUMING, State.CANCELLING]
        with pytest.raises(BadInput, match="There is no operation gone"):
            await control.pause("gone", Change())

    run(driver, to(Phase.COPY), steer)


def test_a_change_that_is_only_looked_at_steers_nothing(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def look(driver: PaperDriver) -> None:
        dry = Change(validate_only=True)
        before = driver.operation
        cancel = await driver.verbs.cancel(driver.operation_id, dry)
        assert cancel.results[0].message == (
            "all of it is reverted; orders stays as it is, and orders.kshunt-"
            f"{driver.operation_id} is deleted"
        )
        pause = await driver.verbs.pause(driver.operation_id, dry)
        assert "the copied records are kept" in pause.results[0].message
        assert (cancel.validate_only, pause.validate_only) == (True, True)
        assert cancel.results[0].error_code == 0
        assert (driver.operation, driver.work.cancelled) == (before, False)
        done = await driver.verbs.pause(driver.operation_id, Change(who="ada", reason="lunch"))
        assert not done.validate_only
        assert driver.operation.state is State.PAUSING
        assert not driver.work.cancelled

    run(driver, to(Phase.COPY), look)


def test_what_is_past_its_point_of_no_return_cannot_be_cancelled(tmp_path: Path) -> None:
    driver = orders(tmp_path)

    async def refused(driver: PaperDriver) -> None:
        with pytest.raises(Conflict, match=r"cannot be cancelled any more: orders was deleted"):
            await driver.cancel()

    run(driver, to(Phase.CREATE), refused)

    async def ended(driver: PaperDriver) -> None:
        await driver.to_end()
        with pytest.raises(Conflict, match=r"cancel is not possible.*No action on it is possible"):
            await driver.cancel()

    again = orders(tmp_path)
    run(again, ended)


ALWAYS = ("cancel",)
PAUSES = ("pause", "cancel")


@pytest.mark.parametrize(
    ("phase", "actions"),
    [
        (Phase.CHECK, ALWAYS),
        (Phase.QUIESCE, PAUSES),
        (Phase.COPY, PAUSES),
        (Phase.VERIFY, PAUSES),
        (Phase.CONFIRM, ("confirm", "cancel")),
        (Phase.SEAL, ALWAYS),
        (Phase.COPY_REST, PAUSES),
        (Phase.VERIFY_REST, PAUSES),
        (Phase.DELETE, ()),
        (Phase.CREATE, ()),
        (Phase.COPY_BACK, ("pause",)),
        (Phase.VERIFY_BACK, ("pause",)),
        (Phase.TRANSLATE, ()),
        (Phase.CLEAN_UP, ()),
    ],
)
def test_what_can_be_done_in_each_phase(phase: ShrinkPhase, actions: tuple[str, ...]) -> None:
    work = ShrinkWork(ShrinkRequest(TOPIC, 2, 0), 4, "copy", phase)
    operation = Operation("ab", OperationKind.SHRINK, State.RUNNING, 1, "shrink")
    assert shrink_actions(operation, work) == actions
    for state in (State.PAUSING, State.PAUSED):
        held = shrink_actions(replace(operation, state=state), work)
        assert held == ("resume", *(name for name in actions if name == "cancel"))
    for state in (State.LIFTING, State.CANCELLING, State.DONE, State.FAILED):
        assert shrink_actions(replace(operation, state=state), work) == ()


def test_a_new_name_can_be_given_up_until_groups_go_on_to_it() -> None:
    operation = Operation("ab", OperationKind.SHRINK, State.RUNNING, 1, "shrink")
    request = ShrinkRequest(TOPIC, 2, 0, **NEW_NAME)
    for phase, there in ((Phase.VERIFY_REST, True), (Phase.TRANSLATE, False)):
        work = ShrinkWork(request, 4, "named", phase)
        assert ("cancel" in shrink_actions(operation, work)) is there


def test_what_differs_is_confirmed_once_more() -> None:
    operation = Operation("ab", OperationKind.SHRINK, State.RUNNING, 1, "shrink")
    work = ShrinkWork(ShrinkRequest(TOPIC, 2, 0), 4, "copy", Phase.VERIFY_BACK, differs="one more")
    assert shrink_actions(operation, work) == ("confirm", "pause")
    assert shrink_actions(operation, replace(work, accepted=True)) == ("pause",)
