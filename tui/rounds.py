"""What no stream tells, asked again and again: who acts, what has drifted, what is left over.

Drift is asked for while an operation runs, orphans while the throttles are in sight and some
stand. An idle cluster is asked for neither: both read the configuration of brokers and topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from backend.errors import BackendUnreachable, KshuntError
from tui.store import ConnectionState
from tui.views import OPERATIONS, THROTTLES

if TYPE_CHECKING:
    from backend.api.client import BackendClient
    from tui.app import KshuntApp

STANDING: Final = "who acts"
DRIFT: Final = "drift"
ORPHANS: Final = "orphan throttles"
EVERY_S: Final[Mapping[str, float]] = {STANDING: 5.0, DRIFT: 2.0, ORPHANS: 5.0}
AUDITS_KEPT: Final = 32
TICK_S: Final = 0.5
"""How often it is looked whether a question is due."""

_QUESTIONS: Final[Mapping[str, Callable[[BackendClient], Any]]] = {
    STANDING: lambda client: client.standing(),
    DRIFT: lambda client: client.drift(),
    ORPHANS: lambda client: client.orphans(),
}

_PLACES: Final[Mapping[str, str]] = {STANDING: "standing", DRIFT: "drift", ORPHANS: "orphans"}
"""Where the store keeps each answer."""


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


def wanted(moment: Moment) -> frozenset[str]:
    """What is worth asking at all."""
    if not moment.live:
        return frozenset()
    drift = {DRIFT} if moment.running else set()
    orphans = {ORPHANS} if moment.leftovers_matter else set()
    return frozenset({STANDING} | drift | orphans)


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
        if not moment.running:
            self._take(DRIFT, ())
        if store.snapshot is not None and not _throttles_stand(app):
            self._take(ORPHANS, ())
        for about in due(moment, self._asked_s):
            if about not in self._open:
                self._asked_s[about] = moment.now_s
                self._open.add(about)
                app.run_worker(self._ask(about), group="rounds")

    def _moment(self) -> Moment:
        app, store = self._app, self._app.store
        live = store.connection.state is ConnectionState.LIVE and store.snapshot is not None
        in_sight = app.current_mode in (THROTTLES, OPERATIONS) or bool(store.orphans)
        return Moment(store.now_s(), live, store.running, in_sight and _throttles_stand(app))

    async def _ask(self, about: str) -> None:
        store = self._app.store
        try:
            answer = await self._app.link.ask(_QUESTIONS[about])
        except BackendUnreachable:
            # The streams notice, and say so.
            return
        except KshuntError as error:
            if store.unanswered.get(about) != error.message:
                store.unanswered[about] = error.message
                self._app.changed.publish("")
        else:
            store.unanswered.pop(about, None)
            self._take(about, answer)
        finally:
            self._open.discard(about)

    async def audit(self, operation_id: str) -> None:
        """The history of one operation, for whoever looks at it."""
        audits = self._app.store.audits
        try:
            lines = await self._app.link.ask(lambda client: client.audit_lines(operation_id))
        except KshuntError:
            return
        audits.pop(operation_id, None)
        audits[operation_id] = lines
        while len(audits) > AUDITS_KEPT:
            del audits[next(iter(audits))]
        self._app.changed.publish("")

    def _take(self, about: str, answer: Any) -> None:
        """Show an answer where it is news."""
        app, store = self._app, self._app.store
        if getattr(store, _PLACES[about]) == answer:
            return
        setattr(store, _PLACES[about], answer)
        app.derive(app.current_mode)
        app.changed.publish("")


def _throttles_stand(app: KshuntApp) -> bool:
    facts = app.store.facts
    if facts is None:
        return False
    from tui.tables.progress import throttled

    return throttled(facts)
