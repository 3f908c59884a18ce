"""Results as the thread of a backend makes them, of recordings in a folder."""

from __future__ import annotations

from pathlib import Path

from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.pipeline.light.light_job import LightJob
from tests.support.pipeline.streamed import KEPT


def job_of(
    samples: Path, results: Path, *, files_most: int = 60, clock: Clock | None = None
) -> LightJob:
    """A job that has not begun."""
    return LightJob(samples, results, KEPT, clock or SystemClock(), files_most)


def made(
    samples: Path, results: Path, *, files_most: int = 60, clock: Clock | None = None
) -> LightJob:
    """A job that has taken all that is there, and gave the results back."""
    job = job_of(samples, results, files_most=files_most, clock=clock)
    job.turn()
    job.release()
    return job
