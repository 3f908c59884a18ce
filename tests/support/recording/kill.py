"""Keepers of recordings, each killed by itself at another step.

Arguments of `python -m tests.support.recording.kill`: the moment it is, in ms; days that are kept;
then one folder a step. The keeper of the first folder is killed before its first step, and so on;
the last ones may come to their end.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.telemetry.recording.retention import Retention


def killed_at(number: int) -> Callable[[str], None]:
    """Lets that many steps pass, and ends this process at the next one."""
    steps = iter(range(number))

    def step(_: str) -> None:
        if next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def main(now_ms: int, keep_days: int, folders: list[Path]) -> None:
    """Print for each folder whether its keeper was killed."""
    for number, folder in enumerate(folders):
        child = os.fork()
        if not child:
            retention = Retention(folder, keep_days, 0.0, killed_at(number))
            retention.drop(now_ms - keep_days * DAY_MS)
            retention.put_together(now_ms)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write("killed\n" if os.WIFSIGNALED(status) else f"{status}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
