"""What no stream tells: one record for each fact that the dashboard asks a backend for.

A record says how the fact is asked for, how often, when it is worth asking, and which value holds
before the first answer. An idle cluster is not asked for drift, orphans or owners: a backend reads
the configuration of brokers and topics for them. Results of the data pipeline are asked for only
where there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from kshunt.backend.errors import BackendError, KshuntError
from kshunt.tui.actions.view_names import HISTORY, OPERATIONS, OVERVIEW, THROTTLES

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.audit.past_drift import PastDrift
    from kshunt.backend.domain.backend.backend_status import BackendStatus
    from kshunt.backend.domain.operations.approval import ShownProposal
    from kshunt.backend.domain.operations.team import Presence
    from kshunt.backend.domain.pipeline.delivered import (
        EffectRow,
        PipelinePast,
        PipelineStatus,
        Rows,
    )
    from kshunt.backend.domain.throttles.owners import OwnedThrottle, ShownDrift, ShownOrphan

T_co = TypeVar("T_co", covariant=True)

NOT_FOUND: Final = 404
FULL: Final = 409
"""The backend's answer when it can remember no further people."""
EFFECT: Final = "throttle_effect"
"""A table of results, by its name."""


@dataclass(frozen=True, slots=True)
class PollingState:
    """What decides which facts are polled."""

    now_s: float
    live: bool
    """The backend answers, and the cluster is known."""
    running: bool
    """An operation has not ended."""
    throttles_set: bool | None = None
    """Whether any throttle is set; None where that is not known."""
    orphans_known: bool = False
    """The last answer named orphan throttles."""
    view: str = ""
    """The view in sight; empty while that shows the past."""
    tables: frozenset[str] = frozenset()
    """Tables of the data pipeline in which there is anything."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The dashboard that asks: who sits at it, and what is in sight there."""

    session: str
    who: str
    screen: str
    selected: str


def _always(state: PollingState) -> bool:
    return True


def _never(state: object) -> bool:
    return False


@dataclass(frozen=True, eq=False)
class PolledFact(Generic[T_co]):
    """One fact that is asked for again and again."""

    name: str
    """As recordings have it, and as an operator reads it where it cannot be read."""
    call: Callable[[BackendClient, Viewer], T_co]
    interval_s: float
    unknown: T_co
    """The value before the first answer."""
    wanted: Callable[[PollingState], bool] = _always
    """Whether it is worth asking, while the backend answers."""
    void: Callable[[PollingState], bool] = _never
    """Whether there can be nothing of the kind any more: the answer is `()` then, unasked."""
    dispensable: Callable[[KshuntError], bool] = _never
    """Whether nothing is wrong with a backend that refuses it like this."""

    def due(self, state: PollingState, asked_s: float) -> bool:
        """Whether to ask now, if it was asked for at `asked_s` last."""
        wanted = state.live and self.wanted(state)
        return wanted and state.now_s - asked_s >= self.interval_s


def _of_throttles(state: PollingState) -> bool:
    looked_at = state.orphans_known or state.view in (OVERVIEW, THROTTLES, OPERATIONS)
    return looked_at and state.throttles_set is True


def _no_throttles(state: PollingState) -> bool:
    return state.throttles_set is False


def _unknown_to_backend(error: KshuntError) -> bool:
    return isinstance(error, BackendError) and error.status == NOT_FOUND


def _be_present(client: BackendClient, viewer: Viewer) -> Presence:
    try:
        return client.presence.announce(
            viewer.session, who=viewer.who, screen=viewer.screen, selected=viewer.selected
        )
    except BackendError as error:
        if error.status != FULL:
            raise
        # The name by which it knows this operator is worth asking all the same.
        return client.presence.list()


BACKEND_STATUS: Final[PolledFact[BackendStatus | None]] = PolledFact(
    "who acts", lambda client, _: client.backend_status(), interval_s=5.0, unknown=None
)
DRIFT: Final[PolledFact[tuple[ShownDrift, ...]]] = PolledFact(
    "drift",
    lambda client, _: client.throttles.drift(),
    interval_s=2.0,
    unknown=(),
    wanted=lambda state: state.running,
    void=lambda state: not state.running,
)
"""Throttles of ours that somebody else changed."""
ORPHANS: Final[PolledFact[tuple[ShownOrphan, ...]]] = PolledFact(
    "orphan throttles",
    lambda client, _: client.throttles.orphans(),
    interval_s=5.0,
    unknown=(),
    wanted=_of_throttles,
    void=_no_throttles,
)
"""Throttles that no move justifies."""
OWNED: Final[PolledFact[tuple[OwnedThrottle, ...] | None]] = PolledFact(
    "owners of throttles",
    lambda client, _: client.throttles.owned(),
    interval_s=5.0,
    unknown=None,
    wanted=_of_throttles,
    void=_no_throttles,
)
PIPELINE: Final[PolledFact[PipelineStatus | None]] = PolledFact(
    "the data pipeline", lambda client, _: client.pipeline.status(), interval_s=10.0, unknown=None
)
EFFECTS: Final[PolledFact[Rows[EffectRow] | None]] = PolledFact(
    "what throttles did",
    lambda client, _: client.pipeline.effects(),
    interval_s=30.0,
    unknown=None,
    wanted=lambda state: state.view == THROTTLES and EFFECT in state.tables,
)
DELIVERED: Final[PolledFact[PipelinePast | None]] = PolledFact(
    "results of the pipeline",
    lambda client, _: client.pipeline.past(),
    interval_s=30.0,
    unknown=None,
    wanted=lambda state: state.view == HISTORY and bool(state.tables),
)
"""What the pipeline delivered of the past."""
PRESENCE: Final[PolledFact[Presence | None]] = PolledFact(
    "who is here", _be_present, interval_s=5.0, unknown=None, dispensable=lambda error: True
)
"""Who is connected to the backend; asking is being present. An earlier backend does not know."""
PROPOSALS: Final[PolledFact[tuple[ShownProposal, ...]]] = PolledFact(
    "proposals",
    lambda client, _: client.proposals.list(),
    interval_s=5.0,
    unknown=(),
    dispensable=_unknown_to_backend,
)
"""Changes that take two people, newest first; an earlier backend has none."""
PAST_DRIFT: Final[PolledFact[PastDrift | None]] = PolledFact(
    "drift of the last day",
    lambda client, _: client.throttles.past_drift(),
    interval_s=60.0,
    unknown=None,
    wanted=lambda state: state.view == OVERVIEW and not state.running,
    dispensable=_unknown_to_backend,
)
"""What the audit says of drift, for the home screen of an idle cluster; an earlier backend has no
such answer."""
POLLED: Final[tuple[PolledFact[Any], ...]] = (
    BACKEND_STATUS,
    DRIFT,
    ORPHANS,
    OWNED,
    PIPELINE,
    EFFECTS,
    DELIVERED,
    PRESENCE,
    PROPOSALS,
    PAST_DRIFT,
)


def due(
    state: PollingState, asked_s: Mapping[str, float], unanswered: Collection[str] = ()
) -> tuple[PolledFact[Any], ...]:
    """The facts whose time has come, by when each was asked for last.

    A fact whose question is `unanswered` is not asked for again.
    """
    return tuple(
        fact
        for fact in POLLED
        if fact.name not in unanswered and fact.due(state, asked_s.get(fact.name, float("-inf")))
    )
