"""The lease: at no time do two backends act, whatever is late and whichever backend is stopped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.operations.journal.entries import BACKEND_KEY, Heartbeat, Unreadable
from kshunt.backend.operations.lease.lease import Lease, LeaseState, LeaseTimes, ProcessTime
from tests.support.runs.examples import many


def beat(backend: str, number: int = 0) -> Heartbeat:
    return Heartbeat(backend, "host", f"unix:/run/{backend}.sock", 1, number)


def at(seconds: float) -> ProcessTime:
    return ProcessTime(seconds, round(seconds * 1000))


def followed(found: Any, start_s: float, end_s: float) -> Lease:
    """A stand-by that read this all the time."""
    lease, now = Lease(), start_s
    while now <= end_s:
        lease, now = lease.read(found, at(now), at(now)), now + 0.5
    return lease


def test_a_stand_by_takes_over_after_six_seconds_of_silence() -> None:
    assert followed(beat("a"), 0, 5.5).duty(at(5.5)) is LeaseState.FOLLOW
    assert followed(beat("a"), 0, 6).duty(at(6)) is LeaseState.TAKE_OVER
    moved = followed(beat("a"), 0, 5).read(beat("a", 1), at(5.5), at(5.5))
    assert moved.duty(at(6)) is LeaseState.FOLLOW


def test_nobody_waits_for_a_backend_that_ended_in_order() -> None:
    assert Lease().duty(at(0)) is LeaseState.FOLLOW
    assert Lease().read(None, at(0), at(0.1)).duty(at(0.1)) is LeaseState.TAKE_OVER


def test_who_lost_gives_the_winner_time() -> None:
    lease = Lease().read(None, at(0), at(0)).opened(None, at(0)).lost()
    for tenth in range(10, 70, 5):
        lease = lease.read(None, at(tenth / 10), at(tenth / 10))
        assert lease.duty(at(tenth / 10)) is LeaseState.FOLLOW
    assert lease.read(None, at(7), at(7)).duty(at(7)) is LeaseState.TAKE_OVER
    heard = lease.read(beat("b"), at(7), at(7)).read(None, at(8), at(8))
    assert heard.duty(at(8)) is LeaseState.TAKE_OVER


def test_a_stand_by_that_could_not_read_waits_again() -> None:
    late = followed(beat("a"), 0, 3).read(beat("a"), at(7), at(7))
    assert late.duty(at(7)) is LeaseState.FOLLOW
    assert followed(beat("a"), 0, 6).duty(at(9)) is LeaseState.FOLLOW


def test_silence_begins_when_a_heartbeat_was_surely_sent() -> None:
    lease = followed(beat("a"), 0, 3).read(beat("a", 1), at(3.5), at(5.5))
    for tenth in range(55, 115, 5):
        lease = lease.read(beat("a", 1), at(tenth / 10), at(tenth / 10))
        assert lease.duty(at(tenth / 10)) is LeaseState.FOLLOW
    assert lease.read(beat("a", 1), at(11.5), at(11.5)).duty(at(11.5)) is LeaseState.TAKE_OVER


def test_a_stand_by_does_not_take_over_from_one_it_cannot_read() -> None:
    newer = Unreadable(BACKEND_KEY, UnreadableReason.NEWER, "It is newer.")
    assert followed(newer, 0, 60).duty(at(60)) is LeaseState.BLOCKED


def test_a_writer_acts_while_its_last_acknowledged_heartbeat_is_fresh() -> None:
    lease = followed(beat("b"), 0, 6).opened(beat("b"), at(6.1))
    assert lease.duty(at(6.1)) is LeaseState.WAIT
    assert lease.beat_due(at(6.1))
    lease = lease.beaten(at(6.1))
    assert lease.duty(at(6.2)) is LeaseState.ACT
    assert (lease.beat_due(at(8)), lease.beat_due(at(8.2))) == (False, True)
    assert lease.duty(at(11.1)) is LeaseState.ACT
    assert lease.duty(at(11.2)) is LeaseState.PAUSE
    assert lease.beaten(at(12)).duty(at(12)) is LeaseState.ACT
    assert lease.lost().duty(at(6.2)) is LeaseState.FOLLOW


def test_a_machine_that_slept_does_not_act() -> None:
    lease = Lease().read(None, at(0), at(0)).opened(None, at(0)).beaten(at(0))
    assert lease.duty(ProcessTime(1.0, 3_600_000)) is LeaseState.PAUSE


def test_a_writer_waits_out_a_heartbeat_that_it_had_not_seen() -> None:
    lease = followed(beat("b"), 0, 6).opened(beat("c"), at(6)).beaten(at(6))
    assert lease.duty(at(8)) is LeaseState.WAIT
    assert lease.beaten(at(11)).duty(at(12)) is LeaseState.ACT


def test_terms_that_would_let_two_act_are_refused() -> None:
    with pytest.raises(ValueError, match="two backends"):
        LeaseTimes(act_within_s=6.0, silence_s=6.0)


class SimulatedLog:
    """What a journal knows that a lease depends on."""

    def __init__(self) -> None:
        self.epoch = 0
        self.heartbeat: Heartbeat | None = None


class Simulated:
    """A backend, one small step at a time; between any two of them it may be stopped."""

    def __init__(self, name: str, log: SimulatedLog) -> None:
        self.name = name
        self.log = log
        self.lease = Lease()
        self._epoch = 0
        self._next = self._begin
        self._began = self._sent = at(0)
        self._found: Heartbeat | None = None
        self._acknowledged = False

    def step(self, now: ProcessTime) -> None:
        """Do what comes next."""
        self._next(now)

    @property
    def sending(self) -> bool:
        """Whether a heartbeat is on its way; it arrives though its sender is stopped."""
        return self._next == self._commit

    def _begin(self, now: ProcessTime) -> None:
        self._began, self._next = now, self._look

    def _look(self, now: ProcessTime) -> None:
        self._found, self._next = self.log.heartbeat, self._read

    def _read(self, now: ProcessTime) -> None:
        self.lease = self.lease.read(self._found, self._began, now)
        over = self.lease.duty(now) is LeaseState.TAKE_OVER
        self._next = self._fence if over else self._begin

    def _fence(self, now: ProcessTime) -> None:
        self.log.epoch += 1
        self._epoch, self._found = self.log.epoch, self.log.heartbeat
        self._next = self._open

    def _open(self, now: ProcessTime) -> None:
        self.lease, self._next = self.lease.opened(self._found, now), self._send

    def _send(self, now: ProcessTime) -> None:
        if self.lease.beat_due(now):
            self._sent, self._next = now, self._commit

    def _commit(self, now: ProcessTime) -> None:
        self._acknowledged = self._epoch == self.log.epoch
        if self._acknowledged:
            self.log.heartbeat = beat(self.name, self._sent.wall_ms)
        self._next = self._hear

    def _hear(self, now: ProcessTime) -> None:
        if self._acknowledged:
            self.lease, self._next = self.lease.beaten(self._sent), self._send
        else:
            self.lease, self._next = self.lease.lost(), self._begin


STEP_S = 0.2
stops = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60)), max_size=8)


def history_of_active(stopped: list[list[tuple[int, int]]], steps: int) -> list[str]:
    """Three backends, each stopped at some steps for some steps; who acts after each step.

    Two that act at the same time are an error.
    """
    log = SimulatedLog()
    backends = [Simulated(name, log) for name in "abc"]
    history = []
    for step in range(steps):
        now = at(step * STEP_S)
        for one, pauses in zip(backends, stopped, strict=True):
            if one.sending or not any(start <= step < start + long for start, long in pauses):
                one.step(now)
            active = [one.name for one in backends if one.lease.duty(now) is LeaseState.ACT]
            assert len(active) <= 1, f"{active} act at {now.monotonic_s}"
        history += active
    return history


@given(st.lists(stops, min_size=3, max_size=3))
@settings(max_examples=many(120), deadline=None)
def test_at_no_time_do_two_backends_act(stopped: list[list[tuple[int, int]]]) -> None:
    history_of_active(stopped, 300)


def test_the_first_acts_and_when_it_stops_the_next_one_does() -> None:
    history = history_of_active([[(100, 200)], [(0, 10)], [(0, 20)]], 300)
    assert set(history) == {"a", "b"}
    assert history == sorted(history)
    assert history.count("b") > (200 - 10 / STEP_S) * 0.9
