"""Planners that even out: rebalance and expand, by hand, by law, and against lower bounds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.planning.goals import Weighing
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.expand import expand
from kshunt.backend.placement.plans.rebalance import rebalance
from kshunt.backend.placement.plans.scope import Scope
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

FEW = settings(max_examples=many(60))
SLACK = 1e-4


def weigh(found: World, by: Weighing, after: Placement) -> dict[int, float]:
    """Each broker's load."""
    loads = dict.fromkeys(found.racks, 0.0)
    for name, target in after.items():
        for place, broker in enumerate(target):
            if by is Weighing.REPLICAS:
                loads[broker] += 1
            elif by is Weighing.BYTES:
                loads[broker] += found.size(name)
            else:
                into, out = found.rates[name]
                loads[broker] += into + (out if place == 0 else 0)
    return loads


def outside(found: World, by: Weighing, tolerance: float, after: Placement) -> float:
    """The measure of `rebalance`: what brokers have above and lack below the band."""
    loads = weigh(found, by, after)
    mean = sum(weigh(found, by, found.lists)[broker] for broker in found.up) / len(found.up)
    low, high = mean * (1 - tolerance), mean * (1 + tolerance)
    if by is Weighing.REPLICAS:
        low, high = -(-min(low, mean // 1) // 1), max(high, -(-mean // 1)) // 1
    return sum(max(loads[broker] - high, low - loads[broker], 0.0) for broker in found.up)


def stays_put(found: World, after: Placement) -> bool:
    """Whether nothing left a broker that is down."""
    return all(found.down & set(found.lists[name]) <= set(target) for name, target in after.items())


def reordered(
    found: World, options: dict[object, list[tuple[int, ...]]]
) -> dict[object, list[tuple[int, ...]]]:
    """Each list also with every replica first that could lead."""
    more = {}
    for name, lists in options.items():
        more[name] = list(lists)
        for each in lists:
            for place in range(1, len(each)):
                if each[place] in found.up:
                    first = list(each)
                    first[0], first[place] = each[place], each[0]
                    more[name].append(tuple(first))
    return more


@FEW
@given(
    worlds(),
    st.sampled_from((Weighing.BYTES, Weighing.REPLICAS)),
    st.sampled_from((0.0, 0.1, 0.3)),
    st.one_of(st.none(), st.integers(0, 200)),
)
def test_rebalance_keeps_what_it_must_for_the_fewest_bytes(
    found: World, by: Weighing, tolerance: float, most: int | None
) -> None:
    proposal = rebalance(found.situation(), by, tolerance=tolerance, max_moved_bytes=most)
    check_invariants(found, proposal)
    after = outcome(found, proposal)
    reached = outside(found, by, tolerance, after)
    assert abs(proposal.measure.after - reached) < SLACK
    assert most is None or proposal.cost.moved_bytes <= most
    assert stays_put(found, after)
    options = {name: list(all_lists(found, name, receivers=found.up)) for name in found.lists}
    best = least_bytes(
        found,
        options,
        lambda then: (
            stays_put(found, then) and outside(found, by, tolerance, then) <= reached + SLACK
        ),
    )
    check_cheap(proposal, best)
    assert bool(proposal.notes) or reached <= SLACK


@settings(max_examples=many(40))
@given(worlds(partitions=2, brokers=4, traffic=True), st.sampled_from((0.0, 0.2)))
def test_traffic_is_evened_out_by_the_fewest_bytes_too(found: World, tolerance: float) -> None:
    proposal = rebalance(found.situation(), Weighing.LOAD, tolerance=tolerance)
    check_invariants(found, proposal)
    reached = outside(found, Weighing.LOAD, tolerance, outcome(found, proposal))
    assert abs(proposal.measure.after - reached) < SLACK
    options = {name: list(all_lists(found, name, receivers=found.up)) for name in found.lists}
    best = least_bytes(
        found,
        reordered(found, options),  # type: ignore[arg-type]
        lambda then: (
            stays_put(found, then)
            and outside(found, Weighing.LOAD, tolerance, then) <= reached + SLACK
        ),
    )
    check_cheap(proposal, best)


@FEW
@given(worlds(), st.sampled_from((Weighing.BYTES, Weighing.REPLICAS)), st.data())
def test_expand_fills_the_named_brokers_and_moves_nothing_else(
    found: World, by: Weighing, data: st.DataObject
) -> None:
    named = set(data.draw(st.lists(st.sampled_from(found.up), min_size=1, max_size=2)))
    proposal = expand(found.situation(), sorted(named), by)
    check_invariants(found, proposal)
    start = weigh(found, by, found.lists)
    share = sum(start[broker] for broker in found.up) / len(found.up)
    share = share // 1 if by is Weighing.REPLICAS else share

    def lacks(after: Placement) -> float:
        loads = weigh(found, by, after)
        return sum(max(share - loads[broker], 0.0) for broker in named)

    def fair(after: Placement) -> bool:
        """Nobody sinks below the share, and no named broker is filled above it."""
        loads = weigh(found, by, after)
        return stays_put(found, after) and all(
            min(share, start[broker]) - SLACK <= loads[broker] <= most[broker] + SLACK
            for broker in found.racks
        )

    most = {b: max(share, start[b]) if b in named else start[b] for b in found.racks}
    after = outcome(found, proposal)
    assert fair(after)
    assert abs(proposal.measure.after - lacks(after)) < SLACK
    for name, target in proposal.targets.items():
        assert set(target) - set(found.lists[name]) <= named
    options = {name: list(all_lists(found, name, receivers=named)) for name in found.lists}
    best = least_bytes(
        found, options, lambda then: fair(then) and lacks(then) <= lacks(after) + SLACK
    )
    check_cheap(proposal, best)


def test_expanding_from_three_brokers_to_five() -> None:
    # Fifteen partitions of 1 GB with two replicas each on brokers 1, 2 and 3: 10 replicas a broker.
    lists = [[(p + step) % 3 + 1 for step in range(2)] for p in range(15)]
    found = world(lists, [GB] * 15, dict.fromkeys(range(1, 6)))
    for by in (Weighing.BYTES, Weighing.REPLICAS):
        proposal = expand(found.situation(), [4, 5], by)
        # 30 replicas on five brokers are six each: twelve move and eighteen stay.
        assert proposal.cost.moved_bytes == 12 * GB
        loads = weigh(found, Weighing.REPLICAS, outcome(found, proposal))
        assert loads == {1: 6, 2: 6, 3: 6, 4: 6, 5: 6}
        assert proposal.measure.after == 0
        assert "expand onto broker 4, 5" in proposal.goal
        check_invariants(found, proposal)


def test_skewed_bytes_are_evened_out_by_one_move() -> None:
    # 1 has 90 GB, 2 has 30 and 3 has 30: 40 GB of broker 1 is the one replica that balances it.
    found = world(
        [[1], [1], [1], [2], [3]],
        [40 * GB, 30 * GB, 20 * GB, 30 * GB, 30 * GB],
        dict.fromkeys((1, 2, 3)),
    )
    proposal = rebalance(found.situation(), tolerance=0.2)
    # The mean is 50 GB and the band 40 to 60: 20 GB of broker 1 suffice for one of the others only.
    assert sorted(weigh(found, Weighing.BYTES, outcome(found, proposal)).values()) == [
        40 * GB,
        50 * GB,
        60 * GB,
    ]
    assert proposal.measure.after == 0
    assert proposal.cost.moved_bytes == 50 * GB


def test_a_cap_on_bytes_is_kept_and_said() -> None:
    found = world([[1], [1], [1], [1]], [10, 10, 10, 10], {1: None, 2: None})
    proposal = rebalance(found.situation(), tolerance=0.0, max_moved_bytes=15)
    assert proposal.cost.moved_bytes == 10
    assert proposal.measure.after == 20
    assert {note.broker for note in proposal.notes if "15 B" in note.remedy} == {1, 2}


def test_partitions_of_unknown_size_stay_when_bytes_are_evened_out() -> None:
    found = world([[1], [1], [1]], [10, 10, None], {1: None, 2: None})
    proposal = rebalance(found.situation(), tolerance=0.0)
    assert tp(2) not in proposal.targets
    assert proposal.cost.moved_bytes == 10
    assert any("unknown size" in note.why for note in proposal.notes)


def test_traffic_is_first_evened_out_by_who_leads() -> None:
    found = world([[1, 2], [1, 2]], [GB, GB], {1: None, 2: None})
    found.rates = {tp(0): (10.0, 30.0), tp(1): (10.0, 30.0)}
    proposal = rebalance(found.situation(), Weighing.LOAD, tolerance=0.1)
    assert proposal.cost.moved_bytes == 0
    assert proposal.cost.reordered == 1
    assert proposal.measure.after == 0


def test_what_cannot_be_meant_is_refused() -> None:
    found = world([[1]], [1], {1: None, 2: None}, down=frozenset({2}))
    with pytest.raises(BadInput, match="below 0"):
        rebalance(found.situation(), tolerance=-0.1)
    with pytest.raises(BadInput, match="Broker 2 is down"):
        expand(found.situation(), [2])
    found.down = frozenset({1, 2})
    with pytest.raises(BadInput, match="No broker is up"):
        rebalance(found.situation())
    with pytest.raises(BadInput, match="disk fraction"):
        Scope(disk_fraction=1.2)


@settings(max_examples=many(150))
@given(
    worlds(partitions=14, brokers=7, traffic=True),
    st.sampled_from(Weighing),
    st.sampled_from((0.0, 0.1)),
    st.one_of(st.none(), st.integers(0, 500)),
)
def test_clusters_too_large_to_try_everything_keep_the_rules_too(
    found: World, by: Weighing, tolerance: float, most: int | None
) -> None:
    proposal = rebalance(found.situation(), by, tolerance=tolerance, max_moved_bytes=most)
    check_invariants(found, proposal)
    after = outcome(found, proposal)
    reached = outside(found, by, tolerance, after)
    assert abs(proposal.measure.after - reached) < SLACK
    assert most is None or proposal.cost.moved_bytes <= most
    assert stays_put(found, after)
    if by is not Weighing.LOAD:
        assert proposal.cost.reordered == 0
    assert bool(proposal.notes) or reached <= SLACK


def many_partitions(seed: int) -> World:
    """Twelve brokers in three racks; sizes differ hundredfold, and low ids hold more."""
    random = Random(seed)
    racks = {broker: "abc"[broker % 3] for broker in range(12)}
    lists = []
    for _ in range(400):
        first = min(random.randrange(12), random.randrange(12))
        lists.append([first, (first + random.choice((1, 2, 4, 5))) % 12])
    sizes = [int(random.lognormvariate(6, 1)) + 1 for _ in lists]
    found = world(lists, sizes, racks)
    found.rates = {name: (random.random() * 100, random.random() * 300) for name in found.lists}
    return found


def least_of_any(found: World, by: Weighing, tolerance: float) -> float:
    """No plan into the band copies less: what is too much leaves, and what is lacking comes."""
    loads = weigh(found, by, found.lists)
    mean = sum(loads.values()) / len(loads)
    low, high = mean * (1 - tolerance), mean * (1 + tolerance)
    above = {b: max(load - high // 1, 0) for b, load in loads.items()}
    below = sum(max(-(-low // 1) - load, 0) for load in loads.values())
    if by is Weighing.BYTES:
        return max(sum(above.values()), below)
    # The cheapest that have to leave each broker, and then the cheapest of the rest.
    cost, rest = 0, []
    for broker, much in above.items():
        there = sorted(found.size(n) for n, each in found.lists.items() if broker in each)
        cost += sum(there[: int(much)])
        rest += there[int(much) :]
    return cost + sum(sorted(rest)[: max(int(below - sum(above.values())), 0)])


@pytest.mark.parametrize("seed", range(4))
def test_larger_clusters_come_near_the_least_that_any_plan_copies(seed: int) -> None:
    found = many_partitions(seed)
    for by, most in ((Weighing.BYTES, 1.05), (Weighing.REPLICAS, 1.1)):
        proposal = rebalance(found.situation(), by, tolerance=0.1)
        check_invariants(found, proposal)
        assert proposal.measure.after <= SLACK
        assert abs(outside(found, by, 0.1, outcome(found, proposal))) <= SLACK
        assert proposal.cost.moved_bytes <= most * least_of_any(found, by, 0.1)


@pytest.mark.parametrize("seed", range(4))
def test_larger_clusters_are_evened_out_by_traffic(seed: int) -> None:
    found = many_partitions(seed)
    proposal = rebalance(found.situation(), Weighing.LOAD, tolerance=0.1)
    check_invariants(found, proposal)
    reached = outside(found, Weighing.LOAD, 0.1, outcome(found, proposal))
    assert abs(reached - proposal.measure.after) < SLACK
    assert proposal.measure.after <= SLACK


@pytest.mark.parametrize("by", [Weighing.BYTES, Weighing.REPLICAS, Weighing.LOAD])
def test_larger_clusters_expand_by_what_is_lacking(by: Weighing) -> None:
    found = many_partitions(7)
    found.racks |= {12: "a", 13: "b"}
    proposal = expand(found.situation(), [12, 13], by)
    check_invariants(found, proposal)
    loads = weigh(found, by, outcome(found, proposal))
    share = sum(loads.values()) / 14
    assert all(0.95 * share - 1 <= loads[broker] <= share + SLACK for broker in (12, 13))
    for target, old in ((t, found.lists[name]) for name, t in proposal.targets.items()):
        assert all(new == was or new in (12, 13) for new, was in zip(target, old, strict=True))


def test_the_same_input_gives_the_same_answer() -> None:
    found = many_partitions(1)
    first, second = (rebalance(found.situation(), scope=Scope(seed=5)) for _ in range(2))
    assert first == second
