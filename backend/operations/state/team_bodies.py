"""Proposals, and what people said about an operation, as bodies of journal entries, and back.

Strict on the way back, as `kshunt.backend.operations.state.operation_body`: who reads half of a
proposal must not act upon it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from kshunt.backend.domain.operations.approval import Person, ProposalState, ProposedChange
from kshunt.backend.domain.operations.team import Claim, Note, Team
from kshunt.backend.domain.service.journal import UnreadableReason
from kshunt.backend.operations.journal.entries import Body, Entry, Unreadable
from kshunt.backend.operations.state.reassignment_work import MALFORMED, TIME_MS_MAX, whole

FORMAT: Final = 1
_TEXTS: Final = (
    *("id", "action", "subject", "summary", "reason", "fingerprint", "settled_by"),
    *("settled_reason", "operation_id", "outcome"),
)
_NUMBERS: Final = ("proposed_ms", "expires_ms")
_PROPOSAL: Final = frozenset(
    {*_TEXTS, *_NUMBERS, "format", "proposer", "body", "foreseen", "state", "settled_ms"}
)
_T = TypeVar("_T", str, int)


def proposal_body(proposal: ProposedChange) -> Body:
    """For an entry of the journal."""
    return {
        "format": FORMAT,
        **{name: getattr(proposal, name) for name in (*_TEXTS, *_NUMBERS)},
        "proposer": {"name": proposal.proposer.name, "credential": proposal.proposer.credential},
        "body": dict(proposal.body),
        "foreseen": list(proposal.foreseen),
        "state": proposal.state.value,
        "settled_ms": proposal.settled_ms,
    }


def read_proposal(entry: Entry) -> ProposedChange | Unreadable:
    """The opposite of `proposal_body`."""
    try:
        proposal = _proposal(_versioned(entry.body, _PROPOSAL))
        if entry.key != f"proposal/{proposal.id}":
            raise ValueError("it has the id of another one")
        return proposal
    except _Newer:
        return Unreadable(
            entry.key, UnreadableReason.NEWER, "It is of a later version of kshunt: upgrade it."
        )
    except MALFORMED as error:
        return Unreadable(
            entry.key, UnreadableReason.DAMAGED, f"The proposal cannot be understood: {error}."
        )


def _proposal(body: Body) -> ProposedChange:
    proposer = body["proposer"]
    plain: dict[str, Any] = {name: _of(str, body, name) for name in _TEXTS}
    plain |= {name: _of(int, body, name) for name in _NUMBERS}
    return ProposedChange(
        **plain,
        proposer=Person(_of(str, proposer, "name"), _of(str, proposer, "credential")),
        body=_object(body["body"]),
        foreseen=tuple(_of(str, {"line": line}, "line") for line in _list(body["foreseen"])),
        state=ProposalState(body["state"]),
        settled_ms=None if body["settled_ms"] is None else _of(int, body, "settled_ms"),
    )


def team_body(team: Team) -> Body:
    """For an entry of the journal."""
    claim = team.claim
    return {
        "format": FORMAT,
        "claim": None
        if claim is None
        else {"who": claim.who, "since_ms": claim.since_ms, "reason": claim.reason},
        "notes": [{"who": one.who, "at_ms": one.at_ms, "text": one.text} for one in team.notes],
    }


def read_team(entry: Entry) -> Team | Unreadable:
    """The opposite of `team_body`."""
    try:
        body = _versioned(entry.body, frozenset({"format", "claim", "notes"}))
        claim = body["claim"]
        return Team(
            None
            if claim is None
            else Claim(
                _of(str, claim, "who"), _of(int, claim, "since_ms"), _of(str, claim, "reason")
            ),
            tuple(
                Note(_of(str, one, "who"), _of(int, one, "at_ms"), _of(str, one, "text"))
                for one in _list(body["notes"])
            ),
        )
    except _Newer:
        return Unreadable(
            entry.key, UnreadableReason.NEWER, "It is of a later version of kshunt: upgrade it."
        )
    except MALFORMED as error:
        return Unreadable(entry.key, UnreadableReason.DAMAGED, f"It cannot be understood: {error}.")


class _Newer(Exception):
    pass


def _versioned(body: Body, names: frozenset[str]) -> Body:
    version = body.get("format")
    if type(version) is int and version > FORMAT:
        raise _Newer
    if type(version) is not int or version != FORMAT or set(body) != names:
        odd = ", ".join(sorted(set(body) ^ names)) or "format"
        raise ValueError(f"other fields than it must have: {odd}")
    return body


def _of(kind: type[_T], body: Any, name: str) -> _T:
    value = _object(body)[name]
    if type(value) is not kind:
        raise TypeError(f"{name} is no {'text' if kind is str else 'number'}")
    if isinstance(value, int):
        whole(value, TIME_MS_MAX)
    return value


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("a JSON object is missing")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a list is missing")
    return value
