"""Orphan throttles: which are listed, where they are from, and what removing them writes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.domain.throttles.owners import OrphanOrigin
from kshunt.backend.operations.ownership.cells import FoundRate, ListKey, RateKey
from kshunt.backend.operations.ownership.ownership import (
    FoundSettings,
    ListCellId,
    Ownership,
    RateCellId,
    Shares,
)
from kshunt.backend.operations.throttles.orphans import (
    OrphanFacts,
    OrphanRate,
    OrphanReplicas,
    orphans,
    removal,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEADERS: ListCellId = ("t", ListKey.LEADERS)
FOLLOWERS: ListCellId = ("t", ListKey.FOLLOWERS)


def own(rate: int) -> FoundRate:
    return FoundRate(rate, ConfigSource.DYNAMIC_BROKER)


def situation(
    rates: dict[RateCellId, FoundRate], leaders: str, followers: str, *moves: OngoingReassignment
) -> OrphanFacts:
    lists = {LEADERS: ReplicaSet.parse(leaders), FOLLOWERS: ReplicaSet.parse(followers)}
    return OrphanFacts(
        FoundSettings(rates, lists),
        Ownership(),
        {move.partition: move for move in moves},
        {T0: (2, 3), T1: (1, 2)},
    )


def both(broker: int, rate: int) -> dict[RateCellId, FoundRate]:
    return {(broker, RateKey.LEADER): own(rate), (broker, RateKey.FOLLOWER): own(rate)}


ENDED = situation(both(1, 9) | both(3, 9), "0:1,0:2", "0:3")
"""Partition 0 has come from brokers 1 and 2 to brokers 2 and 3."""
MOVE_T0 = OngoingReassignment(T0, (2, 3, 1), adding=(3,), removing=(1,))


def test_what_kafkas_own_tool_leaves_behind_is_told_and_removed() -> None:
    found = orphans(ENDED)
    assert {orphan.origin for orphan in found} == {OrphanOrigin.ENDED_MOVE}
    assert [str(o.replicas) for o in found if isinstance(o, OrphanReplicas)] == ["0:1,0:2", "0:3"]
    writes = removal(found, ENDED).writes
    assert writes.lists == {LEADERS: ReplicaSet(), FOLLOWERS: ReplicaSet()}
    assert writes.rates == dict.fromkeys(ENDED.present.rates)


def test_a_broker_on_both_sides_of_a_partition_tells_no_move() -> None:
    found = orphans(situation({}, "0:1,0:3", "0:3"))
    assert {orphan.origin for orphan in found} == {OrphanOrigin.UNKNOWN}


def test_replicas_that_never_came_tell_a_move_that_was_cancelled() -> None:
    found = orphans(situation(both(9, 7), "0:2,0:3", "0:9"))
    assert {orphan.origin for orphan in found} == {OrphanOrigin.CANCELLED_MOVE}
    strange = orphans(situation({}, "0:2,0:8", "0:9"))
    assert {orphan.origin for orphan in strange} == {OrphanOrigin.UNKNOWN}


def test_nothing_that_a_running_move_needs_is_an_orphan() -> None:
    moving = replace(ENDED, ongoing={T0: MOVE_T0})
    assert orphans(moving) == ()


def test_what_a_move_needs_by_the_time_of_removal_is_kept_and_said() -> None:
    found = orphans(ENDED)
    answer = removal(found, replace(ENDED, ongoing={T0: MOVE_T0}))
    assert not answer.writes
    assert set(answer.left_alone) == set(found)
    assert "a move needs it now" in answer.left_alone.values()


def test_a_cancelled_move_is_told_from_one_that_has_arrived() -> None:
    found = orphans(situation({}, "1:1,1:2", "1:3"))
    assert {orphan.origin for orphan in found} == {OrphanOrigin.CANCELLED_MOVE}


def test_a_rate_on_a_broker_that_no_list_names() -> None:
    (found,) = orphans(situation({(7, RateKey.LEADER): own(9)}, "", ""))
    assert found == OrphanRate(7, RateKey.LEADER, 9, OrphanOrigin.UNLISTED_RATE)


def test_an_inherited_rate_is_not_ours_to_remove() -> None:
    static = FoundRate(9, ConfigSource.STATIC)
    assert orphans(situation({(7, RateKey.LEADER): static}, "", "")) == ()


def test_all_and_what_fits_no_pattern_is_of_unknown_origin() -> None:
    found = orphans(situation(both(1, 9), "*", ""))
    assert {orphan.origin for orphan in found} == {OrphanOrigin.UNKNOWN}
    (found_pair,) = orphans(situation({}, "0:1", ""))
    assert found_pair.origin is OrphanOrigin.UNKNOWN
    (gone,) = orphans(situation({}, "9:1", ""))
    assert gone.origin is OrphanOrigin.NO_SUCH_PARTITION


def test_all_is_kept_while_a_partition_of_the_topic_moves() -> None:
    assert orphans(situation({}, "*", "", MOVE_T0)) == ()


def test_a_log_directory_rate_is_justified_by_a_move_between_directories_only() -> None:
    there = situation({(3, RateKey.LOG_DIRS): own(9)}, "", "", MOVE_T0)
    assert len(orphans(there)) == 1
    assert orphans(replace(there, log_dir_moves=frozenset({3}))) == ()


def test_what_a_running_operation_of_ours_holds_is_no_orphan_and_what_it_left_is_its() -> None:
    shares = Shares(dict.fromkeys(ENDED.present.rates, 9), {LEADERS: frozenset({(0, 1), (0, 2)})})
    free = FoundSettings(
        dict.fromkeys(ENDED.present.rates, FoundRate(None, ConfigSource.DEFAULT)),
        {LEADERS: ReplicaSet()},
    )
    held = Ownership().record("kept", shares, free, auto_remove=False).after
    held = held.confirm(ENDED.present)
    (followers,) = orphans(replace(ENDED, ownership=held))
    assert isinstance(followers, OrphanReplicas)
    assert followers.key is ListKey.FOLLOWERS

    step = held.lift("kept", ENDED.present)
    assert not step.writes
    left = replace(ENDED, ownership=step.after.confirm(ENDED.present))
    ours = [orphan for orphan in orphans(left) if orphan.operations == ("kept",)]
    assert {orphan.origin for orphan in ours} == {OrphanOrigin.LEFT_BY_US}
    assert len(ours) == 5
    removed = removal(ours, left).writes
    assert removed.lists == {LEADERS: ReplicaSet()}
    gone = FoundSettings(free.rates, {LEADERS: ReplicaSet(), FOLLOWERS: ReplicaSet.parse("0:3")})
    assert left.ownership.confirm(gone) == Ownership()


def test_a_rate_that_was_changed_or_removed_since_is_kept_and_said() -> None:
    found = orphans(situation({(7, RateKey.LEADER): own(9)}, "", ""))
    for now, why in (
        ({(7, RateKey.LEADER): own(8)}, "it was changed to 8 B/s since then"),
        ({(7, RateKey.LEADER): FoundRate(None, ConfigSource.DEFAULT)}, "it was already removed"),
        ({}, "the broker's configuration could not be read"),
    ):
        answer = removal(found, situation(now, "", ""))
        assert not answer.writes
        assert list(answer.left_alone.values()) == [why]


pair_sets = st.frozensets(st.tuples(st.integers(0, 2), st.integers(1, 4)))
brokers = st.lists(st.integers(1, 4), unique=True, min_size=2, max_size=3).map(tuple)


@given(pair_sets, pair_sets, st.sets(st.integers(1, 4)), brokers, pair_sets, st.booleans())
def test_removing_every_orphan_touches_nothing_that_a_move_needs(
    leaders: frozenset[tuple[int, int]],
    followers: frozenset[tuple[int, int]],
    rated: set[int],
    moving: tuple[int, ...],
    held: frozenset[tuple[int, int]],
    everything: bool,
) -> None:
    rates = {(broker, key): own(9) for broker in rated for key in RateKey}
    lists = {LEADERS: ReplicaSet(leaders, everything), FOLLOWERS: ReplicaSet(followers)}
    present = FoundSettings(rates, lists)
    ours = Ownership().record("ours", Shares({}, {LEADERS: held} if held else {}), present).after
    move = OngoingReassignment(T0, moving, adding=moving[:1], removing=())
    now = OrphanFacts(present, ours, {T0: move}, {T0: moving, T1: (1, 2)})
    answer = removal(orphans(now), now)
    assert not answer.left_alone
    for cell, left in answer.writes.lists.items():
        gone = lists[cell].pairs - left.pairs
        assert not {pair for pair in gone if pair[0] == 0}
        assert cell != LEADERS or not gone & held
    needed = {*moving, *(broker for _, broker in held)}
    for broker, key in answer.writes.rates:
        assert key is RateKey.LOG_DIRS or broker not in needed
    after = replace(now, present=FoundSettings({}, lists | dict(answer.writes.lists)))
    assert orphans(after) == ()
