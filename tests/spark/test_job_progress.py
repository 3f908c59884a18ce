"""Lines of progress while Spark works."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kshunt.backend.pipeline.spark.job_progress import tasks_text
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEADLINE_S = 120.0


def test_tasks_of_the_jobs_that_run_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    may_end = tmp_path / "may-end"

    def work(rows: object) -> list[object]:
        while not may_end.exists():
            threading.Event().wait(0.05)
        return []

    assert tasks_text(spark) == ""
    job = threading.Thread(
        target=lambda: spark.sparkContext.parallelize(range(3), 3).mapPartitions(work).count()
    )
    job.start()
    try:
        wait_until(lambda: tasks_text(spark) == "(0 of 3 tasks)", DEADLINE_S, "the job runs")
    finally:
        may_end.touch()
        job.join(DEADLINE_S)
    wait_until(lambda: tasks_text(spark) == "", DEADLINE_S, "no job runs")
