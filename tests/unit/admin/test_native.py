"""Reassignments by `KafkaAdmin`, where the cluster has the RPC, lacks it, or does not serve it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.admin.port.item_result import OK
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.embedded.core.cluster_core import ControllerLost
from kshunt.backend.embedded.metadata.records import ResourceType
from kshunt.backend.embedded.net.api import WireClose
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.wire.raw_request import RawAnswer
from tests.support.embedded.core import MB
from tests.support.embedded.listeners import THROTTLED_RATES, THROTTLED_REPLICAS, lists, rate
from tests.support.native import (
    ALTER_CONFIGS,
    ALTER_REASSIGNMENTS,
    BRIEF_S,
    ELECT,
    IN_PROGRESS,
    MOVE,
    MOVING,
    NOT_CONTROLLER,
    RATE,
    RATES,
    REASSIGN,
    REPLICAS,
    T0,
    T1,
    THROTTLED,
    TIMED_OUT,
    TIMEOUT_S,
    UNSUPPORTED_VERSION,
    administered,
    hang_up,
    move,
    refusing,
    stay_silent,
    throttled,
    ways,
)

# Reassignments


@pytest.mark.conforms("kip-179:assignments")
async def test_a_move_is_the_same_to_its_caller_with_the_rpc_and_without() -> None:
    outcomes, configured = [], []
    for native in (True, False):
        async with administered(native=native) as (cluster, admin):
            outcomes.append(await move(admin))
            configured.append(cluster.throttled())
            assert ways(cluster) == ([REASSIGN] if native else [ALTER_CONFIGS, ALTER_REASSIGNMENTS])
    assert configured == [MOVING, MOVING]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] == ReassignOutcome(
        {T0: OK}, {"t": OK}, {1: OK, 2: OK, 4: OK}, log_dir_results={}
    )


async def test_what_the_rpc_throttled_is_free_when_the_move_ends_and_nobody_looks() -> None:
    async with administered() as (cluster, admin):
        await move(admin)
        cluster.pass_s(5)
        assert cluster.throttled() == MOVING
        cluster.pass_s(10)
        assert cluster.at("t").replicas == (2, 4)
        assert cluster.throttled() == {}
        assert cluster.removal() == ((), ())


async def test_a_throttle_that_shall_stay_is_not_left_to_the_cluster() -> None:
    options = ReassignOptions(throttle_bytes_per_s=RATE, auto_remove_throttle=False)
    async with administered() as (cluster, admin):
        await move(admin, options=options)
        cluster.pass_s(15)
        assert not cluster.image.is_moving
        assert ways(cluster) == [REASSIGN]
        assert cluster.throttled() == MOVING


async def test_a_move_without_a_throttle_writes_none() -> None:
    async with administered() as (cluster, admin):
        outcome = await move(admin, options=ReassignOptions())
        assert outcome == ReassignOutcome({T0: OK}, {}, {}, {})
        assert ways(cluster) == [REASSIGN]
        assert cluster.image.is_moving
        assert cluster.throttled() == {}


async def test_a_plan_with_a_fault_is_refused_as_a_whole_in_the_same_words() -> None:
    wanted = {T0: (2, 4), T1: (2, 77), TopicPartition("none", 3): (1,)}
    whole = replace(THROTTLED, all_or_nothing=True)
    outcomes = []
    for native in (True, False):
        async with administered(native=native) as (cluster, admin):
            outcomes.append(await move(admin, wanted, whole))
            assert ways(cluster) == []
            assert not cluster.image.is_moving
    assert outcomes[0] == outcomes[1]
    assert [result.ok for result in outcomes[0].results.values()] == [False] * 3


@pytest.mark.conforms("kip-179:results-by-partition")
async def test_what_is_in_order_moves_beside_what_is_not_and_brings_its_throttle_alone() -> None:
    unknown, stranger = TopicPartition("none", 3), TopicPartition("t", 1)
    wanted = {unknown: (1,), T0: (2, 4), stranger: (2, 77)}
    outcomes = []
    for native in (True, False):
        async with administered(native=native) as (cluster, admin):
            outcomes.append(await move(admin, wanted))
            assert [m.partition for m in cluster.image.reassignments()] == [0]
            assert cluster.throttled() == MOVING
    assert outcomes[0] == outcomes[1]
    assert [one.error_name for one in outcomes[0].results.values()] == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NONE",
        "INVALID_REPLICA_ASSIGNMENT",
    ]


@pytest.mark.parametrize(
    "set_before",
    [{"2": (THROTTLED_RATES[1], "5000000")}, {"t": (THROTTLED_REPLICAS[0], "1:2")}],
    ids=["a broker's rate", "a topic's list"],
)
async def test_a_throttle_that_was_there_is_never_left_to_the_cluster(
    set_before: dict[str, tuple[str, str]],
) -> None:
    async with administered() as (cluster, admin):
        for name, (key, value) in set_before.items():
            kind = ResourceType.TOPIC if name == "t" else ResourceType.BROKER
            cluster.set(kind, name, **{key: value})
        await move(admin)
        assert ways(cluster) == [ALTER_CONFIGS, ALTER_REASSIGNMENTS]
        cluster.pass_s(30)
        assert not cluster.image.is_moving
        assert len(cluster.throttled()) == len(MOVING)


async def test_a_rate_that_brokers_inherit_does_not_stand_in_the_way() -> None:
    async with administered() as (cluster, admin):
        cluster.set(ResourceType.BROKER, "", **{THROTTLED_RATES[0]: "5000000"})
        cluster.set(ResourceType.BROKER, "3", **{THROTTLED_RATES[0]: "5000000"})
        await move(admin)
        assert ways(cluster) == [REASSIGN]


@pytest.mark.conforms("kip-179:already-moving")
async def test_a_partition_that_moves_already_is_turned_to_its_new_target() -> None:
    outcomes = []
    for native in (True, False):
        async with administered(native=native) as (cluster, admin):
            cluster.move("t", 0, 1, 3)
            outcomes.append(await move(admin))
            assert cluster.at("t").target == (2, 4)
            assert REASSIGN not in ways(cluster)
    assert outcomes[0] == outcomes[1]
    assert "was moving to [1, 3]" in outcomes[0].results[T0].message


async def test_what_a_broker_that_is_down_was_set_to_is_not_known_and_so_not_deleted() -> None:
    async with administered() as (cluster, admin):
        await cluster.stop_broker(1)
        outcome = await move(admin)
        assert outcome.results[T0].ok
        assert REASSIGN not in ways(cluster)


@pytest.mark.parametrize(
    ("options", "log_dirs"),
    [
        (ReassignOptions(log_dirs_throttle_bytes_per_s=MB), {}),
        (THROTTLED, {(T0, 4): "/d2"}),
    ],
    ids=["a rate for log directories", "a log directory"],
)
async def test_what_the_rpc_cannot_express_is_composed(
    options: ReassignOptions, log_dirs: dict[tuple[TopicPartition, int], str]
) -> None:
    async with administered() as (cluster, admin):
        outcome = await admin.reassignments.reassign(MOVE, options, log_dirs)
        assert outcome.results[T0].ok
        assert REASSIGN not in ways(cluster)


@pytest.mark.conforms("kip-179:validate-only")
async def test_validation_is_the_controllers_too_and_writes_nothing() -> None:
    options = ReassignOptions(throttle_bytes_per_s=RATE, validate_only=True)
    async with administered() as (cluster, admin):
        before = cluster.image.offset
        assert (await move(admin, options=options)).results == {T0: OK}
        assert ways(cluster) == [REASSIGN]
        cluster.instead[REASSIGN] = refusing(IN_PROGRESS)
        refused = await move(admin, options=options)
        assert refused.results[T0].error_code == IN_PROGRESS
        cluster.instead[REASSIGN] = hang_up
        assert (await move(admin, options=options)).results == {T0: OK}
        assert cluster.image.offset == before


async def test_what_the_controller_takes_is_throttled_and_nothing_else() -> None:
    async with administered() as (cluster, admin):

        async def overtaken(context: RequestContext, message: Any) -> Any:
            cluster.move("t", 1, 1, 3)
            return await cluster.own[REASSIGN](context, message)

        cluster.instead[REASSIGN] = overtaken
        outcome = await move(admin, {T0: (2, 4), T1: (3, 4)})
        assert outcome.results[T0] == OK
        assert outcome.results[T1].error_code == IN_PROGRESS
        assert not outcome.undone
        assert (set(outcome.throttled_topics), set(outcome.throttled_brokers)) == ({"t"}, {1, 2, 4})
        assert cluster.throttled() == MOVING


async def test_nothing_is_left_to_take_back_where_the_controller_takes_nothing() -> None:
    async with administered() as (cluster, admin):
        cluster.instead[REASSIGN] = refusing(IN_PROGRESS)
        outcome = await move(admin)
        assert outcome.undone
        assert outcome.results[T0].error_name == "REASSIGNMENT_IN_PROGRESS"
        assert not outcome.throttled_topics
        assert not outcome.throttled_brokers
        assert ways(cluster) == [REASSIGN]


# The RPC is advertised and not served, or its answer is lost


@pytest.mark.conforms("kip-183:error-41")
@pytest.mark.parametrize(
    "served",
    [refusing(UNSUPPORTED_VERSION), refusing(NOT_CONTROLLER), hang_up],
    ids=["unsupported", "another controller", "closed"],
)
async def test_a_verb_that_is_not_served_is_composed_and_the_log_says_so(
    served: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    async with administered() as (cluster, admin):
        cluster.instead |= dict.fromkeys((REASSIGN, RATES, REPLICAS, ELECT), served)
        with caplog.at_level(logging.WARNING, "kshunt.backend.admin"):
            outcome = await move(admin)
            named = await admin.throttles.alter_rates(
                dict.fromkeys((1, 2, 4), ThrottledRate(MB, MB)), validate_only=False, timeout_s=5
            )
            listed = await admin.throttles.alter_replicas(
                {"t": throttled("0:1", "0:4")}, validate_only=False, timeout_s=TIMEOUT_S
            )
            elected = await admin.elections.elect_preferred([T1], timeout_s=TIMEOUT_S)
        assert outcome == ReassignOutcome({T0: OK}, {"t": OK}, {1: OK, 2: OK, 4: OK}, {})
        assert (set(named.values()), set(listed.values())) == ({OK}, {OK})
        assert elected[T1].error_code == 84
        assert cluster.throttle_of(4) == rate(MB)
        assert cluster.throttle_of("t") == lists("0:1", "0:4")
        assert cluster.image.is_moving
        said = [record.getMessage().split(" is advertised")[0] for record in caplog.records]
        assert said == [
            "ReassignPartitions",
            "AlterInterbrokerThrottledRates",
            "AlterInterbrokerThrottledReplicas",
            "ElectPreferredLeaders",
        ]


async def test_a_lost_answer_is_read_back_and_nothing_is_started_twice() -> None:
    async with administered() as (cluster, admin):

        async def done_in_silence(context: RequestContext, message: Any) -> Any:
            await cluster.own[REASSIGN](context, message)
            raise WireClose("as a test wants it")

        cluster.instead[REASSIGN] = done_in_silence
        outcome = await move(admin)
        assert outcome == ReassignOutcome({T0: OK}, {"t": OK}, {1: OK, 2: OK, 4: OK}, {})
        assert ways(cluster) == [REASSIGN]
        assert cluster.asked.count(REASSIGN) == 1


@pytest.mark.conforms("kip-179:crash-in-the-middle")
async def test_a_controller_that_dies_in_the_middle_leaves_no_throttle_to_the_next_try() -> None:
    async with administered() as (cluster, admin):

        async def dies(context: RequestContext, message: Any) -> Any:
            cluster.core.lose_controller(after_records=4)
            try:
                return await cluster.own[REASSIGN](context, message)
            except ControllerLost:
                raise WireClose("the controller does not") from None

        cluster.instead[REASSIGN] = dies
        outcome = await move(admin)
        assert outcome.results == {T0: OK}
        assert ways(cluster) == [REASSIGN, ALTER_CONFIGS, ALTER_REASSIGNMENTS]
        assert cluster.throttled() == MOVING
        assert cluster.removal() == ((), ())


@pytest.mark.conforms("kip-179:timeout")
async def test_a_move_that_may_yet_start_is_not_started_in_another_way() -> None:
    async with administered() as (cluster, admin):
        cluster.instead[REASSIGN] = stay_silent
        options = ReassignOptions(throttle_bytes_per_s=RATE, timeout_s=BRIEF_S)
        outcome = await move(admin, options=options)
        assert (outcome.undone, outcome.unknown) == (True, False)
        assert outcome.results[T0].error_code == TIMED_OUT
        assert ways(cluster) == [REASSIGN]
        assert cluster.throttled() == {}


async def test_where_the_cluster_cannot_be_asked_what_became_of_it_that_is_said() -> None:
    async with administered() as (cluster, admin):

        async def last_word(context: RequestContext, message: Any) -> Any:
            await cluster.own[REASSIGN](context, message)
            for server in cluster.servers.values():
                server.faults.stall()

        cluster.instead[REASSIGN] = last_word
        options = ReassignOptions(throttle_bytes_per_s=RATE, timeout_s=BRIEF_S)
        outcome = await move(admin, options=options)
        for server in cluster.servers.values():
            server.faults.heal()
        assert (outcome.undone, outcome.unknown) == (False, True)
        assert not outcome.results[T0].ok
        assert "its throttle stays set" in outcome.results[T0].message
        assert set(outcome.throttled_brokers) == {1, 2, 4}


# The calls themselves


async def test_a_broker_is_asked_for_what_it_advertises_and_for_nothing_else() -> None:
    for native in (True, False):
        async with administered(native=native) as (_, admin):
            of_seed = 1 if native else -1
            assert await admin.cluster.highest_version(REPLICAS, timeout_s=TIMEOUT_S) == of_seed
            assert await admin.cluster.highest_version(REPLICAS, 3, timeout_s=TIMEOUT_S) == of_seed
            assert await admin.cluster.highest_version(46, 3, timeout_s=TIMEOUT_S) == 0
            assert await admin.cluster.highest_version(46, 99, timeout_s=TIMEOUT_S) == -1


@pytest.mark.conforms("kip-179:rates-response")
def test_the_length_of_a_list_is_no_throttle_time() -> None:
    body = (5_000).to_bytes(4, "big")
    assert RawAnswer(0, body).throttle_time_ms == 5_000
    assert RawAnswer(0, body, throttles=False).throttle_time_ms == 0
