"""`kshunt replay`: what a dashboard saw, again; or a note of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kshunt.backend.cli.dashboard import NO_MOUSE
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Argument, Command, Flag
from kshunt.backend.tools.shared.console import show

AT_HINT: Final = "a duration from the beginning (90s), or a time of day (06:00)"
SIZE_LEAST, SIZE_MOST = (20, 5), (500, 200)
SPEED_MOST: Final = 10_000


def _a_speed(text: str) -> float:
    found = float(text)
    if not 0 < found <= SPEED_MOST:
        raise ValueError(f"must be more than 0 and at most {SPEED_MOST}")
    return found


def _a_size(text: str) -> tuple[int, int]:
    columns, _, rows = text.lower().partition("x")
    if not (columns.isdecimal() and rows.isdecimal() and len(text) < 10):
        raise ValueError("must be COLSxROWS, such as 120x36")
    size = int(columns), int(rows)
    if not (size >= SIZE_LEAST and SIZE_LEAST[1] <= size[1] <= SIZE_MOST[1] and size <= SIZE_MOST):
        raise ValueError("must be from 20x5 to 500x200")
    return size


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
        Flag(
            "cast",
            "Write a film of the dashboard to a new file, for asciinema (asciicast v2).",
            "OUT.cast",
            value=Path,
        ),
        Flag(
            "moving-svg",
            "Write a moving picture of the dashboard to a new file: an SVG that plays in a loop.",
            "OUT.svg",
            value=Path,
        ),
        Flag(
            "speed",
            "How much faster than the recording the film runs (default: 10).",
            "N",
            value=_a_speed,
            default=10.0,
        ),
        Flag("svg", "Write a picture of the dashboard to a new file.", "OUT.svg", value=Path),
        Flag("at", f"The moment of the picture (default: the end): {AT_HINT}.", "TIME"),
        Flag(
            "size",
            "Size of the films and the picture, in characters (default: 120x36).",
            "COLSxROWS",
            value=_a_size,
            default=(120, 36),
        ),
        NO_MOUSE,
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
    _check(options.given)
    from kshunt.tui.__main__ import replay, write_film, write_notes

    notes, films = {"handover", "timeline"}, {"cast", "svg", "moving-svg"}
    if not (notes | films) & options.given.keys():
        return replay(options.file, mouse=not options.no_mouse)
    code = write_notes(options.file, options.handover, options.timeline)
    if films & options.given.keys():
        code = write_film(
            options.file,
            cast=options.cast,
            svg=options.svg,
            moving_svg=options.moving_svg,
            size=options.size,
            speed=options.speed,
            at=options.at,
        )
    files = (options.handover, options.timeline, options.cast, options.svg, options.moving_svg)
    for path in filter(None, files):
        show(f"Written: {path}", sys.stdout)
    return code


def _check(given: Mapping[str, str]) -> None:
    """Whether each flag has what it is about.

    Raises:
        UsageError: it has not.
    """
    for flag, about in (
        ("speed", ("cast", "moving-svg")),
        ("at", ("svg",)),
        ("size", ("cast", "svg", "moving-svg")),
    ):
        if flag in given and not any(one in given for one in about):
            raise UsageError(f"--{flag} needs {' or '.join(f'--{one}' for one in about)}")
