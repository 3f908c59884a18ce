"""Owned throttles: what was there before, and which shares of which operations lie on top.

Goals
    When an operation ends, fails, or is finished by another backend after a crash, exactly its
    share of every throttle is removed and what was there before is back. What another operation
    still needs, and what an operator set, is not touched.
Constraints
    Pure: decides on what was read, and returns what to store and what to write. Kafka has no
    compare-and-set for configurations: we write over an edit that comes between our reading and our
    writing, unseen. What could not be read is never written.
Algorithm
    Every verb returns a `OwnershipStep`. The caller stores its changed documents (intent before
    effect, as KIP-179 stores its removal records before it sets a throttle), carries out its
    writes, reads back, and calls `confirm`. After a crash, `readable` brings back the
    decisions; `outstanding` writes what of them did not take hold, and `lift` may be repeated.

    Rates: what is in force is the *lowest* rate of the shares, or else what was there before.
    KIP-179 says of a throttle that it replaces the existing rates, and so it does with what an
    operator had set and with the operation's own former rate (`change`). Between two operations the
    newest rate would let the second one break the promise that was made for the first ("no more
    than 10 MB/s on broker 3"). A broker has one rate for all its throttled replicas together, so
    only the lowest keeps both. `holders` names the operation that keeps a rate down.

    Lists: what was there before and every share together; `*` found before stays `*`.

    Tests hold this law for any interleaving of operations, crashes and edits. When all operations
    have ended, each setting is what it would be had we never touched it: the initial value and
    every edit of somebody else. The exceptions:
    1. What operations told to leave on (`auto_remove=False`) is there, unless it was edited.
    2. An edit that was undone by `reapply` has no effect.
    3. An edit that we wrote over unseen, or that only repeats or removes what we had decided to
       write anyway, has no effect.
    4. A replica that a share names is the share's, even if somebody else listed it meanwhile.
    5. What was adopted goes like a share, and nothing comes back in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.operations.ownership.cells import (
    NO_RATE_FOUND,
    FoundRate,
    Lift,
    ListCell,
    ListKey,
    ListShare,
    Pairs,
    RateCell,
    RateKey,
    RateShare,
)

RateCellId: TypeAlias = tuple[int, RateKey]
"""A broker and one of its rates."""
ListCellId: TypeAlias = tuple[str, ListKey]
"""A topic and one of its lists."""

REPLICATION_RATES: Final = (RateKey.LEADER, RateKey.FOLLOWER)
_SOURCES: Final = frozenset(ConfigSource)


@dataclass(frozen=True, slots=True)
class FoundSettings:
    """What is configured now, of the settings that could be read; the others are absent."""

    rates: Mapping[RateCellId, FoundRate]
    lists: Mapping[ListCellId, ReplicaSet]
    gone_topics: frozenset[str] = frozenset()
    """Topics that are known to exist no more."""


def found_settings(throttles: Throttles, topics: Iterable[str]) -> FoundSettings:
    """What the port's reading of some brokers and of these `topics` says.

    Each rate has its own source. A rate without one is taken for the broker's own. A rate from
    where Kafka cannot say is absent: whether it is the broker's own is not known, and what is not
    known is not written.
    """
    lists: dict[ListCellId, ReplicaSet] = {}
    for topic in topics:
        found = throttles.replicas.get(topic, ThrottledReplicas())
        lists[topic, ListKey.LEADERS] = found.leaders
        lists[topic, ListKey.FOLLOWERS] = found.followers
    rates: dict[RateCellId, FoundRate] = {}
    for broker, throttle in throttles.rates.items():
        for key, value, source in _values(throttle):
            if value is None:
                rates[broker, key] = NO_RATE_FOUND
            elif source in _SOURCES:
                rates[broker, key] = FoundRate(value, ConfigSource(source))
    return FoundSettings(rates, lists)


def _values(throttle: BrokerThrottle) -> Iterator[tuple[RateKey, int | None, str]]:
    """Key, value and source of each rate."""
    rate, own = throttle.rate, ConfigSource.DYNAMIC_BROKER
    yield RateKey.LEADER, rate.leader_bytes_per_s, throttle.leader_source or own
    yield RateKey.FOLLOWER, rate.follower_bytes_per_s, throttle.follower_source or own
    yield RateKey.LOG_DIRS, throttle.log_dir_bytes_per_s, throttle.log_dir_source or own


@dataclass(frozen=True, slots=True)
class SettingValues:
    """Values of settings: to write, or in force."""

    rates: Mapping[RateCellId, int | None] = field(default_factory=dict)
    """Bytes a second; None deletes the key, so that the inherited value holds."""
    lists: Mapping[ListCellId, ReplicaSet] = field(default_factory=dict)
    """An empty list deletes the key."""

    def __bool__(self) -> bool:
        return bool(self.rates) or bool(self.lists)

    @property
    def brokers(self) -> tuple[int, ...]:
        """Brokers with a rate here, sorted."""
        return tuple(sorted({broker for broker, _ in self.rates}))

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics with a list here, sorted."""
        return tuple(sorted({topic for topic, _ in self.lists}))

    def port_rates(self, present: FoundSettings) -> dict[int, ThrottledRate]:
        """For the port, which writes both rates of a broker: the other one is as it is now."""
        return {
            broker: ThrottledRate(*(self._rate(broker, key, present) for key in REPLICATION_RATES))
            for broker in self.brokers
            if any((broker, key) in self.rates for key in REPLICATION_RATES)
        }

    def port_log_dir_rates(self) -> dict[int, int | None]:
        """For the port: rates of moves between log directories."""
        return {b: value for (b, key), value in self.rates.items() if key is RateKey.LOG_DIRS}

    def port_replicas(self, present: FoundSettings) -> dict[str, ThrottledReplicas]:
        """For the port, which writes both lists of a topic: the other one is as it is now."""
        return {
            topic: ThrottledReplicas(
                self._list(topic, ListKey.LEADERS, present),
                self._list(topic, ListKey.FOLLOWERS, present),
            )
            for topic in self.topics
        }

    def _rate(self, broker: int, key: RateKey, present: FoundSettings) -> int | None:
        if (broker, key) in self.rates:
            return self.rates[broker, key]
        found = present.rates.get((broker, key))
        return None if found is None else found.own_bytes_per_s

    def _list(self, topic: str, key: ListKey, present: FoundSettings) -> ReplicaSet:
        found = present.lists.get((topic, key), ReplicaSet())
        return self.lists.get((topic, key), found)


@dataclass(frozen=True, slots=True)
class Shares:
    """What one operation wants: rates in bytes a second, and replicas listed."""

    rates: Mapping[RateCellId, int] = field(default_factory=dict)
    lists: Mapping[ListCellId, Pairs] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        replicas: Mapping[str, ThrottledReplicas],
        brokers: Iterable[int],
        rate_bytes_per_s: int | None,
        log_dir_rates: Mapping[int, int] | None = None,
    ) -> Shares:
        """One rate for all brokers, as `throttled_replicas_of` and `brokers_of` name them."""
        rates: dict[RateCellId, int] = {}
        if rate_bytes_per_s is not None:
            rates = {(b, key): rate_bytes_per_s for b in brokers for key in REPLICATION_RATES}
        for broker, rate in (log_dir_rates or {}).items():
            rates[broker, RateKey.LOG_DIRS] = rate
        lists: dict[ListCellId, Pairs] = {}
        for topic, found in replicas.items():
            lists[topic, ListKey.LEADERS] = found.leaders.pairs
            lists[topic, ListKey.FOLLOWERS] = found.followers.pairs
        return cls(rates, {cell: pairs for cell, pairs in lists.items() if pairs})


NO_SHARES: Final = Shares()


@dataclass(frozen=True, slots=True)
class OwnershipStep:
    """A decision: store `after` first, then write, read back, and `confirm`."""

    after: Ownership
    writes: SettingValues


@dataclass(frozen=True, slots=True)
class Ownership:
    """Everything that is known of our throttles; see the module's text."""

    rates: Mapping[RateCellId, RateCell] = field(default_factory=dict)
    lists: Mapping[ListCellId, ListCell] = field(default_factory=dict)

    # What holds now

    @property
    def brokers(self) -> tuple[int, ...]:
        """Brokers that we know something of, sorted: read these before a decision."""
        return tuple(sorted({broker for broker, _ in self.rates}))

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that we know something of, sorted: read these before a decision."""
        return tuple(sorted({topic for topic, _ in self.lists}))

    def in_force(self) -> SettingValues:
        """What the cluster should have now, wherever an operation throttles.

        A rate of None is no key of the broker's own. A list whose prior is NOT_READ shows the
        shares only.
        """
        return SettingValues(
            {i: cell.wanted_bytes_per_s for i, cell in self.rates.items() if cell.live},
            {i: cell.wanted for i, cell in self.lists.items() if cell.live},
        )

    def holders(self, broker: int, key: RateKey) -> tuple[str, ...]:
        """The operations that keep a rate as low as it is, sorted."""
        cell = self.rates.get((broker, key))
        if cell is None:
            return ()
        rates = cell.rates_bytes_per_s
        return tuple(sorted(o for o, rate in rates.items() if rate == cell.wanted_bytes_per_s))

    def held_pairs(self, cell: ListCellId) -> Pairs:
        """Replicas that running operations need on a list, or are about to remove from it."""
        return self.lists[cell].held_pairs if cell in self.lists else frozenset()

    def unlifted(self, operation_id: str) -> tuple[RateCellId | ListCellId, ...]:
        """Settings on which the operation's share is not yet seen to be gone."""
        rates: list[RateCellId | ListCellId] = [
            i for i, cell in self.rates.items() if cell.live and cell.holds(operation_id)
        ]
        return (*rates, *(i for i, cell in self.lists.items() if cell.holds(operation_id)))

    # What operations want

    def record(
        self, operation_id: str, shares: Shares, prior: FoundSettings, *, auto_remove: bool = True
    ) -> OwnershipStep:
        """An operation begins, or wants more; `prior` is what was read just now.

        What `prior` lacks is NOT_READ: it is written as soon as it has been read (`outstanding`).
        A foreign value that is written over here is back in the end.
        """
        rates, lists = dict(self.rates), dict(self.lists)
        for i, rate in shares.rates.items():
            cell = rates.get(i, RateCell(None)).built_upon(prior.rates.get(i))
            rates[i] = cell.with_share(operation_id, RateShare(rate, auto_remove))
        for j, pairs in shares.lists.items():
            share = ListShare(pairs, auto_remove=auto_remove)
            found = prior.lists.get(j)
            lists[j] = lists.get(j, ListCell(None)).with_share(operation_id, share, found)
        return planned(Ownership(rates, lists), prior, shares.rates, shares.lists)

    def tried(self, brokers: Iterable[int]) -> Ownership:
        """These brokers may have been written though their prior values were not read.

        What is found there and is ours is then deleted in the end; what is not, stays.
        """
        wanted = set(brokers)
        return replace(
            self,
            rates={
                i: replace(cell, known=cell.known | {cell.wanted_bytes_per_s})
                if cell.prior is None and cell.live and i[0] in wanted
                else cell
                for i, cell in self.rates.items()
            },
        )

    def change(
        self,
        operation_id: str,
        rates: Mapping[RateCellId, int | None],
        present: FoundSettings,
    ) -> OwnershipStep:
        """The operation's rates become these, where it has a share; None wants no rate.

        A foreign value is written over by a rate, and is back in the end; not by None.
        """
        cells, changed = dict(self.rates), []
        for i, rate in rates.items():
            cell = cells.get(i)
            if cell is None or not cell.holds(operation_id):
                continue
            share = replace(cell.shares[operation_id], rate_bytes_per_s=rate)
            found = present.rates.get(i)
            based = cell.looked_at(found) if rate is None else cell.built_upon(found)
            cells[i] = based.with_share(operation_id, share)
            changed.append(i)
        return planned(replace(self, rates=cells), present, changed, ())

    def lift(
        self, operation_id: str, present: FoundSettings, why: Lift = Lift.ENDED
    ) -> OwnershipStep:
        """The operation has ended: what to write so that its share goes, and only that.

        Safe to repeat. A share with `auto_remove=False` stays on, unless the operation never
        began, as when the cluster refused it (`Lift.UNDONE`).
        """
        return self.reduce(operation_id, NO_SHARES, present, why)

    def reduce(
        self,
        operation_id: str,
        keep: Shares,
        present: FoundSettings,
        why: Lift = Lift.ENDED,
    ) -> OwnershipStep:
        """Some of the operation's partitions are done or cancelled: it needs no more than `keep`.

        Rates of brokers that `keep` names stay as they are.
        """
        rates = {
            i: cell if i in keep.rates else cell.lifted(operation_id, why)
            for i, cell in self.rates.items()
        }
        lists = {
            j: cell.reduced(operation_id, keep.lists.get(j, frozenset()), why)
            for j, cell in self.lists.items()
        }
        rates = {i: cell for i, cell in rates.items() if cell.shares or not cell.untouched}
        touched_rates = [i for i, cell in self.rates.items() if operation_id in cell.shares]
        touched_lists = [j for j, cell in self.lists.items() if operation_id in cell.shares]
        return planned(Ownership(rates, lists), present, touched_rates, touched_lists)

    def adopt(
        self,
        operation_id: str,
        brokers: Iterable[int],
        replicas: Mapping[str, ThrottledReplicas],
        present: FoundSettings,
    ) -> OwnershipStep:
        """Take over the throttle of moves that somebody else started.

        Args:
            brokers: Those that take part in the moves. Their own rates become our shares.
            replicas: What the moves need listed (`throttled_replicas_of`). Of these, those that are
                listed become our shares.
        """
        rates, lists = dict(self.rates), dict(self.lists)
        ids = [(broker, key) for broker in brokers for key in RateKey]
        for i in ids:
            found = present.rates.get(i)
            if found is not None and found.own_bytes_per_s is not None:
                rates[i] = rates.get(i, RateCell(None)).adopted(operation_id, found)
        wanted = Shares.of(replicas, (), None).lists
        for j, pairs in wanted.items():
            listed = present.lists.get(j)
            cell = None if listed is None else lists.get(j, ListCell(listed))
            if cell is not None and listed is not None:
                lists[j] = cell.adopted(operation_id, pairs, listed)
        shared = {j: cell for j, cell in lists.items() if cell.shares}
        return planned(Ownership(rates, shared), present, ids, wanted)

    # What has become of it

    def outstanding(self, present: FoundSettings) -> OwnershipStep:
        """What was decided and did not take hold: after a crash, a failed write, or a broker
        that could not be read before."""
        return planned(self, present, self.rates, self.lists)

    def confirm(self, present: FoundSettings) -> Ownership:
        """What is known after reading back; shares that are gone are forgotten."""
        rates: dict[RateCellId, RateCell] = {}
        for i, rate_cell in self.rates.items():
            found = present.rates.get(i)
            known_rate = rate_cell if found is None else rate_cell.as_found(found)
            if known_rate is not None:
                rates[i] = known_rate
        lists: dict[ListCellId, ListCell] = {}
        for j, list_cell in self.lists.items():
            listed = present.lists.get(j)
            known = list_cell if listed is None else list_cell.as_found(listed)
            if known is not None and j[0] not in present.gone_topics:
                lists[j] = known
        return Ownership(rates, lists)

    def abandoned(self, operation_id: str, brokers: Collection[int]) -> Ownership:
        """The operation gives up its share on brokers that are gone for good.

        What was there before is remembered: should one come back, what is found on it is told as
        this operation's, and can be put back. Nothing is written there by itself.
        """
        return replace(
            self,
            rates={
                i: cell.given_up(operation_id) if i[0] in brokers else cell
                for i, cell in self.rates.items()
            },
        )

    def forget(self, *, brokers: Collection[int] = (), topics: Collection[str] = ()) -> Ownership:
        """Without brokers and topics that are gone for good, by an operator's word."""
        return Ownership(
            {i: cell for i, cell in self.rates.items() if i[0] not in brokers},
            {j: cell for j, cell in self.lists.items() if j[0] not in topics},
        )


def planned(
    ownership: Ownership,
    present: FoundSettings,
    rates: Iterable[RateCellId],
    lists: Iterable[ListCellId],
) -> OwnershipStep:
    """The writes that these settings need, and the ownership that knows of them."""
    rate_cells, list_cells = dict(ownership.rates), dict(ownership.lists)
    new_rates: dict[RateCellId, int | None] = {}
    for i in rates:
        if i in rate_cells:
            found = present.rates.get(i)
            rate_cells[i], needed = rate_cells[i].looked_at(found).planned(found)
            if needed:
                new_rates[i] = rate_cells[i].wanted_bytes_per_s
    new_lists: dict[ListCellId, ReplicaSet] = {}
    for j in lists:
        if j in list_cells and j[0] not in present.gone_topics:
            list_cells[j], aim = list_cells[j].planned(present.lists.get(j))
            if aim is not None:
                new_lists[j] = aim
    return OwnershipStep(Ownership(rate_cells, list_cells), SettingValues(new_rates, new_lists))
