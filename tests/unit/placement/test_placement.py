"""`--generate`: laws that any assignment keeps, and Kafka's examples."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import Broker, TopicPartition
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.generate import alternate_racks, generate_assignment, usable_brokers


def broker(number: int, rack: str | None = None) -> Broker:
    return Broker(number, "host", 9092, rack)


def topic(name: str, partitions: int, replication_factor: int) -> dict[TopicPartition, list[int]]:
    """Where a topic is now: all on the first brokers, which is as uneven as can be."""
    return {TopicPartition(name, p): list(range(replication_factor)) for p in range(partitions)}


@st.composite
def clusters(draw: st.DrawFn, *, even: bool = False) -> list[Broker]:
    """Brokers in racks, of one size each if `even`, or without racks."""
    racks = draw(st.integers(1, 4))
    if even:
        sizes = [draw(st.integers(1, 4))] * racks
    else:
        sizes = [draw(st.integers(1, 4)) for _ in range(racks)]
    ids = draw(
        st.lists(st.integers(0, 1000), min_size=sum(sizes), max_size=sum(sizes), unique=True)
    )
    named = [f"rack{index}" for index, size in enumerate(sizes) for _ in range(size)]
    if draw(st.booleans()):
        return [broker(number, rack) for number, rack in zip(ids, named, strict=True)]
    return [broker(number) for number in ids]


@given(clusters(), st.data())
def test_what_any_assignment_keeps(brokers: list[Broker], data: st.DataObject) -> None:
    replication_factor = data.draw(st.integers(1, len(brokers)))
    current = topic("t", data.draw(st.integers(1, 40)), replication_factor)
    seed = data.draw(st.integers())
    proposed = generate_assignment(current, brokers, Random(seed))

    racks = {each.id: each.rack for each in brokers}
    most_racks = min(replication_factor, len(set(racks.values())))
    assert proposed.keys() == current.keys()
    for replicas in proposed.values():
        assert len(replicas) == replication_factor
        assert len(set(replicas)) == replication_factor
        assert set(replicas) <= racks.keys()
        assert len({racks[each] for each in replicas}) >= most_racks


@given(clusters(even=True), st.data())
def test_every_place_is_balanced_within_one(brokers: list[Broker], data: st.DataObject) -> None:
    replication_factor = data.draw(st.integers(1, len(brokers)))
    partitions = data.draw(st.integers(1, 40))
    current = topic("t", partitions, replication_factor)
    proposed = generate_assignment(current, brokers, Random(data.draw(st.integers())))

    for place in range(replication_factor):
        held = Counter(replicas[place] for replicas in proposed.values())
        counts = [held[each.id] for each in brokers]
        assert max(counts) - min(counts) <= 1
    if partitions % len(brokers) == 0:
        total = Counter(each for replicas in proposed.values() for each in replicas)
        assert len(set(total.values())) == 1


def test_leaders_are_balanced_whatever_the_racks() -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "a"), broker(4, "b")]
    proposed = generate_assignment(topic("t", 8, 2), brokers, Random(0))
    assert Counter(replicas[0] for replicas in proposed.values()) == {1: 2, 2: 2, 3: 2, 4: 2}


def test_followers_of_one_leader_change_from_round_to_round() -> None:
    proposed = generate_assignment(topic("t", 20, 2), [broker(n) for n in range(5)], Random(3))
    followers = {replicas[1] for replicas in proposed.values() if replicas[0] == 0}
    assert followers == {1, 2, 3, 4}


def test_the_seed_decides_where_it_begins() -> None:
    brokers = [broker(n) for n in range(7)]
    proposals = [generate_assignment(topic("t", 7, 3), brokers, Random(s)) for s in (1, 1, 2)]
    assert proposals[0] == proposals[1] != proposals[2]


def test_each_topic_keeps_its_own_replication_factor() -> None:
    current = topic("a", 2, 1) | topic("b", 2, 3)
    proposed = generate_assignment(current, [broker(n) for n in range(4)], Random(0))
    assert {(partition.topic, len(replicas)) for partition, replicas in proposed.items()} == {
        ("a", 1),
        ("b", 3),
    }


def test_racks_take_turns() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    ordered = alternate_racks([broker(number, rack) for number, rack in racks.items()])
    assert [each.id for each in ordered] == [0, 3, 1, 5, 4, 2]


def test_racks_of_different_sizes_take_turns_while_they_last() -> None:
    racks = {9: "a", 1: "b", 2: "b", 3: "b"}
    ordered = alternate_racks([broker(number, rack) for number, rack in racks.items()])
    assert [each.id for each in ordered] == [9, 1, 2, 3]


def test_too_few_brokers_is_an_error_in_kafkas_words() -> None:
    with pytest.raises(BadInput, match="target replication factor of 3 cannot be reached") as error:
        generate_assignment(topic("t", 1, 3), [broker(1), broker(2)], Random(0))
    assert "only 2 broker(s) are registered" in error.value.message


LIVE = {1: broker(1, "a"), 2: broker(2, "b"), 3: broker(3)}


def test_some_brokers_without_a_rack_is_an_error_in_kafkas_words() -> None:
    with pytest.raises(BadInput) as error:
        usable_brokers(LIVE, [1, 2, 3], rack_aware=True)
    assert error.value.message == (
        "Not all brokers have rack information. Add --disable-rack-aware in command line to make "
        "replica assignment without rack information."
    )
    assert usable_brokers(LIVE, [1, 2], rack_aware=True) == (LIVE[1], LIVE[2])
    assert usable_brokers(LIVE, [3], rack_aware=True) == (LIVE[3],)


def test_racks_do_not_count_where_they_are_disabled() -> None:
    chosen = usable_brokers(LIVE, [3, 1], rack_aware=False)
    assert [(each.id, each.rack) for each in chosen] == [(3, None), (1, None)]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([], "empty"),
        ([1, 2, 1], r"Broker list contains duplicate entries: \[1\]"),
        ([1, 9, 8], "Unknown broker id 9, 8"),
    ],
)
def test_a_broker_list_that_cannot_be_meant_is_refused(wanted: list[int], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        usable_brokers(LIVE, wanted, rack_aware=False)
