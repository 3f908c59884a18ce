"""What no stream tells, asked again and again: who acts, what has drifted, what is left over.

Drift is asked for while an operation runs, orphans and owners while the throttles or the home
screen are in sight and some stand. An idle cluster is asked for neither: both read the
configuration of brokers and topics. How the data pipeline stands is always asked; its results
only where there are any: forecasts while an operation runs, the rest while it is in sight.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from backend.domain.team import Presence
from backend.errors import BackendError, BackendUnreachable, KshuntError
from tui.feed import AnswerArrived, AnswerFailed, AuditArrived, Scene
from tui.store import ConnectionState, Store
from tui.views import HISTORY, OPERATIONS, OVERVIEW, THROTTLES
from tui.who import who_am_i

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
PRESENCE: Final = "who is here"
PROPOSALS: Final = "proposals"
EVERY_S: Final[Mapping[str, float]] = {
    STANDING: 5.0,
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
LOOKED_S: Final = 2.0
"""What is looked at is told to others at most this often."""
NOT_FOUND: Final = 404
ETA: Final = "eta"
EFFECT: Final = "throttle_effect"
"""Tables of results, by their names."""
LEAVE_S: Final = 0.5
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
    PROPOSALS: lambda client: client.proposals(),
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
    PRESENCE: "presence",
    PROPOSALS: "proposals",
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
    PRESENCE: None,
    PROPOSALS: (),
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
    always = {STANDING, PIPELINE, PRESENCE, PROPOSALS}
    return frozenset(always | drift | orphans | forecasts | effects | past)


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
        self._told: tuple[str, str] | None = None
        """Which view and what under its cursor others were told of last."""
        app.store.session = secrets.token_hex(8)

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
        self._look_elsewhere(moment.now_s)
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
            answer = await self._app.live.ask(self._question(about))
        except BackendUnreachable:
            # The streams notice, and say so.
            return
        except KshuntError as error:
            if _goes_without(about, error):
                return
            if travel.live.unanswered.get(about) != error.message:
                travel.tell(AnswerFailed(about, error.message))
        else:
            scene = travel.live
            known = about in scene.answers and scene.answers[about] == answer
            if not known or about in scene.unanswered:
                travel.tell(AnswerArrived(about, answer))
        finally:
            self._open.discard(about)

    def _question(self, about: str) -> Callable[[BackendClient], Any]:
        if about != PRESENCE:
            return _QUESTIONS[about]
        screen, selected = self._told = self._app.seen
        session = self._app.store.session

        def be_present(client: BackendClient) -> Presence:
            return client.be_present(session, who=who_am_i(), screen=screen, selected=selected)

        return be_present

    def _look_elsewhere(self, now_s: float) -> None:
        """Tell others soon what is looked at, where that is something else."""
        asked_s = self._asked_s.get(PRESENCE)
        elsewhere = self._told not in (None, self._app.seen)
        if elsewhere and asked_s is not None and now_s - asked_s >= LOOKED_S:
            del self._asked_s[PRESENCE]

    async def leave(self) -> None:
        """Tell others that nobody sits here any more, if that can be done at once."""
        session = self._app.store.session
        if self._told is None or self._app.travel.replay:
            return
        with suppress(KshuntError, TimeoutError):
            gone = self._app.live.ask(lambda client: client.be_present(session, leaves=True))
            await asyncio.wait_for(gone, LEAVE_S)

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


def _goes_without(about: str, error: KshuntError) -> bool:
    """Whether nothing is wrong with a backend that does not answer this.

    An earlier version knows of neither, and one that is full remembers nobody more.
    """
    unknown = isinstance(error, BackendError) and error.status == NOT_FOUND
    return about == PRESENCE or (about == PROPOSALS and unknown)


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
