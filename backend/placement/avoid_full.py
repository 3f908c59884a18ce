"""AvoidFullBrokers: brokers near the limit of their disks or their throughput get nothing new.

Goals
    1. Let nothing be placed where a disk is about to be full or a broker carries all that it can
       (KIP-660, Motivation: "avoid putting new partitions on them").
    2. Else spread evenly, as `goals` does; between equals take the broker whose disks are emptier.

Constraints
    Those of `goals`, among the brokers under their limits, which come before racks. Nobody knows
    how large a new partition will grow, so the placer adds nothing for it: the limits have to
    leave room. A broker of which nothing is known is not avoided, because nothing speaks against
    it; between equals it comes last.

Algorithm
    A broker is full if its disks are used to `kshunt.placer.disk.limit` (0.85) or more. It is also
    full if what goes in and out of it is `kshunt.placer.throughput.limit.bytes` a second (no limit)
    or more. Choose by `goals` among the others. If those are fewer than the replicas of a
    partition, or all fenced, refuse and name each full broker with its figure. With
    `kshunt.placer.full.strict=false` choose from all instead, where a full one comes after the
    others of its rack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from kshunt.backend.domain.cluster.broker_loads import BrokerLoad, BrokerLoads
from kshunt.backend.placement.goals import AvoidingPlacer
from kshunt.backend.placement.options import flag, rate_bytes_per_s, share
from kshunt.backend.placement.placer import UsableBroker

DISK_LIMIT: Final = "kshunt.placer.disk.limit"
THROUGHPUT_LIMIT: Final = "kshunt.placer.throughput.limit.bytes"
FULL_STRICT: Final = "kshunt.placer.full.strict"
DISK_LIMIT_DEFAULT: Final = 0.85


class AvoidFullBrokers(AvoidingPlacer):
    """Brokers near the limit of their disks or throughput are kept off."""

    def __init__(self, random: Random | None = None) -> None:
        """See `GoalPlacer`."""
        super().__init__(random)
        self._loads = BrokerLoads()
        self._disk_limit = DISK_LIMIT_DEFAULT
        self._limit_bytes_per_s: float | None = None

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the limits, and whether it is strict about them.

        Raises:
            ConfigError: a limit is no share or no rate, or strict is neither true nor false.
        """
        self._disk_limit = share(configs, DISK_LIMIT, DISK_LIMIT_DEFAULT)
        self._limit_bytes_per_s = rate_bytes_per_s(configs, THROUGHPUT_LIMIT)
        self.strict = flag(configs, FULL_STRICT, default=True)

    def observe(self, view: BrokerLoads) -> None:
        """Take how full the brokers are (`ClusterAware`)."""
        self._loads = view

    def avoided(self, brokers: Sequence[UsableBroker]) -> Mapping[int, str]:
        """See `AvoidingPlacer.avoided`."""
        reasons = {one.id: self._full(self._loads.of(one.id)) for one in brokers}
        return {broker: reason for broker, reason in reasons.items() if reason}

    def _full(self, load: BrokerLoad) -> str:
        """Why the broker is full; empty if it is not, as far as is known."""
        used, rate, limit = load.disk_share, load.throughput_bytes_per_s, self._limit_bytes_per_s
        if used is not None and used >= self._disk_limit:
            return f"has {used:.0%} of its disks used (limit {self._disk_limit:.0%})"
        if rate is not None and limit is not None and rate >= limit:
            return f"carries {rate:.0f} B/s (limit {limit:.0f} B/s)"
        return ""

    def cost(self, broker: int) -> float:
        """See `AvoidingPlacer.cost`: how full the disks are."""
        used = self._loads.of(broker).disk_share
        return self._disk_limit if used is None else used
