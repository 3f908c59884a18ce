"""StripedReplicaPlacer: the placement of Kafka's own controller, and the default of KIP-660.

Goals
    1. Spread each partition's replicas over the racks as evenly as can be. This comes first: a
       rack of one broker gets a replica of every partition while each rack needs one.
    2. Spread replicas and leaders evenly over the brokers, in ever other company.
    3. Use a broker that is not fenced before a fenced one of its rack.

Constraints
    - No broker holds two replicas of a partition.
    - A leader is not fenced; with every broker fenced nothing is placed.
    - Either every broker has a rack or none has (KIP-660, Compatibility). Kafka itself takes the
      brokers without one for a rack of their own.

Algorithm (Kafka 4, org.apache.kafka.metadata.placement.StripedReplicaPlacer)
    1. Order the racks by name, and the brokers of each by id, fenced ones apart. Draw where each
       order begins. Where the topic has partitions, begin one after its last ones instead.
    2. Each partition begins one rack further on than the one before. Its leader is the next broker
       of the first rack that has one that is not fenced.
    3. The followers come from the racks in turn from where the partition begins. The leader's rack
       is skipped once, and a rack whose brokers are used up is skipped each time.
    4. Within a rack the brokers take turns, fenced ones after the others. Whenever a rack is used
       for another partition, its turns begin one broker further on.
    5. After one partition for each broker that is not fenced, every order would come round again:
       the orders are shuffled.

Limits
    Between two shuffles the leaders of a rack change in steps of the number of racks. Where that
    has a divisor in common with the number of brokers of a rack, some lead more than others. Of 90
    partitions in three racks of three, one broker may lead 24 more than another. Kafka does so too.

Kafka counts partitions from 0 again after each shuffle. If it used a rack last for a partition of
the same number, it then takes the rack for used up. It skips the rack though it has brokers, or
takes a fenced broker though another is free. The partitions here are counted without end, so that
this does not happen; all else is as there, draw by draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, cycle
from random import Random

from kshunt.backend.placement.placer import UsableBroker
from kshunt.backend.placement.requirements import check_demand


class StripedReplicaPlacer:
    """Racks in turn, and in each rack the brokers in turn (KIP-660's default)."""

    def __init__(self, random: Random | None = None) -> None:
        """A source of one's own makes the placement repeatable."""
        self._random = random or Random()
        self._existing: Sequence[Sequence[int]] = ()

    def configure(self, configs: Mapping[str, str]) -> None:
        """It has no settings."""

    def close(self) -> None:
        """It holds nothing."""

    def follow(self, existing: Sequence[Sequence[int]]) -> None:
        """Let the next placement continue where these partitions of the topic end."""
        self._existing = existing

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> list[list[int]]:
        """See `ReplicaPlacer.place`.

        Raises:
            InvalidReplicationFactor: with Kafka's words.
            ReplicaPlacementFailed: only some of the brokers have a rack.
        """
        given = list(brokers)
        existing, self._existing = self._existing, ()
        check_demand(num_replicas, given)
        stripes = _Stripes(given, existing, self._random)
        return [stripes.place(num_replicas) for _ in range(num_partitions)]


class _Turns:
    """Brokers that take turns; each round begins one further on than the one before."""

    def __init__(self, brokers: Sequence[int]) -> None:
        self.brokers = sorted(brokers)
        self.first = 0
        self._round = 0
        self._placed = 0

    def draw(self, random: Random) -> None:
        """Begin anywhere."""
        if self.brokers:
            self.first = random.randrange(len(self.brokers))

    def next(self, round_: int) -> int | None:
        """The broker whose turn it is in this round; None once each had its turn."""
        if round_ != self._round:
            self._round, self._placed = round_, 0
            self.first += 1
        if self._placed >= len(self.brokers):
            return None
        broker = self.brokers[(self.first + self._placed) % len(self.brokers)]
        self._placed += 1
        return broker


class _StripedRack:
    def __init__(self, brokers: Sequence[UsableBroker]) -> None:
        self.ids = frozenset(broker.id for broker in brokers)
        self.fenced = _Turns([broker.id for broker in brokers if broker.fenced])
        self.unfenced = _Turns([broker.id for broker in brokers if not broker.fenced])

    def begin(self, existing: Sequence[Sequence[int]], random: Random) -> None:
        """One after the broker that the topic used last here, or anywhere."""
        self.fenced.draw(random)
        here = (broker for one in reversed(existing) for broker in one if broker in self.ids)
        last = next(here, -1)
        if last in self.unfenced.brokers:
            self.unfenced.first = self.unfenced.brokers.index(last) + 1
        else:
            self.unfenced.draw(random)

    def next(self, round_: int) -> int | None:
        broker = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker is None else broker

    def shuffle(self, random: Random) -> None:
        random.shuffle(self.fenced.brokers)
        random.shuffle(self.unfenced.brokers)


class _Stripes:
    """The racks in their order, and how far the rounds have come."""

    def __init__(
        self,
        brokers: Sequence[UsableBroker],
        existing: Sequence[Sequence[int]],
        random: Random,
    ) -> None:
        names = sorted({broker.rack for broker in brokers}, key=lambda name: name or "")
        self._racks = [_StripedRack([one for one in brokers if one.rack == name]) for name in names]
        self._order = list(self._racks)
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._random = random
        self._round = 0
        for rack in self._racks:
            rack.begin(existing, random)
        self._offset = self._first_rack(existing)

    def _first_rack(self, existing: Sequence[Sequence[int]]) -> int:
        """One after that of the topic's last leader, or anywhere."""
        leader = existing[-1][0] if existing and existing[-1] else None
        for index, rack in enumerate(self._racks):
            if leader in rack.ids:
                return index + 1
        return self._random.randrange(len(self._racks))

    def place(self, num_replicas: int) -> list[int]:
        """The replicas of the next partition; there are brokers enough."""
        if self._unfenced > 1 and self._round and self._round % self._unfenced == 0:
            self._shuffle()
        begin = (self._offset + self._round) % len(self._order)
        racks = self._order[begin:] + self._order[:begin]
        lead = next(rack for rack in racks if rack.unfenced.brokers)
        walk = chain((rack for rack in racks if rack is not lead), cycle(racks))
        followers = (rack.next(self._round) for rack in walk)
        leader = lead.unfenced.next(self._round)
        chosen: list[int] = []
        for broker in chain([leader], followers):
            if broker is not None:
                chosen.append(broker)
            if len(chosen) == num_replicas:
                break
        self._round += 1
        return chosen

    def _shuffle(self) -> None:
        self._random.shuffle(self._order)
        for rack in self._racks:
            rack.shuffle(self._random)
