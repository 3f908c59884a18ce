"""`kshunt replay`: what a dashboard saw, again; or a note of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Argument, Command, Flag

COMMAND: Final = Command(
    ("replay",),
    "Show a recording of the dashboard, as it was. Nothing can be changed from it.\n\n"
    "Keys: [ ] 10 s back or forward, { } 1 min, ( ) the previous or next change, , . incident,\n"
    "| play, * faster, ^ $ beginning and end.",
    (
        Flag(
            "handover",
            "Write a note for the next operator to a new file, and show nothing.",
            "OUT.md",
            value=Path,
        ),
        Flag(
            "timeline",
            "Write a report of the events to a new file, and show nothing.",
            "OUT.md",
            value=Path,
        ),
    ),
    (
        Argument(
            "file",
            "FILE",
            "A recording, *.kshunt; several files of one session are shown as one.",
            many=True,
            value=Path,
        ),
    ),
)


def main(argv: Sequence[str]) -> int:
    """Show it, or write what was asked for; the exit code.

    Raises:
        KshuntError: a file is no recording, or a note cannot be written.
    """
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    from kshunt.tui.__main__ import replay, write_notes

    if options.handover is None and options.timeline is None:
        return replay(options.file)
    return write_notes(options.file, options.handover, options.timeline)
