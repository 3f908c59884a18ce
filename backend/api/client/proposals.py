"""The client's part for changes that take two people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.api.schema.proposals import ApprovedProposal, Proposals
from kshunt.backend.domain.operations.approval import ProposalEffect, ShownProposal
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.delete_partitions import ShrinkAnswer
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.domain.untrusted.json_codec import from_document
from kshunt.backend.errors import AwaitsApproval

PROPOSED: Final = 202


class ProposalsClient(Requests):
    """Those that wait, and what became of others."""

    def proposals(self) -> tuple[ShownProposal, ...]:
        """Those that wait, and what became of others, newest first."""
        return self._ask(Proposals, "/v1/proposals").proposals

    def foresee_proposal(self, proposal_id: str) -> ProposalEffect:
        """What a proposal would do, by the cluster as it is.

        Raises:
            BackendError: it would be refused (`status` 409), or there is none (422).
        """
        return self._ask(ProposalEffect, f"{_proposal(proposal_id)}/preview")

    def approve_proposal(
        self,
        proposal_id: str,
        *,
        preview: str = "",
        cluster_id: str | None = None,
        reason: str = "",
    ) -> tuple[ShownProposal, ChangeAnswer]:
        """Let it happen; what became of it, and of each of its items.

        Args:
            proposal_id: which.
            preview: the fingerprint of what was looked at; empty for what was proposed.
            cluster_id: of the cluster that is meant.
            reason: for the audit.

        Raises:
            BackendError: it takes another person, is settled, or would do something else (409).
        """
        body = {"preview": preview, "cluster_id": cluster_id, "reason": reason}
        # It may take as long as what was proposed was given.
        path = f"{_proposal(proposal_id)}/approve"
        found = self._send(ApprovedProposal, path, body, endless=True)
        return found.proposal, _change(found.answer)

    def reject_proposal(
        self, proposal_id: str, *, cluster_id: str | None = None, reason: str
    ) -> ShownProposal:
        """Say why it shall not happen."""
        body = {"cluster_id": cluster_id, "reason": reason}
        return self._send(ShownProposal, f"{_proposal(proposal_id)}/reject", body)

    def withdraw_proposal(
        self, proposal_id: str, *, cluster_id: str | None = None, reason: str = ""
    ) -> ShownProposal:
        """Take back one's own."""
        body = {"cluster_id": cluster_id, "reason": reason}
        return self._send(ShownProposal, f"{_proposal(proposal_id)}/withdraw", body)


def _change(answer: Mapping[str, Any]) -> ChangeAnswer:
    """The answer of any change that takes two people; one of KIP-694 names partitions."""
    if "results" in answer:
        return from_document(ChangeAnswer, answer)
    return from_document(ShrinkAnswer, answer).as_change()


def _proposal(proposal_id: str) -> str:
    return f"/v1/proposals/{quote(proposal_id, safe='')}"


def raise_if_proposed(status: int, document: Any) -> None:
    """Say of a change that it waits for somebody else.

    Raises:
        AwaitsApproval: it does.
    """
    if status != PROPOSED:
        return
    proposal = from_document(ShownProposal, document)
    raise AwaitsApproval(
        f"Nothing was changed yet: this takes two people. It was proposed as {proposal.id} "
        f"({proposal.summary}).",
        advice=f"Somebody else, an admin, approves it until {moment_text(proposal.expires_ms)}: "
        f"`kshunt proposals show {proposal.id}`, or in the dashboard's list of proposals.",
        proposal_id=proposal.id,
    )
