"""`kshunt pipeline backfill`: what was typed, and what it says."""

from __future__ import annotations

from argparse import Namespace

from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.domain.pipeline.result_columns import RESULTS
from kshunt.backend.pipeline.jobs.backfill import as_text, backfill, check, quality_lines
from kshunt.backend.pipeline.process.console import say
from kshunt.backend.pipeline.spark.job_progress import session_with_progress, spark_progress
from kshunt.backend.pipeline.spark.session import PipelineSettings


def run(options: Namespace) -> int:
    """Make the results of a period again.

    Raises:
        KshuntError: whatever was wrong with the samples, the results, Java or Spark.
    """
    results = options.results or options.samples / RESULTS
    period = check(options.samples, options.start, options.end)
    session = session_with_progress(
        PipelineSettings(options.master, options.remote, options.memory)
    )
    try:
        report = backfill(
            session,
            options.samples,
            results,
            period,
            SystemClock(),
            lambda made: say(as_text(made)),
            lambda table: spark_progress(session, f"Making {table}"),
        )
    finally:
        session.stop()
    for line in quality_lines(report):
        say(line)
    return ExitCode.DONE
