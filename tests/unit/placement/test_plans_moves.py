"""Planners that move whole brokers' replicas: drain and replace, by hand and by law."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import OngoingReassignment
from kshunt.backend.domain.planning.proposal import note_sentences
from kshunt.backend.domain.planning.requests import PlanAnswer
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.impact import impact
from kshunt.backend.placement.plans.drain import drain
from kshunt.backend.placement.plans.replace import replace
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.tools.plan.reports import plan_lines
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

FEW = settings(max_examples=many(150))


def bytes_on(found: World, brokers: set[int], after: Placement) -> int:
    return sum(found.size(name) * len(brokers & set(target)) for name, target in after.items())


@FEW
@given(worlds(), st.data())
def test_drain_keeps_what_it_must_and_copies_no_more_than_it_has_to(
    found: World, data: st.DataObject
) -> None:
    gone = set(data.draw(st.lists(st.sampled_from(sorted(found.racks)), min_size=1, max_size=2)))
    proposal = drain(found.situation(), sorted(gone))
    check_invariants(found, proposal)
    after = outcome(found, proposal)
    left = bytes_on(found, gone, after)
    assert proposal.measure.after == left
    for name, target in proposal.targets.items():
        assert set(found.lists[name]) - set(target) <= gone
        for old, new in zip(found.lists[name], target, strict=True):
            assert old == new or old in gone
    options = {
        name: list(all_lists(found, name, receivers=set(found.racks) - gone))
        for name in found.lists
    }
    best = least_bytes(found, options, lambda then: bytes_on(found, gone, then) <= left)
    check_cheap(proposal, best)
    if not found.rooms:
        empty = least_bytes(found, options, lambda then: not bytes_on(found, gone, then))
        assert (left == 0) == (empty is not None)
    assert bool(proposal.notes) or left == 0


@FEW
@given(worlds(), st.data())
def test_replace_moves_what_the_old_broker_has_and_nothing_else(
    found: World, data: st.DataObject
) -> None:
    old, new = data.draw(st.permutations(sorted(found.racks)))[:2]
    if new in found.down:
        with pytest.raises(BadInput, match="is down"):
            replace(found.situation(), old, new)
        return
    proposal = replace(found.situation(), old, new)
    check_invariants(found, proposal)
    for name, target in proposal.targets.items():
        assert target == tuple(new if broker == old else broker for broker in found.lists[name])
    left = bytes_on(found, {old}, outcome(found, proposal))
    assert proposal.measure.after == left
    options = {name: list(all_lists(found, name, receivers={new})) for name in found.lists}
    check_cheap(
        proposal,
        least_bytes(found, options, lambda then: bytes_on(found, {old}, then) <= left),
    )


def test_draining_one_of_three_racks_with_two_replicas_each() -> None:
    # Six brokers, two a rack; every partition is on two racks.
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    found = world([[1, 3], [3, 5], [5, 1], [2, 4], [4, 6], [6, 2]], [10 * GB] * 6, racks)
    proposal = drain(found.situation(), [5, 6])
    after = outcome(found, proposal)
    assert set(proposal.targets) == {tp(1), tp(2), tp(4), tp(5)}
    assert proposal.cost.moved_bytes == 40 * GB
    # The replicas that stay keep their place, and the pair stays on two racks.
    assert after[tp(1)][0] == 3
    assert after[tp(1)][1] in (1, 2)
    assert after[tp(2)][1] == 1
    assert after[tp(2)][0] in (3, 4)
    assert after[tp(0)] == (1, 3)
    # 20 GB come to each of the four: 3 replicas of 10 GB on each.
    assert sorted(broker for target in after.values() for broker in target) == [
        1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4,
    ]  # fmt: skip


def test_a_rack_that_every_partition_needs_is_drained_only_where_racks_may_go() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    found = world([[1, 3, 5]], [GB], racks)
    proposal = drain(found.situation(), [5])
    assert not proposal.targets
    (note,) = proposal.notes
    assert (note.partition, note.broker) == (tp(0), 5)
    assert "fewer racks" in note.why
    assert note.remedy

    proposal = drain(found.situation(), [5], Scope(keep_racks=False))
    assert outcome(found, proposal)[tp(0)][:2] == (1, 3)
    assert proposal.measure.after == 0
    assert any("span 2 instead of 3 racks" in note.why for note in proposal.notes)


def test_partitions_that_lose_a_rack_are_counted_in_one_sentence() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    found = world([[1, 3, 5]] * 12, [GB] * 12, racks)
    proposal = drain(found.situation(), [5], Scope(keep_racks=False))
    racked = [note for note in proposal.notes if "racks" in note.why]
    assert len(racked) == 12
    sentence = (
        f"Each of 12 partitions ({tp(0)}, {tp(1)}, {tp(2)} and 9 more): It will span 2 instead of "
        "3 racks. Repair its racks when there is a broker for it."
    )
    assert note_sentences(racked) == (sentence,)
    assert note_sentences(racked[:1]) == (str(racked[0]),)
    effect = impact(found.situation(), proposal.targets)
    answer = PlanAnswer(proposal, effect, "a-cluster", 0)
    assert [line.strip() for line in plan_lines(answer) if "racks" in line] == [sentence]
    assert "2 notes." in proposal.sentence

    kept = drain(found.situation(), [5])
    assert note_sentences(kept.notes) == (
        f"Each of 12 partitions on broker 5 ({tp(0)}, {tp(1)}, {tp(2)} and 9 more): On every "
        "possible broker, the partition would span fewer racks. Add a broker in another rack, or "
        "allow fewer racks.",
    )


def test_what_was_sent_to_the_only_large_disk_makes_room_for_what_fits_nowhere_else() -> None:
    # The larger replica of broker 1 fits on 2 and 3. It is sent to the emptier 2, which is the only
    # one where the other partition may go: 3 has that one already.
    found = world([[1], [1, 3]], [60, 50], {1: None, 2: None, 3: None}, rooms={2: 60, 3: 60})
    proposal = drain(found.situation(), [1])
    assert outcome(found, proposal) == {tp(0): (3,), tp(1): (2, 3)}
    assert proposal.measure.after == 0


def test_replacing_seven_by_nine_keeps_every_place() -> None:
    racks = {7: "a", 8: "b", 9: "a", 10: "c"}
    found = world([[7, 8], [8, 7], [8, 10], [9, 7, 8]], [GB, 2 * GB, 3 * GB, 4 * GB], racks)
    proposal = replace(found.situation(), 7, 9)
    assert proposal.targets == {tp(0): (9, 8), tp(1): (8, 9)}
    assert proposal.cost.moved_bytes == 3 * GB
    assert proposal.measure.after == 4 * GB
    assert "keeps its replica" in next(n for n in proposal.notes if n.partition == tp(3)).why
    assert proposal.plan_json == (
        '{"version":1,"partitions":['
        '{"topic":"t","partition":0,"replicas":[9,8],"log_dirs":["any","any"]},'
        '{"topic":"t","partition":1,"replicas":[8,9],"log_dirs":["any","any"]}]}'
    )


def test_a_partition_that_is_being_reassigned_is_planned_around() -> None:
    move = OngoingReassignment(tp(0), (1, 2), (2,), (1,))
    situation = Situation.of(
        [
            PartitionSituation(tp(0), (1, 2), 1, (1,), 10),
            PartitionSituation(tp(1), (1,), 1, (1,), 10),
        ],
        [BrokerFacts(1), BrokerFacts(2), BrokerFacts(3)],
        [move],
    )
    proposal = drain(situation, [1])
    # Broker 2 holds 10 bytes of the running move already, so the other goes to 3.
    assert proposal.targets == {tp(1): (3,)}
    assert any("being reassigned" in n.why and n.partition == tp(0) for n in proposal.notes)


def test_topics_outside_the_scope_stay_with_a_note() -> None:
    situation = Situation.of(
        [
            PartitionSituation(tp(0, "orders"), (1,), 1, (1,), 10),
            PartitionSituation(tp(0, "audit"), (1,), 1, (1,), 10),
        ],
        [BrokerFacts(1), BrokerFacts(2)],
    )
    proposal = drain(situation, [1], Scope(exclude=("aud*",)))
    assert proposal.targets == {tp(0, "orders"): (2,)}
    assert any(note.partition == tp(0, "audit") for note in proposal.notes)
    with pytest.raises(BadInput, match="No topic matches"):
        drain(situation, [1], Scope(include=("payments",)))
    with pytest.raises(BadInput, match="Unknown broker id 5"):
        drain(situation, [5])


def test_a_size_that_is_not_known_is_not_nothing() -> None:
    found = world([[1], [1]], [50, None], {1: None, 2: None}, rooms={2: 99})
    proposal = drain(found.situation(), [1])
    # The unknown one counts as the largest known, and so both together do not fit.
    assert len(proposal.targets) == 1
    assert any("space" in note.why for note in proposal.notes)
    found.rooms = {2: 100}
    proposal = drain(found.situation(), [1])
    assert (proposal.cost.moved_bytes, proposal.cost.unknown_sizes) == (50, 1)
    assert any("unknown size" in note.why for note in proposal.notes)


def test_the_seed_settles_ties_and_nothing_else() -> None:
    found = world([[1]], [GB], dict.fromkeys(range(1, 9)))
    targets = [drain(found.situation(), [1], Scope(seed=seed)).targets for seed in range(20)]
    again = [drain(found.situation(), [1], Scope(seed=seed)).targets for seed in range(20)]
    assert targets == again
    assert len({str(target) for target in targets}) > 1
