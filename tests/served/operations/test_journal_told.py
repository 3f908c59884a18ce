"""What a backend does to the journal's own entries is in the audit, in few lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kshunt.backend.access.cluster_keys import write_keys
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.operations.core.journal_audit import PAUSE_S, JournalAudit
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.journal.entries import EntryKind, operation_key
from kshunt.backend.operations.journal.port import Repairs
from tests.support.access.keys import KEYS
from tests.support.embedded.background import running
from tests.support.faults.hostile_journal import BODIES, unsigned
from tests.support.operations.journal import Where, raw_producer
from tests.support.serving import serving
from tests.support.shrink.driver import Book, Clock, Trail
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
TOPIC = "orders"


async def test_each_repair_is_told_once_and_overwriting_all_the_time_in_few_lines() -> None:
    clock, book = Clock(), Book(Trail())
    repairs = [Repairs()]
    told = JournalAudit(Registry(clock, lambda one: None, book, "one"), clock, lambda: repairs[-1])

    async def after(*news: Repairs) -> list[str]:
        before = len(book.state.entries)
        for one in news:
            repairs.append(one)
            await told.tell()
        lines = [entry.body for _, entry in sorted(book.state.of(EntryKind.AUDIT).items())][before:]
        assert {(line["who"], line["kind"]) for line in lines} <= {("kshunt", "journal")}
        return [f"{line['event']}: {line['outcome']}" for line in lines]

    assert await after(Repairs()) == []
    adopted, restored = await after(Repairs(adopted=2, restored=3), Repairs(adopted=2, restored=3))
    assert adopted.startswith("journal_adopted: kshunt trusts and signs 2 unsigned entries")
    assert "somebody deleted the journal; kshunt wrote 3 entries" in restored
    flood = [Repairs(2, number, 3) for number in range(1, 50)]
    (first,) = await after(*flood)
    assert "kshunt wrote 1 entry again" in first
    clock.seconds += PAUSE_S
    (rest,) = await after(*flood[-2:])
    assert "kshunt wrote 47 entries again" in rest


# --- a backend as a process


@pytest.fixture
def where() -> Iterator[Where]:
    with running(ClusterSpec(plain_brokers(3))) as cluster:
        cluster_id = cluster.call(lambda c: c.world.cluster_id)
        create_topic(cluster.bootstrap_servers, TOPIC, [[1, 2]])
        yield Where(cluster.bootstrap_servers, cluster_id, cluster)


@pytest.fixture
def options(tmp_path: Path) -> tuple[str, str]:
    write_keys(tmp_path / "cluster.keys", KEYS)
    return "--cluster-keys", str(tmp_path / "cluster.keys")


def change(client: BackendClient) -> None:
    """Something that goes through the journal."""
    client.elections.elect_preferred_leaders([TopicPartition(TOPIC, 0)])


def until_told(client: BackendClient, event: str, words: str) -> None:
    """Wait for a line of the audit, whose chain must be whole."""

    def is_told() -> bool:
        lines = client.audit.lines()
        return any(line.event == event and words in line.outcome for line in lines)

    wait_until(is_told, DEADLINE_S, f"{event} is in the audit")
    assert client.sender.get("/v1/audit/verification")["problems"] == []


def test_entries_that_were_adopted_are_told(
    where: Where, options: tuple[str, str], tmp_path: Path
) -> None:
    create_topic(where.servers, JOURNAL_TOPIC, [[1, 2, 3]], {"cleanup.policy": "compact"})
    key = operation_key("cc33")
    producer, record = raw_producer(where), unsigned(key, BODIES[key], where.cluster_id)
    producer.produce(JOURNAL_TOPIC, record[1], record[0], partition=0)
    assert producer.flush(DEADLINE_S) == 0
    adopting = (*options, "--adopt-unsigned-journal")
    with serving(where.servers, tmp_path, *adopting) as address, BackendClient(address) as client:
        change(client)
        until_told(client, "journal_adopted", "1 unsigned entry")


def test_entries_that_were_overwritten_or_deleted_are_told(
    where: Where, options: tuple[str, str], tmp_path: Path
) -> None:
    with serving(where.servers, tmp_path, *options) as address, BackendClient(address) as client:
        change(client)
        (operation,) = client.operations.list()
        producer = raw_producer(where)
        producer.produce(JOURNAL_TOPIC, b"?", operation_key(operation.id).encode(), partition=0)
        assert producer.flush(DEADLINE_S) == 0
        change(client)
        until_told(client, "journal_repaired", "kshunt wrote 1 entry again")
        admin = AdminClient({"bootstrap.servers": where.servers, "log_level": 0})
        admin.delete_topics([JOURNAL_TOPIC])[JOURNAL_TOPIC].result(DEADLINE_S)
        until_told(client, "journal_repaired", "somebody deleted the journal")
