"""Proposals, what people said about an operation, and what was forecast of it, as bodies of
journal entries, and back.

Strict on the way back, as `kshunt.backend.operations.state.operation_body`: who reads half of a
proposal must not act upon it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.forecast.scoring.kept_forecasts import KeptForecast
from kshunt.backend.domain.operations.approval import ProposedChange
from kshunt.backend.domain.operations.team import Team
from kshunt.backend.domain.untrusted.json_codec import read_exactly, to_document
from kshunt.backend.operations.journal.entries import Body, Entry, Unreadable
from kshunt.backend.operations.state.reassignment_work import MALFORMED

FORMAT: Final = 1
_ENDS_MOVED: Final = "wander"
"""In the place of `writes`, until ranges were told apart by what is written."""
_T = TypeVar("_T")


def proposal_body(proposal: ProposedChange) -> Body:
    """For an entry of the journal."""
    return {"format": FORMAT, **to_document(proposal)}


def read_proposal(entry: Entry) -> ProposedChange | Unreadable:
    """The opposite of `proposal_body`."""
    found = _read(ProposedChange, entry)
    if isinstance(found, ProposedChange) and entry.key != f"proposal/{found.id}":
        return _damaged(entry, "it has the id of another one")
    return found


def team_body(team: Team) -> Body:
    """For an entry of the journal."""
    return {"format": FORMAT, **to_document(team)}


def read_team(entry: Entry) -> Team | Unreadable:
    """The opposite of `team_body`."""
    return _read(Team, entry)


@dataclass(frozen=True, slots=True)
class _KeptForecasts:
    kept: tuple[KeptForecast, ...]


def forecasts_body(kept: tuple[KeptForecast, ...]) -> Body:
    """For an entry of the journal."""
    return {"format": FORMAT, **to_document(_KeptForecasts(kept))}


def read_forecasts(entry: Entry) -> tuple[KeptForecast, ...] | Unreadable:
    """The opposite of `forecasts_body`, also of those that say how their ends moved."""
    kept = entry.body.get("kept")
    if isinstance(kept, list):
        kept = [_with_writes(one) for one in kept]
        entry = replace(entry, body={**entry.body, "kept": kept})
    found = _read(_KeptForecasts, entry)
    return found if isinstance(found, Unreadable) else found.kept


def _with_writes(one: Any) -> Any:
    """A forecast as it is written now: earlier ones do not say what was written."""
    if not isinstance(one, dict) or _ENDS_MOVED not in one:
        return one
    return {**{name: one[name] for name in one if name != _ENDS_MOVED}, "writes": "some"}


def _read(kind: type[_T], entry: Entry) -> _T | Unreadable:
    document: dict[str, Any] = {**entry.body}
    version = document.pop("format", None)
    if type(version) is int and version > FORMAT:
        words = "A later version of kshunt wrote it: upgrade this one."
        return Unreadable(entry.key, UnreadableReason.NEWER, words)
    if type(version) is not int or version != FORMAT:
        return _damaged(entry, "its format does not exist")
    try:
        return read_exactly(kind, document)
    except MALFORMED as error:
        return _damaged(entry, str(error))


def _damaged(entry: Entry, why: str) -> Unreadable:
    return Unreadable(entry.key, UnreadableReason.DAMAGED, f"It cannot be understood: {why}.")
