"""Files that hold a secret of the user of this process.

As `ssh` does with keys: a file of one's own that others could read is refused, for then the secret
is none. A file of somebody else (one that a container is given) is its owner's matter, unless
anybody could write it. What is no file (a pipe, `<(pass show kshunt)`) has no mode that counts.
Anybody who can write to the folder of a file can put another file in its place. So a folder that
others can write to is refused too, unless it is sticky, as `/tmp` is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from kshunt.backend.errors import ConfigError

SECRET_BYTES_MAX: Final = 16_384


def read_secret(path: Path, what: str) -> str:
    """The text of a file, without what surrounds it.

    Args:
        path: The file.
        what: What it is, for the error: `The token's file`.

    Raises:
        ConfigError: it cannot be read, or others can read or write it; never with what it holds.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(SECRET_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror}.") from None
    _check(path, what, status)
    return content.decode("utf-8", "replace").strip()


def check_secret(path: Path, what: str) -> None:
    """Refuse a file as `read_secret` does; its content is read by others, a TLS library for one.

    One that is not there is the reader's matter.

    Raises:
        ConfigError: others can read or write it.
    """
    if (status := _status(path)) is not None:
        _check(path, what, status)


def refuse_writable(path: Path, what: str) -> None:
    """Refuse a file that others can write: it says whom to trust, or which commands to run.

    Members of the process's own group may write it: where each user has a group, files are so.
    One that is not there is the reader's matter.

    Raises:
        ConfigError: others can write it or replace it.
    """
    status = _status(path)
    if status is None:
        return
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode) and _writable_by_others(status):
        raise ConfigError(
            f"Other users can write {what[:1].lower()}{what[1:]} {path} (mode {mode:04o}), so "
            "kshunt does not use it.",
            advice=f"Check its content, then run chmod go-w {path}.",
        )
    _check_folders(path, what, status)


def others_can_read(path: Path) -> bool:
    """Whether a file of one's own can be read by anybody on the machine."""
    status = _status(path)
    if status is None:
        return False
    own = status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode)
    return own and bool(status.st_mode & 0o004)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _check(path: Path, what: str, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    shared = 0o077 if status.st_uid == os.geteuid() else 0o002
    if stat.S_ISREG(status.st_mode) and mode & shared:
        raise ConfigError(
            f"{what} {path} is open to other users (mode {mode:04o}), so kshunt does not use it.",
            advice=f"Run chmod 600 {path}. If somebody may have read the secret, create a new one.",
        )
    _check_folders(path, what, status)


def _check_folders(path: Path, what: str, status: os.stat_result) -> None:
    """Look at the folder that holds the name, and the one that holds the file."""
    if stat.S_ISREG(status.st_mode):
        refuse_open_folder(path, what)
        refuse_open_folder(path.resolve(), what)


def refuse_open_folder(path: Path, what: str) -> None:
    """Refuse a file in a folder where others could put another one in its place.

    Raises:
        ConfigError: others can write to the folder.
    """
    folder = path.absolute().parent
    found = _status(folder)
    if found is not None and _writable_by_others(found) and not found.st_mode & stat.S_ISVTX:
        mode = stat.S_IMODE(found.st_mode)
        raise ConfigError(
            f"{what} {path} is not used: other users can write to the folder {folder} (mode "
            f"{mode:04o}), and so replace the file.",
            advice=f"Run chmod go-w {folder}, or name a file in a folder of your own.",
        )


def _writable_by_others(status: os.stat_result) -> bool:
    group = status.st_mode & 0o020 and status.st_gid not in (0, os.getegid())
    return bool(status.st_mode & 0o002 or group)
