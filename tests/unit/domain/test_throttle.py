"""Rates and throttled replica lists, and what is cleared of them when a plan is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.text.formatting import exact_rate_text
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    LEADER_RATE,
    NO_REPLICAS,
    RATE_MAX_BYTES_PER_S,
    RATE_MIN_BYTES_PER_S,
    BrokerThrottle,
    Move,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
    brokers_of,
    parse_rate,
    throttled_replicas_of,
)
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.ownership.ownership import Ownership, Shares, found_settings
from kshunt.backend.operations.throttles.cleanup import cleared_by

pairs = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)
replica_sets = st.builds(ReplicaSet, pairs)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MB/s", 50_000_000),
        ("10485760", 10_485_760),
        ("4 MiB/s", 4 * 2**20),
        ("1.5m", 1_500_000),
        ("1kb", 1_000),
        ("1GiB", 2**30),
        ("1.00 PB/s", 10**15),
        ("0.5 PiB", 2**49),
        ("none", None),
        (" None ", None),
    ],
)
def test_a_rate_is_what_an_operator_types(text: str, rate: int | None) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (None, "none"),
        (0, "0 B/s"),
        (999, "999 B/s"),
        (1_000, "1 kB/s"),
        (25_000_000, "25 MB/s"),
        (26_214_400, "26.2144 MB/s"),
        (10**15, "1000000 GB/s"),
    ],
)
def test_a_rate_is_written_with_all_its_figures(rate: int | None, words: str) -> None:
    assert exact_rate_text(rate) == words


@given(st.integers(RATE_MIN_BYTES_PER_S, RATE_MAX_BYTES_PER_S))
def test_a_rate_in_full_is_read_as_it_was(rate: int) -> None:
    assert parse_rate(exact_rate_text(rate)) == rate


@pytest.mark.conforms("kip-179:throttle-minimum")
@pytest.mark.parametrize(
    "text", ["", "fast", "-5MB", "999", "0", "5 apples", "1e9", "9" * 30, "MB"]
)
def test_a_rate_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_rate(text)


@given(replica_sets)
def test_a_replica_list_survives_its_config_value(replicas: ReplicaSet) -> None:
    assert ReplicaSet.parse(str(replicas)) == replicas


@pytest.mark.parametrize(
    "text", ["1", "1:", ":1", "1:2:3", "a:b", "1:2,,3:4", "-1:2", "\u0661:\u0662"]
)
def test_a_malformed_replica_list_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        ReplicaSet.parse(text)


@given(replica_sets, replica_sets)
def test_lists_add_and_subtract_as_sets_do(one: ReplicaSet, other: ReplicaSet) -> None:
    assert (one | other) - other == one - other
    everything = ReplicaSet(everything=True)
    assert everything | one == everything
    assert not one - everything
    assert everything - one == everything


@pytest.mark.conforms("kip-179:throttle-leaders", "kip-179:throttle-followers")
def test_leaders_are_the_existing_brokers_and_followers_the_new_ones() -> None:
    moves = [
        Move(TopicPartition("a", 0), (1, 2), (2, 3)),
        Move(TopicPartition("a", 1), (1, 2), (2, 1)),
        Move(TopicPartition("b", 0), (1, 2, 3), (1, 2)),
    ]
    assert throttled_replicas_of(moves) == {
        "a": ThrottledReplicas(ReplicaSet.parse("0:1,0:2"), ReplicaSet.parse("0:3"))
    }
    assert brokers_of(moves) == (1, 2, 3)


def rated(**rates: int) -> dict[int, BrokerThrottle]:
    return {
        int(name.removeprefix("b")): BrokerThrottle(
            int(name.removeprefix("b")), ThrottledRate(rate, rate)
        )
        for name, rate in rates.items()
    }


@pytest.mark.conforms("kip-179:check-and-clear")
def test_clearing_a_plan_leaves_a_broker_that_it_never_touched() -> None:
    present = Throttles(
        rated(b1=1_000, b2=1_000, b9=5_000),
        {"a": ThrottledReplicas(ReplicaSet.parse("0:1"), ReplicaSet.parse("0:2"))},
    )
    clearing = cleared_by([TopicPartition("a", 0)], present, Ownership())
    assert clearing.brokers == (1, 2)
    assert clearing.topics == {"a": NO_REPLICAS}


@pytest.mark.conforms("kip-179:verify-owned")
def test_clearing_a_plan_leaves_what_another_move_lists() -> None:
    present = Throttles(
        rated(b1=1_000, b2=1_000),
        {
            "a": ThrottledReplicas(ReplicaSet.parse("0:1,1:1"), ReplicaSet.parse("0:2")),
            "b": ThrottledReplicas(ReplicaSet(), ReplicaSet.parse("4:2")),
        },
    )
    clearing = cleared_by([TopicPartition("a", 0)], present, Ownership())
    assert clearing.brokers == ()
    assert clearing.left_alone == {2: "throttled replicas of b include it"}
    assert clearing.topics == {"a": ThrottledReplicas(ReplicaSet.parse("1:1"), ReplicaSet())}


@pytest.mark.conforms("kip-179:verify-owned")
def test_clearing_leaves_what_a_running_operation_owns() -> None:
    share = {"a": ThrottledReplicas(ReplicaSet.parse("0:1"), ReplicaSet.parse("0:2"))}
    prior = found_settings(Throttles(rated(), {}), ["a"])
    owned = Ownership().record("running", Shares.of(share, [1, 2], 1_000), prior).after
    present = Throttles(rated(b1=1_000, b2=1_000), share)
    assert not cleared_by([TopicPartition("a", 0)], present, owned)


def test_one_side_of_a_rate_is_raised_and_never_lowered() -> None:
    rate = ThrottledRate(10, None)
    assert rate.raised(LEADER_RATE, 20) == ThrottledRate(20, None)
    assert rate.raised(LEADER_RATE, 5) is rate
    assert rate.raised(FOLLOWER_RATE, 20) is rate, "a side without a throttle needs none"
    assert ThrottledRate(0, 0).raised(FOLLOWER_RATE, 20) == ThrottledRate(0, 20)
