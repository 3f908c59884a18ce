"""The law of the engine, held by random walks: whatever happens, throttles and moves end well.

Operations, pauses, cancellations, edits and moves of somebody else, brokers that stop, lost
answers and crashes at any call, on one simulated clock. In the end every throttle is what
`tests.support.operations.expected_throttles` says, and every partition is where its last move
leads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
)

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.lifecycle import TRANSITIONS, OperationState
from kshunt.backend.domain.operations.operation import Operation, OperationKind
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.domain.throttles.owners import ShareState
from kshunt.backend.errors import KshuntError
from kshunt.backend.operations.core.known_operations import KnownOperations
from kshunt.backend.operations.moves.schedule import Caps
from kshunt.backend.operations.operation_control import PAUSABLE, RESUMABLE, UNDOABLE
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.ownership.drift import ListDrift, RateDrift
from kshunt.backend.operations.ownership.ownership import ListCellId, RateCellId
from kshunt.backend.operations.reassignment.starting import ReassignRequest
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.throttles.repair import change_id
from tests.support.operations.engine_backend import TIMEOUT_S, Backend
from tests.support.operations.engine_world import BROKER, TOPIC, Crash, Effect, Fault, World
from tests.support.operations.expected_throttles import Ghosts, pairs_of
from tests.support.runs.examples import many

MB = 1_000_000
BROKERS = 5
TOPICS: dict[str, list[tuple[int, ...]]] = {
    "a": [(1, 2), (2, 3), (3, 1)],
    "b": [(1, 2), (4, 5)],
    "star": [(2, 4)],
}
PARTITIONS = [TopicPartition(t, n) for t, where in TOPICS.items() for n in range(len(where))]
STATES = OperationState
SECONDS_MAX = 3_000
"""By then everything must have ended, once nobody interferes any more."""

brokers = st.integers(1, BROKERS)
targets = st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple)
plans = st.dictionaries(st.sampled_from(PARTITIONS), targets, min_size=1, max_size=3)
our_rates = st.sampled_from((300_000, 500_000, 900_000))
any_one = st.integers(0, 7)
rate_cells = st.tuples(brokers, st.sampled_from((RateKey.LEADER, RateKey.FOLLOWER)))
list_cells = st.tuples(st.sampled_from(("a", "b")), st.sampled_from(tuple(ListKey)))
pairs = st.tuples(st.integers(0, 2), brokers)
pair_sets = st.frozensets(pairs, max_size=3)


@dataclass(frozen=True)
class Edit:
    """What somebody else edits; mostly, where an operation throttles."""

    which: int
    """Of the settings that operations throttle, or of all."""
    anywhere: bool
    deletes: bool
    """A rate."""
    pairs: frozenset[tuple[int, int]]
    """Entries of a list that somebody adds or takes out."""


@dataclass(frozen=True)
class Trouble:
    """What goes wrong while a backend is at work."""

    faults: Mapping[int, Fault]
    edit: Edit


edits = st.builds(Edit, st.integers(0, 30), st.booleans(), st.booleans(), pair_sets)
CALM = Trouble({}, Edit(0, False, False, frozenset()))
fault_plans = st.dictionaries(
    st.integers(0, 30), st.sampled_from(tuple(Fault)), min_size=1, max_size=2
)
troubles = st.one_of(st.just(CALM), st.builds(Trouble, fault_plans, edits))


class EngineLaw(RuleBasedStateMachine):
    """See the module's text."""

    @initialize(
        rates=st.dictionaries(rate_cells, st.integers(20 * MB, 21 * MB), max_size=3),
        lists=st.dictionaries(list_cells, pair_sets, max_size=3),
        default=st.booleans(),
    )
    def a_cluster(self, rates: Any, lists: Any, default: bool) -> None:
        self.world = World(BROKERS)
        for topic, where in TOPICS.items():
            self.world.cluster.create(topic, *where)
            self.world.cluster.fill(topic, 10 * MB)
        if default:
            self.world.set(BROKER, "", RateKey.LEADER, str(40 * MB))
        for (broker, key), rate in rates.items():
            self.world.set(BROKER, str(broker), key, str(rate))
        for (topic, side), listed in lists.items():
            self.world.set(TOPIC, topic, side, str(ReplicaSet(listed)) or None)
        self.world.set(TOPIC, "star", ListKey.LEADERS, "*")
        self.ghosts = Ghosts(self.world)
        self.ghosts.by_operator = self.cleared_late
        self.world.effected, self.world.committed = self.on_effect, self.on_commit
        self.broken: AssertionError | None = None
        """What was seen to be wrong; the engine itself continues where one of its steps fails."""
        self.unique = 1_200_000
        self.moved: dict[TopicPartition, tuple[str, bool]] = {}
        """The operation that moved a partition last, and whether it was still before."""
        self.backend = Backend(self.world)

    # What is watched

    def on_effect(self, effect: Effect) -> None:
        with self.watched():
            if effect.kind == 0:
                self.check_move_is_meant(effect)
            self.ghosts.on_effect(effect)

    @contextmanager
    def watched(self) -> Iterator[None]:
        try:
            yield
        except AssertionError as broken:
            self.broken = broken
            raise Crash from broken

    def check_move_is_meant(self, effect: Effect) -> None:
        """A move, or its cancellation, is in the journal before it is asked for."""
        known = self.world.known
        topic, _, number = effect.name.rpartition("-")
        partition = TopicPartition(topic, int(number))
        unfinished = [o for o in known.operations.values() if not o.state.ended]
        works = {o.id: w for o in unfinished if (w := known.works.get(o.id)) is not None}
        if effect.new is None:
            cancels = any(o.kind is OperationKind.CANCEL for o in unfinished)
            assert cancels or any(partition in w.cancelled for w in works.values()), effect
            return
        meant = [
            one
            for one, w in works.items()
            if partition in w.unanswered and str(list(w.moves[partition].target)) == effect.new
        ]
        assert meant, f"{effect} is not in the journal"
        where = self.world.cluster.at(*partition).replicas
        was_still = where == works[meant[-1]].moves[partition].current
        self.moved[partition] = (meant[-1], was_still and partition not in self.world.ongoing)

    def on_commit(self, before: KnownOperations, after: KnownOperations) -> None:
        with self.watched():
            for operation in after.operations.values():
                former = before.operations.get(operation.id)
                if former is None:
                    assert operation.state is STATES.STARTING
                elif former.state is not operation.state:
                    legal = TRANSITIONS[former.state]
                    assert operation.state in legal, f"{former} becomes {operation.state}"
            self.ghosts.on_commit(before, after)

    # How a backend is asked

    def ask(
        self,
        verb: Callable[[Backend], Coroutine[Any, Any, object]],
        trouble: Trouble = CALM,
    ) -> None:
        """Let the backend do something, or fail at it."""
        self.world.plan_faults(trouble.faults)
        self.world.edit = lambda: self.edit(trouble.edit)
        try:
            self.world.run(self.backend.registry.resolve())
            self.world.run(verb(self.backend))
        except (KshuntError, Crash):
            pass
        finally:
            self.world.plan_faults({})
            self.ghosts.by_operator = self.cleared_late
            self.ghosts.reapplied, self.ghosts.reapplied_rates = {}, ()
            self.ghosts.freed = ()
        if self.broken is not None:
            raise self.broken
        for operation in self.backend.registry:
            assert "see also the backend's log" not in operation.outcome, operation.outcome
        if self.world.writer is not self.backend or not self.backend.alive:
            self.take_over()
        self.world.cluster.pass_s(0.001)

    def cleared_late(self, effect: Effect) -> bool:
        """Whether an open cancellation, of moves that others started, clears their throttles."""
        known = self.world.known
        numbers = {
            (topic, number)
            for one in known.operations.values()
            if one.kind is OperationKind.CANCEL and not one.state.ended
            if not one.details.preserve_throttles
            for topic, number, target in one.details.returning or ()
            if target is not None and not self.moved_by_us(TopicPartition(topic, number), target)
        }
        if effect.kind == BROKER:
            return effect.new is None and bool(numbers)
        changed = pairs_of(effect.old) ^ pairs_of(effect.new)
        return {(effect.name, n) for n, _ in changed} <= numbers

    def moved_by_us(self, partition: TopicPartition, target: tuple[int, ...]) -> bool:
        works = self.world.known.works.values()
        return any(partition in w.moves and w.moves[partition].target == target for w in works)

    def take_over(self) -> None:
        """Another backend finds what the journal says, and acts; the former one does nothing."""
        old, self.backend = self.backend, Backend(self.world, "next")
        if old.alive:
            watch, self.world.effected = self.world.effected, self.nothing_may_happen
            self.world.run(old.engine.tick())
            self.world.effected = watch
        self.world.run(self.backend.engine.recover(self.backend.registry.unfinished))

    def nothing_may_happen(self, effect: Effect) -> None:
        with self.watched():
            raise AssertionError(f"a backend that acts no more did {effect}")

    def operations(
        self, states: Collection[OperationState]
    ) -> list[tuple[Operation, ReassignmentWork]]:
        registry = self.backend.registry
        found = ((o, registry.work(o.id)) for o in registry if o.state in states)
        return sorted(
            [(o, work) for o, work in found if work is not None], key=lambda one: one[0].started_ms
        )

    def pick(self, which: int, states: Collection[OperationState]) -> str | None:
        found = self.operations(states)
        return found[which % len(found)][0].id if found else None

    def another_rate(self) -> int:
        self.unique += 1
        return self.unique

    # Operators, through us

    @rule(
        plan=plans,
        rate=st.none() | our_rates,
        keeps=st.integers(0, 3),
        caps=st.none() | st.just(Caps(1, 2)),
        trouble=troubles,
    )
    def start(self, plan: Any, rate: Any, keeps: int, caps: Any, trouble: Trouble) -> None:
        request = ReassignRequest(
            ReassignmentPlan(plan),
            throttle_bytes_per_s=rate,
            auto_remove_throttle=keeps != 3,
            additional=True,
            caps=caps,
        )
        self.ask(lambda backend: backend.reassignments.start(request), trouble)

    @rule(
        which=any_one,
        more=st.just({}) | plans,
        rate=st.none() | our_rates,
        keeps=st.integers(0, 3),
        trouble=troubles,
    )
    def start_again(self, which: int, more: Any, rate: Any, keeps: int, trouble: Trouble) -> None:
        """The plan of an operation once more, or a larger one."""
        found = self.operations(set(STATES) - UNDOABLE)
        if found:
            work = found[which % len(found)][1]
            self.start(
                plan={**more, **{p: move.target for p, move in work.moves.items()}},
                rate=rate,
                keeps=keeps,
                caps=None,
                trouble=trouble,
            )

    @rule(broker=brokers, leader=st.booleans(), follower=st.booleans(), trouble=troubles)
    def alter_rates(self, broker: int, leader: bool, follower: bool, trouble: Trouble) -> None:
        rate = ThrottledRate(
            self.another_rate() if leader else None, self.another_rate() if follower else None
        )
        both: list[tuple[RateCellId, int | None]] = [
            ((broker, RateKey.LEADER), rate.leader_bytes_per_s),
            ((broker, RateKey.FOLLOWER), rate.follower_bytes_per_s),
        ]
        self.ghosts.freed = [cell for cell, value in both if value is None]
        self.ghosts.by_operator = lambda effect: (
            effect.kind == BROKER and effect.name == str(broker)
        )
        self.ask(
            lambda backend: backend.throttles.alter_rates({broker: rate}, Change()),
            trouble,
        )

    @rule(
        topic=st.sampled_from(("a", "b")),
        leaders=pair_sets,
        followers=pair_sets,
        trouble=troubles,
    )
    def alter_replicas(self, topic: str, leaders: Any, followers: Any, trouble: Trouble) -> None:
        wanted = {topic: ThrottledReplicas(ReplicaSet(leaders), ReplicaSet(followers))}
        self.ghosts.by_operator = lambda effect: effect.kind == TOPIC and effect.name == topic
        self.ask(
            lambda backend: backend.throttles.alter_replicas(wanted, Change()),
            trouble,
        )

    @rule(
        chosen=st.sets(st.sampled_from(PARTITIONS), min_size=1),
        preserve=st.booleans(),
        trouble=troubles,
    )
    def cancel(self, chosen: Any, preserve: bool, trouble: Trouble) -> None:
        self.cancel_these(sorted(chosen), preserve=preserve, trouble=trouble)

    @rule(which=any_one, preserve=st.booleans(), trouble=troubles)
    def cancel_one(self, which: int, preserve: bool, trouble: Trouble) -> None:
        found = self.operations(set(STATES) - UNDOABLE)
        if found:
            _, work = found[which % len(found)]
            self.cancel_these(sorted(work.moves), preserve=preserve, trouble=trouble)

    def cancel_these(
        self, chosen: list[TopicPartition], *, preserve: bool, trouble: Trouble
    ) -> None:
        """What others throttled for what is cancelled goes too, where no operation needs it."""
        numbers = {(p.topic, p.partition) for p in chosen}

        def clears(effect: Effect) -> bool:
            if effect.kind == BROKER:
                return effect.new is None and not preserve
            changed = pairs_of(effect.old) ^ pairs_of(effect.new)
            return not preserve and {(effect.name, n) for n, _ in changed} <= numbers

        self.ghosts.by_operator = clears
        self.ask(
            lambda backend: backend.reassignments.cancel(
                chosen, Change(), preserve_throttles=preserve, timeout_s=TIMEOUT_S
            ),
            trouble,
        )

    @rule(which=any_one, trouble=troubles)
    def pause(self, which: int, trouble: Trouble) -> None:
        if one := self.pick(which, PAUSABLE):
            self.ask(lambda b: b.operation_control.pause(one, Change()), trouble)

    @rule(which=any_one, trouble=troubles)
    def resume(self, which: int, trouble: Trouble) -> None:
        if one := self.pick(which, RESUMABLE):
            self.ask(lambda b: b.operation_control.resume(one, Change()), trouble)

    @rule(which=any_one, trouble=troubles)
    def undo(self, which: int, trouble: Trouble) -> None:
        if one := self.pick(which, UNDOABLE):
            self.ask(
                lambda b: b.operation_control.undo(one, Change(), timeout_s=TIMEOUT_S),
                trouble,
            )

    @rule(trouble=troubles)
    def adopt(self, trouble: Trouble) -> None:
        self.ask(lambda b: b.operation_control.adopt(None, Change()), trouble)

    @rule(ours=st.booleans(), some=st.integers(1, 15), trouble=troubles)
    def reapply_or_accept(self, ours: bool, some: int, trouble: Trouble) -> None:
        found = self.world.run(self.backend.mending.drift())
        chosen = [one for at, one in enumerate(found) if some >> (at % 4) & 1]
        if not chosen:
            return
        if ours:
            self.ghosts.reapplied_rates = [
                (one.broker, one.key) for one in chosen if isinstance(one, RateDrift)
            ]
            back: dict[ListCellId, frozenset[tuple[int, int]]] = {}
            for one in chosen:
                if isinstance(one, ListDrift):
                    cell = (one.topic, one.key)
                    back[cell] = back.get(cell, frozenset()) | one.replicas.pairs
            self.ghosts.reapplied = back
        ids = [change_id(one) for one in chosen]
        self.ask(lambda b: b.mending.reapply_or_accept(ids, Change(), ours=ours), trouble)

    # Somebody else

    @rule(edit=edits)
    def somebody_edits(self, edit: Edit) -> None:
        self.edit(edit)

    def edit(self, edit: Edit) -> None:
        ghosts = self.ghosts
        rates = [i for i in ghosts.rates if i[1] is not RateKey.LOG_DIRS]
        lists = list(ghosts.lists)
        if not edit.anywhere:
            rates = [i for i in rates if (cell := ghosts.rate_cell(i)) and cell.live] or rates
            lists = [j for j in lists if (one := ghosts.list_cell(j)) and one.live] or lists
        at = edit.which % (len(rates) + len(lists))
        if at < len(rates):
            ghosts.set_rate(rates[at], None if edit.deletes else self.another_rate())
        else:
            chosen = lists[at - len(rates)]
            ghosts.set_list(chosen, ghosts.listed(chosen) ^ edit.pairs)

    @rule(plan=plans, throttled=st.booleans())
    def somebody_moves(self, plan: Any, throttled: bool) -> None:
        up = {p: t for p, t in plan.items() if not set(t) & self.world.down}
        if throttled:
            for broker in {b for target in up.values() for b in target}:
                self.unique += 1
                self.ghosts.set_rate((broker, RateKey.FOLLOWER), self.unique - MB)
            for (topic, number), target in up.items():
                cell = (topic, ListKey.FOLLOWERS)
                there = self.ghosts.listed(cell)
                self.ghosts.set_list(cell, there | {(number, broker) for broker in target})
        self.somebody_alters(up)

    def somebody_alters(self, targets: Mapping[TopicPartition, tuple[int, ...] | None]) -> None:
        for partition, result in self.world.alter(targets).items():
            if result.ok:
                self.moved.pop(partition, None)

    @rule(partition=st.sampled_from(PARTITIONS))
    def somebody_cancels(self, partition: TopicPartition) -> None:
        self.somebody_alters({partition: None})

    # Time

    @rule(broker=brokers)
    def a_broker_stops_or_starts(self, broker: int) -> None:
        if broker in self.world.down:
            self.world.restart(broker)
        elif len(self.world.down) < 2:
            self.world.stop(broker)

    @rule(seconds=st.sampled_from((0, 0.1, 2, 10, 60)), trouble=troubles)
    def tick(self, seconds: float, trouble: Trouble) -> None:
        self.world.cluster.pass_s(seconds)
        self.ask(lambda backend: backend.engine.tick(), trouble)

    @rule()
    def crash(self) -> None:
        self.backend.alive = False
        self.take_over()

    # In the end

    def teardown(self) -> None:
        if not hasattr(self, "backend"):
            return
        try:
            if self.broken is None:
                self.everything_ends()
                self.ghosts.check()
                self.check_shares()
                self.check_partitions()
        finally:
            self.world.close()

    def everything_ends(self) -> None:
        for broker in sorted(self.world.down):
            self.world.restart(broker)
        for operation, _ in self.operations(RESUMABLE):
            self.resume_one(operation.id)
        for _ in range(SECONDS_MAX // 10):
            self.ask(lambda backend: backend.engine.tick())
            if not self.backend.engine._pending() and not self.world.ongoing:
                return
            self.world.cluster.pass_s(10)
        left = [f"{o}" for o in self.backend.registry if not o.state.ended]
        raise AssertionError(f"never ends: {left} {self.world.ongoing}")

    def resume_one(self, one: str) -> None:
        self.ask(lambda b: b.operation_control.resume(one, Change()))

    def check_shares(self) -> None:
        """No share is left but what was to be left on."""
        ownership = self.backend.registry.ownership
        over = {ShareState.LEFT, ShareState.PAST}
        rates = [s.state for cell in ownership.rates.values() for s in cell.shares.values()]
        lists = [s.state for cell in ownership.lists.values() for s in cell.shares.values()]
        assert {*rates, *lists} <= over

    def check_partitions(self) -> None:
        """What an operation moved last is where its end says."""
        for operation, work in self.operations({STATES.DONE, STATES.CANCELLED}):
            if operation.state is STATES.CANCELLED:
                assert work.moves.keys() <= work.cancelled | work.refused
            for partition in work.started - work.refused:
                mover, was_still = self.moved.get(partition, ("", False))
                if mover == operation.id and partition in self.world.wishes:
                    self.check_partition(work, partition, was_still=was_still)

    def check_partition(
        self, work: ReassignmentWork, partition: TopicPartition, *, was_still: bool
    ) -> None:
        replicas, move = self.world.cluster.at(*partition).replicas, work.moves[partition]
        if self.world.wishes[partition] is not None:
            assert replicas == move.target, f"{partition} is on {replicas}, not {move}"
        elif was_still:
            assert set(replicas) == set(move.current), f"{partition} is on {replicas}: {move}"


EngineLaw.TestCase.settings = settings(
    max_examples=many(60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestEngineLaw = EngineLaw.TestCase
