"""Operations in the dashboard: how far they are, what can be done with them, and what drifted."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from textual.widgets import Input

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import (
    NO_DETAILS,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.reassignment.move_caps import MoveCaps, caps_text, parse_caps
from kshunt.backend.domain.throttles.owners import (
    DriftKind,
    OrphanOrigin,
    SettingValue,
    ShownDrift,
    ShownOrphan,
)
from kshunt.backend.errors import BadInput
from kshunt.backend.operator_identity import who_am_i
from kshunt.tui.actions.view_names import OPERATIONS, OVERVIEW
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.parsing import default_caps
from kshunt.tui.changes.wizard.result import ErrorScreen, ResultScreen
from kshunt.tui.changes.wizard.screen import WizardScreen
from kshunt.tui.dialogs.attention_list import AttentionScreen
from kshunt.tui.facts.progress import foreign_moves, originals, progress_of
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.feed.polled_facts import (
    BACKEND_STATUS,
    DRIFT,
    ORPHANS,
    OWNED,
    PAST_DRIFT,
    PIPELINE,
    PRESENCE,
    PROPOSALS,
    PollingState,
    due,
)
from kshunt.tui.views.attention import attention
from kshunt.tui.views.operations.progress_text import progress_text
from kshunt.tui.views.throttles.details import about
from tests.support.tui.app import Shown, answer_form, at_step, dashboard, go_through
from tests.support.tui.backend import Problem
from tests.support.tui.cluster import START_MS, ScriptedCluster, incident, running_move

RATE = "follower.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
DRIFTED = ShownDrift(
    *("d1", RATE, 2, None, DriftKind.CHANGED),
    SettingValue(25_000_000),
    SettingValue(50_000_000),
    operations=("op-1",),
)
ORPHAN = ShownOrphan("o1", RATE, 4, None, OrphanOrigin.UNKNOWN, SettingValue(9_000_000))


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The operations view during a move that an operation here owns."""
    cluster = incident()
    running_move(cluster)
    async with dashboard(tmp_path / "s", cluster) as running:
        await running.press("5")
        await running.until(lambda: "p pause" in running.frame(), "the operation is listed")
        yield running


async def agree(shown: Shown) -> None:
    """Agree, and close the answer."""
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press("y")
    await shown.dialog(ResultScreen)
    await shown.pilot.press("escape")
    await shown.closed()


async def look_again(shown: Shown) -> None:
    """Let the time come for every question."""
    shown.time.now += 10
    await shown.publish()


def sent(shown: Shown) -> list[tuple[str, dict[str, Any]]]:
    """What was asked in earnest."""
    return shown.backend.changes


# Deadlines


async def test_an_operation_that_misses_its_deadline_needs_attention(tmp_path: Path) -> None:
    cluster = incident()
    operation = running_move(cluster)
    late_ms = cluster.now_ms + 60_000
    details = structs.replace(operation.details, deadline_ms=late_ms)
    cluster.operations[operation.id] = replace(operation, details=details)
    async with dashboard(tmp_path / "s", cluster, size=(160, 50)) as shown:
        await shown.press("5")
        await shown.until(lambda: "misses its deadline" in shown.frame(), "it is said")
        found = [one for one in attention(shown.app.store) if one.id == f"deadline {operation.id}"]
        assert [one.tone for one in found] == ["bad"]
        assert found[0].text.startswith(f"Operation {operation.id} misses its deadline ")
        assert "Deadline" in shown.frame()
        in_time = structs.replace(details, deadline_ms=cluster.now_ms + 10**9)
        cluster.operations[operation.id] = replace(operation, details=in_time)
        await shown.publish()
        await shown.until(lambda: " holds" in shown.frame(), "it is in time")


# How far


def test_progress_joins_the_partitions_with_their_rows() -> None:
    cluster = incident()
    operation = replace(running_move(cluster), waiting=2)
    moving = len(operation.partitions)
    progress = progress_of(Facts(cluster.step(0.0)), operation)
    assert progress is not None
    sizes = sum(cluster.partitions[partition].size_bytes for partition in operation.partitions)
    assert (progress.arrived, progress.replicas, progress.waiting) == (0, moving, 2)
    assert progress.left_bytes == progress.copy_bytes == sizes
    assert progress.at_least
    first = cluster.partitions[operation.partitions[0]]
    first.copied = dict.fromkeys(first.copied, first.size_bytes)
    progress = progress_of(Facts(cluster.step(0.0)), operation)
    assert progress is not None
    assert (progress.arrived, progress.replicas) == (1, moving)
    assert progress.copy_bytes == sizes
    assert progress.left_bytes == sizes - first.size_bytes


def test_an_operation_of_another_cluster_with_the_same_id_began_elsewhere() -> None:
    operation = running_move(incident())
    first, *others = (operation.details.rollback_plan or {})["partitions"]
    plan = {"version": 1, "partitions": [first | {"replicas": [9]}, *others]}
    elsewhere = replace(operation, details=OperationDetails(rollback_plan=plan))
    partition = TopicPartition(first["topic"], first["partition"])
    assert originals(operation)[partition] == tuple(first["replicas"])
    assert originals(elsewhere)[partition] == (9,)


def test_a_move_that_another_tool_submitted_again_has_its_progress() -> None:
    """Kafka says of no replica of it that it is added, and the rest to copy is what it was."""
    cluster = incident()
    operation = running_move(cluster)
    snapshot = cluster.step(0.0)
    before = progress_of(Facts(snapshot), operation)
    assert before is not None
    assert before.left_bytes > 0
    rows = snapshot.replicas
    moving = rows.adding | rows.removing
    assert moving.any()
    again = replace(rows, adding=np.zeros(len(rows), np.bool_))
    assert again.removing.any(), "the partitions still move"
    assert progress_of(Facts(replace(snapshot, replicas=again)), operation) == before


@pytest.mark.parametrize(
    ("took_s", "outcome", "words"),
    [
        (0.2, "", "It is done"),
        (12, "", "It is done after 12s"),
        (12, "5 of 5 there", "It is done after 12s: 5 of 5 there"),
        (0, "5 of 5 there", "It is done: 5 of 5 there"),
    ],
)
def test_an_end_is_said_once(took_s: float, outcome: str, words: str) -> None:
    operation = running_move(incident())
    ended_ms = operation.started_ms + round(took_s * 1000)
    ended = replace(operation, state=OperationState.DONE, ended_ms=ended_ms, outcome=outcome)
    assert progress_text(None, ended) == words


def test_what_has_ended_or_is_gone_has_no_progress() -> None:
    cluster = incident()
    operation = running_move(cluster)
    facts = Facts(cluster.step())
    assert progress_of(facts, replace(operation, state=OperationState.DONE)) is None
    elsewhere = (TopicPartition("gone", 0),)
    gone = replace(operation, id="gone", partitions=elsewhere, details=NO_DETAILS)
    progress = progress_of(facts, gone)
    assert progress is not None
    assert (progress.arrived, progress.replicas) == (0, 0)


def test_moves_that_no_operation_owns_are_counted_where_throttles_stand() -> None:
    cluster = incident()
    operation = running_move(cluster)
    facts = Facts(cluster.step())
    assert foreign_moves(facts, [operation]) == 0
    assert foreign_moves(facts, []) == len(operation.partitions)
    assert foreign_moves(facts, [replace(operation, id="2", partitions=operation.partitions[:2])])
    assert foreign_moves(Facts(ScriptedCluster.of(3, {"t": 3}).step()), []) == 0


async def test_the_pane_says_what_the_table_has_no_room_for(shown: Shown) -> None:
    text = shown.frame()
    assert "ada@bastion-1: drain broker 4 before its disk is replaced" in text
    assert "25.0 MB/s on each broker, removed when the move ends" in text
    assert "0 of 6 replicas" in text
    assert "orders-0  2,3,4 → 2,3,5" in text
    shown.backend.audit = [("op-1", AuditLine(START_MS, "started", "ada@bastion-1"))]
    waits = replace(shown.backend.cluster.operations["op-1"], waiting=3, outcome="3 wait")
    shown.backend.announce(waits)
    await shown.until(lambda: "3 partitions waiting" in shown.frame(), "the count is shown")
    await shown.until(lambda: "08:53:20 started" in shown.frame(), "the history is shown")


async def test_what_waits_is_cancelled_with_what_moves(shown: Shown) -> None:
    cluster = shown.backend.cluster
    waits = TopicPartition("orders", 0)
    cluster.cancel(waits)
    operation = replace(cluster.operations["op-1"], waiting=1)
    shown.backend.announce(operation)
    await shown.publish()
    await shown.until(lambda: "1 partition waiting" in shown.frame(), "one waits")
    await shown.press("C")
    await shown.dialog(ConfirmScreen)
    assert "Cancel the move of 6 partitions" in shown.frame()
    named = shown.backend.asked[-1][1]["partitions"]
    assert {"topic": "orders", "partition": 0} in named


# What can be done


async def test_one_key_pauses_and_resumes(shown: Shown) -> None:
    await shown.press("p")
    await agree(shown)
    await shown.until(lambda: "p resume" in shown.lines()[-1], "the footer offers the way on")
    assert "held by the pause" in shown.frame()
    assert "held by a pause" in shown.lines()[1]
    assert "! Operation op-1 is paused, its copies are held: 5, then p" in shown.frame()
    await shown.press("p")
    await agree(shown)
    paths = [path for path, _ in sent(shown)]
    assert paths == ["/v1/operations/op-1/pause", "/v1/operations/op-1/resume"]
    pause, resume = (body for _, body in sent(shown))
    assert pause["preview"] == shown.backend.preview.fingerprint
    assert resume["preview"] == ""
    assert pause["who"] == who_am_i()


async def test_the_cursor_stays_on_its_row_after_a_change(shown: Shown) -> None:
    assert shown.cursor == "op-1"
    await shown.press("p")
    await agree(shown)
    newer = shown.backend.cluster.note(
        OperationKind.REASSIGN, "another move", state=OperationState.RUNNING
    )
    shown.backend.announce(replace(newer, started_ms=shown.backend.cluster.now_ms + 1_000))
    await shown.publish()
    await shown.until(lambda: len(shown.grid.table or ()) == 2, "it stands before the other one")
    assert shown.cursor == "op-1"
    await shown.press("g")
    assert shown.cursor == newer.id


async def test_what_cannot_be_done_is_refused_with_what_can(shown: Shown) -> None:
    await shown.press("u")
    assert shown.said == "It is running: undo is not possible. Possible: pause, cancel."
    await shown.press("X")
    assert "abandon is not possible" in shown.said
    assert shown.backend.asked == []


async def test_what_zookeeper_does_not_offer_is_not_blamed_on_the_state(shown: Shown) -> None:
    shown.backend.status = replace(
        shown.backend.status,
        not_offered=(("cancel", "no znode stops it"),),
        remarks=("It is read.",),
    )
    held = replace(shown.backend.cluster.operations["op-1"], actions=("pause",))
    shown.backend.cluster.operations["op-1"] = held
    shown.backend.announce(held)
    await look_again(shown)
    await shown.until(lambda: "It is read." in shown.frame(), "its status is known")
    await shown.until(lambda: "c cancel" not in shown.lines()[-1], "it is not offered")
    await shown.press("c")
    assert shown.said == "ZooKeeper does not support cancel: no znode stops it. Possible: pause."
    assert shown.backend.asked == []


async def test_an_operation_that_has_ended_is_undone(shown: Shown) -> None:
    ended = replace(
        shown.backend.cluster.operations["op-1"],
        state=OperationState.DONE,
        actions=("undo",),
        ended_ms=START_MS + 9_000,
    )
    shown.backend.cluster.operations["op-1"] = ended
    shown.backend.announce(ended)
    await shown.until(lambda: "u undo" in shown.lines()[-1], "undo is offered")
    await shown.press("u")
    await agree(shown)
    assert shown.backend.previewed[-1] == {"action": "undo", "operation_id": "op-1"}
    assert sent(shown)[0][0] == "/v1/operations/op-1/undo"


async def test_an_operation_is_abandoned_for_brokers_that_are_gone(shown: Shown) -> None:
    shown.backend.cluster.down = {3: "connection refused"}
    lifting = replace(
        shown.backend.cluster.operations["op-1"],
        state=OperationState.LIFTING,
        actions=("abandon",),
        outcome="throttle not removed yet: broker 3 leader rate did not answer",
    )
    shown.backend.cluster.operations["op-1"] = lifting
    shown.backend.announce(lifting)
    await shown.publish()
    await shown.until(lambda: "X abandon" in shown.lines()[-1], "it is offered")
    await shown.press("X")
    form = await shown.dialog(WizardScreen)
    assert form.input(0).value == "3"
    await answer_form(shown, "three")
    await shown.until(lambda: "Type the ids" in form.hint(0).plain, "the mistake is said")
    await answer_form(shown, "3")
    await at_step(shown, Step.PREVIEW)
    await shown.pilot.press("enter")
    await at_step(shown, Step.CONFIRM)
    assert "Type op-1 or kSh-9x to confirm" in shown.frame()
    await shown.write("op-2")
    await shown.pilot.press("enter")
    await shown.until(lambda: "'op-2' is not op-1 or kSh-9x" in shown.frame(), "it is refused")
    assert sent(shown) == []
    await shown.pilot.press(*["backspace"], "1", "enter")
    await at_step(shown, Step.WATCH)
    ((path, body),) = sent(shown)
    assert (path, body["brokers"]) == ("/v1/operations/op-1/abandon", [3])


@pytest.mark.parametrize("suffix", [".json", ".md"])
async def test_the_audit_is_written_to_a_new_file(
    shown: Shown, tmp_path: Path, suffix: str
) -> None:
    shown.backend.audit = [("op-1", AuditLine(START_MS, "started"))]
    path = tmp_path / f"audit{suffix}"
    await shown.press("w")
    await answer_form(shown, "op-1", str(path))
    await at_step(shown, Step.PREVIEW)
    assert not path.exists()
    await go_through(shown)
    assert "written" in shown.frame()
    await shown.press("escape")
    assert json.loads(path.read_text())["entries"][0]["event"] == "started"
    asked = [path for path in shown.backend.looked if "audit" in path][-1]
    assert ("format=json" if suffix == ".json" else "format=markdown") in asked
    await shown.press("w")
    await answer_form(shown, "op-1", str(path))
    form = await shown.dialog(WizardScreen)
    await shown.until(lambda: "it is not replaced" in form.hint(1).plain, "it is refused")


# Before every confirmation


async def test_the_blast_radius_stands_in_the_question(shown: Shown) -> None:
    many = tuple(f"warning number {n}" for n in range(5))
    shown.backend.preview = replace(shown.backend.preview, warnings=many)
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    text = shown.frame()
    assert "Touches 3 brokers and 2 topics" in text
    assert "! warning number 2" in text
    assert "! and 2 more warnings" in text


async def test_a_change_of_the_cluster_asks_again_with_the_new_preview(shown: Shown) -> None:
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    shown.backend.preview = replace(
        shown.backend.preview, sentence="Touches 9 brokers.", fingerprint="b"
    )
    await shown.pilot.press("y")
    await shown.until(lambda: "changed since the preview: who leads" in shown.frame(), "it is said")
    assert "Touches 9 brokers." in shown.frame()
    await agree(shown)
    assert [body["preview"] for _, body in sent(shown)] == ["a-1", "b"]


async def test_another_conflict_is_an_error_and_not_asked_again(shown: Shown) -> None:
    await shown.press("c")
    await shown.dialog(ConfirmScreen)
    shown.backend.refuse = Problem(409, "Operation op-1 is done: no cancel is possible.")
    await shown.pilot.press("y")
    await shown.dialog(ErrorScreen)
    assert "no cancel is possible" in shown.frame()


async def test_why_is_said_in_the_question(shown: Shown) -> None:
    await shown.press("p")
    question = await shown.dialog(ConfirmScreen)
    await shown.pilot.press("w")
    await shown.until(lambda: question.query_one("#reason", Input).has_focus, "it can be typed")
    await shown.pilot.press(*"may", "enter")
    await agree(shown)
    assert sent(shown)[0][1]["reason"] == "may"


# Drift and orphans


async def test_one_drift_of_the_row_is_put_back_once_it_is_agreed_to(shown: Shown) -> None:
    shown.backend.drift = {"d1": DRIFTED}
    await look_again(shown)
    await shown.until(lambda: "running !" in shown.frame(), "the operation is marked")
    assert "follower rate of broker 2: wanted 25.0 MB/s, found 50.0 MB/s" in shown.frame()
    await shown.press("d")
    await shown.dialog(ConfirmScreen)
    assert "follower rate of broker 2" in shown.frame()
    await shown.pilot.press("escape")
    await shown.closed()
    assert not sent(shown)
    await shown.press("d")
    await shown.dialog(ConfirmScreen)
    await agree(shown)
    ((path, body),) = sent(shown)
    assert (path, body["ids"]) == ("/v1/drift/reapply", ["d1"])
    await shown.until(lambda: "running !" not in shown.frame(), "the mark goes")


async def test_several_drifts_are_asked_about_and_may_be_kept(shown: Shown) -> None:
    shown.backend.drift = {"d1": DRIFTED, "d2": replace(DRIFTED, id="d2", broker=3)}
    await look_again(shown)
    await shown.until(lambda: "(and 1 more: !)" in shown.frame(), "both are seen")
    await shown.press("2", "D")
    await shown.dialog(ConfirmScreen)
    assert "Keep 2 throttles that somebody else changed" in shown.frame()
    await agree(shown)
    ((path, body),) = sent(shown)
    assert (path, body["ids"]) == ("/v1/drift/accept", ["d1", "d2"])
    await shown.press("d")
    assert shown.said == "Nobody else has changed a throttle of ours."


async def test_orphans_are_listed_and_removed(shown: Shown) -> None:
    shown.backend.orphans = {"o1": ORPHAN, "o2": replace(ORPHAN, id="o2", broker=5)}
    await shown.press("4")
    await look_again(shown)
    await shown.until(lambda: "2 orphans" in shown.frame(), "they are seen")
    assert "follower rate of broker 5 is 9.00 MB/s, unknown" in shown.frame()
    await shown.press("X")
    await shown.dialog(ConfirmScreen)
    assert "Remove 2 orphan throttles" in shown.frame()
    assert "Type kSh-9x to confirm" in shown.frame()
    await shown.pilot.press("y", "enter")
    await shown.until(lambda: "'y' is not kSh-9x; nothing was sent" in shown.frame(), "refused")
    await shown.pilot.press("escape")
    await shown.closed()
    await shown.press("j", "j", "j")
    assert "x removes it   X removes all 2" in shown.frame()
    await shown.press("x")
    await shown.dialog(ConfirmScreen)
    assert "Remove 1 orphan throttle" in shown.frame()
    await agree(shown)
    assert sent(shown)[0][1]["ids"] == ["o1"]


async def test_moves_of_others_are_taken_over_after_the_difference(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        await shown.press("4")
        assert "6 partitions move that no operation of kshunt owns" in shown.frame()
        assert shown.lines()[-1].startswith(" t take over")
        await shown.press("t")
        await shown.dialog(ConfirmScreen)
        assert "25 MB/s at the end" in shown.frame()
        await agree(shown)
        assert sent(shown)[0][0] == "/v1/throttles/adopt"


def test_many_orphans_are_counted_by_where_they_are_from() -> None:
    left = "left by a move that was cancelled"
    orphans = [
        replace(ORPHAN, id=f"o{n}", broker=n, origin=OrphanOrigin.CANCELLED_MOVE) for n in range(5)
    ] + [ORPHAN]
    drift = [replace(DRIFTED, id=f"d{n}", broker=n) for n in range(4)]
    title, lines = about(None, drift, orphans, 7)
    assert title == "All brokers and topics"
    said = [f"{line.label} {line.text}".strip() for line in lines]
    assert f"Orphans 5 {left}" in said
    assert "1 unknown; perhaps set by an operator" in said
    assert "and 2 more" in said
    assert [text for text in said if text.startswith("Press")] == [
        "Press d restores all of them   D keeps their value",
        "Press x removes all of them",
        "Press t shows what they are and takes them over",
    ]


async def test_a_long_list_takes_two_lines_of_the_pane_at_most(shown: Shown) -> None:
    long = ",".join(f"{n}:4" for n in range(200))
    shown.backend.orphans = {
        "o1": replace(
            ORPHAN,
            broker=None,
            topic="orders",
            present_value=SettingValue(replicas=long),
            setting=LIST,
        )
    }
    await shown.press("4", "j", "j", "j", "j", "j", "j")
    await look_again(shown)
    await shown.until(lambda: "x removes it" in shown.frame(), "the row is explained")
    pane = shown.lines()[-5:-1]
    assert "orders" in pane[0]
    assert pane[1].startswith(" Orphan    leader list of topic orders, unknown")
    assert pane[2].endswith("…")


# Who acts, and what is asked when


async def test_a_backend_that_follows_says_whom(shown: Shown) -> None:
    shown.backend.status = replace(
        shown.backend.status,
        acting="kshunt-9f8e7d6c",
        host="bastion-2",
        remarks=("The journal has 1 replica.",),
    )
    await look_again(shown)
    await shown.until(lambda: "follows kshunt-9f8e7d6c on bastion-2" in shown.lines()[0], "it is")
    assert "! The journal has 1 replica." in shown.frame()
    await shown.press("exclamation_mark")
    await shown.dialog(AttentionScreen)
    assert "The journal has 1 replica." in shown.frame()


def test_an_idle_cluster_is_asked_for_no_configuration() -> None:
    idle = PollingState(100.0, live=True, running=False, view=OVERVIEW)
    always = {BACKEND_STATUS, PIPELINE, PRESENCE, PROPOSALS}
    assert set(due(idle, {})) == {*always, PAST_DRIFT}
    assert set(due(replace(idle, view=OPERATIONS), {})) == always
    assert due(replace(idle, live=False), {}) == ()
    busy = replace(idle, running=True, throttles_set=True)
    assert set(due(busy, {})) == {*always, DRIFT, ORPHANS, OWNED}
    asked = {fact.name: 98.0 for fact in (*always, DRIFT, ORPHANS, OWNED)}
    assert due(busy, asked) == (DRIFT,)


def test_a_fact_is_not_asked_for_again_before_it_is_answered() -> None:
    state = PollingState(100.0, live=True, running=False, view=OVERVIEW)
    asked = {BACKEND_STATUS, PRESENCE, PROPOSALS, PAST_DRIFT}
    assert set(due(state, {}, {PIPELINE.name})) == asked
    assert due(state, {}, {one.name for one in due(state, {})}) == ()


async def test_what_cannot_be_asked_is_said(shown: Shown) -> None:
    shown.backend.drift_problem = Problem(403, "The configuration is not for you.")
    await look_again(shown)
    words = "Drift could not be read: The configuration is not for you."
    await shown.until(lambda: words in shown.frame(), "it is said")


@pytest.mark.parametrize(
    ("text", "caps"),
    [
        ("all", None),
        ("", None),
        ("5/200", MoveCaps(5, 200)),
        ("1/1 smallest", MoveCaps(1, 1, True)),
    ],
)
def test_caps_are_typed_as_numbers(text: str, caps: MoveCaps | None) -> None:
    assert parse_caps(text) == caps
    assert parse_caps(caps_text(caps)) == caps


@pytest.mark.parametrize("text", ["5", "5/", "a/b", "0/5", "5/200 largest", "5/200/3", "5/9999999"])
def test_other_caps_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_caps(text)


def test_the_caps_that_are_offered_can_be_typed() -> None:
    assert parse_caps(default_caps()) == MoveCaps(5, 200)


def test_who_asks_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSHUNT_USER", "ada@desk")
    assert who_am_i() == "ada@desk"
