"""Laws of the embedded controller: what holds after any commands, and after any crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.embedded.controller.alter_topics import AlterTopicsEntry, alter_topics
from kshunt.backend.embedded.controller.brokers import fail_log_dirs, fence_broker
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.controller.elections import ElectionType, elect_leaders
from kshunt.backend.embedded.controller.reassign import alter_partition_reassignments
from kshunt.backend.embedded.controller.shrink import (
    delete_partitions,
    finish_replica_deletion,
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
from kshunt.backend.embedded.controller.topics import (
    NewPartitions,
    create_partitions,
    delete_topics,
)
from kshunt.backend.embedded.metadata import records as r
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionImage
from kshunt.backend.embedded.metadata.records import (
    NO_LEADER,
    PartitionModeCode,
    Record,
    ResourceType,
)
from kshunt.backend.embedded.metadata.snapshot import image_records
from tests.support.embedded.controller import Controller, replayed, replicas_to_delete, tp
from tests.support.runs.examples import many

BROKERS = 5
T, B = ResourceType.TOPIC, ResourceType.BROKER
Targets = dict[int, list[int]]
replica_list = st.lists(st.integers(1, BROKERS), min_size=1, max_size=3, unique=True)
targets = st.dictionaries(st.integers(0, 2), replica_list, min_size=1)
COMMANDS = (
    *("start", "fence", "disk", "isr", "move", "native", "cancel", "elect", "unclean"),
    *("grow", "alter", "shrink", "deleted", "failed", "tick", "recreate", "failover"),
)
step = st.tuples(
    st.sampled_from(COMMANDS), st.integers(1, BROKERS), st.integers(0, 3), replica_list
)


def cluster() -> Controller:
    controller = Controller(BROKERS)
    controller.create("t", [1, 2], [2, 3], [3, 4])
    controller.create("u", [5, 1, 2])
    controller.set(B, "", delete_topic_partition_enable="true")
    return controller


class Walk:
    """A cluster under random commands; each step's records are replayed."""

    def __init__(self) -> None:
        self.controller = cluster()
        self.now_ms = 0

    def take(self, name: str, broker: int, number: int, replicas: list[int]) -> None:
        self.now_ms += 100_000
        steps: Mapping[str, Callable[[], object]] = {
            "start": lambda: self._start(broker),
            "isr": lambda: self._report(number, replicas),
            "deleted": lambda: self._deleted(broker, done=True),
            "failed": lambda: self._deleted(broker, done=False),
            "recreate": lambda: self._recreate(number, replicas),
        }
        if name in steps:
            steps[name]()
        else:
            self.controller.do(self._decision(name, broker, number, replicas))

    def _decision(self, name: str, broker: int, number: int, replicas: list[int]) -> Decision[Any]:
        image, item = self.controller.image, tp("t", number)
        decisions: Mapping[str, Callable[[], Decision[Any]]] = {
            "fence": lambda: fence_broker(image, broker),
            "disk": lambda: fail_log_dirs(image, broker, ["/a"]),
            "move": lambda: alter_partition_reassignments(image, {item: replicas}),
            "cancel": lambda: alter_partition_reassignments(image, {item: None}),
            "native": lambda: reassign_partitions(
                image, {item: replicas}, throttle_bytes_per_s=5000
            ),
            "elect": lambda: elect_leaders(image, None),
            "unclean": lambda: elect_leaders(image, None, ElectionType.UNCLEAN),
            "grow": lambda: create_partitions(
                image, {"t": NewPartitions(number + 2)}, self.controller.random
            ),
            "alter": lambda: alter_topics(
                image, [AlterTopicsEntry("t", -1, len(replicas))], self.controller.random
            ),
            "shrink": lambda: delete_partitions(
                image, {"t": number}, self.now_ms, delay_ms=broker % 2 * 400_000
            ),
            "tick": lambda: tick(image, self.now_ms),
            "failover": lambda: fail_over(image, broker),
        }
        return decisions[name]()

    def _start(self, broker: int) -> None:
        if self.controller.image.brokers[broker].fenced:
            self.controller.start(broker)

    def _report(self, number: int, replicas: list[int]) -> None:
        partition = self.controller.image.partition("t", number)
        if partition is None or partition.leader == NO_LEADER:
            return
        online = [b for b in partition.replicas if self._can(partition, b)]
        left = [b for b in online if b in replicas or len(replicas) > 1]
        isr = dict.fromkeys([partition.leader, *left])
        self.controller.report("t", number, isr)

    def _can(self, partition: PartitionImage, broker: int) -> bool:
        return self.controller.image.is_online(broker, partition.log_dir(broker))

    def _deleted(self, broker: int, *, done: bool) -> None:
        image = self.controller.image
        for _, item in list(replicas_to_delete(image, broker)):
            answer = finish_replica_deletion(image, item, broker, self.now_ms, deleted=done)
            self.controller.do(answer)

    def _recreate(self, number: int, replicas: list[int]) -> None:
        image = self.controller.image
        if number == 0 and any(image.is_online(broker) for broker in replicas):
            self.controller.do(delete_topics(image, ["t"]))
            self.controller.create("t", replicas, replicas)


def partitions(image: ClusterImage) -> dict[tuple[str, int], PartitionImage]:
    return {
        (topic.topic_id, number): partition
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
    }


def check(image: ClusterImage, partition: PartitionImage) -> None:
    replicas, isr = partition.replicas, partition.isr
    assert replicas
    assert isr
    assert len(set(replicas)) == len(replicas) == len(partition.log_dirs)
    assert len(set(isr)) == len(isr)
    assert set(isr) <= set(replicas)
    assert set(partition.adding) | set(partition.removing) <= set(replicas)
    assert not set(partition.adding) & set(partition.removing)
    if partition.leader != NO_LEADER:
        assert partition.leader in isr
        assert image.is_online(partition.leader, partition.log_dir(partition.leader))
        assert partition.mode is not PartitionModeCode.NONE
    if partition.reassigning and partition.leader != NO_LEADER:
        assert not set(partition.target) <= set(isr)


def check_step(
    before: dict[tuple[str, int], PartitionImage], image: ClusterImage, name: str
) -> None:
    for key, new in partitions(image).items():
        check(image, new)
        old = before.get(key)
        if old is None:
            continue
        assert new.leader_epoch >= old.leader_epoch
        if new.deletion == old.deletion and new != old:
            assert new.partition_epoch > old.partition_epoch
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch
        if old.reassigning and not new.reassigning and name not in ("cancel", "move"):
            assert new.replicas == old.target


def throttled(image: ClusterImage) -> tuple[set[str], set[int]]:
    """Topics and brokers that have a throttle."""
    topics = {name for name in image.topics if "throttled" in str(image.dynamic_configs(T, name))}
    brokers = {b for b in image.brokers if "throttled" in str(image.dynamic_configs(B, str(b)))}
    return topics, brokers


def check_throttles(image: ClusterImage) -> None:
    """A throttle is written down for removal, and without a move there is none."""
    topics, brokers = throttled(image)
    assert topics <= set(image.replicas_removal)
    assert brokers <= set(image.rates_removal)
    if not image.is_moving:
        assert (topics, brokers) == (set(), set())
        assert (image.replicas_removal, image.rates_removal) == ((), ())


@settings(max_examples=many(150), deadline=None)
@given(st.lists(step, max_size=40))
def test_whatever_is_asked_the_invariants_hold(
    steps: list[tuple[str, int, int, list[int]]],
) -> None:
    walk = Walk()
    for name, broker, number, replicas in steps:
        before = partitions(walk.controller.image)
        walk.take(name, broker, number, replicas)
        check_step(before, walk.controller.image, name)
        check_throttles(walk.controller.image)
    log = [r.decode(r.encode(record)) for record in walk.controller.log]
    assert replayed(log) == walk.controller.image
    assert replayed(image_records(walk.controller.image)) == walk.controller.image


def finish_moves(controller: Controller) -> None:
    """Every moving partition catches up, and time passes."""
    for topic, number, _ in list(controller.image.moving()):
        controller.catch_up(topic.name, number)
    controller.do(tick(controller.image, 10**9))


def crash_everywhere(controller: Controller, records: tuple[Record, ...]) -> None:
    """After any prefix and a failover: a move whose throttles will go, or no throttle."""
    for cut in range(len(records) + 1):
        crashed = Controller(0)
        for record in (*controller.log, *records[:cut]):
            crashed.image.replay(record)
        failover = fail_over(crashed.image, 9)
        for again in range(len(failover.records)):
            twice = replayed((*controller.log, *records[:cut], *failover.records[:again]))
            for record in fail_over(twice, 8).records:
                twice.replay(record)
            check_throttles(twice)
        crashed.do(failover)
        check_throttles(crashed.image)
        finish_moves(crashed)
        assert throttled(crashed.image) == (set(), set())


@pytest.mark.conforms("kip-179:crash-in-the-middle")
@settings(max_examples=many(60), deadline=None)
@given(targets)
def test_a_native_move_cut_off_anywhere_leaves_no_throttle_behind(wanted: Targets) -> None:
    controller = cluster()
    move = {tp("t", number): replicas for number, replicas in wanted.items()}
    move[tp("u")] = [1, 3]
    decision = reassign_partitions(controller.image, move, throttle_bytes_per_s=5000)
    crash_everywhere(controller, decision.records)


@pytest.mark.conforms("kip-179:rates-crash", "kip-179:replicas-crash")
@settings(max_examples=many(30), deadline=None)
@given(st.sets(st.integers(1, BROKERS), min_size=1), st.booleans(), st.booleans())
def test_altered_throttles_cut_off_anywhere_go_with_the_move(
    brokers: set[int], running: bool, rates: bool
) -> None:
    controller = cluster()
    if running:
        move = reassign_partitions(controller.image, {tp("t"): [3]}, throttle_bytes_per_s=5000)
        controller.do(move)
    image = controller.image
    if rates:
        asked = {broker: RateRequest(7000, 8000) for broker in brokers}
        crash_everywhere(controller, alter_interbroker_throttled_rates(image, asked).records)
    else:
        lists = {tp("u"): ReplicasRequest(tuple(brokers), None)}
        crash_everywhere(controller, alter_interbroker_throttled_replicas(image, lists).records)


@pytest.mark.conforms("kip-179:completion-order", "kip-179:removal-lists", "kip-179:removal-rates")
def test_the_end_of_a_move_cut_off_anywhere_leaves_no_throttle_behind() -> None:
    controller = cluster()
    move = reassign_partitions(controller.image, {tp("t"): [3]}, throttle_bytes_per_s=5000)
    controller.do(move)
    start = len(controller.log)
    controller.catch_up("t")
    ending, controller.log = tuple(controller.log[start:]), controller.log[:start]
    crash_everywhere(controller, ending)


def test_a_hundred_brokers_and_two_hundred_thousand_replicas_come_back_in_seconds() -> None:
    partitions_ = 67_000
    controller = Controller(100)
    image, topic_id = controller.image, "0" * 32
    image.replay(r.TopicCreated("big", topic_id))
    began = time.process_time()
    for number in range(partitions_):
        brokers = tuple(1 + (number + at) % 100 for at in range(3))
        created = r.PartitionCreated(topic_id, number, brokers, brokers, brokers[0], ("/a",) * 3)
        image.replay(r.decode(r.encode(created)))
    assert time.process_time() - began < 20
    assert sum(image.hosted_count(broker) for broker in image.brokers) == 3 * partitions_
    fenced = fence_broker(image, 1)
    assert len(fenced.records) == 1 + image.hosted_count(1)
