"""Jobs of results without Spark, each killed by itself at another step.

`python -m tests.support.pipeline.killed.light` takes the recording and the batch that steps are
counted from. The number of the first step follows, then the distance to the next one, and then one
folder of results a job. A step is whatever changes a file or folder: the process is killed before
it does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kshunt.backend.clock import SystemClock
from kshunt.backend.pipeline.batches.arrivals import Arrived
from kshunt.backend.pipeline.kernels.packed_rows import RowGroups
from kshunt.backend.pipeline.light.light_job import LightJob
from kshunt.backend.pipeline.samples.file_sieve import FileSieve
from tests.support.pipeline.killed.processes import kill_at, say, status_of
from tests.support.pipeline.streamed import KEPT


class KilledJob(LightJob):
    """A job that is killed in a batch of its own, a file each."""

    kill_in: int
    step: int

    def _take(self, arrived: Arrived[list[RowGroups]], sieve: FileSieve) -> None:
        assert self.meta is not None
        if self.meta.batch + 1 == self.kill_in:
            kill_at(self.step)
        super()._take(arrived, sieve)


def work(samples: Path, folder: Path, kill_in: int, step: int) -> None:
    """Let a job take all samples, up to a step of a batch."""
    job = KilledJob(samples, folder, KEPT, SystemClock(), 1)
    job.kill_in, job.step = kill_in, step
    job.turn()


def main(samples: Path, kill_in: int, first: int, by: int, folders: Sequence[Path]) -> None:
    """Print for each folder whether its job was killed."""
    for number, folder in enumerate(folders):
        say(status_of(partial(work, samples, folder, kill_in, first + by * number)))


if __name__ == "__main__":
    kill_in, first, by = map(int, sys.argv[2:5])
    main(Path(sys.argv[1]), kill_in, first, by, [Path(name) for name in sys.argv[5:]])
