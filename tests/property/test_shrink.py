"""Laws of a topic that shrinks (KIP-694), whatever fails and whatever clients write.

The test keeps a model next to the cluster: what the cluster acknowledged to producers, which
partitions the cluster must delete, and not before which time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.controller.reassign import alter_partition_reassignments
from kshunt.backend.embedded.controller.shrink import delete_partitions
from kshunt.backend.embedded.core.cluster_core import ControllerLost, Timing
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.admin import metadata
from kshunt.backend.embedded.handlers.data import fetch, produce
from kshunt.backend.embedded.logs.batch import BatchRecord, build_batch
from kshunt.backend.embedded.metadata.image_values import PartitionImage
from kshunt.backend.embedded.metadata.records import PartitionModeCode, ResourceType
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireRequestHeader
from kshunt.backend.embedded.net.server import RequestContext
from tests.support.embedded.controller import tp
from tests.support.embedded.core import SmallCluster, check_plane
from tests.support.runs.examples import many

BROKERS: Final = 4
TOPIC: Final = "t"
REPLICAS: Final = ([1, 2], [2, 3], [3, 4], [4, 1], [1, 3], [2, 4])
COUNT: Final = len(REPLICAS)
INTERVAL_MS: Final = 2_000
DELAYS_MS: Final = (0, 500, 3_000, 9_000)
CONFIGS: Final = {"retention.ms": "86400000", "max.message.bytes": "77777"}
PRODUCE, FETCH, METADATA = 0, 1, 3
LEADER_NOT_AVAILABLE, UNKNOWN_PARTITION, READ_ONLY_ERROR = 5, 3, 44
OLD, KNOWS_MODES = 5, 12
"""Versions of Metadata: one of before the mode, and one that has it."""
RW, RO, NONE = PartitionModeCode.READ_WRITE, PartitionModeCode.READ_ONLY, PartitionModeCode.NONE

commands = st.one_of(
    st.tuples(
        st.just("shrink"),
        st.integers(1, COUNT),
        st.sampled_from(DELAYS_MS),
        st.one_of(st.none(), st.integers(0, 30)),
    ),
    st.tuples(st.just("produce"), st.integers(0, COUNT - 1)),
    st.tuples(st.sampled_from(["stop", "lose", "stall", "start"]), st.integers(1, BROKERS)),
    st.tuples(st.just("fail_over")),
    st.tuples(st.just("move"), st.integers(0, COUNT - 1), st.integers(1, BROKERS)),
    st.tuples(st.just("pass"), st.sampled_from([100, 900, 2_500, 6_000])),
)


class Walk:
    """A cluster under random commands, and what must be true of it."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.cluster = SmallCluster(BROKERS, timing=Timing(session_timeout_ms=3_000))
        self.cluster.start()
        self.cluster.create(TOPIC, *REPLICAS, **CONFIGS)
        self.cluster.create("beside", [1], [2])
        self.cluster.set(
            ResourceType.BROKER,
            "",
            delete_topic_partition_enable="true",
            delete_topic_partition_interval_delay_ms=str(INTERVAL_MS),
            auto_create_topics_enable="false",
        )
        world = World(self.cluster.core, cluster_id="laws", simulated=True)
        self._handlers = metadata.handlers(world) | produce.handlers(world) | fetch.handlers(world)
        self.told: dict[int, list[bytes]] = {number: [] for number in range(COUNT)}
        """What was acknowledged, by partition."""
        self.going: dict[int, int] = {}
        """Partitions to delete, and the time in ms before which the cluster keeps them whole."""
        self._count = 0

    # --- commands

    def take(self, name: str, *args: Any) -> None:
        """One command."""
        core = self.cluster.core
        actions: Mapping[str, Callable[..., None]] = {
            "shrink": self._shrink,
            "produce": self._produce,
            "stop": lambda b: self._if_up(b, core.stop_broker),
            "lose": lambda b: self._if_up(b, core.lose_broker),
            "stall": lambda b: self._if_up(b, lambda one: core.lose_broker(one, stalled=True)),
            "start": self._start,
            "fail_over": core.fail_over,
            "move": self._move,
            "pass": lambda ms: core.advance(core.now_ms + ms),
        }
        actions[name](*args)

    def _shrink(self, count: int, delay_ms: int, lost_after: int | None) -> None:
        core, image = self.cluster.core, self.cluster.image
        now_ms = core.now_ms
        present = {n: p for n, p in self._partitions().items() if p.mode is not NONE}
        decision = delete_partitions(image, {TOPIC: count}, now_ms, delay_ms=delay_ms)
        refused = not all(result.ok for result in decision.results)
        if refused:
            assert decision.records == ()
            return
        goes = {n: now_ms + delay_ms for n in present if n >= count}
        if lost_after is not None and lost_after < len(decision.records):
            core.lose_controller(lost_after)
            with suppress(ControllerLost):
                core.commit(decision)
            self._doubt(goes, present)
            return
        core.commit(decision)
        for number in present:
            if number >= count:
                self.going[number] = goes[number]
            else:
                self.going.pop(number, None)
        modes = {r.item.partition: r.status_code for r in decision.results}
        assert modes == {
            n: (RO if delay_ms else NONE) if n >= count else RW
            for n, p in present.items()
            if n >= count or p.deletion is not None
        }

    def _doubt(self, goes: Mapping[int, int], present: Mapping[int, PartitionImage]) -> None:
        """A controller crashed on the way: what it has written is what counts from here on."""
        for number in present:
            partition = self.cluster.at(TOPIC, number)
            times = [t[number] for t in (self.going, goes) if number in t]
            if partition.deletion is None:
                self.going.pop(number, None)
                continue
            assert times, "nobody asked for it to go"
            self.going[number] = min(times)

    def _produce(self, number: int) -> None:
        partition = self._partitions().get(number)
        if partition is None:
            return
        self._count += 1
        value = b"%d" % self._count
        broker = partition.leader if partition.leader > 0 else 1
        before = self._log_end(number)
        code = self._produced(broker, number, value)
        if partition.mode is NONE:
            assert code == UNKNOWN_PARTITION
        elif partition.leader < 0 or not self.cluster.plane.is_up(partition.leader):
            # What a broker does not answer while it does not run is nobody's record.
            return
        elif partition.mode is RO:
            assert code == READ_ONLY_ERROR
            assert self._log_end(number) == before
        elif code == 0:
            self.told[number].append(value)

    def _if_up(self, broker: int, action: Callable[[int], None]) -> None:
        if self.cluster.plane.is_up(broker):
            action(broker)

    def _start(self, broker: int) -> None:
        if not self.cluster.plane.is_up(broker):
            self.cluster.restart(broker)

    def _move(self, number: int, broker: int) -> None:
        decision: Decision[Any] = alter_partition_reassignments(
            self.cluster.image, {tp(TOPIC, number): [broker]}
        )
        self.cluster.core.commit(decision)

    # --- what clients see

    def _asked(self, broker: int, key: int, version: int, message: Any) -> Any:
        header = WireRequestHeader(key, version, 1, "laws")
        context = RequestContext(broker, header, 1, ("127.0.0.1", 1))
        return self._runner.run(self._handlers[key](context, message))

    def _produced(self, broker: int, number: int, value: bytes) -> int:
        version = 9
        made = KAFKA_APIS[PRODUCE].request
        data = build_batch([BatchRecord(self.cluster.core.now_ms, b"k", value)])
        part = made.TopicProduceData.PartitionProduceData(
            version=version, index=number, records=data
        )
        topic = made.TopicProduceData(version=version, name=TOPIC, partition_data=[part])
        message = made(version=version, acks=-1, timeout_ms=500, topic_data=[topic])
        answer = self._asked(broker, PRODUCE, version, message)
        return int(answer.responses[0].partition_responses[0].error_code)

    def _log_end(self, number: int) -> int:
        held = self.cluster.plane.named(TOPIC, number)
        return -1 if held is None or held.log is None else held.log.end_offset

    def shown(self, version: int) -> list[tuple[int, int]]:
        """Numbers and error codes of the partitions, as a client of that version sees them."""
        api = KAFKA_APIS[METADATA]
        asked = api.request.MetadataRequestTopic(version=version, name=TOPIC)
        message = api.request(version=version, topics=[asked], allow_auto_topic_creation=False)
        body = self._asked(1, METADATA, version, message)
        topic = api.response.decode(body, version=version).topics[0]
        assert topic.error_code == 0
        return sorted((one.partition_index, one.error_code) for one in topic.partitions)

    def read(self, number: int) -> list[bytes]:
        """The values of a partition, read from its leader."""
        version = 11
        made = KAFKA_APIS[FETCH].request
        part = made.FetchTopic.FetchPartition(
            version=version,
            partition=number,
            fetch_offset=0,
            partition_max_bytes=1 << 20,
            current_leader_epoch=-1,
            log_start_offset=-1,
        )
        message = made(
            version=version,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            topics=[made.FetchTopic(version=version, topic=TOPIC, partitions=[part])],
            forgotten_topics_data=[],
        )
        leader = self.cluster.at(TOPIC, number).leader
        body = self._asked(leader, FETCH, version, message)
        answer = KAFKA_APIS[FETCH].response.decode(body, version=version)
        entry = answer.responses[0].partitions[0]
        assert entry.error_code == 0
        return list(_values(bytes(entry.records or b"")))

    # --- laws

    def _partitions(self) -> Mapping[int, PartitionImage]:
        found = self.cluster.image.topic(TOPIC)
        assert found is not None
        return found.partitions

    def check(self) -> None:
        """What is true at any moment."""
        partitions, now_ms = self._partitions(), self.cluster.core.now_ms
        numbers = sorted(partitions)
        for version in (OLD, KNOWS_MODES):
            shown = self.shown(version)
            assert [number for number, _ in shown] == numbers
        assert numbers == list(range(len(numbers)))
        assert numbers
        modes = [partitions[number].mode for number in numbers]
        assert modes == sorted(modes, key=[RW, RO, NONE].index), "those that go are the last"
        for number in range(COUNT):
            partition = partitions.get(number)
            if number not in self.going:
                assert partition is not None
                assert partition.mode is RW
                assert partition.deletion is None
            elif partition is None or partition.mode is NONE:
                assert now_ms >= self.going[number], f"{number} went too early"
        self._check_records()

    def _check_records(self) -> None:
        """What was acknowledged is read in order, wherever there is a leader that runs."""
        for number, partition in self._partitions().items():
            leader = partition.leader
            if partition.mode is not NONE and leader > 0 and self.cluster.plane.is_up(leader):
                found = [value for value in self.read(number) if value in self.told[number]]
                assert found == self.told[number], f"records of {number}"

    def end(self) -> None:
        """Once brokers are up, the partitions to delete have gone; and the rest is as it was."""
        for broker in range(1, BROKERS + 1):
            self._start(broker)
        for _ in range((max(DELAYS_MS) + 10_000) // 500):
            self.cluster.core.advance(self.cluster.core.now_ms + 500)
        self.check()
        kept = [number for number in range(COUNT) if number not in self.going]
        assert sorted(self._partitions()) == kept
        assert not self.cluster.image.is_deleting
        configs = dict(self.cluster.image.dynamic_configs(ResourceType.TOPIC, TOPIC))
        assert configs == CONFIGS
        for number in kept:
            assert set(self.told[number]) <= set(self.read(number))
            assert self._produced(self.cluster.at(TOPIC, number).leader, number, b"last") == 0
        beside = self.cluster.image.topic("beside")
        assert beside is not None
        assert len(beside.partitions) == 2
        check_plane(self.cluster)


def _values(data: bytes) -> Iterator[bytes]:
    batches = MemoryRecords(data)
    while batches.has_next():
        for record in batches.next_batch():
            yield record.value or b""


@settings(max_examples=many(60))
@given(st.lists(commands, max_size=25))
def test_whatever_fails_while_a_topic_shrinks_the_laws_hold(
    asked: list[tuple[Any, ...]],
) -> None:
    with asyncio.Runner() as runner:
        walk = Walk(runner)
        for name, *args in asked:
            walk.take(name, *args)
            walk.check()
        walk.end()
