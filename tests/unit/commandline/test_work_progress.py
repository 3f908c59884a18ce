"""What a command says while long work is under way."""

from __future__ import annotations

import io
import os
import pty
import threading

import pytest

from kshunt.backend.commandline.work_progress import WorkProgress
from tests.support.waiting import wait_until

DEADLINE_S = 60.0


def progress_after(spent_s: float, share: float, detail: str = "") -> str:
    times = iter([100.0, 100.0 + spent_s])
    progress = WorkProgress("Rehearsing", io.StringIO(), lambda: next(times))
    progress.is_at(share, detail)
    return progress.line


@pytest.mark.parametrize(
    ("spent_s", "share", "line"),
    [
        (12, 0.4, "Rehearsing throttle 2 of 5: 40% after 12s, about 18s left"),
        (12, 0.01, "Rehearsing throttle 2 of 5: 1% after 12s"),
        (12, 0.0, "Rehearsing throttle 2 of 5: 12s"),
        (75, 1.0, "Rehearsing throttle 2 of 5: 1m15s"),
    ],
)
def test_a_line_says_what_how_far_and_how_long_yet(spent_s: float, share: float, line: str) -> None:
    assert progress_after(spent_s, share, "throttle 2 of 5") == line


def test_work_that_ends_at_once_says_nothing() -> None:
    where = io.StringIO()
    with WorkProgress("Planning", where):
        pass
    assert where.getvalue() == ""


def test_a_file_gets_whole_lines() -> None:
    where = io.StringIO()
    with WorkProgress("Planning \x1b[2J", where):
        wait_until(where.getvalue, DEADLINE_S, "a line is written")
    assert where.getvalue().startswith("Planning ?[2J: ")
    assert where.getvalue().endswith("\n")
    assert "\x1b" not in where.getvalue()


def test_a_terminal_gets_one_line_that_is_erased_at_the_end() -> None:
    ours, theirs = pty.openpty()
    seen = bytearray()

    def read() -> None:
        try:
            while chunk := os.read(ours, 4096):
                seen.extend(chunk)
        except OSError:
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with os.fdopen(theirs, "w") as where, WorkProgress("Planning", where):
        wait_until(lambda: seen.count(b"Planning") >= 2, DEADLINE_S, "the line is written anew")
    reader.join(DEADLINE_S)
    os.close(ours)
    assert seen.endswith(b"\r\x1b[2K")
    assert b"\n" not in seen


def test_work_is_asked_where_it_is_before_each_line() -> None:
    where, places = io.StringIO(), iter(range(1, 1_000))
    with WorkProgress("Making rates", where, detail=lambda: f"({next(places)} of 40 tasks)"):
        wait_until(where.getvalue, DEADLINE_S, "a line is written")
    assert where.getvalue().startswith("Making rates (1 of 40 tasks): ")


def test_work_goes_on_where_nobody_reads() -> None:
    where = io.StringIO()
    with WorkProgress("Planning", where) as progress:
        where.close()
        wait_until(lambda: not progress._thread.is_alive(), DEADLINE_S, "the thread has ended")


def test_an_error_of_the_work_is_the_errors_own() -> None:
    with pytest.raises(KeyboardInterrupt), WorkProgress("Planning", io.StringIO()):
        raise KeyboardInterrupt
