"""A topic that shrinks, in the dashboard: its wizard, its safety view, its watch, its name."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.shrink.check import Finding, Severity
from kshunt.backend.domain.shrink.phases import GroupShown, ShrinkPhase
from kshunt.backend.domain.topics.partitioners import KeyPlacing, Partitioner
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.intents.cut_over import CutOverScreen
from kshunt.tui.changes.intents.shrink import a_partitioner
from kshunt.tui.changes.wizard.command_line import NO_COMMAND
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.result import ErrorScreen, ResultScreen
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.views.operations.operation_dialog import WatchScreen
from tests.support.tui.app import Shown, at_step, dashboard, focused, go_through, press_at_random
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import incident
from tests.support.tui.shrinks import (
    ACTIVE,
    COPY,
    MOVING,
    SHORT,
    TOPIC,
    UNREAD,
    WRITING,
    Shrinking,
    check_of,
    choose,
    choose_orders,
    fill,
    progress_in,
    shrink_of,
    to_the_name,
    until,
    waiting,
)


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The partitions view with the cursor on `orders`, on a cluster that copies."""
    async with dashboard(tmp_path / "s", incident()) as running:
        await choose_orders(running)
        yield running


@pytest.fixture
def shrinking(shown: Shown) -> Shrinking:
    return Shrinking(shown.backend)


# From the key to an operation


async def test_a_shrink_is_looked_at_chosen_and_started(shown: Shown, shrinking: Shrinking) -> None:
    await fill(shown, "3", "1h30m", "yes", "found", "none", "too many")
    assert "It can start: nothing refuses it, 2 warnings." in shown.frame()
    assert "partitions 3 to 5: 999,012 records" in shown.frame()
    assert shown.backend.changes == []
    await go_through(shown)
    ((path, body),) = shown.backend.changes
    assert path == f"/v1/topics/{TOPIC}/shrink"
    assert (body["total_count"], body["delay_ms"], body["write_block"]) == (3, 5_400_000, True)
    assert (body["cut_over"], body["target"], body["insisted"]) == ("same-name", "", [])
    assert (body["reason"], body["cluster_id"]) == ("too many", shown.backend.cluster.cluster_id)
    await until(shown, "shrink op-1: running")
    await until(shown, "point of no return: orders is deleted")


async def test_into_a_new_name_nothing_is_deleted(shown: Shown, shrinking: Shrinking) -> None:
    await shown.press("minus")
    wizard = await at_step(shown, Step.GOAL)
    wizard.input(0).value, wizard.input(1).value = "3", "orders-v2"
    await shown.pilot.press("enter")
    await focused(shown, wizard.input(1))
    await shown.pilot.press("enter")
    await at_step(shown, Step.CHOICES)
    await choose(shown, wizard)
    await shown.pilot.press("pagedown")
    await until(shown, "Nothing is deleted: orders stays, read-only;")
    assert "NO RETURN" not in shown.frame()
    await go_through(shown)
    ((_, body),) = shown.backend.changes
    assert (body["cut_over"], body["target"]) == ("new-name", "orders-v2")
    assert body["partitioner"] is None


async def test_keys_of_several_partitioners_need_a_choice(
    shown: Shown, shrinking: Shrinking
) -> None:
    mixed = Finding("mixed-keys", Severity.REFUSE, "Its keys follow several partitioners.")
    shrinking.check = replace(check_of((mixed,)), placing=KeyPlacing.MIXED)
    wizard = await fill(shown)
    assert "It cannot start: 1 refusal." in shown.frame()
    assert "and they follow several" in " ".join(shown.frame().split())
    await shown.pilot.press("escape")
    await at_step(shown, Step.CHOICES)
    await until(shown, "found, or one of murmur2 (140), crc32 (21), fnv1a (18) of 140 keys")
    # The backend says by the choice what is left of it.
    shrinking.check = check_of(())
    await choose(shown, wizard, "5m", "no", "CRC32")
    await go_through(shown)
    ((_, body),) = shown.backend.changes
    assert body["partitioner"] == "crc32"


def test_a_partitioner_is_one_that_there_is() -> None:
    assert [a_partitioner(text) for text in ("", " Found ", "CRC32")] == [
        *(None, None, Partitioner.CRC32)
    ]
    with pytest.raises(BadInput, match="Type found, or one of murmur2, crc32, fnv1a"):
        a_partitioner("md5")


@pytest.mark.parametrize(
    ("count", "said"), [("6", "from 1 to 5"), ("0", "from 1 to 5"), ("x", "from 1 to 5")]
)
async def test_a_count_that_cannot_be_meant_is_said_at_once(
    shown: Shown, shrinking: Shrinking, count: str, said: str
) -> None:
    await shown.press("minus")
    wizard = await at_step(shown, Step.GOAL)
    wizard.input(0).value = count
    await shown.pilot.press("enter")
    await until(shown, said)
    await shown.pilot.press("escape")
    await shown.closed()
    assert shown.backend.asked == []


async def test_a_refusal_is_named_and_can_be_overruled_where_that_is_typed(
    shown: Shown, shrinking: Shrinking
) -> None:
    shrinking.check = check_of((SHORT, WRITING))
    wizard = await fill(shown)
    assert "It cannot start: 1 refusal, 1 warning." in shown.frame()
    assert "Overrule: retention-short." in shown.frame()
    await shown.pilot.press("enter")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("y")
    assert shown.backend.asked == []
    await shown.pilot.press("escape")
    await at_step(shown, Step.CHOICES)
    await until(shown, "none, or codes: retention-short")
    await choose(shown, wizard, "5m", "no", "found", "retention-short")
    assert "It can start: 1 refusal overruled, 1 warning." in shown.frame()
    await go_through(shown)
    ((_, body),) = shown.backend.changes
    assert body["insisted"] == ["retention-short"]


async def test_what_nobody_may_overrule_ends_it(shown: Shown, shrinking: Shrinking) -> None:
    shrinking.check = check_of((MOVING, SHORT))
    await fill(shown, "3", "5m", "no", "found", "reassigning, retention-short")
    assert "It cannot start: 1 refusal." in shown.frame()
    assert "Overrule: reassigning" not in shown.frame()
    await shown.pilot.press("enter")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("y", "y", "C")
    await shown.pilot.pause()
    assert shown.backend.asked == []
    assert not shown.app.clipboard, "what is refused has no command to copy"


@pytest.mark.parametrize(("support", "copies"), [("unsupported", True), ("disabled", False)])
async def test_its_command_is_offered_where_the_tool_copies_too(
    shown: Shown, shrinking: Shrinking, support: str, copies: bool
) -> None:
    shrinking.support = support
    await fill(shown)
    assert ("C copies the command" in shown.frame()) is copies
    await shown.pilot.press("C")
    said = "OSC 52" if copies else NO_COMMAND
    await shown.until(lambda: said in shown.frame(), "it is said")
    await shown.until(lambda: "y: Start it" in shown.frame(), "the keys stay in sight")
    await shown.until(lambda: "Esc goes back" in shown.frame(), "to the last one")


async def test_what_the_backend_refuses_besides_stands_first(
    shown: Shown, shrinking: Shrinking
) -> None:
    shrinking.refuses = Problem(409, "Operation op-7 shrinks orders already.", "Wait for its end.")
    wizard = await fill(shown)
    assert "It cannot start" in shown.frame()
    assert "Operation op-7 shrinks orders already." in shown.frame()
    shrinking.refuses = None
    await shown.pilot.press("enter")
    await until(shown, "It can start")
    assert wizard.step is Step.PREVIEW


async def test_the_whole_view_can_be_scrolled_to(shown: Shown, shrinking: Shrinking) -> None:
    await fill(shown)
    assert "more below" in shown.frame()
    await shown.pilot.press("pagedown", "pagedown", "j")
    await until(shown, "that is everything")
    assert "Unread there" in shown.frame()
    await shown.pilot.press("pageup", "pageup", "k")
    await until(shown, "more below")


async def test_a_shrink_is_about_one_topic(shown: Shown, shrinking: Shrinking) -> None:
    await shown.press("escape", "A", "minus")
    assert shown.said == "A shrink is about one topic; 4 topics are chosen here."


async def test_read_only_shows_what_would_be_and_sends_nothing(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident(), read_only=True) as shown:
        Shrinking(shown.backend)
        await choose_orders(shown)
        await fill(shown)
        assert "READ-ONLY" in shown.frame()
        await shown.pilot.press("enter", "y")
        assert [path for path, body in shown.backend.asked if not body["validate_only"]] == []


# A cluster that deletes partitions itself


async def test_a_native_delete_says_that_records_are_lost_and_wants_the_name(
    shown: Shown, shrinking: Shrinking
) -> None:
    shrinking.support = "enabled"
    shrinking.check = check_of(native=True)
    await shown.press("minus")
    wizard = await at_step(shown, Step.GOAL)
    await until(shown, "their records are LOST, not copied")
    wizard.input(0).value = "3"
    await shown.pilot.press("enter")
    await at_step(shown, Step.CHOICES)
    for place in range(1, 4):
        await focused(shown, wizard.input(place))
        await shown.pilot.press("enter")
    await at_step(shown, Step.PREVIEW)
    await until(shown, "These records are LOST: nothing is copied.")
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    assert "The records of 3 partitions are LOST in 5m00s: nothing is copied." in shown.frame()
    await shown.pilot.press("y", "enter")
    assert shown.backend.changes == []
    await shown.pilot.press("backspace")
    await shown.write(TOPIC)
    await shown.pilot.press("enter")
    await at_step(shown, Step.WATCH)
    ((path, body),) = shown.backend.changes
    assert path == "/v1/topics/delete-partitions"
    assert body["topics"] == [{"topic": TOPIC, "total_count": 3, "delay_ms": 300_000}]
    assert "can still be read" in shown.frame()


async def test_the_safety_view_leads_to_what_takes_partitions_away(
    shown: Shown, shrinking: Shrinking
) -> None:
    partition = TopicPartition(TOPIC, 5)
    state = shown.backend.cluster.partitions[partition]
    state.mode, state.deletes_ms = PartitionMode.READ_ONLY, shown.backend.cluster.now_ms + 10**6
    asked = shown.backend.cluster.note(
        OperationKind.DELETE_PARTITIONS, "shrink orders", partitions=(partition,), who="ada@bastion"
    )
    shown.backend.announce(asked)
    await shown.publish()
    await shown.until(lambda: shown.app.store.scene.operation("op-1"), "the operation is known")
    await fill(shown)
    assert "1 partition of orders leaves in 16m" in shown.frame()
    # The view behind is seen at both sides.
    assert re.search(r"operation op-1 by .*\n.* ada@bastion\.", shown.frame())
    assert "o shows what removes them" in shown.frame()
    await shown.pilot.press("o")
    await shown.closed()
    assert shown.app.current_mode == "operations"
    await shown.until(lambda: shown.cursor == "op-1", "the cursor is on it")
    assert shown.backend.changes == []


# Watching


async def test_the_last_step_is_live_and_its_keys_lead_on(
    shown: Shown, shrinking: Shrinking
) -> None:
    await fill(shown)
    await go_through(shown)
    await until(shown, "2 producers still write, the last 8 s ago")
    shrinking.show(shrink_of(progress_in(ShrinkPhase.COPY)))
    await shown.publish()
    await until(shown, "45%, ETA 3m00s to 5m00s")
    await shown.pilot.press("O", "u")
    assert isinstance(shown.app.screen, WizardScreen)
    shrinking.show(waiting())
    await shown.publish()
    await until(shown, "for you: O, then type orders.")
    await shown.pilot.press("O")
    await shown.dialog(CutOverScreen)


async def test_pausing_and_cancelling_say_what_becomes_of_a_shrink(
    shown: Shown, shrinking: Shrinking
) -> None:
    shrinking.show(shrink_of(progress_in(ShrinkPhase.COPY)))
    await shown.press("5")
    await until(shown, "c cancel")
    await shown.press("p")
    await shown.dialog(ConfirmScreen)
    assert "Its copy stops after the current batch" in shown.frame()
    await shown.pilot.press("y")
    await shown.dialog(ResultScreen)
    assert shown.backend.previewed == []
    await shown.pilot.press("escape")
    await shown.closed()
    await until(shown, "paused")
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    assert "The copy is dropped" in shown.frame()


async def test_the_whole_course_is_watched_from_its_row(shown: Shown, shrinking: Shrinking) -> None:
    shrinking.show(waiting())
    await shown.press("5")
    await until(shown, "O confirm")
    await shown.press("enter")
    await shown.dialog(WatchScreen)
    await until(shown, "✓ verify       2,000,000 records, equal")
    await shown.pilot.press("O")
    await shown.dialog(CutOverScreen)


async def test_home_says_who_is_waited_for_and_leads_there(
    shown: Shown, shrinking: Shrinking
) -> None:
    shrinking.show(waiting())
    await shown.press("1")
    await until(shown, "Shrink of orders waits until you type its name: 5, then O.")
    shrinking.show(
        shrink_of(
            progress_in(
                ShrinkPhase.SEAL, needs="groups", groups=(GroupShown("billing", 2, 7, False),)
            )
        )
    )
    await until(shown, "Shrink of orders waits for groups to stop: billing.")


# The name


async def test_only_the_name_cuts_over(shown: Shown, shrinking: Shrinking) -> None:
    await to_the_name(shown, shrinking)
    text = shown.frame()
    assert "This deletes topic orders; it is recreated with 3 partitions" in text
    assert f"Its 2,000,000 records are in {COPY}, verified" in text
    assert "billing: no members, reads 1,204 twice" in text
    await shown.pilot.press("enter")
    await shown.write("order")
    await shown.pilot.press("enter")
    await until(shown, "'order' is not orders; nothing was sent.")
    assert shown.backend.changes == []
    await shown.write("s")
    await shown.pilot.press("enter")
    await shown.dialog(ResultScreen)
    ((path, body),) = shown.backend.changes
    assert (path, body["typed"]) == ("/v1/operations/op-1/confirm", TOPIC)
    assert body["cluster_id"] == shown.backend.cluster.cluster_id
    await until(shown, "It is running: seal")


async def test_escape_cuts_nothing_over(shown: Shown, shrinking: Shrinking) -> None:
    await to_the_name(shown, shrinking)
    await shown.write(TOPIC)
    await shown.pilot.press("escape")
    await shown.closed()
    assert shown.backend.asked == []


async def test_what_somebody_else_has_confirmed_is_not_agreed_to_again(
    shown: Shown, shrinking: Shrinking
) -> None:
    await to_the_name(shown, shrinking)
    await shown.write("ord")
    shrinking.show(shrink_of(progress_in(ShrinkPhase.SEAL)))
    await until(shown, "It no longer waits for this: it is running, in seal.")
    await shown.write("ers")
    await shown.pilot.press("enter")
    await shown.closed()
    assert shown.backend.asked == []


async def test_a_shrink_that_was_cancelled_meanwhile_asks_no_more(
    shown: Shown, shrinking: Shrinking
) -> None:
    await to_the_name(shown, shrinking)
    shrinking.show(replace(waiting(), state=OperationState.CANCELLED, actions=()))
    await until(shown, "It no longer waits for this: it is cancelled.")


async def test_a_backend_that_is_gone_is_said_and_nothing_is_lost(
    shown: Shown, shrinking: Shrinking
) -> None:
    await to_the_name(shown, shrinking)
    await shown.backend.stop()
    await until(shown, "The connection is lost")
    await shown.write(TOPIC)
    await shown.pilot.press("enter")
    await shown.dialog(ErrorScreen)
    await shown.pilot.press("escape")
    await shown.backend.start()
    await shown.closed()
    assert shown.backend.changes == []


async def test_a_backend_that_goes_away_during_the_preview_can_be_asked_again(
    shown: Shown, shrinking: Shrinking
) -> None:
    await shown.press("minus")
    wizard = await at_step(shown, Step.GOAL)
    await shown.backend.stop()
    wizard.input(0).value = "3"
    await shown.pilot.press("enter")
    await focused(shown, wizard.input(1))
    await shown.pilot.press("enter")
    await at_step(shown, Step.CHOICES)
    await choose(shown, wizard)
    assert "nothing was changed" in shown.frame()
    await shown.backend.start()
    await shown.pilot.press("enter")
    await shown.until(lambda: wizard.ready, "it was asked again")


async def test_nothing_that_is_out_of_sight_is_agreed_to(
    shown: Shown, shrinking: Shrinking
) -> None:
    screen = await to_the_name(shown, shrinking)
    await shown.resize(80, 12)
    await until(shown, "Too small to confirm")
    await shown.write(TOPIC)
    await shown.pilot.press("enter")
    assert shown.backend.asked == []
    if shown.app.screen is not screen:
        return
    await shown.resize(80, 24)
    await shown.until(lambda: "Too small" not in shown.frame(), "it is large enough")


async def test_a_difference_after_the_copy_back_is_asked_about_in_its_own_words(
    shown: Shown, shrinking: Shrinking
) -> None:
    words = "orders differs from the copy; did producers already write to it? 3 records more"
    progress = progress_in(ShrinkPhase.VERIFY_BACK, needs="confirm", words=words)
    shrinking.show(shrink_of(progress))
    await shown.press("5")
    await until(shown, "O confirm")
    await shown.press("O")
    await shown.dialog(CutOverScreen)
    await until(shown, "did producers already")
    assert "This deletes" not in shown.frame()


# Any key, any size


@pytest.mark.slow
async def test_keys_in_any_order_change_nothing(shown: Shown, shrinking: Shrinking) -> None:
    keys = ["minus", "enter", "escape", "6", "tab", "O", "n", "j", "pagedown", "5", "p", "2", "w"]
    shrinking.show(waiting())
    shrinking.check = check_of((MOVING, SHORT, WRITING, ACTIVE, UNREAD))
    shown.backend.scripted[f"/v1/topics/{TOPIC}/shrink"] = shrinking._shrink
    read_only = replace(waiting(), actions=("confirm",))
    shrinking.show(read_only)
    await press_at_random(shown, lambda: keys, 120, 7)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(20, 5), (50, 10), (80, 15)])
async def test_what_is_typed_into_is_in_sight(tmp_path: Path, size: tuple[int, int]) -> None:
    async with dashboard(tmp_path / "s", incident(), size=size) as shown:
        Shrinking(shown.backend)
        await choose_orders(shown)
        await shown.press("minus")
        wizard = await at_step(shown, Step.GOAL)
        wizard.input(0).value = "3"
        for place in range(6):
            entry = wizard.input(place)
            await focused(shown, entry)

            def in_sight(entry: Input = entry) -> bool:
                return bool(shown.app.screen.find_widget(entry).visible_region.area)

            await shown.until(in_sight, f"field {place} is in sight")
            await shown.pilot.press("enter")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(20, 5), (30, 8), (80, 15)])
async def test_small_terminals_show_what_there_is_room_for(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with dashboard(tmp_path / "s", incident(), size=size) as shown:
        shrinking = Shrinking(shown.backend)
        await choose_orders(shown)
        await fill(shown)
        await go_through(shown)
        for phase in ShrinkPhase:
            shrinking.show(shrink_of(progress_in(phase)))
            await shown.publish()
        shrinking.show(waiting())
        await shown.publish()
        await shown.pilot.press("O")
        await shown.dialog(CutOverScreen)
