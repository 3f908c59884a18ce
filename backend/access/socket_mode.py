"""Who may open a backend's Unix-domain socket: the mode and the group of its file.

To connect takes the right to write to the file. A user who has it is an administrator of the
cluster without a name of their own, so others than a group are never let in.
"""

from __future__ import annotations

import grp
import re
from argparse import Namespace
from dataclasses import dataclass
from typing import Final

from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.table import Flag

ALONE: Final = 0o600
GROUP: Final = 0o660
_MODE: Final = re.compile(r"0?[0-7]{3}")


@dataclass(frozen=True, slots=True)
class SocketFile:
    """How a socket's file is made."""

    mode: int = ALONE
    group: int | None = None
    """A group's number; None: that of the process."""


_GROUP: Final = "who may connect to a socket"
FLAGS: Final = (
    Flag(
        "socket-mode",
        "Mode of the socket's file: 0600 (default), or 0660 for a group.",
        "MODE",
        group=_GROUP,
    ),
    Flag(
        "socket-group",
        "The group of the socket's file (default: your own).",
        "NAME",
        group=_GROUP,
    ),
)


def socket_file(options: Namespace) -> SocketFile:
    """How the backend must make the socket's file.

    Raises:
        UsageError: others could connect, its owner could not, there is no such group, or a flag
            lacks another one.
    """
    text, name = options.socket_mode, options.socket_group
    if options.socket is None and (text or name):
        raise UsageError("--socket-mode and --socket-group need --socket PATH.")
    mode = ALONE if text is None else _mode(text)
    if name is None:
        return SocketFile(mode)
    if not mode & 0o020:
        raise UsageError(
            f"With mode {mode:04o} no member of {name} can connect.",
            advice="Give --socket-mode 0660.",
        )
    try:
        return SocketFile(mode, grp.getgrnam(name).gr_gid)
    except KeyError:
        raise UsageError(f"There is no group '{name}' on this machine.") from None


def _mode(text: str) -> int:
    if not _MODE.fullmatch(text):
        raise UsageError(
            f"--socket-mode '{text}' is not a valid mode.", advice="Write 0600 or 0660."
        )
    mode = int(text, 8)
    if mode & 0o007:
        raise UsageError(
            f"--socket-mode {mode:04o} would allow every user of this machine to connect.",
            advice="Write 0660 and name a --socket-group, or serve on a port with --tokens.",
        )
    if mode & ~GROUP or mode & ALONE != ALONE:
        raise UsageError(
            f"--socket-mode {mode:04o}: the owner must be able to read and write, and no user may "
            "execute it.",
            advice="Write 0600 or 0660.",
        )
    return mode
