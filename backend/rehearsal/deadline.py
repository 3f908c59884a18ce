"""Which throttle lets a plan end by a moment."""

from __future__ import annotations

from kshunt.backend.domain.forecast.deadlines import CERTAINTY, lowest_rate
from kshunt.backend.domain.planning.impact import Impact
from kshunt.backend.domain.planning.rehearsal import Deadline
from kshunt.backend.errors import BadInput
from kshunt.backend.rehearsal.plan_forecast import PlannedMoves


def throttle_for(planned: PlannedMoves, impact: Impact, deadline_ms: int, now_ms: int) -> Deadline:
    """The lowest throttle with which a plan that begins now ends in time, by the model of copying.

    Raises:
        BadInput: the deadline is over already.
    """
    if deadline_ms <= now_ms:
        raise BadInput("The deadline is already over.", advice="Name a later one.")
    within_s = (deadline_ms - now_ms) / 1000
    rate = lowest_rate(lambda rate: planned.forecast(rate, now_ms).end, deadline_ms)
    needs = {
        one.broker: (one.received_bytes / within_s, one.sent_bytes / within_s)
        for one in impact.brokers
        if one.received_bytes or one.sent_bytes
    }
    return Deadline(deadline_ms, rate, CERTAINTY, needs)
