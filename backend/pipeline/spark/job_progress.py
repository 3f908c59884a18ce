"""Lines of progress while Spark works: what it does, how far, for how long."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from kshunt.backend.commandline.work_progress import WorkProgress
from kshunt.backend.pipeline.spark.session import PipelineSettings, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_with_progress(settings: PipelineSettings) -> SparkSession:
    """Start a session, and tell of it on standard error; see `start_session`."""
    # Java writes its own warnings there, so this line ends.
    sys.stderr.write("Starting Spark ...\n")
    sys.stderr.flush()
    return start_session(settings)


def spark_progress(session: SparkSession, what: str) -> WorkProgress:
    """Progress of a job on standard error: `Making rates (12 of 40 tasks): 35s`."""
    return WorkProgress(what, sys.stderr, detail=partial(tasks_text, session))


def tasks_text(session: SparkSession) -> str:
    """`(12 of 40 tasks)` of the jobs that run now; empty where none does.

    It is empty for a Spark Connect server too, which does not tell this client.
    """
    try:
        tracker = session.sparkContext.statusTracker()
    except PySparkException:
        return ""
    jobs = [tracker.getJobInfo(id) for id in tracker.getActiveJobsIds()]
    stages = {id: tracker.getStageInfo(id) for job in jobs if job for id in job.stageIds}
    known = [stage for stage in stages.values() if stage]
    total = sum(stage.numTasks for stage in known)
    done = sum(stage.numCompletedTasks for stage in known)
    return f"({done:,} of {total:,} tasks)" if total else ""
