"""What altering a topic comes to: laws for any request, and what real clusters rarely show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.admin.kips.alter_topics.checks import (
    Alteration,
    ReplicaChooser,
    TopicToAlter,
    decided,
    to_place,
)
from kshunt.backend.admin.kips.alter_topics.emulated import _runs
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.cluster.metadata import (
    Broker,
    OngoingReassignment,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.topics.alteration import UNCHANGED, AlteredTopic

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}


def scene(
    *replicas: Sequence[int],
    live: Sequence[int] = tuple(RACKS),
    moves: dict[int, tuple[int, ...]] | None = None,
    racks: bool = True,
    error: str = "",
) -> TopicToAlter:
    """A topic on these brokers, of which some move to elsewhere."""
    states, ongoing = {}, {}
    for number, there in enumerate(map(tuple, replicas)):
        partition = TopicPartition("t", number)
        states[number] = PartitionState(partition, there[0], there, there)
        target = (moves or {}).get(number, there)
        removing = tuple(broker for broker in there if broker not in target)
        adding = tuple(broker for broker in target if broker not in there)
        if target != there:
            ongoing[number] = OngoingReassignment(partition, (*target, *removing), adding, removing)
    brokers_up = {b: Broker(b, "host", 9092, RACKS[b] if racks else None) for b in live}
    return TopicToAlter("t", states, ongoing, brokers_up, error)


def plan(wanted: AlteredTopic, there: TopicToAlter, seed: int = 0) -> Alteration:
    found = decided(wanted, there, Random(seed))
    assert isinstance(found, Alteration), found
    return found


def refusal(wanted: AlteredTopic, there: TopicToAlter) -> str:
    found = decided(wanted, there, Random(0))
    assert isinstance(found, ItemResult), found
    return found.error_name


brokers = st.sampled_from(sorted(RACKS))
topics = st.integers(1, 4).flatmap(
    lambda factor: st.lists(
        st.lists(brokers, min_size=factor, max_size=factor, unique=True), min_size=1, max_size=6
    )
)
counts = st.one_of(st.just(UNCHANGED), st.integers(-2, 9))


@pytest.mark.conforms("kip-179-early-draft:alter-unchanged")
@given(topics, counts, counts, st.sets(brokers, min_size=1), st.booleans(), st.integers(0, 2**16))
def test_what_the_cluster_places_is_what_was_asked_for(
    replicas: list[list[int]], count: int, factor: int, live: set[int], racks: bool, seed: int
) -> None:
    there = scene(*replicas, live=sorted(live), racks=racks)
    found = decided(AlteredTopic(count, factor), there, Random(seed))
    if isinstance(found, ItemResult):
        assert found.error_name in ("INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR")
        return
    size = there.factor if factor == UNCHANGED else factor
    lists = {number: tuple(one) for number, one in enumerate(replicas)}
    if found.created is not None:
        # A broker takes new partitions only with the number of replicas that the topic has.
        assert {len(set(one)) for one in found.created} <= {there.factor}
        lists |= dict(enumerate(found.created, len(replicas)))
    else:
        assert size == there.factor
    assert {n: lists[n] for n in found.targets} == found.original
    lists |= found.targets
    assert {len(set(one)) for one in lists.values()} == {size}
    for number, before in enumerate(replicas):
        kept = min(size, len(before))
        assert lists[number][:kept] == tuple(before)[:kept]
    assert {b for one in lists.values() for b in one} <= there.known


@pytest.mark.conforms("kip-179-early-draft:alter-error-39")
@given(topics, st.lists(st.integers(-1, 7), unique=True, max_size=7), st.data())
def test_an_assignment_is_taken_to_the_letter_or_refused(
    replicas: list[list[int]], numbers: list[int], data: st.DataObject
) -> None:
    lists = st.lists(st.integers(0, 6), max_size=4)
    wanted = AlteredTopic(
        data.draw(st.one_of(st.just(UNCHANGED), st.integers(1, 8))),
        data.draw(st.one_of(st.just(UNCHANGED), st.integers(1, 4))),
        {number: data.draw(lists) for number in numbers},
    )
    there = scene(*replicas)
    found = decided(wanted, there, Random(0))
    if isinstance(found, ItemResult) or not wanted.assignments:
        return
    after = dict(enumerate(map(tuple, replicas)))
    after |= dict(enumerate(found.created or (), len(replicas)))
    after |= found.targets
    assert after.items() >= {n: tuple(one) for n, one in wanted.assignments.items()}.items()
    assert len(after) == found.count


def test_a_new_replica_goes_to_a_rack_that_has_none() -> None:
    for seed in range(20):
        targets = plan(AlteredTopic(-1, 3), scene([1, 3], [2, 1], [4, 5]), seed).targets
        racks = [{RACKS[broker] for broker in targets[number]} for number in range(3)]
        assert targets[0] == (1, 3, 5)
        # Two replicas share a rack already; the third is in another.
        assert len(racks[1]) == 2
        assert len(racks[2]) == 3


def test_a_broker_that_is_down_is_known_by_what_it_hosts() -> None:
    there = scene([1, 2], [2, 3], live=[1, 3, 4])
    assert plan(AlteredTopic(assignments={1: [2, 1]}), there).targets == {1: (2, 1)}
    assert refusal(AlteredTopic(assignments={1: [5, 1]}), there) == "UNKNOWN_MEMBER_ID"
    assert plan(AlteredTopic(3, -1, {2: [2, 1]}), there).created == [(2, 1)]
    alone = scene([1], [2], live=[1, 3])
    assert refusal(AlteredTopic(3, -1, {2: [2]}), alone) == "INVALID_REPLICA_ASSIGNMENT"


def test_replicas_that_are_down_count_and_new_ones_need_a_broker_that_is_up() -> None:
    there = scene([1, 2], [2, 3], live=[1, 3])
    assert plan(AlteredTopic(-1, 3), there).targets == {0: (1, 2, 3), 1: (2, 3, 1)}
    assert refusal(AlteredTopic(3, 3), there) == "INVALID_REPLICATION_FACTOR"
    assert refusal(AlteredTopic(-1, 4), there) == "INVALID_REPLICATION_FACTOR"
    nobody = scene([1, 2], live=[])
    assert plan(AlteredTopic(-1, 1), nobody).targets == {0: (1,)}


def test_where_partitions_have_unlike_factors_each_gets_what_is_asked() -> None:
    there = scene([1, 2], [3])
    assert plan(AlteredTopic(-1, 2), there).targets.keys() == {1}
    assert plan(AlteredTopic(3), there).created is None
    assert plan(AlteredTopic(assignments={1: [4]}), there).targets == {1: (4,)}
    assert refusal(AlteredTopic(-1, 2, {1: [3, 4]}), there) == "INVALID_REPLICA_ASSIGNMENT"


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        (AlteredTopic(assignments={0: [4, 5]}), "REASSIGNMENT_IN_PROGRESS"),
        (AlteredTopic(3), "REASSIGNMENT_IN_PROGRESS"),
        (AlteredTopic(-1, 1), "REASSIGNMENT_IN_PROGRESS"),
        (AlteredTopic(assignments={0: [3, 4]}), None),
        (AlteredTopic(assignments={1: [4, 5]}), None),
        (AlteredTopic(2, 2), None),
    ],
)
def test_a_partition_that_moves_is_where_it_moves_to(
    wanted: AlteredTopic, answer: str | None
) -> None:
    there = scene([1, 2], [2, 3], moves={0: (3, 4)})
    if answer is None:
        assert 0 not in plan(wanted, there).targets
    else:
        assert refusal(wanted, there) == answer


@pytest.mark.conforms("kip-179-early-draft:alter-error-31")
def test_a_topic_that_we_may_not_see_is_not_one_that_there_is_not() -> None:
    hidden = scene(error="TOPIC_AUTHORIZATION_FAILED")
    assert refusal(AlteredTopic(), hidden) == "CLUSTER_AUTHORIZATION_FAILED"
    assert refusal(AlteredTopic(), scene(error="UNKNOWN_TOPIC_OR_PARTITION")) == (
        "INVALID_TOPIC_EXCEPTION"
    )


# With a placer


def chooser(*, ignores_racks: bool = False, asked: list[object] | None = None) -> ReplicaChooser:
    """Names the highest brokers, from the highest on."""

    def lists(
        there: TopicToAlter, numbers: Sequence[int], count: int
    ) -> dict[int, tuple[int, ...]]:
        if asked is not None and numbers:
            asked.append((tuple(numbers), count))
        return dict.fromkeys(numbers, tuple(sorted(there.live, reverse=True)[:count]))

    return ReplicaChooser(lists, ignores_racks)


@given(topics, counts, counts, st.sets(brokers, min_size=1))
def test_a_placer_names_what_comes_besides_and_nothing_else(
    replicas: list[list[int]], count: int, factor: int, live: set[int]
) -> None:
    there, wanted = scene(*replicas, live=sorted(live)), AlteredTopic(count, factor)
    asked: list[object] = []
    found = decided(wanted, there, Random(0), chooser(asked=asked))
    without = decided(wanted, there, Random(0))
    assert bool(asked) <= to_place(wanted, there)
    if isinstance(found, ItemResult):
        assert found.error_name in ("INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR")
        return
    assert isinstance(without, Alteration)
    assert (found.count, found.added) == (without.count, without.added)
    assert found.targets.keys() >= without.targets.keys() & there.states.keys()
    highest = tuple(sorted(live, reverse=True))
    for number, target in found.targets.items():
        kept = there.present(number)[: len(target)] if number in there.states else ()
        assert target[: len(kept)] == kept
        assert set(target) - set(kept) <= set(highest)
    for number, created in enumerate(found.created or (), len(replicas)):
        size = there.factor if factor == UNCHANGED else factor
        assert found.targets.get(number, created) == highest[:size]


def naming(*replicas: int, ignores_racks: bool = False) -> ReplicaChooser:
    """Names the same brokers for all."""
    return ReplicaChooser(lambda _, numbers, __: dict.fromkeys(numbers, replicas), ignores_racks)


def test_what_a_placer_names_goes_to_new_racks_first_unless_it_ignores_them() -> None:
    # Broker 4 has the only replica, in rack b, where 3 is too; 2 is in rack a.
    for ignores_racks, target in ((False, (4, 2)), (True, (4, 3))):
        placer = naming(3, 2, ignores_racks=ignores_racks)
        found = decided(AlteredTopic(-1, 2), scene([4]), Random(0), placer)
        assert isinstance(found, Alteration)
        assert found.targets == {0: target}


def test_a_placer_that_names_no_others_is_kafkas_error() -> None:
    there = scene([1, 2], live=[1, 3])
    found = decided(AlteredTopic(-1, 3), there, Random(0), naming(1, 2))
    assert isinstance(found, ItemResult)
    assert found.error_name == "INVALID_REPLICATION_FACTOR"


def test_numbers_that_follow_each_other_are_one_question() -> None:
    assert _runs([]) == []
    assert _runs([4]) == [range(4, 5)]
    assert _runs([0, 1, 2, 5, 7, 8]) == [range(3), range(5, 6), range(7, 9)]


@pytest.mark.parametrize("mode", [PartitionMode.READ_ONLY, PartitionMode.NONE])
def test_a_topic_that_loses_partitions_is_not_altered(mode: PartitionMode) -> None:
    there = scene((1, 2), (2, 3))
    states = {**there.states, 1: replace(there.states[1], mode=mode)}
    for wanted in (AlteredTopic(4), AlteredTopic(replication_factor=3)):
        assert isinstance(decided(wanted, there, Random(0)), Alteration)
        found = decided(wanted, replace(there, states=states), Random(0))
        assert isinstance(found, ItemResult)
        assert found.error_name == "INVALID_PARTITIONS"
        assert "t-1 is about to be deleted" in found.message
