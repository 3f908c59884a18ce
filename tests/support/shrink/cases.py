"""Topics to shrink, and what must hold of them afterwards, whichever process was lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.operations.journal.entries import EntryKind
from kshunt.backend.pipeline.repartition.topics_and_positions import TopicQuestions
from tests.support.audit_checker import RequestedShrink, shrink_problems
from tests.support.faults.truth_ground import cluster_seen
from tests.support.shrink.check import QUIET, commit
from tests.support.shrink.copied_topics import Record, held
from tests.support.shrink.driver import Driver
from tests.support.topics import BROKER_DEADLINE_S, create_topic

PARTITIONS, PARTITIONS_LEFT, KEYS = 4, 2, 6
SETTINGS = {"retention.ms": "86400000", "max.message.bytes": "500000"}
EARLY = {0: 1, 1: 2, 2: 0, 3: 1}
LATE = dict.fromkeys(range(PARTITIONS), 4)


@dataclass(frozen=True)
class Before:
    """A topic as it was."""

    servers: str
    topic: str
    records: Sequence[Record]

    def unread(self, positions: Mapping[int, int]) -> Counter[Any]:
        """What a group at these positions has not read."""
        return unread(self.records, positions)


def unread(records: Sequence[Record], positions: Mapping[int, int]) -> Counter[Any]:
    return Counter(r.content for r in records if r.offset >= positions.get(r.partition, 0))


def by_key(records: Sequence[Record]) -> Mapping[bytes | None, Sequence[Any]]:
    found: dict[bytes | None, list[Any]] = {}
    for record in records:
        found.setdefault(record.key, []).append(record.content)
    return found


def made(servers: str, topic: str) -> Before:
    """A topic with records, each key in one partition, and two groups at different places."""
    assignment = [[1 + n % 3, 1 + (n + 1) % 3] for n in range(PARTITIONS)]
    create_topic(servers, topic, assignment, SETTINGS)
    producer = Producer({**QUIET, "bootstrap.servers": servers})
    for turn in range(4):
        for key in range(KEYS):
            value = b"%d of %d" % (turn, key)
            producer.produce(topic, value, b"k%d" % key, partition=key % PARTITIONS)
    assert producer.flush(BROKER_DEADLINE_S) == 0
    commit(servers, f"{topic}-early", topic, EARLY)
    commit(servers, f"{topic}-late", topic, LATE)
    return Before(servers, topic, held(servers, topic))


def first(place: Any, seen: set[Any]) -> bool:
    """Whether a place was not seen yet; it is from here on."""
    before = len(seen)
    seen.add(place)
    return len(seen) > before


def request(topic: str, **changes: Any) -> ShrinkRequest:
    return ShrinkRequest(topic, PARTITIONS_LEFT, 0, **changes)


def run(driver: Driver, *steps: Callable[[Driver], Awaitable[object]]) -> None:
    """Let a driver do these."""

    async def all_of_them() -> None:
        await driver.open()
        try:
            for step in steps:
                await step(driver)
        finally:
            await driver.close()

    asyncio.run(all_of_them())


def started(topic: str, **changes: Any) -> Callable[[Driver], Awaitable[object]]:
    return lambda driver: driver.start(request(topic, **changes))


def committed(servers: str, topic: str, group: str, partitions: int) -> Mapping[int, int]:
    return TopicQuestions({**QUIET, "bootstrap.servers": servers}).committed(
        group, topic, partitions
    )


def overrides(servers: str, topic: str) -> Mapping[str, str]:
    found: dict[str, str] = {}

    async def read(driver: Driver) -> None:
        found.update(await driver.admin.configs.overrides(topic, timeout_s=10.0) or {})

    run(Driver(servers, Path()), read)
    return found


def nothing_left(before: Before, driver: Driver) -> None:
    """No topic, no group and no file of the shrink is there any more."""
    admin = AdminClient({**QUIET, "bootstrap.servers": before.servers})
    names = admin.list_topics(timeout=BROKER_DEADLINE_S).topics
    assert [name for name in names if f"{before.topic}.kshunt" in name] == []
    groups = admin.list_consumer_groups().result(BROKER_DEADLINE_S).valid
    assert [one.group_id for one in groups if driver.operation_id in one.group_id] == []
    assert list(driver.folder.iterdir()) == []


def audit_is_true(before: Before, driver: Driver) -> None:
    """Each line of the audit is true on the cluster."""
    lines = [dict(entry.body) for _, entry in sorted(driver.book.state.of(EntryKind.AUDIT).items())]
    there = cluster_seen(AdminClient({**QUIET, "bootstrap.servers": before.servers}), before.topic)
    shrunk = RequestedShrink(before.topic, PARTITIONS, PARTITIONS_LEFT)
    assert shrink_problems(lines, there, {driver.operation_id: shrunk}) == []


def is_shrunk(before: Before, topic: str = "", extra: int = 0) -> None:
    """Every record is there once, in the order of its key; each group has what it had not read."""
    name, servers = topic or before.topic, before.servers
    after = held(servers, name)
    assert {r.partition for r in after} == set(range(PARTITIONS_LEFT))
    if not extra:
        assert by_key(after) == by_key(before.records)
    assert len(after) == len(before.records) + extra
    for group, positions in (("early", EARLY), ("late", LATE)):
        found = committed(servers, name, f"{before.topic}-{group}", PARTITIONS_LEFT)
        assert unread(after, found) >= before.unread(positions)
        if not extra:
            assert unread(after, found) == before.unread(positions)
    assert overrides(servers, name) == SETTINGS


def is_as_before(before: Before) -> None:
    """Nothing of the topic has changed."""
    assert held(before.servers, before.topic) == before.records
    for group, positions in (("early", EARLY), ("late", LATE)):
        name = f"{before.topic}-{group}"
        assert committed(before.servers, before.topic, name, PARTITIONS) == positions
    assert overrides(before.servers, before.topic) == SETTINGS


def hunted(servers: str, folder: Path, *, elsewhere: bool = False) -> None:
    """A topic is shrunk, and the backend is lost once at every place of every phase."""
    topic = f"hunted-{elsewhere}"
    before, driver = made(servers, topic), Driver(servers, folder, elsewhere=elsewhere)
    seen: set[Any] = set()

    def breaks(place: str) -> bool:
        phase = driver.work.phase if driver.operation_id else None
        return phase is not None and first((place, phase), seen)

    driver.trail.breaks = breaks
    run(driver, started(topic), Driver.to_end)
    assert driver.done, driver.operation
    assert len(seen) > 30
    is_shrunk(before)
    audit_is_true(before, driver)
    if not elsewhere:
        nothing_left(before, driver)
