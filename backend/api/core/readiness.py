"""Whether a backend can do its work: the conditions for it, each a check in words.

The words name no broker and no address, because a client needs no credential to ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.forwarding.peers import unreachable
from kshunt.backend.api.schema.health import Check
from kshunt.backend.operations.lease.lease import LeaseState

LATE: Final = 3.0
"""This many sweeps may pass without a newer look at the cluster."""


def checked(backend: Backend) -> Iterator[Check]:
    """The conditions under which operators can look."""
    snapshot, now_ms = backend.hub.latest, backend.clock.now_ms()
    if backend.stopping.is_set():
        yield Check("stopping", False, "it was told to stop")
    if snapshot is None:
        yield Check("cluster", False, "it has not answered yet")
        yield Check("samples", False, "there are none yet")
    else:
        silent = sum(status.stale for status in snapshot.brokers.values())
        there = len(snapshot.brokers)
        words = f"{there - silent} of {there} brokers answer"
        yield Check("cluster", silent < there, words)
        age_s = (now_ms - snapshot.taken_ms) / 1000
        # A clock that was set back makes an old look one of a time to come.
        fresh = abs(age_s) <= LATE * backend.settings.sampler.sweep_s
        yield Check("samples", fresh, f"the newest is {age_s:.0f} s old")


def checked_to_change(backend: Backend) -> Iterator[Check]:
    """The further conditions for a change."""
    duty, actor = backend.membership.duty, backend.membership.actor
    known = duty is not LeaseState.FOLLOW or actor is not None
    works = known and duty not in (LeaseState.BLOCKED, LeaseState.PAUSE)
    yield Check("journal", works, f"duty: {duty}")
    if duty is LeaseState.FOLLOW and actor is not None:
        passes_on = not unreachable(backend.membership.me, actor, backend.peers)
        words = "another backend is active, and changes "
        words += "are forwarded to it" if passes_on else "cannot be forwarded to it from here"
        yield Check("changes", passes_on, words)
    else:
        ok, words = _CHANGES[duty]
        yield Check("changes", ok, words)


_CHANGES: Final[Mapping[LeaseState, tuple[bool, str]]] = {
    LeaseState.ACT: (True, "this backend makes them"),
    LeaseState.IDLE: (
        True,
        "no backend is active; this one becomes active when a change is requested",
    ),
    LeaseState.TAKE_OVER: (True, "no backend is active; this one is about to become active"),
    LeaseState.WAIT: (False, "this backend waits until no other one can be active"),
    LeaseState.PAUSE: (
        False,
        "rejected: the journal has not confirmed that this backend is still active",
    ),
    LeaseState.BLOCKED: (
        False,
        "rejected: the journal cannot be used; see the backend's log",
    ),
    LeaseState.FOLLOW: (
        False,
        "rejected: the journal has not been read, so the active backend is unknown",
    ),
}


def answers(backend: Backend) -> bool | None:
    """Whether the cluster is seen from here at this moment; None before the first look."""
    if backend.hub.latest is None:
        return None
    found = {check.name: check.ok for check in checked(backend)}
    return found["cluster"] and found["samples"]
