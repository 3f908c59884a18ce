"""`kshunt pipeline maintain`: what was typed, and what it says."""

from __future__ import annotations

import sys
from argparse import Namespace

from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.work_progress import WorkProgress
from kshunt.backend.domain.pipeline.result_columns import RESULTS
from kshunt.backend.pipeline.process.console import say
from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain, maintained_lines
from kshunt.backend.pipeline.samples.recording_folder import require_folder


def run(options: Namespace) -> int:
    """Compact results, and delete those that are too old.

    Raises:
        NoSamples: there is no such folder.
        ResultsBusy: a backfill makes results there.
        StreamState, UnreadableResults: the results cannot be understood.
    """
    results = options.results or options.samples / RESULTS
    require_folder(options.samples)
    kept = KeptDays(options.keep_rates, options.keep_results)
    with WorkProgress("Maintaining", sys.stderr) as progress:
        now_ms = SystemClock().now_ms
        done = maintain(results, kept, now_ms, is_at=progress.is_at, rewritten_most=sys.maxsize)
    for line in maintained_lines(done) or ["There was nothing to compact or to delete."]:
        say(line)
    return ExitCode.FAILED if done.problems else ExitCode.DONE
