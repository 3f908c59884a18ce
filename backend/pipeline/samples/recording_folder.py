"""The folder of a recording, as a command line names it."""

from __future__ import annotations

from pathlib import Path

from kshunt.backend.errors import BadInput


class NoSamples(BadInput):
    """There is no recording there, or nothing of that time in it."""

    title = "No samples"


def require_folder(folder: Path) -> None:
    """See that there is a folder; it is never made here.

    Raises:
        NoSamples: there is none.
    """
    if not folder.is_dir():
        raise NoSamples(
            f"There is no folder {folder}. Nothing was made.",
            advice="Name the folder that `kshunt serve --samples` records to.",
        )
