"""An operation names the target replicas of its partitions that still wait for their turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import LogDir, TopicPartition
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.tui.facts.brokers.disks import disks_of
from kshunt.tui.facts.brokers.pending_transfers import PendingTransfers, pending_transfers_of
from kshunt.tui.facts.brokers.row import BrokerRow
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.model import NATURAL
from kshunt.tui.views.brokers.details import about
from kshunt.tui.views.brokers.table import broker_table, disk_words
from tests.support.topics import create_topic, produce
from tests.support.tui.cluster import ScriptedCluster, incident, running_move
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "queued", [[1]] * 3)
    for partition in range(3):
        produce(bootstrap, "queued", 200, 10_000, partition)
    return bootstrap


def test_the_backend_says_where_what_waits_shall_be(client: BackendClient) -> None:
    targets = {TopicPartition("queued", n): (2 + n % 2,) for n in range(3)}
    answer = client.reassignments.start(
        ReassignmentPlan(targets), throttle_bytes_per_s=100_000, caps=MoveCaps(1, 1)
    )

    def now() -> Operation:
        return next(one for one in client.operations.list() if one.id == answer.operation_id)

    wait_until(lambda: now().waiting == 2, 60, "one moves and two wait")
    plan = now().details.waiting_plan or {}
    named = {TopicPartition(e["topic"], e["partition"]): e["replicas"] for e in plan["partitions"]}
    assert len(named) == 2
    assert all(tuple(replicas) == targets[partition] for partition, replicas in named.items())
    assert len((now().details.rollback_plan or {})["partitions"]) == 3
    client.reassignments.cancel(list(targets))
    wait_until(lambda: now().state.ended, 60, "it is cancelled")
    assert now().details.waiting_plan is None


# What it adds to a broker's peak

WAITING = {TopicPartition("orders", 4): (3, 4, 5), TopicPartition("audit-log", 0): (3, 4, 5)}


def queued_move(cluster: ScriptedCluster, *, told: bool = True) -> Operation:
    """The move that runs, with two partitions more that wait."""
    operation = running_move(cluster)
    entries = [
        {"topic": p.topic, "partition": p.partition, "replicas": [*replicas]}
        for p, replicas in WAITING.items()
    ]
    plan = {"version": 1, "partitions": entries}
    details = structs.replace(operation.details, waiting_plan=plan if told else None)
    partitions = (*operation.partitions, *WAITING)
    return replace(operation, partitions=partitions, waiting=2, details=details)


def brought(cluster: ScriptedCluster) -> dict[int, int]:
    """What the waiting partitions bring to each broker, worked out one by one."""
    found: dict[int, int] = {}
    for partition, target in WAITING.items():
        state = cluster.partitions[partition]
        for broker in set(target) - set(state.replicas):
            found[broker] = found.get(broker, 0) + state.size_bytes
    return found


def row_of(facts: Facts, broker: int, *operations: Operation) -> BrokerRow:
    row = broker_table(facts, NATURAL, operations).value_of(broker)
    assert row is not None
    return row


def test_the_peak_counts_what_waits_for_its_turn() -> None:
    cluster = incident()
    operation = queued_move(cluster)
    facts = Facts(cluster.step())
    extra = brought(cluster)
    assert extra
    assert pending_transfers_of(facts, [operation]).size_bytes == extra
    for broker, size in extra.items():
        with_queue, without = row_of(facts, broker, operation).disk, row_of(facts, broker).disk
        assert with_queue.peak_bytes == without.peak_bytes + size
        assert (with_queue.queued_bytes, with_queue.at_least) == (size, False)
        assert with_queue.receives
    broker = min(extra)
    (disk,) = disks_of(facts, broker, [operation])
    assert disk.arriving_bytes == row_of(facts, broker, operation).disk.arriving_bytes
    assert "of it waits" in disk_words(disk)
    assert not any("may add to it" in line.text for line in about(facts, broker, [operation]))


def test_with_several_directories_what_waits_may_come_to_each() -> None:
    cluster = incident()
    operation = queued_move(cluster)
    broker = min(brought(cluster))
    dirs = [LogDir(broker, path, 10**12, 5 * 10**11) for path in ("/a", "/b")]
    facts = Facts(replace(cluster.step(), log_dirs=tuple(dirs), log_dir_paths=("/a", "/b")))
    assert all(disk.at_least for disk in disks_of(facts, broker, [operation]))
    assert row_of(facts, broker, operation).disk.queued_bytes == brought(cluster)[broker]
    assert any("may add to it" in line.text for line in about(facts, broker, [operation]))


def test_where_the_backend_does_not_say_it_the_peak_is_at_least() -> None:
    cluster = incident()
    operation = queued_move(cluster, told=False)
    facts = Facts(cluster.step())
    assert pending_transfers_of(facts, [operation]) == PendingTransfers(untold=2)
    disk = row_of(facts, 3, operation).disk
    assert disk.at_least
    assert disk_words(disk).partition("; ")[2].startswith(">")


def test_what_is_of_no_known_size_is_counted() -> None:
    cluster = incident()
    operation = queued_move(cluster)
    before = Facts(cluster.step())
    del cluster.partitions[TopicPartition("audit-log", 0)]
    gone = Facts(cluster.step())
    found = pending_transfers_of(gone, [operation])
    assert sum(found.unknown.values()) == 3
    assert sum(found.size_bytes.values()) < sum(
        pending_transfers_of(before, [operation]).size_bytes.values()
    )
    done = replace(operation, waiting=0)
    assert pending_transfers_of(before, [done]) == PendingTransfers()
