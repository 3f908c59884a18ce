"""What is news about when operations will be done. Pure.

A forecast becomes another one with every look. So it is told once it is known, when copies turn out
to arrive never, and when they do so after all; and again no oftener than every `AGAIN_S`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.forecast.end_words import apart_text, dated_text, never_text
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.backend.notify.message import News

AGAIN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Reported:
    """What was reported about an operation, and when, by a clock that never goes back."""

    never: bool
    at_s: float


class ForecastWatch:
    """Remembers what was told."""

    def __init__(self) -> None:
        self._reported: dict[str, Reported] = {}

    def seen(
        self, operations: Sequence[Operation], ends: Mapping[str, ExpectedEnd], at_s: float
    ) -> Iterator[News]:
        """What is new of those that run."""
        running = {one.id for one in operations}
        self._reported = {id: said for id, said in self._reported.items() if id in running}
        for operation in operations:
            end = ends.get(operation.id)
            if end is None or end.unknown or end.held or (end.p50_s is None and not end.never):
                continue
            before, never = self._reported.get(operation.id), end.never > 0
            if before is None or (never != before.never and at_s - before.at_s >= AGAIN_S):
                self._reported[operation.id] = Reported(never, at_s)
                yield _news(operation, end)


def _news(operation: Operation, end: ExpectedEnd) -> News:
    said = f"{operation.kind.value} {operation.id} {_words(end)}"
    data = {"operation_id": operation.id, "end": to_document(end)}
    return News("operation.forecast", said, data, f"forecast {operation.id}")


def _words(end: ExpectedEnd) -> str:
    why, when = never_text(end), dated_text(end, end.at_ms)
    if when is None:
        return f"will not end: {why}" if why else "will not end at this rate"
    apart = ", ".join(filter(None, (apart_text(end), why if end.never else "")))
    return f"will be done about {when}{f'; {apart}' if apart else ''}"
