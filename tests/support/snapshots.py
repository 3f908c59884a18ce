"""Snapshots with something in each of their parts, from tables that Hypothesis draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import Broker, LogDir, TopicPartition
from kshunt.backend.domain.replicas.snapshot import (
    COLUMNS,
    DTYPES,
    BrokerStatus,
    HistoryPoint,
    Replicas,
    Snapshot,
)
from kshunt.backend.domain.replicas.stuck_causes import Cause, RateNeed, Stuck, StuckEvidence
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)

TOPICS = ("a", "b.c", "cfg[red]x[/red]", "日本")
BROKERS = (0, 1, 7, 2**31 - 1)
DOWN = FailedRequest("Broker 7 (h:9092) is down: connection refused.", 7)
EXPLAINED = tuple(
    Stuck(
        TopicPartition("a", number),
        7,
        Cause.THROTTLE_TOO_LOW,
        (RateNeed(7, FOLLOWER_RATE, 1_000, 2_000, 3_000),),
        StuckEvidence(),
    )
    for number in range(3)
)
keys = st.tuples(st.integers(0, len(TOPICS) - 1), st.integers(0, 5), st.sampled_from(BROKERS))
facts = st.tuples(
    st.integers(-1, 3), st.booleans(), st.sampled_from([float("nan"), float("inf"), 0.0, 2.5])
)
tables = st.dictionaries(keys, facts, max_size=25)


def replicas_of(table: dict[tuple[int, int, int], tuple[int, bool, float]]) -> Replicas:
    """Columns of a table, sorted as a snapshot is."""
    positions: dict[tuple[int, int], int] = {}
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for (topic, partition, broker), (lag, flag, rate) in sorted(table.items()):
        position = positions.setdefault((topic, partition), 0)
        positions[topic, partition] += 1
        row = dict.fromkeys(COLUMNS, 0) | {
            "topic_index": topic,
            "partition": partition,
            "broker": broker,
            "position": position,
            "lag_messages": lag,
            "in_isr": flag,
            "eta_s": rate,
            "cause": max(lag, 0) * 4,
            "mode": (lag + 1) % 3 - 1,
        }
        for name, value in row.items():
            columns[name].append(value)
    return Replicas(**{name: np.array(columns[name], DTYPES[name]) for name in COLUMNS})


def snapshot_of(replicas: Replicas, version: int = 1, topics: tuple[str, ...] = TOPICS) -> Snapshot:
    """A snapshot with something in each of its parts."""
    return Snapshot(
        version=version,
        taken_ms=1_000 * version,
        cluster_id="cluster",
        controller=1,
        topics=topics,
        replicas=replicas,
        brokers={7: BrokerStatus(Broker(7, "h", 9092, "r"), 5, True, DOWN)},
        throttles=Throttles(
            {7: BrokerThrottle(7, ThrottledRate(1_000, None), None, "DYNAMIC_BROKER_CONFIG")},
            {"a": ThrottledReplicas(ReplicaSet.parse("0:7"), ReplicaSet.parse("*"))},
            (9,),
        ),
        log_dirs=(LogDir(7, "/d", 10, -1, None),),
        log_dir_paths=("/d",),
        history=tuple(HistoryPoint(at, at * 2, 1) for at in range(version)),
        failed_requests=(FailedRequest("Broker 9 (h:9092) did not answer within 4 s.", 9, 4.0),),
        deletes_ms={TopicPartition("a", 1): 60_000 + version},
        explained={(one.partition, one.broker): one for one in EXPLAINED},
    )


def assert_equal(one: Replicas, other: Replicas, *, but: tuple[str, ...] = ()) -> None:
    """Column by column, dtypes too."""
    for name in COLUMNS:
        if name not in but:
            assert getattr(one, name).dtype == getattr(other, name).dtype
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
