"""What no stream tells, by name: which is worth asking when, how often, and where answers are kept.

Drift is asked for while an operation runs, orphans and owners while the throttles or the home
screen are in sight and some stand. An idle cluster is asked for neither: both read the
configuration of brokers and topics. How the data pipeline stands is always asked; its results
only where there are any: forecasts while an operation runs, the rest while it is in sight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kshunt.tui.data.store import Store
    from kshunt.tui.feed.messages import Scene

BACKEND_STATUS: Final = "who acts"
DRIFT: Final = "drift"
ORPHANS: Final = "orphan throttles"
OWNED: Final = "owners of throttles"
PIPELINE: Final = "the data pipeline"
FORECASTS: Final = "forecasts of the pipeline"
EFFECTS: Final = "what throttles did"
DELIVERED: Final = "results of the pipeline"
PRESENCE: Final = "who is here"
PROPOSALS: Final = "proposals"
EVERY_S: Final[Mapping[str, float]] = {
    BACKEND_STATUS: 5.0,
    DRIFT: 2.0,
    ORPHANS: 5.0,
    OWNED: 5.0,
    PIPELINE: 10.0,
    FORECASTS: 5.0,
    EFFECTS: 30.0,
    DELIVERED: 30.0,
    PRESENCE: 5.0,
    PROPOSALS: 5.0,
}
ETA: Final = "eta"
EFFECT: Final = "throttle_effect"
"""Tables of results, by their names."""

_PLACES: Final[Mapping[str, str]] = {
    BACKEND_STATUS: "backend_status",
    DRIFT: "drift",
    ORPHANS: "orphans",
    OWNED: "owned",
    PIPELINE: "pipeline",
    FORECASTS: "forecasts",
    EFFECTS: "effects",
    DELIVERED: "delivered",
    PRESENCE: "presence",
    PROPOSALS: "proposals",
}
"""Where the store keeps each answer."""

_NONE: Final[Mapping[str, Any]] = {
    BACKEND_STATUS: None,
    DRIFT: (),
    ORPHANS: (),
    OWNED: None,
    PIPELINE: None,
    FORECASTS: None,
    EFFECTS: None,
    DELIVERED: None,
    PRESENCE: None,
    PROPOSALS: (),
}
"""What stands there before anybody has answered."""


@dataclass(frozen=True, slots=True)
class PollingState:
    """What decides which questions are due."""

    now_s: float
    live: bool
    """The backend answers, and the cluster is on the screen."""
    running: bool
    """An operation has not ended."""
    leftovers_matter: bool
    """Throttles are in sight, and some stand."""
    past_in_sight: bool = False
    """The history is in sight."""
    throttles_in_sight: bool = False
    tables: frozenset[str] = frozenset()
    """Tables of the data pipeline in which there is anything."""


def wanted(moment: PollingState) -> frozenset[str]:
    """What is worth asking at all."""
    if not moment.live:
        return frozenset()
    drift = {DRIFT} if moment.running else set()
    orphans = {ORPHANS, OWNED} if moment.leftovers_matter else set()
    forecasts = {FORECASTS} if moment.running and ETA in moment.tables else set()
    effects = {EFFECTS} if moment.throttles_in_sight and EFFECT in moment.tables else set()
    past = {DELIVERED} if moment.past_in_sight and moment.tables else set()
    always = {BACKEND_STATUS, PIPELINE, PRESENCE, PROPOSALS}
    return frozenset(always | drift | orphans | forecasts | effects | past)


def due(moment: PollingState, asked_s: Mapping[str, float]) -> tuple[str, ...]:
    """The questions whose time has come."""
    return tuple(
        about
        for about in sorted(wanted(moment))
        if moment.now_s - asked_s.get(about, float("-inf")) >= EVERY_S[about]
    )


def put_answers(store: Store, scene: Scene) -> bool:
    """Put the answers of a scene into a store; True where any is news."""
    news = store.unanswered != scene.unanswered or store.audits != scene.audits
    store.unanswered = dict(scene.unanswered)
    store.answered = set(scene.answers)
    store.audits = dict(scene.audits)
    for about, place in _PLACES.items():
        answer = scene.answers.get(about, _NONE[about])
        if getattr(store, place) != answer:
            setattr(store, place, answer)
            news = True
    return news
