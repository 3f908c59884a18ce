"""`kshunt pipeline report`: how an operation went, as Markdown or HTML, from results on disk.

It reads files only: no Spark is started, no broker and no backend is asked.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from kshunt.backend.domain.pipeline.result_columns import RESULTS
from kshunt.backend.errors import KshuntError
from kshunt.backend.files import replace_file
from kshunt.backend.pipeline.process.console import absolute
from kshunt.backend.pipeline.reports.document import Document
from kshunt.backend.pipeline.reports.html import as_html
from kshunt.backend.pipeline.reports.markdown import as_markdown
from kshunt.backend.pipeline.reports.operation_results import read
from kshunt.backend.pipeline.reports.report_document import report

DESCRIPTION: Final = """\
Write a report of an operation. It shows the moves, their progress, and their rates with the
throttles. It also shows stalls and their causes, forecasts and the true end, and gaps in the data.
It recommends a better rate.

It reads results of `kshunt pipeline run` or `backfill`. It starts no Spark and contacts no broker.
"""
EPILOG: Final = """\
exit codes:
  0   done
  1   an error: there are no results of it (the message says what to run), or they cannot be read
  64  wrong usage
"""
SUFFIXES: Final = (".md", ".html")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("--operation", metavar="ID", required=True, help="the operation's id")
    parser.add_argument(
        "--samples", metavar="DIR", type=absolute, required=True, help="a cluster's recording"
    )
    parser.add_argument(
        "--results", metavar="DIR", type=absolute, help="(default: results, in --samples)"
    )
    parser.add_argument(
        "--to",
        metavar="FILE",
        type=_file,
        help="FILE.md or FILE.html; the whole file is replaced (default: Markdown to the terminal)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the report; 0.

    Raises:
        NoResults: results have to be made first; it says by which command.
        NoOperation: nothing is known of that operation.
        UnreadableResults: a file of results cannot be read.
        KshuntError: the report cannot be written.
    """
    results = options.results or options.samples / RESULTS
    material = read(options.operation, options.samples, results)
    document = report(material, time.time() * 1000)
    if options.to is None:
        sys.stdout.write(drawn(document, ".md"))
        return 0
    try:
        replace_file(options.to, drawn(document, options.to.suffix).encode())
    except OSError as error:
        raise KshuntError(
            f"The report cannot be written to {options.to}: {error.strerror}.",
            advice="Name another file by --to.",
        ) from None
    sys.stdout.write(f"Written: {options.to}\n")
    return 0


def drawn(document: Document, suffix: str) -> str:
    """The document in the format of a file name's end."""
    return as_html(document) if suffix == ".html" else as_markdown(document)


def _file(text: str) -> Path:
    path = absolute(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"'{text}' must end in .md or .html")
    return path
