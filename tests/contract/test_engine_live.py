"""The engine's decisions, carried out on real sockets: embedded brokers and Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from confluent_kafka import KafkaError, Producer

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.operations.moves.cluster_view import ClusterView, view_of
from kshunt.backend.operations.moves.pause_throttles import (
    FLOOR_BYTES_PER_S,
    Pause,
    Resume,
    pause_writes,
    resume_writes,
)
from kshunt.backend.operations.moves.schedule import Caps, Queue, WaitReason, next_moves
from tests.support.admin import (
    DEADLINE_S,
    TIMEOUT_S,
    fresh_name,
    nothing_moves,
    states_of,
    topic_with,
    unthrottle,
)
from tests.support.clusters import BROKERS, ContractCluster
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until_async

SLOW = 100_000


async def seen(admin: Reached, min_isr: Mapping[str, int]) -> ClusterView:
    """The whole cluster now."""
    state = await admin.cluster.describe(timeout_s=TIMEOUT_S)
    return view_of(
        state,
        await admin.reassignments.ongoing(timeout_s=TIMEOUT_S),
        min_isr=min_isr,
        throttles=await admin.throttles.describe(
            sorted(state.brokers), state.assignment.topics, timeout_s=TIMEOUT_S
        ),
    )


async def write(admin: Reached, writes: Pause | Resume) -> None:
    topics = await admin.throttles.alter_replicas(
        writes.topics, validate_only=False, timeout_s=TIMEOUT_S
    )
    rates = await admin.throttles.alter_rates(
        writes.rates, validate_only=False, timeout_s=TIMEOUT_S
    )
    assert all(result.ok for result in (*topics.values(), *rates.values()))


async def test_a_plan_runs_in_batches_and_never_over_its_caps(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "batches", [[1]] * 6)
    plan = {TopicPartition(topic, i): (2 + i % 2,) for i in range(6)}
    queue = Queue(plan, caps=Caps(per_broker=2, in_cluster=3))
    most = 0

    async def all_there() -> bool:
        nonlocal queue, most
        view = await seen(admin, {topic: 1})
        batch = next_moves(queue, view)
        if batch.start:
            targets = {move.partition: move.target for move in batch.start}
            outcome = await admin.reassignments.reassign(targets, ReassignOptions(), {})
            assert all(result.ok for result in outcome.results.values())
            queue = replace(queue, started=queue.started | targets.keys())
        most = max(most, len(view.ongoing) + len(batch.start))
        return all(view.partitions[p].replicas == target for p, target in plan.items())

    await wait_until_async(all_there, DEADLINE_S, "every partition is where the plan wants it")
    assert queue.started == plan.keys()
    assert 1 <= most <= 2, "broker 1 leads them all, and may copy two at a time"


async def test_a_pause_holds_our_copy_and_resuming_ends_it(
    cluster: ContractCluster, admin: Reached
) -> None:
    topic = await topic_with(admin, "paused", [[1], [1]], records=3_000)
    await asyncio.to_thread(produce, cluster.bootstrap_servers, topic, 3_000, 1_000, 1)
    ours, foreign = TopicPartition(topic, 0), TopicPartition(topic, 1)
    options = ReassignOptions(throttle_bytes_per_s=SLOW)
    await admin.reassignments.reassign({ours: (1, 2), foreign: (1, 3)}, options, {})
    before = await seen(admin, {topic: 1})
    pause = pause_writes([ours], before)
    assert pause.held == {(ours, 2)}
    assert pause.rates.keys() == {2}
    await write(admin, pause)

    async def settled_at_floor() -> bool:
        view = await seen(admin, {topic: 1})
        return not pause_writes([ours], view, record=pause.record).rates

    await wait_until_async(settled_at_floor, DEADLINE_S, "the floor is read back")
    held = await seen(admin, {topic: 1})
    rates = {b: t.rate.follower_bytes_per_s for b, t in held.throttles.rates.items()}
    assert (rates[2], rates[1], rates[3]) == (FLOOR_BYTES_PER_S, SLOW, SLOW)
    assert {ours, foreign} <= held.ongoing.keys()

    await write(admin, resume_writes(pause.record, held.throttles))
    back = await seen(admin, {topic: 1})
    assert {t.rate for t in back.throttles.rates.values()} == {
        t.rate for t in before.throttles.rates.values()
    }
    await unthrottle(admin, BROKERS)
    await nothing_moves(admin, topic)
    assert (await states_of(admin, topic))[0].replicas == (1, 2)


async def test_a_new_replica_counts_for_min_isr_before_it_is_in_sync(
    cluster: ContractCluster, admin: Reached
) -> None:
    """Why a topic with fewer replicas than min.insync.replicas is not moved unasked."""
    topic, servers = fresh_name("few"), cluster.bootstrap_servers
    config = {"min.insync.replicas": "2"}
    await asyncio.to_thread(create_topic, servers, topic, [[1]], config)
    await asyncio.to_thread(produce, servers, topic, 3_000, 1_000, 0)
    partition = TopicPartition(topic, 0)
    view = await seen(admin, {topic: 2})
    assert not view.under_min_isr & {partition}
    assert next_moves(Queue({partition: (2,)}), view).held[partition].why is (
        WaitReason.WOULD_FALL_UNDER_MIN_ISR
    )

    options = ReassignOptions(throttle_bytes_per_s=SLOW)
    assert (
        (await admin.reassignments.reassign({partition: (2,)}, options, {})).results[partition].ok
    )
    assert await asyncio.to_thread(refused, servers, topic)
    assert partition in (await seen(admin, {topic: 2})).under_min_isr
    await unthrottle(admin, BROKERS)
    await nothing_moves(admin, topic)
    await asyncio.to_thread(produce, servers, topic, 1, 10, 0)


def refused(servers: str, topic: str) -> bool:
    """Whether a record with acks=all is refused for want of replicas in sync."""
    errors: list[KafkaError | None] = []
    producer = Producer({"log_level": 0, "bootstrap.servers": servers, "acks": "all", "retries": 0})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(DEADLINE_S)
    return any(error is not None and "NOT_ENOUGH_REPLICAS" in error.name() for error in errors)
