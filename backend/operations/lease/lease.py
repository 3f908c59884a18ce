"""The lease: who of several backends acts.

Goals
    One backend of a cluster acts, and no other. When it dies another takes over within ten seconds;
    when it only slept, it stops before its next effect, and can write nothing more. No backend
    needs to know of another in advance.
Constraints
    There is no common clock: what is compared are times of one process. `Lease` decides on
    values; `kshunt.backend.operations.lease.lease_manager` asks the clock and the journal.
Algorithm
    The journal is the arbiter: to become its writer is to fence the one before (Kafka's
    transactional producers, KIP-98). The writer puts a heartbeat into it every `LeaseTimes.beat_s`,
    and acts only while the last one that was acknowledged was *sent* at most `act_within_s` ago.
    A stand-by measures from when it *saw* the last heartbeat, which is later, and takes over
    after `silence_s`, which is longer. Silence counts only while the stand-by surely reads all
    there is; after a gap in its reading it begins again. One that finds, as it takes over, a
    heartbeat that it had not seen waits as long as the writer before could still act. The loser
    gives the winner as long to send its first heartbeat. A backend with no need to act takes over
    from no other: a backend that only looks leaves no trace in a cluster.
    (Gray and Cheriton 1989, "Leases", with fencing for what a lease alone cannot stop.)

What is left: an effect that was sent before a process was stopped may arrive later. Its intent is
in the journal, so the backend that takes over finds it and finishes or undoes it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kshunt.backend.clock import Clock
from kshunt.backend.operations.journal.entries import Heartbeat, Unreadable


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """A time of one process, on both of its clocks."""

    monotonic_s: float
    wall_ms: int

    @classmethod
    def of(cls, clock: Clock) -> ProcessTime:
        """Now."""
        return cls(clock.monotonic_s(), clock.now_ms())

    def since_s(self, earlier: ProcessTime) -> float:
        """Seconds since another moment, by the monotonic clock."""
        return self.monotonic_s - earlier.monotonic_s

    def since_at_least_s(self, earlier: ProcessTime) -> float:
        """The same by whichever clock says more: one may stand still while a machine sleeps."""
        return max(self.since_s(earlier), (self.wall_ms - earlier.wall_ms) / 1000)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
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
            raise ValueError(f"two backends could be active at the same time with {self}")


class LeaseState(enum.StrEnum):
    """What a backend has to do."""

    FOLLOW = "follow"
    """Read, and show: another one acts, or may."""
    IDLE = "idle"
    """As FOLLOW; nobody acts, and nothing has to be done."""
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


ActiveEntry: TypeAlias = Heartbeat | Unreadable | None
"""What the journal says of who acts."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One backend's right to act; every method returns the lease that follows."""

    terms: LeaseTimes = field(default_factory=LeaseTimes)
    writes: bool = False
    wanted: bool = True
    """False where this backend has nothing to do; it then takes over from nobody."""
    heard: ActiveEntry = None
    heard_at: ProcessTime | None = None
    """When `heard` was seen first, or the waiting began again."""
    heard_live: bool = False
    """Whether `heard` came while this read: an old one may be of a backend that is long gone."""
    read_at: ProcessTime | None = None
    """When the last complete reading of the journal began."""
    beat_at: ProcessTime | None = None
    """When the last acknowledged heartbeat was sent."""
    active_from_s: float = 0.0
    """By the monotonic clock: not before this."""
    beaten_to_it: bool = False
    """True after a loss until a heartbeat is heard. The winner has perhaps not sent one yet: were
    it fenced for that, two backends could fence each other for ever."""

    def read(self, found: ActiveEntry, began: ProcessTime, now: ProcessTime) -> Lease:
        """The stand-by has read to the end that the journal had at `began`, or later.

        So a heartbeat that is new was sent before `now`. One that was acknowledged shortly before
        `began` may be missing, for Kafka acknowledges a transaction before its readers see it:
        `opened` finds it.
        """
        gap = self.read_at is None or began.since_s(self.read_at) > self.terms.gap_s
        if not gap and found == self.heard and self.heard_at is not None:
            return replace(self, read_at=began)
        return replace(
            self,
            heard=found,
            heard_at=now,
            heard_live=not gap and isinstance(found, Heartbeat),
            read_at=began,
            beaten_to_it=self.beaten_to_it and found is None,
        )

    def opened(self, found: ActiveEntry, now: ProcessTime) -> Lease:
        """The backend has become the writer, and found this heartbeat."""
        over = found is None or (found == self.heard and self._silent(now))
        wait_s = 0.0 if over else self.terms.silence_s
        return replace(self, writes=True, beat_at=None, active_from_s=now.monotonic_s + wait_s)

    def beaten(self, sent: ProcessTime) -> Lease:
        """A heartbeat that was sent then is acknowledged."""
        return replace(self, beat_at=sent)

    def lost(self) -> Lease:
        """Another backend has become the writer, or this one gives it up."""
        return Lease(self.terms, wanted=self.wanted, beaten_to_it=True)

    def actor(self, now: ProcessTime) -> Heartbeat | None:
        """The other backend that is known to act, or to have acted a moment ago."""
        heard = self.heard
        if self.writes or not isinstance(heard, Heartbeat) or not self.heard_live:
            return None
        return None if self._silent(now) else heard

    def read_since(self, moment_s: float) -> bool:
        """Whether the last reading began after a moment: what was written before is in it."""
        return self.read_at is not None and self.read_at.monotonic_s >= moment_s

    def patience_s(self, now: ProcessTime) -> float:
        """For how much longer silence would make this backend take over."""
        wait_s = self.terms.silence_s + self.terms.jitter_s
        return wait_s if self.heard_at is None else max(0.0, wait_s - now.since_s(self.heard_at))

    def duty(self, now: ProcessTime) -> LeaseState:
        """What to do now."""
        return self._writers_duty(now) if self.writes else self._standbys_duty(now)

    def beat_due(self, now: ProcessTime) -> bool:
        """Whether the writer has to send a heartbeat."""
        late = self.beat_at is None or now.since_at_least_s(self.beat_at) >= self.terms.beat_s
        return self.writes and late

    def _writers_duty(self, now: ProcessTime) -> LeaseState:
        if self.beat_at is None or now.monotonic_s < self.active_from_s:
            return LeaseState.WAIT
        fresh = now.since_at_least_s(self.beat_at) <= self.terms.act_within_s
        return LeaseState.ACT if fresh else LeaseState.PAUSE

    def _standbys_duty(self, now: ProcessTime) -> LeaseState:
        if isinstance(self.heard, Unreadable):
            return LeaseState.BLOCKED
        if self.read_at is None or now.since_s(self.read_at) > self.terms.gap_s:
            return LeaseState.FOLLOW
        nobody = self.heard is None and not self.beaten_to_it
        if not nobody and not self._silent(now):
            return LeaseState.FOLLOW
        return LeaseState.TAKE_OVER if self.wanted else LeaseState.IDLE

    def _silent(self, now: ProcessTime) -> bool:
        """Whether the heartbeat that was heard is surely older than a writer may act."""
        if self.heard_at is None or self.read_at is None:
            return False
        certain = min(self.read_at.monotonic_s, now.monotonic_s) - self.heard_at.monotonic_s
        return certain >= self.terms.silence_s + self.terms.jitter_s
