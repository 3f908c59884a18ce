"""Files that the tools write: whole or not at all, and nothing is replaced unasked."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from kshunt.backend.errors import BadInput

ANOTHER: Final = "Name another file."


def check_target(path: Path, *, force: bool = False, advice: str = ANOTHER) -> None:
    """Refuse what must not be replaced.

    Args:
        path: The file to be.
        force: Whether an ordinary file there may be replaced.
        advice: What to do where one is there and may not.

    Raises:
        BadInput: the file is there and may not be replaced, or it is no ordinary file.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unwritten(path, error.strerror) from None
    if not stat.S_ISREG(mode):
        raise _unwritten(path, "it exists and is not an ordinary file")
    if not force:
        raise _exists(path, advice)


def write_file(path: Path, text: str, *, force: bool = False, advice: str = ANOTHER) -> None:
    """Write a file so that a reader finds all of it or nothing.

    Raises:
        BadInput: it cannot be written, or is there and may not be replaced.
    """
    check_target(path, force=force, advice=advice)
    draft = path.with_name(f".kshunt-{secrets.token_hex(8)}")
    try:
        _write_through(draft, text.encode())
        if force:
            draft.replace(path)
        else:
            # Unlike a rename, a link never takes the place of a file that came in the meantime.
            path.hardlink_to(draft)
    except FileExistsError:
        raise _exists(path, advice) from None
    except OSError as error:
        raise _unwritten(path, error.strerror) from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _write_through(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _exists(path: Path, advice: str) -> BadInput:
    return _unwritten(path, "it already exists", advice)


def _unwritten(path: Path, why: str | None, advice: str = ANOTHER) -> BadInput:
    return BadInput(f"The file {path} was not written: {why}.", advice=advice)
