"""The checker of the audit finds each kind of untrue line; else it would prove nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.audit_checker import (
    AuditedCluster,
    RequestedMove,
    RequestedShrink,
    problems,
    shrink_problems,
)

KEY = "leader.replication.throttled.rate"
RATE = "leader rate"
LIST = "leader list"
MOVES = {("t", 0): RequestedMove((1, 2), (3, 2)), ("t", 1): RequestedMove((1, 2), (3, 2))}
THERE = AuditedCluster({("broker", "1", KEY): "70"}, {("t", 0): (3, 2), ("t", 1): (3, 2)})


def line(event: str, outcome: str = "", *throttles: str, id: str = "op") -> dict[str, Any]:
    return {
        "event": event,
        "operation_id": id,
        "kind": "reassign",
        "outcome": outcome,
        "touched": {"throttles": list(throttles)},
    }


DONE = "done: 2 of 2 where the plan wants them, throttle removed"
TRUE = [
    line("requested", "move", f"broker 1 {RATE}: 70 B/s → 5 B/s"),
    line("started"),
    line("lifted", "", f"broker 1 {RATE}: 5 B/s → 70 B/s", f"topic t {LIST}: 0:1 → no replicas"),
    line("ended", DONE, f"broker 1 {RATE}: 70 B/s", f"topic t {LIST}: no replicas"),
]


def test_a_true_audit_has_no_problems() -> None:
    assert problems(TRUE, THERE, {"op": MOVES}) == []


def test_a_drift_line_is_what_stands_since() -> None:
    found = f"{RATE} of broker 1 was changed: 77 B/s instead of 5 B/s"
    lines = [TRUE[0], line("drift_found", "", found)]
    (amiss, open_end) = problems(lines, THERE, {})
    assert "leaves ('broker', '1'" in amiss
    assert "has no end" in open_end


@pytest.mark.parametrize(
    ("settings", "words"),
    [({}, "the cluster has None"), ({("broker", "1", KEY): "77"}, "the cluster has 77")],
)
def test_a_setting_that_is_another_one_is_found(settings: Any, words: str) -> None:
    (found,) = problems(TRUE, AuditedCluster(settings, THERE.replicas), {"op": MOVES})
    assert words in found


@pytest.mark.parametrize(
    ("outcome", "at"),
    [
        (DONE, {("t", 0): (3, 2), ("t", 1): (1, 2)}),
        ("cancelled: 0 of 2 where the plan wants them", THERE.replicas),
        ("partly cancelled: 2 of 2 where the plan wants them", THERE.replicas),
        ("cancelled elsewhere: 0 of 2 where the plan wants them", THERE.replicas),
        ("superseded: 1 of 2 where the plan wants them", THERE.replicas),
    ],
)
def test_an_end_that_is_not_so_is_found(outcome: str, at: Any) -> None:
    lines = [*TRUE[:-1], line("ended", outcome, f"broker 1 {RATE}: 70 B/s")]
    assert problems(lines, AuditedCluster(THERE.settings, at), {"op": MOVES})


def test_a_promise_that_was_not_kept_must_be_said() -> None:
    read = f"broker 1 {RATE}: 77 B/s"
    cluster = AuditedCluster({("broker", "1", KEY): "77"}, THERE.replicas)
    silent = [*TRUE[:-1], line("ended", DONE, read)]
    (found,) = problems(silent, cluster, {"op": MOVES})
    assert "was to become 70, is 77" in found
    said = f"{DONE}, but broker 1 {RATE} is 77 B/s instead of 70 B/s"
    assert problems([*TRUE[:-1], line("ended", said, read)], cluster, {"op": MOVES}) == []


def test_an_order_that_cannot_be_is_found() -> None:
    assert problems(TRUE[1:], THERE, {})
    assert problems([*TRUE, line("lifted")], THERE, {})
    assert problems([TRUE[0], *TRUE], THERE, {})
    assert problems([*TRUE[:3], line("ended", DONE, "broker one is fine")], THERE, {})


SHRUNK = {"op": RequestedShrink("t", 3, 2)}
GONE = "verified; kshunt is deleting the source topic: the point of no return"
ANEW = "the topic was created again; its records are being copied back"
SHRINK = [
    {**line(event, outcome), "kind": "shrink"}
    for event, outcome in (
        ("requested", ""),
        ("changed", GONE),
        ("changed", ANEW),
        ("ended", "done"),
    )
]


def test_a_true_audit_of_a_shrink_has_no_problems() -> None:
    there = AuditedCluster({}, {("t", 0): (1,), ("t", 1): (2,), ("u", 0): (1,)})
    assert shrink_problems(SHRINK, there, SHRUNK) == []


@pytest.mark.parametrize(
    ("steps", "end", "partitions", "words"),
    [
        ((1, 2), "done", 3, "3 partitions are there, not 2"),
        ((), "cancelled", 2, "2 partitions are there, not 3"),
        ((2, 1), "done", 2, "its steps are"),
        ((1,), "cancelled", 3, "its steps are"),
        ((1, 1, 2), "done", 2, "its steps are"),
    ],
)
def test_a_shrink_that_is_not_so_is_found(
    steps: tuple[int, ...], end: str, partitions: int, words: str
) -> None:
    lines = [SHRINK[0], *(SHRINK[n] for n in steps), {**SHRINK[3], "outcome": end}]
    there = AuditedCluster({}, {("t", number): (1,) for number in range(partitions)})
    (found,) = shrink_problems(lines, there, SHRUNK)
    assert words in found


def test_a_shrink_that_nobody_asked_for_is_found() -> None:
    assert "not told of as a shrink" in shrink_problems([], AuditedCluster({}, {}), SHRUNK)[0]
