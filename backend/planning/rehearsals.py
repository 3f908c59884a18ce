"""Forecasts and rehearsals of one plan, and the throttle for a deadline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.domain.planning.rehearsal import Rehearsal
from kshunt.backend.domain.planning.requests import RehearsalAnswer, RehearsalRequest
from kshunt.backend.placement.impact import impact
from kshunt.backend.rehearsal.deadline import throttle_for
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.plan_forecast import PlannedMoves
from kshunt.backend.rehearsal.run import rehearse
from kshunt.backend.rehearsal.twin import unknowns

_CLOCK = SystemClock()


def rehearse_all(
    picture: Picture,
    request: RehearsalRequest,
    clock: Clock = _CLOCK,
    on_step: Callable[[int, float], object] | None = None,
) -> RehearsalAnswer:
    """When the moves are done at each throttle, and how they go there.

    Twins take long. So the moves that are asked for are rehearsed before the time that is left
    until the deadline is counted. `on_step` is told how many throttles have been rehearsed, and
    the share of the bytes that are copied at the next one.

    Raises:
        BadInput: they cannot be started in that cluster, or the deadline is over already.
    """
    found = impact(picture.situation, request.targets)
    planned = PlannedMoves(picture, request.targets)
    throttles = list(request.throttles_bytes_per_s)

    def rehearsed(throttle: int | None) -> None:
        if request.quick:
            return
        on_look = None if on_step is None else partial(on_step, len(runs))
        runs.append(
            rehearse(picture, request.targets, throttle, seed=request.seed, on_look=on_look)
        )

    runs: list[Rehearsal] = []
    for throttle in throttles:
        rehearsed(throttle)
    deadline, now_ms = None, clock.now_ms()
    if request.deadline_ms is not None:
        deadline = throttle_for(planned, found, request.deadline_ms, now_ms)
        if deadline.throttle_bytes_per_s not in throttles:
            throttles.append(deadline.throttle_bytes_per_s)
            rehearsed(deadline.throttle_bytes_per_s)
    forecasts = tuple(planned.forecast(throttle, now_ms) for throttle in throttles)
    return RehearsalAnswer(
        forecasts,
        tuple(runs),
        deadline,
        found,
        picture.cluster_id,
        picture.taken_ms,
        tuple(unknowns(picture)),
    )
