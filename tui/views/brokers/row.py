"""What the brokers view knows of one broker."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kshunt.backend.domain.throttles.configs import BrokerThrottle
from kshunt.tui.views.brokers.disks import Disk


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker."""

    id: int
    rack: str
    address: str
    state: str
    """`up`, `stale 12s`, or `down`."""
    reason: str
    """Why it is not up."""
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
