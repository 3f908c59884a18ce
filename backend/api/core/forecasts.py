"""When what moves will be done: whose forecast is asked for, out of those of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kshunt.backend.api.schema.forecasts import Forecast
from kshunt.backend.domain.forecast.end_words import full_text
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.expected_end_values import EVERYTHING, ExpectedEnd
from kshunt.backend.domain.replicas.snapshot import Snapshot


def forecasts_of(ends: Mapping[str, ExpectedEnd], now_ms: int) -> tuple[Forecast, ...]:
    """All of a snapshot, that of everything first."""
    return tuple(
        Forecast(id if id != EVERYTHING else None, full_text(end, now_ms), end)
        for id, end in sorted(ends.items())
    )


def end_of_plan(
    plan: ReassignmentPlan, operations: Iterable[Operation], snapshot: Snapshot | None
) -> ExpectedEnd | None:
    """When a plan will be done: as its operation, or with all that moves where none has it alone.

    None where nothing of the plan moves.
    """
    if snapshot is None:
        return None
    wanted = frozenset(plan.replicas)
    movers = [
        one for one in operations if not one.state.ended and not wanted.isdisjoint(one.partitions)
    ]
    changing = np.flatnonzero(snapshot.replicas.adding | snapshot.replicas.removing)
    moving = wanted.intersection(map(snapshot.partition_of, changing.tolist()))
    if not movers and not moving:
        return None
    if len(movers) == 1 and moving <= frozenset(movers[0].partitions):
        return snapshot.expected_ends.get(movers[0].id)
    return snapshot.expected_ends.get(EVERYTHING)
