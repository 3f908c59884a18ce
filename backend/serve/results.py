"""Who makes results of the samples that a backend records, and who reads them."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kshunt.backend.files import make_folder

if TYPE_CHECKING:
    from kshunt.backend.clock import Clock
    from kshunt.backend.domain.replicas.snapshot import Snapshot
    from kshunt.backend.pipeline.light.light_job import LightPipeline
    from kshunt.backend.telemetry.results.pipeline_supervisor import PipelineSupervisor
    from kshunt.backend.telemetry.results.results_reader import Results


def results_of(options: Namespace, clock: Clock) -> Results | None:
    """What reads the data pipeline's results; None, and nothing is loaded, where there are none."""
    if options.results is None and options.samples is None:
        return None
    from kshunt.backend.telemetry.results.results_reader import Results

    return Results(results_folder(options), clock)


def pipeline_of(
    options: Namespace, clock: Clock, latest: Callable[[], Snapshot | None]
) -> PipelineSupervisor | LightPipeline | None:
    """What makes results of samples: `kshunt pipeline run`, looked after, or a thread.

    None, and nothing is loaded, where none are to be made. `latest` is the newest snapshot.
    """
    if options.pipeline:
        return _supervisor(options, clock)
    if options.samples is None or options.record_only:
        return None
    from kshunt.backend.pipeline.light.light_job import LightJob, LightPipeline
    from kshunt.backend.pipeline.results.maintenance import KeptDays

    samples: Path = options.samples.absolute()
    results = results_folder(options)
    kept_days = KeptDays(options.keep_rates, options.keep_results)

    def replicas() -> int:
        snapshot = latest()
        return 0 if snapshot is None else len(snapshot.replicas.broker)

    return LightPipeline(LightJob(samples, results, kept_days, clock), replicas)


def results_folder(options: Namespace) -> Path:
    """The folder of the results of samples in a folder."""
    from kshunt.backend.domain.pipeline.result_columns import RESULTS

    folder: Path = options.results or options.samples / RESULTS
    return folder.absolute()


def _supervisor(options: Namespace, clock: Clock) -> PipelineSupervisor:
    """What looks after `kshunt pipeline run`."""
    from kshunt.backend.telemetry.results.pipeline_supervisor import (
        PipelineSupervisor,
        pipeline_command,
    )

    # The recorder makes the folder when it knows the cluster, and the process may be there first.
    with contextlib.suppress(OSError):
        make_folder(options.samples)
    command = pipeline_command(
        options.samples,
        options.results,
        options.pipeline_master,
        keep_rates_days=options.keep_rates,
        keep_results_days=options.keep_results,
    )
    return PipelineSupervisor(command, clock)
