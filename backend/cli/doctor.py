"""`kshunt doctor`, with the checks that need the dashboard's or the pipeline's modules."""

from __future__ import annotations

import locale
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kshunt.backend.tools.doctor.command import COMMAND
from kshunt.backend.tools.doctor.command import main as doctor
from kshunt.backend.tools.doctor.findings import Finding

__all__ = ["COMMAND", "checks", "main"]

COLUMNS_MIN: Final = 80
ROWS_MIN: Final = 24


def main(argv: Sequence[str]) -> int:
    """Run all checks; the exit code."""
    return doctor(argv, checks)


def checks() -> Iterator[Finding]:
    """The terminal, Java and Spark."""
    yield terminal()
    yield spark()


def terminal() -> Finding:
    """What the dashboard finds out about this terminal when it starts."""
    if not sys.stdout.isatty():
        return Finding("terminal", "unknown", "Standard output is not a terminal.")
    from kshunt.tui.__main__ import terminal_of

    found = terminal_of(os.environ, locale.getpreferredencoding(False))
    columns, rows = shutil.get_terminal_size()
    colours = "16 colours or none" if found.plain else f"colours: {found.colour_system}"
    text = "ASCII" if found.ascii_only else "Unicode"
    message = f"{os.environ.get('TERM', 'TERM is not set')}, {columns}x{rows}, {colours}, {text}"
    if columns < COLUMNS_MIN or rows < ROWS_MIN:
        return Finding(
            "terminal",
            "warning",
            f"{message}.",
            f"Use at least {COLUMNS_MIN}x{ROWS_MIN} to see all columns.",
        )
    if found.ascii_only:
        return Finding("terminal", "ok", message, "For curves and bars, set LANG=C.UTF-8.")
    return Finding("terminal", "ok", message)


def spark() -> Finding:
    """Whether `kshunt pipeline` can run here; everything else works without it."""
    if find_spec("pyspark") is None:
        return Finding(
            "Spark",
            "unknown",
            "It is not installed, so kshunt pipeline does not run here.",
            "Only for results over days: install pyspark and a Java (docs/operating/pipeline.md).",
        )
    from kshunt.backend.pipeline.spark.java import JavaMissing, find_java

    with tempfile.TemporaryDirectory(prefix="kshunt-doctor-") as folder:
        try:
            java = find_java(os.environ, Path(folder))
        except JavaMissing as error:
            return Finding("Spark", "warning", error.message, error.advice)
    return Finding("Spark", "ok", f"runs on Java {java.version} of {java.source} ({java.home})")
