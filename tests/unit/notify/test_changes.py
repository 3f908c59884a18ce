"""What is worth a message: states of operations, drift, orphans, the cluster, who acts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.operation import (
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkProgress
from kshunt.backend.notify.changes import (
    ATTENTION_S,
    FACTS_MAX,
    LOST_S,
    REPORTED_MAX,
    SILENT_S,
    BackendMoment,
    Watch,
    needs,
    operation_facts,
)
from kshunt.backend.notify.deletions import PendingDeletions, pending_deletions
from kshunt.backend.notify.message import News
from tests.support.recording.samples import plain, with_modes

RO, NONE = PartitionMode.READ_ONLY, PartitionMode.NONE

State = OperationState
AT = BackendMoment(0.0, "kshunt-1", "host-1", active=True, writes=True, reachable=True)
IDLE = replace(AT, active=False, writes=False)


SHRINK = ShrinkProgress(
    *("orders", 8, 3, CutOver.SAME_NAME, "orders-copy", ShrinkPhase.CONFIRM, (), False),
    needs="confirm",
    words="type the name orders",
)


def operation(state: OperationState, **more: Any) -> Operation:
    fields: dict[str, Any] = {
        "id": "op1",
        "kind": OperationKind.REASSIGN,
        "started_ms": 5,
        "summary": "move 3 partitions",
        "who": "ada@bastion",
        "reason": "broker 4 goes",
    }
    return Operation(state=state, **{**fields, **more})


def types(news: Iterable[News]) -> list[str]:
    return [one.type for one in news]


def walked(watch: Watch, *states: OperationState, tell: bool = True) -> list[str]:
    """The types of the messages about an operation that goes through these states."""
    found: list[str] = []
    for state in states:
        found += types(watch.operation(operation(state), 0.0, tell=tell))
    return found


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (
            (State.QUEUED, State.STARTING, State.RUNNING, State.LIFTING, State.DONE),
            ["operation.started", "operation.ended"],
        ),
        (
            (State.RUNNING, State.PAUSING, State.PAUSED, State.RESUMING, State.RUNNING),
            ["operation.started", "operation.paused", "operation.resumed"],
        ),
        (
            (State.RUNNING, State.CANCELLING, State.LIFTING, State.CANCELLED),
            ["operation.started", "operation.cancelling", "operation.ended"],
        ),
        ((State.STARTING, State.FAILED), ["operation.started", "operation.failed"]),
        ((State.RUNNING, State.RUNNING, State.RUNNING), ["operation.started"]),
        ((State.RUNNING, State.UNKNOWN, State.RUNNING), ["operation.started"]),
    ],
)
def test_each_state_that_counts_is_told_once(
    states: tuple[OperationState, ...], told: list[str]
) -> None:
    assert walked(Watch(), *states) == told


def test_queued_is_no_start_and_the_start_is_told_when_it_comes() -> None:
    watch = Watch()
    assert walked(watch, State.QUEUED) == []
    assert walked(watch, State.STARTING, State.RUNNING) == ["operation.started"]


def test_what_another_backend_did_is_remembered_and_not_told_again() -> None:
    watch = Watch()
    assert walked(watch, State.RUNNING, State.PAUSED, tell=False) == []
    assert walked(watch, State.PAUSED, State.RESUMING, State.RUNNING) == ["operation.resumed"]


def test_a_message_says_who_what_and_why_and_leaves_out_what_is_long() -> None:
    many = tuple(TopicPartition("orders", n) for n in range(10_000))
    long = OperationDetails(rollback_plan={"x": "x" * 10_000})
    one = operation(State.RUNNING, partitions=many, details=long)
    (news,) = Watch().operation(one, 0.0, tell=True)
    assert news.text == (
        "reassign op1 has started, requested by ada@bastion: move 3 partitions (broker 4 goes)"
    )
    assert news.subject == "operation op1"
    assert news.data["operation"]["partitions"] == 10_000
    assert "details" not in news.data["operation"]
    done = replace(one, state=State.DONE, outcome="all 10,000 arrived", ended_ms=9)
    watch = Watch()
    walked(watch, State.RUNNING)
    (news,) = watch.operation(done, 0.0, tell=True)
    assert news.text == "reassign op1 is done: all 10,000 arrived"


def test_words_of_people_are_cut() -> None:
    facts = operation_facts(operation(State.RUNNING, reason="x" * 100_000))
    assert len(facts["reason"]) == 2_000


# Attention


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (operation(State.RUNNING), ""),
        (operation(State.RUNNING, outcome="no step was taken: no broker answers"), "no step"),
        (
            operation(State.LIFTING, outcome="throttle not removed yet: broker 3"),
            "throttle not removed",
        ),
        (operation(State.RUNNING).with_outcome("3 waiting", is_progress=True), ""),
        (operation(State.RUNNING, outcome="3 waiting"), "3 waiting"),
        (operation(State.DONE, outcome="all arrived"), ""),
        (operation(State.PAUSED, outcome="by ada"), ""),
        (
            operation(
                State.RUNNING,
                kind=OperationKind.SHRINK,
                details=OperationDetails(shrink=SHRINK),
            ),
            "type the name",
        ),
        (
            operation(
                State.RUNNING,
                kind=OperationKind.SHRINK,
                outcome="anything",
                details=OperationDetails(shrink=replace(SHRINK, needs="", words="copies")),
            ),
            "",
        ),
    ],
)
def test_what_an_operation_waits_for(one: Operation, words: str) -> None:
    assert needs(one).startswith(words)
    assert bool(needs(one)) == bool(words)


def test_attention_is_asked_for_once_and_not_with_every_attempt() -> None:
    watch = Watch()
    walked(watch, State.RUNNING)

    def told(words: str, at_s: float) -> list[str]:
        one = operation(State.RUNNING, outcome=words)
        return types(watch.operation(one, at_s, tell=True))

    assert told("no step was taken: a", 0.0) == ["operation.attention"]
    assert told("no step was taken: a", 1.0) == []
    assert told("no step was taken: b", 2.0) == []
    assert told("no step was taken: c", ATTENTION_S) == ["operation.attention"]
    assert told("no step was taken: c", 3 * ATTENTION_S) == []


def test_what_is_remembered_is_bounded() -> None:
    watch = Watch()
    for n in range(REPORTED_MAX + 10):
        list(watch.operation(operation(State.DONE, id=f"op{n}"), 0.0, tell=False))
    assert len(watch._operations) == REPORTED_MAX


# Drift and orphans


def facts(*ids: str) -> dict[str, dict[str, Any]]:
    return {id: {"id": id, "text": f"{id} was changed"} for id in ids}


def test_drift_is_told_when_it_appears_and_when_it_goes() -> None:
    watch = Watch()
    list(watch.seen(AT))
    found = []
    for present in (facts("a"), facts("a", "b"), facts("b"), facts("b"), {}):
        found.append([one.type for one in watch.seen(replace(AT, drift=present))])
    assert found == [["drift.appeared"], ["drift.appeared"], ["drift.gone"], [], ["drift.gone"]]


def test_much_drift_is_one_message_of_bounded_length() -> None:
    watch = Watch()
    list(watch.seen(AT))
    (news,) = watch.seen(replace(AT, drift=facts(*(f"d{n}" for n in range(500)))))
    assert news.data["count"] == 500
    assert len(news.data["drift"]) == FACTS_MAX
    assert news.text == (
        "Drift appeared: d0 was changed, d1 was changed, d2 was changed and 497 more"
    )


def test_a_fact_that_is_long_is_cut() -> None:
    watch = Watch()
    list(watch.seen(AT))
    long = {"a": {"id": "a", "text": "x" * 100_000, "value": "0:1," * 50_000, "broker": 3}}
    (news,) = watch.seen(replace(AT, drift=long))
    (fact,) = news.data["drift"]
    assert (len(fact["text"]), len(fact["value"]), fact["broker"]) == (2_000, 2_000, 3)


def test_only_the_backend_that_acts_tells_of_drift() -> None:
    watch = Watch()
    assert types(watch.seen(replace(IDLE, drift=facts("a")))) == []


def test_an_orphan_is_told_once_it_was_seen_twice() -> None:
    watch = Watch()
    found = []
    for present in (facts("a"), facts("a", "b"), None, facts("b"), facts("b"), {}):
        found.append(types(watch.seen(replace(IDLE, orphans=present))))
    assert found == [
        [],
        ["orphan.appeared"],
        [],
        ["orphan.appeared", "orphan.gone"],
        [],
        ["orphan.gone"],
    ]


# The cluster, and who acts


def test_a_cluster_is_unreachable_once_it_was_silent_for_a_while() -> None:
    watch = Watch()

    def told(at_s: float, reachable: bool | None) -> list[str]:
        return types(watch.seen(replace(IDLE, at_s=at_s, reachable=reachable)))

    assert told(0, None) == []
    assert told(1, False) == []
    assert told(5, True) == []
    assert told(6, False) == []
    assert told(6 + SILENT_S - 1, False) == []
    assert told(6 + SILENT_S, False) == ["cluster.unreachable"]
    assert told(60, False) == []
    assert told(61, True) == ["cluster.reachable"]
    assert told(62, True) == []


def test_who_acts_says_so_with_what_is_under_way() -> None:
    watch = Watch()
    (news,) = watch.seen(replace(AT, operations=[operation(State.PAUSED)]))
    assert news.type == "backend.acts"
    assert news.text == (
        "Backend kshunt-1 on host-1 is the active backend of this cluster; 1 operation "
        "running: reassign op1 (paused)"
    )
    assert news.data["operations"][0]["id"] == "op1"
    assert types(watch.seen(AT)) == []


def test_who_loses_its_seat_says_so_at_once_and_who_only_pauses_later() -> None:
    watch = Watch()
    list(watch.seen(AT))
    pausing = replace(AT, active=False)
    assert types(watch.seen(replace(pausing, at_s=1.0))) == []
    assert types(watch.seen(replace(AT, at_s=2.0))) == []
    assert types(watch.seen(replace(pausing, at_s=3.0))) == []
    assert types(watch.seen(replace(pausing, at_s=3.0 + LOST_S))) == ["backend.stopped"]
    assert types(watch.seen(replace(AT, at_s=30.0))) == ["backend.acts"]
    assert types(watch.seen(replace(IDLE, at_s=31.0))) == ["backend.stopped"]
    assert types(watch.seen(replace(IDLE, at_s=32.0))) == []


def test_who_is_stopped_says_so_if_it_acted() -> None:
    watch = Watch()
    assert types(watch.ended(IDLE)) == []
    list(watch.seen(AT))
    assert types(watch.ended(AT)) == ["backend.stopped"]


# Partitions that are about to be deleted (KIP-694)


def steps(*looks: dict[str, PendingDeletions] | None) -> list[list[str]]:
    """What is told at each look."""
    watch = Watch()
    return [
        [f"{one.type} {one.text}" for one in watch.seen(replace(AT, leaving=leaving))][place == 0 :]
        for place, leaving in enumerate(looks)
    ]


def test_each_step_of_a_deletion_is_told_once() -> None:
    later = PendingDeletions(6, readonly=2, deletes_ms=1_700_000_000_000)
    assert steps(
        {},
        {"t": later},
        {"t": later},
        {"t": PendingDeletions(6, deleting=2)},
        {"t": PendingDeletions(5, deleting=1)},
        {"t": PendingDeletions(4)},
        {},
    ) == [
        [],
        ["partitions.readonly Topic t: 2 partitions read-only until 2023-11-14 22:13:20 UTC"],
        [],
        ["partitions.deleting Topic t: 2 partitions being deleted"],
        [],
        ["partitions.deleted Topic t: the deletion has ended; the topic has 4 partitions now"],
        [],
    ]


def test_a_deletion_that_is_called_off_is_told() -> None:
    kept = steps({}, {"t": PendingDeletions(6, readonly=2)}, {"t": PendingDeletions(6)})
    assert kept[2] == ["partitions.kept Topic t: 2 partitions kept after all"]


def test_what_is_so_at_the_first_look_was_told_before() -> None:
    assert steps(
        None, {"t": PendingDeletions(6, readonly=2)}, {"t": PendingDeletions(6, readonly=2)}
    ) == [
        [],
        [],
        [],
    ]
    assert types(Watch().seen(replace(IDLE, leaving={"t": PendingDeletions(6, readonly=2)}))) == []


def test_topics_that_lose_partitions_are_found_in_a_snapshot() -> None:
    seen = replace(with_modes(plain(4), p2=RO, p3=NONE), deletes_ms={TopicPartition("a", 2): 9})
    assert pending_deletions(seen) == {"a": PendingDeletions(4, 1, 1, 9)}
    assert pending_deletions(plain(4)) == {}
    assert pending_deletions(plain(4), {"a", "gone"}) == {
        "a": PendingDeletions(4),
        "gone": PendingDeletions(0),
    }
