"""The operations of a week: what the samples saw of each, and what the journal says of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.pipeline.result_columns import GAP_S
from kshunt.backend.pipeline.reports.week_results import WeekMaterial
from kshunt.backend.pipeline.results.hour_figures import CopyOfOperation
from kshunt.backend.pipeline.results.hour_forecasts import FirstForecast


@dataclass(frozen=True, slots=True)
class WeekOperation:
    """One operation that copied in the week, or ended in it."""

    id: str
    recorded: Operation | None
    """From the journal; None where it was not asked, or does not list it."""
    first_ms: int | None
    """The first sample of it in the week; None where none was copied."""
    last_ms: int | None
    copies: int
    arrived: int
    copied_bytes: float
    ended_ms: int | None
    """When its last copy was seen in the ISR; None where one was not."""
    forecast: FirstForecast | None
    bound: str | None
    """What held it up longest."""
    bound_s: float = 0.0

    @property
    def began_ms(self) -> int | None:
        """When it was asked for, or first seen."""
        return self.first_ms if self.recorded is None else self.recorded.started_ms

    @property
    def held(self) -> bool | None:
        """Whether its end was in the range of its first forecast; None: nobody can say."""
        if self.forecast is None or (true_s := self.true_s) is None:
            return None
        return self.forecast.p10_s <= true_s <= self.forecast.p90_s

    @property
    def true_s(self) -> float | None:
        """From the first forecast to the end; None without a forecast, or without the end."""
        state = None if self.recorded is None else self.recorded.state
        if self.forecast is None or self.ended_ms is None:
            return None
        if state not in (None, OperationState.DONE, OperationState.LIFTING):
            return None
        true_s = (self.ended_ms - self.forecast.at_ms) / 1000
        return true_s if true_s > 0 else None

    def left_unfinished(self, newest_ms: int | None) -> bool:
        """Whether its copies were no longer seen while others were."""
        if self.last_ms is None or newest_ms is None or self.arrived == self.copies:
            return False
        return self.last_ms < newest_ms - GAP_S * 1000


def week_operations(material: WeekMaterial) -> list[WeekOperation]:
    """Those that copied or ended in the week, in the order of time."""
    copies: dict[str, list[CopyOfOperation]] = defaultdict(list)
    for (operation, _), copy in material.rates.copies.items():
        copies[operation].append(copy)
    recorded = _recorded(material)
    held = _longest(material.forecasts.held_s)
    found = [
        _operation(id, copies.get(id, ()), recorded.get(id), material, held.get(id))
        for id in dict.fromkeys([*copies, *recorded])
    ]
    return sorted(found, key=lambda one: (one.began_ms or 0, one.id))


def ended_in_week(material: WeekMaterial) -> list[Operation]:
    """Operations of the journal that ended in the week, oldest first."""
    week, journal = material.week, material.journal
    operations = () if journal is None else journal.operations
    ended = [one for one in operations if one.ended_ms is not None and one.state.ended]
    within = [one for one in ended if week.has(one.ended_ms or 0)]
    return sorted(within, key=lambda one: (one.ended_ms or 0, one.id))


def _recorded(material: WeekMaterial) -> Mapping[str, Operation]:
    """By id: those that copied in the week, and those that moved partitions and ended in it."""
    journal = material.journal
    if journal is None:
        return {}
    seen = {operation for operation, _ in material.rates.copies}
    ended = {one.id for one in ended_in_week(material) if one.partitions}
    return {one.id: one for one in journal.operations if one.id in seen | ended}


def _longest(held_s: Mapping[tuple[int, str, str], float]) -> dict[str, tuple[str, float]]:
    """By operation: the bottleneck that held it up longest, and for how long."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (_, bound, operation), seconds in held_s.items():
        sums[operation][bound] += seconds
    return {
        operation: max(bounds.items(), key=lambda one: (one[1], one[0]))
        for operation, bounds in sums.items()
    }


def _operation(
    id: str,
    seen: Sequence[CopyOfOperation],
    recorded: Operation | None,
    material: WeekMaterial,
    held: tuple[str, float] | None,
) -> WeekOperation:
    copied = [copy for copy in seen if copy.out_ms is not None]
    added = [copy for copy in copied if copy.added]
    copies = added or copied
    arrivals = [copy.arrived_ms for copy in copies if copy.arrived_ms is not None]
    done = bool(copies) and len(arrivals) == len(copies)
    bound, bound_s = held or (None, 0.0)
    return WeekOperation(
        id=id,
        recorded=recorded,
        first_ms=min((copy.first_ms for copy in seen), default=None),
        last_ms=max((copy.last_ms for copy in seen), default=None),
        copies=len(copies),
        arrived=len(arrivals),
        copied_bytes=sum(copy.copied_bytes for copy in copies),
        ended_ms=max(arrivals) if done else None,
        forecast=material.forecasts.first.get(id),
        bound=bound,
        bound_s=bound_s,
    )
