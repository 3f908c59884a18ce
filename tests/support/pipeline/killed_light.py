"""Jobs of results without Spark, each killed by itself at another step.

`python -m tests.support.pipeline.killed_light` takes the recording and the batch that steps are
counted from. The number of the first step follows, then the distance to the next one, and then one
folder of results a job. A step is whatever changes a file or folder: the process is killed before
it does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kshunt.backend.clock import SystemClock
from kshunt.backend.pipeline.batches.arrivals import Arrived
from kshunt.backend.pipeline.kernels.packed_rows import RowGroups
from kshunt.backend.pipeline.light.light_job import LightJob
from kshunt.backend.pipeline.samples.file_sieve import FileSieve
from tests.support.pipeline.killed_maintenance import kill_at
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


def main(samples: Path, kill_in: int, first: int, by: int, folders: Sequence[Path]) -> None:
    """Print for each folder whether its job was killed."""
    for number, folder in enumerate(folders):
        child = os.fork()
        if not child:
            job = KilledJob(samples, folder, KEPT, SystemClock(), 1)
            job.kill_in, job.step = kill_in, first + by * number
            job.turn()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write("killed\n" if os.WIFSIGNALED(status) else f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    kill_in, first, by = map(int, sys.argv[2:5])
    main(Path(sys.argv[1]), kill_in, first, by, [Path(name) for name in sys.argv[5:]])
