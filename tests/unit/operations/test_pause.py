"""Pausing holds our copies and nobody else's, and resuming puts back what was there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, Throttles
from kshunt.backend.operations.moves.cluster_view import ClusterView
from kshunt.backend.operations.moves.pause_throttles import (
    FLOOR_BYTES_PER_S,
    Pause,
    PauseRecord,
    Resume,
    pause_writes,
    resume_writes,
)
from tests.support.operations.engine import at, followers, moving, rated, tp, view_with

FLOOR = FLOOR_BYTES_PER_S
FAST = 50_000_000


def written(view: ClusterView, writes: Pause | Resume) -> ClusterView:
    """The cluster after the writes."""
    rates = dict(view.throttles.rates)
    for broker, rate in writes.rates.items():
        rates[broker] = replace(rates[broker], rate=rate)
    lists = {t: r for t, r in {**view.throttles.replicas, **writes.topics}.items() if r}
    return replace(view, throttles=Throttles(rates, lists))


def one_move(**more: Any) -> ClusterView:
    """a-0 is copied to broker 3, throttled; b-0 is copied to broker 4 by somebody else."""
    values: dict[str, Any] = {
        "ongoing": [moving("a-0", [1, 2], [1, 3]), moving("b-0", [1, 2], [1, 4])],
        "throttles": Throttles(
            rated(dict.fromkeys(range(1, 8), (FAST, FAST))), followers(a="0:3", b="0:4")
        ),
    }
    states = [at("a-0", [1, 3, 2], [1, 2]), at("b-0", [1, 4, 2], [1, 2])]
    return view_with(*states, *more.pop("states", ()), **(values | more))


OURS = [tp("a-0")]


def test_only_the_broker_that_receives_our_copy_is_slowed_and_only_as_a_follower() -> None:
    pause = pause_writes(OURS, one_move())
    assert pause.rates == {3: ThrottledRate(FAST, FLOOR)}
    assert pause.topics == {}
    assert pause.held == {(tp("a-0"), 3)}
    assert not pause.not_held
    assert pause.record.rates == {3: FAST}


def test_a_broker_that_a_foreign_move_shares_keeps_its_rate_and_says_so() -> None:
    view = one_move(
        states=[at("c-0", [1, 3], [1])],
        ongoing=[moving("a-0", [1, 2], [1, 3]), moving("c-0", [1], [1, 3])],
        throttles=Throttles(rated({3: (FAST, FAST)}), followers(a="0:3", c="0:3")),
    )
    pause = pause_writes(OURS, view)
    assert (pause.rates, pause.topics, pause.held) == ({}, {}, frozenset())
    assert pause.notes == (
        "Broker 3 also receives c-0, which this operation does not move; a-0 continues at the "
        "present rate.",
    )


def test_a_foreign_move_without_throttle_does_not_mind_ours() -> None:
    view = one_move(
        states=[at("c-0", [1, 3], [1])],
        ongoing=[moving("a-0", [1, 2], [1, 3]), moving("c-0", [1], [1, 3])],
    )
    assert pause_writes(OURS, view).rates == {3: ThrottledRate(FAST, FLOOR)}


def test_a_listed_replica_in_sync_must_be_able_to_recover() -> None:
    view = one_move(
        states=[at("c-0", [3, 1])],
        throttles=Throttles(rated({3: (None, None)}), followers(a="0:3", c="*")),
    )
    pause = pause_writes(OURS, view)
    assert pause.rates == {}
    assert "could not recover at the floor" in pause.notes[0]


def test_a_relic_in_a_list_shares_nothing() -> None:
    view = one_move(
        states=[at("c-0", [1, 2])],
        throttles=Throttles(rated({3: (None, None)}), followers(a="0:3", c="0:3")),
    )
    assert pause_writes(OURS, view).rates == {3: ThrottledRate(None, FLOOR)}


def test_an_operation_without_throttle_is_listed_first_and_unlisted_afterwards() -> None:
    view = one_move(throttles=Throttles(rated({3: (None, None)}), followers(a="7:9")))
    pause = pause_writes(OURS, view)
    assert pause.topics == followers(a="0:3,7:9")
    held = written(view, pause)
    resume = resume_writes(pause.record, held.throttles)
    assert resume.rates == {3: ThrottledRate(None, None)}
    assert written(held, resume).throttles == view.throttles


def test_our_own_replicas_that_have_arrived_leave_the_lists_before_the_floor_is_set() -> None:
    share = {"a": ReplicaSet.parse("0:3,1:3,2:3")}
    states = [at("a-1", [1, 3]), at("a-2", [1, 2])]
    throttles = Throttles(rated({3: (FAST, FAST)}), followers(a="0:3,1:3,2:3"))
    view = one_move(states=states, throttles=throttles)
    assert pause_writes(OURS, view).not_held, "without knowing whose a-1 is, it is left alone"
    pause = pause_writes(OURS, view, share)
    assert pause.topics == followers(a="0:3,2:3"), "a-2 waits for its turn and stays listed"
    assert pause.rates == {3: ThrottledRate(FAST, FLOOR)}


def test_an_arrived_replica_stays_listed_on_a_broker_that_is_not_slowed() -> None:
    share = {"a": ReplicaSet.parse("0:3,1:5")}
    throttles = Throttles(rated({3: (FAST, FAST), 5: (FAST, FAST)}), followers(a="0:3,1:5"))
    pause = pause_writes(OURS, one_move(states=[at("a-1", [1, 5])], throttles=throttles), share)
    assert pause.held == {(tp("a-0"), 3)}
    assert pause.topics == {}


def test_an_own_replica_under_a_star_cannot_be_unlisted() -> None:
    view = one_move(
        states=[at("a-1", [1, 3])],
        throttles=Throttles(rated({3: (FAST, FAST)}), followers(a="*")),
    )
    pause = pause_writes(OURS, view, {"a": ReplicaSet.parse("0:3,1:3")})
    assert pause.rates == {}
    assert pause.topics == {}


def test_a_broker_that_is_down_or_silent_is_told_apart() -> None:
    down = pause_writes(OURS, one_move(live=(1, 2, 4)))
    assert down.rates == {}
    assert down.held == {(tp("a-0"), 3)}
    silent = pause_writes(OURS, one_move(throttles=Throttles({}, followers(a="0:3"), (3,))))
    assert silent.notes[0].startswith("The rates of broker 3 could not be read")


def test_a_leaders_rate_that_is_inherited_is_not_pinned() -> None:
    inherited = rated({3: (FAST, None)})
    inherited[3] = replace(inherited[3], leader_source="DYNAMIC_DEFAULT_BROKER_CONFIG")
    pause = pause_writes(OURS, one_move(throttles=Throttles(inherited, followers(a="0:3"))))
    assert pause.rates == {3: ThrottledRate(None, FLOOR)}


def test_a_pause_is_repeated_without_losing_the_rate_from_before() -> None:
    view = one_move()
    first = pause_writes(OURS, view)
    held = written(view, first)
    again = pause_writes(OURS, held, record=first.record)
    assert (again.rates, again.topics) == ({}, {})
    assert again.record == first.record


def test_a_floor_that_somebody_removed_is_written_again() -> None:
    view = one_move()
    first = pause_writes(OURS, view)
    assert pause_writes(OURS, view, record=first.record).rates == first.rates


def test_a_broker_that_comes_to_be_shared_gets_its_rate_back() -> None:
    view = one_move()
    first = pause_writes(OURS, view)
    held = written(view, first)
    joined = replace(
        held,
        partitions={**held.partitions, tp("c-0"): at("c-0", [1, 3], [1])},
        ongoing={**held.ongoing, tp("c-0"): moving("c-0", [1], [1, 3])},
        throttles=Throttles(
            held.throttles.rates, {**held.throttles.replicas, **followers(c="0:3")}
        ),
    )
    again = pause_writes(OURS, joined, record=first.record)
    assert again.rates == {3: ThrottledRate(FAST, FAST)}
    assert again.record.rates == {3: FAST}, "in the record until it was read back"
    settled = pause_writes(OURS, written(joined, again), record=again.record)
    assert (settled.rates, settled.record.rates) == ({}, {})


def test_resuming_leaves_what_somebody_set_meanwhile_and_waits_for_the_silent() -> None:
    record = PauseRecord({3: FAST, 4: FAST, 5: FAST, 6: None})
    present = Throttles(rated({3: (1, FLOOR), 4: (1, 7_000), 6: (1, None)}), {}, (5,))
    resume = resume_writes(record, present)
    assert resume.rates == {3: ThrottledRate(1, FAST)}
    assert resume.changed == {4: 7_000}
    assert resume.unread == (5,)
    assert not resume.done


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Any], ClusterView]:
    """Moves of ours and of others, listed or not, on four brokers."""
    states, ongoing, ours = [], [], []
    for number in range(draw(st.integers(1, 6))):
        topic = draw(st.sampled_from("ab"))
        target = draw(st.integers(2, 5))
        name = f"{topic}-{number}"
        if draw(st.booleans()):
            ongoing.append(moving(name, [1], [1, target]))
            states.append(at(name, [1, target], [1]))
            if draw(st.booleans()):
                ours.append(tp(name))
        else:
            states.append(at(name, [1, target]))
    rate = st.sampled_from([None, 5_000, FAST])
    rates = {b: (draw(rate), draw(rate)) for b in range(1, 6)}
    pairs = st.frozensets(st.tuples(st.integers(0, 5), st.integers(2, 5)), max_size=5)
    lists = {t: str(ReplicaSet(draw(pairs), draw(st.integers(0, 9)) == 0)) for t in "ab"}
    throttles = Throttles(rated(rates), {t: r for t, r in followers(**lists).items() if r})
    return ours, view_with(*states, ongoing=ongoing, throttles=throttles)


@given(clusters())
def test_no_replica_but_our_copies_is_held(case: Any) -> None:
    ours, view = case
    pause = pause_writes(ours, view)
    after = written(view, pause)
    for partition, state in after.partitions.items():
        for broker in state.replicas:
            throttle = after.throttles.rates[broker].rate.follower_bytes_per_s
            lists = after.throttles.replicas.get(partition.topic)
            listed = lists is not None and (partition.partition, broker) in lists.followers
            is_held = throttle == FLOOR and listed
            assert is_held == ((partition, broker) in pause.held)
    copies = {(p, b) for p in ours for b in view.ongoing[p].adding}
    assert pause.held | pause.not_held.keys() == copies
    assert not pause.held & pause.not_held.keys()


@given(clusters())
def test_pause_and_resume_leave_the_cluster_as_it_was(case: Any) -> None:
    ours, view = case
    pause = pause_writes(ours, view)
    held = written(view, pause)
    resume = resume_writes(pause.record, held.throttles)
    back = written(held, resume)
    assert back.throttles == view.throttles
    assert resume_writes(pause.record, back.throttles).done
    assert pause_writes(ours, held, record=pause.record).rates == {}
