"""The lease: who of several backends acts.

Goals
    Of all backends of a cluster one acts. When it dies another takes over within ten seconds;
    when it only slept, it stops before its next effect, and can write nothing more. No backend
    has to be told of another.
Constraints
    There is no common clock: what is compared are times of one process. `Lease` decides on
    values; `Keeper` asks the clock and the journal.
Algorithm
    The journal is the arbiter: to become its writer is to fence the one before (Kafka's
    transactional producers, KIP-98). The writer puts a heartbeat into it every `Terms.beat_s`,
    and acts only while the last one that was acknowledged was *sent* at most `act_within_s` ago.
    A stand-by measures from when it *saw* the last heartbeat, which is later, and takes over
    after `silence_s`, which is longer. Silence counts only while the stand-by surely reads all
    there is; after a gap in its reading it begins again. One that finds, as it takes over, a
    heartbeat that it had not seen waits as long as the writer before could still act. Who lost
    gives the winner as long to send its first heartbeat.
    (Gray and Cheriton 1989, "Leases", with fencing for what a lease alone cannot stop.)

What is left: an effect that was sent before a process was stopped may arrive later. Its intent is
in the journal, so the backend that takes over finds it and finishes or undoes it.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from backend.clock import Clock
from backend.errors import Conflict
from backend.operations.journal import (
    RETRY_S,
    Journal,
    JournalFenced,
    JournalUnavailable,
    NotActing,
)
from backend.operations.journal_codec import (
    BACKEND_KEY,
    Body,
    Heartbeat,
    JournalState,
    Unreadable,
)

TICK_S: Final = 0.25
"""How often a writer looks at its lease."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of one process, on both of its clocks."""

    monotonic_s: float
    wall_ms: int

    @classmethod
    def of(cls, clock: Clock) -> Moment:
        """Now."""
        return cls(clock.monotonic_s(), clock.now_ms())

    def since_s(self, earlier: Moment) -> float:
        """Seconds since another moment, by the monotonic clock."""
        return self.monotonic_s - earlier.monotonic_s

    def since_at_least_s(self, earlier: Moment) -> float:
        """The same by whichever clock says more: one may stand still while a machine sleeps."""
        return max(self.since_s(earlier), (self.wall_ms - earlier.wall_ms) / 1000)


@dataclass(frozen=True, slots=True)
class Terms:
    """The times of a lease; every backend of a cluster has the same, but for `jitter_s`."""

    beat_s: float = 2.0
    act_within_s: float = 5.0
    """After the last acknowledged heartbeat was sent."""
    silence_s: float = 6.0
    """After the last heartbeat was seen."""
    gap_s: float = 2.5
    """A stand-by that read nothing for longer begins to wait again."""
    jitter_s: float = 0.0
    """More silence than that, so that of two stand-bys one comes first."""

    def __post_init__(self) -> None:
        if not 0 < self.beat_s < self.act_within_s < self.silence_s or self.jitter_s < 0:
            raise ValueError(f"two backends could act at once with {self}")


class Duty(enum.StrEnum):
    """What a backend has to do."""

    FOLLOW = "follow"
    """Read, and show: another one acts, or may."""
    BLOCKED = "blocked"
    """As FOLLOW; who acts cannot be read, so this one will not take over by itself."""
    TAKE_OVER = "take_over"
    """Become the writer: nobody acts."""
    WAIT = "wait"
    """The writer, but the one before may still act, or no heartbeat is acknowledged yet."""
    ACT = "act"
    """The writer, with the right to change the cluster."""
    PAUSE = "pause"
    """The writer, whose last acknowledged heartbeat is too old."""


Found: TypeAlias = Heartbeat | Unreadable | None
"""What the journal says of who acts."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One backend's right to act; every method returns the lease that follows."""

    terms: Terms = field(default_factory=Terms)
    writes: bool = False
    heard: Found = None
    heard_at: Moment | None = None
    """When `heard` was seen first, or the waiting began again."""
    read_at: Moment | None = None
    """When the last complete reading of the journal began."""
    beat_at: Moment | None = None
    """When the last acknowledged heartbeat was sent."""
    acts_from_s: float = 0.0
    """By the monotonic clock: not before this."""
    beaten_to_it: bool = False
    """True after a loss until a heartbeat is heard. Who won has perhaps not sent one yet: were it
    fenced for that, two backends could go on fencing each other for ever."""

    def read(self, found: Found, began: Moment, now: Moment) -> Lease:
        """The stand-by has read to the end that the journal had at `began`, or later.

        So a heartbeat that is new was sent before `now`. One that was acknowledged shortly before
        `began` may be missing, for Kafka acknowledges a transaction before its readers see it:
        `opened` finds it.
        """
        gap = self.read_at is None or began.since_s(self.read_at) > self.terms.gap_s
        if gap or found != self.heard or self.heard_at is None:
            waits = self.beaten_to_it and found is None
            return replace(self, heard=found, heard_at=now, read_at=began, beaten_to_it=waits)
        return replace(self, read_at=began)

    def opened(self, found: Found, now: Moment) -> Lease:
        """The backend has become the writer, and found this heartbeat."""
        over = found is None or (found == self.heard and self._silent(now))
        wait_s = 0.0 if over else self.terms.silence_s
        return replace(self, writes=True, beat_at=None, acts_from_s=now.monotonic_s + wait_s)

    def beaten(self, sent: Moment) -> Lease:
        """A heartbeat that was sent then is acknowledged."""
        return replace(self, beat_at=sent)

    def lost(self) -> Lease:
        """Another backend has become the writer, or this one gives it up."""
        return Lease(self.terms, beaten_to_it=True)

    def duty(self, now: Moment) -> Duty:
        """What to do now."""
        return self._writers_duty(now) if self.writes else self._standbys_duty(now)

    def beat_due(self, now: Moment) -> bool:
        """Whether the writer has to send a heartbeat."""
        late = self.beat_at is None or now.since_at_least_s(self.beat_at) >= self.terms.beat_s
        return self.writes and late

    def _writers_duty(self, now: Moment) -> Duty:
        if self.beat_at is None or now.monotonic_s < self.acts_from_s:
            return Duty.WAIT
        fresh = now.since_at_least_s(self.beat_at) <= self.terms.act_within_s
        return Duty.ACT if fresh else Duty.PAUSE

    def _standbys_duty(self, now: Moment) -> Duty:
        if isinstance(self.heard, Unreadable):
            return Duty.BLOCKED
        if self.read_at is None or now.since_s(self.read_at) > self.terms.gap_s:
            return Duty.FOLLOW
        nobody = self.heard is None and not self.beaten_to_it
        return Duty.TAKE_OVER if nobody or self._silent(now) else Duty.FOLLOW

    def _silent(self, now: Moment) -> bool:
        """Whether the heartbeat that was heard is surely older than a writer may act."""
        if self.heard_at is None or self.read_at is None:
            return False
        certain = min(self.read_at.monotonic_s, now.monotonic_s) - self.heard_at.monotonic_s
        return certain >= self.terms.silence_s + self.terms.jitter_s


# --- the keeper


@dataclass(frozen=True, slots=True)
class Self:
    """What a backend says of itself in its heartbeats."""

    backend: str
    host: str
    address: str
    started_ms: int

    def heartbeat(self, now: Moment) -> Heartbeat:
        """Of this moment."""
        return Heartbeat(self.backend, self.host, self.address, self.started_ms, now.wall_ms)


class Keeper:
    """Keeps one backend's lease: follows, takes over, sends heartbeats, and stops when fenced.

    `run` is a task of the backend. Whoever changes the cluster appends its intent by `append`,
    and calls `require` directly before each effect.
    """

    def __init__(
        self,
        journal: Journal,
        me: Self,
        clock: Clock,
        changed: Callable[[Duty, JournalState], None] = lambda duty, state: None,
        terms: Terms | None = None,
    ) -> None:
        """`changed` is told of every new duty and state, on the event loop."""
        self._journal = journal
        self._me = me
        self._clock = clock
        self._changed = changed
        self._lease = Lease(terms or Terms())
        self._said: tuple[Duty, JournalState] | None = None

    @property
    def duty(self) -> Duty:
        """What this backend has to do now; to be asked anew before each effect."""
        return self._lease.duty(Moment.of(self._clock))

    @property
    def acting(self) -> Found:
        """Who acts, as far as the journal says."""
        return self._journal.state.heartbeat

    def require(self) -> None:
        """Return only where this backend may change the cluster now.

        Raises:
            NotActing: it may not.
        """
        duty = self.duty
        if duty is not Duty.ACT:
            raise NotActing(_why_not(duty, self.acting, self._me.backend))

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """As `Journal.append`, for the backend that acts.

        Raises:
            NotActing: this backend may not act; nothing was written.
            BadInput, Conflict, JournalFenced, JournalUnavailable: as `Journal.append`.
        """
        self.require()
        try:
            await self._journal.append(entries, replacing=replacing)
        except JournalFenced:
            self._lose()
            raise
        self._tell()

    async def run(self) -> None:
        """Follow, take over and act by turns, until cancelled.

        Raises:
            JournalUnusable, NotAuthorized, WrongCluster: as `Journal.open`; an operator must help.
        """
        while True:
            await self._follow()
            if await self._take_over():
                await self._beat_until_lost()

    async def release(self) -> None:
        """Give up the right to act, so that another backend need not wait; after `run` ended."""
        wrote, self._lease = self._lease.writes, self._lease.lost()
        if wrote:
            try:
                await self._journal.append({BACKEND_KEY: None})
            except (JournalFenced, JournalUnavailable, Conflict) as failed:
                log.warning("The journal was not released, others wait a while: %s", failed)

    async def _follow(self) -> None:
        began = Moment.of(self._clock)
        async with aclosing(self._journal.follow()) as states:
            async for state in states:
                now = Moment.of(self._clock)
                self._lease, began = self._lease.read(state.heartbeat, began, now), now
                self._tell()
                if self.duty is Duty.TAKE_OVER:
                    return

    async def _take_over(self) -> bool:
        try:
            state = await self._journal.open()
        except (JournalUnavailable, JournalFenced) as failed:
            log.info("Could not take over: %s", failed)
            self._lose()
            await self._clock.wait_s(RETRY_S)
            return False
        self._lease = self._lease.opened(state.heartbeat, Moment.of(self._clock))
        self._tell()
        return True

    async def _beat_until_lost(self) -> None:
        while self._lease.writes:
            if self._lease.beat_due(Moment.of(self._clock)):
                await self._beat()
            self._tell()
            await self._clock.wait_s(TICK_S)

    async def _beat(self) -> None:
        sent = Moment.of(self._clock)
        try:
            await self._journal.append({BACKEND_KEY: self._me.heartbeat(sent).body()})
        except JournalUnavailable as failed:
            log.info("A heartbeat was not acknowledged: %s", failed)
        except (JournalFenced, Conflict) as failed:
            log.warning("This backend acts no more: %s", failed)
            self._lose()
        else:
            if self._lease.writes:
                self._lease = self._lease.beaten(sent)

    def _lose(self) -> None:
        self._lease = self._lease.lost()
        self._tell()

    def _tell(self) -> None:
        said = self.duty, self._journal.state
        if self._said is None or said[0] is not self._said[0] or said[1] is not self._said[1]:
            self._said = said
            self._changed(*said)


def _why_not(duty: Duty, acting: Found, me: str) -> str:
    if duty in (Duty.WAIT, Duty.PAUSE):
        return "It is not certain that no other backend acts. Nothing was changed; try again."
    if isinstance(acting, Unreadable):
        return f"Who acts cannot be read in the journal: {acting.detail} Nothing was changed."
    if acting is None or acting.backend == me:
        return "No backend acts yet. Nothing was changed; try again."
    return f"{acting.backend} on {acting.host} acts, at {acting.address}. Nothing was changed here."
