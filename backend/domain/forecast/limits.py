"""What limits copies, by number: both throttles, sending and receiving of each broker, links."""

from __future__ import annotations

from typing import Final

import numpy as np

from kshunt.backend.domain.forecast.fair_shares import Floats, Ints, Mask
from kshunt.backend.domain.replicas.expected_end_values import Resource, ResourceKind

OF_BROKERS: Final = (
    ResourceKind.LEADER_THROTTLE,
    ResourceKind.FOLLOWER_THROTTLE,
    ResourceKind.SENDING,
    ResourceKind.RECEIVING,
)
"""In this order a block of numbers each, a number a broker; then the links, then no limit."""


class Limits:
    """The resources of copies from `source` to `target`, which have shape (copies,).

    They come from `next_source` once their leaders have changed. A broker that is not known is -1,
    and has a number of its own.
    """

    def __init__(self, source: Ints, target: Ints, next_source: Ints) -> None:
        known = np.concatenate([source, target, next_source])
        self.brokers, places = np.unique(known, return_inverse=True)
        ends: Ints = places.reshape(3, -1)
        self.source, self.target, self.next_source = ends
        """Places of each copy's brokers in `brokers`."""
        pairs = self.source * len(self.brokers) + self.target
        self.pairs, self.pair = np.unique(pairs, return_inverse=True)
        self.count = len(OF_BROKERS) * len(self.brokers) + len(self.pairs) + 1
        self.nothing = self.count - 1
        """The number of the one without limit."""

    def number(self, kind: ResourceKind) -> Ints:
        """Of each copy the resource of a kind that is on its way. Shape (copies,)."""
        if kind is ResourceKind.LINK:
            links: Ints = self.pair + len(OF_BROKERS) * len(self.brokers)
            return links
        sends = kind in (ResourceKind.LEADER_THROTTLE, ResourceKind.SENDING)
        numbers: Ints = (self.source if sends else self.target) + self.first(kind)
        return numbers

    def first(self, kind: ResourceKind) -> int:
        """Where the block of a broker's kind begins."""
        return OF_BROKERS.index(kind) * len(self.brokers)

    def throttles(self, numbers: Ints) -> Mask:
        """Which of these resources are throttles."""
        found: Mask = numbers < self.first(ResourceKind.SENDING)
        return found

    def resource(self, number: int) -> Resource | None:
        """What it stands for; None: nothing limits."""
        if number == self.nothing:
            return None
        block, place = divmod(number, len(self.brokers))
        if block < len(OF_BROKERS):
            return Resource(OF_BROKERS[block], (int(self.brokers[place]),))
        pair = int(self.pairs[number - len(OF_BROKERS) * len(self.brokers)])
        source, target = divmod(pair, len(self.brokers))
        ends = (int(self.brokers[source]), int(self.brokers[target]))
        return Resource(ResourceKind.LINK, ends)

    def without(self) -> Floats:
        """Capacities of resources of which none limits. Shape (resources,)."""
        return np.full(self.count, np.inf)
