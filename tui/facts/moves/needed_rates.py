"""The rates under which everything arrives that a throttle keeps from it, by the diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING
from kshunt.backend.domain.replicas.resource_rates import RATE_KEYS
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.tui.facts.pending_rates import rate_up

OF_MOVES: Final = (Cause.THROTTLE_FLOOR, Cause.THROTTLE_TOO_LOW)


def needed_rates(snapshot: Snapshot) -> dict[int, ThrottledRate]:
    """The rates of the brokers that need others; in three figures, and never less than needed."""
    needed: dict[tuple[int, str], int] = {}
    for broker, key, bytes_per_s in _needs(snapshot):
        needed[broker, key] = max(needed.get((broker, key), 0), rate_up(bytes_per_s))
    found: dict[int, ThrottledRate] = {}
    for (broker, key), bytes_per_s in sorted(needed.items()):
        present = snapshot.throttles.rates.get(broker)
        if present is None:
            continue
        rate = found.get(broker, present.rate)
        if (raised := rate.raised(key, bytes_per_s)) != rate:
            found[broker] = raised
    return found


def rounded_up(rates: Mapping[int, ThrottledRate], snapshot: Snapshot) -> dict[int, ThrottledRate]:
    """The same in three figures, and never less; a side that stays as it is set stays exact."""
    set_now = {broker: one.rate for broker, one in snapshot.throttles.rates.items()}
    return {
        broker: ThrottledRate(
            _up(rate.leader_bytes_per_s, set_now[broker].leader_bytes_per_s),
            _up(rate.follower_bytes_per_s, set_now[broker].follower_bytes_per_s),
        )
        for broker, rate in rates.items()
    }


def _up(bytes_per_s: int | None, set_now: int | None) -> int | None:
    return bytes_per_s if bytes_per_s in (None, set_now) else rate_up(bytes_per_s)


def _needs(snapshot: Snapshot) -> Iterator[tuple[int, str, int]]:
    """Broker, side and rate: of what is stuck, and of what never arrives."""
    for stuck in snapshot.explained.values():
        if stuck.cause in OF_MOVES:
            for one in stuck.rates:
                yield one.broker, one.key, one.needs_bytes_per_s
    end = snapshot.expected_ends.get(EVERYTHING)
    shortage = None if end is None else end.shortage
    if shortage is None or shortage.needs_bytes_per_s is None:
        return
    if (key := RATE_KEYS.get(shortage.resource.kind)) is not None:
        yield shortage.resource.brokers[0], key, shortage.needs_bytes_per_s
