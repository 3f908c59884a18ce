"""AvoidRemovedBrokers: brokers that are being removed get no new partitions.

Goals
    1. Let nothing be placed on a broker that is being drained, which would have to be moved again
       (KIP-660, Motivation: "Kafka currently will keep placing partitions on all existing
       brokers").
    2. Else spread evenly, as `goals` does.

Constraints
    Those of `goals`, among the brokers that stay. They come before racks: a rack that is only made
    of brokers that go counts no more.

Algorithm
    Choose by `goals` among the brokers that stay. If those are fewer than the replicas of a
    partition, or all fenced, refuse and say so. With `kshunt.placer.removed.strict=false` choose
    from all instead, where a broker that goes comes after the others of its rack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from kshunt.backend.placement.goals import AvoidingPlacer
from kshunt.backend.placement.options import broker_ids, flag
from kshunt.backend.placement.placer import UsableBroker

REMOVED_BROKERS: Final = "kshunt.placer.removed.brokers"
REMOVED_STRICT: Final = "kshunt.placer.removed.strict"


class AvoidRemovedBrokers(AvoidingPlacer):
    """Brokers that are being removed are kept off."""

    def __init__(self, random: Random | None = None) -> None:
        """See `GoalPlacer`."""
        super().__init__(random)
        self._removed: frozenset[int] = frozenset()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take `kshunt.placer.removed.brokers`, and whether it is strict about them.

        Raises:
            ConfigError: that is no list of ids, or neither true nor false.
        """
        self._removed = broker_ids(configs, REMOVED_BROKERS)
        self.strict = flag(configs, REMOVED_STRICT, default=True)

    def avoided(self, brokers: Sequence[UsableBroker]) -> Mapping[int, str]:
        """See `AvoidingPlacer.avoided`."""
        return {one.id: "is being removed" for one in brokers if one.id in self._removed}
