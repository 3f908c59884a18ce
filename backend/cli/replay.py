"""`kshunt replay`: what a dashboard saw, again; or a note of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

Show = Callable[[Sequence[Path]], int]
Write = Callable[[Sequence[Path], Path | None, Path | None], int]


def main(arguments: Sequence[str], show: Show, write: Write) -> int:
    """Run it; returns the exit code.

    Args:
        arguments: what was typed.
        show: shows the dashboard of recordings.
        write: writes a hand-over note and a timeline, each where it has a path.

    Raises:
        KshuntError: a file is no recording, or a note cannot be written.
    """
    options = parser().parse_args(arguments)
    if options.handover is None and options.timeline is None:
        return show(options.file)
    return write(options.file, options.handover, options.timeline)


def parser() -> argparse.ArgumentParser:
    """What can be typed."""
    found = argparse.ArgumentParser(
        prog="kshunt replay",
        description="Show a recording of the dashboard, as it was. Nothing can be changed from "
        "it. Keys: [ ] 10 s back or forward, { } 1 min, ( ) the previous or next "
        "change, , . incident, | play, * faster, ^ $ beginning and end.",
    )
    found.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="+",
        help="a recording, *.kshunt; several files of one session are shown as one",
    )
    found.add_argument(
        "--handover",
        metavar="OUT.md",
        type=Path,
        help="write a note for the next operator to a new file, and show nothing",
    )
    found.add_argument(
        "--timeline",
        metavar="OUT.md",
        type=Path,
        help="write a report of the events to a new file, and show nothing",
    )
    return found
