"""Messages that wait, in a file: what is in it when a backend is killed, the next one sends.

Goals
    A message that was written here is sent or ends among the dead letters, whatever is killed.
Constraints
    Sent once more is better than lost: receivers know a message by its id. The file does not grow
    with what was sent long ago.
Algorithm
    An append-only log of JSON lines: a message and its hook, or that it is settled. Only messages
    are synced to the disk. The reader ignores a line that a crash cut off. The file is emptied
    when nothing waits, and written anew when most of it is settled. It is locked by one process.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from kshunt.backend.errors import ConfigError
from kshunt.backend.files import locked, make_folder, replace_file, sync_folder
from kshunt.backend.notify.message import Message, encoded

log = logging.getLogger(__name__)

REWRITE_BYTES: Final = 1 << 20
"""A file is not written anew before it is larger than this."""


class Spool:
    """See the module's text. Any thread may call; a call may wait for the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[tuple[str, str], bytes] = {}
        """What waits, by hook and id, as it is written."""
        self._size_bytes = 0
        self._file: int | None = None
        self._lock: IO[str] | None = None
        self._turn = threading.Lock()

    def open(self) -> tuple[tuple[str, Message], ...]:
        """Take the file for this process; what waits in it, by hook, in its order.

        Raises:
            ConfigError: another process has it, or it cannot be read or written.
        """
        try:
            make_folder(self._path.parent)
            self._lock = locked(self._path.with_name(f"{self._path.name}.lock"))
            if self._lock is None:
                raise ConfigError(
                    f"Another backend keeps the messages of its webhooks in {self._path}.",
                    advice="Name another file by --webhook-dead-letter.",
                )
            # Who can open it can lock it.
            os.fchmod(self._lock.fileno(), 0o600)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            os.fchmod(self._file, 0o600)
            with os.fdopen(os.dup(self._file), "rb") as reader:
                content = reader.read()
            sync_folder(self._path.parent)
        except OSError as error:
            self.close()
            raise ConfigError(
                f"{self._path} cannot be used for waiting messages: {error.strerror}.",
                advice="Name another place by --webhook-dead-letter.",
            ) from None
        found = self._read(content)
        # A disk that is full now may not be later; what is settled only takes room.
        with suppress(OSError):
            self._tidy(force=True)
        return found

    def close(self) -> None:
        """Leave the file to others, once nobody writes."""
        with self._turn:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def put(self, entries: Iterable[tuple[str, Message]]) -> None:
        """Keep messages of hooks; returns once they survive the machine.

        Raises:
            OSError: they are not kept.
        """
        lines = {
            (hook, message.id): _line({"hook": hook, "message": message.as_json()})
            for hook, message in entries
        }
        with self._turn:
            self._append(b"".join(lines.values()), sync=True)
            self._lines |= lines

    def forget(self, hook: str, message_id: str) -> None:
        """A message needs nothing more.

        Raises:
            OSError: that is not written; after a crash it is sent again.
        """
        with self._turn:
            if self._lines.pop((hook, message_id), None) is not None:
                self._append(_line({"hook": hook, "settled": message_id}), sync=False)
                self._tidy()

    def _append(self, content: bytes, *, sync: bool) -> None:
        if self._file is None:
            raise OSError(errno.EBADF, "the file is closed")
        try:
            os.lseek(self._file, self._size_bytes, os.SEEK_SET)
            written = 0
            while written < len(content):
                written += os.write(self._file, content[written:])
            if sync:
                os.fsync(self._file)
        except OSError:
            # Half a line would spoil the next one.
            os.ftruncate(self._file, self._size_bytes)
            raise
        self._size_bytes += len(content)

    def _tidy(self, *, force: bool = False) -> None:
        """Empty the file, or write it anew, where most of it is settled."""
        live_bytes = sum(map(len, self._lines.values()))
        if self._file is None or (self._size_bytes == live_bytes and not force):
            return
        if not self._lines:
            os.ftruncate(self._file, 0)
            self._size_bytes = 0
        elif force or self._size_bytes > max(REWRITE_BYTES, 2 * live_bytes):
            replace_file(self._path, b"".join(self._lines.values()), mode=0o600)
            os.close(self._file)
            self._file = None
            self._file = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW)
            self._size_bytes = live_bytes

    def _read(self, content: bytes) -> tuple[tuple[str, Message], ...]:
        found: dict[tuple[str, str], Message] = {}
        damaged = 0
        for line in content.splitlines():
            try:
                document = json.loads(line)
                hook = str(document["hook"])
                if "settled" in document:
                    found.pop((hook, document["settled"]), None)
                    continue
                message = Message.from_json(document["message"])
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                damaged += 1
                continue
            found[hook, message.id] = message
        if damaged:
            log.warning("%s: %d lines cannot be read and were ignored", self._path, damaged)
        self._lines = {
            (hook, id): _line({"hook": hook, "message": message.as_json()})
            for (hook, id), message in found.items()
        }
        # What was cut off by a crash is written over.
        self._size_bytes = content.rfind(b"\n") + 1
        return tuple((hook, message) for (hook, _), message in found.items())


def _line(document: dict[str, Any]) -> bytes:
    return encoded(document) + b"\n"
