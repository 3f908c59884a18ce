"""What is worth a message of changes that take two people: two looks at them compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kshunt.backend.domain.operations.approval import ProposalState, ProposedChange
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.notify.message import WORDS_MAX, News

_ENDED: Final[Mapping[ProposalState, str]] = {
    ProposalState.DONE: "was approved by {by} and carried out",
    ProposalState.FAILED: "was approved by {by}, but could not be carried out",
    ProposalState.REJECTED: "was rejected by {by}",
    ProposalState.WITHDRAWN: "was withdrawn",
    ProposalState.EXPIRED: "expired: nobody approved it in time",
}


def proposal_news(
    before: Mapping[str, ProposalState], found: Iterable[ProposedChange]
) -> Iterator[News]:
    """Those that wait and did not stand there before, and those that have ended since.

    Args:
        before: The states at the last look, by id; empty at the first.
        found: All that are remembered, as they are at this moment.
    """
    for one in found:
        known = before.get(one.id)
        if known is None and one.state is ProposalState.WAITING:
            yield _news(one, "proposal.waiting", _waits(one))
        elif known is not None and one.state in _ENDED and known not in _ENDED:
            yield _news(one, "proposal.ended", _has_ended(one))


def _waits(one: ProposedChange) -> str:
    why = f" ({one.reason})" if one.reason else ""
    return (
        f"Proposal {one.id} of {one.proposer.name} waits for a second person until "
        f"{moment_text(one.expires_ms)}: {one.summary}{why}"
    )


def _has_ended(one: ProposedChange) -> str:
    how = _ENDED[one.state].format(by=one.settled_by)
    said = one.settled_reason if one.state is ProposalState.REJECTED else ""
    if one.state in (ProposalState.DONE, ProposalState.FAILED):
        said = one.outcome
    return f"Proposal {one.id} {how}: {one.summary}{f' ({said})' if said else ''}"


def _news(one: ProposedChange, kind: str, text: str) -> News:
    data: dict[str, Any] = {
        "id": one.id,
        "action": one.action,
        "subject": one.subject,
        "summary": one.summary[:WORDS_MAX],
        "who": one.proposer.name,
        "reason": one.reason[:WORDS_MAX],
        "state": one.state.value,
        "proposed_ms": one.proposed_ms,
        "expires_ms": one.expires_ms,
        "settled_by": one.settled_by,
        "settled_reason": one.settled_reason[:WORDS_MAX],
        "operation_id": one.operation_id,
        "outcome": one.outcome[:WORDS_MAX],
    }
    return News(kind, text, {"proposal": data}, f"proposal {one.id}")
