"""Copying the command of a preview: its text, where it is said, and what is too long to copy."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kshunt.backend.commandline.reading import read
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkRequest
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.tools.topics.options import COMMAND, parse_options
from kshunt.tui.changes.intents.operations import operation_intent
from kshunt.tui.changes.intents.shrink import shrink_intent
from kshunt.tui.changes.wizard import copy_command as copying
from kshunt.tui.changes.wizard.command_line import CommandLine
from kshunt.tui.changes.wizard.confirm import ConfirmScreen
from kshunt.tui.changes.wizard.copy_command import cluster_words
from kshunt.tui.changes.wizard.intent import TargetCluster
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.result import ResultScreen
from kshunt.tui.shell.contexts import ClusterChoice
from tests.support.tui.app import Shown, answer_form, at_step, dashboard, plan_file
from tests.support.tui.cluster import incident, running_move
from tests.support.tui.tables import facts_of

HOSTILE = 'it\'s `$(rm -rf ~)` "$HOME" \\ ; |'


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard during a throttled move, at 80x24."""
    async with dashboard(tmp_path / "s", incident()) as running:
        yield running


class Opened:
    """The contexts of a session that a command line opened."""

    failure = ""

    def __init__(self, *present: str) -> None:
        self.present: tuple[str, ...] | None = present or None

    def known(self) -> list[ClusterChoice]:
        """None."""
        return []

    looked_up = known

    def open(self, choice: ClusterChoice) -> None:
        """Nothing is opened here."""


def words_of(text: str) -> list[str]:
    """What a shell makes of the last command of a line."""
    return shlex.split(text)[shlex.split(text).index("kshunt") :]


def test_each_word_survives_a_shell() -> None:
    command = CommandLine(("throttles", "set-rates"), HOSTILE, "reassignment-json-file")
    text = command.text(("--context", "my prod"), HOSTILE)
    echoed = text.replace("kshunt ", "printf '%s\\n' ", 1)
    said = subprocess.run(["sh", "-c", echoed], capture_output=True, text=True, check=True).stdout
    file = ["--reassignment-json-file", "/dev/stdin"]
    expected = ["throttles", "set-rates", "--context", "my prod", *file, "--reason", HOSTILE]
    assert said.splitlines() == expected
    piped = text.rpartition(" | kshunt ")[0]
    read = subprocess.run(["sh", "-c", piped], capture_output=True, text=True, check=True).stdout
    assert read == HOSTILE


def test_a_file_takes_the_place_of_the_pipe() -> None:
    command = CommandLine(("x",), "{}", "path-to-json-file")
    text = command.text((), "", "/tmp/a plan.json")
    assert text == "kshunt x --path-to-json-file '/tmp/a plan.json'"


@pytest.mark.parametrize(
    ("present", "named"),
    [
        (("--context", "prod"), ("--context", "prod")),
        (("--bootstrap-server=b1:9092",), ("--bootstrap-server=b1:9092",)),
        (
            ("--backend=https://k:1", "--ca-file=/x.pem"),
            ("--backend=https://k:1", "--ca-file=/x.pem"),
        ),
        (("--zookeeper=z:2181",), None),
        (("demo",), None),
        ((), None),
    ],
)
async def test_the_command_names_the_cluster_as_it_was_opened(
    shown: Shown, present: tuple[str, ...], named: tuple[str, ...] | None
) -> None:
    shown.app.contexts = Opened(*present)
    assert cluster_words(shown.app) == (named or ("--backend", shown.app.address))


async def test_c_copies_from_a_question_and_nothing_is_sent(shown: Shown) -> None:
    shown.app.workflows.set_rates({2: ThrottledRate(10**7, 10**7)}, lambda: None)
    await shown.dialog(ConfirmScreen)
    assert "C copies the kshunt command that does the same" in shown.frame()
    await shown.pilot.press("C")
    await shown.until(lambda: shown.app.clipboard, "it is copied")
    expected = ["kshunt", "throttles", "set-rates", "--rate", "2=10MB/s"]
    assert words_of(shown.app.clipboard) == [*expected, "--backend", shown.app.address]
    await shown.until(lambda: "OSC 52" in shown.frame(), "it is said")
    assert "Do nothing (Esc)" in shown.frame(), "the buttons stay in sight"
    assert shown.backend.changes == []
    await shown.pilot.press("w")
    await shown.write("because")
    await shown.pilot.press("enter", "C")
    await shown.until(lambda: "--reason because" in shown.app.clipboard, "with the reason")
    shown.app._clipboard = ""
    await shown.pilot.press("y")
    await shown.dialog(ResultScreen)
    assert "C copies the command, Esc or Enter closes" in shown.frame()
    await shown.pilot.press("C")
    await shown.until(lambda: "--reason because" in shown.app.clipboard, "after the answer, too")
    await shown.until(lambda: "OSC 52" in shown.frame(), "it is said")


async def test_c_copies_from_the_preview_of_a_wizard(shown: Shown, tmp_path: Path) -> None:
    path = plan_file(tmp_path, {("orders", 3): [1, 2, 5]})
    await shown.press("5", "r")
    await answer_form(shown, str(path), "50MB/s", "5/200", "more room")
    await at_step(shown, Step.PREVIEW)
    assert "C copies the command" in shown.frame()
    await shown.pilot.press("C")
    await shown.until(lambda: shown.app.clipboard, "it is copied")
    words = shlex.split(shown.app.clipboard)
    plan = parse_plan(words[2])
    assert {str(one): target for one, target in plan.replicas.items()} == {"orders-3": (1, 2, 5)}
    assert plan.cluster_id == shown.app.store.scene.cluster_id
    rest = words_of(shown.app.clipboard)
    assert rest[1:3] == ["kafka-reassign-partitions", "--execute"]
    assert rest[rest.index("--throttle") + 1] == "50MB/s"
    assert rest[rest.index("--parallel-moves") + 1] == "5/200"
    assert rest[rest.index("--reason") + 1] == "more room"
    assert "--additional" in rest, "others move"
    await shown.until(lambda: "Copied, with its partitions" in shown.frame(), "it is said")
    assert '"version"' not in shown.frame(), "the plan itself is not"
    assert "y: Start the move" in shown.frame(), "the keys stay in sight"
    assert shown.backend.changes == []


async def test_where_a_name_is_typed_c_is_a_letter_of_it(shown: Shown) -> None:
    await shown.press("C")
    await shown.dialog(ConfirmScreen)
    assert "Tab leaves the line. Then C copies the kshunt command." in shown.frame()
    await shown.pilot.press("C")
    assert not shown.app.clipboard
    await shown.pilot.press("tab", "C")
    await shown.until(lambda: "--cancel" in shown.app.clipboard, "it is copied")


async def test_a_plan_that_no_terminal_takes_is_written(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(copying, "COPY_MOST", 100)
    await shown.press("f", "c")
    await shown.dialog(ConfirmScreen)
    await shown.pilot.press("C")
    await shown.until(lambda: shown.app.clipboard, "it is copied")
    words = words_of(shown.app.clipboard)
    (name,) = [name for name in os.listdir(tmp_path) if name.startswith("kshunt-plan-")]
    file = tmp_path / name
    assert words[words.index("--reassignment-json-file") + 1] == str(file)
    assert json.loads(file.read_text())["partitions"]
    await shown.until(lambda: "Its plan is in" in shown.frame(), "where it is, is said")
    shown.app._clipboard = ""
    await shown.pilot.press("C")
    await shown.until(lambda: "No file was replaced" in shown.frame(), "twice in a second")
    assert not shown.app.clipboard


def test_a_shrink_by_a_copy_is_asked_for_as_the_tool_asks() -> None:
    def asked(partitioner: Partitioner | None) -> tuple[ShrinkRequest, ShrinkRequest]:
        request = ShrinkRequest("orders", 3, 90_000, partitioner=partitioner)
        command = shrink_intent(TargetCluster("c", "h:9"), request, 6, "").command
        assert command is not None
        words = read(COMMAND, [*command.words[1:], "--backend", "unix:/x"])
        assert words is not None
        found = parse_options(words.given)
        assert found.delay_ms is not None
        by_tool = ShrinkRequest(
            found.topic, found.partitions, found.delay_ms, partitioner=found.partitioner
        )
        return request, by_tool

    for partitioner in (None, Partitioner.CRC32):
        request, by_tool = asked(partitioner)
        assert request == by_tool


@pytest.mark.parametrize(
    "chosen",
    [
        {"target": "orders-v2", "cut_over": CutOver.NEW_NAME},
        {"write_block": True},
        {"insisted": ("disk-space",)},
    ],
)
def test_what_the_tool_has_no_flag_for_has_no_command(chosen: dict[str, Any]) -> None:
    request = replace(ShrinkRequest("orders", 3, 90_000), **chosen)
    assert shrink_intent(TargetCluster("c", "h:9"), request, 6, "").command is None


def test_the_cancel_of_an_operation_names_what_it_still_moves() -> None:
    cluster = incident()
    operation, facts, target = running_move(cluster), facts_of(cluster), TargetCluster("c", "h:9")
    moving = set(facts.moving_partitions)
    arrived = next(one for one in cluster.partitions if one not in moving)
    operation = replace(operation, partitions=(arrived, *operation.partitions))
    command = operation_intent(facts, target, operation, "cancel").command
    assert command is not None
    assert set(parse_plan(command.document).replicas) == moving
    assert operation_intent(facts, target, operation, "pause").command is None
    assert operation_intent(None, target, operation, "cancel").command is None
    ended = replace(operation, partitions=(arrived,))
    assert operation_intent(facts, target, ended, "cancel").command is None


@pytest.mark.parametrize(
    "kind",
    [kind for kind in OperationKind if kind not in (OperationKind.REASSIGN, OperationKind.ADOPT)],
)
def test_no_command_cancels_an_operation_of_another_kind(kind: OperationKind) -> None:
    cluster = incident()
    operation = replace(running_move(cluster), kind=kind)
    intent = operation_intent(facts_of(cluster), TargetCluster("c", "h:9"), operation, "cancel")
    assert intent.command is None


async def test_a_change_without_a_command_says_so(tmp_path: Path) -> None:
    cluster = incident()
    running_move(cluster)
    async with dashboard(tmp_path / "s", cluster) as shown:
        await shown.press("5", "p")
        await shown.dialog(ConfirmScreen)
        assert "C copies" not in shown.frame()
        await shown.pilot.press("C")
        await shown.until(lambda: "No kshunt command makes this change." in shown.frame(), "said")
