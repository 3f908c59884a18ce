"""JSON of what people who share a backend say to each other; without a web framework or numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.domain.operations.approval import Person, ProposalEffect, ProposedChange, ShownProposal
from backend.domain.operations.team import Claim, ConnectedSession, Note, Presence

Json = dict[str, Any]

_SAME = (
    *("id", "action", "subject", "summary", "reason", "proposed_ms", "expires_ms"),
    *("settled_by", "settled_reason", "settled_ms", "operation_id", "outcome"),
)


def proposal_json(proposal: ProposedChange, reader: Person, now_ms: int) -> Json:
    """A proposal, with what its reader may do with it."""
    seen = proposal.at(now_ms)
    return {
        **{name: getattr(seen, name) for name in _SAME},
        "state": seen.state.value,
        "who": seen.proposer.name,
        "foreseen": list(seen.foreseen),
        "actions": list(seen.can_be(reader, now_ms)),
    }


def read_proposal(document: Mapping[str, Any]) -> ShownProposal:
    """The opposite of `proposal_json`."""
    return ShownProposal(
        **{name: document[name] for name in (*_SAME, "state", "who")},
        foreseen=tuple(document["foreseen"]),
        actions=tuple(document["actions"]),
    )


def foreseen_json(foreseen: ProposalEffect) -> Json:
    """What a proposal would do."""
    return {
        "lines": list(foreseen.lines),
        "notes": list(foreseen.notes),
        "fingerprint": foreseen.fingerprint,
        "changed": foreseen.changed,
    }


def read_foreseen(document: Mapping[str, Any]) -> ProposalEffect:
    """The opposite of `foreseen_json`."""
    return ProposalEffect(
        tuple(document["lines"]),
        tuple(document["notes"]),
        document["fingerprint"],
        document["changed"],
    )


def claim_json(claim: Claim | None) -> Json | None:
    """Who steers an operation."""
    if claim is None:
        return None
    return {"who": claim.who, "since_ms": claim.since_ms, "reason": claim.reason}


def read_claim(document: Mapping[str, Any] | None) -> Claim | None:
    """The opposite of `claim_json`."""
    if document is None:
        return None
    return Claim(document["who"], document["since_ms"], document["reason"])


def note_json(note: Note) -> Json:
    """One note."""
    return {"who": note.who, "at_ms": note.at_ms, "text": note.text}


def read_note(document: Mapping[str, Any]) -> Note:
    """The opposite of `note_json`."""
    return Note(document["who"], document["at_ms"], document["text"])


def present_json(one: ConnectedSession) -> Json:
    """One who is here."""
    return {
        "session": one.session,
        "who": one.who,
        "screen": one.screen,
        "selected": one.selected,
        "since_ms": one.since_ms,
    }


def presence_json(presence: Presence) -> Json:
    """Who is here, and whom the backend takes the reader for."""
    return {"you": presence.you, "present": [present_json(one) for one in presence.present]}


def read_presence(document: Mapping[str, Any]) -> Presence:
    """The opposite of `presence_json`."""
    return Presence(tuple(ConnectedSession(**one) for one in document["present"]), document["you"])
