"""Maintenance of folders of results, each killed by itself at another step.

Arguments of `python -m tests.support.pipeline.killed.maintenance`: the moment it is, in ms; days
that rows of ticks are kept; the number of the first step; then one folder a step. A step is
whatever changes a file or folder: the process is killed before it does. The last ones may come
to their end.
"""

import sys
from functools import partial
from pathlib import Path

from kshunt.backend.pipeline.results.maintenance import KeptDays, maintain
from tests.support.pipeline.killed.processes import kill_at, say, status_of


def maintained(number: int, folder: Path, now_ms: int, days: int) -> None:
    """Maintain a folder, up to the step of this number."""
    kill_at(number)
    maintain(folder, KeptDays(days, 10 * days), lambda: now_ms)


def main(now_ms: int, days: int, first: int, folders: list[Path]) -> None:
    """Print for each folder whether its maintenance was killed."""
    for number, folder in enumerate(folders, first):
        say(status_of(partial(maintained, number, folder, now_ms, days)))


if __name__ == "__main__":
    moment_ms, days, first = map(int, sys.argv[1:4])
    main(moment_ms, days, first, [Path(name) for name in sys.argv[4:]])
