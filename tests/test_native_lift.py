"""The end of an operation whose throttle the cluster has taken off by itself."""

from __future__ import annotations

from backend.admin.kafka import KafkaAdmin
from backend.clock import SystemClock
from backend.domain.operation import Operation, OperationState
from backend.domain.plan import ReassignmentPlan
from backend.domain.throttle import BrokerThrottle, ThrottledRate, Throttles
from backend.embedded.metadata.records import ResourceType
from backend.operations.ledger import NO_RATE, Ledger
from backend.operations.reassign import Reassignments, ReassignRequest
from backend.operations.registry import Registry
from tests.embedded_core import MB
from tests.embedded_listeners import THROTTLED_RATES, rate
from tests.native_support import (
    ALTER_CONFIGS,
    MOVING,
    RATE,
    REASSIGN,
    T0,
    TIMEOUT_S,
    administered,
    throttled,
    ways,
)


class Backend:
    """What carries out operations."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self.registry = Registry(SystemClock(), lambda _: None)
        self.ledger = Ledger()
        self.moves = Reassignments(admin, self.registry, self.ledger, TIMEOUT_S)

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


async def test_what_the_cluster_took_off_is_not_written_again() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        assert cluster.throttled() == MOVING
        cluster.pass_s(5)
        await backend.moves.tick()
        assert backend.state.value == "running"
        cluster.pass_s(15)
        written = cluster.image.offset
        cluster.asked.clear()
        await backend.moves.tick()
        assert backend.state is OperationState.DONE
        assert backend.outcome == "1 of 1 where the plan wants them, throttle removed"
        assert (ways(cluster), cluster.image.offset) == ([], written)
        assert cluster.throttled() == {}
        assert not backend.ledger.owns_broker(4)
        assert not backend.ledger.owned_replicas("t")


async def test_what_the_cluster_does_not_take_off_is_lifted() -> None:
    async with administered(native=False) as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        cluster.pass_s(20)
        assert cluster.throttled() == MOVING
        await backend.moves.tick()
        assert backend.state is OperationState.DONE
        assert cluster.throttled() == {}


async def test_what_an_operator_had_set_is_back_at_the_end() -> None:
    async with administered() as (cluster, admin):
        cluster.set(ResourceType.BROKER, "2", **{THROTTLED_RATES[0]: "5000000"})
        backend = Backend(admin)
        await backend.start()
        assert REASSIGN not in ways(cluster)
        cluster.pass_s(30)
        await backend.moves.tick()
        assert backend.state is OperationState.DONE
        assert cluster.throttled() == {2: {THROTTLED_RATES[0]: "5000000"}}


async def test_what_an_operator_sets_while_it_moves_is_lifted_with_the_rest() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        await admin.alter_interbroker_throttled_rates(
            {4: ThrottledRate(MB, MB)}, validate_only=False, timeout_s=TIMEOUT_S
        )
        assert cluster.throttle_of(4) == rate(MB)
        cluster.pass_s(300)
        cluster.asked.clear()
        await backend.moves.tick()
        assert backend.state is OperationState.DONE
        assert ways(cluster) == []
        assert cluster.throttled() == {}


async def test_a_throttle_that_shall_stay_stays_when_the_operation_ends() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start(auto_remove_throttle=False)
        cluster.pass_s(20)
        await backend.moves.tick()
        assert backend.outcome.endswith("throttle left on, as asked")
        assert cluster.throttled() == MOVING


async def test_a_cancelled_move_leaves_nothing_to_lift() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        await backend.moves.cancel(
            [T0], preserve_throttles=False, validate_only=False, timeout_s=TIMEOUT_S
        )
        cluster.asked.clear()
        await backend.moves.tick()
        assert backend.state is OperationState.CANCELLED
        assert ALTER_CONFIGS not in ways(cluster)
        assert cluster.throttled() == {}


async def test_a_topic_that_was_deleted_meanwhile_needs_no_write() -> None:
    async with administered() as (cluster, admin):
        backend = Backend(admin)
        await backend.start()
        cluster.drop("t")
        cluster.asked.clear()
        await backend.moves.tick()
        assert backend.state is OperationState.DONE
        assert ways(cluster) == []


def test_a_lift_is_what_differs_and_a_silent_broker_is_not_taken_for_free() -> None:
    ledger = Ledger()
    share = throttled("0:1", "0:2")
    free = {broker: BrokerThrottle(broker, NO_RATE) for broker in (1, 2, 3)}
    ledger.record("ours", {"t": share, "u": share}, (1, 2, 3), Throttles(free, {}))
    slow = BrokerThrottle(2, ThrottledRate(MB, MB))
    present = Throttles({1: free[1], 2: slow}, {"u": share}, unknown_brokers=(3,))
    lift = ledger.lift("ours", present)
    assert lift.topics == {"u": throttled("", "")}
    assert lift.rates == {2: NO_RATE, 3: NO_RATE}
    assert lift.log_dir_rates == {2: None, 3: None}
    assert not ledger.lift("ours", Throttles(free, {}))
