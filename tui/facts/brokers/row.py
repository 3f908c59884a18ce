"""What is known of each broker: what it leads, holds, sends and receives, and its throttle."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kshunt.backend.domain.replicas.snapshot import BrokerStatus
from kshunt.backend.domain.text.formatting import duration_text
from kshunt.backend.domain.throttles.configs import BrokerThrottle
from kshunt.tui.facts.brokers.disks import Disk, sizes_of, whole_disk
from kshunt.tui.facts.brokers.loads import BrokerLoadColumns, loads_of
from kshunt.tui.facts.brokers.pending_transfers import PendingTransfers, pending_transfers_of
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.text.fitting import printable

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker."""

    id: int
    rack: str
    address: str
    state: str
    """`up`, `stale 12s`, or `down`."""
    reason: str
    """Why it is not up, without what would drive a terminal."""
    leaders: int
    preferred: int
    """Partitions whose preferred replica it is."""
    replicas: int
    moving_in: int
    """Replicas that are being added to it."""
    moving_out: int
    """Partitions that it leads and that somebody else receives."""
    lag_in_bytes: int
    """What its own replicas still lack."""
    lag_out_bytes: int
    """What replicas that it feeds still lack."""
    rate_in_bytes_per_s: float
    rate_out_bytes_per_s: float
    throttled_in_bytes_per_s: float
    """What counts against its follower rate."""
    throttled_out_bytes_per_s: float
    """What counts against its leader rate."""
    throttle: BrokerThrottle | None
    """None where it could not be read, which is not "no throttle"."""
    disk: Disk
    """All of its directories together."""
    offline_dirs: int
    controller: bool

    def limit(self, leader: bool) -> float | None:
        """Its leader or follower rate; NaN where it could not be read, None where none is set."""
        if self.throttle is None:
            return math.nan
        rate = self.throttle.rate
        value = rate.leader_bytes_per_s if leader else rate.follower_bytes_per_s
        return None if value is None else float(value)

    def used_share(self, leader: bool) -> float | None:
        """How much of that rate is used; NaN where it is not known, None where none is set."""
        limit = self.limit(leader)
        if limit is None:
            return None
        used = self.throttled_out_bytes_per_s if leader else self.throttled_in_bytes_per_s
        return used / limit if limit else math.nan


def broker_rows(facts: Facts, operations: Iterable[Operation] = ()) -> dict[int, BrokerRow]:
    """Every broker of the snapshot by its id, the lowest first."""
    ids = sorted(facts.snapshot.brokers)
    loads, queued = loads_of(facts, ids), pending_transfers_of(facts, operations)
    return {id: _row(facts, place, loads, queued) for place, id in enumerate(ids)}


def _row(facts: Facts, place: int, loads: BrokerLoadColumns, queued: PendingTransfers) -> BrokerRow:
    id = int(loads.ids[place])
    status = facts.snapshot.brokers[id]
    state, reason = state_of(status, facts.broker_age_s(id))
    disks = sizes_of(facts, id)
    lag_in = int(loads.lag_in_bytes[place])
    unknown = int(loads.lag_in_unknown[place])
    return BrokerRow(
        id=id,
        rack=status.broker.rack or "",
        address=f"{status.broker.host}:{status.broker.port}" if status.broker.host else "",
        state=state,
        reason=printable(reason),
        leaders=int(loads.leaders[place]),
        preferred=int(loads.preferred[place]),
        replicas=int(loads.replicas[place]),
        moving_in=int(loads.moving_in[place]),
        moving_out=int(loads.moving_out[place]),
        lag_in_bytes=lag_in,
        lag_out_bytes=int(loads.lag_out_bytes[place]),
        rate_in_bytes_per_s=float(loads.rate_in_bytes_per_s[place]),
        rate_out_bytes_per_s=float(loads.rate_out_bytes_per_s[place]),
        throttled_in_bytes_per_s=float(loads.throttled_in_bytes_per_s[place]),
        throttled_out_bytes_per_s=float(loads.throttled_out_bytes_per_s[place]),
        throttle=facts.snapshot.throttles.rates.get(id),
        disk=whole_disk(disks, id, max(lag_in, 0), unknown, queued),
        offline_dirs=sum(1 for disk in disks if disk.error),
        controller=facts.snapshot.controller == id,
    )


def state_of(status: BrokerStatus, age_s: float) -> tuple[str, str]:
    """A broker's state in a word or two, and the reason where it is not up."""
    if not status.stale:
        return "up", status.problem
    if not status.registered:
        return "down", status.problem
    if status.answered_ms is None:
        return "silent", status.problem or "it has not answered yet"
    return f"stale {duration_text(age_s)}", status.problem or "it does not answer"
