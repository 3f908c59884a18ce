"""A journal that backends of one process share, and a clock that only a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kshunt.backend.errors import JournalFenced, KshuntError
from kshunt.backend.operations.journal.entries import Body, Entry, EntryHeader, JournalState
from kshunt.backend.operations.journal.port import Repairs
from kshunt.backend.operations.lease.lease_manager import BackendIdentity, LeaseManager

NEWS_S = 0.5
STEP_S = 0.05


class TestClock:
    """Time that moves only in `passes`."""

    __test__ = False

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self._moved = asyncio.Event()

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def monotonic_s(self) -> float:
        return self.seconds

    async def wait_s(self, seconds: float) -> None:
        until_s = self.seconds + seconds
        await asyncio.sleep(0)
        while self.seconds < until_s:
            self._moved.clear()
            await self._moved.wait()

    async def passes(self, seconds: float) -> None:
        """Let so much time pass, with everybody at work."""
        until_s = self.seconds + seconds
        while self.seconds < until_s:
            self.seconds += STEP_S
            self._moved.set()
            for _ in range(30):
                await asyncio.sleep(0)

    async def until(self, condition: Callable[[], object], deadline_s: float = 60.0) -> float:
        """Let time pass until the condition holds; returns how many seconds that took."""
        began_s = self.seconds
        while not condition():
            assert self.seconds < began_s + deadline_s, "it does not come to this"
            await self.passes(STEP_S)
        return self.seconds - began_s


@dataclass
class MemoryLog:
    """What is committed, and what readers are shown of it."""

    committed: JournalState = field(default_factory=JournalState)
    shown: JournalState | None = None
    """What a follower sees, where that is not all."""
    epoch: int = 0
    """How often somebody became the writer."""
    writers: list[str] = field(default_factory=list)
    failing: dict[str, KshuntError] = field(default_factory=dict)
    """What `open`, `append` or `follow` fails with."""

    def put(self, writer: str, entries: Mapping[str, Body | None]) -> None:
        """Commit entries."""
        merged = dict(self.committed.entries)
        for key, body in entries.items():
            merged.pop(key, None)
            if body is not None:
                merged[key] = Entry(key, body, EntryHeader("here", writer, 0))
        self.committed = JournalState(merged, self.committed.unreadable)
        self.writers.append(writer)

    def check(self, what: str) -> None:
        """Fail as the test wants."""
        if what in self.failing:
            raise self.failing[what]


class MemoryJournal:
    """One backend's view of a `MemoryLog`; a `kshunt.backend.operations.journal.port.Journal`."""

    remarks: tuple[str, ...] = ()
    repairs: Repairs = Repairs()
    any_loop = False

    def __init__(self, log: MemoryLog, clock: TestClock, name: str) -> None:
        self._log = log
        self._clock = clock
        self._name = name
        self._epoch = -1
        self._nudged = False
        self._sees_all = False
        """A reader does not go back."""
        self._state = JournalState()

    @property
    def state(self) -> JournalState:
        return self._state

    async def open(self) -> JournalState:
        self._log.check("open")
        self._log.epoch += 1
        self._epoch, self._state = self._log.epoch, self._log.committed
        return self._state

    async def peek(self) -> JournalState:
        self._sees_all, self._state = True, self._log.committed
        return self._state

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        self._log.check("append")
        if self._epoch != self._log.epoch:
            raise JournalFenced("It is fenced.")
        self._log.put(self._name, entries)
        self._state = self._log.committed

    async def resolve(self) -> bool:
        return True

    async def follow(self) -> AsyncGenerator[JournalState, None]:
        while True:
            self._log.check("follow")
            shown = None if self._sees_all else self._log.shown
            self._state = self._log.committed if shown is None else shown
            yield self._state
            until_s = self._clock.seconds + NEWS_S
            while self._clock.seconds < until_s and not self._nudged:
                await self._clock.wait_s(STEP_S)
            self._nudged = False

    def nudge(self) -> None:
        self._nudged = True

    async def close(self) -> None:
        pass


def self_of(name: str) -> BackendIdentity:
    """What a backend of a test says of itself."""
    return BackendIdentity(name, "host", f"unix:/run/{name}.sock", 1, "boot")


@asynccontextmanager
async def keeping(
    log: MemoryLog,
    clock: TestClock,
    name: str,
    unfinished: Callable[[JournalState], bool] = lambda state: False,
) -> AsyncIterator[LeaseManager]:
    """A backend whose lease manager runs; at the end it is gone, and has told nobody."""
    lease_manager = LeaseManager(
        MemoryJournal(log, clock, name), self_of(name), clock, unfinished=unfinished
    )
    task = asyncio.create_task(lease_manager.run())
    try:
        yield lease_manager
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
