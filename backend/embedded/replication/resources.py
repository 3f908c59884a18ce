"""What limits replication: networks, disks, throttles, links; all of them rates in bytes/s.

Every limit is a resource with a number, so that flows can name what they pass through. Resources
are laid out in blocks. First come network in, network out, leader throttle, follower throttle and
log directory throttle of every broker. Then come the disks, the slowed links, and one without
limit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.embedded.replication.columns import BrokerState
from kshunt.backend.embedded.replication.max_min_fair import Rates

Resources = NDArray[np.int32]
_BLOCKS = 5


class ResourceTable:
    """Brokers, log directories and links by number."""

    def __init__(self) -> None:
        self.state = np.zeros(0, np.uint8)
        """A `BrokerState` each. Shape (brokers,)."""
        self._rates = np.zeros((_BLOCKS, 0))
        """Shape (5, brokers): in the order of the blocks."""
        self.dir_broker = np.zeros(0, np.int32)
        """Shape (directories,)."""
        self.dir_rate = np.zeros(0)
        self.dir_online = np.zeros(0, np.bool_)
        self._links: dict[tuple[int, int], float] = {}

    @property
    def brokers(self) -> int:
        """How many there are."""
        return len(self.state)

    def add_broker(self, in_rate: float, out_rate: float) -> int:
        """A broker with its network's rates; returns its number."""
        column = np.array([in_rate, out_rate, math.inf, math.inf, math.inf])[:, None]
        self._rates = np.concatenate([self._rates, column], axis=1)
        self.state = np.append(self.state, np.uint8(BrokerState.UP))
        return self.brokers - 1

    def add_dir(self, broker: int, rate: float) -> int:
        """A log directory with its disk's rate, reads and writes together; returns its number."""
        self.dir_broker = np.append(self.dir_broker, np.int32(broker))
        self.dir_rate = np.append(self.dir_rate, rate)
        self.dir_online = np.append(self.dir_online, True)
        return len(self.dir_rate) - 1

    def set_network(self, broker: int, in_rate: float, out_rate: float) -> None:
        """Change a broker's network."""
        self._rates[0, broker], self._rates[1, broker] = in_rate, out_rate

    def set_throttles(self, broker: int, leader: float, follower: float, log_dirs: float) -> None:
        """Set a broker's three replication throttles; `math.inf` is none."""
        self._rates[2:, broker] = leader, follower, log_dirs

    def set_link(self, source: int, target: int, rate: float) -> None:
        """Limit what goes from one broker to another; `math.inf` frees it."""
        if math.isinf(rate):
            self._links.pop((source, target), None)
        else:
            self._links[source, target] = rate

    @property
    def nothing(self) -> int:
        """The resource without limit."""
        return _BLOCKS * self.brokers + len(self.dir_rate) + len(self._links)

    def capacity(self) -> Rates:
        """Every resource's rate. Shape (resources,)."""
        links = [self._links[key] for key in sorted(self._links)]
        return np.concatenate([self._rates.ravel(), self.dir_rate, links, [math.inf]])

    def network_in(self, broker: NDArray[np.int32]) -> Resources:
        """The resource that a broker's incoming traffic passes through."""
        return broker

    def network_out(self, broker: NDArray[np.int32]) -> Resources:
        """The resource that a broker's outgoing traffic passes through."""
        return broker + np.int32(self.brokers)

    def leader_throttle(self, broker: NDArray[np.int32]) -> Resources:
        """leader.replication.throttled.rate of a broker."""
        return broker + np.int32(2 * self.brokers)

    def follower_throttle(self, broker: NDArray[np.int32]) -> Resources:
        """follower.replication.throttled.rate of a broker."""
        return broker + np.int32(3 * self.brokers)

    def log_dir_throttle(self, broker: NDArray[np.int32]) -> Resources:
        """replica.alter.log.dirs.io.max.bytes.per.second of a broker."""
        return broker + np.int32(4 * self.brokers)

    def disk(self, log_dir: NDArray[np.int32]) -> Resources:
        """A directory's disk; an unknown directory limits nothing."""
        known = log_dir + np.int32(_BLOCKS * self.brokers)
        return np.where(log_dir >= 0, known, np.int32(self.nothing))

    def link(self, source: NDArray[np.int32], target: NDArray[np.int32]) -> Resources:
        """The slowed link between two brokers, where it is slowed."""
        out = np.full(len(source), self.nothing, np.int32)
        first = _BLOCKS * self.brokers + len(self.dir_rate)
        for place, (start, end) in enumerate(sorted(self._links)):
            out[(source == start) & (target == end)] = first + place
        return out
