"""CPU of a diagnosis a tick, at 204,000 replicas of which few move under throttles too low."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.domain.replicas.snapshot import (
    DTYPES,
    BrokerStatus,
    Replicas,
    ReplicaStatus,
    Snapshot,
)
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.telemetry.stuck.candidates import concerned_rows, focused
from kshunt.backend.telemetry.stuck.diagnosis import diagnose
from kshunt.backend.telemetry.stuck.evidence import explain_stuck
from kshunt.backend.telemetry.stuck.recent_advance import AdvanceWatch

pytestmark = pytest.mark.bench

BROKERS, TOPICS, PARTITIONS, COPIES = 100, 2_000, 34, 3
ROWS = TOPICS * PARTITIONS * COPIES
START_MS = 1_760_000_000_000
TICKS = 40
LOW_BYTES_PER_S = 5_000
MOST_EXPLAINED = 300


def columns(tick: int, moving: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Every partition is written to; the last replica of some is added and stands still."""
    place = np.arange(ROWS)
    topic, partition, position = (
        place // (PARTITIONS * COPIES),
        place // COPIES % PARTITIONS,
        place % COPIES,
    )
    broker = (topic * 7 + partition + position * 11) % BROKERS
    added = np.zeros(ROWS, np.bool_)
    added[moving] = True
    led = np.zeros(ROWS, np.bool_)
    led[moving - (COPIES - 1)] = True
    end = np.where(added, 100, 10_000 + tick * 10)
    lag = np.where(added, end[0] - 100, 0)
    return {
        "topic_index": topic,
        "partition": partition,
        "broker": broker,
        "position": position,
        "leader": np.repeat(broker[::COPIES], COPIES),
        "in_isr": ~added,
        "adding": added,
        "follower_throttled": added,
        "leader_throttled": led,
        "status": np.where(added, ReplicaStatus.BEHIND, ReplicaStatus.IN_SYNC),
        "log_end_offset": end,
        "size_bytes": end * 1_000,
        "lag_messages": lag,
        "lag_bytes": lag * 1_000,
        "sampled_ms": np.full(ROWS, START_MS + tick * 1_000),
    }


def snapshot(tick: int, moving: np.ndarray[Any, Any]) -> Snapshot:
    found = columns(tick, moving)
    rows = Replicas(
        **{name: np.asarray(found.get(name, np.zeros(ROWS)), kind) for name, kind in DTYPES.items()}
    )
    topics = tuple(f"topic-{number:05}" for number in range(TOPICS))
    lists = {
        topics[int(rows.topic_index[row])]: ThrottledReplicas(
            ReplicaSet(frozenset({(int(rows.partition[row]), int(rows.leader[row]))})),
            ReplicaSet(frozenset({(int(rows.partition[row]), int(rows.broker[row]))})),
        )
        for row in moving.tolist()
    }
    low = ThrottledRate(LOW_BYTES_PER_S, LOW_BYTES_PER_S)
    taken_ms = START_MS + tick * 1_000
    return Snapshot(
        version=tick + 1,
        taken_ms=taken_ms,
        cluster_id="bench",
        controller=1,
        topics=topics,
        replicas=rows,
        brokers={b: BrokerStatus(Broker(b, "h", 9), taken_ms, False) for b in range(BROKERS)},
        throttles=Throttles({b: BrokerThrottle(b, low) for b in range(BROKERS)}, lists),
    )


@pytest.mark.parametrize("moving", [20, 2_000])
def test_a_diagnosis(moving: int) -> None:
    chosen = np.linspace(0, ROWS // COPIES - 1, moving).astype(np.int64) * COPIES + COPIES - 1
    watch, spent_ms, said = AdvanceWatch(), [], 0
    for tick in range(TICKS):
        whole = snapshot(tick, chosen)
        began = time.process_time()
        rows = concerned_rows(whole, ())
        part = focused(whole, rows)
        diagnosis = diagnose(part, watch.update(part))
        whole.replicas.cause[rows] = diagnosis.causes
        said = len(explain_stuck(diagnosis, MOST_EXPLAINED))
        spent_ms.append((time.process_time() - began) * 1_000)
    assert said == min(moving, MOST_EXPLAINED)
    calm, busy = (statistics.median(part) for part in (spent_ms[3:15], spent_ms[-10:]))
    print(
        f"\n{ROWS:,} replicas, {moving:,} moving: a diagnosis takes {calm:.1f} ms CPU while none "
        f"is stuck, {busy:.1f} ms with {said} explained"
    )
