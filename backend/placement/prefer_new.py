"""PreferNewBrokers: new partitions go to new brokers first, so that fewer have to be moved there.

Goals
    1. Where a cluster grew, let its new brokers hold as much as the others without moving a byte
       (KIP-660, Motivation: Kafka "does not necessarily place new partitions on new brokers").
    2. Else spread evenly, as `goals` does.

Constraints
    Those of `goals`. Racks come first: a partition of three replicas in three racks has one on the
    new broker of one rack, and the other two where the other racks have them.

Algorithm
    `goals`, with these preferences:
    - Where the number of replicas of every broker is known, each counts what it holds, so that the
      emptiest come first. The brokers of `kshunt.placer.new.brokers` come before all others until
      they hold an even share of all replicas.
    - Where it is not known, the brokers of `kshunt.placer.new.brokers` come first in any case:
      take the setting away when they hold enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from kshunt.backend.domain.cluster.broker_loads import BrokerLoads
from kshunt.backend.placement.goals import ALWAYS, Candidate, GoalPlacer
from kshunt.backend.placement.options import broker_ids
from kshunt.backend.placement.placer import UsableBroker

NEW_BROKERS: Final = "kshunt.placer.new.brokers"


class PreferNewBrokers(GoalPlacer):
    """Brokers that are new, or hold least, come first."""

    def __init__(self, random: Random | None = None) -> None:
        """See `GoalPlacer`."""
        super().__init__(random)
        self._new: frozenset[int] = frozenset()
        self._loads = BrokerLoads()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take `kshunt.placer.new.brokers`: ids, or none to go by what brokers hold.

        Raises:
            ConfigError: that is no list of ids.
        """
        self._new = broker_ids(configs, NEW_BROKERS)

    def observe(self, view: BrokerLoads) -> None:
        """Take how many replicas the brokers hold (`ClusterAware`)."""
        self._loads = view

    def weigh(self, brokers: Sequence[UsableBroker], new_replicas: int) -> Sequence[Candidate]:
        """See `GoalPlacer.weigh`."""
        loads = [self._loads.of(broker.id) for broker in brokers]
        held = [load.replicas for load in loads if load.replicas is not None]
        if len(held) < len(brokers):
            return [Candidate(one, fill=ALWAYS if one.id in self._new else 0) for one in brokers]
        leads = [load.leaders for load in loads if load.leaders is not None]
        if len(leads) < len(brokers):
            leads = [0] * len(brokers)
        share = (sum(held) + new_replicas) / len(brokers)
        return [
            Candidate(broker, count, leading, fill=share if broker.id in self._new else 0)
            for broker, count, leading in zip(brokers, held, leads, strict=True)
        ]
