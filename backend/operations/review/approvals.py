"""Proposals of changes that take two people: recorded, approved once, and carried out.

Goals
    A change that a rule gives to two people is carried out at most once, and as it was proposed. It
    is carried out only while the cluster is what the second person saw.
    `kshunt.backend.domain.operations.approval` has the rules.
Constraints
    The backend may end between any two steps, and another one continues.
Algorithm
    1. `propose` writes the request into the journal, with what it would do.
    2. `approve` finds out anew what it would do, and refuses where that is something else. Then it
       marks the proposal as used, in the journal, and only then carries it out. It uses the verb
       that an undivided request would have come to, which writes its own operation before its
       effect.
    3. `tidy` closes what is left. A used proposal that nobody is at work on was carried out if an
       operation bears its id. If none does, nothing of it was begun, for an operation is written
       before its first effect.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from kshunt.backend.clock import Clock
from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, Touched
from kshunt.backend.domain.operations.approval import (
    EXPIRED,
    NOTHING,
    SHOW_CREDENTIAL,
    UNKNOWN_PERSON,
    Person,
    ProposalEffect,
    ProposalState,
    ProposedChange,
    check_verb,
    requester_and_approver,
)
from kshunt.backend.domain.operations.change import AgreedChange
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.errors import BadInput, Conflict, KshuntError
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.two_person import TwoPersonKind, TwoPersonRule

log = logging.getLogger(__name__)

_BROKE_OFF: Final = (
    "the backend that was to carry it out ended, or could not write its journal, before it "
    "began: nothing was changed. Propose it again if it is still needed"
)


@dataclass(frozen=True, slots=True)
class ProposalDraft:
    """What is about to be proposed."""

    action: str
    subject: str
    summary: str
    body: Mapping[str, Any]
    foreseen: ProposalEffect
    operation_id: str = ""
    """Of an operation that it is about."""
    touched: Touched = field(default_factory=Touched)


@dataclass(frozen=True, slots=True)
class ProposalResult:
    """What came of a proposal that was carried out."""

    operation_id: str
    outcome: str
    """In words."""
    answer: Mapping[str, Any]
    """As an undivided request would have been answered."""


class ProposedAction(Protocol):
    """The change that a proposal is about."""

    async def foresee(self) -> ProposalEffect:
        """What it would do.

        Raises:
            KshuntError: it would be refused, or that cannot be found out.
        """
        ...

    async def carry_out(self, change: AgreedChange) -> ProposalResult:
        """Do it.

        Raises:
            KshuntError: it was refused, or it is not known what became of it.
        """
        ...


class Approvals:
    """See the module's text."""

    def __init__(self, registry: Registry, clock: Clock, rule: TwoPersonRule) -> None:
        self._registry = registry
        self._clock = clock
        self._rule = rule
        self._one = asyncio.Lock()
        """Held while it is decided whether a proposal is used."""
        self._busy: set[str] = set()
        """Ids of proposals that are being carried out here."""

    def takes_two(self, guarded: TwoPersonKind) -> bool:
        """Whether the rule gives such changes to two people."""
        return guarded in self._rule.guarded

    def listed(self) -> tuple[ProposedChange, ...]:
        """All that are remembered, newest first."""
        now_ms = self._clock.now_ms()
        found = reversed(tuple(self._registry.known.proposals.values()))
        return tuple(proposal.at(now_ms) for proposal in found)

    def get(self, proposal_id: str) -> ProposedChange:
        """The proposal of that id.

        Raises:
            BadInput: there is none.
        """
        proposal = self._registry.known.proposals.get(proposal_id)
        if proposal is None:
            raise BadInput(f"There is no proposal {proposal_id[:64]}. {NOTHING}")
        return proposal.at(self._clock.now_ms())

    # The four verbs

    async def propose(self, draft: ProposalDraft, by: Person, reason: str) -> ProposedChange:
        """Record what somebody wants done.

        Raises:
            Conflict: who asks cannot be told apart from others, or too many wait.
            NotActive, JournalFenced, JournalUnavailable: it was not recorded.
        """
        if not by.name:
            raise Conflict(UNKNOWN_PERSON, advice=SHOW_CREDENTIAL)
        now_ms = self._clock.now_ms()
        async with self._one:
            waiting = [one for one in self.listed() if one.state is ProposalState.WAITING]
            if len(waiting) >= LIMITS.proposals_waiting:
                raise Conflict(
                    f"{len(waiting)} proposals are already waiting, which is the maximum. "
                    f"{NOTHING}",
                    advice="Approve or reject some of them: kshunt proposals list.",
                )
            proposal = ProposedChange(
                id=secrets.token_hex(4),
                action=draft.action,
                subject=draft.subject,
                summary=draft.summary,
                proposer=by,
                reason=reason,
                proposed_ms=now_ms,
                expires_ms=now_ms + round(self._rule.expiry_s * 1000),
                body=draft.body,
                foreseen=draft.foreseen.lines,
                fingerprint=draft.foreseen.fingerprint,
                operation_id=draft.operation_id,
            )
            words = f"{draft.summary}; it expires {moment_text(proposal.expires_ms)}"
            line = self._line(proposal, AuditEvent.PROPOSED, words, by.name, reason)
            await self._put(proposal, replace(line, touched=draft.touched))
        return proposal

    async def foresee(self, proposal_id: str, deed: ProposedAction) -> ProposalEffect:
        """What a proposal would do, by the cluster as it is.

        Raises:
            KshuntError: it would be refused.
        """
        return _compared(await deed.foresee(), self.get(proposal_id))

    async def reject(self, proposal_id: str, by: Person, reason: str) -> ProposedChange:
        """Say that it is not to be done.

        Raises:
            BadInput: there is no such proposal, or no reason.
            Conflict: it is settled already, or one's own.
            NotActive, JournalFenced, JournalUnavailable: it was not recorded.
        """
        if not reason.strip():
            raise BadInput(
                f"Give the reason why proposal {proposal_id[:64]} is rejected. {NOTHING}"
            )
        return await self._closed(proposal_id, "reject", ProposalState.REJECTED, by, reason)

    async def withdraw(self, proposal_id: str, by: Person, reason: str) -> ProposedChange:
        """Take back one's own.

        Raises:
            BadInput: there is no such proposal.
            Conflict: it is settled already, or somebody else's.
            NotActive, JournalFenced, JournalUnavailable: it was not recorded.
        """
        return await self._closed(proposal_id, "withdraw", ProposalState.WITHDRAWN, by, reason)

    async def _closed(
        self, proposal_id: str, verb: str, state: ProposalState, by: Person, reason: str
    ) -> ProposedChange:
        async with self._one:
            proposal = self.get(proposal_id)
            check_verb(proposal, verb, by, self._clock.now_ms())
            after = self._by(proposal, state, by, reason)
            event = AuditEvent(state.value)
            await self._put(after, self._line(after, event, after.summary, by.name, reason))
        return after

    async def approve(
        self, proposal_id: str, by: Person, reason: str, agreed: str, deed: ProposedAction
    ) -> tuple[ProposedChange, ProposalResult]:
        """Let it happen, and see to it.

        Args:
            proposal_id: which.
            by: the second person.
            reason: their words, or empty.
            agreed: the fingerprint of what they saw; empty for what was proposed.
            deed: the change.

        Raises:
            BadInput: there is no such proposal, or the cluster's state makes it senseless.
            Conflict: it takes another person, is settled already, would be refused, or would do
                something else than what was agreed to. Where it was not used before, it waits on.
            NotActive, JournalFenced, JournalUnavailable: it was not recorded; nothing was changed.
            KshuntError: it was used, and not carried out, or it is not known whether.
        """
        check_verb(self.get(proposal_id), "approve", by, self._clock.now_ms())
        foreseen = await deed.foresee()
        async with self._one:
            # Finding that out took a while, and others may have been quicker.
            proposal = self.get(proposal_id)
            check_verb(proposal, "approve", by, self._clock.now_ms())
            _check_same(proposal, foreseen, agreed)
            used = self._by(proposal, ProposalState.APPROVED, by, reason)
            words = f"{used.summary}, proposed by {used.proposer.name}"
            self._busy.add(proposal_id)
            try:
                self._registry.require()
                await self._put(used, self._line(used, AuditEvent.APPROVED, words, by.name, reason))
            except BaseException:
                self._busy.discard(proposal_id)
                raise
        try:
            return await self._carried_out(used, by, deed)
        finally:
            self._busy.discard(proposal_id)

    async def _carried_out(
        self, used: ProposedChange, by: Person, deed: ProposedAction
    ) -> tuple[ProposedChange, ProposalResult]:
        try:
            done = await deed.carry_out(agreed_change(used, by))
        except KshuntError as error:
            # Where it is not known whether its operation was written, `tidy` finds that out: one
            # that was is gone on with.
            if not self._registry.in_doubt:
                begun = self._borne_by(used) or ""
                await self._close(used, ProposalState.FAILED, begun, str(error))
            raise
        after = await self._close(used, ProposalState.DONE, done.operation_id, done.outcome)
        return after, done

    # What is left

    async def tidy(self) -> None:
        """Close what is too old, and what was used by a backend that ended; for the one that acts.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not recorded; later it is.
        """
        # Whether an operation bears a proposal is asked of what is known here.
        await self._registry.resolve()
        now_ms = self._clock.now_ms()
        async with self._one:
            for proposal in tuple(self._registry.known.proposals.values()):
                if proposal.at(now_ms).state is not proposal.state:
                    line = self._line(proposal, AuditEvent.EXPIRED, EXPIRED)
                    await self._put(proposal.at(now_ms), line)
                elif proposal.state is ProposalState.APPROVED and proposal.id not in self._busy:
                    await self._close_broken_off(proposal)

    async def _close_broken_off(self, proposal: ProposedChange) -> None:
        operation_id = self._borne_by(proposal)
        if operation_id is None:
            await self._close(proposal, ProposalState.FAILED, "", _BROKE_OFF)
        else:
            words = f"operation {operation_id} was started; its result is listed there"
            await self._close(proposal, ProposalState.DONE, operation_id, words)

    def _borne_by(self, proposal: ProposedChange) -> str | None:
        """The operation that a proposal came to, by what the journal says."""
        for operation in self._registry:
            if operation.details.proposal == proposal.id:
                return operation.id
        work = self._registry.shrink(proposal.subject)
        agreed = work is not None and f"proposal {proposal.id}" in work.confirmed
        return proposal.subject if agreed else None

    async def _close(
        self, proposal: ProposedChange, state: ProposalState, operation_id: str, outcome: str
    ) -> ProposedChange:
        after = proposal.to(
            state,
            self._clock.now_ms(),
            outcome=outcome,
            operation_id=operation_id or proposal.operation_id,
        )
        line = self._line(after, AuditEvent.CARRIED_OUT, f"{state}: {outcome}")
        try:
            await self._put(after, line)
        except KshuntError as error:
            # What was done is in the journal by itself; `tidy` closes this later.
            log.warning("Proposal %s is not closed yet: %s", proposal.id, error)
        return after

    def _by(
        self, proposal: ProposedChange, state: ProposalState, by: Person, reason: str
    ) -> ProposedChange:
        now_ms = self._clock.now_ms()
        return proposal.to(state, now_ms, settled_by=by.name, settled_reason=reason)

    def _line(
        self,
        proposal: ProposedChange,
        event: AuditEvent,
        words: str,
        who: str = "",
        reason: str = "",
    ) -> AuditEntry:
        people = requester_and_approver(proposal.proposer.name, proposal.settled_by)
        return AuditEntry(
            *(0, 0, event, proposal.operation_id, proposal.action),
            who=who or (people if proposal.settled_by else proposal.proposer.name),
            reason=reason,
            outcome=f"proposal {proposal.id}: {words}",
        )

    async def _put(self, proposal: ProposedChange, line: AuditEntry) -> None:
        self._registry.require()
        await self._registry.put_proposal(proposal, line)


def agreed_change(proposal: ProposedChange, by: Person) -> AgreedChange:
    """What was proposed, as a change of its proposer and of `by`, who approves it."""
    approved = f"approved: {proposal.settled_reason}" if proposal.settled_reason else ""
    people = (proposal.proposer.name, by.name)
    return AgreedChange(
        who=requester_and_approver(*people),
        reason="; ".join(filter(None, (proposal.reason, approved))),
        proposal=proposal.id,
        people=people,
    )


def _compared(foreseen: ProposalEffect, proposal: ProposedChange) -> ProposalEffect:
    return replace(foreseen, changed=foreseen.fingerprint != proposal.fingerprint)


def _check_same(proposal: ProposedChange, foreseen: ProposalEffect, agreed: str) -> None:
    if foreseen.fingerprint == (agreed or proposal.fingerprint):
        return
    raise Conflict(
        f"The cluster has changed: proposal {proposal.id} would have another effect than the one "
        f"{'looked at' if agreed else 'proposed'}. {NOTHING} It would: {_first(foreseen.lines)}.",
        advice="Check what it would do now and approve that, or reject it.",
    )


def _first(lines: Sequence[str]) -> str:
    return "; ".join(lines[:3]) or "change nothing"
