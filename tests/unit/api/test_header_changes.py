"""Headers with only what changed: they lead to what whole ones say, and to the same objects."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.core.frame_feed import FrameFeed, frame_bytes
from kshunt.backend.api.core.streams import replica_stream
from kshunt.backend.api.schema.frames.arrow_columns import FrameBatch, read_batches
from kshunt.backend.api.schema.frames.header import read_header
from kshunt.backend.api.schema.frames.snapshot_reader import (
    HEADER_KEY,
    decode_frame,
    read_snapshots,
)
from kshunt.backend.api.schema.frames.snapshot_writer import FrameWriter, encode_frame
from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import Broker, LogDir, TopicPartition
from kshunt.backend.domain.replicas.snapshot import BrokerStatus, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck, StuckEvidence
from kshunt.backend.domain.throttles.configs import BrokerThrottle, ThrottledRate, Throttles
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from kshunt.tui.recorder.snapshot_columns import Canvas, encode_change, encode_whole
from tests.support.embedded.background import running
from tests.support.frames.stream_states import WHOLE_HEADERS, lists, states
from tests.support.serving import serving
from tests.support.snapshots import assert_equal, replicas_of, snapshot_of

PARTS = (
    *("brokers", "throttles", "log_dirs", "log_dir_paths"),
    *("failed_requests", "explained", "min_isr", "deletes_ms"),
)
END_S = 20.0


def sent(snapshots: Sequence[Snapshot], *, header_changes: bool = True) -> bytes:
    """One stream of these snapshots."""
    pairs = zip([None, *snapshots], snapshots, strict=False)
    return b"".join(
        frame_bytes(after, before, header_changes=header_changes) for before, after in pairs
    )


def received(data: bytes) -> list[Snapshot]:
    return list(read_snapshots(io.BytesIO(data)))


def headers(data: bytes) -> list[dict[str, Any]]:
    return [header_of(batch) for batch in read_batches(io.BytesIO(data))]


def header_of(batch: FrameBatch) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(batch.metadata[HEADER_KEY])
    return header


def assert_same(got: Snapshot, wanted: Snapshot) -> None:
    """Field by field; a history may have NaN in it."""
    for field in fields(Snapshot):
        one, other = getattr(got, field.name), getattr(wanted, field.name)
        if field.name == "replicas":
            assert_equal(one, other, but=("sampled_ms",))
        elif field.name == "history":
            assert repr(one) == repr(other)
        else:
            assert one == other, field.name


# Earlier versions


WORDS = frozenset({"problems", "problem", "reason", "action"})
"""What earlier versions have in words alone."""
FACTS = frozenset({"failed_requests", "failed", "evidence", "history_marks"})
"""What they lack."""


def told_before(snapshot: Snapshot) -> Snapshot:
    """A snapshot as an earlier version tells it."""
    silent = FailedRequest("broker 9 does not answer")
    explained = {key: replace(one, evidence=None) for key, one in snapshot.explained.items()}
    down = replace(snapshot.brokers[7], failed=FailedRequest("down", 7))
    return replace(
        snapshot,
        explained=explained,
        brokers={**snapshot.brokers, 7: down},
        failed_requests=(silent,) if snapshot.failed_requests else (),
    )


def without(names: frozenset[str], document: Any) -> Any:
    """A document without these fields, wherever they are."""
    if isinstance(document, dict):
        return {name: without(names, one) for name, one in document.items() if name not in names}
    return [without(names, one) for one in document] if isinstance(document, list) else document


def test_what_an_earlier_version_wrote_is_read() -> None:
    for got, wanted in zip(received(WHOLE_HEADERS.read_bytes()), states(), strict=True):
        assert_same(got, told_before(wanted))


def test_an_earlier_version_is_sent_what_it_was_sent_before() -> None:
    recorded = headers(WHOLE_HEADERS.read_bytes())
    now = headers(sent(states(), header_changes=False))
    assert without(FACTS | WORDS, now) == without(WORDS, recorded)
    for header, before in zip(now, recorded, strict=True):
        assert len(header["problems"]) == len(before["problems"])
        assert all(one["problem"] for one in header["brokers"] if one["id"] == 7)
        assert all(one["reason"] and one["action"] for one in header["explained"])
    assert not any(header.keys() & {"since", "gone"} for header in recorded)


# Changes


def test_changes_lead_to_what_was_written() -> None:
    data = sent(states())
    assert len(data) < len(sent(states(), header_changes=False))
    for got, wanted in zip(received(data), states(), strict=True):
        assert_same(got, wanted)


def test_a_header_has_what_changed_and_what_went() -> None:
    first, second, third, fourth, again, topics, last = headers(sent(states()))
    assert first["full"]
    assert topics["full"]
    assert not {"since", "gone"} & (first.keys() | topics.keys())
    assert [one["topic"] for one in second["throttles"]["replicas"]] == ["b.c", "日本"]
    assert [one["broker"] for one in second["throttles"]["rates"]] == [7, 9]
    assert [one["id"] for one in second["brokers"]] == [9]
    assert second["gone"]["deletes_ms"] == [["a", 1]]
    assert "explained" not in second
    assert [one["topic"] for one in third["throttles"]["replicas"]] == ["b.c"]
    assert sorted(third["gone"]["replicas"]) == ["a", "日本"]
    assert third["gone"]["rates"] == [7]
    assert third["gone"]["explained"] == [["a", 0, 7]]
    assert [one["usable_bytes"] for one in third["log_dirs"]] == [5]
    assert "brokers" not in third
    assert "throttles" not in fourth
    assert [header.get("since") for header in (second, third, fourth, again)] == [1, 2, 3, 4]
    for header in (again, last):
        assert not header.keys() & {*PARTS, "gone"}


def test_what_did_not_change_is_the_same_object() -> None:
    first, second, third, fourth, again, topics, last = received(sent(states()))
    for before, after in ((fourth, again), (topics, last)):
        for part in PARTS:
            assert getattr(after, part) is getattr(before, part), part
    assert second.explained is first.explained
    assert second.throttles.replicas["a"] is first.throttles.replicas["a"]
    assert second.brokers[7] is first.brokers[7]
    assert third.throttles.rates[9] is second.throttles.rates[9]
    assert third.log_dirs[1] is second.log_dirs[1]
    assert third.brokers is second.brokers
    assert fourth.throttles is third.throttles


def test_one_list_that_changes_leaves_the_rates_as_they_are() -> None:
    first = states()[0]
    changed = replace(first.throttles, replicas={"a": lists("0:1", "")})
    second = replace(first, version=2, throttles=changed)
    before, after = received(sent([first, second]))
    assert after.throttles.rates is before.throttles.rates
    assert after.throttles == changed


def test_brokers_that_did_not_tell_their_rates_are_news_alone() -> None:
    first = states()[0]
    second = replace(first, version=2, throttles=replace(first.throttles, unknown_brokers=(3,)))
    before, after = received(sent([first, second]))
    assert after.throttles == second.throttles
    assert after.throttles.replicas is before.throttles.replicas


def test_directories_in_another_order_are_in_that_order() -> None:
    first = states()[1]
    second = replace(first, version=3, log_dirs=(LogDir(1, "/a"), *reversed(first.log_dirs)))
    assert received(sent([first, second]))[1].log_dirs == second.log_dirs


def test_a_reader_that_missed_a_frame_refuses_the_next() -> None:
    first, second, third, *_ = states()
    whole = frame_bytes(first, None)
    with pytest.raises(ValueError, match="a frame is missing"):
        received(whole + frame_bytes(third, second, header_changes=True))
    got = received(whole + frame_bytes(third, first, header_changes=True))
    assert_same(got[-1], third)


def test_a_frame_twice_is_refused() -> None:
    first, second, *_ = states()
    change = frame_bytes(second, first, header_changes=True)
    with pytest.raises(ValueError, match="a frame is missing"):
        received(frame_bytes(first, None) + change + change)


def test_fields_of_a_newer_backend_are_passed_over() -> None:
    first, second, *_ = states()
    before, *_ = received(frame_bytes(first, None))
    data = FrameWriter(header_changes=True)
    stream = data.write(first) + data.write(second)
    _, batch = read_batches(io.BytesIO(stream))
    header = header_of(batch)
    header |= {"weather": [1], "gone": {**header["gone"], "clouds": "all"}}
    header["throttles"]["quotas"] = {}
    got = decode_frame(batch, read_header(json.dumps(header).encode()), before)
    assert got.throttles == second.throttles


def test_a_recording_of_changes_holds_everything() -> None:
    canvas, before = Canvas(), None
    for got, wanted in zip(received(sent(states())), states(), strict=True):
        change = None if before is None else encode_change(before, got)
        canvas.take(b"".join(encode_whole(got)) if change is None else change)
        alone = Canvas()
        alone.take(b"".join(encode_whole(got)))
        for played in (canvas.snapshot(), alone.snapshot()):
            assert played is not None
            assert_same(played, wanted)
        before = got


# Streams


async def test_streams_of_both_kinds_share_the_first_frame() -> None:
    feed, (first, second, *_) = FrameFeed(), states()
    assert await feed.frame(first, None) is await feed.frame(first, None, header_changes=True)
    whole = await feed.frame(second, first)
    changes = await feed.frame(second, first, header_changes=True)
    assert changes is await feed.frame(second, first, header_changes=True)
    assert len(changes) < len(whole)


@pytest.mark.parametrize("header_changes", [False, True])
async def test_a_stream_has_the_headers_that_were_asked_for(header_changes: bool) -> None:
    hub, feed, wanted = SnapshotHub(), FrameFeed(), states()[:4]
    data = b""
    stream = replica_stream(hub, feed, header_changes=header_changes)
    async with aclosing(stream), asyncio.timeout(END_S):
        for snapshot in wanted:
            await hub.publish(snapshot)
            data += await anext(stream)
    assert ["since" in header for header in headers(data)] == [False, *[header_changes] * 3]
    for got, snapshot in zip(received(data), wanted, strict=True):
        assert_same(got, snapshot)


async def test_a_slow_reader_is_sent_what_changed_since_its_own_frame() -> None:
    hub, feed, (first, *_, last) = SnapshotHub(), FrameFeed(), states()[:4]
    stream = replica_stream(hub, feed, header_changes=True)
    async with aclosing(stream), asyncio.timeout(END_S):
        await hub.publish(first)
        data = await anext(stream)
        for snapshot in states()[1:4]:
            await hub.publish(snapshot)
        data += await anext(stream)
    assert headers(data)[1]["since"] == first.version
    assert_same(received(data)[-1], last)


@pytest.mark.slow
def test_a_backend_sends_changes_of_headers_to_whoever_asks(tmp_path: Path) -> None:
    with (
        running(ClusterSpec(brokers=plain_brokers(1))) as cluster,
        serving(cluster.bootstrap_servers, tmp_path) as address,
        BackendClient(address) as client,
    ):
        asked: list[str] = []
        client.sender.watch_requests(lambda request: asked.append(str(request.url.query, "ascii")))
        next(client.snapshots())
        assert asked == ["header_changes=true"]
        for query, wanted in ((asked[0], True), ("", False)):
            (*_, later) = first_headers(address, query)
            assert ("since" in later) == wanted


def first_headers(address: str, query: str) -> list[dict[str, Any]]:
    """The headers that a backend sends, up to the first one that is not of a whole frame."""
    transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
    url = f"http://kshunt/v1/replicas/stream?{query}"
    data, found = b"", list[dict[str, Any]]()
    with (
        httpx.Client(transport=transport, timeout=END_S) as client,
        client.stream("GET", url) as response,
    ):
        for part in response.iter_raw():
            data += part
            # The last frame may be under way.
            with suppress(ValueError):
                found.clear()
                found.extend(map(header_of, read_batches(io.BytesIO(data))))
            if found and not found[-1]["full"]:
                break
    return found


# Laws

TOPICS = st.sampled_from(("a", "b", "é", "z"))
IDS = st.integers(0, 4)
REPLICA_LISTS = st.builds(lists, *[st.sampled_from(("", "*", "0:1", "0:1,3:2", "1:1", "2:0"))] * 2)
RATES = st.builds(ThrottledRate, *[st.none() | st.integers(0, 3)] * 2)
PARTITIONS = st.builds(TopicPartition, TOPICS, IDS)


def by_id(values: Any) -> dict[int, Any]:
    return {one.broker: one for one in values}


THROTTLES = st.builds(
    Throttles,
    st.lists(st.builds(BrokerThrottle, IDS, RATES), max_size=4).map(by_id),
    st.dictionaries(TOPICS, REPLICA_LISTS),
    st.lists(IDS, max_size=2).map(tuple),
)
STUCK = st.builds(
    Stuck,
    PARTITIONS,
    IDS,
    st.sampled_from((Cause.BROKER_DOWN, Cause.TOO_SHORT)),
    st.just(()),
    st.none() | st.builds(StuckEvidence, watched_s=st.integers(0, 1)),
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "throttles": THROTTLES,
        "explained": st.lists(STUCK, max_size=4).map(
            lambda found: {(one.partition, one.broker): one for one in found}
        ),
        "brokers": st.dictionaries(IDS, st.booleans()).map(
            lambda found: {
                id: BrokerStatus(Broker(id, "h", 1), None, stale=stale)
                for id, stale in found.items()
            }
        ),
        "log_dirs": st.lists(
            st.builds(LogDir, IDS, st.sampled_from(("/a", "/b")), IDS),
            max_size=4,
            unique_by=lambda one: (one.broker, one.path),
        ).map(tuple),
        "log_dir_paths": st.sampled_from(((), ("/a",), ("/a", "/b"))),
        "failed_requests": st.sampled_from(((), (FailedRequest("silent", 1, 4.0),))),
        "min_isr": st.sampled_from(((), (1, 1, 1, 1), (1, 2, 1, 1))),
        "deletes_ms": st.dictionaries(PARTITIONS, IDS),
    },
)


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=8))
def test_a_reader_has_what_the_writer_had(steps: list[tuple[dict[str, Any], bool]]) -> None:
    """However parts change, and whichever snapshots a reader is late for."""
    now = snapshot_of(replicas_of({(0, 0, 7): (1, True, 1.0)}))
    written = [now]
    for number, (changes, taken) in enumerate(steps, 2):
        now = replace(now, version=number, **changes)
        if taken:
            written.append(now)
    for got, wanted in zip(received(sent(written)), written, strict=True):
        assert_same(got, wanted)


@given(CHANGES)
def test_what_is_equal_costs_no_bytes(changes: dict[str, Any]) -> None:
    before = replace(states()[0], **changes)
    copied = replace(before, **{name: _copy(getattr(before, name)) for name in PARTS})
    header = encode_frame(copied, before, header_changes=True).header
    assert not header.keys() & {*PARTS, "gone"}


def _copy(part: Any) -> Any:
    """An equal one that is another object."""
    if isinstance(part, Throttles):
        return Throttles(dict(part.rates), dict(part.replicas), tuple(part.unknown_brokers))
    return type(part)(part)
