"""`kshunt pipeline report`: how an operation went, as Markdown or HTML, from results on disk.

It reads files only: no Spark is started, no broker and no backend is asked.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.domain.pipeline.result_columns import RESULTS
from kshunt.backend.errors import KshuntError
from kshunt.backend.files import replace_file
from kshunt.backend.pipeline.reports.document import Document
from kshunt.backend.pipeline.reports.html import as_html
from kshunt.backend.pipeline.reports.markdown import as_markdown
from kshunt.backend.pipeline.reports.operation_results import read
from kshunt.backend.pipeline.reports.report_document import report


def run(options: Namespace) -> int:
    """Write the report.

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
        return ExitCode.DONE
    try:
        replace_file(options.to, drawn(document, options.to.suffix).encode())
    except OSError as error:
        raise KshuntError(
            f"The report cannot be written to {options.to}: {error.strerror}.",
            advice="Name another file by --to.",
        ) from None
    sys.stdout.write(f"Written: {options.to}\n")
    return ExitCode.DONE


def drawn(document: Document, suffix: str) -> str:
    """The document in the format of a file name's end."""
    return as_html(document) if suffix == ".html" else as_markdown(document)
