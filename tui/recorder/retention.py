"""Where recordings are kept, what they are called, and which of them are removed."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kshunt.backend.domain.text.formatting import file_time_text
from kshunt.backend.files import state_folder
from kshunt.tui.recorder.recording_file import SUFFIX

NAME_MOST: Final = 64
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class RetentionBounds:
    """How much is kept."""

    file_bytes: int = 256_000_000
    """A recording that grows beyond this continues in a following file."""
    folder_bytes: int = 2_000_000_000
    days: float = 14.0


BOUNDS: Final = RetentionBounds()


def recordings_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/kshunt/recordings`, or below `~/.local/state`."""
    return state_folder(environ) / "recordings"


def recording_name(cluster_id: str, at_s: float) -> str:
    """`CLUSTER-20260102T030405Z.kshunt`."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id)[:NAME_MOST] or "unknown"
    return f"{safe}-{file_time_text(at_s * 1000)}{SUFFIX}"


def create(path: Path, *, another: bool) -> tuple[Path, int]:
    """A new file for one recording, and its descriptor, locked while it is written.

    `another` takes a name with a number where there is such a file.

    Raises:
        OSError: it cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    for number in range(1, 1000):
        name = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            descriptor = os.open(name, flags, 0o600)
        except FileExistsError:
            if not another:
                raise
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return name, descriptor
    raise FileExistsError(17, "File exists", str(path))


def clean(folder: Path, now_s: float, bounds: RetentionBounds = BOUNDS) -> tuple[Path, ...]:
    """Remove what is too old or too much, the oldest first; what was removed.

    A recording that some dashboard is writing stays, and so does what is no recording.
    """
    removed = []
    for path in surplus(_sizes(folder), now_s, bounds):
        with suppress(OSError):
            if _is_written(path):
                continue
            path.unlink()
            removed.append(path)
    return tuple(removed)


def surplus(
    files: Iterable[tuple[float, int, Path]], now_s: float, bounds: RetentionBounds
) -> tuple[Path, ...]:
    """Which of these (changed at, bytes, path) are beyond the bounds, the oldest first."""
    newest_first = sorted(files, reverse=True)
    beyond = []
    total = 0
    for changed_s, size, path in newest_first:
        total += size
        if total > bounds.folder_bytes or now_s - changed_s > bounds.days * DAY_S:
            beyond.append(path)
    return tuple(reversed(beyond))


def _sizes(folder: Path) -> list[tuple[float, int, Path]]:
    found = []
    with suppress(OSError):
        for path in folder.glob(f"*{SUFFIX}"):
            with suppress(OSError):
                status = path.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, path))
    return found


def _is_written(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
