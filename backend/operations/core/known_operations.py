"""What the journal's entries amount to, at one moment.

What cannot be read is kept apart: it is shown, and neither acted upon nor written over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.forecast.scoring.kept_forecasts import KeptForecast
from kshunt.backend.domain.operations.approval import ProposalState, ProposedChange
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.operations.team import Team
from kshunt.backend.errors import KshuntError
from kshunt.backend.operations.journal.entries import EntryKind, JournalState, Unreadable
from kshunt.backend.operations.ownership.ownership import Ownership
from kshunt.backend.operations.state.operation_body import read_operation
from kshunt.backend.operations.state.ownership_documents import readable
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.state.shrink_work import ShrinkWork
from kshunt.backend.operations.state.team_bodies import (
    read_forecasts,
    read_proposal,
    read_team,
)


@dataclass(frozen=True, slots=True)
class KnownOperations:
    """All that is known at one moment."""

    operations: Mapping[str, Operation] = field(default_factory=dict)
    """By id, oldest first."""
    works: Mapping[str, ReassignmentWork] = field(default_factory=dict)
    """By operation id, of reassignments."""
    shrinks: Mapping[str, ShrinkWork] = field(default_factory=dict)
    """By operation id, of shrinks."""
    teams: Mapping[str, Team] = field(default_factory=dict)
    """By operation id: who steers it, and notes."""
    forecasts: Mapping[str, tuple[KeptForecast, ...]] = field(default_factory=dict)
    """By operation id, in the order in which they were made."""
    proposals: Mapping[str, ProposedChange] = field(default_factory=dict)
    """By id, oldest first."""
    ownership: Ownership = field(default_factory=Ownership)
    unreadable: Mapping[str, Unreadable] = field(default_factory=dict)
    """Entries that are listed and not acted upon, by key."""
    aside: Mapping[str, Unreadable] = field(default_factory=dict)
    """Entries that no backend of ours wrote; they hold back nothing."""


def has_unfinished(state: JournalState) -> bool:
    """Whether the journal holds an operation that this kshunt can continue, or an approved proposal
    whose outcome no backend has written."""
    known = known_operations(state)
    approved = any(one.state is ProposalState.APPROVED for one in known.proposals.values())
    return approved or any(not operation.state.ended for operation in known.operations.values())


def known_operations(state: JournalState) -> KnownOperations:
    """What the journal's entries amount to."""
    operations: list[Operation] = []
    works: dict[str, ReassignmentWork] = {}
    shrinks: dict[str, ShrinkWork] = {}
    unreadable = dict(state.unreadable)
    for operation_id, entry in state.of(EntryKind.OPERATION).items():
        try:
            found = read_operation(operation_id, entry.body)
        except KshuntError as error:
            unreadable[entry.key] = Unreadable(entry.key, UnreadableReason.DAMAGED, str(error))
            continue
        operations.append(found.operation)
        works |= {} if found.work is None else {operation_id: found.work}
        shrinks |= {} if found.shrink is None else {operation_id: found.shrink}
    teams, proposals = _said(state, unreadable)
    forecasts = _forecasts(state, unreadable)
    throttles = {
        entry.key: entry.body
        for kind in (EntryKind.BROKER_THROTTLE, EntryKind.TOPIC_THROTTLE)
        for entry in state.of(kind).values()
    }
    ownership, problems = readable(throttles)
    unreadable |= {
        key: Unreadable(key, UnreadableReason.DAMAGED, str(e)) for key, e in problems.items()
    }
    operations.sort(key=lambda operation: (operation.started_ms, operation.id))
    listed = {operation.id: operation for operation in operations}
    return KnownOperations(
        listed, works, shrinks, teams, forecasts, proposals, ownership, unreadable, state.aside
    )


def _forecasts(
    state: JournalState, unreadable: dict[str, Unreadable]
) -> dict[str, tuple[KeptForecast, ...]]:
    """What was forecast of operations; what cannot be read of it is added to `unreadable`."""
    found = {}
    for operation_id, entry in state.of(EntryKind.FORECASTS).items():
        kept = read_forecasts(entry)
        if isinstance(kept, Unreadable):
            unreadable[entry.key] = kept
        else:
            found[operation_id] = kept
    return found


def _said(
    state: JournalState, unreadable: dict[str, Unreadable]
) -> tuple[dict[str, Team], dict[str, ProposedChange]]:
    """What people said and proposed; what cannot be read of it is added to `unreadable`."""
    teams, found = {}, []
    for operation_id, entry in state.of(EntryKind.TEAM).items():
        team = read_team(entry)
        if isinstance(team, Team):
            teams[operation_id] = team
        else:
            unreadable[entry.key] = team
    for entry in state.of(EntryKind.PROPOSAL).values():
        proposal = read_proposal(entry)
        if isinstance(proposal, ProposedChange):
            found.append(proposal)
        else:
            unreadable[entry.key] = proposal
    found.sort(key=lambda proposal: (proposal.proposed_ms, proposal.id))
    return teams, {proposal.id: proposal for proposal in found}
