"""The sampler on real Kafka: a broker that falls silent costs its own rows only."""

from __future__ import annotations

import numpy as np
import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Snapshot
from tests.support.brokers.launcher import RealKafka
from tests.support.clients import rows_of, wait_for_end, watching
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka
SILENT = 2


def row_of(snapshot: Snapshot, topic: str, broker: int) -> int:
    rows = rows_of(snapshot, topic)
    return int(rows[snapshot.replicas.broker[rows] == broker][0])


def test_a_silent_broker_delays_nothing_but_its_own_rows(
    client: BackendClient, backend_address: str, kafka: RealKafka
) -> None:
    create_topic(kafka.bootstrap_servers, "moving", [[1]])
    create_topic(kafka.bootstrap_servers, "led-by-silent", [[SILENT, 1]])
    produce(kafka.bootstrap_servers, "moving", 600, 10_000, 0)
    produce(kafka.bootstrap_servers, "led-by-silent", 50, 1_000, 0)
    plan = ReassignmentPlan({TopicPartition("moving", 0): (3,)})
    answer = client.reassignments.start(plan, throttle_bytes_per_s=150_000)
    with watching(backend_address) as seen:
        wait_until(lambda: _sampled(seen, "moving", 3) > 0, 60, "the copy is sampled")
        wait_until(
            lambda: _sampled(seen, "led-by-silent", SILENT) > 0, 20, "the other topic is sampled"
        )
        before = len(seen)
        kafka.pause_broker(SILENT)
        try:
            wait_until(lambda: seen[-1].brokers[SILENT].stale, 60, "its silence is noticed")
            wait_until(lambda: len(_answers(seen[before:])) >= 2, 60, "broker 3 goes on answering")
            noticed = len(seen)
            wait_until(lambda: len(seen) >= noticed + 3, 60, "three more snapshots")
        finally:
            kafka.resume_broker(SILENT)
        during = seen[before:noticed]
        _others_went_on(during)
        _its_rows_are_kept_and_aged(seen[noticed:])
        wait_until(lambda: not seen[-1].brokers[SILENT].stale, 60, "it answers again")
        # The stream sends a row when it changes, so that reading it again alone does not show.
        produce(kafka.bootstrap_servers, "led-by-silent", 5, 1_000, 0)
        wait_until(
            lambda: _end_offset(seen, "led-by-silent", SILENT) == 55, 60, "its rows are fresh"
        )
    client.reassignments.cancel([TopicPartition("moving", 0)])
    wait_for_end(client, answer)
    _cluster_is_whole(client)


def _sampled(seen: list[Snapshot], topic: str, broker: int) -> int:
    if not seen or broker not in seen[-1].replicas.broker[rows_of(seen[-1], topic)]:
        return UNKNOWN
    return int(seen[-1].replicas.sampled_ms[row_of(seen[-1], topic, broker)])


def _end_offset(seen: list[Snapshot], topic: str, broker: int) -> int:
    return int(seen[-1].replicas.log_end_offset[row_of(seen[-1], topic, broker)])


def _answers(during: list[Snapshot]) -> set[int | None]:
    """When broker 3, which is well, has answered."""
    return {snapshot.brokers[3].answered_ms for snapshot in during}


def _others_went_on(during: list[Snapshot]) -> None:
    offsets = [s.replicas.log_end_offset[row_of(s, "moving", 3)] for s in during]
    assert offsets == sorted(offsets)


def _its_rows_are_kept_and_aged(after: list[Snapshot]) -> None:
    for snapshot in after[:3]:
        row = row_of(snapshot, "led-by-silent", SILENT)
        assert snapshot.replicas.log_end_offset[row] == 50
        assert snapshot.brokers[SILENT].problem
        answered = snapshot.brokers[SILENT].answered_ms
        assert answered is not None
        assert answered < snapshot.taken_ms - 500
        assert np.isfinite(snapshot.replicas.log_end_offset).all()


def _cluster_is_whole(client: BackendClient) -> None:
    """Leave the shared cluster with every replica in sync and led by its first replica."""
    wait_until(lambda: client.cluster().brokers == 3, 60, "all brokers are back")
    partitions = [TopicPartition("led-by-silent", 0)]
    wait_until(
        lambda: not client.elections.elect_preferred_leaders(partitions).failures,
        60,
        "the leader is back",
    )
