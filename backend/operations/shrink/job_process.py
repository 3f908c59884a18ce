"""`kshunt pipeline repartition` as a process of the backend's: started, listened to, ended.

Goals
    The engine sees at any moment how the job stands, and why it failed. A job that is to end has
    ended within seconds. Nothing of it is left behind, however the backend ends.
Constraints
    Nothing of Spark is loaded here. A process may die at any moment, and may say anything.
Algorithm
    The job tells its progress by lines of JSON on standard output. What it says on standard error
    goes to the log, and the last error there counts where no line told one. The backend tells it to
    end by SIGTERM, and it ends after its batch. After a second SIGTERM it ends immediately. Then
    the backend kills it with all it started. None of this loses or doubles a record: the next job
    continues from what was committed. It is never started again from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kshunt.backend import child_processes
from kshunt.backend.domain.shrink.offset_maps import Offsets
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus

log = logging.getLogger(__name__)

BATCH_S: Final = 5.0
"""It tells about this often how far it is, and takes about this long to end when told to."""
END_S: Final = 2.0
"""It has this long to end by itself when it is told, and this long again when told twice."""
FENCED: Final = "CopyFenced"
"""The kind of failure of a job that another one of the same operation has overtaken."""
_LINE_BYTES_MAX: Final = 1 << 26
"""A line that tells the positions of very many partitions is long."""
_WORDS_MAX: Final = 500
_RATE_OF: Final = 5
"""Batches by which the rate is told."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What every job of a backend is given."""

    bootstrap_servers: str
    command_config: Path | None = None
    """Kafka client properties (security)."""
    master: str = ""
    """Where Spark runs; empty: as the job itself finds best."""
    remote: str = ""
    """A Spark Connect server."""
    memory: str = ""
    """Of Spark on this machine, such as `2g`."""
    kafka_jars: Path | None = None
    """Spark's Kafka connector; None: as `KSHUNT_KAFKA_JARS` says, or else it is fetched."""
    batch_records: int = 1_000_000


def command_line(settings: JobSettings, command: JobCommand) -> list[str]:
    """The command line of a job, whose files are in its folder."""
    flags: dict[str, object] = {
        "--bootstrap-server": settings.bootstrap_servers,
        "--source": command.source,
        "--target": command.target,
        "--operation": command.operation,
        "--keyless": command.keyless,
        "--partitioner": command.partitioner.value,
        "--command-config": settings.command_config,
        "--master": settings.master,
        "--remote": settings.remote,
        "--memory": settings.memory,
    }
    if command.verify:
        flags |= {"--folder": command.folder, "--kafka-jars": settings.kafka_jars}
    else:
        flags |= {"--batch-records": settings.batch_records, "--batch-seconds": BATCH_S}
        flags["--until"] = None if command.until is None else _until_file(command.folder)
        flags["--cuts"] = _cuts_file(command.folder) if command.cuts else None
    words = ["--json", "--until-end-of-input"]
    words += ["--strip-header"] if command.strip_header else []
    words += ["--verify"] if command.verify else []
    words += [str(word) for name, value in flags.items() if value for word in (name, value)]
    return child_processes.command_of("pipeline", "repartition", *words)


def _until_file(folder: Path) -> Path:
    return folder / "until.json"


def _cuts_file(folder: Path) -> Path:
    return folder / "cuts.json"


def _write_files(command: JobCommand) -> None:
    """Write what has no place on a command line.

    Raises:
        OSError: the folder cannot be written.
    """
    command.folder.mkdir(parents=True, exist_ok=True)
    if command.until is not None:
        _until_file(command.folder).write_text(json.dumps(_named(command.until)))
    if command.cuts:
        _cuts_file(command.folder).write_text(json.dumps([_named(cut) for cut in command.cuts]))


def _named(offsets: Offsets) -> Mapping[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


@dataclass(eq=False)
class ProcessJob:
    """See `RepartitionJob`."""

    settings: JobSettings
    line: Callable[[JobSettings, JobCommand], Sequence[str]] = command_line
    """The command line of a run."""
    _status: JobStatus = field(default_factory=JobStatus)
    _rates: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_RATE_OF))
    """Records and seconds of the last batches."""
    _process: Process | None = None
    _task: asyncio.Task[None] | None = None
    _asked_to_end: bool = False
    """Whether it was told to end."""
    _error: str = ""
    """Its last words on standard error, with an error of ours before any other."""

    async def start(self, command: JobCommand) -> None:
        """See `RepartitionJob.start`; what hinders the start is told by `status`."""
        await self.end()
        self._status, self._asked_to_end, self._error = JobStatus(running=True), False, ""
        self._rates.clear()
        try:
            await asyncio.to_thread(_write_files, command)
            process = await child_processes.begun(
                self.line(self.settings, command),
                together=False,
                line_bytes_max=_LINE_BYTES_MAX,
            )
        except OSError as error:
            self._note(running=False, ended="failed", words=f"It cannot be started: {error}.")
            return
        self._process = process
        self._task = asyncio.create_task(self._watched(process), name=command.operation)

    def status(self) -> JobStatus:
        """See `RepartitionJob.status`."""
        return self._status

    async def end(self) -> None:
        """See `RepartitionJob.end`."""
        process, task = self._process, self._task
        if process is None or task is None:
            return
        for _ in range(2):
            self._tell_to_end(process)
            await asyncio.wait([task], timeout=END_S)
        await child_processes.ended(process, 0.0)
        # Its output ends with the last of its processes.
        await asyncio.wait([task], timeout=END_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._process = self._task = None

    def _tell_to_end(self, process: Process) -> None:
        if process.returncode is None:
            self._asked_to_end = True
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    async def _watched(self, process: Process) -> None:
        """Listen until it has ended."""
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            await asyncio.gather(self._listen(process.stdout), self._log(process.stderr))
            code = await process.wait()
        finally:
            # Its Java may outlive it.
            await child_processes.ended(process, 0.0)
            self._note(running=False)
        if self._status.ended is None:
            # Whatever ended it, the next job continues.
            if self._asked_to_end:
                self._note(ended="stopped")
            else:
                self._note(ended="failed", words=self._last_words(code), retriable=True)

    def _last_words(self, code: int) -> str:
        if self._error.startswith(child_processes.OURS):
            return self._error.removeprefix(child_processes.OURS)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        return f"It {how}; its last line: {self._error}" if self._error else f"It {how}."

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while (text := await child_processes.line_of(stream)) is not None:
            try:
                self._heard(json.loads(text))
            except (ValueError, KeyError, TypeError, AttributeError):
                log.info("repartition: %s", text)

    async def _log(self, stream: asyncio.StreamReader) -> None:
        while (text := await child_processes.line_of(stream)) is not None:
            if not text:
                continue
            log.info("repartition: %s", text)
            ours = text.startswith(child_processes.OURS)
            if ours or not self._error.startswith(child_processes.OURS):
                self._error = text[:_WORDS_MAX]

    def _heard(self, said: Mapping[str, Any]) -> None:
        """Take a line of its progress in.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: it is none.
        """
        match said["event"]:
            case "started":
                self._note(
                    records_done=0, records_total=int(said["left"]), positions=_positions(said)
                )
            case "batch":
                self._rates.append((int(said["records"]), float(said["seconds"])))
                self._note(
                    records_done=self._passed(said),
                    records_per_s=_rate(self._rates),
                    bytes=self._status.bytes + int(said["bytes"]),
                    positions=_positions(said),
                )
            case "ended":
                how = "complete" if said["complete"] else "stopped"
                self._note(ended=how, records_done=self._passed(said), positions=_positions(said))
            case "verified":
                self._note(ended="complete", verified=dict(said))
            case "failed":
                self._failed(said)

    def _passed(self, said: Mapping[str, Any]) -> int:
        return max(0, (self._status.records_total or 0) - int(said["left"]))

    def _failed(self, said: Mapping[str, Any]) -> None:
        words = f"{said['message']} {said['advice']}".strip()
        # By a former backend's job, whose last batch may continue for a moment.
        fenced = said.get("kind") == FENCED
        self._note(
            ended="failed", words=words[:_WORDS_MAX], retriable=bool(said["retriable"]) or fenced
        )

    def _note(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)


def _positions(said: Mapping[str, Any]) -> Offsets:
    return {int(partition): int(offset) for partition, offset in said["positions"].items()}


def _rate(batches: Collection[tuple[int, float]]) -> float | None:
    seconds = sum(took for _, took in batches)
    return sum(records for records, _ in batches) / seconds if seconds > 0 else None
