"""Shrinks on paper: topics, groups and records as plain values, and no broker, socket or process.

These values answer immediately what a phase of a shrink asks of a cluster. A test changes them as
clients and other operators would. `PaperCluster.refuses` says which call comes to what.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.port.topics import KnownTopic
from kshunt.backend.admin.port.write_blocks import WriteBlock
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import Broker, LogDir
from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport
from kshunt.backend.domain.shrink.offset_maps import OFFSET_MAP
from kshunt.backend.domain.topics.configs import TopicConfig
from kshunt.backend.domain.topics.descriptions import (
    DescribedPartition,
    TopicDescription,
    TopicsDescribed,
)
from kshunt.backend.domain.topics.groups import (
    ActiveProducer,
    ConsumerGroup,
    GroupsRead,
    OffsetsRead,
    PartitionOffsets,
    ProducersRead,
    RecordSample,
)
from kshunt.backend.domain.topics.partitioners import KeysSeen
from kshunt.backend.operations.shrink.job_port import JobCommand, JobStatus, RepartitionJob
from tests.support.shrink.driver import Driver, write_map

UNKNOWN_TOPIC = ItemResult(3, "UNKNOWN_TOPIC_OR_PARTITION")
UNKNOWN_ID = ItemResult(100, "UNKNOWN_TOPIC_ID")
EXISTS = ItemResult(36, "TOPIC_ALREADY_EXISTS")
HAS_MEMBERS = ItemResult(25, "UNKNOWN_MEMBER_ID")
NO_GROUP = ItemResult(69, "GROUP_ID_NOT_FOUND")
DENIED = ItemResult(29, "TOPIC_AUTHORIZATION_FAILED", "not you")
LATER = ItemResult(7, "REQUEST_TIMED_OUT", "nobody answered", retriable=True)
DEFAULTS = {"max.message.bytes": "1048588", "message.timestamp.before.max.ms": "9"}


@dataclass(eq=False)
class PaperTopic:
    """A topic; each record is a word, and its offset is its place."""

    number: int
    replicas: list[tuple[int, ...]]
    configs: dict[str, str] = field(default_factory=dict)
    records: list[list[str]] = field(default_factory=list)
    leaderless: set[int] = field(default_factory=set)
    """Partitions that nobody leads."""

    def __post_init__(self) -> None:
        self.records = self.records or [[] for _ in self.replicas]

    @property
    def id(self) -> str:
        """In Kafka's notation."""
        return urlsafe_b64encode(self.number.to_bytes(16)).decode().rstrip("=")

    def leader(self, number: int) -> int:
        return -1 if number in self.leaderless else self.replicas[number][0]


@dataclass(eq=False)
class PaperCluster:
    """See the module's text; it stands where a `ClusterAdmin` does."""

    topics_by_name: dict[str, PaperTopic] = field(default_factory=dict)
    committed: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    """Offsets by group and topic."""
    reading: set[str] = field(default_factory=set)
    """Groups with members."""
    blocked: bool = False
    may_write: bool | None = True
    alone: bool = False
    """Whether no ACL is about the source."""
    refuses: dict[str, ItemResult] = field(default_factory=dict)
    """What a call that changes something comes to, by subject and verb; nothing is done."""
    unlearnt: set[int] = field(default_factory=set)
    """Brokers that have not learnt of the last changes."""
    silent: set[int] = field(default_factory=set)
    """Partitions whose leaders do not tell their offsets."""
    unread: dict[str, str] = field(default_factory=dict)
    """Groups that cannot be read, and why."""
    transactions: dict[int, int] = field(default_factory=dict)
    """First offsets of open transactions, by partition of the source."""
    unreplicated: dict[int, int] = field(default_factory=dict)
    """How many more records a leader has than `records`, by partition of the source."""
    producers: dict[int, tuple[ActiveProducer, ...]] = field(default_factory=dict)
    brokers: tuple[int, ...] = (1, 2, 3)
    seen: KeysSeen = field(default_factory=KeysSeen)
    """The keys of the last records."""
    answers: Callable[[JobCommand], JobStatus | None] = lambda command: None
    """What a job comes to, instead of what it would."""
    done: list[str] = field(default_factory=list)
    """What was changed, in this order."""
    pairs: dict[tuple[str, str], list[tuple[int, int, int, int]]] = field(default_factory=dict)
    """Where each record was copied from and to."""
    not_offered: Mapping[Any, str] = field(default_factory=dict)
    numbers: int = 0

    def create(self, name: str, replicas: Sequence[Sequence[int]], **configs: str) -> PaperTopic:
        """A topic; underscores in names of settings stand for dots."""
        self.numbers += 1
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self.topics_by_name[name] = PaperTopic(
            self.numbers, [tuple(one) for one in replicas], settings
        )
        return self.topics_by_name[name]

    def change(self, verb: str, effect: Callable[[], ItemResult]) -> ItemResult:
        """Carry something out, unless `refuses` names it."""
        if verb in self.refuses:
            return self.refuses[verb]
        result = effect()
        if result.ok:
            self.done.append(verb)
        return result

    @property
    def topics(self) -> _Topics:
        return _Topics(self)

    @property
    def configs(self) -> _Configs:
        return _Configs(self)

    @property
    def groups(self) -> _Groups:
        return _Groups(self)

    @property
    def records(self) -> _Records:
        return _Records(self)

    @property
    def logs(self) -> _Logs:
        return _Logs(self)

    @property
    def write_blocks(self) -> _Blocks:
        return _Blocks(self)

    @property
    def cluster(self) -> Any:
        async def describe(topics: object, *, timeout_s: float) -> Any:
            return SimpleNamespace(brokers={one: Broker(one, "b", 1) for one in self.brokers})

        return SimpleNamespace(describe=describe)

    @property
    def partition_deletions(self) -> Any:
        async def support(*, timeout_s: float) -> ShrinkSupport:
            return ShrinkSupport.UNSUPPORTED

        return SimpleNamespace(support=support)


@dataclass(frozen=True)
class _Topics:
    on: PaperCluster

    async def describe(self, names: Sequence[str], **_: object) -> TopicsDescribed:
        there = [(name, self.on.topics_by_name.get(name)) for name in names]
        found = [_description(name, topic) for name, topic in there if topic is not None]
        return TopicsDescribed(tuple(found), frozenset(self.on.brokers))

    async def create(
        self,
        name: str,
        assignment: Mapping[int, Sequence[int]],
        configs: Mapping[str, str],
        **_: object,
    ) -> ItemResult:
        def effect() -> ItemResult:
            if name in self.on.topics_by_name:
                return EXISTS
            self.on.create(name, [assignment[number] for number in sorted(assignment)], **configs)
            return OK

        return self.on.change("topics.create", effect)

    async def delete(self, name: str, *, topic_id: str = "", timeout_s: float) -> ItemResult:
        def effect() -> ItemResult:
            found = self.on.topics_by_name.get(name)
            if found is None:
                return UNKNOWN_ID if topic_id else UNKNOWN_TOPIC
            if topic_id and int(topic_id, 16) != found.number:
                return UNKNOWN_ID
            del self.on.topics_by_name[name]
            for place in [place for place in self.on.committed if place[1] == name]:
                del self.on.committed[place]
            return OK

        return self.on.change("topics.delete", effect)

    async def known(self, topic: str, **_: object) -> Mapping[int, KnownTopic | None]:
        found = self.on.topics_by_name.get(topic)
        knows = KnownTopic("", 0) if found is None else KnownTopic(found.id, len(found.replicas))
        return {one: None if one in self.on.unlearnt else knows for one in self.on.brokers}


def _description(name: str, topic: PaperTopic) -> TopicDescription:
    partitions = tuple(
        DescribedPartition(number, topic.leader(number), replicas, replicas)
        for number, replicas in enumerate(topic.replicas)
    )
    return TopicDescription(name, topic.id, partitions)


@dataclass(frozen=True)
class _Configs:
    on: PaperCluster

    async def describe(self, topic: str, **_: object) -> tuple[TopicConfig, ...] | None:
        found = self.on.topics_by_name.get(topic)
        if found is None:
            return None
        values = {**DEFAULTS, **found.configs}
        return tuple(TopicConfig(name, value, "", False) for name, value in values.items())

    async def overrides(self, topic: str, **_: object) -> Mapping[str, str] | None:
        found = self.on.topics_by_name.get(topic)
        return None if found is None else dict(found.configs)

    async def alter(self, topic: str, changes: Mapping[str, str | None], **_: object) -> ItemResult:
        def effect() -> ItemResult:
            found = self.on.topics_by_name.get(topic)
            if found is None:
                return UNKNOWN_TOPIC
            both = {**found.configs, **changes}
            found.configs = {key: value for key, value in both.items() if value is not None}
            return OK

        return self.on.change("configs.alter", effect)

    async def in_force(
        self, topic: str, names: Sequence[str], brokers: Sequence[int], **_: object
    ) -> Mapping[int, Mapping[str, str]]:
        found = self.on.topics_by_name[topic].configs
        told = {name: found[name] for name in names if name in found}
        return {broker: told for broker in brokers if broker not in self.on.unlearnt}


@dataclass(frozen=True)
class _Groups:
    on: PaperCluster

    async def of_topic(self, topic: str, **_: object) -> GroupsRead:
        names = {name for name, where in self.on.committed if where == topic} | self.on.reading
        groups = tuple(
            ConsumerGroup(
                name,
                "Stable" if name in self.on.reading else "Empty",
                "classic",
                dict(self.on.committed.get((name, topic), {})),
            )
            for name in sorted(names)
        )
        return GroupsRead(groups, dict(self.on.unread))

    async def alter_offsets(
        self, group: str, topic: str, positions: Mapping[int, int], **_: object
    ) -> ItemResult:
        def effect() -> ItemResult:
            if group in self.on.reading:
                return HAS_MEMBERS
            self.on.committed.setdefault((group, topic), {}).update(positions)
            return OK

        return self.on.change("groups.alter_offsets", effect)

    async def delete(self, names: Sequence[str], **_: object) -> Mapping[str, ItemResult]:
        def gone(group: str) -> ItemResult:
            places = [place for place in self.on.committed if place[0] == group]
            for place in places:
                del self.on.committed[place]
            return OK if places else NO_GROUP

        return {name: self.on.change("groups.delete", partial(gone, name)) for name in names}


@dataclass(frozen=True)
class _Records:
    on: PaperCluster

    async def offsets(self, topic: str, **_: object) -> OffsetsRead:
        found = self.on.topics_by_name.get(topic)
        records = found.records if found is not None else []
        told = {
            number: PartitionOffsets(
                0, len(here), min(len(here), self.on.transactions.get(number, len(here)))
            )
            for number, here in enumerate(records)
            if number not in self.on.silent
        }
        return OffsetsRead(told, {f"partition {one}": "silence" for one in sorted(self.on.silent)})

    async def producers(self, topic: str, **_: object) -> ProducersRead:
        return ProducersRead(dict(self.on.producers))

    async def sample(self, topic: str, ends: object, **_: object) -> RecordSample:
        return RecordSample(9, 9, seen=self.on.seen)


@dataclass(frozen=True)
class _Logs:
    on: PaperCluster

    async def end_offsets(
        self, broker: int, partitions: PartitionColumns, **_: object
    ) -> OffsetColumns:
        topic = self.on.topics_by_name[partitions.topics[0]]
        ends = [
            len(topic.records[number]) + self.on.unreplicated.get(number, 0)
            for number in partitions.partition
        ]
        return OffsetColumns(np.array(ends, np.int64), np.zeros(len(ends), np.int16))

    async def dirs(self, broker: int, partitions: PartitionColumns, **_: object) -> LogDirColumns:
        topic = self.on.topics_by_name[partitions.topics[0]]
        here = [number for number, one in enumerate(topic.replicas) if broker in one]
        return LogDirColumns(
            (LogDir(broker, "/data", 10**12, 10**12),),
            partitions.topics,
            np.zeros(len(here), np.int32),
            np.array(here, np.int32),
            np.zeros(len(here), np.int16),
            np.full(len(here), 1000, np.int64),
            np.zeros(len(here), np.bool_),
        )


@dataclass(frozen=True)
class _Blocks:
    on: PaperCluster

    async def describe(self, topic: str, **_: object) -> WriteBlock:
        return WriteBlock(self.on.blocked, self.on.may_write, self.on.alone)

    async def create(self, topic: str, **_: object) -> ItemResult:
        return self.on.change("write_blocks.create", lambda: self._now(blocked=True))

    async def delete(self, topic: str, **_: object) -> ItemResult:
        return self.on.change("write_blocks.delete", lambda: self._now(blocked=False))

    def _now(self, *, blocked: bool) -> ItemResult:
        self.on.blocked = blocked
        return OK


@dataclass(eq=False)
class PaperJob:
    """A job that is done when it is started."""

    on: PaperCluster
    _status: JobStatus = field(default_factory=JobStatus)

    async def start(self, command: JobCommand) -> None:
        said = self.on.answers(command)
        work = self._compared if command.verify else self._copied
        self._status = said if said is not None else work(command)

    def status(self) -> JobStatus:
        return self._status

    async def end(self) -> None:
        return None

    def _copied(self, command: JobCommand) -> JobStatus:
        source = self.on.topics_by_name[command.source]
        target = self.on.topics_by_name[command.target]
        place = (f"kshunt-shrink-{command.operation}", command.source)
        at = self.on.committed.setdefault(place, {})
        pairs = self.on.pairs.setdefault((command.source, command.target), [])
        for number, words in enumerate(source.records):
            begin, end = at.get(number, 0), (command.until or {}).get(number, len(words))
            into = number if command.strip_header else number % len(target.records)
            for offset in range(begin, end):
                pairs.append((number, offset, into, len(target.records[into])))
                target.records[into].append(words[offset])
            at[number] = max(begin, end)
        return JobStatus(ended="complete", positions=dict(at))

    def _compared(self, command: JobCommand) -> JobStatus:
        source = self.on.topics_by_name[command.source]
        target = self.on.topics_by_name[command.target]
        place = (f"kshunt-shrink-{command.operation}", command.source)
        at = self.on.committed.get(place, {})
        ours = [word for n, words in enumerate(source.records) for word in words[: at.get(n, 0)]]
        theirs = [word for words in target.records for word in words]
        pairs = self.on.pairs.get((command.source, command.target), [])
        write_map(command.folder / OFFSET_MAP, pairs)
        return JobStatus(
            ended="complete",
            verified={
                "equal": sorted(ours) == sorted(theirs),
                "source_records": len(ours),
                "target_records": len(theirs),
                "positions": {str(number): end for number, end in at.items()},
                "target_ends": {str(n): len(words) for n, words in enumerate(target.records)},
            },
        )


@dataclass(eq=False)
class PaperDriver(Driver):
    """A `Driver` of a shrink on paper."""

    cluster: PaperCluster = field(default_factory=PaperCluster)

    async def open(self) -> None:
        self.admin = cast(KafkaAdmin, self.cluster)
        self.begin()

    async def close(self) -> None:
        await self.runner.let_go()

    def _job(self) -> RepartitionJob:
        return PaperJob(self.cluster)
