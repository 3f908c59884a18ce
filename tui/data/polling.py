"""The periodic questions (`kshunt.tui.data.questions`) are put, and their answers told and
shown."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.domain.operations.team import Presence
from kshunt.backend.errors import BackendError, BackendUnreachable, KshuntError
from kshunt.tui.actions.view_names import HISTORY, OPERATIONS, OVERVIEW, THROTTLES
from kshunt.tui.data.operator_identity import who_am_i
from kshunt.tui.data.questions import (
    BACKEND_STATUS,
    DELIVERED,
    DRIFT,
    EFFECTS,
    FORECASTS,
    ORPHANS,
    OWNED,
    PIPELINE,
    PRESENCE,
    PROPOSALS,
    PollingState,
    due,
    put_answers,
)
from kshunt.tui.feed.messages import (
    AnswerArrived,
    AnswerFailed,
    AuditArrived,
    ConnectionState,
    Scene,
)

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.pipeline.delivered import PipelineStatus
    from kshunt.tui.data.host import Host
    from kshunt.tui.data.playback import Playback

LOOKED_S: Final = 2.0
"""What is looked at is told to others at most this often."""
NOT_FOUND: Final = 404
FULL: Final = 409
"""So many are here that the backend remembers nobody more."""
LEAVE_S: Final = 0.5
TICK_S: Final = 0.5
"""How often it is looked whether a question is due."""

_QUESTIONS: Final[Mapping[str, Callable[[BackendClient], Any]]] = {
    BACKEND_STATUS: lambda client: client.backend_status(),
    DRIFT: lambda client: client.drift(),
    ORPHANS: lambda client: client.orphans(),
    OWNED: lambda client: client.owned_throttles(),
    PIPELINE: lambda client: client.pipeline(),
    FORECASTS: lambda client: client.pipeline_etas(),
    EFFECTS: lambda client: client.pipeline_effects(),
    DELIVERED: lambda client: client.pipeline_past(),
    PROPOSALS: lambda client: client.proposals(),
}


class Polling:
    """Puts the questions, each in a worker of the app, and takes the answers into the store."""

    def __init__(self, app: Host, travel: Playback) -> None:
        self._app = app
        self._travel = travel
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
        if not self._travel.past:
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
                app.run_worker(self._ask(about), group="polling")

    def _moment(self) -> PollingState:
        app, store = self._app, self._app.store
        if self._travel.past:
            return self._moment_behind()
        live = store.connection.state is ConnectionState.LIVE and store.snapshot is not None
        here = app.current_mode
        in_sight = here in (OVERVIEW, THROTTLES, OPERATIONS) or bool(store.orphans)
        leftovers = in_sight and _throttles_stand(app)
        return PollingState(
            store.now_s(),
            live,
            store.running,
            leftovers,
            here == HISTORY,
            here == THROTTLES,
            _tables(store.pipeline),
        )

    def _moment_behind(self) -> PollingState:
        """While the past is shown, what is recorded of the present goes on being asked."""
        travel = self._travel
        scene = travel.live
        live = scene.connection.state is ConnectionState.LIVE and scene.snapshot is not None
        tables = _tables(scene.answers.get(PIPELINE))
        live = live and not travel.replay
        return PollingState(travel.clock(), live, scene.running, False, tables=tables)

    async def _ask(self, about: str) -> None:
        travel = self._travel
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
            try:
                return client.be_present(session, who=who_am_i(), screen=screen, selected=selected)
            except BackendError as error:
                if error.status != FULL:
                    raise
                # By what name it knows whoever sits here is worth asking all the same.
                return client.presence()

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
        if self._told is None or self._travel.replay:
            return
        with suppress(KshuntError, TimeoutError):
            gone = self._app.live.ask(lambda client: client.be_present(session, leaves=True))
            await asyncio.wait_for(gone, LEAVE_S)

    async def audit(self, operation_id: str) -> None:
        """The history of one operation, for whoever looks at it; in the past, as it was known."""
        app = self._app
        if self._travel.past:
            return
        try:
            lines = await app.live.ask(lambda client: client.audit_lines(operation_id))
        except KshuntError:
            return
        if self._travel.live.audits.get(operation_id) != lines:
            self._travel.tell(AuditArrived(operation_id, lines))

    def _forget(self, about: str) -> None:
        """What was answered holds no more; the answer that says so is recorded as any other."""
        travel = self._travel
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


def _tables(pipeline_status: PipelineStatus | None) -> frozenset[str]:
    """The tables of the data pipeline in which there is anything."""
    tables = () if pipeline_status is None else pipeline_status.tables
    return frozenset(one.table for one in tables if one.newest_ms is not None)


def _throttles_stand(app: Host) -> bool:
    facts = app.store.facts
    if facts is None:
        return False
    from kshunt.tui.facts.progress import throttled

    return throttled(facts)
