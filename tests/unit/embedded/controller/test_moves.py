"""Moves and their throttles: KIP-455, KIP-179 and its early draft, on the embedded controller."""

from __future__ import annotations

from random import Random

import pytest

from kshunt.backend.embedded.controller.alter_topics import AlterTopicsEntry, alter_topics
from kshunt.backend.embedded.controller.brokers import fence_broker
from kshunt.backend.embedded.controller.decision import KafkaError as E
from kshunt.backend.embedded.controller.elections import ElectionType, elect_leaders
from kshunt.backend.embedded.controller.reassign import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from kshunt.backend.embedded.controller.throttle_removal import fail_over
from kshunt.backend.embedded.controller.throttled_reassign import reassign_partitions
from kshunt.backend.embedded.controller.throttles import (
    RateRequest,
    ReplicasRequest,
    alter_interbroker_throttled_rates,
    alter_interbroker_throttled_replicas,
)
from kshunt.backend.embedded.controller.tick import tick
from kshunt.backend.embedded.controller.topics import delete_topics
from kshunt.backend.embedded.metadata.records import (
    ConfigChanged,
    PartitionChanged,
    ResourceType,
    ThrottledRatesRemoval,
    ThrottledReplicasRemoval,
)
from tests.support.embedded.controller import Controller, errors, tp

T, B = ResourceType.TOPIC, ResourceType.BROKER
RATE = {"leader.replication.throttled.rate": "5000", "follower.replication.throttled.rate": "5000"}
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def moving() -> Controller:
    controller = Controller(brokers=5)
    controller.create("t", [1, 2], [2, 3])
    controller.do(alter_partition_reassignments(controller.image, {tp("t"): [3, 4]}))
    return controller


def throttled() -> Controller:
    controller = Controller(brokers=5)
    controller.create("t", [1, 2], [2, 3])
    move = reassign_partitions(controller.image, {tp("t"): [2, 3]}, throttle_bytes_per_s=5000)
    controller.do(move)
    return controller


def throttles(controller: Controller) -> list[object]:
    brokers = [controller.configs(B, broker) for broker in controller.image.brokers]
    topics = [controller.configs(T, topic) for topic in controller.image.topics]
    sets = [*controller.image.replicas_removal, *controller.image.rates_removal]
    return [one for one in [*brokers, *topics, *sets] if one]


def test_a_move_adds_then_removes() -> None:
    controller = moving()
    [move] = list_partition_reassignments(controller.image)
    assert (move.replicas, move.adding, move.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert list_partition_reassignments(controller.image, [tp("t", 1), tp("no")]) == ()
    assert errors(controller.report("t", 0, [1, 2, 3])) == [E.NONE]
    assert controller.image.is_moving
    assert errors(controller.catch_up("t")) == [E.NEW_LEADER_ELECTED]
    done = controller.at("t")
    assert (done.replicas, set(done.isr), done.leader) == ((3, 4), {3, 4}, 3)
    assert list_partition_reassignments(controller.image) == ()


@pytest.mark.parametrize(
    ("item", "target", "error"),
    [
        (tp("t", 1), [2, 4], E.NONE),
        (tp("t", 1), [3, 2], E.NONE),
        (tp("t", 1), [2], E.NONE),
        (tp("t", 1), None, E.NO_REASSIGNMENT_IN_PROGRESS),
        (tp("t"), None, E.NONE),
        (tp("no"), [1], E.UNKNOWN_TOPIC_OR_PARTITION),
        (tp("t", 7), None, E.UNKNOWN_TOPIC_OR_PARTITION),
        (tp("t", 1), [], E.INVALID_REPLICA_ASSIGNMENT),
        (tp("t", 1), [2, 2], E.INVALID_REPLICA_ASSIGNMENT),
        (tp("t", 1), [2, 9], E.INVALID_REPLICA_ASSIGNMENT),
        (tp("t", 1), [-1], E.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_reassignment_results(item: tuple[str, int], target: list[int] | None, error: E) -> None:
    controller = moving()
    decision = alter_partition_reassignments(controller.image, {tp(*item): target})
    assert errors(decision) == [error]
    assert bool(decision.records) == (error is E.NONE)


def test_the_replication_factor_may_be_held_fast() -> None:
    controller = moving()
    decision = alter_partition_reassignments(
        controller.image, {tp("t", 1): [2], tp("t"): [4, 5]}, allow_replication_factor_change=False
    )
    assert errors(decision) == [E.INVALID_REPLICATION_FACTOR, E.NONE]


def test_a_move_that_replaces_another_forgets_the_first_origin_as_kafka_does() -> None:
    controller = moving()
    controller.report("t", 0, [1, 2, 3])
    controller.do(alter_partition_reassignments(controller.image, {tp("t"): [4, 5]}))
    changed = controller.at("t")
    assert (changed.replicas, changed.adding) == ((4, 5, 1, 2, 3), (5,))
    assert (changed.removing, changed.isr) == ((1, 2, 3), (1, 2, 3))
    controller.do(alter_partition_reassignments(controller.image, {tp("t"): None}))
    assert (controller.at("t").replicas, controller.at("t").reassigning) == ((4, 1, 2, 3), False)


def test_a_cancellation_is_refused_where_it_would_be_unclean() -> None:
    controller = moving()
    controller.report("t", 0, [1, 2, 3])
    for broker in (1, 2):
        controller.do(fence_broker(controller.image, broker))
    assert controller.at("t").isr == (3,)
    cancel = alter_partition_reassignments(controller.image, {tp("t"): None})
    assert errors(cancel) == [E.INVALID_REPLICA_ASSIGNMENT]
    assert "unclean" in str(cancel.results[0].message)
    controller.set(T, "t", unclean_leader_election_enable="true")
    controller.start(1)
    decision = alter_partition_reassignments(controller.image, {tp("t"): None})
    controller.do(decision)
    assert (controller.at("t").leader, controller.at("t").isr) == (1, (1,))


@pytest.mark.conforms(
    "kip-179:write-topic-removal",
    "kip-179:write-lists",
    "kip-179:write-rate-removal",
    "kip-179:write-rates",
)
def test_a_native_move_writes_down_what_shall_go_before_it_is_there() -> None:
    controller = throttled()
    assert [type(record) for record in controller.log[-11:]] == [
        ThrottledReplicasRemoval,
        *[ConfigChanged] * 2,
        ThrottledRatesRemoval,
        *[ConfigChanged] * 6,
        PartitionChanged,
    ]
    image = controller.image
    assert (image.replicas_removal, image.rates_removal) == (("t",), (1, 2, 3))
    assert controller.configs(T, "t") == dict(zip(LISTS, ("0:1,0:2", "0:3"), strict=True))
    assert all(controller.configs(B, broker) == RATE for broker in (1, 2, 3))
    assert controller.configs(B, 4) == {}


@pytest.mark.conforms("kip-179:auto-remove", "kip-179:several-moves", "kip-179:completion-order")
def test_throttles_go_with_the_last_move() -> None:
    controller = throttled()
    other = reassign_partitions(controller.image, {tp("t", 1): [4, 5]}, throttle_bytes_per_s=5000)
    controller.do(other)
    assert controller.image.rates_removal == (1, 2, 3, 4, 5)
    assert controller.configs(T, "t")[LISTS[0]] == "0:1,0:2,1:2,1:3"
    controller.catch_up("t")
    assert throttles(controller)
    controller.catch_up("t", 1)
    assert throttles(controller) == []


@pytest.mark.parametrize("remove", [True, False])
def test_throttles_go_after_a_cancellation_unless_they_shall_stay(remove: bool) -> None:
    controller = Controller()
    controller.create("t", [1, 2])
    move = reassign_partitions(
        controller.image, {tp("t"): [3]}, throttle_bytes_per_s=5000, remove_throttle=remove
    )
    controller.do(move)
    controller.do(alter_partition_reassignments(controller.image, {tp("t"): None}))
    assert bool(throttles(controller)) is not remove


def test_throttles_go_with_the_topic_that_moved() -> None:
    controller = throttled()
    controller.do(delete_topics(controller.image, ["t"]))
    assert throttles(controller) == []


@pytest.mark.conforms("kip-179:anticipated-errors")
@pytest.mark.parametrize(
    ("item", "target", "error"),
    [
        (tp("t", 1), [2, 4], E.NONE),
        (tp("t"), [1, 4], E.REASSIGNMENT_IN_PROGRESS),
        (tp("no"), [1], E.UNKNOWN_TOPIC_OR_PARTITION),
        (tp("t", 1), [9], E.INVALID_REPLICA_ASSIGNMENT),
        (tp("t", 1), [], E.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_native_reassignment_results(item: tuple[str, int], target: list[int], error: E) -> None:
    controller = throttled()
    decision = reassign_partitions(controller.image, {tp(*item): target})
    assert errors(decision) == [error]
    only = reassign_partitions(controller.image, {tp(*item): target}, validate_only=True)
    assert (errors(only), only.records) == ([error], ())


@pytest.mark.conforms("kip-179:throttle-minimum")
@pytest.mark.parametrize("rate", [0, 999, -2])
def test_a_native_move_refuses_a_rate_that_never_ends(rate: int) -> None:
    image = throttled().image
    decision = reassign_partitions(image, {tp("t", 1): [4]}, throttle_bytes_per_s=rate)
    assert (decision.error, decision.records) == (E.INVALID_REQUEST, ())


@pytest.mark.conforms("kip-179:nothing-to-copy")
def test_a_move_with_nothing_to_copy_writes_no_throttle() -> None:
    controller = Controller()
    controller.create("t", [1, 2])
    move = reassign_partitions(controller.image, {tp("t"): [2, 1]}, throttle_bytes_per_s=5000)
    controller.do(move)
    assert throttles(controller) == []
    assert controller.at("t").replicas == (2, 1)


def test_lists_that_name_everything_stay() -> None:
    controller = Controller()
    key = LISTS[0]
    controller.create("t", [1, 2], leader_replication_throttled_replicas="*")
    move = reassign_partitions(controller.image, {tp("t"): [3]}, throttle_bytes_per_s=5000)
    controller.do(move)
    assert controller.configs(T, "t")[key] == "*"


@pytest.mark.conforms(
    "kip-179:rates-replace",
    "kip-179:rates-union",
    "kip-179:rates-subtract",
    "kip-179:rates-add",
    "kip-179:rates-record",
)
def test_rates_are_unioned_then_subtracted() -> None:
    controller = throttled()
    rate = RateRequest(7000, 8000)
    decision = alter_interbroker_throttled_rates(controller.image, {3: rate, 4: rate})
    records = decision.records
    assert records[0] == ThrottledRatesRemoval((1, 2, 3, 4))
    assert records[-1] == ThrottledRatesRemoval((3, 4))
    values = [one.value for one in records[1:-1] if isinstance(one, ConfigChanged)]
    assert values == [None] * 4 + ["7000", "8000"] * 2
    controller.do(decision)
    assert controller.configs(B, 1) == controller.configs(B, 2) == {}
    controller.catch_up("t")
    assert throttles(controller) == []


@pytest.mark.conforms("kip-179:rates-auto-remove", "kip-179:rates-kept")
def test_rates_may_outlive_the_move() -> None:
    controller = throttled()
    rates = {1: RateRequest(7000, 7000)}
    controller.do(alter_interbroker_throttled_rates(controller.image, rates, remove_throttle=False))
    assert controller.image.rates_removal == ()
    controller.catch_up("t")
    assert throttles(controller) == [controller.configs(B, 1)]


@pytest.mark.conforms("kip-179:rates-results", "kip-179:rates-validated")
@pytest.mark.parametrize(
    ("broker", "rate", "error"),
    [
        (1, RateRequest(1000, 2**63 - 1), E.NONE),
        (9, RateRequest(5000, 5000), E.BROKER_NOT_AVAILABLE),
        (1, RateRequest(999, 5000), E.INVALID_REQUEST),
        (1, RateRequest(5000, -1), E.INVALID_REQUEST),
    ],
)
def test_throttled_rates_results(broker: int, rate: RateRequest, error: E) -> None:
    image = throttled().image
    decision = alter_interbroker_throttled_rates(image, {broker: rate})
    assert errors(decision) == [error]
    assert bool(decision.records) == (error is E.NONE)


@pytest.mark.conforms(
    "kip-179:replicas-null",
    "kip-179:replicas-union",
    "kip-179:replicas-subtract",
    "kip-179:replicas-add",
    "kip-179:replicas-record",
)
def test_replicas_are_unioned_then_subtracted_and_null_is_everyone() -> None:
    controller = throttled()
    controller.create("u", [1], [2])
    request = {tp("u"): ReplicasRequest(None, ()), tp("u", 1): ReplicasRequest((2,), (3,))}
    decision = alter_interbroker_throttled_replicas(controller.image, request)
    assert decision.records[0] == ThrottledReplicasRemoval(("t", "u"))
    assert decision.records[-1] == ThrottledReplicasRemoval(("u",))
    controller.do(decision)
    assert controller.configs(T, "t") == {}
    lists = ("0:1,0:2,0:3,0:4,0:5,1:2", "1:3")
    assert controller.configs(T, "u") == dict(zip(LISTS, lists, strict=True))
    wrong = {tp("no"): ReplicasRequest((), ()), tp("u"): ReplicasRequest((9,), None)}
    refused = alter_interbroker_throttled_replicas(controller.image, wrong)
    assert errors(refused) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.BROKER_NOT_AVAILABLE]
    only = alter_interbroker_throttled_replicas(controller.image, request, validate_only=True)
    assert only.records == ()


@pytest.mark.conforms("kip-179:failover-moving", "kip-179:failover-idle")
def test_failover_leaves_a_move_and_else_removes() -> None:
    controller = throttled()
    before = throttles(controller)
    controller.do(fail_over(controller.image, 2))
    assert (controller.image.controller, controller.image.controller_epoch) == (2, 1)
    assert throttles(controller) == before
    idle = Controller()
    rates = {1: RateRequest(5000, 5000)}
    idle.do(alter_interbroker_throttled_rates(idle.image, rates))
    idle.do(tick(idle.image, 10**12))
    assert throttles(idle)
    idle.do(fail_over(idle.image, 3))
    assert throttles(idle) == []


@pytest.mark.conforms("kip-179-early-draft:alter-error-0")
@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AlterTopicsEntry("t", 4), E.NONE),
        (AlterTopicsEntry("t", -1, 3), E.NONE),
        (AlterTopicsEntry("t", 3, 1), E.NONE),
        (AlterTopicsEntry("t", assignment={0: [3, 4]}), E.NONE),
        (AlterTopicsEntry("t", 3, 1, {0: [1], 1: [2], 2: [3]}), E.NONE),
        (AlterTopicsEntry("no", 4), E.INVALID_TOPIC_EXCEPTION),
        (AlterTopicsEntry("t", 1), E.INVALID_PARTITIONS),
        (AlterTopicsEntry("t", 0), E.INVALID_PARTITIONS),
        (AlterTopicsEntry("t", 2**31 - 1), E.INVALID_PARTITIONS),
        (AlterTopicsEntry("t", 2**31 - 1, 1, {0: [1]}), E.INVALID_PARTITIONS),
        (AlterTopicsEntry("t", -1, 0), E.INVALID_REPLICATION_FACTOR),
        (AlterTopicsEntry("t", -1, 9), E.INVALID_REPLICATION_FACTOR),
        (AlterTopicsEntry("t", assignment={0: [9]}), E.UNKNOWN_MEMBER_ID),
        (AlterTopicsEntry("t", assignment={5: [1, 2]}), E.INVALID_REPLICA_ASSIGNMENT),
        (AlterTopicsEntry("t", 3, assignment={0: [1, 2]}), E.INVALID_REPLICA_ASSIGNMENT),
        (AlterTopicsEntry("t", -1, 1, {0: [1]}), E.INVALID_REPLICA_ASSIGNMENT),
        (AlterTopicsEntry("t", -1, 1, {0: [1], 1: [1, 2]}), E.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_alter_topics(request_: AlterTopicsEntry, error: E) -> None:
    controller = Controller(brokers=5)
    controller.create("t", [1, 2], [2, 3])
    decision = alter_topics(controller.image, [request_], Random(1))
    assert errors(decision) == [error]
    assert bool(decision.records) == (error is E.NONE)
    controller.do(decision)
    if error is E.NONE:
        partitions = controller.image.topics["t"].partitions.values()
        assert len(partitions) == max(2, request_.partitions)
        wanted = 2 if request_.replicas == -1 else request_.replicas
        assert {len(partition.target) for partition in partitions} == {wanted}


@pytest.mark.conforms("kip-179-early-draft:alter-in-progress")
def test_alter_topics_waits_for_a_running_move() -> None:
    image = moving().image
    decision = alter_topics(image, [AlterTopicsEntry("t", -1, 3)], Random(1))
    assert errors(decision) == [E.REASSIGNMENT_IN_PROGRESS]
    assert errors(alter_topics(image, [AlterTopicsEntry("t", 3)] * 2, Random(1))) == (
        [E.INVALID_REQUEST] * 2
    )


def test_an_unclean_election_on_the_target_ends_the_move() -> None:
    controller = Controller()
    controller.create("t", [1])
    controller.do(fence_broker(controller.image, 1))
    controller.do(alter_partition_reassignments(controller.image, {tp("t"): [2]}))
    controller.do(elect_leaders(controller.image, [tp("t")], ElectionType.UNCLEAN))
    done = controller.at("t")
    assert (done.replicas, done.isr, done.leader, done.reassigning) == ((2,), (2,), 2, False)


def test_a_removed_replica_is_fenced_off_by_a_new_leader_epoch() -> None:
    controller = Controller()
    controller.create("t", [1, 2])
    before = controller.at("t")
    controller.do(alter_partition_reassignments(controller.image, {tp("t"): [1]}))
    after = controller.at("t")
    assert (after.leader, after.replicas) == (1, (1,))
    assert after.leader_epoch == before.leader_epoch + 1


def test_a_broker_that_is_refused_keeps_its_throttle_and_its_removal() -> None:
    controller = throttled()
    image = controller.image
    before = controller.configs(B, 3)
    assert before
    assert 3 in image.rates_removal
    rates = {3: RateRequest(1, 1), 4: RateRequest(9_000, 9_000)}
    decision = controller.do(alter_interbroker_throttled_rates(image, rates))
    assert errors(decision) == [E.INVALID_REQUEST, E.NONE]
    assert controller.configs(B, 3) == before
    assert image.rates_removal == (3, 4)


def test_a_topic_that_is_refused_keeps_its_lists_and_their_removal() -> None:
    controller = throttled()
    controller.create("other", [1, 2])
    image = controller.image
    before = controller.configs(T, "t")
    assert before
    lists = {tp("t", 77): ReplicasRequest((1,), (1,)), tp("other"): ReplicasRequest((1,), (2,))}
    decision = controller.do(alter_interbroker_throttled_replicas(image, lists))
    assert errors(decision) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE]
    assert controller.configs(T, "t") == before
    assert image.replicas_removal == ("other", "t")
