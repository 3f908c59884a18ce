"""The frame of every wizard: forth and back, typed names, what an election changes, the audit."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import OperationDetails, OperationState
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledReplicas
from kshunt.backend.errors import BadInput
from kshunt.tui.actions import ACTIONS, use_keys
from kshunt.tui.changes.intents.audit import audit_wizard
from kshunt.tui.changes.intents.election import election_wizard
from kshunt.tui.changes.intents.leader_skew import leader_skew, skew_lines
from kshunt.tui.changes.intents.throttles import lists_wizard
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.intent import TargetCluster
from kshunt.tui.changes.wizard.items_part import ItemsPart
from kshunt.tui.changes.wizard.pages import Page, Step, Wizard, step_line
from kshunt.tui.changes.wizard.question_parts import unsaid
from kshunt.tui.changes.wizard.result import ResultScreen
from kshunt.tui.dialogs.dialog import Lines
from kshunt.tui.dialogs.help import HelpScreen
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.views.audit.screen import AuditScreen, EntryScreen
from kshunt.tui.views.audit.table import audit_table, entry_facts, parse_audit_filter
from kshunt.tui.views.operations.operation_dialog import WatchScreen
from tests.support.tui.app import Shown, answer_form, at_step, dashboard, go_through, plan_file
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import START_MS, incident, running_move

HERE = TargetCluster("kSh-9xQmT4uB2vWcE0aLrg", "k:9092")


# Steps


def test_where_one_is_can_be_told_without_colour() -> None:
    assert step_line(Step.CHOICES) == "1 Goal > [2 Choices] > 3 Preview > 4 Confirm > 5 Watch"


@pytest.mark.parametrize("size", [(100, 30), (100, 24), (80, 24), (80, 20)])
async def test_the_keys_that_agree_are_in_sight_however_long_the_preview_is(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    cluster = incident()
    running_move(cluster)
    async with dashboard(tmp_path / "s", cluster, size=size) as shown:
        long = " ".join(["The replicas of this partition lie in one rack."] * 3)
        shown.backend.preview = replace(shown.backend.preview, warnings=(long, long, long))
        await shown.press("L")
        wizard = await at_step(shown, Step.PREVIEW)
        await shown.until(lambda: "y: Elect" in shown.frame(), "the key is in sight")
        assert wizard.query_one("#results").outer_size.height >= 2
        # The items that do not fit are a few keys away.
        await shown.pilot.press("end")
        await shown.pilot.press("y")
        await at_step(shown, Step.WATCH)
        await shown.until(lambda: "Enter closes" in shown.frame(), "so are those of the answer")


async def test_a_question_without_steps_keeps_its_keys_in_sight(tmp_path: Path) -> None:
    cluster = incident()
    running_move(cluster)
    async with dashboard(tmp_path / "s", cluster, size=(80, 22)) as shown:
        long = " ".join(["The data already copied for this partition is thrown away."] * 3)
        shown.backend.preview = replace(shown.backend.preview, warnings=(long, long, long))
        await shown.press("5", "c")
        await shown.dialog(ConfirmScreen)
        await shown.until(lambda: "(y)" in shown.frame(), "the key is in sight")


def test_steps_with_nothing_to_ask_are_passed_over() -> None:
    facts = Facts(incident().step())
    nothing = election_wizard(facts, HERE, None)
    assert (nothing.first, nothing.before(Step.PREVIEW)) == (Step.PREVIEW, None)
    assert nothing.before(Step.CONFIRM) is Step.PREVIEW
    both = audit_wizard(HERE, ("op-1",), "op-1")
    assert (both.first, both.after(Step.GOAL)) == (Step.GOAL, Step.CHOICES)
    assert (both.after(Step.CHOICES), both.before(Step.CHOICES)) == (Step.PREVIEW, Step.GOAL)
    assert both.before(Step.GOAL) is None
    late = Wizard("w", both.build, choices=Page(fields=both.choices.fields))
    assert (late.first, late.before(Step.CHOICES)) == (Step.CHOICES, None)


async def test_back_and_forth_without_losing_what_was_typed(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3]})
    await shown.press("r")
    await answer_form(shown, str(path), "30MB/s", "all", "rack b")
    wizard = await at_step(shown, Step.PREVIEW)
    assert "[3 Preview]" in shown.frame()
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    for step in (Step.PREVIEW, Step.CHOICES, Step.GOAL):
        await shown.pilot.press("escape")
        await at_step(shown, step)
    assert [wizard.input(place).value for place in range(4)] == [
        str(path),
        "30MB/s",
        "all",
        "rack b",
    ]
    await shown.pilot.press("enter")
    await at_step(shown, Step.CHOICES)
    wizard.input(1).value = "40MB/s"
    await shown.pilot.press("enter", "enter", "enter")
    await at_step(shown, Step.PREVIEW)
    assert "40.0 MB/s" in shown.frame()
    assert shown.backend.changes == []
    await go_through(shown)
    ((_, body),) = shown.backend.changes
    assert (body["throttle_bytes_per_s"], body["reason"]) == (40_000_000, "rack b")


async def test_one_key_agrees_to_a_preview_and_its_hint_is_in_sight(shown: Shown) -> None:
    await shown.press("4", "e")
    await answer_form(shown, "50MB/s", "50MB/s")
    await at_step(shown, Step.PREVIEW)
    await shown.until(lambda: "y: Set the throttle, w adds a reason" in shown.frame(), "it is said")
    assert shown.backend.changes == []
    await shown.pilot.press("y")
    await at_step(shown, Step.WATCH)
    assert [path for path, _ in shown.backend.changes] == ["/v1/throttles/rates"]


async def test_a_reason_is_added_to_a_preview_by_its_key(shown: Shown) -> None:
    await shown.press("4", "e")
    await answer_form(shown, "50MB/s", "50MB/s")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("w")
    await at_step(shown, Step.CONFIRM)
    await shown.write("too slow")
    await shown.pilot.press("enter", "y")
    await at_step(shown, Step.WATCH)
    ((_, body),) = shown.backend.changes
    assert body["reason"] == "too slow"


async def test_the_line_of_a_form_says_what_enter_does_in_each_field(shown: Shown) -> None:
    await shown.press("4", "e")
    await at_step(shown, Step.CHOICES)
    await shown.until(lambda: "Enter goes to Follower rate" in shown.frame(), "the next field")
    await shown.pilot.press("enter")
    await shown.until(lambda: "Enter previews, Esc" in shown.frame(), "the last one")
    await shown.pilot.press("up")
    await shown.until(lambda: "Enter goes to Follower rate" in shown.frame(), "back again")


def test_a_replica_that_cannot_be_is_refused_where_it_is_typed() -> None:
    cluster = incident()
    facts = Facts(cluster.step())
    gone = ReplicaSet(frozenset({(0, 99)}))
    snapshot = facts.snapshot
    lists = {"orders": ThrottledReplicas(gone, ReplicaSet())}
    throttles = replace(snapshot.throttles, replicas=lists)
    wizard = lists_wizard(Facts(replace(snapshot, throttles=throttles)), HERE, "orders")
    leader, follower = wizard.fields
    with pytest.raises(BadInput, match="99:7 cannot be: orders has partitions 0 to 5"):
        follower.parse("0:1,99:7")
    with pytest.raises(BadInput, match="0:99 cannot be: there is no broker 99"):
        follower.parse("0:99")
    assert leader.parse("0:99") == gone, "what is there already may stay"
    assert follower.parse("5:5,0:1").pairs == {(5, 5), (0, 1)}
    assert follower.parse("*").everything
    assert not follower.parse("none")


async def test_escape_at_the_first_step_changes_nothing(shown: Shown) -> None:
    await shown.press("r")
    await at_step(shown, Step.GOAL)
    await shown.pilot.press("escape")
    await shown.closed()
    assert shown.said == "Nothing was changed."
    assert shown.backend.asked == []


async def test_a_refusal_is_said_in_the_preview_and_one_can_go_back(shown: Shown) -> None:
    shown.backend.refuse = Problem(403, "The cluster refuses this principal.", "Ask for Alter.")
    await shown.press("4", "e")
    await answer_form(shown, "50MB/s", "50MB/s")
    await shown.until(lambda: "refuses this principal" in shown.frame(), "it is refused")
    assert "nothing was changed" in shown.frame()
    await shown.pilot.press("enter")
    shown.backend.refuse = None
    await shown.pilot.press("escape")
    wizard = await at_step(shown, Step.CHOICES)
    assert wizard.input(0).value == "50MB/s"


async def test_a_cluster_that_changed_shows_the_new_preview(shown: Shown) -> None:
    await shown.press("L")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    shown.backend.preview = replace(
        shown.backend.preview, sentence="Touches 9 brokers.", fingerprint="b"
    )
    await shown.pilot.press("y")
    await shown.until(lambda: "changed since the preview: who leads" in shown.frame(), "it is said")
    assert "Touches 9 brokers." in shown.frame()
    await go_through(shown)
    assert [body["preview"] for _, body in shown.backend.changes] == ["a-1", "b"]


async def test_each_item_of_a_result_says_how_it_is_by_now(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3], ("orders", 3): [1, 2, 3]})
    cluster = shown.backend.cluster
    await shown.press("r")
    await answer_form(shown, str(path), "30MB/s", "1/1", "")
    wizard = await go_through(shown)
    first, second = TopicPartition("orders", 1), TopicPartition("orders", 3)
    # The second one has not begun.
    cluster.cancel(second)
    waits = [{"topic": second.topic, "partition": second.partition, "replicas": [1, 2, 3]}]
    operation = cluster.operations[str(wizard.answer.operation_id if wizard.answer else "")]
    details = OperationDetails(waiting_plan={"version": 1, "partitions": waits})
    shown.backend.announce(replace(operation, details=details, waiting=1))
    state = cluster.partitions[first]
    state.copied = dict.fromkeys(state.copied, state.size_bytes // 2)
    await shown.publish(0)
    await shown.until(lambda: re.search(r"orders-1 .*moving, (49|50)%", shown.frame()), "it moves")
    # The operation comes by another stream than the snapshot.
    turn = r"orders-3 .*waits for its turn"
    await shown.until(lambda: re.search(turn, shown.frame()), "the second one waits")


async def test_the_result_is_live_and_names_the_way_back(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3]})
    await shown.press("r")
    await answer_form(shown, str(path), "30MB/s", "all", "")
    wizard = await go_through(shown)
    id = wizard.answer.operation_id if wizard.answer else ""
    operation = shown.backend.cluster.operations[str(id)]
    shown.backend.announce(replace(operation, actions=("pause", "cancel")))
    await shown.publish()
    await shown.until(lambda: "c cancels it" in shown.frame(), "the way back is named")
    assert "It is running" in shown.frame()
    ended = replace(operation, state=OperationState.DONE, actions=("undo",), outcome="all arrived")
    shown.backend.cluster.operations[ended.id] = ended
    shown.backend.announce(ended)
    await shown.publish()
    await shown.until(lambda: "u undoes it" in shown.frame(), "it has ended")
    assert "It is done: all arrived" in shown.frame()
    await shown.pilot.press("u")
    await shown.dialog(ConfirmScreen)
    assert f"Undo operation {id}" in shown.frame()


# Names that have to be typed


async def test_everything_is_cancelled_only_by_name(shown: Shown) -> None:
    await shown.press("C")
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press("enter")
    await shown.write("prod")
    await shown.pilot.press("enter")
    await shown.until(lambda: "'prod' is not kSh-9x" in shown.frame(), "it is refused")
    assert shown.backend.changes == []
    await shown.pilot.press(*["backspace"] * 4)
    await shown.write("kSh-9x")
    await shown.pilot.press("enter")
    await shown.dialog(ResultScreen)
    ((path, _),) = shown.backend.changes
    assert path == "/v1/reassignments/cancel"


# Elections


def test_who_leads_before_and_after_an_election() -> None:
    facts = Facts(incident().step())
    skew = leader_skew(facts, None)
    assert skew.before == {1: 6, 2: 5, 3: 7, 4: 6, 5: 6}
    assert skew.after == dict.fromkeys(range(1, 6), 6)
    assert skew.spreads == (2, 0)
    assert skew_lines(skew) == [
        "Leaders per broker: 5 to 7 before, 6 after; spread 2 -> 0.",
        "broker 2    5 #######... -> 6 #########.",
        "broker 3    7 ########## -> 6 #########.",
    ]
    other = leader_skew(facts, [TopicPartition("orders", 1)])
    assert other.before == other.after
    assert skew_lines(other)[-1] == "Every broker leads the same number as before."


def test_a_preferred_replica_that_is_not_in_sync_is_not_counted_on() -> None:
    cluster = incident()
    partition = TopicPartition("audit-log", 1)
    preferred = cluster.partitions[partition].replicas[0]
    cluster.down = {preferred: "connection refused"}
    skew = leader_skew(Facts(cluster.step()), [partition])
    assert skew.before == skew.after


async def test_an_election_says_what_became_of_the_skew(shown: Shown) -> None:
    await shown.press("L")
    await at_step(shown, Step.PREVIEW)
    assert "5 to 7 before, 6 after; spread 2 -> 0." in shown.frame()
    await go_through(shown)
    assert "spread 2 -> 0." in shown.frame()


# The audit, and watching


LINES = (
    AuditLine(START_MS - 7_200_000, "requested", "bob@laptop", "x", "op-0", "reassign", "x", ""),
    AuditLine(START_MS, "started", "ada@bastion", "", "op-1", touched=("2 brokers: 1, 2",)),
    AuditLine(None, "unreadable", "", "It is not JSON."),
)


def found(text: str) -> list[str]:
    """The events to which a filter applies."""
    table = audit_table(LINES, parse_audit_filter(text), START_MS)
    return [str(table.key_of(row)) for row in range(len(table))]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", ["2", "1", "0"]),
        ("op:op-1", ["1"]),
        ("who:BOB", ["0"]),
        ("since:1h", ["2", "1"]),
        ("event:start", ["1"]),
        ("brokers", ["1"]),
        ("op:op who:ada since:2d", ["1"]),
        ("json", ["2"]),
        ("nothing", []),
    ],
)
def test_the_audit_is_filtered(text: str, places: list[str]) -> None:
    assert found(text) == places


@pytest.mark.parametrize("text", ["op:", "since:soon", "colour:red", "since:99999999d"])
def test_filters_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_audit_filter(text)


@given(st.text(max_size=30))
def test_a_filter_is_refused_or_works(text: str) -> None:
    try:
        wanted = parse_audit_filter(text)
    except BadInput:
        return
    assert len(audit_table(LINES, wanted, START_MS)) <= len(LINES)


def test_a_whole_entry_says_everything() -> None:
    table = audit_table(LINES, parse_audit_filter(""), START_MS)
    row = table.value_of(1)
    assert row is not None
    assert ("Touched", "2 brokers: 1, 2") in entry_facts(row)
    unknown = table.value_of(2)
    assert unknown is not None
    assert entry_facts(unknown)[0] == ("When", "unknown")


async def test_the_audit_is_opened_filtered_and_read(shown: Shown) -> None:
    shown.backend.audit = [(line.operation, line) for line in LINES]
    await shown.press("5", "v")
    await shown.dialog(AuditScreen)
    await shown.until(lambda: "1 of 3" in shown.frame(), "it is read")
    assert "op:op-1" in shown.frame()
    await shown.pilot.press("enter")
    await shown.dialog(EntryScreen)
    assert "2025-10-09 08:53:20 UTC" in shown.frame()
    await shown.pilot.press("escape", "slash", *["backspace"] * 7)
    await shown.until(lambda: "3 of 3" in shown.frame(), "all are shown")
    await shown.write("who:bob")
    await shown.until(lambda: "1 of 3" in shown.frame(), "it is filtered")
    assert "requested" in shown.frame()
    await shown.pilot.press("enter", "escape", "escape", "escape")
    await shown.closed()


async def test_an_operation_is_watched_from_its_row(shown: Shown) -> None:
    await shown.press("5", "enter")
    await shown.dialog(WatchScreen)
    await shown.until(lambda: "0 of 6 replicas" in shown.frame(), "it is shown")
    waits = replace(shown.backend.cluster.operations["op-1"], waiting=3)
    shown.backend.announce(waits)
    await shown.until(lambda: "3 partitions waiting" in shown.frame(), "it is live")
    await shown.pilot.press("u")
    assert isinstance(shown.app.screen, WatchScreen)
    await shown.pilot.press("p")
    await shown.dialog(ConfirmScreen)
    assert "Pause operation op-1" in shown.frame()


async def test_keys_that_an_operator_chose_work_in_a_dialog_too(tmp_path: Path) -> None:
    use_keys(ACTIONS, {"pause": ["P"], "help": ["f1"]})
    cluster = incident()
    running_move(cluster)
    try:
        async with dashboard(tmp_path / "s", cluster) as shown:
            await shown.press("5", "f1")
            await shown.dialog(HelpScreen)
            await shown.pilot.press("f1")
            await shown.press("enter")
            await shown.dialog(WatchScreen)
            await shown.pilot.press("p")
            assert isinstance(shown.app.screen, WatchScreen)
            await shown.pilot.press("P")
            await shown.dialog(ConfirmScreen)
            assert "Pause operation op-1" in shown.frame()
    finally:
        use_keys(ACTIONS, {})


async def test_a_part_of_which_only_the_facts_are_there_yet_takes_its_room() -> None:
    """Items are mounted after the facts, and what is laid out between has one of them."""

    class Half(ItemsPart):
        def compose(self) -> ComposeResult:
            yield Lines("a fact", id="facts")

    class Shell(App[None]):
        def compose(self) -> ComposeResult:
            yield Half()

    async with Shell().run_test() as pilot:
        part = pilot.app.query_one(Half)
        part.fit(5)
        part.fit_again()
        assert part.query_one("#facts").is_mounted


def test_a_note_does_not_repeat_how_the_operation_goes() -> None:
    note = "kshunt removes the throttle when the moves end. Others started these moves."
    live = "It is running: kshunt removes the throttle when the moves end"
    assert unsaid(note, live) == "Others started these moves."
    assert unsaid(note, "It is running") == note
    assert unsaid("Others started these moves.", "Others started these moves") == (
        "Others started these moves."
    )
