"""What Spark's Java has loaded, kept in a file, so that the next one need not load it again.

The same as `tests.support.brokers.class_archive`, for a Java of Spark: one that starts with the
archive takes two thirds of the processor time of one without. An archive of another Java or of
another Spark is ignored.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory

from pyspark import SparkContext

from kshunt.backend.clock import SystemClock
from kshunt.backend.errors import KshuntError
from kshunt.backend.pipeline.jobs.backfill import backfill, check
from kshunt.backend.pipeline.spark.session import start_session
from tests.support.pipeline.recorded import simulated, write
from tests.support.pipeline.spark import CLASSES, QUICK_JAVA, missing_java, quick_settings

EXIT_S = 120.0
"""Java writes the archive as it ends, which takes it half a minute."""


def make_archive(target: Path) -> None:
    """Make every table of a small recording, and have Java leave its archive when it ends.

    A Spark Connect server loads what a classic session loads, and its own classes.

    Raises:
        KshuntError: Spark does not start.
        TimeoutExpired: Java does not end.
        OSError: it left no archive.
    """
    arriving = target.with_suffix(".new")
    # Spark's own switch for a Connect server on a port that is free, not on 15002.
    os.environ["SPARK_TESTING"] = "1"
    options = f'{QUICK_JAVA} -XX:ArchiveClassesAtExit="{arriving}" -Xlog:disable'
    session = start_session(quick_settings(master="", remote="local[2]", java_options=options))
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, simulated(seed=1, replicas=4, seconds=200))
        period = check(folder, None, None)
        backfill(session, folder, folder / "results", period, SystemClock(), lambda made: None)
        session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(EXIT_S)
    arriving.rename(target)


def main() -> int:
    """`python -m tests.support.pipeline.class_archive`: the archive, where it is absent."""
    if CLASSES.is_file() or missing_java():
        return 0
    sys.stdout.write("keeping Spark's classes in an archive; this happens once\n")
    sys.stdout.flush()
    try:
        CLASSES.parent.mkdir(exist_ok=True)
        make_archive(CLASSES)
    except (KshuntError, OSError, TimeoutExpired) as error:
        sys.stderr.write(f"continuing without an archive of Spark's classes: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
