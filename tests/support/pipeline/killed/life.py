"""The life of a folder of results on a simulated clock, and processes that are killed in it.

`python -m tests.support.pipeline.killed.life` takes a recording of `recorded_days` and a folder of
results. Files of the recording come one after the other. The first process is killed before the
first change of the disk that has the first pattern of `MOMENTS`. The next one continues, and is
killed at the second pattern, and so on. The last process comes to its end. For each process a line
says at which change it was killed, or that it ended.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from kshunt.backend.pipeline.light.light_job import LightJob
from kshunt.backend.telemetry.recording.layout import SampleTable, written
from tests.support.clocks import StoppedClock
from tests.support.paths import ROOT
from tests.support.pipeline.killed.processes import status_of
from tests.support.pipeline.recorded_days import KEPT

FILES_A_TURN: Final = 2
"""The number of files that come before the job looks again."""
MOMENTS: Final[Mapping[str, str]] = {
    "the first batch is written aside": r"make \.batch-ID/eta$",
    "open rows are replaced, of rates and not of stalls": r"to stalls/.*/batch_id=open/",
    "some tables of a batch are in place": r"move .* to rates/.*/batch_id=2$",
    "all of them are, and its state is not": r"move .* to \.stream/state/batch_id=3$",
    "a batch counts, and the state before it is there": r"remove \.stream/state/batch_id=2/",
    "compaction has written rates, and no stalls": r"make \.run-ID/stalls$",
    "compacted rates are in place, and stalls are not": r"move \.run-ID/.* to stalls/.*/run=ID",
    "all are in place, and the manifest is the old one": r"publish after .*hour=03/run=ID",
    "the manifest is new, and some old files are there": r"remove stalls/.*hour=03/batch_id=",
    "some roll-ups are in place": r"move .* to moves_by_hour/",
    "all roll-ups are, and the manifest is the old one": r"publish after forecasts_by_hour/",
    "one of the hours that expire is gone": r"move rates/.*hour=04 to \.run-ID/",
    "those of one table are gone": r"move eta/.*hour=03 to \.run-ID/",
    "all are gone, and the manifest is the old one": r"publish after \.run-ID/",
    "the manifest is new, and their files are there": r"remove \.run-ID/…/part-0",
    "their day is empty, and its folder is there": r"remove rates/date=2026-11-22$",
    "all of a later hour are in place": r"publish after .*24/hour=03/run=ID",
}
"""Before which change of the disk a process is killed, in the order in which they come."""
ENDED: Final = "ended"
_ID: Final = re.compile(r"\d+-[0-9a-f]{8}")


@dataclass(slots=True)
class Changes:
    """Hears every change of a folder, as a line of text without the ids of runs."""

    results: Path
    hear: Callable[[str], None]
    _tree: str = ""
    """The folder that is being removed with all that is in it."""
    _moved: str = ""
    """The place that something was moved to last."""

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        """What `sys.addaudithook` calls."""
        if event == "os.rename":
            source, target = (self._name(path) for path in args[:2])
            if target == "manifest.json":
                self.hear(f"publish after {self._moved}")
            elif target:
                self._moved = target
                self.hear(f"move {source} to {target}")
        elif event == "shutil.rmtree":
            self._tree = self._name(args[0])
        elif event in {"os.remove", "os.rmdir"}:
            # What is in a tree that is removed has no path, only a name.
            name = self._name(args[0])
            if name or self._tree:
                self.hear(f"remove {name or f'{self._tree}/…/{args[0]}'}")
        elif event == "os.mkdir" and (name := self._name(args[0])):
            self.hear(f"make {name}")

    def _name(self, path: object) -> str:
        """Below the folder of results; empty elsewhere."""
        text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        if not text.startswith(f"{self.results}/"):
            return ""
        return _ID.sub("ID", text.removeprefix(f"{self.results}/"))


def kill_before(results: Path, pattern: str) -> None:
    """Say the first change that has a pattern, and end this process before it happens."""

    def hear(change: str) -> None:
        if re.search(pattern, change):
            os.write(1, f"{change}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(Changes(results, hear))


def live(recording: Path, results: Path) -> None:
    """Let files of a recording come one after the other, and a job make results of them.

    A file comes at its time of modification. Files that have come already are not taken back.
    """
    samples = results.parent
    for file in written(recording, SampleTable.BROKERS):
        _come(file.path, samples / file.path.relative_to(recording))
    clock = StoppedClock()
    job = LightJob(samples, results, KEPT, clock, FILES_A_TURN)
    files = sorted(written(recording, SampleTable.REPLICAS), key=lambda file: file.number)
    places = [(file.path, samples / file.path.relative_to(recording)) for file in files]
    come = sum(place.exists() for _, place in places)
    first = max(0, come - 1) // FILES_A_TURN * FILES_A_TURN
    for start in range(first, len(files), FILES_A_TURN):
        for path, place in places[start : start + FILES_A_TURN]:
            _come(path, place)
            clock.ms = place.stat().st_mtime_ns // 1_000_000
        job.turn()
    job.release()


def _come(path: Path, place: Path) -> None:
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.hardlink_to(path)


def killed(recording: Path, results: Path) -> list[str]:
    """Let processes be killed in the life of a folder; at which change each was, and how it ended.

    The files of the recording come to lie in the folder above that of the results.
    """
    command = [sys.executable, "-m", "tests.support.pipeline.killed.life"]
    command += [str(recording), str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def lived(recording: Path, results: Path, pattern: str | None) -> None:
    """Live, up to the change that has the pattern, or to the end."""
    if pattern is not None:
        kill_before(results, pattern)
    live(recording, results)
    os.write(1, f"{ENDED}\n".encode())


def main(recording: Path, results: Path) -> None:
    """See the module's text."""
    for pattern in (*MOMENTS.values(), None):
        status = status_of(partial(lived, recording, results, pattern))
        if status not in (0, signal.SIGKILL):
            raise SystemExit(f"A process ended with the status {status}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
