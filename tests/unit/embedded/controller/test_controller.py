"""The embedded controller's shipped verbs: topics, configurations, brokers, ISRs, elections."""

from __future__ import annotations

from random import Random

import pytest

from kshunt.backend.embedded.controller.brokers import (
    Registration,
    allocate_producer_ids,
    assign_log_dirs,
    fail_log_dirs,
    fence_broker,
    register_broker,
    unfence_broker,
)
from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    alter_configs,
    incremental_alter_configs,
)
from kshunt.backend.embedded.controller.decision import KafkaError as E
from kshunt.backend.embedded.controller.elections import (
    ElectionType,
    elect_leaders,
    elect_preferred_leaders,
)
from kshunt.backend.embedded.controller.isr import IsrReport, alter_partition
from kshunt.backend.embedded.controller.topics import (
    NewPartitions,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
)
from kshunt.backend.embedded.metadata.config_keys import ConfigSourceNumber
from kshunt.backend.embedded.metadata.records import NO_LEADER, BrokerFenced, ResourceType
from tests.support.embedded.controller import Controller, errors, remove_broker, tp

T, B = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = ConfigOp


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("a.b", 3, 2), E.NONE),
        (NewTopic("new"), E.NONE),
        (NewTopic("new", assignments={0: [1, 2], 1: [2, 3]}), E.NONE),
        (NewTopic("new", 1, 1, configs={"retention.ms": "1000"}), E.NONE),
        (NewTopic("old", 1, 1), E.TOPIC_ALREADY_EXISTS),
        (NewTopic("", 1, 1), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a b", 1, 1), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("old.er", 1, 1), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("new", 0, 1), E.INVALID_PARTITIONS),
        (NewTopic("new", -2, 1), E.INVALID_PARTITIONS),
        (NewTopic("new", 10_001, 1), E.INVALID_PARTITIONS),
        (NewTopic("new", 1, 0), E.INVALID_REPLICATION_FACTOR),
        (NewTopic("new", 1, 9), E.INVALID_REPLICATION_FACTOR),
        (NewTopic("new", 1, assignments={0: [1]}), E.INVALID_REQUEST),
        (NewTopic("new", assignments={1: [1]}), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignments={0: []}), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignments={0: [1, 1]}), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignments={0: [9]}), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignments={0: [1], 1: [1, 2]}), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", 1, 1, configs={"no.such": "1"}), E.INVALID_CONFIG),
        (NewTopic("new", 1, 1, configs={"retention.ms": "soon"}), E.INVALID_CONFIG),
    ],
)
def test_create_topics(topic: NewTopic, error: E) -> None:
    controller = Controller()
    controller.create("old", [1])
    controller.create("old_er", [1])
    decision = controller.do(create_topics(controller.image, [topic], Random(1)))
    assert errors(decision) == [error]
    assert bool(decision.records) == (error is E.NONE)
    assert bool(decision.results[0].message) == (error is not E.NONE)


def test_a_new_topic_is_led_in_sync_and_has_directories() -> None:
    controller = Controller()
    controller.do(fence_broker(controller.image, 1))
    controller.create("t", [1, 2], [2, 3])
    first = controller.at("t")
    assert (first.leader, first.isr, first.replicas) == (2, (2,), (1, 2))
    assert set(controller.at("t", 1).log_dirs) <= {"/a", "/b"}
    topic = controller.image.topic("t")
    assert topic is not None
    assert controller.image.topic_by_id(topic.topic_id) is topic
    wanted = NewTopic("u", assignments={0: [1]})
    decision = create_topics(controller.image, [wanted], Random(1))
    assert errors(decision) == [E.INVALID_REPLICA_ASSIGNMENT]


def test_a_topic_that_occurs_twice_is_refused_and_validation_has_no_records() -> None:
    image = Controller().image
    assert errors(create_topics(image, [NewTopic("t", 1, 1)] * 2, Random(1))) == (
        [E.INVALID_REQUEST] * 2
    )
    only = create_topics(image, [NewTopic("t", 1, 1)], Random(1), validate_only=True)
    assert (errors(only), only.records) == ([E.NONE], ())


def test_delete_topics_by_name_and_id() -> None:
    controller = Controller()
    controller.create("t", [1, 2])
    topic = controller.image.topics["t"]
    decision = delete_topics(controller.image, ["no"], ["0" * 32])
    assert errors(decision) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID]
    controller.set(B, "", delete_topic_enable="false")
    assert delete_topics(controller.image, ["t"]).error is E.TOPIC_DELETION_DISABLED
    controller.set(B, "", delete_topic_enable="true")
    controller.do(delete_topics(controller.image, ids=[topic.topic_id]))
    assert not controller.image.topics
    assert controller.image.hosted_count(1) == 0


@pytest.mark.parametrize(
    ("name", "request_", "error"),
    [
        ("t", NewPartitions(4), E.NONE),
        ("t", NewPartitions(3, [[3, 4]]), E.NONE),
        ("no", NewPartitions(4), E.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", NewPartitions(2), E.INVALID_PARTITIONS),
        ("t", NewPartitions(1), E.INVALID_PARTITIONS),
        ("t", NewPartitions(4, [[1, 2]]), E.INVALID_REPLICA_ASSIGNMENT),
        ("t", NewPartitions(3, [[1]]), E.INVALID_REPLICA_ASSIGNMENT),
        ("t", NewPartitions(3, [[1, 9]]), E.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_create_partitions(name: str, request_: NewPartitions, error: E) -> None:
    controller = Controller()
    controller.create("t", [1, 2], [2, 3])
    decision = controller.do(create_partitions(controller.image, {name: request_}, Random(1)))
    assert errors(decision) == [error]
    count = request_.total_count if error is E.NONE else 2
    assert len(controller.image.topics["t"].partitions) == count


@pytest.mark.parametrize(
    ("resource", "change", "error"),
    [
        (ConfigResource(T, "t"), ConfigChange("min.insync.replicas", SET, "2"), E.NONE),
        (ConfigResource(T, "t"), ConfigChange("cleanup.policy", APPEND, "compact"), E.NONE),
        (ConfigResource(B, "1"), ConfigChange("leader.replication.throttled.rate", SET, "1"), 0),
        (ConfigResource(B, ""), ConfigChange("num.partitions", SET, "3"), E.NONE),
        (ConfigResource(T, "t"), ConfigChange("retention.ms", DELETE), E.NONE),
        (ConfigResource(T, "t"), ConfigChange("retention.ms", SET, "-2"), E.INVALID_CONFIG),
        (ConfigResource(T, "t"), ConfigChange("min.insync.replicas", SET, "0"), E.INVALID_CONFIG),
        (ConfigResource(T, "t"), ConfigChange("segment.bytes", SET, "1"), E.INVALID_CONFIG),
        (ConfigResource(T, "t"), ConfigChange("cleanup.policy", SET, "x"), E.INVALID_CONFIG),
        (ConfigResource(T, "t"), ConfigChange("preallocate", SET, "yes"), E.INVALID_CONFIG),
        (
            ConfigResource(T, "t"),
            ConfigChange("min.cleanable.dirty.ratio", SET, "2"),
            E.INVALID_CONFIG,
        ),
        (
            ConfigResource(T, "t"),
            ConfigChange("leader.replication.throttled.replicas", SET, "0-1"),
            E.INVALID_CONFIG,
        ),
        (ConfigResource(T, "t"), ConfigChange("retention.ms", APPEND, "1"), E.INVALID_CONFIG),
        (ConfigResource(T, "t"), ConfigChange("retention.ms", SET), E.INVALID_REQUEST),
        (ConfigResource(T, "t"), ConfigChange("no.such", DELETE), E.INVALID_CONFIG),
        (
            ConfigResource(T, "no"),
            ConfigChange("retention.ms", SET, "1"),
            E.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (ConfigResource(B, "9"), ConfigChange("num.partitions", DELETE), 102),
        (ConfigResource(B, "x"), ConfigChange("num.partitions", DELETE), E.INVALID_REQUEST),
    ],
)
def test_incremental_alter_configs(
    resource: ConfigResource, change: ConfigChange, error: int
) -> None:
    controller = Controller()
    controller.create("t", [1])
    decision = incremental_alter_configs(controller.image, {resource: [change]})
    assert errors(decision) == [error]


def test_a_value_says_where_it_comes_from() -> None:
    controller = Controller()
    controller.create("t", [1])
    image = controller.image

    def source(kind: ResourceType, name: str) -> tuple[str | None, ConfigSourceNumber]:
        found = image.config(kind, name, "min.insync.replicas")
        return found.value, found.source

    assert source(T, "t") == ("1", ConfigSourceNumber.DEFAULT_CONFIG)
    controller.set(B, "", min_insync_replicas="2")
    assert source(T, "t") == ("2", ConfigSourceNumber.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert source(B, "1") == ("2", ConfigSourceNumber.DYNAMIC_DEFAULT_BROKER_CONFIG)
    controller.set(B, "1", min_insync_replicas="3")
    assert source(B, "1") == ("3", ConfigSourceNumber.DYNAMIC_BROKER_CONFIG)
    controller.set(T, "t", min_insync_replicas="4")
    assert source(T, "t") == ("4", ConfigSourceNumber.DYNAMIC_TOPIC_CONFIG)
    assert len(image.config(T, "t", "min.insync.replicas").synonyms) == 3
    assert [value.key.name for value in image.configs(T, "t")] == sorted(
        value.key.name for value in image.configs(T, "t")
    )


def test_lists_are_appended_to_and_subtracted_from() -> None:
    controller = Controller()
    controller.create("t", [1])
    key, resource = "leader.replication.throttled.replicas", ConfigResource(T, "t")
    for op, value, expected in (
        (APPEND, "0:1,0:2", "0:1,0:2"),
        (APPEND, "0:2,0:3", "0:1,0:2,0:3"),
        (SUBTRACT, "0:1,0:9", "0:2,0:3"),
    ):
        changes = {resource: [ConfigChange(key, op, value)]}
        controller.do(incremental_alter_configs(controller.image, changes))
        assert controller.configs(T, "t")[key] == expected
    twice = {resource: [ConfigChange(key, DELETE), ConfigChange(key, SET, "0:1")]}
    assert errors(incremental_alter_configs(controller.image, twice)) == [E.INVALID_REQUEST]


def test_alter_configs_replaces_everything() -> None:
    controller = Controller()
    controller.create("t", [1], retention_ms="5")
    resource = ConfigResource(T, "t")
    bad = alter_configs(controller.image, {resource: {"segment.ms": "x"}})
    assert errors(bad) == [E.INVALID_CONFIG]
    values: dict[str, str | None] = {"segment.ms": "9", "retention.bytes": None}
    controller.do(alter_configs(controller.image, {resource: values}))
    assert controller.configs(T, "t") == {"segment.ms": "9"}


def test_a_fenced_broker_leaves_isrs_and_the_last_one_stays() -> None:
    controller = Controller()
    controller.create("t", [1, 2])
    controller.create("u", [1])
    controller.do(fence_broker(controller.image, 1))
    moved, lost = controller.at("t"), controller.at("u")
    assert (moved.leader, moved.isr, moved.leader_epoch) == (2, (2,), 1)
    assert (lost.leader, lost.isr) == (NO_LEADER, (1,))
    assert fence_broker(controller.image, 1).records == ()
    controller.do(unfence_broker(controller.image, 1))
    assert controller.at("u").leader == 1
    assert controller.at("t").isr == (2,)
    assert unfence_broker(controller.image, 1).records == ()
    assert errors(fence_broker(controller.image, 9)) == [E.BROKER_ID_NOT_REGISTERED]
    assert errors(unfence_broker(controller.image, 9)) == [E.BROKER_ID_NOT_REGISTERED]


def test_a_topic_may_allow_unclean_elections() -> None:
    controller = Controller()
    controller.create("t", [1, 2], unclean_leader_election_enable="true")
    controller.report("t", 0, [1])
    controller.do(fence_broker(controller.image, 1))
    assert (controller.at("t").leader, controller.at("t").isr) == (2, (2,))


def test_registration_knows_impostors_and_restarts() -> None:
    controller = Controller(brokers=2)
    controller.create("t", [1, 2])
    before = controller.image.brokers[1]
    other = Registration(1, "other", "h", 1)
    decision = register_broker(controller.image, other)
    assert errors(decision) == [E.DUPLICATE_BROKER_REGISTRATION]
    again = Registration(1, before.incarnation, "h", 1, None, ("/a", "/b"))
    controller.do(register_broker(controller.image, again))
    after = controller.image.brokers[1]
    assert after.fenced
    assert after.epoch > before.epoch
    assert controller.at("t").leader == 2
    controller.do(remove_broker(controller.image, 1))
    assert list(controller.image.brokers) == [2]
    assert errors(remove_broker(controller.image, 1)) == [E.BROKER_ID_NOT_REGISTERED]


def test_a_failed_directory_takes_its_replicas_down_and_the_last_one_the_broker() -> None:
    controller = Controller()
    controller.create("t", [1, 2], [1, 2])
    first = controller.at("t", 0).log_dir(1)
    second = controller.at("t", 1).log_dir(1)
    assert {first, second} == {"/a", "/b"}
    assert errors(fail_log_dirs(controller.image, 1, ["/x"])) == [E.LOG_DIR_NOT_FOUND]
    controller.do(fail_log_dirs(controller.image, 1, [first]))
    assert (controller.at("t", 0).leader, controller.at("t", 1).leader) == (2, 1)
    assert fail_log_dirs(controller.image, 1, [first]).records == ()
    decision = controller.do(fail_log_dirs(controller.image, 1, [second]))
    assert BrokerFenced(1) in decision.records
    assert controller.at("t", 1).leader == 2
    assert errors(fail_log_dirs(controller.image, 9, [])) == [E.BROKER_ID_NOT_REGISTERED]


def test_brokers_choose_directories() -> None:
    controller = Controller()
    controller.create("t", [1, 2])
    wanted = {tp("t"): "/b", tp("t", 5): "/a", tp("no"): "/a"}
    decision = controller.do(assign_log_dirs(controller.image, 2, wanted))
    assert errors(decision) == [E.NONE] + [E.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert controller.at("t").log_dir(2) == "/b"
    missing = assign_log_dirs(controller.image, 2, {tp("t"): "/x"})
    assert errors(missing) == [E.LOG_DIR_NOT_FOUND]
    assert assign_log_dirs(controller.image, 9, {}).error is E.BROKER_ID_NOT_REGISTERED


def test_producer_ids_come_in_blocks() -> None:
    controller = Controller()
    controller.do(allocate_producer_ids(controller.image, 1))
    assert controller.image.next_producer_id == 1000
    assert errors(allocate_producer_ids(controller.image, 9)) == [E.BROKER_ID_NOT_REGISTERED]


@pytest.mark.parametrize(
    ("broker", "report", "error"),
    [
        (1, IsrReport(0, 1, (1, 2)), E.NONE),
        (1, IsrReport(-1, 1, (1, 2)), E.FENCED_LEADER_EPOCH),
        (1, IsrReport(1, 1, (1, 2)), E.NOT_CONTROLLER),
        (1, IsrReport(0, 2, (1, 2)), E.NOT_CONTROLLER),
        (1, IsrReport(0, 0, (1, 2)), E.INVALID_UPDATE_VERSION),
        (2, IsrReport(0, 1, (1, 2)), E.INVALID_REQUEST),
        (1, IsrReport(0, 1, (2,)), E.INVALID_REQUEST),
        (1, IsrReport(0, 1, (1, 4)), E.INVALID_REQUEST),
        (1, IsrReport(0, 1, (1, 1)), E.INVALID_REQUEST),
        (1, IsrReport(0, 1, (1, 3)), E.INELIGIBLE_REPLICA),
    ],
)
def test_alter_partition(broker: int, report: IsrReport, error: E) -> None:
    controller = Controller()
    controller.create("t", [1, 2, 3])
    controller.do(fence_broker(controller.image, 3))
    epoch = controller.image.brokers[broker].epoch
    decision = alter_partition(controller.image, broker, epoch, {tp("t"): report})
    assert errors(decision) == [error]


def test_alter_partition_knows_old_brokers_and_unknown_partitions() -> None:
    controller = Controller()
    report = {tp("no"): IsrReport(0, 0, (1,))}
    assert alter_partition(controller.image, 1, 0, report).error is E.STALE_BROKER_EPOCH
    assert alter_partition(controller.image, 9, 0, report).error is E.STALE_BROKER_EPOCH
    epoch = controller.image.brokers[1].epoch
    decision = alter_partition(controller.image, 1, epoch, report)
    assert errors(decision) == [E.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.conforms("kip-183:error-3", "kip-183:error-80")
def test_preferred_elections() -> None:
    controller = Controller()
    controller.create("t", [1, 2], [2, 1], [3, 4])
    controller.do(fence_broker(controller.image, 1))
    asked = [tp("t"), tp("t", 1), tp("t"), tp("no")]
    before = elect_leaders(controller.image, asked)
    assert errors(before) == [
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.ELECTION_NOT_NEEDED,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    controller.do(unfence_broker(controller.image, 1))
    controller.catch_up("t")
    native = elect_preferred_leaders(controller.image, asked)
    assert errors(native) == [E.NONE, E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
    everything = elect_leaders(controller.image, None)
    assert [result.item for result in everything.results] == [tp("t")]
    assert len(elect_preferred_leaders(controller.image, None).results) == 3
    controller.do(everything)
    assert controller.at("t").leader == 1


def test_unclean_elections() -> None:
    controller = Controller()
    controller.create("t", [1, 2])
    controller.create("u", [1])
    controller.report("t", 0, [1])
    unclean = ElectionType.UNCLEAN
    assert errors(elect_leaders(controller.image, [tp("t")], unclean)) == [E.ELECTION_NOT_NEEDED]
    controller.do(fence_broker(controller.image, 1))
    assert controller.at("t").leader == NO_LEADER
    both = [tp("t"), tp("u")]
    decision = controller.do(elect_leaders(controller.image, both, unclean))
    assert errors(decision) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert (controller.at("t").leader, controller.at("t").isr) == (2, (2,))
