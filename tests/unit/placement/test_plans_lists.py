"""Planners that change lists: leader order, replication factor and racks, by hand and by law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations, permutations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.leaders import balance_leaders
from kshunt.backend.placement.plans.racks import repair_racks
from kshunt.backend.placement.plans.replication import set_replication_factor
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from tests.support.placement.plans import (
    GB,
    Placement,
    World,
    all_lists,
    check_cheap,
    check_invariants,
    least_bytes,
    outcome,
    tp,
    world,
    worlds,
)
from tests.support.runs.examples import many

FEW = settings(max_examples=many(100))


def led_outside(found: World, tolerance: float, after: Placement) -> float:
    """The measure of `balance_leaders`, worked out from the lists."""
    led = Counter(target[0] for target in after.values())
    mean = sum(led[broker] for broker in found.up) / len(found.up)
    low = -(-min(mean * (1 - tolerance), mean // 1) // 1)
    high = max(mean * (1 + tolerance), -(-mean // 1)) // 1
    return sum(max(led[b] - high, low - led[b], 0) for b in found.up)


@FEW
@given(worlds(down=True, tight=False), st.sampled_from((0.0, 0.5)), st.data())
def test_leaders_are_as_even_as_the_lists_allow_and_nothing_is_copied(
    found: World, tolerance: float, data: st.DataObject
) -> None:
    for name, lists in found.lists.items():
        behind = data.draw(st.sets(st.sampled_from(lists), max_size=1))
        found.isr[name] = tuple(b for b in lists if b in found.up and b not in behind)
    proposal = balance_leaders(found.situation(), tolerance=tolerance)
    check_invariants(found, proposal)
    after = outcome(found, proposal)
    assert proposal.cost.moved_bytes == proposal.cost.moved_replicas == 0
    for name, target in proposal.targets.items():
        assert set(target) == set(found.lists[name])
        assert target[0] in found.isr[name]
    reached = led_outside(found, tolerance, after)
    assert proposal.measure.after == reached
    if found.down & {replicas[0] for replicas in found.lists.values()}:
        # Those that are to be led by one that is down are counted apart.
        return
    firsts = [{lists[0], *found.isr[name]} for name, lists in found.lists.items()]
    every = (
        {name: (first,) for name, first in zip(found.lists, chosen, strict=True)}
        for chosen in product(*firsts)
    )
    best = min(led_outside(found, tolerance, each) for each in every)
    assert reached == best
    assert bool(proposal.notes) == (reached > 0)


def test_leaders_pass_along_brokers_that_are_full_already() -> None:
    # 1 leads three, 2 leads two, 3 leads one; 1 and 3 share no partition, so 2 passes one on.
    lists = [[1, 2], [1, 2], [1, 2], [2, 3], [2, 3], [3, 2]]
    found = world(lists, [GB] * 6, dict.fromkeys((1, 2, 3)))
    proposal = balance_leaders(found.situation(), tolerance=0.0)
    after = outcome(found, proposal)
    assert Counter(target[0] for target in after.values()) == {1: 2, 2: 2, 3: 2}
    assert proposal.cost.reordered == 2
    assert "2 lists only reordered" in proposal.sentence


def test_a_replica_out_of_sync_is_not_made_to_lead() -> None:
    found = world([[1, 2], [1, 2]], [GB, GB], {1: None, 2: None})
    found.isr = {tp(0): (1,), tp(1): (1,)}
    proposal = balance_leaders(found.situation(), tolerance=0.0)
    assert not proposal.targets
    assert {note.broker for note in proposal.notes} == {1, 2}


def lacking_bytes(found: World, factor: int, after: Placement) -> int:
    return sum(found.size(name) * max(factor - len(target), 0) for name, target in after.items())


def missing_bytes(found: World, factor: int, after: Placement) -> int:
    return sum(found.size(name) * abs(factor - len(target)) for name, target in after.items())


@FEW
@given(worlds(partitions=3), st.integers(1, 4))
def test_a_factor_is_reached_for_the_fewest_bytes_and_racks_are_kept(
    found: World, factor: int
) -> None:
    proposal = set_replication_factor(found.situation(), {"t": factor})
    check_invariants(found, proposal, factor_stays=False)
    after = outcome(found, proposal)
    reached = missing_bytes(found, factor, after)
    assert proposal.measure.after == reached
    assert bool([note for note in proposal.notes if note.partition is not None]) == (reached > 0)
    for name, target in after.items():
        old = found.lists[name]
        kept = [broker for broker in old if broker in target]
        assert list(target[: len(kept)]) == kept
        if len(target) > len(old):
            check_best_racks(found, old, target)
        if len(target) < len(old):
            check_dropped(found, name, target)
    sizes = {name: abs(factor - len(lists)) for name, lists in found.lists.items()}
    options = {
        name: [
            lists
            for wanted in range(min(len(old), factor), max(len(old), factor) + 1)
            for lists in all_lists(found, name, receivers=found.up, factor=wanted)
            if set(old) <= set(lists) or set(lists) <= set(old)
        ]
        for name, old in found.lists.items()
        if sizes[name]
    }
    # To drop costs nothing, and so pays for no replica that is still missing.
    lacking = lacking_bytes(found, factor, after)
    best = least_bytes(found, options, lambda then: lacking_bytes(found, factor, then) <= lacking)
    check_cheap(proposal, best)


def check_best_racks(found: World, old: tuple[int, ...], target: tuple[int, ...]) -> None:
    """No other brokers would have brought more racks, where there is room everywhere."""
    if found.rooms:
        return
    others = [broker for broker in found.up if broker not in old]
    every = combinations(others, len(target) - len(old))
    assert found.spread(target) == max(found.spread([*old, *more]) for more in every)


def check_dropped(found: World, name: TopicPartition, target: tuple[int, ...]) -> None:
    old = found.lists[name]
    in_sync = [broker for broker in old if broker in found.up]
    assert in_sync[0] in target
    gone, kept = set(old) - set(target), set(target)
    assert not gone & set(in_sync) or kept <= set(in_sync)


def test_from_two_replicas_to_three_and_back() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    lists = [[1, 3], [3, 5], [5, 1], [2, 4], [4, 6], [6, 2]]
    found = world(lists, [GB * n for n in (1, 2, 3, 4, 5, 6)], racks)
    up = set_replication_factor(found.situation(), {"t": 3})
    check_invariants(found, up, factor_stays=False)
    after = outcome(found, up)
    assert up.cost.moved_bytes == 21 * GB
    # Every partition has a replica in each rack, behind the two that it had.
    assert all(found.spread(target) == 3 for target in after.values())
    assert all(target[:2] == found.lists[name] for name, target in after.items())

    grown = World(found.racks, after, found.sizes)
    down = set_replication_factor(grown.situation(), {"t": 2})
    check_invariants(grown, down, factor_stays=False)
    assert down.cost.moved_bytes == 0
    assert down.cost.dropped_replicas == 6
    assert all(len(target) == 2 for target in outcome(grown, down).values())
    assert all(target[0] == grown.lists[name][0] for name, target in down.targets.items())


def test_what_is_out_of_sync_goes_first_then_the_follower_on_the_fullest_broker() -> None:
    found = world([[1, 2, 3], [1, 2, 3], [3]], [10, 10, 50], {1: None, 2: None, 3: None})
    found.isr = {tp(0): (1, 3)}
    proposal = set_replication_factor(found.situation(), {"t": 2})
    after = outcome(found, proposal)
    assert after[tp(0)] == (1, 3)
    assert after[tp(1)] == (1, 2)
    assert after[tp(2)][0] == 3


def facts(replicas: tuple[int, ...], leader: int, isr: tuple[int, ...], least: int) -> Situation:
    racks = {1: "a", 2: "a", 3: "b"}
    return Situation.of(
        [PartitionSituation(tp(0), replicas, leader, isr, 10, min_isr=least)],
        [BrokerFacts(broker, rack) for broker, rack in racks.items()],
    )


@pytest.mark.parametrize(
    ("situation", "words"),
    [
        (facts((1, 2, 3), 1, (1, 2, 3), 3), "min.insync.replicas is 3"),
        (facts((1, 2, 3), -1, (), 1), "no leader"),
        # 3 is out of sync, and the only one in the other rack.
        (facts((1, 2, 3), 1, (1, 2), 1), "broker 3, which is out of sync"),
    ],
)
def test_no_replica_is_dropped_that_may_be_needed(situation: Situation, words: str) -> None:
    proposal = set_replication_factor(situation, {"t": 2})
    assert not proposal.targets
    (note,) = proposal.notes
    assert words in note.why
    assert note.remedy
    assert note.partition == tp(0)


def test_the_first_pattern_that_names_a_topic_counts() -> None:
    situation = Situation.of(
        [
            PartitionSituation(tp(0, name), (1,), 1, (1,), 10)
            for name in ("orders", "audit", "other")
        ],
        [BrokerFacts(1), BrokerFacts(2), BrokerFacts(3)],
    )
    proposal = set_replication_factor(
        situation, {"orders": 3, "*d*": 2}, Scope(exclude=("nothing",))
    )
    lengths = {name.topic: len(target) for name, target in proposal.targets.items()}
    assert lengths == {"orders": 3, "audit": 2}
    with pytest.raises(BadInput, match="No topic matches payments"):
        set_replication_factor(situation, {"payments": 2})
    with pytest.raises(BadInput, match="factor of 0"):
        set_replication_factor(situation, {"orders": 0})


def crowded_bytes(found: World, after: Placement) -> int:
    """The measure of `repair_racks`."""
    racks = {found.racks[broker] for broker in found.up} - {None}
    total = 0
    for name, target in after.items():
        known = [found.racks[broker] for broker in target if found.racks[broker] is not None]
        # Those of unknown rack stay; they may be in none that is taken.
        missing = min(len(known), len(set(known) | racks)) - len(set(known))
        total += missing * found.size(name)
    return total


@FEW
@given(worlds(partitions=3))
def test_racks_are_repaired_by_the_fewest_bytes(found: World) -> None:
    proposal = repair_racks(found.situation())
    check_invariants(found, proposal)
    after = outcome(found, proposal)
    reached = crowded_bytes(found, after)
    assert proposal.measure.after == reached
    for name, target in proposal.targets.items():
        assert found.spread(target) > found.spread(found.lists[name])
    options = {
        name: [
            lists
            for lists in all_lists(found, name, receivers=found.up)
            if all(b in lists for b in found.lists[name] if found.racks[b] is None)
        ]
        for name in found.lists
    }
    best = least_bytes(found, options, lambda then: crowded_bytes(found, then) <= reached)
    check_cheap(proposal, best)
    if not found.rooms:
        assert reached == min_crowded(found, options)


def min_crowded(found: World, options: Mapping[TopicPartition, list[tuple[int, ...]]]) -> int:
    return sum(
        min(crowded_bytes(found, {name: each}) for each in lists) for name, lists in options.items()
    )


def test_a_follower_moves_to_the_free_rack_and_the_leader_stays() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "c", 5: "c"}
    found = world([[1, 2, 3], [1, 2], [3, 4]], [GB, GB, 9 * GB], racks)
    proposal = repair_racks(found.situation())
    after = outcome(found, proposal)
    # 4 holds 9 GB and 5 nothing; both 3 and 5 are free racks for the pair on 1 and 2.
    assert after[tp(0)] == (1, 5, 3)
    assert after[tp(1)] == (1, 5)
    assert tp(2) not in proposal.targets
    assert proposal.cost.moved_bytes == 2 * GB


def larger(seed: int) -> World:
    """Nine brokers in three racks, three hundred partitions of three replicas, at random."""
    random = Random(seed)
    brokers = list(range(9))
    lists = [random.sample(brokers[: random.choice((5, 9))], 3) for _ in range(300)]
    racks = {broker: "abc"[broker % 3] for broker in brokers}
    return world(lists, [random.randrange(1, 1000) for _ in lists], racks)


def test_a_larger_cluster_is_repaired_and_its_leaders_evened_out() -> None:
    found = larger(3)
    proposal = repair_racks(found.situation())
    check_invariants(found, proposal)
    after = outcome(found, proposal)
    assert all(found.spread(target) == 3 for target in after.values())
    found.lists = after
    proposal = balance_leaders(found.situation(), tolerance=0.0)
    check_invariants(found, proposal)
    led = Counter(target[0] for target in outcome(found, proposal).values())
    assert {led[broker] for broker in found.racks} <= {33, 34}


def test_orders_of_one_set_are_all_that_leaders_need() -> None:
    # Every way to order three lists: none is more even than what is proposed.
    found = world([[1, 2, 3], [1, 3, 2], [1, 2, 3]], [1, 1, 1], dict.fromkeys((1, 2, 3)))
    after = outcome(found, balance_leaders(found.situation(), tolerance=0.0))
    every = product(*(permutations(lists) for lists in found.lists.values()))
    best = min(max(Counter(each[0] for each in way).values()) for way in every)
    assert max(Counter(target[0] for target in after.values()).values()) == best == 1
