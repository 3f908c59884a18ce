"""Files that hold a secret of whoever runs this process.

As `ssh` does with keys: a file of one's own that others could read is refused, for then the secret
is none. A file of somebody else (one that a container is given) is its owner's matter, unless
anybody could write it. What is no file (a pipe, `<(pass show kshunt)`) has no mode that counts.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from backend.errors import ConfigError

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
    mode = stat.S_IMODE(status.st_mode)
    shared = 0o077 if status.st_uid == os.geteuid() else 0o002
    if stat.S_ISREG(status.st_mode) and mode & shared:
        raise ConfigError(
            f"{what} {path} is open to others (mode {mode:04o}), so it is not used.",
            advice=f"Run chmod 600 {path}, and give out a new secret if somebody may have read it.",
        )
    return content.decode("utf-8", "replace").strip()
