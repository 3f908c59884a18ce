"""The repartition job as the engine sees it: what it is told, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from kshunt.backend.domain.shrink.offset_maps import Offsets
from kshunt.backend.domain.topics.partitioners import Partitioner

Ended = Literal["complete", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class JobCommand:
    """One run of `kshunt pipeline repartition`."""

    source: str
    target: str
    operation: str
    """The name under which the copy continues; its group bears it."""
    folder: Path
    """Of its own: for its files, and with `verify` for the offset map."""
    verify: bool = False
    """Compare, instead of copying."""
    until: Offsets | None = None
    """Offsets to end at; None: today's ends."""
    cuts: Sequence[Offsets] = ()
    strip_header: bool = False
    """Copy back: into partitions of like number, without our header."""
    keyless: str = "round-robin"
    partitioner: Partitioner = Partitioner.MURMUR2
    """By which keys are placed."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How a job goes."""

    running: bool = False
    records_done: int | None = None
    """Offsets passed, of those that this run has to pass."""
    records_total: int | None = None
    bytes: int = 0
    records_per_s: float | None = None
    ended: Ended | None = None
    """How it ended; None while it has not. A verification is complete whatever it found."""
    positions: Offsets | None = None
    """Up to where it has copied, of every partition of the source."""
    verified: Mapping[str, Any] | None = None
    """What a verification says: `equal`, `differing`, `positions`, `target_ends` ..."""
    words: str = ""
    """Why it failed."""
    retriable: bool = False
    """True where the same again may succeed."""


class RepartitionJob(Protocol):
    """A process that copies or compares, and ends with the backend."""

    async def start(self, command: JobCommand) -> None:
        """Start it; how it goes is in `status`."""
        ...

    def status(self) -> JobStatus:
        """How it goes."""
        ...

    async def end(self) -> None:
        """Let it end, soon; it has ended when this returns."""
        ...
