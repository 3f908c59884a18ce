"""What every throttle should come to, told from what happened: the law of owned throttles.

A ghost follows one setting. It knows the initial value, what somebody else edited, and what an
operation was told to leave on; the exceptions are those that
`kshunt.backend.operations.ownership.ownership` names. Of the product it looks at what the journal
says: which operation claims which share, and when a decision was written. The claims themselves are
checked against the operations' plans.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.throttles.configs import (
    NO_REPLICAS,
    ReplicaSet,
    brokers_of,
    throttled_replicas_of,
)
from kshunt.backend.domain.throttles.owners import ShareState
from kshunt.backend.operations.core.known_operations import KnownOperations
from kshunt.backend.operations.ownership.cells import (
    ListCell,
    ListKey,
    Pairs,
    RateCell,
    RateKey,
)
from kshunt.backend.operations.ownership.ownership import ListCellId, RateCellId
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from tests.support.operations.engine_world import BROKER, TOPIC, Effect, World

NOTHING: Pairs = frozenset()


@dataclass
class RateGhost:
    """What one rate of one broker should come to."""

    base: int | None
    edit: tuple[int | None] | None = None
    """Somebody else's last value on top of ours."""
    left: dict[str, int] = field(default_factory=dict)
    beneath: tuple[int | None, int | None] | None = None
    """The base while nothing but what was left on is there, and the base without that."""

    @property
    def expected(self) -> int | None:
        if self.edit is not None:
            return self.edit[0]
        return min(self.left.values()) if self.left else self.base


@dataclass(frozen=True)
class ListGhost:
    """What one list of one topic should come to."""

    base: Pairs
    added: Pairs = NOTHING
    removed: Pairs = NOTHING
    left: Pairs = NOTHING
    base_left: Pairs = NOTHING
    """Of the base, what is there only because it was left on."""

    def expected(self, listed: Pairs) -> Pairs:
        return ((self.base | self.added) - self.removed) | (self.left & listed)


def rate_of(text: str | None) -> int | None:
    return None if text is None else int(text)


def pairs_of(text: str | None) -> Pairs:
    return ReplicaSet.parse(text or "").pairs


def needed_by(work: ReassignmentWork, topic: str, side: ListKey) -> Pairs:
    """What an operation may claim of a list: what its plan copies, and copies that it holds.

    Somebody else may have moved a replica away that the plan finds in its place. Then it is
    copied, too.
    """
    needed = throttled_replicas_of(work.moves.values()).get(topic, NO_REPLICAS)
    if side is ListKey.LEADERS:
        return needed.leaders.pairs
    held = {} if work.pause is None else work.pause.added
    return needed.followers.pairs | held.get(topic, ReplicaSet()).pairs


class Ghosts:
    """All settings of a world. `by_operator` are those that the verb at work may set directly."""

    def __init__(self, world: World) -> None:
        self.world = world
        brokers, topics = range(1, world.cluster.brokers + 1), sorted(world.cluster.image.topics)
        self.rates = {(b, key): RateGhost(self.rate((b, key))) for b in brokers for key in RateKey}
        self.lists = {
            (t, key): ListGhost(self.listed((t, key)))
            for t in topics
            for key in ListKey
            if world.config(TOPIC, t, key) != "*"
        }
        self.planned = dict(self.lists)
        """The lists' ghosts when the backend decided: it does not see later edits."""
        self.stars = [(t, key) for t in topics for key in ListKey if (t, key) not in self.lists]
        self.by_operator: Callable[[Effect], bool] = lambda effect: False
        self.reapplied_rates: Collection[RateCellId] = ()
        self.reapplied: Mapping[ListCellId, Pairs] = {}
        self.freed: Collection[RateCellId] = ()
        world.effected = self.on_effect
        world.committed = self.on_commit

    # The cluster

    def rate(self, cell: RateCellId) -> int | None:
        return rate_of(self.world.config(BROKER, str(cell[0]), cell[1]))

    def listed(self, cell: ListCellId) -> Pairs:
        return pairs_of(self.world.config(TOPIC, *cell))

    # What the journal says

    def rate_cell(self, cell: RateCellId) -> RateCell | None:
        return self.world.known.ownership.rates.get(cell)

    def list_cell(self, cell: ListCellId) -> ListCell | None:
        return self.world.known.ownership.lists.get(cell)

    def owned(self, cell: ListCellId) -> Pairs:
        found = self.list_cell(cell)
        shares = () if found is None else found.shares.values()
        return NOTHING.union(*(s.pairs | s.given_up for s in shares if s.state != ShareState.PAST))

    # Somebody else

    def set_rate(self, cell: RateCellId, value: int | None) -> None:
        """Somebody else sets a rate, or deletes it."""
        if value != self.rate(cell):
            self.world.set(BROKER, str(cell[0]), cell[1], None if value is None else str(value))
            self.rate_edited(cell, value)

    def rate_edited(self, cell: RateCellId, value: int | None) -> None:
        found, ghost = self.rate_cell(cell), self.rates[cell]
        if found is None or not found.live:
            ghost.base, ghost.edit, ghost.left, ghost.beneath = value, None, {}, None
        else:
            ghost.edit = None if value == found.wanted_bytes_per_s else (value,)

    def set_list(self, cell: ListCellId, pairs: Pairs) -> None:
        """Somebody else sets a list."""
        before = self.listed(cell)
        if cell in self.lists and pairs != before:
            self.world.set(TOPIC, *cell, str(ReplicaSet(pairs)) or None)
            self.list_edited(cell, before, pairs)

    def list_edited(self, cell: ListCellId, before: Pairs, pairs: Pairs) -> None:
        found, ghost = self.list_cell(cell), self.lists[cell]
        if found is None or not found.live:
            self.lists[cell] = ListGhost(pairs, base_left=ghost.base_left & pairs)
            self.planned[cell] = self.lists[cell]
            return
        foreign = pairs - before - ghost.base - self.owned(cell)
        self.lists[cell] = replace(
            ghost,
            added=(ghost.added | foreign) & pairs,
            removed=(ghost.removed | ((before - pairs) & ghost.base)) - pairs,
        )

    # A backend writes

    def on_effect(self, effect: Effect) -> None:
        if effect.kind == BROKER:
            self.rate_written((int(effect.name), RateKey(effect.key)), effect)
        elif effect.kind == TOPIC:
            self.list_written((effect.name, ListKey(effect.key)), effect)

    def rate_written(self, cell: RateCellId, effect: Effect) -> None:
        found, ghost = self.rate_cell(cell), self.rates[cell]
        old, new, seen = rate_of(effect.old), rate_of(effect.new), rate_of(effect.seen)
        if found is not None and found.live and new == found.wanted_bytes_per_s:
            if old != seen or self.by_operator(effect):
                ghost.edit = None
                return
            ours = found.prior is None or old in found.known
            assert ours, f"{effect} writes over what somebody else has set"
            if ghost.edit == (old,):
                self.rates[cell] = RateGhost(old)
            return
        stale = old != seen and new == seen
        assert stale or self.by_operator(effect), f"nobody decided {effect}"
        self.rate_edited(cell, new)

    def list_written(self, cell: ListCellId, effect: Effect) -> None:
        assert cell in self.lists, f"{effect} writes over *"
        old, new, seen = pairs_of(effect.old), pairs_of(effect.new), pairs_of(effect.seen)
        ghost, plan = self.lists[cell], self.planned[cell]
        if self.by_operator(effect):
            self.list_edited(cell, old, new)
            return
        lost = ((plan.base | plan.added) - plan.removed) & (seen - new)
        allowed = self.reapplied.get(cell, NOTHING)
        assert not lost - allowed, f"{effect} takes off what somebody else has listed: {lost}"
        found = self.list_cell(cell)
        decided = NOTHING if found is None else found.pending
        more = (new - seen) - self.owned(cell) - decided
        assert not more, f"{effect} lists what no operation needs: {more}"
        self.lists[cell] = replace(ghost, added=plan.added & new, removed=plan.removed - new)
        self.planned[cell] = self.lists[cell]

    # A backend decides

    def on_commit(self, before: KnownOperations, after: KnownOperations) -> None:
        new = [after.operations[o] for o in after.operations.keys() - before.operations.keys()]
        kinds = {operation.kind for operation in new}
        self.check_claims(after)
        for cell, ghost in self.rates.items():
            was = before.ownership.rates.get(cell, RateCell(None))
            now = after.ownership.rates.get(cell, RateCell(None))
            if OperationKind.ADOPT in kinds and any(now.holds(o.id) for o in new):
                self.rate_adopted(cell, was)
            self.rate_decided(cell, ghost, was, now)
            if OperationKind.DRIFT in kinds and cell in self.reapplied_rates:
                ghost.edit = None
            if OperationKind.THROTTLED_RATES in kinds and cell in self.freed and was.held_rates:
                self.rate_freed(ghost, was, now)
            if was.live and not now.live:
                actual = self.rate(cell)
                ghost = self.rates[cell]
                assert actual in self.may_be(ghost, was), f"{cell} {actual} {ghost}"
                beneath = (actual, ghost.base) if ghost.left and ghost.edit is None else None
                self.rates[cell] = RateGhost(actual, beneath=beneath)
        for key in self.lists:
            was_list = before.ownership.lists.get(key, ListCell(None))
            now_list = after.ownership.lists.get(key, ListCell(None))
            self.list_decided(key, was_list, now_list)
            if OperationKind.ADOPT in kinds:
                adopted = NOTHING.union(
                    *(s.pairs for o in new if (s := now_list.shares.get(o.id)) is not None)
                )
                ghost_list = self.lists[key]
                self.lists[key] = replace(
                    ghost_list, base=ghost_list.base - adopted, added=ghost_list.added - adopted
                )
            if OperationKind.DRIFT in kinds:
                back = self.reapplied.get(key, NOTHING)
                self.lists[key] = replace(self.lists[key], removed=self.lists[key].removed - back)
            if was_list.live and not now_list.live:
                listed = self.listed(key)
                expected = self.lists[key].expected(listed)
                assert listed == expected, f"{key} lists {sorted(listed)}, not {sorted(expected)}"
                base_left = listed - self.lists[key].expected(NOTHING)
                self.lists[key] = ListGhost(listed, base_left=base_left)
        self.planned = dict(self.lists)

    def rate_decided(
        self, cell: RateCellId, ghost: RateGhost, was: RateCell, now: RateCell
    ) -> None:
        back = None if now.prior in (None, was.prior) else now.prior
        if back is not None and ghost.edit == (back.own_bytes_per_s,):
            # What was edited is what comes back: that changes nothing of what is expected.
            ghost.base, ghost.edit, ghost.left = ghost.edit[0], None, {}
        for o, share in now.shares.items():
            former = was.shares.get(o)
            withdrawn = former is not None and former.state is ShareState.LEFT
            if withdrawn and share.state is ShareState.ENDING:
                ghost.left.pop(o, None)
                if ghost.beneath is not None and ghost.base == ghost.beneath[0]:
                    ghost.base = ghost.beneath[1]
                ghost.beneath = None
            left = share.state is ShareState.LEFT and share.rate_bytes_per_s is not None
            if left and former is not None and former.state is ShareState.HELD:
                ghost.left[o] = share.rate_bytes_per_s or 0

    def may_be(self, ghost: RateGhost, was: RateCell) -> Collection[int | None]:
        """What a rate may be that no operation needs any more.

        What is left on a broker that does not answer is what was written there last.
        """
        left_on = ghost.edit is None and ghost.left
        return {ghost.expected, ghost.base, *was.known} if left_on else {ghost.expected}

    def rate_freed(self, ghost: RateGhost, was: RateCell, now: RateCell) -> None:
        """An operator wants no rate any more; what could not be read stays."""
        if was.prior is not None:
            ghost.base, ghost.left = None, {}
        if ghost.edit is not None and ghost.edit[0] in now.known:
            ghost.edit = None

    def rate_adopted(self, cell: RateCellId, was: RateCell) -> None:
        ghost, actual = self.rates[cell], self.rate(cell)
        ours = was.live and was.prior is not None
        if not was.rates_bytes_per_s:
            ours = ours and actual in was.known and actual != was.wanted_bytes_per_s
        ghost.base, ghost.edit = ghost.base if ours else None, None

    def list_decided(self, key: ListCellId, was: ListCell, now: ListCell) -> None:
        ghost = self.lists[key]
        then = NOTHING if was.prior is None else was.prior.pairs
        back = NOTHING if now.prior is None else now.prior.pairs
        noticed, given_up = ghost.added & (back - then), ghost.removed & (then - back)
        left = NOTHING.union(
            *(
                share.pairs
                for o, share in now.shares.items()
                if share.state is ShareState.LEFT
                and (former := was.shares.get(o)) is not None
                and former.state is ShareState.HELD
            )
        )
        shares = now.shares.values()
        still_left = NOTHING.union(*(s.pairs for s in shares if s.state is ShareState.LEFT))
        withdrawn = (ghost.base_left - still_left) & NOTHING.union(
            *(
                share.given_up
                for o, share in now.shares.items()
                if share.state is ShareState.HELD
                and (former := was.shares.get(o)) is not None
                and former.state is ShareState.LEFT
            )
        )
        self.lists[key] = ListGhost(
            (ghost.base | noticed) - given_up - withdrawn,
            ghost.added - noticed,
            ghost.removed - given_up,
            (ghost.left | left) - given_up - withdrawn,
            ghost.base_left - withdrawn,
        )

    def check_claims(self, known: KnownOperations) -> None:
        """No operation claims more than its plan needs."""
        for (broker, key), cell in known.ownership.rates.items():
            for o in cell.shares:
                if (work := known.works.get(o)) is not None:
                    assert broker in brokers_of(work.moves.values()), f"{o} claims {broker} {key}"
        for (topic, side), list_cell in known.ownership.lists.items():
            for o, share in list_cell.shares.items():
                if (work := known.works.get(o)) is not None:
                    assert share.pairs <= needed_by(work, topic, side), f"{o} claims {share.pairs}"

    # In the end

    def check(self) -> None:
        """Every setting is what the law says."""
        for cell, ghost in self.rates.items():
            assert self.rate(cell) == ghost.expected, f"{cell}: {self.rate(cell)}, {ghost}"
        for key, ghost_list in self.lists.items():
            listed = self.listed(key)
            expected = ghost_list.expected(listed)
            assert listed == expected, f"{key}: {sorted(listed)}, {ghost_list}"
        for topic, side in self.stars:
            assert self.world.config(TOPIC, topic, side) == "*"
