"""The law of `kshunt.backend.operations.ownership.ownership`, held by random walks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.throttles.configs import (
    ReplicaSet,
    ThrottledReplicas,
)
from kshunt.backend.operations.ownership.cells import FoundRate, ListKey, Pairs, RateKey
from kshunt.backend.operations.ownership.drift import ListDrift, RateDrift, accept, drift, reapply
from kshunt.backend.operations.ownership.ownership import (
    FoundSettings,
    ListCellId,
    Ownership,
    OwnershipStep,
    RateCellId,
    Shares,
)
from kshunt.backend.operations.state.ownership_documents import (
    changed_documents,
)
from tests.support.operations.ownership import from_documents
from tests.support.runs.examples import many

RATE_CELLS: tuple[RateCellId, ...] = (
    (1, RateKey.LEADER),
    (1, RateKey.LOG_DIRS),
    (2, RateKey.LEADER),
)
UNTOUCHED_RATE: RateCellId = (3, RateKey.LEADER)
LIST_CELLS: tuple[ListCellId, ...] = (("t", ListKey.LEADERS), ("u", ListKey.FOLLOWERS))
STAR: ListCellId = ("star", ListKey.LEADERS)
PAIRS = tuple((partition, broker) for partition in (0, 1) for broker in (1, 2))

operation_rates = st.sampled_from((10, 20, 30))
foreign_rates = st.sampled_from((None, 7, 8, 9))
pair_sets = st.frozensets(st.sampled_from(PAIRS))
share_pairs = st.fixed_dictionaries({}, optional=dict.fromkeys((*LIST_CELLS, STAR), pair_sets))
share_rates = st.dictionaries(st.sampled_from(RATE_CELLS), operation_rates)
rate_edits = st.tuples(st.sampled_from(RATE_CELLS), foreign_rates)
list_edits = st.tuples(st.sampled_from(LIST_CELLS), pair_sets)
edits = st.lists(rate_edits | list_edits, max_size=2)
cut = st.one_of(st.none(), st.integers(0, 4))
"""After how many writes the backend dies; None: it lives, and reads back."""


@dataclass
class _Rate:
    """What a rate should come to, told from the edits alone."""

    base: int | None
    edit: tuple[int | None] | None = None
    """Somebody else's last value on top of ours."""
    left: dict[str, int] = field(default_factory=dict)

    @property
    def expected(self) -> int | None:
        if self.edit is not None:
            return self.edit[0]
        return min(self.left.values()) if self.left else self.base


@dataclass
class _List:
    """What a list should come to, told from the edits alone."""

    base: Pairs
    added: Pairs = frozenset()
    removed: Pairs = frozenset()
    left: Pairs = frozenset()

    def expected(self, listed: Pairs) -> Pairs:
        return ((self.base | self.added) - self.removed) | (self.left & listed)


class OwnershipLaw(RuleBasedStateMachine):
    """Operations, crashes and foreign edits on one cluster's configuration."""

    @initialize(
        rates=st.lists(st.sampled_from((None, 5, 7)), min_size=3, max_size=3),
        lists=st.lists(pair_sets, min_size=2, max_size=2),
    )
    def a_cluster(self, rates: list[int | None], lists: list[Pairs]) -> None:
        self.rates: dict[RateCellId, int | None] = dict(zip(RATE_CELLS, rates, strict=True))
        self.rates[UNTOUCHED_RATE] = 6
        self.lists = {i: ReplicaSet(p) for i, p in zip(LIST_CELLS, lists, strict=True)}
        self.lists[STAR] = ReplicaSet(everything=True)
        self.ghost_rates = {i: _Rate(self.rates[i]) for i in RATE_CELLS}
        self.ghost_lists = {j: _List(self.lists[j].pairs) for j in LIST_CELLS}
        self.dark: set[int] = set()
        self.own = Ownership()
        self.stored: dict[str, Any] = {}
        self.running: dict[str, dict[RateCellId, int | None]] = {}
        self.keeps: set[str] = set()
        self.over: set[str] = set()
        self.adopted: set[int | None] = set()
        """Rates that were somebody else's and became ours: a later edit sets another one, as
        nothing could tell the two apart."""
        self.count = 0

    # The cluster

    def present(self) -> FoundSettings:
        rates = {
            i: FoundRate(99, ConfigSource.STATIC)
            if own is None
            else FoundRate(own, ConfigSource.DYNAMIC_BROKER)
            for i, own in self.rates.items()
            if i[0] not in self.dark
        }
        return FoundSettings(rates, dict(self.lists))

    def edit(self, cell: Any, value: Any) -> None:
        if cell in RATE_CELLS:
            while value in self.adopted:
                value += 100
            if value == self.rates[cell]:
                return
            self.rates[cell] = value
            if self.live(cell):
                repeats = value == self.own.rates[cell].wanted_bytes_per_s
                self.ghost_rates[cell].edit = None if repeats else (value,)
            else:
                self.ghost_rates[cell].base = value
        else:
            self.edit_list(cell, value)

    def edit_list(self, cell: ListCellId, pairs: Pairs) -> None:
        listed, ghost = self.lists[cell].pairs, self.ghost_lists[cell]
        self.lists[cell] = ReplicaSet(pairs)
        if not self.live(cell):
            ghost.base = pairs
            return
        shares = self.own.lists[cell].shares.values()
        owned = frozenset().union(*(s.pairs | s.given_up for s in shares if s.state != "past"))
        ghost.added = (ghost.added | (pairs - listed - ghost.base - owned)) & pairs
        ghost.removed = (ghost.removed | ((listed - pairs) & ghost.base)) - pairs

    def live(self, cell: Any) -> bool:
        return self.live_in(self.own, cell)

    @staticmethod
    def live_in(own: Ownership, cell: Any) -> bool:
        found: Any = own.rates.get(cell) or own.lists.get(cell)
        return found is not None and found.live

    # The backend

    def carry_out(
        self,
        step: OwnershipStep,
        present: FoundSettings,
        between: Iterable[tuple[Any, Any]] = (),
        dies_after: int | None = None,
        *,
        decided: bool = False,
    ) -> None:
        """Store, write, read back; `decided` says that foreign values may be written over."""
        self.judge(step, present, decided=decided)
        self.keep(step.after)
        planned = {j: (ghost.added, ghost.removed) for j, ghost in self.ghost_lists.items()}
        for cell, value in between:
            self.edit(cell, value)
        writes = [*step.writes.rates.items(), *step.writes.lists.items()]
        for cell, value in writes[:dies_after]:
            self.write(cell, value, planned)
        if dies_after is None:
            self.keep(self.own.confirm(self.present()))
        else:
            self.reload()

    def keep(self, own: Ownership) -> None:
        for key, document in changed_documents(self.own, own).items():
            if document is None:
                del self.stored[key]
            else:
                self.stored[key] = json.loads(json.dumps(document))
        before, self.own = self.own, own
        for i in RATE_CELLS:
            if self.live_in(before, i) and not self.live(i):
                assert self.rates[i] == self.ghost_rates[i].expected, i
                self.ghost_rates[i] = _Rate(self.rates[i])
        for j in LIST_CELLS:
            if self.live_in(before, j) and not self.live(j):
                listed = self.lists[j].pairs
                assert listed == self.ghost_lists[j].expected(listed), j
                self.ghost_lists[j] = _List(listed)

    def judge(self, step: OwnershipStep, present: FoundSettings, *, decided: bool) -> None:
        """No write to what we never touched, and none over a foreign value that we have seen."""
        assert step.writes.rates.keys() <= step.after.rates.keys()
        assert step.writes.lists.keys() <= step.after.lists.keys()
        for i in step.writes.rates:
            own, ghost = present.rates[i].own_bytes_per_s, self.ghost_rates[i]
            if ghost.edit == (own,):
                cell = self.own.rates[i]
                assert decided or cell.prior is None or own in cell.known
                self.ghost_rates[i] = _Rate(own)
        for j, aim in step.writes.lists.items():
            assert j in LIST_CELLS
            if not decided:
                ghosts, pending = self.ghost_lists[j], step.after.lists[j].pending
                assert not aim.pairs & (ghosts.removed - pending)
                assert ghosts.added | (ghosts.left & present.lists[j].pairs) <= aim.pairs

    def write(self, cell: Any, value: Any, planned: Any) -> None:
        """A write ignores what somebody did since it was planned."""
        if cell in self.rates:
            if cell[0] in self.dark:
                return
            self.rates[cell] = value
            self.ghost_rates[cell].edit = None
        else:
            self.lists[cell] = value
            ghost = self.ghost_lists[cell]
            added, removed = planned[cell]
            ghost.added, ghost.removed = added & value.pairs, removed - value.pairs

    @rule()
    def another_backend_takes_over(self) -> None:
        self.reload()

    def reload(self) -> None:
        self.own = from_documents(self.stored)

    # What happens

    @rule(rates=share_rates, lists=share_pairs, keeps=st.booleans(), between=edits, dies=cut)
    def begin(self, rates: Any, lists: Any, keeps: bool, between: Any, dies: int | None) -> None:
        self.count += 1
        operation = f"op-{self.count}"
        present = self.present()
        for j, pairs in lists.items():
            if self.live(j) and j in LIST_CELLS:
                ghost = self.ghost_lists[j]
                ghost.base = (ghost.base | (ghost.added & pairs)) - (ghost.removed & pairs)
                ghost.added, ghost.removed = ghost.added - pairs, ghost.removed - pairs
        shares = Shares(rates, {j: pairs for j, pairs in lists.items() if pairs})
        step = self.own.record(operation, shares, present, auto_remove=not keeps)
        self.running[operation] = {**rates}
        if keeps:
            self.keeps.add(operation)
        self.carry_out(step, present, between, dies, decided=True)

    def pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.running)))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), rate=st.none() | operation_rates, between=edits, dies=cut)
    def change(self, data: Any, rate: int | None, between: Any, dies: int | None) -> None:
        operation, present = self.pick(data), self.present()
        mine: dict[RateCellId, int | None] = dict.fromkeys(self.running[operation], rate)
        step = self.own.change(operation, mine, present)
        self.running[operation] = mine
        self.carry_out(step, present, between, dies, decided=rate is not None)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), keep=share_pairs, between=edits, dies=cut)
    def reduce(self, data: Any, keep: Any, between: Any, dies: int | None) -> None:
        operation, present = self.pick(data), self.present()
        if operation not in self.keeps:
            shares = Shares(dict.fromkeys(RATE_CELLS, 0), keep)
            step = self.own.reduce(operation, shares, present)
            self.carry_out(step, present, between, dies)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), between=edits, dies=cut)
    def end(self, data: Any, between: Any, dies: int | None) -> None:
        self.end_one(self.pick(data), between, dies)

    def end_one(self, operation: str, between: Any = (), dies: int | None = None) -> None:
        if operation in self.keeps:
            self.dark.clear()
            self.tick()
            for i, cell in self.own.rates.items():
                if cell.holds(operation) and (rate := cell.shares[operation].rate_bytes_per_s):
                    self.ghost_rates[i].left[operation] = rate
            for j in LIST_CELLS:
                if j in self.own.lists and self.own.lists[j].holds(operation):
                    self.ghost_lists[j].left |= self.own.lists[j].shares[operation].pairs
        del self.running[operation]
        self.over.add(operation)
        present = self.present()
        self.carry_out(self.own.lift(operation, present), present, between, dies)

    @rule(between=edits, dies=cut)
    def backend_goes_on(self, between: Any, dies: int | None) -> None:
        self.goes_on(between, dies)

    def goes_on(self, between: Any = (), dies: int | None = None) -> None:
        present = self.present()
        self.keep(self.own.confirm(present))
        self.carry_out(self.own.outstanding(present), present, between, dies)

    @rule()
    def a_quiet_while(self) -> None:
        self.tick()

    def tick(self) -> None:
        """A quiet while: what was decided takes hold, and no share of a running one is gone."""
        self.goes_on()
        self.goes_on()
        present = self.present()
        assert not self.own.outstanding(present).writes
        for operation, rates in self.running.items():
            for i in rates:
                if i[0] not in self.dark and i in self.own.rates:
                    wish = self.own.rates[i].shares[operation].rate_bytes_per_s
                    found, edited = self.rates[i], self.ghost_rates[i].edit is not None
                    assert wish is None or edited or (found is not None and found <= wish)
        for one in drift(self.own, present):
            assert isinstance(one, ListDrift) or self.ghost_rates[one.broker, one.key].edit

    @rule(edit=rate_edits | list_edits)
    def somebody_edits(self, edit: Any) -> None:
        self.edit(*edit)

    @rule(broker=st.sampled_from((1, 2)))
    def a_broker_goes_or_comes(self, broker: int) -> None:
        self.dark ^= {broker}

    @rule(keep_theirs=st.booleans(), data=st.data(), between=edits, dies=cut)
    def decide(self, keep_theirs: bool, data: Any, between: Any, dies: int | None) -> None:
        present = self.present()
        found = drift(self.own, present)
        chosen = [one for one in found if data.draw(st.booleans())]
        verb: Callable[..., OwnershipStep] = accept if keep_theirs else reapply
        step = verb(self.own, chosen, present)
        assert not (keep_theirs and step.writes)
        for one in chosen:
            self.note(one, keep_theirs=keep_theirs)
        self.carry_out(step, present, between, dies, decided=True)

    def note(self, one: RateDrift | ListDrift, *, keep_theirs: bool) -> None:
        if isinstance(one, RateDrift):
            ghost = self.ghost_rates[one.broker, one.key]
            assert ghost.edit == (one.found.own_bytes_per_s,)
            if keep_theirs:
                ghost.base, ghost.left = ghost.edit[0], {}
            ghost.edit = None
            return
        listed, pairs = self.ghost_lists.get((one.topic, one.key)), one.replicas.pairs
        assert listed is not None
        if keep_theirs and one.kind == "widened":
            listed.base, listed.added = listed.base | pairs, listed.added - pairs
        elif one.kind == "narrowed":
            if keep_theirs:
                listed.base, listed.left = listed.base - pairs, listed.left - pairs
            listed.removed -= pairs

    @rule(broker=st.sampled_from((1, 2)), pairs=pair_sets, between=edits, dies=cut)
    def adopt(self, broker: int, pairs: Pairs, between: Any, dies: int | None) -> None:
        self.count += 1
        operation, present = f"op-{self.count}", self.present()
        wanted = {"t": ThrottledReplicas(leaders=ReplicaSet(pairs))}
        step = self.own.adopt(operation, (broker,), wanted, present)
        adopted: dict[RateCellId, int | None] = {}
        for i in RATE_CELLS:
            if i in step.after.rates and operation in step.after.rates[i].shares:
                ghost, cell = self.ghost_rates[i], self.own.rates.get(i)
                ours = cell is not None and cell.live and cell.prior is not None
                if cell is not None and not cell.rates_bytes_per_s:
                    waits = self.rates[i] in cell.known
                    ours = ours and waits and self.rates[i] != cell.wanted_bytes_per_s
                ghost.base, ghost.edit = ghost.base if ours else None, None
                adopted[i] = self.rates[i]
                self.adopted.add(self.rates[i])
        listed = self.ghost_lists["t", ListKey.LEADERS]
        taken = pairs & self.lists["t", ListKey.LEADERS].pairs
        listed.base, listed.added = listed.base - taken, listed.added - taken
        self.running[operation] = adopted
        self.carry_out(step, present, between, dies, decided=True)

    @invariant()
    def what_is_stored_is_what_is_known(self) -> None:
        if hasattr(self, "own"):
            assert from_documents(self.stored) == self.own

    @invariant()
    def what_we_never_touch_stays(self) -> None:
        if hasattr(self, "own"):
            assert self.rates[UNTOUCHED_RATE] == 6
            assert self.lists[STAR].everything

    def teardown(self) -> None:
        if not hasattr(self, "own"):
            return
        self.dark.clear()
        for operation in list(self.running):
            if operation in self.keeps:
                self.end_one(operation)
        for operation in list(self.running):
            self.end_one(operation)
        for _ in range(2):
            for operation in sorted(self.over):
                present = self.present()
                self.carry_out(self.own.lift(operation, present), present)
        assert not self.own.in_force()
        for operation in self.over:
            assert not self.own.unlifted(operation)
            assert not self.own.lift(operation, self.present()).writes
        assert {i: self.rates[i] for i in RATE_CELLS} == {
            i: ghost.expected for i, ghost in self.ghost_rates.items()
        }


OwnershipLaw.TestCase.settings = settings(
    max_examples=many(100),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestOwnershipLaw = OwnershipLaw.TestCase
