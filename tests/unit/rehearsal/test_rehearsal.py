"""A plan that is rehearsed in a twin: when it would end, what it would cost, and what if not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import LogDir, OngoingReassignment
from kshunt.backend.domain.planning.rehearsal import REHEARSED_S_MAX, Rehearsal
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.rehearsal.picture import Capacity, Picture
from kshunt.backend.rehearsal.run import rehearse
from kshunt.backend.rehearsal.twin import unknowns
from tests.support.rehearsals import FAST, named, situation, to_the_third
from tests.support.runs.examples import many

MB = 1_000_000


@pytest.mark.parametrize(("rate", "seconds"), [(None, 3), (10 * MB, 30), (20 * MB, 15)])
def test_it_takes_what_its_narrowest_limit_takes(rate: int | None, seconds: int) -> None:
    found = rehearse(Picture(situation(), capacities=FAST), to_the_third(), rate)
    assert found.finish_s == seconds
    assert found.moved_bytes == 300 * MB
    assert found.peak_received_bytes_per_s()[3] == pytest.approx(rate or 100 * MB)
    assert found.done_s.keys() == to_the_third().keys()
    assert max(found.done_s.values()) == seconds


def test_disks_hold_the_old_replicas_until_the_end() -> None:
    found = rehearse(Picture(situation(), capacities=FAST), to_the_third(), 10 * MB)
    assert found.peak_disk_bytes() == {1: 300 * MB, 2: 300 * MB, 3: 300 * MB}
    assert found.timeline.disk_bytes[0].tolist() == [300 * MB, 300 * MB, 0]
    assert found.timeline.disk_bytes[-1].tolist() == [300 * MB, 0, 300 * MB]
    assert found.timeline.remaining_bytes[0] == 300 * MB
    assert found.timeline.remaining_bytes[-1] == 0
    assert found.timeline.out_of_sync[0] == 3


def test_what_producers_write_is_copied_too() -> None:
    busy = Picture(situation(rate=2.0 * MB), capacities=FAST)
    still = rehearse(Picture(situation(), capacities=FAST), to_the_third(), 30 * MB)
    found = rehearse(busy, to_the_third(), 30 * MB)
    assert still.finish_s is not None
    assert found.finish_s is not None
    # Of 30 MB/s, what the follower in the ISR fetches counts too: 6, and 6 are written meanwhile.
    assert found.finish_s == pytest.approx(300 / 18, abs=1)
    assert found.finish_s > still.finish_s


def test_a_throttle_that_producers_use_up_never_ends_and_says_why() -> None:
    busy = Picture(situation(rate=6.0 * MB), capacities=FAST)
    found = rehearse(busy, to_the_third(), 30 * MB)
    assert found.finish_s is None
    assert found.done_s == {}
    assert "3 partitions had not moved" in found.why
    assert "bytes are missing on broker 3" in found.why
    assert "also count against the throttle" in found.why
    assert "no fewer bytes were missing than after 1h00m" in found.why
    assert found.why.endswith("Use a higher throttle.")
    assert found.timeline.at_s[-1] < REHEARSED_S_MAX
    assert found.never
    assert not found.stopped


@pytest.mark.slow
def test_one_that_takes_too_long_is_stopped_and_does_not_say_that_it_never_ends() -> None:
    """A slow throttle on much data: 100 GB at 10 kB/s take 116 days."""
    much = Picture(situation(1, size_bytes=100_000 * MB), capacities=FAST)
    found = rehearse(much, to_the_third(1), 10_000)
    assert found.stopped
    assert not found.never
    assert found.why.startswith("The rehearsal was stopped after 30d")
    assert "1 partition had not moved; bytes are missing on broker 3 (7" in found.why
    assert "Producers" not in found.why
    assert found.why.endswith("The plan takes longer than that. Use a higher throttle.")


def test_a_broker_that_is_down_is_named() -> None:
    there = situation()
    down = replace(there, brokers={**there.brokers, 3: BrokerFacts(3, "c", up=False)})
    found = rehearse(Picture(down, capacities=FAST), to_the_third())
    assert found.finish_s is None
    assert "Down: broker 3." in found.why


def test_a_throttle_that_is_set_already_holds_for_what_it_lists() -> None:
    throttles = Throttles(
        {3: BrokerThrottle(3, ThrottledRate(None, 5 * MB))},
        {"t": ThrottledReplicas(followers=ReplicaSet.parse("0:3,1:3,2:3"))},
    )
    found = rehearse(Picture(situation(), throttles, FAST), to_the_third())
    assert found.finish_s == 60


def test_moves_that_run_already_go_on_beside_it() -> None:
    there = situation()
    moving = {named(0): OngoingReassignment(named(0), (1, 2, 3), (3,), (2,))}
    replicas = there.replicas.tolist()
    rows = [
        PartitionSituation(named(0), (1, 2, 3), 1, (1, 2), 100 * MB, 0.0),
        *(
            PartitionSituation(named(n), tuple(replicas[n]), 1, (1, 2), 100 * MB, 0.0)
            for n in (1, 2)
        ),
    ]
    moved = Situation.of(rows, there.brokers.values(), moving.values())
    lacks = {(named(0), 3): 40 * MB}
    found = rehearse(Picture(moved, capacities=FAST, lag_bytes=lacks), {named(1): (1, 3)})
    # 140 MB go to broker 3 together, which takes 100 a second.
    assert found.finish_s == 2
    with pytest.raises(BadInput, match="being reassigned already"):
        rehearse(Picture(moved, capacities=FAST), {named(0): (1, 3)})


def test_replicas_that_fall_out_of_the_isr_are_told() -> None:
    """Copies take so much of a broker's network that its followers do not keep up."""
    there = [
        PartitionSituation(named(n), (1, 2) if n < 3 else (1, 3), 1, (1, 2, 3), 100 * MB, rate)
        for n, rate in enumerate([2.0 * MB] * 3 + [0.0] * 9)
    ]
    picture = Picture(
        Situation.of(there, map(BrokerFacts, (1, 2, 3))),
        capacities={**FAST, 2: Capacity(14.0 * MB, 100.0 * MB)},
    )
    found = rehearse(picture, {named(n): (1, 2) for n in range(3, 12)})
    assert found.finish_s is not None
    left = [event for event in found.isr_events if event.left]
    assert {(event.name, event.broker) for event in left} == {(named(n), 2) for n in range(3)}
    assert all(30 <= event.at_s <= found.finish_s for event in left)
    gentle = rehearse(picture, {named(n): (1, 2) for n in range(3, 12)}, 5 * MB)
    assert gentle.isr_events == ()


def test_what_is_not_known_is_said() -> None:
    found = rehearse(Picture(situation(size_bytes=None, rate=None)), to_the_third())
    assert found.finish_s is not None
    notes = unknowns(Picture(situation(size_bytes=None, rate=None)))
    assert [note.split(":")[0] for note in notes] == [
        "3 partitions of unknown size",
        "The writes to 3 partitions are unknown",
        "The capacity of networks and disks is unknown",
    ]
    assert list(unknowns(Picture(situation(), capacities={1: FAST[1]}))) == [
        "The capacity of brokers 2, 3 is unknown: the rehearsal assumes no limit.",
    ]
    assert list(unknowns(Picture(situation(), capacities=FAST))) == []


def test_what_cannot_be_meant_is_refused() -> None:
    picture = Picture(situation())
    with pytest.raises(BadInput, match="moves no partition"):
        rehearse(picture, {})
    with pytest.raises(BadInput, match="no such broker is registered"):
        rehearse(picture, {named(0): (1, 9)})
    with pytest.raises(BadInput, match="t-8"):
        rehearse(picture, {named(8): (1, 3)})
    with pytest.raises(BadInput, match="twin rejects"):
        rehearse(picture, to_the_third(), 10)


def test_a_long_one_is_looked_at_more_rarely() -> None:
    found = rehearse(Picture(situation(count=1), capacities=FAST), to_the_third(1), 10_000)
    assert found.finish_s == pytest.approx(10_000, rel=0.01)
    assert 200 <= len(found.timeline) <= 601


def test_directories_are_those_of_the_brokers() -> None:
    there = situation()
    dirs = tuple(LogDir(3, f"/d{n}", 1_000 * MB, 500 * MB) for n in (1, 2))
    brokers = [*(there.brokers[id] for id in (1, 2)), BrokerFacts(3, "c", log_dirs=dirs)]
    rows = [PartitionSituation(named(0), (1, 2), 1, (1, 2), MB, 0.0, log_dirs=("/x", None))]
    found = rehearse(Picture(Situation.of(rows, brokers), capacities=FAST), {named(0): (1, 3)})
    assert found.finish_s == 1


def same(one: Rehearsal, other: Rehearsal) -> bool:
    columns = ("at_s", "remaining_bytes", "received_bytes_per_s", "sent_bytes_per_s", "disk_bytes")
    return one.done_s == other.done_s and all(
        bool((getattr(one.timeline, name) == getattr(other.timeline, name)).all())
        for name in columns
    )


@settings(max_examples=many(25))
@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=5),
    throttle=st.integers(1, 40),
    data=st.data(),
)
def test_it_never_takes_less_than_its_throttle_allows(
    sizes: list[int], throttle: int, data: st.DataObject
) -> None:
    rows = [
        PartitionSituation(named(n), (1, 2), 1, (1, 2), size * MB, 0.0)
        for n, size in enumerate(sizes)
    ]
    picture = Picture(Situation.of(rows, map(BrokerFacts, range(1, 5))), capacities={})
    choices = st.sampled_from([(1, 3), (1, 4), (3, 4), (2, 1), (1, 2, 3)])
    targets = {named(n): data.draw(choices) for n in range(len(sizes))}
    found = rehearse(picture, targets, throttle * MB)
    into = dict.fromkeys((3, 4), 0)
    for name, target in targets.items():
        for broker in set(target) & {3, 4}:
            into[broker] += sizes[name.partition]
    sent = sum(into.values())
    least_s = max(max(into.values()), sent) / throttle
    assert found.finish_s is not None
    assert least_s - 1 <= found.finish_s <= least_s + 2
    assert found.moved_bytes == sent * MB
    assert same(found, rehearse(picture, targets, throttle * MB))
