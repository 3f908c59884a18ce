"""Laws of the check before a shrink: for any topic there is an answer, and room is room."""

from __future__ import annotations

import json
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import NO_BROKER, LogDir
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.shrink.check import Severity, ShrinkCheck
from kshunt.backend.domain.shrink.delete_partitions import ShrinkSupport
from kshunt.backend.domain.shrink.disk_space import RESERVE, room_for
from kshunt.backend.domain.shrink.facts import PartitionFacts, ShrinkFacts
from kshunt.backend.domain.shrink.judge import judge
from kshunt.backend.domain.topics.groups import (
    ActiveProducer,
    ConsumerGroup,
    GroupMember,
    PartitionOffsets,
    RecordSample,
)
from kshunt.backend.domain.untrusted.json_codec import from_document, to_json

NOW = 1_800_000_000_000
GB = 10**9
DAY = 24 * 3_600_000

NUMBERS = st.integers(0, 2**40)
MAYBE = st.none() | NUMBERS


@st.composite
def any_offsets(draw: st.DrawFn) -> PartitionOffsets | None:
    start = draw(st.integers(0, 1000))
    end = start + draw(st.integers(0, 1000))
    stable = draw(st.integers(start, end))
    times = draw(st.tuples(MAYBE, MAYBE))
    return draw(st.none() | st.just(PartitionOffsets(start, end, stable, *times)))


PRODUCERS = st.builds(
    ActiveProducer,
    st.integers(0, 5),
    st.integers(0, 5),
    st.just(-1) | st.integers(0, 2 * NOW),
    MAYBE,
    st.none() | st.text(max_size=5),
)
MEMBERS = st.builds(
    GroupMember, st.text(max_size=3), st.text(max_size=3), st.just("/h"), st.none(), st.just((0,))
)


@st.composite
def any_partition(draw: st.DrawFn, number: int) -> PartitionFacts:
    brokers = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True))
    return PartitionFacts(
        number,
        draw(st.sampled_from([NO_BROKER, *brokers])),
        tuple(brokers),
        tuple(brokers[: draw(st.integers(0, 3))]),
        draw(st.booleans()),
        draw(st.sampled_from(PartitionMode)),
        draw(MAYBE),
        draw(any_offsets()),
        draw(MAYBE),
        draw(st.none() | st.lists(PRODUCERS, max_size=2).map(tuple)),
    )


@st.composite
def any_facts(draw: st.DrawFn) -> ShrinkFacts:
    count = draw(st.integers(0, 6))
    keys = ["retention.ms", "retention.bytes", "max.message.bytes", "cleanup.policy", "nonsense"]
    values = st.sampled_from(["-1", "0", "1000", str(2**63 - 1), "compact", "delete", "", "x"])
    group = st.builds(
        ConsumerGroup,
        st.text(max_size=4),
        st.sampled_from(["Empty", "Stable", "Dead", "Unknown"]),
        st.sampled_from(["classic", "consumer"]),
        st.dictionaries(st.integers(0, 8), NUMBERS, max_size=6),
        st.lists(MEMBERS, max_size=2).map(tuple),
    )
    disk = st.builds(
        LogDir,
        st.integers(1, 5),
        st.just("/d"),
        st.just(-1) | NUMBERS,
        st.just(-1) | NUMBERS,
        st.none() | st.just("KAFKA_STORAGE_ERROR"),
    )
    return ShrinkFacts(
        draw(st.sampled_from(["t", "__t", "__consumer_offsets", "a-changelog"])),
        draw(st.integers(-2, 8)),
        NOW,
        tuple(draw(any_partition(number)) for number in range(count)),
        draw(st.sampled_from(ShrinkSupport)),
        draw(st.dictionaries(st.sampled_from(keys), values)),
        tuple(draw(st.lists(group, max_size=3))),
        tuple(draw(st.lists(disk, max_size=4))),
        frozenset(draw(st.sets(st.integers(1, 5)))),
        draw(st.none() | st.builds(RecordSample, st.just(5), st.integers(0, 5))),
        draw(st.integers(0, 2000)),
        draw(st.floats(1.0, 1e12)),
    )


@given(any_facts())
def test_whatever_is_known_there_is_an_answer(of: ShrinkFacts) -> None:
    check = judge(of)
    severities = [list(Severity).index(one.severity) for one in check.findings]
    assert severities == sorted(severities)
    assert all(one.words and one.words[-1] in ".'" for one in check.findings)
    assert len({one.code for one in check.findings if one.insistable}) == sum(
        one.insistable for one in check.findings
    )
    assert not any(one.insistable for one in check.findings if one.severity is not Severity.REFUSE)
    everything = {one.code for one in check.findings}
    assert {one.code for one in check.refusals(everything)} == {
        one.code for one in check.refusals() if not one.insistable
    }
    for group in check.groups:
        assert (group.unread_doomed or 0) <= (group.unread_all or group.unread_doomed or 0)
        assert min(group.unread_doomed or 0, group.unread_all or 0) >= 0
    kept = {one.number for one in of.there} - {one.number for one in check.partitions}
    assert kept == {one.number for one in of.there if one.number < max(of.wanted, 1)}


@given(any_facts())
def test_the_answer_is_the_same_behind_the_api(of: ShrinkFacts) -> None:
    check = judge(of)
    assert from_document(ShrinkCheck, json.loads(to_json(check))) == check


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_a_copy_fits_if_there_is_any_way_to_place_it(
    rooms: list[int], partitions: int, factor: int
) -> None:
    """Compared with all ways to place the replicas; `rooms` is how many fit on each broker."""
    each = 1000
    places = [LogDir(broker, "/d", 0, room * each + room % 7) for broker, room in enumerate(rooms)]
    room = room_for(
        places,
        range(len(rooms)),
        size_bytes=each * partitions,
        partitions=partitions,
        replication_factor=factor,
    )
    ways = list(combinations(range(len(rooms)), factor))
    possible = any(
        all(sum(broker in one for one in way) <= rooms[broker] for broker in range(len(rooms)))
        for way in product(ways, repeat=partitions)
    )
    assert room.fits == possible
    assert room.unknown == ()


def test_directories_on_one_volume_count_once_and_a_reserve_stays() -> None:
    shared = [LogDir(1, path, 100 * GB, 50 * GB) for path in ("/a", "/b")]
    room = room_for(shared, [1], size_bytes=GB, partitions=1, replication_factor=1)
    assert room.free_bytes == {1: 50 * GB - int(RESERVE * 100 * GB)}
    offline = [LogDir(1, "/a", 100 * GB, 50 * GB, "KAFKA_STORAGE_ERROR")]
    assert room_for(offline, [1], size_bytes=1, partitions=1, replication_factor=1).unknown == (1,)
