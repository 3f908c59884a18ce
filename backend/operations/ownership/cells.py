"""One throttle setting each: what was there before, and which shares lie on top of it.

A *cell* is one config key of one broker (a rate) or of one topic (a list of replicas). The values
here are frozen and know nothing of other cells; `kshunt.backend.operations.ownership.ownership`
puts them together.

Goals
    From what is read, tell what an operator set from what is ours, and decide what to write.
Constraints
    Kafka has no compare-and-set for configurations and does not say who wrote a value. So a value
    counts as ours only if we wrote it or were about to write it. Every other value is somebody
    else's, and kshunt does not write over it unless an operator decided so.
Algorithm
    A rate is one value, so its cell keeps `known`: the values that may be found there without
    anybody else's doing. They are the one that was there when we last looked, and those that we
    have decided to write since. A list has entries, so its cell keeps for each share the pairs that
    it needs and the pairs that it gives up. It also keeps `pending`: pairs that we have decided to
    list and have not seen listed. A pair that neither a share nor the prior list names is foreign.
    Every decision is stored before it is carried out, so both are the same after a crash.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    SETTING_WORDS,
    ReplicaSet,
)
from kshunt.backend.domain.throttles.owners import ShareState

Pairs: TypeAlias = frozenset[tuple[int, int]]
"""(partition, broker) pairs of one topic."""


class RateKey(enum.StrEnum):
    """A broker's rates, by Kafka's config names."""

    LEADER = LEADER_RATE
    FOLLOWER = FOLLOWER_RATE
    LOG_DIRS = LOG_DIR_RATE

    @property
    def words(self) -> str:
        """In an operator's words: `leader rate`."""
        return SETTING_WORDS[self]


class ListKey(enum.StrEnum):
    """A topic's lists of throttled replicas, by Kafka's config names."""

    LEADERS = LEADER_REPLICAS
    FOLLOWERS = FOLLOWER_REPLICAS

    @property
    def words(self) -> str:
        """In an operator's words: `leader list`."""
        return SETTING_WORDS[self]


class Lift(enum.Enum):
    """Why a share, or a part of it, is lifted."""

    ENDED = enum.auto()
    """Its operation has ended there: what is to stay on stays."""
    GIVEN_UP = enum.auto()
    """Its operation continues without it: it goes even where the rest is to stay on."""
    UNDONE = enum.auto()
    """Its operation never began: what was left on goes, too."""

    def lifts(self, state: ShareState) -> bool:
        """Whether a share in this state is lifted."""
        return state is ShareState.HELD or (self is Lift.UNDONE and state is ShareState.LEFT)

    def leaves_on(self, *, auto_remove: bool) -> bool:
        """Whether what is lifted stays on."""
        return self is Lift.ENDED and not auto_remove


@dataclass(frozen=True, slots=True)
class FoundRate:
    """A rate as a broker describes it."""

    value_bytes_per_s: int | None
    """The value in effect; None where the broker has none."""
    source: ConfigSource

    @property
    def own_bytes_per_s(self) -> int | None:
        """What is set on this broker itself; None where the key is absent, so that a dynamic
        default, the broker's file, or Kafka's default holds."""
        return self.value_bytes_per_s if self.source is ConfigSource.DYNAMIC_BROKER else None


NO_RATE_FOUND: Final = FoundRate(None, ConfigSource.DEFAULT)


@dataclass(frozen=True, slots=True)
class RateShare:
    """What one operation wants of one rate."""

    rate_bytes_per_s: int | None
    """None: it wants no rate, or gave way to a foreign one that was accepted."""
    auto_remove: bool = True
    state: ShareState = ShareState.HELD


@dataclass(frozen=True, slots=True)
class RateCell:
    """One rate of one broker."""

    prior: FoundRate | None
    """What was there before us; None: NOT_READ."""
    shares: Mapping[str, RateShare] = field(default_factory=dict)
    """By operation id."""
    known: frozenset[int | None] = frozenset()
    """Own values that may be found without anybody else's doing; None is "key absent"."""

    @property
    def live(self) -> bool:
        """True while an operation holds a share, or one is not seen to be gone."""
        return any(s.state in (ShareState.HELD, ShareState.ENDING) for s in self.shares.values())

    def holds(self, operation_id: str) -> bool:
        """True while the operation's share is there, or not seen to be gone."""
        share = self.shares.get(operation_id)
        return share is not None and share.state in (ShareState.HELD, ShareState.ENDING)

    @property
    def rates_bytes_per_s(self) -> Mapping[str, int]:
        """The rates that count, by operation id."""
        return {
            operation_id: share.rate_bytes_per_s
            for operation_id, share in self.shares.items()
            if share.state in (ShareState.HELD, ShareState.LEFT)
            and share.rate_bytes_per_s is not None
        }

    @property
    def untouched(self) -> bool:
        """True where the prior value was never read, and so nothing was ever written."""
        return self.prior is None and not self.known

    @property
    def held_rates(self) -> bool:
        """True while a running operation wants a rate here."""
        return any(
            share.state is ShareState.HELD and share.rate_bytes_per_s is not None
            for share in self.shares.values()
        )

    @property
    def wanted_bytes_per_s(self) -> int | None:
        """The own value that should be set: the lowest rate that counts, else what was before."""
        rates = self.rates_bytes_per_s
        if rates:
            return min(rates.values())
        return None if self.prior is None else self.prior.own_bytes_per_s

    def is_foreign(self, found: FoundRate) -> bool:
        """True where somebody else must have set, or deleted, what was found."""
        own = found.own_bytes_per_s
        return own != self.wanted_bytes_per_s and own not in self.known

    def with_share(self, operation_id: str, share: RateShare) -> RateCell:
        """With this share instead of the operation's former one."""
        # What was wanted until now may be there, and is ours.
        ours = frozenset() if self.prior is None else frozenset({self.wanted_bytes_per_s})
        shares = {**self.shares, operation_id: share}
        return replace(self, shares=shares, known=self.known | ours)

    def restarted(self, found: FoundRate) -> RateCell:
        """What was found is what must be back in the end; shares that were left are past."""
        return replace(
            self,
            prior=found,
            known=frozenset({found.own_bytes_per_s}),
            shares=_past(self.shares),
        )

    def looked_at(self, found: FoundRate | None) -> RateCell:
        """With the prior value, where it had not been read and can be told now."""
        if found is None or self.prior is not None or found.own_bytes_per_s in self.known:
            return self
        return self.restarted(found)

    def built_upon(self, found: FoundRate | None) -> RateCell:
        """Ready to be written over: what somebody else set meanwhile comes back in the end."""
        if found is None:
            if self.live:
                return self
            return replace(self, prior=None, known=frozenset(), shares=_past(self.shares))
        cell = self.looked_at(found)
        return cell.restarted(found) if not cell.live or cell.is_foreign(found) else cell

    def planned(self, found: FoundRate | None) -> tuple[RateCell, bool]:
        """With the decision to write the wanted value, and whether there is a need to.

        There is no need where the value was not read, or is the wanted one. What somebody else
        wrote stays.
        """
        if found is None:
            return self, False
        own, wanted = found.own_bytes_per_s, self.wanted_bytes_per_s
        if not self.live or own == wanted or own not in self.known:
            return self, False
        return replace(self, known=self.known | {wanted}), True

    def lifted(self, operation_id: str, why: Lift) -> RateCell:
        """Without the operation's wish."""
        share = self.shares.get(operation_id)
        if share is None or not why.lifts(share.state):
            return self
        if self.untouched:
            return replace(self, shares={o: s for o, s in self.shares.items() if o != operation_id})
        # What wants no rate has none to leave on: one that is there yet is still to be deleted.
        stays = why.leaves_on(auto_remove=share.auto_remove) and share.rate_bytes_per_s is not None
        state = ShareState.LEFT if stays else ShareState.ENDING
        return self.with_share(operation_id, replace(share, state=state))

    def given_up(self, operation_id: str) -> RateCell:
        """The operation's share is past: it may be there yet, and is not taken off."""
        share = self.shares.get(operation_id)
        if share is None:
            return self
        # What it wrote may be found, and is ours.
        known = self.known | {self.wanted_bytes_per_s}
        past = replace(share, state=ShareState.PAST)
        return replace(self, shares={**self.shares, operation_id: past}, known=known)

    def as_found(self, found: FoundRate) -> RateCell | None:
        """What is known after reading; None where nothing is left to know."""
        cell = self.looked_at(found)
        own = found.own_bytes_per_s
        if own == cell.wanted_bytes_per_s:
            cell = replace(cell, known=frozenset({own}), shares=_ended(cell.shares))
        elif own not in cell.known:
            cell = replace(cell, known=frozenset(), shares=_ended(cell.shares))
            if not cell.rates_bytes_per_s:
                cell = cell.restarted(found)
        if cell.live:
            return cell
        there = {o: s for o, s in cell.shares.items() if s.rate_bytes_per_s == own}
        return replace(cell, shares=there) if there else None

    def accepted(self, found: FoundRate, *, but: Collection[str] = ()) -> RateCell:
        """A foreign value is the one to keep; the shares want no rate any more, except those of
        the operations in `but`."""
        gave_way = {
            operation_id: replace(share, rate_bytes_per_s=None)
            if share.state is ShareState.HELD and operation_id not in but
            else share
            for operation_id, share in self.shares.items()
        }
        return replace(self, shares=gave_way).restarted(found)

    def insisted(self, found: FoundRate) -> RateCell:
        """A foreign value may be written over, and does not come back."""
        return replace(self, known=self.known | {found.own_bytes_per_s})

    def adopted(self, operation_id: str, found: FoundRate) -> RateCell:
        """What is set becomes the operation's share; nothing, if it is of another share, was
        there before."""
        own = found.own_bytes_per_s
        if own is None:
            return self
        ours = bool(self.rates_bytes_per_s) or (
            own in self.known and own != self.wanted_bytes_per_s
        )
        goes_on = self.live and self.prior is not None and ours
        cell = self if goes_on else self.restarted(NO_RATE_FOUND)
        if cell.is_foreign(found) or not self.live:
            cell = replace(cell, known=frozenset({own}))
        return cell.with_share(operation_id, RateShare(own))


def _past(shares: Mapping[str, RateShare]) -> Mapping[str, RateShare]:
    return {
        o: replace(s, state=ShareState.PAST) if s.state is ShareState.LEFT else s
        for o, s in shares.items()
    }


def _ended(shares: Mapping[str, RateShare]) -> Mapping[str, RateShare]:
    return {o: s for o, s in shares.items() if s.state is not ShareState.ENDING}


@dataclass(frozen=True, slots=True)
class ListShare:
    """What one operation wants of one list."""

    pairs: Pairs
    """Replicas that it needs listed."""
    given_up: Pairs = frozenset()
    """Replicas that it gives up: decided, and not yet seen to be gone."""
    auto_remove: bool = True
    state: ShareState = ShareState.HELD

    @property
    def unsettled(self) -> bool:
        """True while the operation needs it, or something that it gives up may be there yet."""
        held = self.state is ShareState.HELD
        return held or (self.state is ShareState.LEFT and bool(self.given_up))


@dataclass(frozen=True, slots=True)
class ListCell:
    """One list of throttled replicas of one topic."""

    prior: ReplicaSet | None
    """What was listed before us, less what somebody else took out since; None: NOT_READ, and
    then nothing was written either."""
    shares: Mapping[str, ListShare] = field(default_factory=dict)
    """By operation id."""
    pending: Pairs = frozenset()
    """Replicas that we have decided to list and have not seen listed."""

    @property
    def live(self) -> bool:
        """True while an operation holds a share, or a decision is not seen to have taken hold."""
        return bool(self.pending) or any(s.unsettled for s in self.shares.values())

    def holds(self, operation_id: str) -> bool:
        """True while the operation's share is there, or not seen to be gone."""
        share = self.shares.get(operation_id)
        return share is not None and share.unsettled

    @property
    def needed(self) -> Pairs:
        """What running operations need listed."""
        return _union(s.pairs for s in self.shares.values() if s.state is ShareState.HELD)

    @property
    def held_pairs(self) -> Pairs:
        """What running operations need listed or are about to take off."""
        return self.needed | _union(s.given_up for s in self.shares.values() if s.unsettled)

    @property
    def wanted(self) -> ReplicaSet:
        """What should be listed: what was before, and every share."""
        counting = [s.pairs for s in self.shares.values() if s.state is not ShareState.PAST]
        return (self.prior or ReplicaSet()) | ReplicaSet(_union(counting))

    @property
    def removable(self) -> Pairs:
        """Given up by one operation, and neither needed by another nor there before."""
        wanted = self.wanted
        if wanted.everything:
            return frozenset()
        return _union(s.given_up for s in self.shares.values()) - wanted.pairs

    def missing(self, found: ReplicaSet) -> ReplicaSet:
        """What somebody else has taken out."""
        prior = self.prior or ReplicaSet()
        if found.everything or prior.everything:
            return prior - found
        return ReplicaSet((prior.pairs | self.needed) - found.pairs - self.pending)

    def extra(self, found: ReplicaSet) -> ReplicaSet:
        """What somebody else has put in."""
        prior = self.prior or ReplicaSet()
        if found.everything or prior.everything:
            return found - prior
        ours = (
            s.pairs | s.given_up for s in self.shares.values() if s.state is not ShareState.PAST
        )
        return ReplicaSet(found.pairs - prior.pairs - _union(ours))

    def restarted(self, found: ReplicaSet | None) -> ListCell:
        """What was found is what must be back in the end; shares that were left are past."""
        past = {
            o: replace(s, state=ShareState.PAST) if s.state is ShareState.LEFT else s
            for o, s in self.shares.items()
        }
        return replace(self, prior=found, shares=past)

    def looked_at(self, found: ReplicaSet | None) -> ListCell:
        """With the prior list, where it had not been read and is now."""
        return self if found is None or self.prior is not None else self.restarted(found)

    def with_share(self, operation_id: str, share: ListShare, found: ReplicaSet | None) -> ListCell:
        """With this share added to what the operation had; `found` is what is listed now.

        What somebody else listed, of the replicas that the share names, is theirs and stays in
        the end; what they took out does not come back in the end.
        """
        cell = self if self.live else self.restarted(found)
        cell = cell._noticed(share.pairs, found)
        former = cell.shares.get(operation_id, ListShare(frozenset()))
        share = replace(
            share, pairs=share.pairs | former.pairs, given_up=former.given_up - share.pairs
        )
        covered = cell.prior is not None and cell.prior.everything
        pending = frozenset() if covered else cell.pending | share.pairs
        return replace(cell._replaced(operation_id, share), pending=pending)

    def _noticed(self, pairs: Pairs, found: ReplicaSet | None) -> ListCell:
        if found is None:
            return self
        if self.prior is None or self.prior.everything != found.everything:
            return self.restarted(found)
        added = pairs & self.extra(found).pairs
        gone = pairs & (self.prior.pairs - found.pairs)
        return replace(self, prior=replace(self.prior, pairs=(self.prior.pairs | added) - gone))

    def planned(self, found: ReplicaSet | None) -> tuple[ListCell, ReplicaSet | None]:
        """What to list so that each decision holds; None where each holds, or nothing was read."""
        cell = self.looked_at(found)
        if found is None or found.everything or not cell.live:
            return cell, None
        aim = ReplicaSet((found.pairs - cell.removable) | cell.pending)
        return cell, None if aim == found else aim

    def reduced(self, operation_id: str, keep: Pairs, why: Lift) -> ListCell:
        """The operation needs no more than `keep`."""
        share = self.shares.get(operation_id)
        if share is None or not why.lifts(share.state):
            return self
        if why.leaves_on(auto_remove=share.auto_remove):
            state = ShareState.HELD if keep else ShareState.LEFT
            return self._replaced(operation_id, replace(share, state=state))
        given_up = share.pairs - keep
        cell = self._replaced(
            operation_id,
            replace(
                share,
                pairs=share.pairs - given_up,
                given_up=share.given_up | given_up,
                state=ShareState.HELD,
            ),
        )
        return replace(cell, pending=cell.pending - cell.removable)

    def _replaced(self, operation_id: str, share: ListShare) -> ListCell:
        return replace(self, shares={**self.shares, operation_id: share})

    def as_found(self, found: ReplicaSet) -> ListCell | None:
        """What is known after reading; None where nothing is left to know."""
        cell = self.looked_at(found)
        gone = _union(s.given_up for s in cell.shares.values()) - (cell.removable & found.pairs)
        shares = {o: replace(s, given_up=s.given_up - gone) for o, s in cell.shares.items()}
        stay = {o: s for o, s in shares.items() if _stays(s, found)}
        pending = frozenset() if found.everything else cell.pending - found.pairs
        return replace(cell, shares=stay, pending=pending) if stay or pending else None

    def accepted_wider(self, pairs: ReplicaSet) -> ListCell:
        """What somebody else put in stays in the end."""
        return replace(self, prior=(self.prior or ReplicaSet()) | pairs)

    def accepted_narrower(self, found: ReplicaSet, pairs: ReplicaSet) -> ListCell:
        """What somebody else took out does not come back; no share needs it any more."""
        gone = pairs.pairs
        if pairs.everything:
            named = _union(s.pairs for s in self.shares.values()) | self.pending
            gone = named - found.pairs
        prior = found if pairs.everything else (self.prior or ReplicaSet()) - pairs
        shares = {o: replace(s, pairs=s.pairs - gone) for o, s in self.shares.items()}
        return replace(self, prior=prior, shares=shares, pending=self.pending - gone)

    def insisted(self, pairs: Pairs) -> ListCell:
        """With the decision to list again what somebody else took out."""
        return replace(self, pending=self.pending | pairs)

    def adopted(self, operation_id: str, pairs: Pairs, found: ReplicaSet) -> ListCell:
        """What is listed of the pairs becomes the operation's share, and nobody's before."""
        cell = self if self.live and self.prior is not None else self.restarted(found)
        listed = pairs if found.everything else pairs & found.pairs
        if not listed:
            return self
        prior = cell.prior or ReplicaSet()
        cell = replace(cell, prior=prior - ReplicaSet(listed))
        former = cell.shares.get(operation_id, ListShare(frozenset()))
        return cell._replaced(
            operation_id, ListShare(former.pairs | listed, former.given_up - listed)
        )


def _stays(share: ListShare, found: ReplicaSet) -> bool:
    """True while there is something to know of a share."""
    if share.unsettled:
        return bool(share.pairs or share.given_up)
    return any(pair in found for pair in share.pairs)


def _union(sets: Iterable[Pairs]) -> Pairs:
    return frozenset().union(*sets)
