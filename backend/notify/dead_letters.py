"""Messages that could not be delivered, whole, in a file that an operator reads and sends again.

One JSON object a line has the message and its hook (by host and hash, never by its address). It
also says when the backend gave the message up, after how many attempts, and what the last attempt
came to. Only the file's owner can read it. Every line is on the disk before the backend forgets
the message. The backend rotates the file at a bound: `FILE.1` is the youngest of the older ones.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kshunt.backend.errors import BadInput
from kshunt.backend.files import make_folder, replace_file, sync_folder, turn
from kshunt.backend.notify.message import Message, encoded

log = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 16 << 20
OLDER_MAX: Final = 4
"""Older files that stay, in addition to the one that is written."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that was given up."""

    hook: str
    """The id of its hook."""
    host: str
    at_ms: int
    attempts: int
    error: str
    """What the last attempt came to, or why there was none."""
    message: Message

    def line(self) -> bytes:
        """As it is written."""
        document = {
            "hook": self.hook,
            "host": self.host,
            "at_ms": self.at_ms,
            "attempts": self.attempts,
            "error": self.error,
            "message": self.message.as_json(),
        }
        return encoded(document) + b"\n"


class DeadLetters:
    """One such file. A call may wait for the disk, and for another process's turn."""

    def __init__(
        self, path: Path, bytes_max: int = FILE_BYTES_MAX, older_max: int = OLDER_MAX
    ) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._older_max = older_max

    def add(self, letters: Iterable[Letter]) -> None:
        """Write letters; returns once they survive the machine.

        Raises:
            OSError: none of them is written.
        """
        content = b"".join(letter.line() for letter in letters)
        make_folder(self.path.parent)
        with turn(_lock(self.path)):
            self._rotate(len(content))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            handle = os.open(self.path, flags, 0o600)
            try:
                os.fchmod(handle, 0o600)
                _appended(handle, content)
            finally:
                os.close(handle)
            sync_folder(self.path.parent)

    def _rotate(self, coming_bytes: int) -> None:
        try:
            size_bytes = self.path.stat().st_size
        except FileNotFoundError:
            return
        if not size_bytes or size_bytes + coming_bytes <= self._bytes_max:
            return
        older = [self.path.with_name(f"{self.path.name}.{n + 1}") for n in range(self._older_max)]
        if older[-1].exists():
            log.warning("%s is dropped: there are %d newer ones", older[-1], len(older))
        for source, target in zip([*older[-2::-1], self.path], older[::-1], strict=True):
            with suppress(FileNotFoundError):
                source.replace(target)


def _appended(handle: int, content: bytes) -> None:
    before = os.fstat(handle).st_size
    try:
        written = 0
        while written < len(content):
            written += os.write(handle, content[written:])
        os.fsync(handle)
    except OSError:
        # Half a line would spoil the next one.
        os.ftruncate(handle, before)
        raise


def read_letters(path: Path) -> tuple[tuple[Letter, ...], int]:
    """The letters of a file, the oldest first, and how many lines could not be read.

    Raises:
        BadInput: there is no such file, or it cannot be read.
    """
    try:
        if not path.exists():
            raise BadInput(
                f"{path} cannot be read: there is no such file.",
                advice="A backend creates it for its first dead letter. Either there is none "
                "yet, or the file is elsewhere (--webhook-dead-letter).",
            )
        with turn(_lock(path)):
            lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None
    letters = [letter for line in lines if (letter := _letter(line)) is not None]
    return tuple(letters), len(lines) - len(letters)


def remove_letters(path: Path, gone: Collection[tuple[str, str]]) -> None:
    """Take letters out of a file, by hook and message id; what came meanwhile stays.

    Raises:
        BadInput: the file cannot be read or written; it is as it was.
    """
    try:
        with turn(_lock(path)):
            lines = path.read_bytes().splitlines(keepends=True)
            remaining = [line for line in lines if not _is_among(line, gone)]
            replace_file(path, b"".join(remaining), mode=0o600)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written: {error.strerror}.",
            advice="The messages that were sent are still in it; receivers recognize them by "
            "their id.",
        ) from None


def _is_among(line: bytes, gone: Collection[tuple[str, str]]) -> bool:
    letter = _letter(line)
    return letter is not None and (letter.hook, letter.message.id) in gone


def _letter(line: bytes) -> Letter | None:
    try:
        document: dict[str, Any] = json.loads(line)
        texts: Sequence[str] = [document[name] for name in ("hook", "host", "error")]
        numbers: Sequence[int] = [document[name] for name in ("at_ms", "attempts")]
        if not all(isinstance(text, str) for text in texts):
            return None
        if not all(type(number) is int for number in numbers):
            return None
        message = Message.from_json(document["message"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return Letter(texts[0], texts[1], numbers[0], numbers[1], texts[2], message)


def _lock(path: Path) -> Path:
    return path.with_name(f"{path.name}.turn")
