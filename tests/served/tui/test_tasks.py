"""What an operator on call does most, in a terminal, by as few keys as the manual promises.

Each task is done on a cluster of the demo, from the first screen on. A key that takes more presses
than it did is a change that somebody has to want.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import incident
from tests.support.tui.emulated_terminal import EmulatedTerminal, emulated

DEADLINE_S = 60.0
SIZE = (80, 24)
"""As over SSH, and what tests find in COLUMNS and LINES."""
ENTER, SPACE, TAB, CTRL_O = b"\r", b" ", b"\t", b"\x0f"
ORDERS: Final = """
title = "Small partitions"
about = "Broker 4 is empty."

[[brokers]]
count = 4
racks = ["rack-a", "rack-b"]

[[topics]]
name = "orders"
partitions = {partitions}
bytes_per_partition = 10_000_000
brokers = [1, 2, 3]
"""
SMALL: Final = ORDERS.format(partitions=6)
"""Each move ends within seconds."""
RUNNING: Final = (
    ORDERS.format(partitions=1)
    + """
[[topics]]
name = "archive"
partitions = 1
bytes_per_partition = 4_000_000_000
brokers = [1, 2, 3]

[[events]]
at_s = 0
action = "reassign"
moves = { "orders-0" = [1, 2, 4], "archive-0" = [1, 2, 4] }
throttle_bytes_per_s = 10_000_000
by = "kshunt"
"""
)
"""One of two moves ends within seconds, and the other one does not."""
FILES: Final = {
    "small.toml": SMALL,
    "running.toml": RUNNING,
    "plan.json": '{"version": 1, "partitions": '
    '[{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]}',
}
"""In the working directory."""
CONTEXTS: Final = ("first", "second")


def shows(shown: EmulatedTerminal, pattern: str) -> str:
    return shown.until(pattern, DEADLINE_S)


def agree(shown: EmulatedTerminal) -> None:
    agree_by(shown, b"y")


def agree_by(shown: EmulatedTerminal, key: bytes) -> None:
    shown.settle(DEADLINE_S)
    shown.press(key)


def is_it_healthy(shown: EmulatedTerminal) -> None:
    shows(shown, r"0 partitions\s+under-replicated,\s+0\s+under\s+min-ISR,\s+0\s+offline\.")
    shows(shown, r"All\s+5\s+brokers\s+up\.")


def what_never_arrives_is_fixed(shown: EmulatedTerminal) -> None:
    shows(shown, r"16 replicas will not arrive at this rate")
    shown.write("F")
    shows(shown, r"Then: done (\w{3} )?\d\d:\d\d .*was never")
    agree(shown)
    shows(shown, r"All 5 done\.")
    shows(shown, r"Moving 16 partitions · .*done ≈ (\w{3} )?\d\d:\d\d")


def three_brokers_get_more(shown: EmulatedTerminal) -> None:
    shows(shown, r"Moving 16 partitions")
    shown.write("4")
    shows(shown, r"broker 3 +5\.00 MB/s")
    shown.press(SPACE, SPACE, SPACE)
    shown.write("+")
    shows(shown, r"brokers 1, 2, 3: 5\.00 MB/s -> 5\.50 MB/s")
    shown.press(ENTER)
    shows(shown, r"all 3 would succeed")
    agree(shown)
    shows(shown, r"All 3 done\.")


def a_list_is_edited(shown: EmulatedTerminal) -> None:
    shows(shown, r"Moving 16 partitions")
    shown.write("4")
    shows(shown, r"orders +\d+:\d")
    shown.write("Ge")
    shows(shown, r"Throttled replicas of orders(.|\n)*Enter goes to Follower side")
    shown.write("*")
    shown.press(ENTER)
    shows(shown, r"Enter previews")
    shown.write("*")
    shown.press(ENTER)
    shows(shown, r"y: Set the lists")
    agree(shown)
    shows(shown, r"orders +done")
    shows(shown, r"It is done")


def a_plan_file_is_started(shown: EmulatedTerminal) -> None:
    shows(shown, r"All 4 brokers up")
    shown.write("r")
    shows(shown, r"Enter continues, Tab completes")
    shown.write("p")
    shown.press(TAB)
    shows(shown, r"> plan\.json")
    shown.press(ENTER)
    shows(shown, r"Enter goes to Parallel moves")
    shown.write("9MB/s")
    shown.press(ENTER)
    shows(shown, r"Enter goes to Reason")
    shown.press(ENTER)
    shows(shown, r"Enter previews")
    shown.press(ENTER)
    shows(shown, r"y: Start the move")
    agree(shown)
    shows(shown, r"It is done after .*: 1 of 1 where the plan wants them, throttle removed")


def a_broker_is_drained(shown: EmulatedTerminal) -> None:
    """The second one: of a plan that was made, rehearsed, and previewed."""
    shows(shown, r"All 4 brokers up")
    shown.write("P")
    shows(shown, r"1 Drain brokers")
    shown.press(ENTER)
    shows(shown, r"Enter goes to Brokers to drain")
    shown.press(b"j", SPACE)
    shows(shown, r"Enter plans it")
    shown.press(ENTER)
    shows(shown, r"To drain broker 2: 6 partitions change, 6 replicas move")
    shown.press(ENTER)
    shows(shown, r"Enter goes to Deadline")
    shown.press(ENTER)
    shows(shown, r"Enter rehearses")
    shown.press(ENTER)
    shows(shown, r"Busiest in(.|\n)*Enter starts it")
    shown.press(ENTER)
    shows(shown, r"Throttle +25\.0 MB/s(.|\n)*y: Start the move")
    agree(shown)
    shows(shown, r"It is done after .*: 6 of 6 where the plan wants them, throttle removed")


def an_operation_is_steered(shown: EmulatedTerminal) -> None:
    """It is paused, resumed, and cancelled; what was copied by then is moved back."""
    shows(shown, r"Moving 1 partition .*done ≈")
    shown.write("5")
    shows(shown, r"running .* 1/2 ")
    change(shown, "p", "Pause it", r"It is paused")
    close_answer(shown)
    change(shown, "p", "Resume it", r"It is running(.|\n)*c cancels it")
    change(shown, "c", "Cancel it", r"It is done")
    close_answer(shown)
    shows(shown, r"Outcome +1 of 2 where the plan wants them, 1 cancelled")
    shown.write("u")
    shows(shown, r"all 2 would succeed(.|\n)*Undo it")
    agree(shown)
    shows(shown, r"It is done after .*: 2 of 2 where the plan wants them")


def change(shown: EmulatedTerminal, key: str, button: str, answer: str) -> None:
    """Steer the operation, and wait for the answer."""
    shown.write(key)
    shows(shown, button)
    agree(shown)
    shows(shown, answer)


def close_answer(shown: EmulatedTerminal) -> None:
    """Return to the table, with the operation under the cursor."""
    shown.press(ENTER)
    shows(shown, r"── reassign \w+: (running|paused|partly cancelled) ─")


def a_topic_loses_partitions(shown: EmulatedTerminal) -> None:
    shows(shown, r"about to be deleted")
    shown.write("7")
    shows(shown, r"orders +8 ")
    shown.write("j-")
    shows(shown, r"orders has 8 partitions\.(.|\n)*Enter continues")
    shown.write("4")
    shown.press(ENTER)
    shows(shown, r"Enter goes to Overrule")
    shown.press(ENTER)
    shows(shown, r"Enter goes to Reason")
    shown.press(ENTER)
    shows(shown, r"Enter previews")
    shown.press(ENTER)
    shows(shown, r"It can start(.|\n)*Enter asks for the name")
    shown.press(ENTER)
    shows(shown, r"Type orders to confirm: ")
    shown.settle(DEADLINE_S)
    shown.write("orders")
    shown.press(ENTER)
    shows(shown, r"orders-7 can still be read")


def leaders_are_elected(shown: EmulatedTerminal) -> None:
    shows(shown, r"18 partitions not led by the preferred replica")
    shown.write("L")
    shows(shown, r"y: Elect")
    agree(shown)
    shows(shown, r"18 (of 54 )?done")


def throttles_of_a_broker_are_removed(shown: EmulatedTerminal) -> None:
    shows(shown, r"14 orphan throttles")
    shown.write("4")
    shows(shown, r"x removes these")
    shown.write("x")
    shows(shown, r"would succeed")
    agree(shown)
    shows(shown, r"\d done\.")


def what_was_there_a_moment_ago_is_noted(shown: EmulatedTerminal) -> None:
    shows(shown, r"Moving 16 partitions")
    shown.write("T")
    shows(shown, r"BACK IN TIME · [1-9]\d*s ago · .* held")
    shown.write("W")
    shows(shown, r"Written: kshunt-handover-")
    shown.write("T")
    shows(shown, r"live, <")
    [note] = shown.folder.glob("kshunt-handover-*.md")
    assert "16 partitions" in note.read_text("utf-8")


def a_row_is_copied(shown: EmulatedTerminal) -> None:
    shows(shown, r"Moving 16 partitions")
    shown.write("4")
    shows(shown, r"broker 1 +5\.00 MB/s")
    shown.write("y")
    shows(shown, r"Copied, if your terminal takes it")
    assert re.search(r"broker 1\b.*5\.00 MB/s", copied(shown))


def copied(shown: EmulatedTerminal) -> str:
    """What the terminal was told to copy."""
    [sent] = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", shown.program.written)
    return base64.b64decode(sent).decode()


def the_command_of_a_change_is_copied(shown: EmulatedTerminal) -> None:
    shows(shown, r"16 replicas will not arrive at this rate")
    shown.write("F")
    shows(shown, r"C copies the kshunt command")
    agree_by(shown, b"C")
    shows(shown, r"Copied, if your terminal takes it")
    assert copied(shown).startswith("kshunt throttles set-rates --leader-rate ")


def a_table_is_exported(shown: EmulatedTerminal) -> None:
    shows(shown, r"Moving 16 partitions")
    shown.write("3")
    shows(shown, r"Brk +Lead")
    shown.write("E")
    shows(shown, r"The table \(5 rows\): \.csv or \.json")
    agree_by(shown, ENTER)
    shows(shown, r"Written: .*kshunt-brokers-")
    [path] = shown.folder.glob("kshunt-brokers-*.csv")
    assert len(list(csv.reader(path.read_text("utf-8").splitlines()))) == 1 + 5


@dataclass(frozen=True)
class Task:
    """One of them."""

    scenario: str
    does: Callable[[EmulatedTerminal], None]
    keys: int
    """How many it takes."""
    most: int | None = None
    """How many it may ever take, where that was promised."""


TASKS: Final = (
    Task("throttle-too-low", is_it_healthy, 0),
    Task("throttle-too-low", what_never_arrives_is_fixed, 2, most=4),
    Task("throttle-too-low", three_brokers_get_more, 7, most=8),
    Task("throttle-too-low", a_list_is_edited, 8),
    Task("small.toml", a_plan_file_is_started, 13),
    Task("small.toml", a_broker_is_drained, 10, most=12),
    Task("running.toml", an_operation_is_steered, 11),
    Task("hot-broker", leaders_are_elected, 2),
    Task("shrink", a_topic_loses_partitions, 16),
    Task("orphan-throttles", throttles_of_a_broker_are_removed, 3),
    Task("throttle-too-low", what_was_there_a_moment_ago_is_noted, 3),
    Task("throttle-too-low", a_table_is_exported, 3),
    Task("throttle-too-low", a_row_is_copied, 2),
    Task("throttle-too-low", the_command_of_a_change_is_copied, 2),
)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.does.__name__)
def test_a_task_takes_so_many_keys(task: Task, tmp_path: Path) -> None:
    environ = {name: str(tmp_path) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "kshunt", "demo", "--scenario", task.scenario]
    with emulated(command, environ, SIZE, tmp_path) as shown:
        task.does(shown)
        assert shown.keys == task.keys
    assert task.most is None or task.keys <= task.most


def another_cluster_is_opened(folder: Path) -> None:
    environ = {name: str(folder) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    environ["KSHUNT_CONFIG"] = str(folder / "config.toml")
    command = [sys.executable, "-m", "kshunt", "--context", "first"]
    with emulated(command, environ, SIZE, folder) as shown:
        shows(shown, r" kshunt  first ")
        shown.press(CTRL_O)
        shows(shown, r"Enter opens, Esc closes")
        shown.press(b"j", ENTER)
        shows(shown, r" kshunt  second (.|\n)*Health")
        assert shown.keys == 3


async def test_another_cluster_takes_three_keys(tmp_path: Path) -> None:
    contexts = (f'[contexts.{name}]\nbackend = "unix:{tmp_path}/{name}"\n' for name in CONTEXTS)
    (tmp_path / "config.toml").write_text("".join(contexts))
    first, second = (ScriptedBackend(tmp_path / name, incident()) for name in CONTEXTS)
    async with first, second:
        await asyncio.to_thread(another_cluster_is_opened, tmp_path)
