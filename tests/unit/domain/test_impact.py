"""What a plan does to brokers and partitions, worked out by hand and by law."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import NO_BROKER, LogDir, TopicPartition
from kshunt.backend.domain.planning.impact import BrokerImpact
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.impact import impact
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from tests.support.runs.examples import many


def named(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


def cluster() -> Situation:
    """Four brokers in two racks, three partitions of 100, 20 and unknown size."""
    brokers = [
        BrokerFacts(1, "a", log_dirs=(LogDir(1, "/d", 500), LogDir(1, "/e", 500))),
        BrokerFacts(2, "b", log_dirs=(LogDir(2, "/d", 200),)),
        BrokerFacts(3, "a", log_dirs=(LogDir(3, "/d"),)),
        BrokerFacts(4, "b"),
    ]
    partitions = [
        PartitionSituation(named(0), (1, 2), 1, (1, 2), 100, min_isr=2),
        PartitionSituation(named(1), (2, 1), 2, (2, 1), 20, min_isr=1),
        PartitionSituation(named(2), (1, 2), 2, (2,)),
    ]
    return Situation.of(partitions, brokers)


def test_a_move_is_counted_where_it_comes_from_and_where_it_goes() -> None:
    found = impact(cluster(), {named(0): (4, 3), named(1): (2, 1)})
    assert (found.partitions, found.reordered, found.added, found.removed) == (1, 0, 2, 2)
    assert (found.moved_bytes, found.unknown_sizes) == (200, 0)
    assert (found.leaders_moved, found.preferred_moved) == (1, 1)
    assert (found.fewer_racks, found.more_racks) == ((), 0)
    assert found.on_the_edge == (named(0),)
    # The third partition is taken for as large as the largest: 100.
    assert found.brokers == (
        BrokerImpact(1, 3, 2, 1, 0, 220, 220, 120, 0, 200, 1_000),
        BrokerImpact(2, 3, 2, 2, 2, 220, 220, 120, 0, 0, 200),
        BrokerImpact(3, 0, 1, 0, 0, 0, 100, 100, 100, 0, None),
        BrokerImpact(4, 0, 1, 0, 1, 0, 100, 100, 100, 0, None),
    )
    assert [one.peak_share for one in found.brokers] == [0.22, 1.1, None, None]


@pytest.mark.parametrize(
    ("broker", "changes"),
    [
        (BrokerImpact(1, 2, 2, 1, 1, 9, 9, 9, 0, 0, None), False),
        (BrokerImpact(1, 2, 2, 1, 1, 9, 9, 9, 1, 0, None), True),
        (BrokerImpact(1, 2, 2, 1, 1, 9, 9, 9, 0, 1, None), True),
        (BrokerImpact(1, 2, 3, 1, 1, 9, 9, 9, 0, 0, None), True),
        (BrokerImpact(1, 2, 2, 1, 0, 9, 9, 9, 0, 0, None), True),
        (BrokerImpact(1, 2, 2, 1, 1, 9, 10, 9, 0, 0, None), True),
        (BrokerImpact(1, 2, 2, 1, 1, 9, 9, 8, 0, 0, None), True),
    ],
)
def test_a_broker_with_which_a_plan_has_nothing_to_do(broker: BrokerImpact, changes: bool) -> None:
    assert broker.changes is changes


def test_another_order_copies_nothing() -> None:
    found = impact(cluster(), {named(0): (2, 1)})
    assert (found.partitions, found.reordered, found.moved_bytes) == (1, 1, 0)
    assert (found.leaders_moved, found.preferred_moved, found.on_the_edge) == (0, 1, ())


def test_racks_and_replicas_that_are_lost_are_named() -> None:
    found = impact(cluster(), {named(0): (1, 3), named(1): (2,), named(2): (2, 1, 4)})
    assert found.fewer_racks == (named(0), named(1))
    assert found.under_min_isr == ()
    assert found.unknown_sizes == 1
    fewer = impact(cluster(), {named(0): (1,)})
    assert fewer.under_min_isr == (named(0),)
    assert fewer.on_the_edge == ()
    more = impact(cluster(), {named(0): (1, 2), named(1): (2, 1, 3)})
    assert (more.more_racks, more.partitions) == (0, 1)


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(BadInput, match="no partition t-7"):
        impact(cluster(), {named(7): (1,)})
    with pytest.raises(BadInput, match="broker 9, which is unknown"):
        impact(cluster(), {named(0): (1, 9)})
    with pytest.raises(BadInput, match="names no broker"):
        impact(cluster(), {named(0): ()})
    assert impact(cluster(), {}).partitions == 0
    assert impact(Situation.of([], []), {}).brokers == ()


BROKERS = range(1, 6)
LISTS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True)


@settings(max_examples=many(60))
@given(rows=st.lists(st.tuples(LISTS, LISTS, st.integers(0, 10**15)), min_size=1, max_size=12))
def test_nothing_is_lost_between_before_and_after(
    rows: list[tuple[list[int], list[int], int]],
) -> None:
    partitions = [
        PartitionSituation(named(n), tuple(before), before[0], tuple(before), size)
        for n, (before, _, size) in enumerate(rows)
    ]
    targets = {named(n): tuple(after) for n, (_, after, _) in enumerate(rows)}
    found = impact(Situation.of(partitions, map(BrokerFacts, BROKERS)), targets)
    for one in found.brokers:
        there = [size for _, after, size in rows if one.broker in after]
        assert (one.bytes_after, one.replicas_after) == (sum(there), len(there))
        assert one.bytes_peak >= max(one.bytes_before, one.bytes_after)
        assert one.bytes_peak == one.bytes_before + one.received_bytes
    assert sum(one.received_bytes for one in found.brokers) == found.moved_bytes
    assert sum(one.sent_bytes for one in found.brokers) == found.moved_bytes
    assert sum(one.leaders_after for one in found.brokers) == len(rows)
    assert sum(one.leaders_before for one in found.brokers) == len(rows)


def test_a_partition_without_leader_counts_for_nobody() -> None:
    there = Situation.of(
        [PartitionSituation(named(0), (1, 2), NO_BROKER, (), 10)], map(BrokerFacts, (1, 2, 3))
    )
    found = impact(there, {named(0): (1, 3)})
    assert [one.leaders_before for one in found.brokers] == [0, 0, 0]
    assert [one.leaders_after for one in found.brokers] == [1, 0, 0]
    assert [one.sent_bytes for one in found.brokers] == [0, 0, 0]
