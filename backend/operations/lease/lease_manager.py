"""Keeps one backend's lease: asks the clock and the journal, and does what the lease says.

`kshunt.backend.operations.lease.lease` decides, and says why. A thread of its own sends the
heartbeats, where the journal allows that. So work that holds up the backend's event loop for longer
than a lease lasts does not lose the lease. A backend whose event loop has stopped for good would
keep others out for ever, so heartbeats end once it has not answered for `STUCK_S`. When the whole
process stands still the thread does too, and `LeaseManager.require` compares with the clock as
ever.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kshunt.backend.clock import Clock
from kshunt.backend.errors import (
    Conflict,
    JournalFenced,
    JournalUnavailable,
    JournalUnusable,
    KshuntError,
    NotActive,
    NotActiveYet,
    NotAuthorized,
    WrongCluster,
)
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    Body,
    Heartbeat,
    JournalState,
    Unreadable,
)
from kshunt.backend.operations.journal.port import RETRY_S, Journal
from kshunt.backend.operations.lease.lease import (
    ActiveEntry,
    Lease,
    LeaseState,
    LeaseTimes,
    ProcessTime,
)
from kshunt.backend.operations.lease.own_event_loop import apart

TICK_S: Final = 0.25
"""How often a writer looks at its lease."""
GLANCE_S: Final = 0.05
"""How often one who waits for a decision looks whether there is one."""
STUCK_S: Final = 30.0
"""An event loop that has not answered for this long is taken for dead: nothing that is accepted
holds it up for a hundredth of that."""
LOOK_MAX_S: Final = 1.0
"""So much one look for an answer counts at most."""
PAUSED_S: Final = 10.0
"""A writer whose heartbeat is late waits this long for its acknowledgement, and then refuses."""
TROUBLE_S: Final = 5.0
"""A journal that only an operator can help is tried again after this, or when it is wanted."""

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")

log = logging.getLogger(__name__)

_NEED_HELP: Final = (JournalUnusable, NotAuthorized, WrongCluster)
"""What does not pass by itself."""


@dataclass(frozen=True, slots=True)
class BackendIdentity:
    """What a backend says of itself in its heartbeats."""

    backend: str
    host: str
    address: str
    """Where its API can be reached: `unix:/path`, good on its own host only, or a URL."""
    started_ms: int
    boot_id: str = ""
    """Of the running kernel: two machines may have one name."""
    demands_credentials: bool = False
    """Whether every caller shows a credential."""
    two_person: tuple[str, ...] = ()
    """What takes two people here, sorted."""
    key_id: str = ""
    """Of the key that signs what this backend sends to others."""

    @classmethod
    def here(cls, backend: str, address: str, started_ms: int) -> BackendIdentity:
        """Of a backend on this machine."""
        return cls(backend, socket.gethostname(), address, started_ms, _boot_id())

    def heartbeat(self, now: ProcessTime) -> Heartbeat:
        """Of this moment."""
        return Heartbeat(
            *(self.backend, self.host, self.address, self.started_ms, now.wall_ms, self.boot_id),
            *(self.demands_credentials, self.two_person, self.key_id),
        )

    def shares_host_with(self, other: Heartbeat) -> bool:
        """Whether a path of the other's file system surely means the same here."""
        return (self.host, self.boot_id) == (other.host, other.boot_id)


class LeaseManager:
    """Keeps one backend's lease: follows, takes over, sends heartbeats, and stops when fenced.

    `run` is a task of the backend. It takes over only once there is a need: `want` was called,
    the journal holds what is `unfinished`, or this backend acted before. A caller that changes the
    cluster waits for `ready`, appends its intent by `append`, and calls `require` directly before
    each effect. All of it belongs to one event loop, but for the heartbeats.
    """

    def __init__(
        self,
        journal: Journal,
        me: BackendIdentity,
        clock: Clock,
        changed: Callable[[LeaseState, JournalState], None] = lambda duty, state: None,
        terms: LeaseTimes | None = None,
        *,
        unfinished: Callable[[JournalState], bool] = lambda state: False,
        stuck_s: float = STUCK_S,
    ) -> None:
        """The manager calls `changed` with every new duty and state, on the event loop.

        `unfinished` says whether a state holds operations that a backend has to continue. After
        `stuck_s` without an answer of the event loop no heartbeat is sent.
        """
        self.me = me
        self._journal = journal
        self._clock = clock
        self._changed = changed
        self._unfinished = unfinished
        self._lease = Lease(terms or LeaseTimes(), wanted=False)
        self._changing = threading.Lock()
        """Held while a lease is made of the one before: two threads do so."""
        self._stuck_s = stuck_s
        self._answered = ProcessTime.of(clock)
        """When the event loop last had its turn."""
        self._asked = False
        self._asked_at_s = 0.0
        self._call = asyncio.Event()
        self._failures = 0
        self._trouble: KshuntError | None = None
        self._said: tuple[LeaseState, JournalState] | None = None

    @property
    def duty(self) -> LeaseState:
        """What this backend has to do now; to be asked anew before each effect."""
        return LeaseState.BLOCKED if self._trouble else self._lease.duty(self._now())

    @property
    def state(self) -> JournalState:
        """What is committed, as far as this backend knows."""
        return self._journal.state

    @property
    def active(self) -> ActiveEntry:
        """Who acts, as far as the journal says; perhaps one that is long gone."""
        return self._journal.state.heartbeat

    @property
    def actor(self) -> Heartbeat | None:
        """The other backend that is known to act at this moment."""
        return self._lease.actor(self._now())

    @property
    def trouble(self) -> KshuntError | None:
        """Why the journal cannot be used until an operator has helped; it is tried again."""
        return self._trouble

    @property
    def patience_s(self) -> float:
        """For how much longer the one that acts has to be silent for this one to take over."""
        return self._lease.patience_s(self._now())

    def want(self) -> None:
        """Say that there is something to do: take over as soon as nobody else acts."""
        self._asked, self._asked_at_s = True, self._clock.monotonic_s()
        self._change(lambda lease: replace(lease, wanted=True))
        self._call.set()
        self._journal.nudge()

    async def ready(self, timeout_s: float) -> None:
        """Want to act, and return once this backend does.

        Raises:
            NotActive: another backend acts, or who acts was not settled in time.
            JournalUnusable, NotAuthorized, WrongCluster: as `Journal.open`.
        """
        self.want()
        failures, until_s = self._failures, self._clock.monotonic_s() + timeout_s
        while self.duty is not LeaseState.ACT:
            if self._trouble is not None and self._failures > failures:
                raise self._trouble
            blocked = isinstance(self._lease.heard, Unreadable)
            late = self._clock.monotonic_s() >= until_s
            if blocked or late or self._lease.actor(self._now()) is not None:
                self.require()
            await self._clock.wait_s(GLANCE_S)

    async def other(self, timeout_s: float) -> Heartbeat | None:
        """The other backend that acts, if any.

        Where none is known to act, it reads the journal anew. A heartbeat that it finds may be of a
        backend that is long gone, so it waits to see whether another follows.
        """
        asked_s = self._clock.monotonic_s()
        while self._undecided(asked_s) and self._clock.monotonic_s() < asked_s + timeout_s:
            self._journal.nudge()
            await self._clock.wait_s(GLANCE_S)
        return self._lease.actor(self._now())

    def _undecided(self, asked_s: float) -> bool:
        """Nobody is known to act, and it is not known either that nobody does."""
        if self._lease.writes or self._trouble or self._lease.actor(self._now()):
            return False
        return self.duty is LeaseState.FOLLOW or not self._lease.read_since(asked_s)

    def require(self) -> None:
        """Return only where this backend may change the cluster now.

        Raises:
            NotActive: it may not.
        """
        duty = self.duty
        if duty is not LeaseState.ACT:
            actor = self._lease.actor(self._now())
            raise self._refusal(duty, actor)

    async def wait_while_paused(self) -> None:
        """Return once the writer's late heartbeat is acknowledged, or after `PAUSED_S`.

        It does not wait where this backend is not the writer, or has been fenced. A
        journal that is slow for longer than a lease lasts holds up heartbeats, too. Requests that
        have written their intent would stop there, though nobody else acts.
        """
        until_s = self._clock.monotonic_s() + PAUSED_S
        while self.duty is LeaseState.PAUSE and self._clock.monotonic_s() < until_s:
            await self._clock.wait_s(GLANCE_S)

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """As `Journal.append`, for the backend that acts; it waits while that is paused.

        Raises:
            NotActive: this backend may not act; nothing was written.
            BadInput, Conflict, JournalFenced, JournalUnavailable, JournalUnusable, NotAuthorized:
                as `Journal.append`.
        """
        await self.wait_while_paused()
        self.require()
        try:
            await self._journal.append(entries, replacing=replacing)
        except JournalFenced:
            self._lose()
            raise
        except _NEED_HELP as failed:
            self._fail(failed)
            raise
        self._tell()

    async def run(self) -> None:
        """Follow, take over and act by turns, until cancelled."""
        while True:
            try:
                await self._follow()
                if await self._take_over():
                    await self._beat_until_lost()
            except _NEED_HELP as failed:
                self._fail(failed)
            if self._trouble is not None:
                self._call.clear()
                await _first(self._clock.wait_s(TROUBLE_S), self._call.wait())

    async def release(self) -> None:
        """Give up the right to act, so that another backend need not wait; after `run` ended."""
        wrote, self._lease = self._lease.writes, self._lease.lost()
        if wrote:
            try:
                await self._journal.append({BACKEND_KEY: None})
            except (JournalFenced, JournalUnavailable, Conflict, *_NEED_HELP) as failed:
                log.warning(
                    "The journal was not released, so other backends wait a while: %s", failed
                )

    async def _follow(self) -> None:
        began = self._now()
        seen: JournalState | None = None
        async with aclosing(self._journal.follow()) as states:
            async for state in states:
                now = self._now()
                if state is not seen:
                    seen, wanted = state, self._asked or self._unfinished(state)
                self._lease = replace(self._lease, wanted=wanted or self._asked)
                self._lease, began = self._lease.read(state.heartbeat, began, now), now
                if self._lease.duty(now) is LeaseState.TAKE_OVER:
                    if self._lease.read_since(self._asked_at_s):
                        return
                    self._journal.nudge()
                self._trouble = None
                self._tell()

    async def _take_over(self) -> bool:
        began = self._now()
        try:
            # Kafka acknowledges a heartbeat before it shows it to readers. To fence a
            # backend that has just begun would leave no backend that acts until silence has lasted.
            state = await self._journal.peek()
            if state.heartbeat != self._lease.heard:
                self._lease = self._lease.read(state.heartbeat, began, self._now())
                await self._clock.wait_s(TICK_S)
                return False
            state = await self._journal.open()
        except JournalUnavailable as failed:
            log.info("Could not take over: %s", failed)
            await self._clock.wait_s(RETRY_S)
            return False
        except JournalFenced as failed:
            log.info("Another backend has taken over: %s", failed)
            self._lose()
            return False
        self._trouble, self._asked = None, True
        self._lease = replace(self._lease.opened(state.heartbeat, self._now()), wanted=True)
        self._tell()
        return True

    async def _beat_until_lost(self) -> None:
        if not self._journal.any_loop:
            while self._lease.writes:
                await self._beat()
                self._tell()
                await self._clock.wait_s(TICK_S)
            return
        self._answered = self._now()
        async with apart(self._beat_apart, "kshunt-lease") as beating:
            while self._lease.writes and not beating.done():
                self._answered = self._now()
                self._tell()
                await self._clock.wait_s(TICK_S)
        self._tell()

    async def _beat_apart(self) -> None:
        """Send heartbeats on another event loop, as long as the backend's own one answers."""
        seen, unanswered_s, logged = self._answered, 0.0, False
        looked = self._now()
        while self._lease.writes:
            now = self._now()
            # While the whole process stood still, nobody could answer: a long look counts little.
            unanswered_s += min(now.since_s(looked), LOOK_MAX_S)
            looked = now
            if self._answered is not seen:
                seen, unanswered_s, logged = self._answered, 0.0, False
            if unanswered_s <= self._stuck_s:
                await self._beat()
            elif not logged:
                logged = True
                log.critical(
                    "The event loop has not answered for %g s. Another backend takes over.",
                    self._stuck_s,
                )
            await self._clock.wait_s(TICK_S)

    async def _beat(self) -> None:
        """Send a heartbeat if one is due; any event loop may do so."""
        sent = self._now()
        if not self._lease.beat_due(sent):
            return
        try:
            await self._journal.append({BACKEND_KEY: self.me.heartbeat(sent).body()})
        except JournalUnavailable as failed:
            log.info("A heartbeat was not acknowledged: %s", failed)
        except (JournalFenced, Conflict) as failed:
            log.warning("This backend is not active any more: %s", failed)
            self._change(Lease.lost)
        else:
            self._change(lambda lease: lease.beaten(sent) if lease.writes else lease)

    def _lose(self) -> None:
        self._change(Lease.lost)
        self._tell()

    def _change(self, step: Callable[[Lease], Lease]) -> None:
        """Take a step from the lease as it is; one that was lost meanwhile stays lost."""
        with self._changing:
            self._lease = step(self._lease)

    def _fail(self, failed: KshuntError) -> None:
        if self._trouble is None or str(failed) != str(self._trouble):
            log.warning("The journal cannot be used: %s", failed)
        self._failures += 1
        self._trouble = failed
        self._change(lambda lease: lease.lost() if lease.writes else lease)
        self._tell()

    def _now(self) -> ProcessTime:
        return ProcessTime.of(self._clock)

    def _tell(self) -> None:
        said = self.duty, self._journal.state
        if self._said is None or said[0] is not self._said[0] or said[1] is not self._said[1]:
            self._said = said
            self._changed(*said)

    def _refusal(self, duty: LeaseState, actor: Heartbeat | None) -> NotActive:
        if self._trouble is not None:
            return NotActive(f"{self._trouble.message} Nothing was changed.", active=actor)
        if duty in (LeaseState.WAIT, LeaseState.PAUSE):
            return NotActiveYet(
                "Another backend may still be active. Nothing was changed; try again.", active=actor
            )
        heard = self._lease.heard
        if isinstance(heard, Unreadable):
            return NotActive(
                f"The journal does not say which backend is active: {heard.detail} Nothing was "
                "changed."
            )
        if actor is not None:
            return NotActive(
                f"{actor.backend} on {actor.host} is the active backend, at {actor.address}. "
                "Nothing was changed here.",
                active=actor,
            )
        if self._lease.read_at is None:
            return NotActiveYet(
                "The journal has not been read yet. Nothing was changed; try again."
            )
        return NotActiveYet("This backend is not active yet. Nothing was changed; try again.")


async def _first(*ways: Coroutine[Any, Any, object]) -> None:
    """Return when one of them ends, or fail as it does; the others are cancelled."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _boot_id() -> str:
    try:
        return BOOT_ID_FILE.read_text().strip()
    except OSError:
        return ""
