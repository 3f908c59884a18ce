"""The gaps of a recording, as its file has them."""

from __future__ import annotations

from pathlib import Path

from kshunt.backend.telemetry.recording.gaps import GAPS, Gap, read_file


def read_gaps(folder: Path) -> tuple[Gap, ...]:
    """The gaps of a recording, in the order in which they were found out; none without a file.

    Raises:
        OSError: the file is there and cannot be read.
    """
    return tuple(read_file(folder / GAPS))
