"""What an operator wants to see of a view, and what is needed to compute it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kshunt.tui.tables.model import NATURAL, Order

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.replicas.snapshot import Snapshot
    from kshunt.backend.domain.throttles.owners import OwnedThrottle, ShownDrift, ShownOrphan
    from kshunt.tui.facts.filter_terms import Term
    from kshunt.tui.facts.pending_rates import Pending
    from kshunt.tui.facts.replica_groups import GroupKey

PARTS: Final = "parts"
"""The group of the overview where its parts are shown."""


@dataclass(frozen=True, slots=True)
class Query:
    """What an operator wants to see of a view."""

    order: Order = NATURAL
    terms: tuple[Term, ...] = ()
    filter_text: str = ""
    """What was typed, from which `terms` were read."""
    follow: bool = False
    """Only replicas of partitions that move or ail."""
    chosen: bool = False
    """What led here has chosen what is shown, so that the view does not choose itself."""
    group: str = ""
    """What replicas are grouped by (`kshunt.tui.facts.replica_groups`); empty for one row a
    replica. Of brokers, which matrix is shown in their place
    (`kshunt.tui.views.brokers.matrix`). Of the
    overview, `PARTS` where there is room for its parts."""
    shift: int = 0
    """How many columns of a matrix the view leaves out at the left."""
    inside: GroupKey | None = None
    """The group that is opened: its replicas are shown, one row each."""
    opened_from: OpenedFrom | None = None
    """Where another view opened what is `inside`: the way back."""
    pending: Pending = ()
    """Rates that were typed or stepped to, and not asked for yet."""


class OpenedFrom(NamedTuple):
    """The way back from what another view opened."""

    view: str
    before: Query
    """What the operator wanted to see here before."""


@dataclass(frozen=True, slots=True)
class Job:
    """One table to be computed."""

    view: str
    query: Query
    snapshot: Snapshot
    operations: tuple[Operation, ...]
    now_ms: int
    """By the backend's clock."""
    past: bool = False
    """A moment of a recording, to which somebody may come from anywhere."""
    drift: tuple[ShownDrift, ...] = ()
    orphans: tuple[ShownOrphan, ...] = ()
    owned: tuple[OwnedThrottle, ...] | None = None
    """Whose the throttles are; None while nobody has said."""
