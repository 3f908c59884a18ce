"""What an operator on call does most, in a terminal, by as few keys as the manual promises.

Each task is done on a cluster of the demo, from the first screen on. A key that takes more presses
than it did is a change that somebody has to want.
"""

from __future__ import annotations

import base64
import csv
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.tui.emulated_terminal import EmulatedTerminal, emulated

DEADLINE_S = 60.0
SIZE = (80, 24)
"""As over SSH, and what tests find in COLUMNS and LINES."""
ENTER, SPACE = b"\r", b" "


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
    shows(shown, r"Then: done \d\d:\d\d .*was never")
    agree(shown)
    shows(shown, r"All 5 done\.")
    shows(shown, r"Moving 16 partitions · .*done ≈ \d\d:\d\d")


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


def what_was_there_a_moment_ago_is_shown(shown: EmulatedTerminal) -> None:
    shows(shown, r"Moving 16 partitions")
    shown.write("T")
    shows(shown, r"BACK IN TIME .* held")
    shown.write("T")
    shows(shown, r"live, <")


def a_row_is_copied(shown: EmulatedTerminal) -> None:
    shows(shown, r"Moving 16 partitions")
    shown.write("4")
    shows(shown, r"broker 1 +5\.00 MB/s")
    shown.write("y")
    shows(shown, r"Copied, if your terminal takes it")
    [sent] = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", shown.program.written)
    assert re.search(r"broker 1\b.*5\.00 MB/s", base64.b64decode(sent).decode())


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


TASKS: Final = (
    Task("throttle-too-low", is_it_healthy, 0),
    Task("throttle-too-low", what_never_arrives_is_fixed, 2),
    Task("throttle-too-low", three_brokers_get_more, 7),
    Task("hot-broker", leaders_are_elected, 2),
    Task("orphan-throttles", throttles_of_a_broker_are_removed, 3),
    Task("throttle-too-low", what_was_there_a_moment_ago_is_shown, 2),
    Task("throttle-too-low", a_row_is_copied, 2),
    Task("throttle-too-low", a_table_is_exported, 3),
)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.does.__name__)
def test_a_task_takes_so_many_keys(task: Task, tmp_path: Path) -> None:
    environ = {name: str(tmp_path) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    command = [sys.executable, "-m", "kshunt", "demo", "--scenario", task.scenario]
    with emulated(command, environ, SIZE, tmp_path) as shown:
        task.does(shown)
        assert shown.keys == task.keys
