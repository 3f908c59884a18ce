"""How an operation ends: which settings are removed, which are restored, and which stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import (
    Move,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
)
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.engine import Engine
from kshunt.backend.operations.ownership.cells import ListKey, RateKey
from kshunt.backend.operations.ownership.ownership import Shares
from kshunt.backend.operations.reassignment.cancelling import Cancellations
from kshunt.backend.operations.reassignment.runner import ReassignmentRunner
from kshunt.backend.operations.reassignment.starting import Reassignments, ReassignRequest
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork, still_needed
from kshunt.backend.operations.throttles.changes import ThrottleChanges
from tests.support.embedded.core import MB
from tests.support.embedded.listeners import THROTTLED_RATES, rate
from tests.support.native import (
    ALTER_CONFIGS,
    MOVING,
    RATE,
    RATES,
    REPLICAS,
    T0,
    T1,
    TIMEOUT_S,
    administered,
    move,
    ways,
)


class Backend:
    """What carries out operations, without a journal."""

    def __init__(self, admin: Reached) -> None:
        self.registry = Registry(SystemClock(), lambda _: None)
        context = Context(admin, self.registry, SystemClock(), TIMEOUT_S)
        runner, cancellations = ReassignmentRunner(context), Cancellations(context)
        self.engine = Engine(context, runner, cancellations)
        self.moves = Reassignments(context, runner, cancellations)
        self.throttles = ThrottleChanges(context)

    async def start(self, *, auto_remove_throttle: bool = True) -> None:
        plan = ReassignmentPlan({T0: (2, 4)}, {})
        request = ReassignRequest(plan, RATE, auto_remove_throttle=auto_remove_throttle)
        answer = await self.moves.start(request)
        assert not answer.failures

    @property
    def reassignment(self) -> Operation:
        """The operation that was started first."""
        return list(self.registry)[-1]

    @property
    def state(self) -> OperationState:
        return self.reassignment.state

    @property
    def outcome(self) -> str:
        return self.reassignment.outcome


@pytest.mark.conforms(
    "kip-179:options-throttle", "kip-179:verify-not-needed", "kip-179:auto-remove"
)
@pytest.mark.parametrize("native", [False, True])
async def test_a_throttle_comes_off_with_its_move(native: bool) -> None:
    async with administered(native=native) as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        assert cluster.throttled() == MOVING
        cluster.pass_s(5)
        await backend.engine.tick()
        assert backend.state.value == "running"
        assert cluster.throttled() == MOVING
        cluster.pass_s(15)
        await backend.engine.tick()
        assert backend.state is OperationState.DONE
        assert backend.outcome == "1 of 1 where the plan wants them, throttle removed"
        assert cluster.throttled() == {}
        assert not backend.registry.ownership.rates
        assert not backend.registry.ownership.lists


@pytest.mark.conforms("kip-179:prior-values")
async def test_what_an_operator_had_set_is_back_at_the_end() -> None:
    async with administered() as (cluster, admin):
        cluster.set(ResourceType.BROKER, "2", **{THROTTLED_RATES[0]: "5000000"})
        backend = Backend(admin)
        await backend.start()
        assert cluster.throttle_of(2) == MOVING[2]
        cluster.pass_s(30)
        await backend.engine.tick()
        assert backend.state is OperationState.DONE
        assert cluster.throttled() == {2: {THROTTLED_RATES[0]: "5000000"}}


@pytest.mark.conforms("kip-179:rates-auto-remove")
async def test_a_rate_that_is_set_through_us_comes_off_with_the_operation() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        await backend.throttles.alter_rates({4: ThrottledRate(MB, MB)}, Change())
        assert cluster.throttle_of(4) == rate(MB)
        cluster.pass_s(300)
        await backend.engine.tick()
        assert backend.reassignment.state is OperationState.DONE
        assert cluster.throttled() == {}


@pytest.mark.parametrize("wanted", [RATE // 2, RATE, RATE * 10])
async def test_the_current_move_asked_for_again_changes_its_throttle(wanted: int) -> None:
    """Kafka's tool says so of --additional; the lowest rate of several moves would be in force."""
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        request = ReassignRequest(ReassignmentPlan({T0: (2, 4)}, {}), wanted, additional=True)
        answer = await backend.moves.start(request)
        assert not answer.failures
        await backend.engine.tick()
        assert cluster.throttle_of(2) == cluster.throttle_of(4) == rate(wanted)
        cluster.pass_s(300)
        await backend.engine.tick()
        assert {operation.state for operation in backend.registry} == {OperationState.DONE}
        assert cluster.throttled() == {}


@pytest.mark.conforms("kip-179:change-throttle")
@pytest.mark.parametrize("native", [False, True])
async def test_the_plan_that_runs_needs_no_flag_to_change_its_throttle(native: bool) -> None:
    async with administered(native=native) as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        again = ReassignRequest(ReassignmentPlan({T0: (2, 4), T1: (2, 3)}, {}), RATE // 2)
        assert not (
            await backend.moves.start(replace(again, change=Change(validate_only=True)))
        ).failures
        assert not (await backend.moves.start(again)).failures
        assert cluster.throttle_of(2) == cluster.throttle_of(4) == rate(RATE // 2)
        for other in (
            ReassignmentPlan({T0: (4, 2)}, {}),
            ReassignmentPlan({T1: (3, 4)}, {}),
            ReassignmentPlan({T0: (2, 4), T1: (3, 4)}, {}),
        ):
            with pytest.raises(Conflict, match="already being reassigned"):
                await backend.moves.start(ReassignRequest(other, RATE))
        with pytest.raises(Conflict, match="already being reassigned"):
            await backend.moves.start(replace(again, throttle_bytes_per_s=None))
        cluster.pass_s(300)
        await backend.engine.tick()
        assert {operation.state for operation in backend.registry} == {OperationState.DONE}
        assert cluster.throttled() == {}


async def test_another_move_leaves_the_first_ones_throttle_as_it_is() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        elsewhere = ReassignmentPlan({T0: (4, 2)}, {})
        request = ReassignRequest(elsewhere, RATE * 10, additional=True)
        assert not (await backend.moves.start(request)).failures
        assert cluster.throttle_of(4) == rate(RATE)


async def test_a_rate_that_somebody_else_sets_stays() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        cluster.set(ResourceType.BROKER, "4", **dict.fromkeys(THROTTLED_RATES, str(MB)))
        await backend.engine.tick()
        assert {str(one) for one in backend.engine.drift}
        assert cluster.throttle_of(4) == rate(MB)
        cluster.pass_s(300)
        await backend.engine.tick()
        assert backend.state is OperationState.DONE
        assert cluster.throttled() == {4: rate(MB)}


@pytest.mark.conforms("kip-179:options-throttle")
async def test_a_throttle_that_shall_stay_stays_when_the_operation_ends() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start(auto_remove_throttle=False)
        cluster.pass_s(20)
        await backend.engine.tick()
        assert backend.outcome.endswith("throttle kept, as requested")
        assert cluster.throttled() == MOVING


async def test_a_cancelled_move_leaves_nothing_to_lift() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        await backend.moves.cancel([T0], Change(), preserve_throttles=False, timeout_s=TIMEOUT_S)
        assert cluster.throttled() == {}
        cluster.asked.clear()
        await backend.engine.tick()
        assert backend.state is OperationState.CANCELLED
        assert ALTER_CONFIGS not in ways(cluster)


async def test_a_cancelled_move_may_keep_its_throttle() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        await backend.moves.cancel([T0], Change(), preserve_throttles=True, timeout_s=TIMEOUT_S)
        await backend.engine.tick()
        assert backend.state is OperationState.CANCELLED
        assert cluster.throttled() == MOVING


async def test_a_topic_that_was_deleted_meanwhile_needs_no_write() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        cluster.drop("t")
        await backend.engine.tick()
        assert backend.state is OperationState.FAILED, "what was deleted was not moved"
        assert cluster.throttled() == {}


async def move_of_somebody_else(admin: Reached) -> None:
    await admin.reassignments.reassign({T0: (2, 4)}, ReassignOptions(timeout_s=TIMEOUT_S), {})


@pytest.mark.conforms("kip-179:options-auto-remove", "kip-179:rates-auto-remove")
async def test_a_rate_for_moves_of_somebody_else_comes_off_with_them() -> None:
    async with administered(native=False) as (cluster, admin):
        backend = Backend(admin)
        await move_of_somebody_else(admin)
        # Broker 3 takes no part in the move: what is set there is the operator's own.
        rates = dict.fromkeys((2, 3, 4), ThrottledRate(MB, MB))
        answer = await backend.throttles.alter_rates(rates, Change(), auto_remove=True)
        assert "kshunt removes the throttle when the moves of 1 partition end" in answer.notes[-1]
        assert backend.state is OperationState.RUNNING
        assert cluster.throttled() == dict.fromkeys((2, 3, 4), rate(MB))
        cluster.pass_s(300)
        await backend.engine.tick()
        assert backend.reassignment.state.value == "done"
        assert cluster.throttled() == {3: rate(MB)}


@pytest.mark.conforms("kip-179:options-auto-remove", "kip-179:replicas-auto-remove")
async def test_a_list_for_moves_of_somebody_else_comes_off_with_them() -> None:
    async with administered(native=False) as (cluster, admin):
        backend = Backend(admin)
        lists = ThrottledReplicas(ReplicaSet.parse("0:2,1:3"), ReplicaSet.parse("0:4"))
        await move_of_somebody_else(admin)
        await backend.throttles.alter_replicas({"t": lists}, Change(), auto_remove=True)
        assert backend.state is OperationState.RUNNING
        found = await admin.throttles.describe([], ["t"], timeout_s=TIMEOUT_S)
        assert found.replicas == {"t": lists}
        cluster.pass_s(300)
        await backend.engine.tick()
        assert backend.reassignment.state.value == "done"
        found = await admin.throttles.describe([], ["t"], timeout_s=TIMEOUT_S)
        assert found.replicas == {"t": ThrottledReplicas(ReplicaSet.parse("1:3"), ReplicaSet())}


@pytest.mark.conforms("kip-179:rates-timeout")
async def test_the_timeout_of_a_request_is_what_the_cluster_is_told() -> None:
    told: list[int] = []

    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await move(admin)

        def listening_in(key: int) -> Handler:
            async def answer(context: RequestContext, message: Any) -> Any:
                told.append(message.timeout)
                return await cluster.own[key](context, message)

            return answer

        cluster.instead.update({key: listening_in(key) for key in (RATES, REPLICAS)})
        rates = dict.fromkeys((1, 2, 4), ThrottledRate(MB, MB))
        lists = {"t": ThrottledReplicas(ReplicaSet.parse("0:1"), ReplicaSet.parse("0:4"))}
        for only in (True, False):
            set_rates = backend.throttles.alter_rates(rates, Change(only), timeout_s=7.5)
            assert not (await set_rates).failures
            set_lists = backend.throttles.alter_replicas(lists, Change(only), timeout_s=7.5)
            assert not (await set_lists).failures
        assert told == [7_500] * 4


@pytest.mark.conforms("kip-179:rates-nothing-moves")
async def test_a_rate_without_moves_stays() -> None:
    async with administered(native=False) as (cluster, admin):
        backend = Backend(admin)
        rates = {4: ThrottledRate(MB, MB)}
        await backend.throttles.alter_rates(rates, Change(), auto_remove=True)
        assert backend.state is OperationState.DONE
        await backend.engine.tick()
        assert cluster.throttled() == {4: rate(MB)}


def test_of_what_was_adopted_stays_what_the_other_moves_need() -> None:
    other = TopicPartition("t", 1)
    moves = {T0: Move(T0, (1, 2), (2, 4)), other: Move(other, (3,), (5,))}
    held = Shares(
        {(1, RateKey.LEADER): 5, (4, RateKey.FOLLOWER): 5, (5, RateKey.FOLLOWER): 5},
        {("t", ListKey.FOLLOWERS): frozenset({(0, 4), (1, 5)})},
    )
    work = ReassignmentWork(
        moves, started=frozenset(moves), adopted=True, cancelled=frozenset({T0})
    )
    assert still_needed(work, held) == Shares(
        {(5, RateKey.FOLLOWER): 5}, {("t", ListKey.FOLLOWERS): frozenset({(1, 5)})}
    )
