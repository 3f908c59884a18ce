"""The intent that approves what somebody else proposed.

Pure, as `kshunt.tui.changes.intents.reassignment`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.operations.approval import ShownProposal
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.data.team import left_text

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.operations.approval import ProposalEffect

LOSSES: Final[Mapping[str, str]] = {
    "unclean_election": "What the elected replica has not copied is LOST for good.",
    "delete_partitions": "The deleted records are LOST: nothing is copied.",
    "cut_over": "This cannot be undone.",
}
"""By what is proposed; nothing is lost by the start of a shrink."""


def approve_intent(target: TargetCluster, proposal: ShownProposal, now_ms: int) -> Intent:
    """Let what another one proposed happen."""

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        if change.validate_only:
            return rehearsed(client.proposals.foresee(proposal.id))
        _, answer = client.proposals.approve(proposal.id, replace(change, who=""))
        return answer

    def preview(client: BackendClient) -> Preview:
        foreseen = client.proposals.foresee(proposal.id)
        warnings = tuple(warnings_of(proposal, foreseen))
        return Preview(f"{proposal.summary}.", warnings, foreseen.fingerprint)

    return Intent(
        title=f"Approve proposal {proposal.id}",
        button="Approve it",
        target=target,
        touches=(
            ("Proposed by", proposal.who),
            ("Why", proposal.reason or "-"),
            ("Expires in", left_text(proposal, now_ms)),
        ),
        send=send,
        preview=preview,
        effect="It happens immediately, as it was proposed, and once. The audit names both of you.",
        typed=(proposal.id,),
    )


def warnings_of(proposal: ShownProposal, foreseen: ProposalEffect) -> Iterator[str]:
    """What the person who approves it must not overlook: a table cuts long texts."""
    if foreseen.changed:
        yield "It would have another effect than when it was proposed."
    if proposal.action in LOSSES:
        yield LOSSES[proposal.action]
    if len(foreseen.lines) == 1:
        yield foreseen.lines[0]


def rehearsed(foreseen: ProposalEffect) -> ChangeAnswer:
    """What a proposal would do, as every other change says it."""
    # An older backend says it in lines alone.
    results = foreseen.results or tuple(Result(one, 0, "NONE", "") for one in foreseen.lines)
    return ChangeAnswer(True, None, results, foreseen.notes)
