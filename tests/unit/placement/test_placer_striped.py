"""The striped placer: Kafka's placements from Kafka's random numbers, and what it promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.placement.placer import (
    InvalidReplicationFactor,
    ReplicaPlacementFailed,
    UsableBroker,
)
from kshunt.backend.placement.striped import StripedReplicaPlacer
from tests.support.placement.placers import broker, brokers, clusters, in_racks, racks_of
from tests.support.runs.examples import many


class KafkaRandom(Random):
    """The numbers that Kafka's tests draw: its MockRandom, by the rules of java.util.Random."""

    def __init__(self) -> None:
        super().__init__()
        self._state = 17

    def _randbelow(self, bound: int) -> int:
        while True:
            self._state = (self._state * 2862933555777941757 + 3037000493) % 2**64
            drawn = self._state >> 33
            if bound & (bound - 1) == 0:
                return (bound * drawn) >> 31
            if drawn - drawn % bound + bound - 1 < 2**31:
                return drawn % bound


def place(
    given: Sequence[UsableBroker],
    num_partitions: int,
    num_replicas: int,
    existing: Sequence[Sequence[int]] = (),
    random: Random | None = None,
) -> list[list[int]]:
    placer = StripedReplicaPlacer(random or KafkaRandom())
    placer.follow(existing)
    return placer.place(0, num_partitions, num_replicas, iter(given))


def test_brokers_without_racks_take_turns_as_in_kafka() -> None:
    assert place(brokers(4), 5, 3) == [[2, 3, 0], [3, 0, 1], [0, 1, 2], [1, 2, 3], [1, 0, 2]]


def test_every_pair_of_brokers_occurs_as_often_as_in_kafka() -> None:
    pairs = Counter(map(tuple, place(brokers(4), 200, 2)))
    assert pairs == {
        **{(0, 1): 14, (0, 2): 22, (0, 3): 14, (1, 0): 17, (1, 2): 17, (1, 3): 16},
        **{(2, 0): 13, (2, 1): 17, (2, 3): 20, (3, 0): 20, (3, 1): 19, (3, 2): 11},
    }


@pytest.mark.conforms("kip-660-draft:usable-broker")
def test_a_fenced_broker_is_not_used_while_others_are_enough() -> None:
    given = [broker(3), broker(1, fenced=True), broker(0), broker(4), broker(2)]
    expected = [[3, 4, 0, 2], [4, 0, 2, 3], [0, 2, 3, 4], [2, 3, 4, 0], [0, 4, 3, 2]]
    assert place(given, 5, 4) == expected


def test_a_fenced_broker_comes_last_where_it_is_needed() -> None:
    given = [broker(3), broker(1, fenced=True), broker(2)]
    assert place(given, 4, 3) == [[3, 2, 1], [2, 3, 1], [3, 2, 1], [2, 3, 1]]


def test_one_broker_that_is_up_leads_everything() -> None:
    assert place([broker(0), broker(1, fenced=True)], 3, 1) == [[0], [0], [0]]


def test_racks_take_turns_and_fences_are_looked_at_within_a_rack() -> None:
    up = [broker(11, "1"), broker(10, "1"), broker(30, "3"), broker(31, "3"), broker(21, "2")]
    expected = [[11, 21, 31, 10], [21, 30, 10, 20], [31, 11, 21, 30]]
    assert place([*up, broker(20, "2", fenced=True)], 3, 4) == expected


def test_racks_that_are_all_fenced_get_followers_and_no_leaders() -> None:
    up = [broker(11, "1"), broker(10, "1"), broker(41, "4")]
    fenced = [(30, "3"), (31, "3"), (20, "2"), (21, "2"), (40, "4")]
    given = [*up, *(broker(number, rack, fenced=True) for number, rack in fenced)]
    assert place(given, 3, 4) == [[41, 11, 21, 30], [10, 20, 31, 41], [41, 21, 30, 11]]


@pytest.mark.conforms("kip-660-draft:place")
def test_added_partitions_go_on_where_the_topic_ends() -> None:
    first = place(brokers(12), 2, 3)
    assert first == [[7, 8, 9], [8, 9, 10]]
    more = place(brokers(12), 2, 3, first)
    assert more == [[9, 10, 11], [10, 11, 0]]
    assert place(brokers(12), 4, 3, first + more) == [[11, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_added_partitions_go_on_by_rack_and_within_it() -> None:
    given = in_racks(4, 4, 4)
    first = place(given, 2, 3)
    assert first == [[6, 8, 2], [9, 3, 7]]
    assert place(given, 2, 3, first) == [[0, 4, 10], [5, 11, 1]]


def test_added_partitions_come_to_racks_that_were_left_out() -> None:
    given = in_racks(1, 1, 1, 1)
    placed: list[list[int]] = []
    for _ in range(4):
        placed += place(given, 1, 2, placed)
    assert placed == [[0, 1], [1, 2], [2, 3], [3, 0]]


def test_where_the_topic_ends_holds_for_one_request() -> None:
    placer = StripedReplicaPlacer(KafkaRandom())
    placer.follow([[11, 0, 1]])
    assert placer.place(1, 1, 1, iter(brokers(12))) == [[0]]
    starts = {placer.place(0, 1, 1, iter(brokers(12)))[0][0] for _ in range(40)}
    assert len(starts) > 6


def test_leaders_are_even_over_six_brokers() -> None:
    leaders = Counter(replicas[0] for replicas in place(brokers(6), 60, 3, random=Random(5)))
    assert leaders == dict.fromkeys(range(6), 10)


def test_uneven_racks_are_even_by_rack_and_not_by_broker() -> None:
    given = in_racks(5, 5, 1)
    placed = place(given, 100, 3, random=Random(2))
    assert all(sorted(map(str, racks_of(given, each))) == ["a", "b", "c"] for each in placed)
    assert Counter(broker for replicas in placed for broker in replicas)[10] == 100


def test_a_fenced_broker_that_some_partitions_pass_over_is_no_less_there_after_a_shuffle() -> None:
    given = [broker(0, "a"), broker(1, "a", fenced=True)]
    given += [broker(2, "b"), broker(3, "b", fenced=True)]
    for seed in range(20):
        placed = place(given, 40, 3, random=Random(seed))
        assert all(len(set(replicas)) == 3 for replicas in placed)
        assert all(replicas[0] in (0, 2) for replicas in placed)
        used = Counter(replica for replicas in placed for replica in replicas)
        assert used[0] == used[2] == 40


def test_no_rack_is_passed_over_after_a_shuffle() -> None:
    given = in_racks(1, 1, 2, 1)
    for seed in range(20):
        racks = racks_of(given, [leader for [leader] in place(given, 100, 1, random=Random(seed))])
        for begin in range(0, 100, 5):
            assert sorted(Counter(racks[begin : begin + 5]).values()) == [1, 1, 1, 2]


@pytest.mark.conforms("kip-660-draft:invalid-factor")
@pytest.mark.parametrize(
    ("given", "num_replicas", "words"),
    [
        (brokers(2), 3, r"factor of 3 cannot be reached because only 2 broker\(s\) are registered"),
        (brokers(2), 0, "Invalid replication factor 0: the replication factor must be positive."),
        (brokers(2), -1, "Invalid replication factor -1"),
        ([broker(1, fenced=True)], 1, "All brokers are currently fenced."),
        ([], 1, "All brokers are currently fenced."),
    ],
)
def test_what_cannot_be_placed_is_refused_in_kafkas_words(
    given: list[UsableBroker], num_replicas: int, words: str
) -> None:
    with pytest.raises(InvalidReplicationFactor, match=words):
        place(given, 1, num_replicas)


@pytest.mark.conforms("kip-660-draft:racks-and-no-racks")
def test_some_brokers_without_a_rack_are_an_error_of_its_own() -> None:
    with pytest.raises(ReplicaPlacementFailed, match="2, 3 of 3 brokers have no"):
        place([broker(1, "a"), broker(2), broker(3)], 1, 1)


@given(clusters(racks=False, fences=False), st.integers(1, 40), st.data())
@settings(max_examples=many(40))
def test_without_racks_each_place_of_the_lists_is_even(
    given: list[UsableBroker], num_partitions: int, data: st.DataObject
) -> None:
    num_replicas = data.draw(st.integers(1, len(given)))
    placed = place(given, num_partitions, num_replicas, random=Random(data.draw(st.integers())))
    for at in range(num_replicas):
        held = Counter(replicas[at] for replicas in placed)
        counts = [held[one.id] for one in given]
        assert max(counts) - min(counts) <= 1


@given(clusters(racks=True), st.data())
@settings(max_examples=many(40))
def test_the_racks_of_a_partition_differ_by_one_where_they_have_brokers(
    given: list[UsableBroker], data: st.DataObject
) -> None:
    num_replicas = data.draw(st.integers(1, len(given)))
    sizes = Counter(one.rack for one in given)
    for replicas in place(given, 12, num_replicas, random=Random(data.draw(st.integers()))):
        used = Counter(racks_of(given, replicas))
        most = max(used.values())
        assert all(used[rack] >= min(size, most - 1) for rack, size in sizes.items())
