"""When webhooks are told that an operation will be done, or never."""

from __future__ import annotations

from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.notify.forecasts import AGAIN_S, ForecastWatch

NOON_MS = 1_760_011_200_000
ONE = Operation("op-1", OperationKind.REASSIGN, OperationState.RUNNING, NOON_MS, "moves")
NEW = ExpectedEnd(NOON_MS, 2, unknown=2)
KNOWN = ExpectedEnd(NOON_MS, 2, 60.0, 120.0, 180.0)
NEVER = ExpectedEnd(NOON_MS, 2, never=2, why="disk_full")


def told(watch: ForecastWatch, end: ExpectedEnd, at_s: float) -> list[str]:
    return [news.text for news in watch.seen([ONE], {"op-1": end}, at_s)]


def test_an_end_is_told_once_it_is_known() -> None:
    watch = ForecastWatch()
    assert told(watch, NEW, 0.0) == []
    assert told(watch, KNOWN, 1.0) == [
        "reassign op-1 will be done about 2025-10-09 12:02:00 UTC "
        "(2025-10-09 12:01:00 UTC to 2025-10-09 12:03:00 UTC)"
    ]
    assert told(watch, KNOWN, 2.0) == []


def test_that_it_never_ends_is_told_and_that_it_does_after_all() -> None:
    watch = ForecastWatch()
    (first,) = told(watch, NEVER, 0.0)
    assert first.startswith("reassign op-1 will not end: ")
    assert told(watch, KNOWN, 1.0) == []
    assert len(told(watch, KNOWN, AGAIN_S)) == 1
    assert list(watch.seen([], {}, AGAIN_S)) == []
    assert len(told(watch, KNOWN, AGAIN_S + 1)) == 1
