"""The data pipeline as a process of the backend's: started, looked after, and ended with it.

Goals
    Results keep up with the samples while the backend runs, whatever befalls the process; and no
    process is left behind, however the backend ends.
Constraints
    Nothing of Spark is loaded here, and nothing that happens to the process reaches the backend.
Algorithm
    The process ends when its standard input does, and nobody but this backend holds the other end:
    so it ends with the backend, even if that is killed. Whenever it ends otherwise it is started
    again, after a pause that doubles from one second to a minute, and begins anew once the process
    has run for two minutes. What it says goes to the log; its last words, if it ended by an error,
    are kept for callers that ask for its state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kshunt.backend import child_processes
from kshunt.backend.clock import Clock
from kshunt.backend.domain.pipeline.delivered import PipelineProcess

log = logging.getLogger(__name__)

PAUSE_S: Final = 1.0
PAUSE_MOST_S: Final = 60.0
STEADY_S: Final = 120.0
"""After a run of at least this time the pause before the next start is the shortest again."""
END_S: Final = 20.0
"""The process ends by itself within this, once its input has ended."""


def pipeline_command(
    samples: Path,
    results: Path | None,
    master: str = "",
    *,
    keep_rates_days: int,
    keep_results_days: int,
) -> list[str]:
    """The command line of the process."""
    command = child_processes.command_of("pipeline", "run", "--until-end-of-input")
    command += ["--keep-rates", str(keep_rates_days), "--keep-results", str(keep_results_days)]
    command += ["--samples", str(samples.absolute())]
    command += [] if results is None else ["--results", str(results.absolute())]
    return command + (["--master", master] if master else [])


@dataclass(eq=False)
class PipelineSupervisor:
    """A process and what is known of it; `run` is cancelled to end both."""

    command: Sequence[str]
    clock: Clock
    pause_s: float = PAUSE_S
    """Before it is started again for the first time."""
    _status: PipelineProcess = field(init=False)

    def __post_init__(self) -> None:
        self._status = PipelineProcess(running=False, since_ms=self.clock.now_ms())

    def status(self) -> PipelineProcess:
        """How it goes; any thread may ask."""
        return self._status

    @contextlib.asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Run meanwhile."""
        task = asyncio.create_task(self.run(), name="pipeline")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def run(self) -> None:
        """Keep the process running until cancelled; it has ended then."""
        pause_s = self.pause_s
        while True:
            began_s = self.clock.monotonic_s()
            said = await self._once()
            if self.clock.monotonic_s() - began_s >= STEADY_S:
                pause_s = self.pause_s
            self._note(running=False, last_error=said)
            log.warning("The data pipeline has ended and starts again in %.0f s: %s", pause_s, said)
            await self.clock.wait_s(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MOST_S)
            self._note(restarts=self._status.restarts + 1)

    async def _once(self) -> str:
        """Start the process and wait for its end; its last words."""
        try:
            process = await child_processes.begun(self.command, together=True)
        except OSError as error:
            return f"It cannot be started: {error.strerror}."
        self._note(running=True)
        try:
            said = await _words(process)
            code = await process.wait()
        finally:
            # Cancelled or not: nothing of it stays, and its Java is of its process group.
            await child_processes.ended(process, END_S)
        return said or f"It ended with {code}, without a message."

    def _note(self, **changes: object) -> None:
        since_ms = self.clock.now_ms() if "running" in changes else self._status.since_ms
        self._status = replace(self._status, since_ms=since_ms, **changes)  # type: ignore[arg-type]


async def _words(process: Process) -> str:
    """Log what it says; its last error, or else its last line."""
    assert process.stdout is not None
    last = error = ""
    while (text := await child_processes.line_of(process.stdout)) is not None:
        if text:
            log.info("pipeline: %s", text)
            last = text
        if text.startswith(child_processes.OURS):
            error = text.removeprefix(child_processes.OURS)
    return (error or last)[:500]
