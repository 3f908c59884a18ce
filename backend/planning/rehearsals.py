"""Several rehearsals of one plan, and the throttle for a deadline."""

from __future__ import annotations

from functools import cache, partial

from kshunt.backend.domain.planning.requests import RehearsalAnswer, RehearsalRequest
from kshunt.backend.placement.impact import impact
from kshunt.backend.rehearsal.deadline import throttle_for
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.run import rehearse


def rehearse_all(picture: Picture, request: RehearsalRequest) -> RehearsalAnswer:
    """How the moves go at each throttle, each from the same moment.

    Raises:
        BadInput: they cannot be started in that cluster, or the deadline is over already.
    """
    found = impact(picture.situation, request.targets)
    # What a deadline asks for may have been asked for by itself: each throttle is rehearsed once.
    run = cache(partial(rehearse, picture, request.targets, seed=request.seed))
    runs = tuple(map(run, request.throttles_bytes_per_s))
    deadline = None
    if request.deadline_s is not None:
        deadline = throttle_for(picture, request.targets, request.deadline_s, run=run)
    return RehearsalAnswer(runs, deadline, found, picture.cluster_id, picture.taken_ms)
