"""Maintenance of folders of results, each killed by itself at another step.

Arguments of `python -m tests.support.pipeline.killed_maintenance`: the moment it is, in ms; days
that rows of ticks are kept; the number of the first step; then one folder a step. A step is
whatever changes a file or folder: the process is killed before it does. The last ones may come
to their end.
"""

import os
import signal
import sys
from pathlib import Path

# Each child would load these anew: they sort.
import pyarrow.acero
import pyarrow.dataset  # noqa: F401

from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime"}


def kill_at(number: int) -> None:
    """Let that many changes of the disk happen, and end this process before the next one."""
    steps = iter(range(number))

    def hear(event: str, args: tuple[object, ...]) -> None:
        writes = event == "open" and len(args) > 2 and int(str(args[2])) & os.O_CREAT
        if (event in CHANGES or writes) and next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


def main(now_ms: int, days: int, first: int, folders: list[Path]) -> None:
    """Print for each folder whether its maintenance was killed."""
    for number, folder in enumerate(folders, first):
        child = os.fork()
        if not child:
            kill_at(number)
            maintain(folder, KeptDays(days, 10 * days), lambda: now_ms)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write("killed\n" if os.WIFSIGNALED(status) else f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    moment_ms, days, first = map(int, sys.argv[1:4])
    main(moment_ms, days, first, [Path(name) for name in sys.argv[4:]])
