"""`kshunt report`: how an operation or a week went, as Markdown or HTML, from results on disk.

It reads files, and starts no Spark. A backend that runs is asked for the journal's part of a week.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    CLUSTER_FLAGS,
    COMMAND_CONFIG,
    backend_address,
    check_one_cluster,
    check_zk_config,
    cluster_address,
)
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Argument, Command, Flag
from kshunt.backend.domain.pipeline.weeks import WEEKS, Week, week_of
from kshunt.backend.errors import BackendUnreachable, ConfigError, KshuntError
from kshunt.backend.files import replace_file
from kshunt.backend.pipeline.process.console import absolute

if TYPE_CHECKING:
    from kshunt.backend.pipeline.reports.document import Document
    from kshunt.backend.pipeline.reports.week_results import WeekJournal

SUFFIXES: Final = (".md", ".html")


def _report_file(text: str) -> Path:
    path = absolute(text)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"'{text}' must end in .md or .html")
    return path


def _week(text: str) -> Week:
    return week_of(text, time.time_ns() // 1_000_000)


COMMAND: Final = Command(
    ("report",),
    """\
Write a report of an operation or of a week, from results of recorded samples.

The report of an operation shows the moves, their progress, and their rates with the throttles. It
also shows stalls and their causes, forecasts and the true end, and it recommends a better rate.
The report of a week shows each day, what held operations up, and the operations with their first
forecast. It also shows throttles, replicas that left the ISR, brokers, disks and topics.

It starts no Spark and changes nothing.
""",
    (
        Flag("week", f"A week, Monday to Sunday, UTC: {WEEKS}.", "WEEK", value=_week),
        Flag(
            "samples",
            "A cluster's recording: the folder of kshunt serve --samples.",
            "DIR",
            value=absolute,
            required=True,
        ),
        Flag(
            "results",
            "Folder of results (default: results, in --samples).",
            "DIR",
            value=absolute,
        ),
        Flag(
            "to",
            "FILE.md or FILE.html; the whole file is replaced (default: Markdown to the terminal).",
            "FILE",
            value=_report_file,
        ),
        *CLUSTER_FLAGS,
        *BACKEND_FLAGS,
    ),
    (Argument("operation", "OPERATION", "The operation's id.", optional=True),),
    epilog="""\
How operations ended, who asked for them and whose throttles drifted is in the journal. A report of
a week has it from a backend that runs for --backend, --bootstrap-server or --context. Without one,
the report says what it lacks.

Give --week or OPERATION. `kshunt serve --reports DIR` writes both kinds by itself.
""",
    codes={
        ExitCode.FAILED: "an error: there are no results of it (the message says what to run), or "
        "they cannot be read",
    },
)


def main(argv: Sequence[str]) -> int:
    """Write the report; the exit code.

    Raises:
        UsageError: neither an operation nor a week is named, or both are.
        NoResults: results have to be made first; it says by which command.
        NoOperation: nothing is known of that operation.
        UnreadableResults: a file of results cannot be read.
        KshuntError: the report cannot be written, or the backend refuses to answer.
    """
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    if (options.operation is None) == (options.week is None):
        raise UsageError("kshunt report needs either OPERATION or --week WEEK.")
    check_one_cluster(options.given, may_lack=True)
    check_zk_config(options.given, COMMAND_CONFIG.name)
    if not options.samples.is_dir():
        raise ConfigError(
            f"{options.samples} is not a folder.",
            advice="Record samples: kshunt serve --samples DIR.",
        )
    document = _of_week(options) if options.operation is None else _of_operation(options)
    return _delivered(document, options.to)


def _of_operation(options: Namespace) -> Document:
    from kshunt.backend.pipeline.reports.operation_results import read as read_operation
    from kshunt.backend.pipeline.reports.report_document import report

    material = read_operation(options.operation, options.samples, _results(options))
    return report(material, time.time() * 1000)


def _of_week(options: Namespace) -> Document:
    from kshunt.backend.pipeline.reports.week_document import week_report
    from kshunt.backend.pipeline.reports.week_results import read_week

    journal = _journal(options)
    material = read_week(options.week, options.samples, _results(options), journal)
    return week_report(material, time.time() * 1000)


def _results(options: Namespace) -> Path:
    from kshunt.backend.domain.pipeline.result_columns import RESULTS

    folder: Path = options.results or options.samples / RESULTS
    return folder


def _journal(options: Namespace) -> WeekJournal | None:
    """What a backend says that runs; None where none is named, or none runs."""
    bootstrap = cluster_address(options.given)
    named = backend_address(options.given)
    if not (named or bootstrap):
        return None
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.local_sockets import running_backend
    from kshunt.backend.pipeline.reports.week_results import WeekJournal

    config = options.zk_tls_config_file or options.command_config
    address = running_backend(named, bootstrap, config and config.absolute())
    if not address:
        return None
    week: Week = options.week
    try:
        with BackendClient(address) as client:
            _, audit = client.audit.rows(since_ms=week.from_ms, until_ms=week.to_ms)
            return WeekJournal.of(week, client.operations.list(), audit)
    except BackendUnreachable as error:
        sys.stderr.write(f"Warning: {error} The report is made without the journal.\n")
        return None


def _delivered(document: Document, to: Path | None) -> int:
    from kshunt.backend.pipeline.reports.formats import drawn

    if to is None:
        sys.stdout.write(drawn(document, ".md"))
        return ExitCode.DONE
    try:
        replace_file(to, drawn(document, to.suffix).encode())
    except OSError as error:
        raise KshuntError(
            f"The report cannot be written to {to}: {error.strerror}.",
            advice="Name another file by --to.",
        ) from None
    sys.stdout.write(f"Written: {to}\n")
    return ExitCode.DONE
