"""The polled facts (`kshunt.tui.feed.polled_facts`) are asked for, and their answers told."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.errors import BackendUnreachable, KshuntError
from kshunt.backend.operator_identity import who_am_i
from kshunt.tui.feed.messages import AnswerArrived, AnswerFailed, AuditArrived
from kshunt.tui.feed.polled_facts import (
    ORPHANS,
    PIPELINE,
    POLLED,
    PRESENCE,
    PolledFact,
    PollingState,
    Viewer,
    due,
)

if TYPE_CHECKING:
    from kshunt.backend.domain.pipeline.delivered import PipelineStatus
    from kshunt.tui.data.host import Host
    from kshunt.tui.data.live_scene import LiveScene
    from kshunt.tui.data.playback import Playback
    from kshunt.tui.facts.snapshot_facts import Facts

LOOKED_S: Final = 2.0
"""The dashboard reports a new view to others at most this often."""
LEAVE_S: Final = 0.5
TICK_S: Final = 0.5
"""How often it is looked whether a fact is due."""


class Polling:
    """Asks for each fact in a worker of the app, and tells the answers as the feed does.

    It continues while the past is shown: what is recorded of the present stays whole.
    """

    def __init__(self, app: Host, live: LiveScene, playback: Playback) -> None:
        self._app = app
        self._live = live
        self._playback = playback
        self._asked_s: dict[str, float] = {}
        self._open: set[str] = set()
        """Facts that were asked for and not answered yet."""
        self._announced: tuple[str, str] | None = None
        """The view, and what was under its cursor, that were announced to others last."""
        app.store.session = secrets.token_hex(8)

    def nudge(self) -> None:
        """Ask everything anew: something was changed."""
        self._asked_s.clear()
        self.look()

    def look(self) -> None:
        """Ask what is due, and drop answers that cannot hold any more."""
        state = self._state()
        for fact in POLLED:
            if fact.void(state) and self._live.scene.answers.get(fact.name, ()) != ():
                # Recorded as any other answer.
                self._live.tell(AnswerArrived(fact.name, ()))
        self._look_elsewhere(state.now_s)
        for fact in due(state, self._asked_s, self._open):
            self._asked_s[fact.name] = state.now_s
            self._open.add(fact.name)
            self._app.run_worker(self._ask(fact), group="polling")

    def _state(self) -> PollingState:
        app, scene = self._app, self._live.scene
        # While the past is shown, no view of the present is in sight.
        view, facts = ("", None) if self._playback.past else (app.current_mode, app.store.facts)
        return PollingState(
            now_s=self._live.now_s(),
            live=scene.live and scene.snapshot is not None,
            running=scene.running,
            throttles_set=_throttled(facts),
            orphans_known=bool(scene.answer(ORPHANS)),
            view=view,
            tables=_tables(scene.answer(PIPELINE)),
        )

    async def _ask(self, fact: PolledFact[Any]) -> None:
        live, viewer = self._live, self._viewer()
        if fact is PRESENCE:
            self._announced = viewer.screen, viewer.selected
        try:
            answer = await self._app.live.ask(lambda client: fact.call(client, viewer))
        except BackendUnreachable:
            # The streams notice, and say so.
            return
        except KshuntError as error:
            if fact.dispensable(error):
                return
            if live.scene.unanswered.get(fact.name) != error.message:
                live.tell(AnswerFailed(fact.name, error.message))
        else:
            scene = live.scene
            known = scene.answered(fact) and scene.answer(fact) == answer
            if not known or fact.name in scene.unanswered:
                live.tell(AnswerArrived(fact.name, answer))
        finally:
            self._open.discard(fact.name)

    def _viewer(self) -> Viewer:
        screen, selected = self._app.seen
        return Viewer(self._app.store.session, who_am_i(), screen, selected)

    def _look_elsewhere(self, now_s: float) -> None:
        """Tell others soon what is looked at, where that is something else."""
        asked_s = self._asked_s.get(PRESENCE.name)
        elsewhere = self._announced not in (None, self._app.seen)
        if elsewhere and asked_s is not None and now_s - asked_s >= LOOKED_S:
            del self._asked_s[PRESENCE.name]

    async def leave(self) -> None:
        """Tell others that this dashboard has ended, if the backend answers within `LEAVE_S`."""
        session = self._app.store.session
        if self._announced is None:
            return
        with suppress(KshuntError, TimeoutError):
            gone = self._app.live.ask(lambda client: client.presence.announce(session, leaves=True))
            await asyncio.wait_for(gone, LEAVE_S)

    async def audit(self, operation_id: str) -> None:
        """Ask for the history of an operation that is shown; in the past, ask nothing."""
        if self._playback.past:
            return
        try:
            lines = await self._app.live.ask(lambda client: client.audit.lines(operation_id))
        except KshuntError:
            return
        if self._live.scene.audits.get(operation_id) != lines:
            self._live.tell(AuditArrived(operation_id, lines))


def _throttled(facts: Facts | None) -> bool | None:
    """Whether any throttle is set; None where that is not known."""
    if facts is None:
        return None
    from kshunt.tui.facts.progress import throttled

    return throttled(facts)


def _tables(pipeline_status: PipelineStatus | None) -> frozenset[str]:
    """The tables of the data pipeline in which there is anything."""
    tables = () if pipeline_status is None else pipeline_status.tables
    return frozenset(one.table for one in tables if one.newest_ms is not None)
