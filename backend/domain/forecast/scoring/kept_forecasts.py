"""What was forecast of an operation at points of its way, and how it turned out.

Without arrays: a dashboard shows it.
`kshunt.backend.domain.forecast.scoring.milestones` makes these.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.forecast.end_words import clock_text
from kshunt.backend.domain.replicas.expected_end_values import HeldBy, ResourceKind, Writes
from kshunt.backend.domain.text.formatting import duration_text

POINTS: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the bytes at which a forecast is kept."""

_Share = Annotated[float, Meta(ge=0, le=1)]
_Seconds = Annotated[float, Meta(ge=0)]
_Bytes = Annotated[int, Meta(ge=0)]
_Stage = Annotated[int, Meta(ge=0, le=99)]
_Digest = Annotated[str, Meta(max_length=64)]


class VoidReason(enum.StrEnum):
    """Why a forecast does not count."""

    THROTTLE_CHANGED = "throttle_changed"
    PAUSED = "paused"
    NOT_COMPLETED = "not_completed"
    """The operation was cancelled, in part or as a whole, or somebody else ended it."""

    @property
    def words(self) -> str:
        """For people."""
        return _VOID_WORDS[self]


_VOID_WORDS: Final = {
    VoidReason.THROTTLE_CHANGED: "somebody changed the throttle",
    VoidReason.PAUSED: "somebody paused the operation",
    VoidReason.NOT_COMPLETED: "the operation was not completed",
}


@dataclass(frozen=True, slots=True)
class KeptForecast:
    """The forecast of an operation at one point of its way."""

    point: _Share
    """Of `POINTS`, the last one that the operation had reached."""
    made_ms: _Bytes
    """Milliseconds since the epoch."""
    p10_s: _Seconds
    p50_s: _Seconds
    p90_s: _Seconds
    """From `made_ms` on. Eight in ten operations end between the first and the last."""
    model_s: _Seconds
    """As the model computed it, before the calibration moved it."""
    stage: _Stage
    """The fifth of the way in time, by the forecast itself."""
    held_by: HeldBy
    writes: Writes
    bottleneck: ResourceKind | None
    """The limit that the last copy waited for at first; None where none was seen."""
    left_bytes: _Bytes
    of_bytes: _Bytes
    """The most that was left at any time."""
    throttles: _Digest
    """A digest of the throttles that the forecast assumes."""
    void: VoidReason | None = None
    """Why it does not count; None where it does, or may."""
    actual_s: _Seconds | None = None
    """How long it took; None while nobody knows."""

    @property
    def right(self) -> bool | None:
        """Whether the end was within the range; None where it does not count, or not yet."""
        if self.void is not None or self.actual_s is None:
            return None
        return self.p10_s <= self.actual_s <= self.p90_s


def record_of(calibration: str, kept: Iterable[KeptForecast]) -> ForecastRecord:
    """How often these forecasts were right; `calibration` as in `ForecastRecord`."""
    counts = Counter(one.right for one in kept)
    return ForecastRecord(calibration, counts[True], counts[True] + counts[False])


def point_text(point: float) -> str:
    """`25 %`."""
    return f"{point * 100:.0f} %"


def range_text(one: KeptForecast, now_ms: int) -> str:
    """`12:16 (12:14-12:20)`, by the clock here."""
    low, middle, high = (
        clock_text(one.made_ms + round(seconds * 1000), now_ms)
        for seconds in (one.p10_s, one.p50_s, one.p90_s)
    )
    return f"{middle} ({low}-{high})"


def outcome_text(one: KeptForecast) -> str:
    """`right`, `ended 40s after the range`, `void: somebody changed the throttle`; empty: open."""
    if one.void is not None:
        return f"void: {one.void.words}"
    if one.actual_s is None:
        return ""
    if one.actual_s < one.p10_s:
        return f"ended {duration_text(one.p10_s - one.actual_s)} before the range"
    if one.actual_s > one.p90_s:
        return f"ended {duration_text(one.actual_s - one.p90_s)} after the range"
    return "right"


def tally_text(kept: Sequence[KeptForecast]) -> str:
    """Of one operation that ended: `right 4 of 5, 1 void`."""
    record = record_of("", kept)
    void = sum(one.void is not None for one in kept)
    words = [f"right {record.right} of {record.counted}"] if record.counted else []
    return ", ".join([*words, f"{void} void"] if void else words)
