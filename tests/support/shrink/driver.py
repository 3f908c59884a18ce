"""Shrinks taken to their end by hand: by a runner that is stopped anywhere and begun anew.

The clusters are real or embedded brokers. The job copies by what the real one's workers use, in
this process and without Spark; it compares by reading both topics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.kips.backend_placer import load_backend_placer
from kshunt.backend.delivered_files.offset_map import COLUMNS
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.shrink.offset_maps import OFFSET_MAP
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.errors import KshuntError, NotActive
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.journal.entries import Body, Entry, EntryHeader, JournalState
from kshunt.backend.operations.shrink.check import ShrinkChecks
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus, RepartitionJob
from kshunt.backend.operations.shrink.requests import Shrinks
from kshunt.backend.operations.shrink.runner import ShrinkRunner
from kshunt.backend.operations.shrink.step import ShrinkTools
from kshunt.backend.operations.state.shrink_work import ShrinkWork
from kshunt.backend.pipeline.kernels.copy_errors import CopyFailed
from kshunt.backend.pipeline.kernels.copying import Copying, copy_range
from kshunt.backend.pipeline.repartition.copy_batches import begun, copy_cuts, next_batch
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from kshunt.backend.settings import PlacerSettings, Settings
from tests.support.admin import instead
from tests.support.shrink.copied_topics import Record, held

TICKS_MAX: Final = 600
CHANGES: Final = frozenset(
    {
        "topics.create",
        "topics.delete",
        "configs.alter",
        "groups.alter_offsets",
        "groups.delete",
        "write_blocks.create",
        "write_blocks.delete",
    }
)
"""Calls that have an effect."""


class Crash(Exception):
    """The backend is gone."""


@dataclass(eq=False)
class Clock:
    """Time that passes when somebody waits, and with each tick."""

    seconds: float = 1_000.0

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def monotonic_s(self) -> float:
        return self.seconds

    async def wait_s(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)


@dataclass(eq=False)
class Trail:
    """What was done, and where it is to break off."""

    done: list[str] = field(default_factory=list)
    breaks: Callable[[str], bool] = lambda place: False
    """Whether to break off at a place."""

    def passes(self, place: str) -> None:
        """Come by a place where a backend may be lost."""
        self.done.append(place)
        if self.breaks(place):
            raise Crash(place)


@dataclass(eq=False)
class Book:
    """The journal, in memory."""

    trail: Trail
    state: JournalState = field(default_factory=JournalState)
    active: bool = True
    """False where another backend has taken over."""

    def require(self) -> None:
        if not self.active:
            raise NotActive("Another backend is active. Nothing was changed.")

    async def wait_while_paused(self) -> None:
        """It is never paused."""

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        self.require()
        merged = dict(self.state.entries)
        for key, body in entries.items():
            merged.pop(key, None)
            if body is not None:
                merged[key] = Entry(key, body, EntryHeader("here", "one", 0))
        self.state = JournalState(merged)
        self.trail.passes("written")


@dataclass(frozen=True)
class Door:
    """A subject of an admin, before and after whose effects a backend may be lost."""

    subject: Any
    name: str
    trail: Trail

    def __getattr__(self, verb: str) -> Any:
        call, name = getattr(self.subject, verb), f"{self.name}.{verb}"
        if name not in CHANGES:
            return call

        async def watched(*args: Any, **named: Any) -> Any:
            self.trail.passes(f"before {name}")
            answer = await call(*args, **named)
            self.trail.passes(f"after {name}")
            return answer

        return watched


@dataclass(eq=False)
class QuickJob:
    """A job that is done when it is started."""

    servers: str
    trail: Trail
    _status: JobStatus = field(default_factory=JobStatus)

    async def start(self, command: JobCommand) -> None:
        what = "verify" if command.verify else "copy"
        self.trail.passes(f"before {what}")
        work = _compared if command.verify else _copied
        self._status = await asyncio.to_thread(work, self.servers, command)
        self.trail.passes(f"after {what}")

    def status(self) -> JobStatus:
        return self._status

    async def end(self) -> None:
        return None


def _plan(servers: str, command: JobCommand) -> tuple[TopicQuestions, Copying]:
    clients = {"bootstrap.servers": servers, "log_level": 0}
    topics = TopicQuestions(clients)
    return topics, Copying(
        clients,
        command.source,
        command.target,
        command.operation,
        topics.partitions(command.target),
        topics.limit_bytes(command.target),
        strip_header=command.strip_header,
        keyless=command.keyless,
        partitioner=command.partitioner,
    )


def _copied(servers: str, command: JobCommand) -> JobStatus:
    try:
        topics, plan = _plan(servers, command)
        ends = topics.ends(command.source)
        way = copy_cuts(topics.starts(command.source), command.until or {}, ends, command.cuts)
        at = begun(topics, plan, way)
        while (batch := next_batch(at, way, 10_000)) is not None:
            with ThreadPoolExecutor(len(batch.ranges)) as pool:
                for done in pool.map(partial(copy_range, plan), batch.ranges):
                    at[done.partition] = done.position
                    if done.failure is not None:
                        raise done.failure
    except (CopyFailed, KshuntError) as failure:
        return JobStatus(ended="failed", words=str(failure), retriable=failure.retriable)
    return JobStatus(ended="complete", positions=at)


def _compared(servers: str, command: JobCommand) -> JobStatus:
    topics, plan = _plan(servers, command)
    starts = topics.starts(command.source)
    copied = topics.committed(plan.group, command.source, len(starts), stable=True)
    # As the real job: a transaction that has ended may still hide its records from readers.
    ends = topics.stable_ends(command.target)
    ours = [one for one in held(servers, command.source) if one.offset < copied[one.partition]]
    theirs = list(held(servers, command.target))
    pairs = list(_paired(ours, theirs, by_rank=command.strip_header))
    same = [one for one in pairs if one[0].content == one[1].content]
    equal = len(same) == len(ours) == len(theirs)
    places = [(a.partition, a.offset, b.partition, b.offset) for a, b in pairs]
    write_map(command.folder / OFFSET_MAP, places)
    said = {
        "equal": equal,
        "source_records": len(ours),
        "target_records": len(theirs),
        "differing": [] if equal else [{"bucket": 7}],
        "positions": {str(p): at for p, at in copied.items()},
        "target_ends": {str(p): at for p, at in ends.items()},
    }
    return JobStatus(ended="complete", verified=said)


def _paired(
    ours: Sequence[Record], theirs: Sequence[Record], *, by_rank: bool
) -> Iterator[tuple[Record, Record]]:
    if not by_rank:
        places = {(one.partition, one.offset): one for one in ours}
        counts = Counter(one.source for one in theirs)
        known = [one for one in theirs if one.source in places and counts[one.source] == 1]
        yield from ((places[one.source], one) for one in known)
        return
    for partition in sorted({one.partition for one in ours}):
        here = [one for one in ours if one.partition == partition]
        there = [one for one in theirs if one.partition == partition]
        yield from zip(here, there, strict=False)


def write_map(folder: Path, rows: Sequence[tuple[int, int, int, int]]) -> None:
    """Leave an offset map: partition and offset in the source, and the same in the target."""
    folder.mkdir(parents=True, exist_ok=True)
    types = (pa.int32(), pa.int64(), pa.int32(), pa.int64())
    columns = {
        name: pa.array([row[place] for row in rows], types[place])
        for place, name in enumerate(COLUMNS)
    }
    pq.write_table(pa.table(columns), folder / "part.parquet")
    (folder / "_SUCCESS").touch()


@dataclass(eq=False)
class Driver:
    """One shrink, and the backend that is at work on it."""

    servers: str
    folder: Path
    trail: Trail = field(default_factory=Trail)
    clock: Clock = field(default_factory=Clock)
    operation_id: str = ""
    elsewhere: bool = False
    """Whether each backend that takes over is on another machine, with no offset map."""
    machines: int = 0
    placer: PlacerSettings = field(default_factory=PlacerSettings)

    def __post_init__(self) -> None:
        self.book = Book(self.trail)

    async def open(self) -> None:
        """Reach the cluster, and begin with what the journal says."""
        self.admin = KafkaAdmin(Settings(self.servers))
        await self.admin.connect()
        self.begin()

    async def close(self) -> None:
        await self.runner.let_go()
        await self.admin.close()

    def begin(self) -> None:
        """A backend that has just taken over."""
        registry = Registry(self.clock, lambda operation: None, self.book, "one")
        registry.load(self.book.state)
        changed = {name.partition(".")[0] for name in CHANGES}
        doors = {name: Door(getattr(self.admin, name), name, self.trail) for name in changed}
        admin = instead(self.admin, **doors)
        self.context = Context(admin, registry, self.clock, 10.0)
        checks = ShrinkChecks(admin, self.clock, timeout_s=8.0)
        folder = self.folder / f"machine-{self.machines}" if self.elsewhere else self.folder
        placing = load_backend_placer(self.placer, self.admin.cluster, self.admin.logs)
        tools = ShrinkTools(self.context, checks, self._job, folder, placing)
        self.runner = ShrinkRunner(tools)
        self.verbs = Shrinks(self.context, checks)

    def _job(self) -> RepartitionJob:
        return QuickJob(self.servers, self.trail)

    async def start(self, request: ShrinkRequest) -> None:
        answer = await self.verbs.start(request, Change())
        assert answer.operation_id is not None
        self.operation_id = answer.operation_id

    @property
    def operation(self) -> Operation:
        found = self.context.registry.get(self.operation_id)
        assert found is not None
        return found

    @property
    def work(self) -> ShrinkWork:
        found = self.context.registry.shrink(self.operation_id)
        assert found is not None
        return found

    @property
    def needs(self) -> str:
        return self.runner.progress(self.operation, self.work).needs

    @property
    def words(self) -> str:
        return self.runner.progress(self.operation, self.work).words

    async def tick(self) -> None:
        """One step of the backend at work; after a crash another one begins."""
        try:
            await self.runner.advance(self.operation, self.work)
            task = self.runner._live[self.operation_id].task if self.runner._live else None
            if task is not None:
                with suppress(Exception):
                    await asyncio.wait([task])
        except Crash:
            await self.runner.let_go()
            self.machines += self.elsewhere
            self.begin()
        self.clock.seconds += 1.0

    async def until(self, *needs: str) -> None:
        """Continue until it waits for one of these, or has ended."""
        for _ in range(TICKS_MAX):
            if self.operation.state.ended or self.needs in needs:
                return
            await self.tick()
        raise AssertionError(f"it does not come to this: {self.work.phase}: {self.words}")

    async def to_end(self) -> None:
        """Continue to the end, and type the name when it is asked for; accept no difference."""
        while not self.operation.state.ended:
            await self.until("confirm")
            if not self.operation.state.ended:
                assert self.work.accepted or not self.work.differs, self.work.differs
                await self.confirm()

    async def confirm(self) -> None:
        try:
            await self.verbs.confirm(self.operation_id, self.work.topic, Change())
        except Crash:
            self.begin()

    async def cancel(self) -> None:
        try:
            await self.verbs.cancel(self.operation_id, Change())
        except Crash:
            self.begin()

    @property
    def done(self) -> bool:
        return self.operation.state is OperationState.DONE
