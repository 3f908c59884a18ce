"""The history of moves with its rates, and min.insync.replicas, as sent."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.schema.frames.arrow_columns import read_batches
from kshunt.backend.api.schema.frames.snapshot_reader import HEADER_KEY, decode_frame
from kshunt.backend.api.schema.frames.snapshot_writer import (
    FrameWriter,
    encode_frame,
    read_snapshots,
)
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.snapshot_copies import RunningOperation
from kshunt.backend.domain.replicas.history import POINTS_MOST
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, HistoryPoint, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.telemetry.sampling.move_history import (
    extended,
    permitted_bytes_per_s,
    waiting_bytes,
)
from tests.support.embedded.background import running
from tests.support.serving import serving
from tests.support.topics import create_topic
from tests.support.tui.cluster import FREE_RATE, incident


def history_point(snapshot: Snapshot, history: tuple[HistoryPoint, ...] = ()) -> HistoryPoint:
    (*_, last) = extended(history, snapshot, snapshot.replicas.lag_bytes)
    return last


def test_a_point_says_what_was_moved_and_what_was_allowed() -> None:
    snapshot = incident().step()
    snapshot.replicas.cause[np.flatnonzero(snapshot.replicas.adding)[0]] = Cause.BROKER_DOWN
    point = history_point(snapshot)
    assert point.at_ms == snapshot.taken_ms
    assert point.moving_replicas == 6
    assert point.rate_bytes_per_s == pytest.approx(75_000_000)
    assert point.permitted_bytes_per_s == 75_000_000
    assert point.stuck_replicas == 1


def test_nothing_bounds_what_one_broker_may_receive_freely() -> None:
    cluster = incident()
    del cluster.rates[5]
    assert permitted_bytes_per_s(cluster.step()) is None
    cluster = incident()
    cluster.lists.clear()
    snapshot = cluster.step()
    assert permitted_bytes_per_s(snapshot) is None
    assert history_point(snapshot).rate_bytes_per_s == pytest.approx(3 * FREE_RATE)


def test_rates_that_nobody_told_are_unknown() -> None:
    cluster = incident()
    cluster.silent_lag = {2, 3, 5}
    point = history_point(cluster.step())
    assert math.isnan(point.rate_bytes_per_s)


def test_the_end_of_a_move_is_one_point_and_then_there_is_silence() -> None:
    cluster = incident()
    moving = cluster.step()
    history = extended((), moving, moving.replicas.lag_bytes)
    for partition in list(cluster.partitions):
        cluster.cancel(partition)
    still = cluster.step()
    ended = extended(history, still, still.replicas.lag_bytes)
    assert (ended[-1].moving_replicas, ended[-1].remaining_bytes) == (0, 0)
    assert ended[-1].rate_bytes_per_s == 0
    assert extended(ended, still, still.replicas.lag_bytes) == ended
    long = tuple(replace(history[0], at_ms=at) for at in range(2 * POINTS_MOST))
    assert len(extended(long, moving, moving.replicas.lag_bytes)) <= POINTS_MOST


def test_what_waits_for_its_turn_remains_too() -> None:
    cluster = incident()
    snapshot = cluster.step()
    partition = TopicPartition("audit-log", 0)
    state = cluster.partitions[partition]
    outside = [id for id in cluster.racks if id not in state.replicas]
    move = Move(partition, tuple(state.replicas), (state.replicas[0], *outside))
    gone = Move(TopicPartition("gone", 0), (1,), (2,))
    running = [RunningOperation("op", (partition,), (move, gone), None, held=False)]
    waiting = waiting_bytes(snapshot, running)
    assert waiting == 2 * state.size_bytes
    lags = snapshot.replicas.lag_bytes
    (point,) = extended((), snapshot, lags, waiting)
    assert point.remaining_bytes == history_point(snapshot).remaining_bytes + waiting
    for other in list(cluster.partitions):
        cluster.cancel(other)
    still = cluster.step()
    (*_, between) = extended((point,), still, still.replicas.lag_bytes, waiting)
    assert (between.moving_replicas, between.remaining_bytes) == (0, waiting)
    (*_, end) = extended((between,), still, still.replicas.lag_bytes)
    assert end.remaining_bytes == 0
    assert extended((end,), still, still.replicas.lag_bytes) == (end,)


# What travels


POINTS = (
    HistoryPoint(1, 20, 2, 5.0, 10, 1),
    HistoryPoint(2, 10, 2, 5.0, None, 0, rates_changed=True),
    HistoryPoint(3, UNKNOWN, 2),
)


def sent() -> list[Snapshot]:
    """Two snapshots, of which the later has more history."""
    cluster = incident()
    cluster.min_isr = 2
    first, later = cluster.step(), cluster.step()
    return [replace(first, history=POINTS[:1]), replace(later, history=POINTS)]


def test_rates_and_min_isr_travel_with_every_snapshot() -> None:
    writer = FrameWriter()
    snapshots = sent()
    stream = io.BytesIO(b"".join(writer.write(snapshot) for snapshot in snapshots))
    for got, wanted in zip(read_snapshots(stream), snapshots, strict=True):
        assert repr(got.history) == repr(wanted.history)
        assert got.min_isr == wanted.min_isr == (2, 2, 2, 2)


def test_min_isr_is_sent_where_it_is_news() -> None:
    first, later = sent()
    assert "min_isr" in encode_frame(first).header
    assert "min_isr" not in encode_frame(later, first).header
    changed = replace(later, min_isr=(1, 2, 2, UNKNOWN))
    writer = FrameWriter()
    stream = io.BytesIO(b"".join(writer.write(one) for one in (first, later, changed)))
    assert [one.min_isr for one in read_snapshots(stream)] == [
        (2, 2, 2, 2),
        (2, 2, 2, 2),
        changed.min_isr,
    ]


def test_what_an_older_backend_sends_is_read_and_unknown() -> None:
    (batch,) = read_batches(io.BytesIO(FrameWriter().write(sent()[1])))
    header = json.loads(batch.metadata[HEADER_KEY])
    del header["history_rates"], header["min_isr"]
    got = decode_frame(batch, header, None)
    assert [point.at_ms for point in got.history] == [1, 2, 3]
    assert all(math.isnan(point.rate_bytes_per_s) for point in got.history)
    assert {point.stuck_replicas for point in got.history} == {UNKNOWN}
    assert got.min_isr == ()


def test_an_older_reader_finds_what_it_expects() -> None:
    header = encode_frame(sent()[1]).header
    assert header["history"] == [[1, 20, 2], [2, 10, 2], [3, -1, 2]]


@pytest.mark.slow
def test_a_backend_tells_min_isr(tmp_path: Path) -> None:
    with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
        create_topic(cluster.bootstrap_servers, "with-min-isr", [[1, 2], [2, 3]])
        with (
            serving(cluster.bootstrap_servers, tmp_path) as address,
            BackendClient(address) as client,
        ):
            snapshot = next(one for one in client.snapshots() if one.min_isr)
            assert len(snapshot.min_isr) == len(snapshot.topics)
            assert snapshot.min_isr[snapshot.topics.index("with-min-isr")] == 1
