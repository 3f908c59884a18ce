"""Rates, throttled replica lists, and the ledger that says whose they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.cluster import TopicPartition
from backend.domain.throttle import (
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
from backend.errors import BadInput
from backend.operations.ledger import NO_REPLICAS, Ledger
from backend.operations.throttle import cleared_by

pairs = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)
replica_sets = st.builds(ReplicaSet, pairs)
lists = st.builds(ThrottledReplicas, replica_sets, replica_sets)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MB/s", 50_000_000),
        ("10485760", 10_485_760),
        ("4 MiB/s", 4 * 2**20),
        ("1.5m", 1_500_000),
        ("1kb", 1_000),
        ("1GiB", 2**30),
        ("none", None),
        (" None ", None),
    ],
)
def test_a_rate_is_what_an_operator_types(text: str, rate: int | None) -> None:
    assert parse_rate(text) == rate


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


class Cluster:
    """Configurations as a cluster would hold them, for the ledger's laws."""

    def __init__(self, topics: dict[str, ThrottledReplicas], rates: dict[int, int | None]) -> None:
        self.topics = dict(topics)
        self.rates = dict(rates)

    def present(self) -> Throttles:
        rates = {b: BrokerThrottle(b, ThrottledRate(r, r)) for b, r in self.rates.items()}
        return Throttles(rates, {t: r for t, r in self.topics.items() if r})

    def begin(
        self, ledger: Ledger, name: str, shares: dict[str, ThrottledReplicas], rates: dict[int, int]
    ) -> None:
        ledger.record(name, shares, rates, self.present())
        for topic, share in shares.items():
            now = self.topics.get(topic, NO_REPLICAS)
            self.topics[topic] = ThrottledReplicas(
                now.leaders | share.leaders, now.followers | share.followers
            )
        self.rates |= rates

    def end(self, ledger: Ledger, name: str) -> None:
        lift = ledger.lift(name, self.present())
        self.topics |= lift.topics
        self.rates |= {b: rate.leader_bytes_per_s for b, rate in lift.rates.items()}
        ledger.forget_topics(name, ledger.topics_of(name))
        ledger.forget_brokers(name, ledger.brokers_of(name))


topic_tables = st.dictionaries(st.sampled_from("ab"), lists, max_size=2)
rate_tables = st.dictionaries(st.integers(0, 3), st.integers(1_000, 1_003), max_size=4)


@given(
    topic_tables,
    rate_tables,
    st.lists(st.tuples(topic_tables, rate_tables), min_size=1, max_size=4),
    st.data(),
)
def test_when_all_operations_have_ended_everything_is_as_it_was(
    topics: Any, rates: Any, operations: list[Any], data: st.DataObject
) -> None:
    cluster = Cluster(topics, {broker: rates.get(broker) for broker in range(4)})
    before = cluster.present()
    ledger = Ledger()
    running: list[str] = []
    pending = list(enumerate(operations))
    while pending or running:
        if pending and (not running or data.draw(st.booleans())):
            number, (shares, wanted) = pending.pop()
            cluster.begin(ledger, str(number), shares, wanted)
            running.append(str(number))
        else:
            cluster.end(ledger, running.pop(data.draw(st.integers(0, len(running) - 1))))
    assert cluster.present() == before


@given(topic_tables, st.lists(topic_tables, min_size=2, max_size=3))
def test_ending_one_operation_keeps_what_the_others_need(topics: Any, shares: list[Any]) -> None:
    cluster, ledger = Cluster(topics, {}), Ledger()
    for number, share in enumerate(shares):
        cluster.begin(ledger, str(number), share, {})
    cluster.end(ledger, "0")
    for share in shares[1:]:
        for topic, needed in share.items():
            assert needed.leaders.pairs <= cluster.topics[topic].leaders.pairs
            assert needed.followers.pairs <= cluster.topics[topic].followers.pairs


def test_a_foreign_edit_survives_the_lift() -> None:
    share = {"a": ThrottledReplicas(ReplicaSet.parse("0:1"), ReplicaSet.parse("0:2"))}
    cluster, ledger = Cluster({}, {}), Ledger()
    cluster.begin(ledger, "ours", share, {})
    cluster.topics["a"] = ThrottledReplicas(
        ReplicaSet.parse("0:1,5:5"), ReplicaSet.parse("0:2,6:6")
    )
    cluster.end(ledger, "ours")
    assert cluster.topics["a"] == ThrottledReplicas(
        ReplicaSet.parse("5:5"), ReplicaSet.parse("6:6")
    )


def rated(**rates: int) -> dict[int, BrokerThrottle]:
    return {
        int(name.removeprefix("b")): BrokerThrottle(
            int(name.removeprefix("b")), ThrottledRate(rate, rate)
        )
        for name, rate in rates.items()
    }


def test_clearing_a_plan_leaves_a_broker_that_it_never_touched() -> None:
    present = Throttles(
        rated(b1=1_000, b2=1_000, b9=5_000),
        {"a": ThrottledReplicas(ReplicaSet.parse("0:1"), ReplicaSet.parse("0:2"))},
    )
    clearing = cleared_by([TopicPartition("a", 0)], present, Ledger())
    assert clearing.brokers == (1, 2)
    assert clearing.topics == {"a": NO_REPLICAS}


def test_clearing_a_plan_leaves_what_another_move_lists() -> None:
    present = Throttles(
        rated(b1=1_000, b2=1_000),
        {
            "a": ThrottledReplicas(ReplicaSet.parse("0:1,1:1"), ReplicaSet.parse("0:2")),
            "b": ThrottledReplicas(ReplicaSet(), ReplicaSet.parse("4:2")),
        },
    )
    clearing = cleared_by([TopicPartition("a", 0)], present, Ledger())
    assert clearing.brokers == ()
    assert clearing.kept == {2: "throttled replicas of b name it"}
    assert clearing.topics == {"a": ThrottledReplicas(ReplicaSet.parse("1:1"), ReplicaSet())}


def test_clearing_leaves_what_a_running_operation_owns() -> None:
    share = {"a": ThrottledReplicas(ReplicaSet.parse("0:1"), ReplicaSet.parse("0:2"))}
    ledger = Ledger()
    ledger.record("running", share, [1, 2], Throttles({}, {}))
    present = Throttles(rated(b1=1_000, b2=1_000), share)
    assert not cleared_by([TopicPartition("a", 0)], present, ledger)
