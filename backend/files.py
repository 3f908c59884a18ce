"""Files that survive: replaced as a whole, with names that are on the disk, and locks on them.

And the folder in which kshunt keeps its own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def state_folder(environment: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/kshunt`, or below `~/.local/state`."""
    state = environment.get("XDG_STATE_HOME", "")
    # The XDG specification has programs ignore a path that is not absolute.
    root = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return root / "kshunt"


def replace_file(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file aside, make sure of it, and rename it into place.

    Args:
        path: The file.
        content: Everything that it holds afterwards.
        mode: Its permissions, less the process's mask.

    Raises:
        OSError: it cannot be written; what was at `path` is as it was.
    """
    aside = path.with_name(f".{path.name}.tmp")
    try:
        # What an earlier attempt has left behind may be open to others.
        aside.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(aside, flags, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        # Whatever hinders the removal hinders more than this.
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def refuse_link(name: str, flags: int) -> int:
    """For `open(..., opener=refuse_link)`: a symbolic link in the place of the file is refused.

    Raises:
        OSError: it is one, or cannot be opened.
    """
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def sync_folder(path: Path) -> None:
    """Make sure that names in a folder survive the machine.

    Raises:
        OSError: it cannot be.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Make a folder and those above it, and make sure of their names.

    Args:
        path: The folder; one that exists stays as it is.
        mode: Who may do what with it, less the process's mask; folders above it take the usual.

    Raises:
        OSError: it cannot be made.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        path.mkdir(mode=mode)
    except FileExistsError:
        if not path.is_dir():  # or else another process made it first
            words = "A file is where a folder is needed"
            raise NotADirectoryError(errno.ENOTDIR, words, str(path)) from None
    sync_folder(path.parent)


def _lock_file(path: Path) -> int:
    """Open a lock file, which is made if need be; what it holds stays as it is.

    It has to be a file of this user, or of the owner of its folder. In a folder that others can
    write to, somebody could put a link there, or a file whose lock they never release.

    Raises:
        OSError: it cannot be made, or is another's file, or no file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        words = "A symbolic link is where the lock file should be"
        raise OSError(errno.ELOOP, words, str(path)) from None
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_uid in (os.geteuid(), path.parent.stat().st_uid):
        return handle
    os.close(handle)
    raise PermissionError(errno.EPERM, "The lock file does not belong to this user", str(path))


def locked(path: Path) -> IO[str] | None:
    """A file that this process alone holds until it closes it or ends; None: another one does.

    What the file holds stays as it is, and a symbolic link is not followed.

    Raises:
        OSError: the file cannot be made or locked, or belongs to somebody else.
    """
    file = os.fdopen(_lock_file(path), "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:
        file.close()
        raise
    return file


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until no other process has its turn at this file, which is made if need be.

    Raises:
        OSError: the file cannot be made or locked, or belongs to somebody else.
    """
    handle = _lock_file(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
