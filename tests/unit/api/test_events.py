"""The log of events: what a reader that resumes is given."""

from __future__ import annotations

from backend.api.events import EventLog
from backend.settings import LIMITS

START = 1_000


def after(log: EventLog, last_id: int) -> list[tuple[str, object]]:
    return [(event.kind, event.document.get("n")) for event in log.after(last_id)]


def test_whoever_saw_the_last_one_is_given_what_came_after() -> None:
    log = EventLog(START)
    assert after(log, START) == []
    for n in range(3):
        log.publish("alert", {"n": n})
    assert after(log, START) == [("alert", 0), ("alert", 1), ("alert", 2)]
    assert after(log, START + 2) == [("alert", 2)]
    assert after(log, log.last_id) == []


def test_a_number_of_another_backend_is_a_reset() -> None:
    log = EventLog(START)
    log.publish("alert", {})
    assert after(log, START - 1) == [("reset", None)]
    assert after(log, START + 2) == [("reset", None)]


def test_of_one_operation_only_what_it_is_like_last_is_kept() -> None:
    log = EventLog(START)
    log.publish("operation", {"n": 1}, of="a")
    log.publish("operation", {"n": 2}, of="b")
    log.publish("alert", {"n": 3})
    log.publish("operation", {"n": 4}, of="a")
    assert after(log, START) == [("operation", 2), ("alert", 3), ("operation", 4)]
    assert after(log, START + 1) == [("operation", 2), ("alert", 3), ("operation", 4)]
    assert after(log, START + 3) == [("operation", 4)]


def test_one_operation_however_often_it_changes_crowds_out_nothing() -> None:
    log = EventLog(START)
    log.publish("alert", {"n": 0})
    for n in range(10 * LIMITS.events_kept):
        log.publish("operation", {"n": n}, of="a")
    assert after(log, START) == [("alert", 0), ("operation", 10 * LIMITS.events_kept - 1)]


def test_whoever_lacks_more_than_is_kept_starts_anew() -> None:
    log = EventLog(START)
    for n in range(LIMITS.events_kept + 1):
        log.publish("alert", {"n": n})
    assert after(log, START) == [("reset", None)]
    assert len(after(log, START + 1)) == LIMITS.events_kept
