"""Frames that streams share: every reader, in whatever steps it reads, has the newest snapshot."""

from __future__ import annotations

import asyncio
import io
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.api.core.frame_feed import PIECE_BYTES, FrameFeed, frame_bytes, pieces
from kshunt.backend.api.core.streams import replica_stream
from kshunt.backend.api.schema.frames.snapshot_writer import read_snapshots
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from tests.support.snapshots import assert_equal, replicas_of, snapshot_of, tables

TOPICS = (("a", "b", "c", "d"), ("a", "b", "c", "d"), ("b", "c", "d", "é", "f"))
END_S = 20.0


@given(
    st.lists(st.tuples(tables, st.sampled_from(TOPICS)), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_a_reader_that_takes_some_of_them_has_the_newest(
    steps: list[tuple[Any, tuple[str, ...]]], taken: list[bool]
) -> None:
    sent, previous = b"", None
    for number, ((table, topics), takes) in enumerate(zip(steps, taken, strict=False), 1):
        snapshot = snapshot_of(replicas_of(table), number, topics)
        if takes or number == len(steps):
            sent += frame_bytes(snapshot, previous)
            previous = snapshot
    assert previous is not None
    *_, last = read_snapshots(io.BytesIO(sent))
    assert last.topics == previous.topics
    assert last.version == previous.version
    assert_equal(last.replicas, previous.replicas, but=("sampled_ms",))
    batches = pa.ipc.open_stream(sent)
    assert sum(1 for _ in batches) >= 1


async def test_readers_that_keep_up_share_each_frame() -> None:
    feed = FrameFeed()
    first, second = (snapshot_of(replicas_of({(0, 0, 7): (n, True, 1.0)}), n) for n in (1, 2))
    whole = await asyncio.gather(*(feed.frame(first, None) for _ in range(5)))
    changes = await asyncio.gather(*(feed.frame(second, first) for _ in range(5)))
    for found in (whole, changes):
        assert all(each is found[0] for each in found)


async def test_one_that_goes_away_takes_it_from_nobody() -> None:
    feed = FrameFeed()
    snapshot = snapshot_of(replicas_of({(0, 0, 7): (1, True, 1.0)}))
    leaving = asyncio.create_task(feed.frame(snapshot, None))
    staying = asyncio.create_task(feed.frame(snapshot, None))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await staying


async def test_one_that_is_slow_gets_the_newest_next() -> None:
    hub, feed = SnapshotHub(), FrameFeed()
    versions = [snapshot_of(replicas_of({(0, 0, 7): (n, True, 1.0)}), n) for n in range(1, 5)]
    await hub.publish(versions[0])
    async with aclosing(replica_stream(hub, feed)) as stream, asyncio.timeout(END_S):
        sent = await anext(stream)
        for snapshot in versions[1:]:
            await hub.publish(snapshot)
        sent += await anext(stream)
    assert [each.version for each in read_snapshots(io.BytesIO(sent))] == [1, 4]


def test_a_frame_is_sent_in_pieces() -> None:
    frame = bytes(range(256)) * 1_000
    found = list(pieces(frame))
    assert b"".join(found) == frame
    assert max(map(len, found)) == PIECE_BYTES


def test_a_new_reader_is_given_everything() -> None:
    snapshot: Snapshot = snapshot_of(replicas_of({(1, 0, 7): (3, False, 2.0)}))
    (found,) = read_snapshots(io.BytesIO(frame_bytes(snapshot, None)))
    assert_equal(found.replicas, snapshot.replicas)
