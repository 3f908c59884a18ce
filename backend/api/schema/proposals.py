"""Changes that take two people, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshunt.backend.api.schema.base import Json
from kshunt.backend.domain.operations.approval import (
    Person,
    ProposalEffect,
    ProposedChange,
    ShownProposal,
)

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
