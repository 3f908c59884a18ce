"""What changes a cluster: rehearsed, asked once, sent, answered; and what can go wrong."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Button, Input

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.operator_identity import who_am_i
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.result import ErrorScreen, ResultScreen
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.dialogs.dialog import Lines
from tests.support.tui.app import Shown, answer_form, at_step, dashboard, go_through, plan_file
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import incident

CLUSTER = incident().cluster_id
WORST = TopicPartition("payments.transactions.settled.v2", 1)
"""The partition that is first while the moves are followed."""


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard during a throttled move, following it, at 80x24."""
    async with dashboard(tmp_path / "s", incident()) as running:
        await running.press("f")
        yield running


async def hinted(shown: Shown, form: WizardScreen, words: str) -> None:
    """Wait until these words stand beneath the first field."""
    await shown.until(lambda: words in form.hint(0).plain, words)


async def agree(shown: Shown) -> ResultScreen:
    """Agree to the question, and wait for the answer."""
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press("y")
    result = await shown.dialog(ResultScreen)
    assert isinstance(result, ResultScreen)
    return result


def answered(wizard: WizardScreen) -> ChangeAnswer:
    """What came back."""
    assert wizard.answer is not None
    return wizard.answer


async def type_name(shown: Shown, name: str) -> None:
    """Type what agrees to something destructive."""
    await shown.dialog(ConfirmScreen)
    await shown.write(name)
    await shown.pilot.press("enter")


def in_earnest(shown: Shown) -> list[tuple[str, dict[str, Any]]]:
    """What was asked that is no rehearsal."""
    return shown.backend.changes


# Every question


async def test_a_question_names_the_cluster_and_what_it_touches(shown: Shown) -> None:
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    text = shown.frame()
    assert CLUSTER in text
    assert "kafka-1.example:9092,kafka-2.example:9092" in text
    assert "Cancel the move of 1 partition" in text
    assert str(WORST) in text
    assert "3, 4, 5" in text
    assert "Validated, nothing changed yet: would succeed." in text


@pytest.mark.parametrize("keys", ["escape", "n", "enter", "tab shift+tab enter", "j k escape"])
async def test_it_is_not_done_unless_agreed_to(shown: Shown, keys: str) -> None:
    await shown.press("c")
    question = await shown.dialog(ConfirmScreen)
    assert question.query_one("#cancel", Button).has_focus
    await shown.pilot.press(*keys.split())
    await shown.closed()
    assert in_earnest(shown) == []
    assert shown.said == "Nothing was changed."


@pytest.mark.parametrize("keys", ["y", "right enter", "l enter", "tab enter"])
async def test_it_is_done_by_y_or_by_moving_to_the_button(shown: Shown, keys: str) -> None:
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press(*keys.split())
    await shown.dialog(ResultScreen)
    ((path, body),) = in_earnest(shown)
    assert path == "/v1/reassignments/cancel"
    assert body["cluster_id"] == CLUSTER
    assert body["partitions"] == [{"topic": WORST.topic, "partition": WORST.partition}]


async def test_the_tables_show_an_effect_only_once_the_cluster_reports_it(shown: Shown) -> None:
    await shown.press("c")
    result = await agree(shown)
    assert result.answer.failures == ()
    assert "Done." in shown.frame()
    assert "once the cluster reports it" in shown.frame()
    await shown.press("enter")
    await shown.closed()
    assert "following 24 of 96" in shown.frame()
    await shown.publish()
    assert "following 20 of 95" in shown.frame()


async def test_keys_in_the_wrong_order_change_nothing(shown: Shown) -> None:
    await shown.pilot.press("y", "y", "n", "enter", "escape", "y", "enter", "y", "escape")
    await shown.closed()
    assert shown.backend.asked == []


@pytest.mark.parametrize("key", ["y", "enter"])
async def test_a_key_that_was_pressed_before_the_question_was_painted_agrees_to_nothing(
    shown: Shown, key: str
) -> None:
    """It may have waited for the keys before it, as they come in one packet over a slow line."""
    early = events.Key(key, key if len(key) == 1 else None)
    await shown.press("c")
    question = await shown.dialog(ConfirmScreen)
    question.query_one("#agree").focus()
    early.set_sender(shown.app)
    shown.app.post_message(early)
    await shown.pilot.pause()
    assert shown.app.screen is question
    assert in_earnest(shown) == []
    await shown.pilot.press(key)
    await shown.until(lambda: in_earnest(shown), "the same key, pressed now, agrees")


async def test_one_change_at_a_time(shown: Shown) -> None:
    shown.backend.held = asyncio.Event()
    await shown.press("c")
    await shown.until(lambda: shown.backend.asked, "the rehearsal is asked for")
    assert shown.said == "Validating; nothing is changed yet."
    await shown.press("l")
    assert shown.said == "A change is running; wait for its answer."
    shown.backend.held.set()
    await shown.dialog(ConfirmScreen)
    assert len(shown.backend.asked) == 1


async def test_items_that_would_fail_are_said_with_kafkas_error(shown: Shown) -> None:
    shown.backend.failing = {
        str(WORST): Result(str(WORST), 41, "NOT_CONTROLLER", "The controller has moved.")
    }
    await shown.press("A", "c")
    await shown.dialog(ConfirmScreen)
    text = shown.frame()
    assert "Validated, nothing changed yet: 5 of 6 would succeed, 1 would fail." in text
    assert "NOT_CONTROLLER: The controller has moved." in text.replace("…", "")
    result = await agree(shown)
    assert [failure.item for failure in result.answer.failures] == [str(WORST)]
    assert "5 of 6 done, 1 failed." in shown.frame()


async def test_a_refusal_says_what_happened_and_that_nothing_changed(shown: Shown) -> None:
    shown.backend.refuse = Problem(403, "The cluster refuses this principal.", "Ask for Alter.")
    await shown.press("c")
    await shown.dialog(ErrorScreen)
    text = shown.frame()
    assert "The cluster refuses this principal." in text
    assert "Ask for Alter." in text
    assert "nothing was changed" in text
    await shown.press("escape")
    await shown.closed()


async def test_the_reason_of_what_could_not_be_sent_is_there_again(shown: Shown) -> None:
    await shown.press("c")
    question = await shown.dialog(ConfirmScreen)
    await shown.pilot.press("w")
    await shown.until(lambda: question.query_one("#reason", Input).has_focus, "it can be typed")
    await shown.pilot.press(*"disk", "enter")
    shown.backend.refuse = Problem(503, "The journal is not there.", "Try again.")
    await shown.pilot.press("y")
    await shown.dialog(ErrorScreen)
    await shown.press("escape")
    await shown.closed()
    shown.backend.refuse = None
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    assert "Why: disk" in shown.frame()
    await agree(shown)
    assert in_earnest(shown)[-1][1]["reason"] == "disk"


async def test_a_cluster_that_changed_underneath_is_refused(shown: Shown) -> None:
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    shown.backend.cluster.cluster_id = "somebody-elses"
    await shown.pilot.press("y")
    await shown.dialog(ErrorScreen)
    assert "This backend serves cluster somebody-elses" in shown.frame()
    assert shown.backend.cluster.partitions[WORST].copied


async def test_an_answer_that_is_lost_says_that_it_may_be_carried_out(shown: Shown) -> None:
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    shown.backend.held = asyncio.Event()
    await shown.pilot.press("y")
    await shown.until(lambda: in_earnest(shown), "it is sent")
    await shown.backend.stop()
    await shown.dialog(ErrorScreen)
    assert "No backend answers" in shown.frame()
    await shown.press("enter")
    await shown.until(lambda: "CONNECTION LOST" in shown.frame(), "the loss is said")


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys", ["2 f c", "2 C", "2 f l", "2 L", "4 j plus enter", "4 j plus enter y"]
)
async def test_read_only_shows_what_would_be_sent_and_ends_there(tmp_path: Path, keys: str) -> None:
    async with dashboard(tmp_path / "s", incident(), read_only=True) as shown:
        await shown.press(*keys.split()[:-1], keys.split()[-1])
        await shown.until(lambda: "nothing can be sent" in shown.frame(), "it says so")
        assert "would" in shown.frame()
        for key in ("enter", "y", "right", "enter", "y"):
            await shown.pilot.press(key)
        await shown.pilot.press("escape", "escape", "escape")
        await shown.until(lambda: not shown.app.changing, "it is over")
        assert shown.backend.asked != []
        assert in_earnest(shown) == []


async def test_a_wizard_ends_with_its_preview_when_nothing_may_be_sent(
    tmp_path: Path,
) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3]})
    async with dashboard(tmp_path / "s", incident(), read_only=True) as shown:
        await shown.press("r")
        await answer_form(shown, str(path), "30MB/s", "all", "")
        wizard = await at_step(shown, Step.PREVIEW)
        assert "READ-ONLY: this is what kshunt would send" in shown.frame()
        await shown.pilot.press("enter", "y", "enter")
        assert wizard.step is Step.PREVIEW
        assert in_earnest(shown) == []


# Cancelling


async def test_what_does_not_move_cannot_be_cancelled_and_the_way_is_shown(shown: Shown) -> None:
    await shown.press("f", "g", "c")
    assert "C cancels all 6 that do" in shown.said
    await shown.press("C")
    await shown.dialog(ConfirmScreen)
    assert "Cancel the move of 6 partitions" in shown.frame()


async def test_the_moves_of_an_operation_are_cancelled_from_its_row(shown: Shown) -> None:
    cluster = shown.backend.cluster
    operation = cluster.note(
        OperationKind.REASSIGN,
        "two partitions",
        state=OperationState.RUNNING,
        partitions=(WORST, TopicPartition("orders", 0)),
        actions=("pause", "cancel"),
    )
    shown.backend.announce(operation)
    await shown.press("5")
    await shown.until(lambda: "two partitions" in shown.frame(), "the operation is listed")
    await shown.press("c")
    await agree(shown)
    ((path, body),) = in_earnest(shown)
    assert path == "/v1/operations/op-1/cancel"
    assert body["cluster_id"] == CLUSTER
    assert body["preview"] == shown.backend.preview.fingerprint


# Elections


async def test_the_preferred_leader_of_the_row_is_elected(shown: Shown) -> None:
    await shown.press("f", "slash")
    await shown.write("misled")
    await shown.press("enter", "l")
    await at_step(shown, Step.PREVIEW)
    assert "Elect the preferred leader of 1 partition" in shown.frame()
    assert "audit-log-1" in shown.frame()
    await go_through(shown)
    await shown.press("escape")
    await shown.closed()
    await shown.publish()
    assert "Nothing matches 'misled'" in shown.frame()


async def test_every_preferred_leader_is_elected_and_most_need_not_be(shown: Shown) -> None:
    await shown.press("L")
    await at_step(shown, Step.PREVIEW)
    assert "every partition of the cluster (30)" in shown.frame()
    assert "1 leader" in shown.frame()
    wizard = await go_through(shown)
    assert in_earnest(shown)[0][1]["partitions"] is None
    assert sum(1 for r in answered(wizard).results if r.error_name == "ELECTION_NOT_NEEDED") == 29
    assert "All 30 done." in shown.frame()


# Throttles


async def test_a_brokers_rates_are_edited_and_mistakes_are_said_beneath(shown: Shown) -> None:
    await shown.press("3", "j", "e")
    form = await shown.dialog(WizardScreen)
    assert "Throttle of broker 2" in shown.frame()
    assert CLUSTER in shown.frame()
    assert form.input(0).value == "25MB/s"
    for wrong, words in (
        ("fast", "'fast' is not a rate."),
        ("12", "less than 1 KB/s"),
        ("", "Type a"),
    ):
        form.input(0).value = wrong
        await shown.pilot.press("enter")
        await hinted(shown, form, words)
        assert form.input(0).has_focus
    await answer_form(shown, "50MB/s", "none")
    await at_step(shown, Step.PREVIEW)
    text = shown.frame()
    assert "Set the throttle of broker 2" in text
    assert "50.0 MB/s" in text
    assert "25.0 MB/s → 50.0 MB/s / none" in text
    await go_through(shown)
    ((path, body),) = in_earnest(shown)
    assert path == "/v1/throttles/rates"
    assert body["rates"] == [
        {"broker": 2, "leader_bytes_per_s": 50_000_000, "follower_bytes_per_s": None}
    ]


async def test_all_brokers_get_one_rate(shown: Shown) -> None:
    await shown.press("3", "a")
    await answer_form(shown, "10485760", "4MiB/s")
    await at_step(shown, Step.PREVIEW)
    assert "Set the throttle of 5 brokers" in shown.frame()
    assert "1, 2, 3, 4, 5 (5)" in shown.frame()
    await go_through(shown)
    rates = in_earnest(shown)[0][1]["rates"]
    assert [rate["broker"] for rate in rates] == [1, 2, 3, 4, 5]
    assert {rate["leader_bytes_per_s"] for rate in rates} == {10_485_760}
    assert {rate["follower_bytes_per_s"] for rate in rates} == {4_194_304}


async def test_lifting_a_throttle_during_a_move_warns(shown: Shown) -> None:
    await shown.press("3", "a")
    await answer_form(shown, "none", "none")
    await at_step(shown, Step.PREVIEW)
    assert "Moves continue without a throttle" in shown.frame()
    assert "unknown of 6 replicas" in shown.frame()


async def test_throttled_replicas_are_edited_as_kafka_writes_them(shown: Shown) -> None:
    await shown.press("4", "G", "e")
    form = await shown.dialog(WizardScreen)
    assert "payments.transactions.settled.v2" in shown.frame()
    form.input(0).value = "1:2,x"
    await shown.pilot.press("enter")
    await shown.until(lambda: "'x' is not a throttled replica." in form.hint(0).plain, "inline")
    await answer_form(shown, "*", "0:1,0:2")
    await at_step(shown, Step.PREVIEW)
    assert "*, was " in shown.frame()
    await go_through(shown)
    ((path, body),) = in_earnest(shown)
    assert path == "/v1/throttles/replicas"
    assert body["replicas"] == [{"topic": WORST.topic, "leaders": "*", "followers": "0:1,0:2"}]


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["3 e", "3 a", "4 e", "4 G e", "2 e", "r"])
async def test_escape_leaves_every_form_unchanged(shown: Shown, keys: str) -> None:
    await shown.press(*keys.split())
    await shown.dialog(WizardScreen)
    await shown.pilot.press("x", "escape")
    await shown.closed()
    assert shown.backend.asked == []


# Starting a reassignment


async def test_a_reassignment_is_started_from_a_file(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3], ("orders", 9): [1, 2, 3]})
    await shown.press("r")
    await answer_form(shown, str(path), "30MB/s", "2/10 smallest", "drain rack b")
    await at_step(shown, Step.PREVIEW)
    text = shown.frame()
    assert "Start moving 2 partitions" in text
    assert "1 of 2 would succeed, 1 would fail" in text
    assert "UNKNOWN_TOPIC_OR_PARTITION" in text
    assert "30.0 MB/s, removed" in text
    assert "3,4,5 → 1,2,3" in text
    assert in_earnest(shown) == []
    await go_through(shown)
    ((_, body),) = in_earnest(shown)
    assert body["throttle_bytes_per_s"] == 30_000_000
    assert body["caps"] == {"per_broker": 2, "in_cluster": 10, "smallest_first": True}
    assert body["reason"] == "drain rack b"
    assert body["who"] == who_am_i()
    assert body["cluster_id"] == CLUSTER
    await shown.press("escape")
    await shown.closed()
    await shown.publish()
    assert "Moving 7 partitions" in shown.frame()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory"),
        ("{", "line 1, column 2: not JSON"),
        ('{"version": 1,\n "partitions": [{"topic": 1}]}', "line 2, column"),
        ('{"version": 1, "partitions": []}', "the plan's list of partitions is empty"),
        ("\udcff", "is not a text file"),
    ],
)
async def test_an_unusable_plan_is_said_beneath_its_path(
    shown: Shown, tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    await shown.press("r")
    form = await shown.dialog(WizardScreen)
    form.input(0).value = str(path)
    await shown.pilot.press("enter")
    await shown.until(lambda: words in form.hint(0).plain, words)
    assert form.input(0).has_focus
    assert shown.backend.asked == []


async def test_tab_completes_a_path_and_lists_what_it_could_be(
    shown: Shown, tmp_path: Path
) -> None:
    for name in ("plan-a.json", "plan-b.json", "other"):
        (tmp_path / "plans").mkdir(exist_ok=True)
        (tmp_path / "plans" / name).touch()
    await shown.press("r")
    form = await shown.dialog(WizardScreen)
    form.input(0).value = f"{tmp_path}/pla"
    await shown.pilot.press("tab")
    await shown.until(lambda: form.input(0).value == f"{tmp_path}/plans/", "the folder")
    form.input(0).value += "p"
    await shown.pilot.press("tab")
    await shown.until(lambda: form.input(0).value.endswith("/plan-"), "as far as is certain")
    assert "plan-a.json  plan-b.json" in form.hint(0).plain
    form.input(0).value += "a"
    await shown.pilot.press("tab")
    await shown.until(lambda: form.input(0).value.endswith("/plan-a.json"), "the file")
    await shown.pilot.press("tab")
    await hinted(shown, form, "not JSON")


async def test_a_plan_without_a_throttle_has_to_be_meant(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3]})
    await shown.press("r")
    form = await shown.dialog(WizardScreen)
    await answer_form(shown, str(path), "")
    await shown.until(lambda: "Type a rate, or none" in form.hint(1).plain, "it is asked for")
    await answer_form(shown, str(path), "none", "all", "")
    await go_through(shown)
    body = in_earnest(shown)[0][1]
    assert body["throttle_bytes_per_s"] is None
    assert body["caps"] is None


async def test_the_way_back_is_written_to_a_new_file(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3]})
    await shown.press("r")
    await answer_form(shown, str(path), "30MB/s", "5/200", "")
    wizard = await go_through(shown)
    await shown.pilot.press("w")
    line = wizard.query_one("#rollback", Lines)
    await shown.until(lambda: line.plain.startswith("Written: "), "it is written")
    back = parse_plan((tmp_path / "kshunt-rollback-op-1.json").read_text())
    assert back.replicas == {TopicPartition("orders", 1): (3, 4, 5)}
    await shown.pilot.press("w")
    await shown.until(lambda: "File exists" in line.plain, "it is not overwritten")


async def test_a_plan_for_another_cluster_is_refused(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 1): [1, 2, 3]})
    path.write_text(path.read_text().replace("{", '{"cluster_id": "elsewhere", ', 1))
    await shown.press("r")
    form = await shown.dialog(WizardScreen)
    form.input(0).value = str(path)
    await shown.pilot.press("enter")
    await hinted(shown, form, "This plan is for cluster elsewhere, not for")
