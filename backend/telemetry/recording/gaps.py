"""What a recording lacks, and how a crash is found out: `gaps.jsonl` and `recording.json`.

Goals
    A reader of a recording can tell "nothing happened" from "nothing was recorded".
Constraints
    A crash at any moment leaves both files readable.
Algorithm
    `recording.json` says until when everything is written. It is renamed into place at each flush
    and removed at a clean end. A recorder that finds it at the start knows that the last run did
    not end cleanly, and since when rows may lack. `gaps.jsonl` has one line a gap. A line that a
    crash cut off is ignored, and the next one begins on a line of its own.
"""

from __future__ import annotations

import enum
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.files import refuse_link, replace_file, sync_folder

GAPS: Final = "gaps.jsonl"
STATE: Final = "recording.json"


class GapReason(enum.StrEnum):
    """Why rows lack."""

    CRASH = "crash"
    """The recorder was killed, or the machine went down: what was not flushed is lost."""
    SKIPPED = "skipped"
    """It fell behind, and left out moments of the sampler."""
    DROPPED = "dropped"
    """Rows could not be written, until there was no room for more."""
    LOST = "lost"
    """The cluster did not take them into the topic."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which rows lack, or may lack."""

    from_ms: int
    to_ms: int
    why: GapReason
    text: str
    """For an operator."""
    rows: int | None = None
    """How many; None where that is not known."""
    moments: int | None = None
    """Of the sampler, how many were left out; None where it is about rows."""

    @property
    def line(self) -> bytes:
        """As it is kept."""
        return json.dumps(asdict(self), ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class RecordingState:
    """How far a recording is written."""

    run: str
    """Which run of a recorder wrote this."""
    started_ms: int
    written_ms: int
    """Everything until then is written, or in `gaps.jsonl`."""

    @classmethod
    def of(cls, document: Any) -> RecordingState | None:
        """From JSON; None for anything else."""
        try:
            return cls(
                str(document["run"]), int(document["started_ms"]), int(document["written_ms"])
            )
        except (KeyError, TypeError, ValueError):
            return None


class GapLog:
    """The gaps of one recording; any thread may use it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / GAPS
        self._lock = threading.Lock()

    def append(self, gaps: Iterable[Gap]) -> None:
        """Write gaps down; on the disk when this returns.

        Raises:
            OSError: they cannot be written.
        """
        lines = b"".join(gap.line for gap in gaps)
        if not lines:
            return
        with self._lock, open(self._path, "a+b", opener=refuse_link) as file:
            if file.tell() and not _ends_whole(file):
                lines = b"\n" + lines
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def forget(self, before_ms: int) -> None:
        """Leave out gaps that ended before a moment.

        Raises:
            OSError: the file cannot be written anew; it is as it was.
        """
        with self._lock:
            gaps = read_file(self._path)
            recent = [gap for gap in gaps if gap.to_ms >= before_ms]
            if len(recent) < len(gaps):
                replace_file(self._path, b"".join(gap.line for gap in recent))


def read_file(path: Path) -> list[Gap]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [gap for line in lines if (gap := _gap(line)) is not None]


def _gap(line: bytes) -> Gap | None:
    try:
        document = json.loads(line)
        return Gap(
            int(document["from_ms"]),
            int(document["to_ms"]),
            GapReason(document["why"]),
            str(document["text"]),
            document.get("rows"),
            document.get("moments"),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _ends_whole(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def read_state(folder: Path) -> RecordingState | None:
    """How far the last run came; None where it ended cleanly, or there was none.

    A file that is no state counts as one whose time is UNKNOWN, so that it is said.

    Raises:
        OSError: the file is there and cannot be read.
    """
    try:
        content = (folder / STATE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        state = RecordingState.of(json.loads(content))
    except ValueError:
        state = None
    return state or RecordingState("", UNKNOWN, UNKNOWN)


def write_state(folder: Path, state: RecordingState) -> None:
    """Say how far this run came.

    Raises:
        OSError: it cannot be written; the former one is as it was.
    """
    replace_file(folder / STATE, json.dumps(asdict(state)).encode() + b"\n")


def end_state(folder: Path) -> None:
    """This run ended cleanly.

    Raises:
        OSError: the file cannot be removed.
    """
    (folder / STATE).unlink(missing_ok=True)
    sync_folder(folder)
