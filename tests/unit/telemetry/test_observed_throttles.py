"""What the sampler keeps of throttles that it reads again and again."""

from __future__ import annotations

import numpy as np

from kshunt.backend.domain.cluster.assignment import Assignment, ClusterState
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.telemetry.sampling.observed_state import Answer, ObservedState
from tests.support.frames.stream_states import lists

LONG = ",".join(f"{number}:{number % 3}" for number in range(30))


def described(*topics: str) -> Answer:
    """The whole cluster: these topics, of one partition each."""
    count = len(topics)
    ids = np.arange(count, dtype=np.int32)
    zeros = np.zeros(count, np.int32)
    assignment = Assignment(
        *(topics, ids, zeros, zeros, zeros.astype(np.int16), zeros),
        in_isr=np.ones(count, np.bool_),
        offline=np.zeros(count, np.bool_),
    )
    return Answer(("describe", -1), None, ClusterState("here", 0, {}, assignment), 1)


def told(replicas: dict[str, ThrottledReplicas], *asked: str) -> Answer:
    """An answer for one broker and some topics, in objects of its own."""
    rates = {0: BrokerThrottle(0, ThrottledRate(1_000, None))}
    return Answer(("throttles", -1), ((0,), asked), Throttles(rates, replicas), 1)


def known_after(*answers: Answer) -> ObservedState:
    state = ObservedState()
    for answer in answers:
        state.merge(answer, 0.0)
    return state


def test_what_is_told_again_is_the_same_object() -> None:
    state = known_after(described("a", "b"), told({"a": lists("0:1", "*")}, "a", "b"))
    before = state.throttles
    state.merge(told({"a": lists("0:1", "*")}, "a", "b"), 0.0)
    assert state.throttles.rates is before.rates
    assert state.throttles.replicas is before.replicas


def test_one_topic_that_changes_leaves_the_others_as_they_are() -> None:
    both = {"a": lists("0:1", ""), "b": lists(LONG, "")}
    state = known_after(described("a", "b"), told(both, "a", "b"))
    before = state.throttles.replicas
    state.merge(told({"a": lists("0:2", "")}, "a"), 0.0)
    assert state.throttles.replicas == {"a": lists("0:2", ""), "b": lists(LONG, "")}
    assert state.throttles.replicas["b"] is before["b"]
    assert before["a"] == lists("0:1", "")


def test_a_topic_whose_lists_were_taken_off_or_that_was_deleted_is_left_out() -> None:
    some = {topic: lists("0:1", "") for topic in ("a", "b", "c")}
    state = known_after(described("a", "b", "c"), told(some, "a", "b", "c"))
    state.merge(told({}, "a"), 0.0)
    assert state.throttles.replicas.keys() == {"b", "c"}
    state.merge(described("a", "b"), 0.0)
    state.merge(told({"b": lists("0:1", "")}, "a", "b"), 0.0)
    assert state.throttles.replicas.keys() == {"b"}


def test_a_list_is_parsed_once_while_it_is_in_use() -> None:
    one = ReplicaSet.parse(LONG)
    assert ReplicaSet.parse(f" {LONG} ") is one
    assert ReplicaSet.parse(LONG, (7,)) == one
    assert ReplicaSet.parse(",".join(reversed(LONG.split(",")))) == one
    assert ReplicaSet.parse("29:*", (7, 8)).pairs == {(29, 7), (29, 8)}
