"""The check before a topic loses partitions: reads what there is to know, and judges it.

Goals
    An operator sees everything that speaks against it before anything is done.
Constraints
    - It reads only, takes a bounded time, and can be asked at any time, of any cluster.
    - Brokers that do not answer and calls that a cluster lacks are said, and hide nothing else.
Algorithm
    The topic first: without it, or for a count that cannot be right, nothing else is asked. Then
    all at the same time: offsets, producers, groups, configurations, disks. Then the last records,
    while it watches whether the logs grow. `shrink_judge` makes the answer of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np

from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.columns import LogDirColumns, PartitionColumns
from kshunt.backend.domain.cluster.metadata import NO_BROKER
from kshunt.backend.domain.shrink.check import ShrinkCheck
from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport
from kshunt.backend.domain.shrink.facts import COPY_RATE_BYTES_PER_S, PartitionFacts, ShrinkFacts
from kshunt.backend.domain.shrink.judge import judge
from kshunt.backend.domain.shrink.topic_findings import of_request
from kshunt.backend.domain.topics.descriptions import DescribedPartition
from kshunt.backend.domain.topics.groups import GroupsRead, OffsetsRead, ProducersRead, RecordSample
from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.errors import KshuntError

WATCH_S: Final = 1.0
"""How long it is watched whether the logs grow."""
SAMPLE_S: Final = 3.0
"""How long the last records are waited for."""
CALL_SHARE: Final = 0.4
"""Of the time for a reading, the share that one call in it may take. The check gives up a silent
broker while there is time for the answers of the others."""

T = TypeVar("T")


@dataclass(slots=True)
class _CheckReading:
    """Calls that may fail alone."""

    timeout_s: float
    unread: dict[str, str] = field(default_factory=dict)

    async def of(self, what: str, call: Awaitable[T], otherwise: T) -> T:
        """What the call says; else it is noted as not read."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await call
        except TimeoutError:
            self.unread[what] = f"no answer within {self.timeout_s:g} s"
        except KshuntError as why:
            self.unread[what] = why.message
        return otherwise


class ShrinkChecks:
    """See the module's text."""

    def __init__(
        self, admin: ClusterAdmin, clock: Clock, *, timeout_s: float, watch_s: float = WATCH_S
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._timeout_s = timeout_s
        self._call_s = timeout_s * CALL_SHARE
        self._watch_s = watch_s

    async def check(
        self,
        topic: str,
        wanted: int,
        *,
        copy_rate_bytes_per_s: float = COPY_RATE_BYTES_PER_S,
        partitioner: Partitioner | None = None,
    ) -> ShrinkCheck:
        """The safety view of a shrink to `wanted` partitions; nothing is changed.

        `partitioner` is the one that an operator chose to place keys by.

        Raises:
            ClusterUnreachable: nobody said what the topic is.
            NotAuthorized: the cluster does not show it.
        """
        described = await self._admin.topics.describe(
            [topic], configs=False, min_isr=False, timeout_s=self._timeout_s
        )
        named = next((one for one in described.topics if one.name == topic), None)
        facts = ShrinkFacts(
            topic,
            wanted,
            self._clock.now_ms(),
            () if named is None else tuple(map(_facts, named.partitions)),
            live=described.live,
            copy_rate_bytes_per_s=copy_rate_bytes_per_s,
            partitioner=partitioner,
        )
        if facts.partitions and not any(of_request(facts)):
            facts = await self._gathered(facts)
        # Off the event loop: a wide topic with many groups takes a while.
        return await asyncio.to_thread(judge, facts)

    async def _gathered(self, facts: ShrinkFacts) -> ShrinkFacts:
        admin, topic, timeout_s = self._admin, facts.topic, self._call_s
        reading = _CheckReading(self._timeout_s)
        support, configs, groups, producers, (offsets, began_s), dirs = await asyncio.gather(
            reading.of(
                "whether the cluster deletes partitions itself",
                self._support(),
                ShrinkSupport.UNSUPPORTED,
            ),
            reading.of("its configuration", self._configs(topic), {}),
            reading.of("groups", admin.groups.of_topic(topic, timeout_s=timeout_s), GroupsRead(())),
            reading.of(
                "producers", admin.records.producers(topic, timeout_s=timeout_s), ProducersRead({})
            ),
            self._offsets(topic, reading),
            self._dirs(facts, reading),
        )
        sample, (later, ended_s) = await asyncio.gather(
            self._sample(facts, offsets, reading), self._later(topic, began_s, reading)
        )
        for one in (groups, producers, offsets, sample):
            reading.unread |= one.unread
        sizes = _sizes(topic, facts, dirs)
        return replace(
            facts,
            now_ms=self._clock.now_ms(),
            partitions=tuple(
                replace(
                    one,
                    size_bytes=sizes.get(one.number),
                    offsets=offsets.offsets.get(one.number),
                    later_end=_end(later, one.number),
                    producers=producers.producers.get(one.number),
                )
                for one in facts.partitions
            ),
            support=support,
            configs=configs,
            groups=groups.groups,
            dirs=tuple(one for columns in dirs.values() for one in columns.dirs),
            sample=sample,
            watched_ms=round((ended_s - began_s) * 1000),
            unread=dict(sorted(reading.unread.items())),
        )

    async def _support(self) -> ShrinkSupport:
        return await self._admin.partition_deletions.support(timeout_s=self._call_s)

    async def _configs(self, topic: str) -> Mapping[str, str]:
        found = await self._admin.configs.describe(topic, timeout_s=self._call_s)
        return {one.name: one.value for one in found or () if one.value is not None}

    async def _offsets(self, topic: str, reading: _CheckReading) -> tuple[OffsetsRead, float]:
        """The offsets, and when they were read."""
        call = self._admin.records.offsets(topic, timeout_s=self._call_s)
        found = await reading.of("offsets", call, OffsetsRead({}))
        return found, self._clock.monotonic_s()

    async def _later(
        self, topic: str, began_s: float, reading: _CheckReading
    ) -> tuple[OffsetsRead, float]:
        """The offsets once more, when it was watched long enough."""
        passed_s = self._clock.monotonic_s() - began_s
        await self._clock.wait_s(max(0.0, self._watch_s - passed_s))
        return await self._offsets(topic, reading)

    async def _sample(
        self, facts: ShrinkFacts, offsets: OffsetsRead, reading: _CheckReading
    ) -> RecordSample:
        ends = {number: (one.start, one.end) for number, one in offsets.offsets.items()}
        sample_s = min(SAMPLE_S, self._call_s)
        call = self._admin.records.sample(
            facts.topic, ends, partitions=len(facts.partitions), timeout_s=sample_s
        )
        return await reading.of("the last records", call, RecordSample(0, 0))

    async def _dirs(
        self, facts: ShrinkFacts, reading: _CheckReading
    ) -> Mapping[int, LogDirColumns]:
        """The log directories of every broker, with the replicas of the topic."""
        numbers = np.array([one.number for one in facts.partitions], np.int32)
        asked = PartitionColumns((facts.topic,), np.zeros(len(numbers), np.int32), numbers)

        async def ask(broker: int) -> LogDirColumns | None:
            async def known() -> LogDirColumns | None:
                return await self._admin.logs.dirs(broker, asked, timeout_s=self._call_s)

            return await reading.of(f"disks of broker {broker}", known(), None)

        brokers = sorted(facts.live)
        found = await asyncio.gather(*map(ask, brokers))
        answers = zip(brokers, found, strict=True)
        return {broker: columns for broker, columns in answers if columns is not None}


def _facts(partition: DescribedPartition) -> PartitionFacts:
    return PartitionFacts(
        partition.number,
        partition.leader,
        partition.replicas,
        partition.isr,
        moving=bool(partition.adding or partition.removing),
        mode=partition.mode,
    )


def _end(read: OffsetsRead, number: int) -> int | None:
    found = read.offsets.get(number)
    return None if found is None else found.end


def _sizes(topic: str, facts: ShrinkFacts, dirs: Mapping[int, LogDirColumns]) -> Mapping[int, int]:
    """The size of each partition's log on its leader, where that is known."""
    leaders = {one.number: one.leader for one in facts.partitions if one.leader != NO_BROKER}
    return {
        number: size
        for number, leader in leaders.items()
        if leader in dirs and (size := _size(topic, number, dirs[leader])) is not None
    }


def _size(topic: str, number: int, columns: LogDirColumns) -> int | None:
    if topic not in columns.topics:
        return None
    rows = (columns.topic_index == columns.topics.index(topic)) & (columns.partition == number)
    sizes = columns.size_bytes[rows & ~columns.is_future]
    return int(sizes[0]) if len(sizes) and int(sizes[0]) >= 0 else None
