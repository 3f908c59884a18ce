"""What no stream tells, asked again and again: who acts, what has drifted, what is left over.

Drift is asked for while an operation runs, orphans and owners while the throttles or the home
screen are in sight and some stand. An idle cluster is asked for neither: both read the
configuration of brokers and topics. How the data pipeline stands is always asked; its results
only where there are any: forecasts while an operation runs, the rest while it is in sight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from backend.errors import BackendUnreachable, KshuntError
from tui.feed import AnswerArrived, AnswerFailed, AuditArrived, Scene
from tui.store import ConnectionState, Store
from tui.views import HISTORY, OPERATIONS, OVERVIEW, THROTTLES

if TYPE_CHECKING:
    from backend.api.client import BackendClient
    from backend.domain.pipeline import PipelineStanding
    from tui.app import KshuntApp

STANDING: Final = "who acts"
DRIFT: Final = "drift"
ORPHANS: Final = "orphan throttles"
OWNED: Final = "owners of throttles"
PIPELINE: Final = "the data pipeline"
FORECASTS: Final = "forecasts of the pipeline"
EFFECTS: Final = "what throttles did"
DELIVERED: Final = "results of the pipeline"
EVERY_S: Final[Mapping[str, float]] = {
    STANDING: 5.0,
    DRIFT: 2.0,
    ORPHANS: 5.0,
    OWNED: 5.0,
    PIPELINE: 10.0,
    FORECASTS: 5.0,
    EFFECTS: 30.0,
    DELIVERED: 30.0,
}
ETA: Final = "eta"
EFFECT: Final = "throttle_effect"
"""Tables of results, by their names."""
TICK_S: Final = 0.5
"""How often it is looked whether a question is due."""

_QUESTIONS: Final[Mapping[str, Callable[[BackendClient], Any]]] = {
    STANDING: lambda client: client.standing(),
    DRIFT: lambda client: client.drift(),
    ORPHANS: lambda client: client.orphans(),
    OWNED: lambda client: client.owned_throttles(),
    PIPELINE: lambda client: client.pipeline(),
    FORECASTS: lambda client: client.pipeline_etas(),
    EFFECTS: lambda client: client.pipeline_effects(),
    DELIVERED: lambda client: client.pipeline_past(),
}

_PLACES: Final[Mapping[str, str]] = {
    STANDING: "standing",
    DRIFT: "drift",
    ORPHANS: "orphans",
    OWNED: "owned",
    PIPELINE: "pipeline",
    FORECASTS: "forecasts",
    EFFECTS: "effects",
    DELIVERED: "delivered",
}
"""Where the store keeps each answer."""

_NONE: Final[Mapping[str, Any]] = {
    STANDING: None,
    DRIFT: (),
    ORPHANS: (),
    OWNED: None,
    PIPELINE: None,
    FORECASTS: None,
    EFFECTS: None,
    DELIVERED: None,
}
"""What stands there before anybody has answered."""


@dataclass(frozen=True, slots=True)
class Moment:
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


def wanted(moment: Moment) -> frozenset[str]:
    """What is worth asking at all."""
    if not moment.live:
        return frozenset()
    drift = {DRIFT} if moment.running else set()
    orphans = {ORPHANS, OWNED} if moment.leftovers_matter else set()
    forecasts = {FORECASTS} if moment.running and ETA in moment.tables else set()
    effects = {EFFECTS} if moment.throttles_in_sight and EFFECT in moment.tables else set()
    past = {DELIVERED} if moment.past_in_sight and moment.tables else set()
    return frozenset({STANDING, PIPELINE} | drift | orphans | forecasts | effects | past)


def due(moment: Moment, asked_s: Mapping[str, float]) -> tuple[str, ...]:
    """The questions whose time has come."""
    return tuple(
        about
        for about in sorted(wanted(moment))
        if moment.now_s - asked_s.get(about, float("-inf")) >= EVERY_S[about]
    )


class Rounds:
    """Puts the questions, each in a worker of the app, and takes the answers into the store."""

    def __init__(self, app: KshuntApp) -> None:
        self._app = app
        self._asked_s: dict[str, float] = {}
        self._open: set[str] = set()
        """Questions without an answer yet."""

    def nudge(self) -> None:
        """Ask everything anew: something was changed."""
        self._asked_s.clear()
        self.look()

    def look(self) -> None:
        """Ask what is due, and forget what does not hold any more."""
        app, store = self._app, self._app.store
        moment = self._moment()
        if not app.travel.past:
            if not moment.running:
                self._forget(DRIFT)
            if store.snapshot is not None and not _throttles_stand(app):
                self._forget(ORPHANS)
                self._forget(OWNED)
        for about in due(moment, self._asked_s):
            if about not in self._open:
                self._asked_s[about] = moment.now_s
                self._open.add(about)
                app.run_worker(self._ask(about), group="rounds")

    def _moment(self) -> Moment:
        app, store = self._app, self._app.store
        if app.travel.past:
            return self._moment_behind()
        live = store.connection.state is ConnectionState.LIVE and store.snapshot is not None
        here = app.current_mode
        in_sight = here in (OVERVIEW, THROTTLES, OPERATIONS) or bool(store.orphans)
        leftovers = in_sight and _throttles_stand(app)
        return Moment(
            store.now_s(),
            live,
            store.running,
            leftovers,
            here == HISTORY,
            here == THROTTLES,
            _tables(store.pipeline),
        )

    def _moment_behind(self) -> Moment:
        """While the past is shown, what is recorded of the present goes on being asked."""
        travel = self._app.travel
        scene = travel.live
        live = scene.connection.state is ConnectionState.LIVE and scene.snapshot is not None
        tables = _tables(scene.answers.get(PIPELINE))
        live = live and not travel.replay
        return Moment(travel.clock(), live, scene.running, False, tables=tables)

    async def _ask(self, about: str) -> None:
        travel = self._app.travel
        try:
            answer = await self._app.live.ask(_QUESTIONS[about])
        except BackendUnreachable:
            # The streams notice, and say so.
            return
        except KshuntError as error:
            if travel.live.unanswered.get(about) != error.message:
                travel.tell(AnswerFailed(about, error.message))
        else:
            scene = travel.live
            known = about in scene.answers and scene.answers[about] == answer
            if not known or about in scene.unanswered:
                travel.tell(AnswerArrived(about, answer))
        finally:
            self._open.discard(about)

    async def audit(self, operation_id: str) -> None:
        """The history of one operation, for whoever looks at it; in the past, as it was known."""
        app = self._app
        if app.travel.past:
            return
        try:
            lines = await app.live.ask(lambda client: client.audit_lines(operation_id))
        except KshuntError:
            return
        if app.travel.live.audits.get(operation_id) != lines:
            app.travel.tell(AuditArrived(operation_id, lines))

    def _forget(self, about: str) -> None:
        """What was answered holds no more; the answer that says so is recorded as any other."""
        travel = self._app.travel
        if travel.live.answers.get(about, ()) != ():
            travel.tell(AnswerArrived(about, ()))

    def take(self, scene: Scene) -> None:
        """Show the answers of a scene where they are news."""
        app = self._app
        if put_answers(app.store, scene):
            app.derive(app.current_mode)
            app.changed.publish("")


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


def _tables(standing: PipelineStanding | None) -> frozenset[str]:
    """The tables of the data pipeline in which there is anything."""
    tables = () if standing is None else standing.tables
    return frozenset(one.table for one in tables if one.newest_ms is not None)


def _throttles_stand(app: KshuntApp) -> bool:
    facts = app.store.facts
    if facts is None:
        return False
    from tui.tables.progress import throttled

    return throttled(facts)
