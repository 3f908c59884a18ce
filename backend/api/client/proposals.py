"""The client's part for changes that take two people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kshunt.backend.api.client.sending.sender import UNCHECKED, Subject
from kshunt.backend.api.schema.proposals import ApprovedProposal, Proposals
from kshunt.backend.domain.operations.approval import ProposalEffect, ShownProposal
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.delete_partitions import ShrinkAnswer
from kshunt.backend.domain.untrusted.json_codec import from_document


class ProposalsClient(Subject):
    """Credentials say who settles one, and not the request."""

    def list(self) -> tuple[ShownProposal, ...]:
        """Those that wait, and what became of others, newest first."""
        return self._sender.ask(Proposals, "/v1/proposals").proposals

    def foresee(self, proposal_id: str) -> ProposalEffect:
        """What a proposal would do, by the cluster as it is.

        Raises:
            BackendError: it would be refused (`status` 409), or there is none (422).
        """
        return self._sender.ask(ProposalEffect, _path(proposal_id, "preview"))

    def approve(
        self, proposal_id: str, change: Change = ANONYMOUS_CHANGE
    ) -> tuple[ShownProposal, ChangeAnswer]:
        """Let it happen; what became of it, and of each of its items.

        Args:
            proposal_id: which.
            change: with a fingerprint where something else was looked at than what was proposed.

        Raises:
            BackendError: it takes another person, is settled, or would do something else (409).
        """
        path, omit = _path(proposal_id, "approve"), ("validate_only", "who")
        # It may take as long as what was proposed was given.
        found = self._sender.change(ApprovedProposal, path, change, {}, omit=omit, endless=True)
        return found.proposal, _change(found.answer)

    def reject(self, proposal_id: str, change: Change) -> ShownProposal:
        """Reject a proposal, and say why."""
        return self._decide(proposal_id, "reject", change)

    def withdraw(self, proposal_id: str, change: Change = ANONYMOUS_CHANGE) -> ShownProposal:
        """Take back one's own."""
        return self._decide(proposal_id, "withdraw", change)

    def _decide(self, proposal_id: str, verb: str, change: Change) -> ShownProposal:
        path, omit = _path(proposal_id, verb), (*UNCHECKED, "who")
        return self._sender.change(ShownProposal, path, change, {}, omit=omit)


def _change(answer: Mapping[str, Any]) -> ChangeAnswer:
    """The answer of any change that takes two people; one of KIP-694 names partitions."""
    if "results" in answer:
        return from_document(ChangeAnswer, answer)
    return from_document(ShrinkAnswer, answer).as_change()


def _path(proposal_id: str, verb: str) -> str:
    return f"/v1/proposals/{quote(proposal_id, safe='')}/{verb}"
