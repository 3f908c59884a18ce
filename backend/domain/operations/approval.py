"""Changes that take two people: proposed by one, approved by another, carried out once.

Goals
    Nobody carries out alone what a rule gives to two people. What is carried out is what was
    proposed, and what the second person saw; and that at most once, whatever fails.
Constraints
    Pure. Who somebody is, is what the backend has found out, never what a request says.
Algorithm
    A proposal waits until it is approved, rejected, withdrawn, or too old. It is marked as used
    before it is carried out: from then on nobody can use it, also where the backend ends before
    it has done anything. `TRANSITIONS` are all moves that there are.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from kshunt.backend.domain.reassignment.answers import Result
from kshunt.backend.domain.text.formatting import duration_text
from kshunt.backend.domain.untrusted.json_codec import TimeMs
from kshunt.backend.errors import Conflict


class ProposalState(enum.StrEnum):
    """The state of a proposal."""

    WAITING = "waiting"
    """For somebody else than who proposed it."""
    APPROVED = "approved"
    """Used: it is being carried out."""
    DONE = "done"
    """It was carried out; its operation says how that went."""
    FAILED = "failed"
    """It was approved, and could not be carried out."""
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"

    @property
    def ended(self) -> bool:
        """True where nothing more can come of it."""
        return not TRANSITIONS[self]


_W, _A = ProposalState.WAITING, ProposalState.APPROVED
_ENDS: Final = frozenset({ProposalState.DONE, ProposalState.FAILED})
TRANSITIONS: Final[Mapping[ProposalState, frozenset[ProposalState]]] = {
    state: frozenset() for state in ProposalState
} | {
    _W: frozenset(
        {_A, ProposalState.REJECTED, ProposalState.WITHDRAWN, ProposalState.EXPIRED},
    ),
    _A: _ENDS,
}
"""The legal moves; `ProposedChange.to` is the only way to make one."""


@dataclass(frozen=True, slots=True)
class Person:
    """The person who asks, as a backend has identified them."""

    name: str
    """A token's name, or the subject that an identity provider confirms."""
    credential: str
    """The same for all requests of one credential."""

    def is_same(self, other: Person) -> bool:
        """Whether both may be one person: by credential, or by name in any spelling."""
        names = self.name.casefold(), other.name.casefold()
        return self.credential == other.credential or names[0] == names[1]


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """One change that waits for a second person, or did."""

    id: str
    action: str
    """What it is, in one word: `unclean_election`, `shrink`, `cut_over`, `delete_partitions`."""
    subject: str
    """What the request's path named, a topic or an operation; empty where it named nothing."""
    summary: str
    """One line for an operator: what it is about."""
    proposer: Person
    reason: str
    """Why, in the proposer's words."""
    proposed_ms: TimeMs
    expires_ms: TimeMs
    body: Mapping[str, Any]
    """The request, which is carried out as it is."""
    foreseen: tuple[str, ...] = ()
    """What it would have done when it was proposed, a line each."""
    fingerprint: str = ""
    """Of the facts that the preview was made from; a change in them gives another one."""
    state: ProposalState = ProposalState.WAITING
    settled_by: str = ""
    """Who approved, rejected or withdrew it."""
    settled_reason: str = ""
    settled_ms: TimeMs | None = None
    operation_id: str = ""
    """Of the operation that it is about, or else of the one that carried it out."""
    outcome: str = ""
    """What came of it, in words."""

    def at(self, now_ms: int) -> ProposedChange:
        """As it is at a time: one that waits for too long is dead, whether or not that is written.

        Args:
            now_ms: milliseconds since the epoch.
        """
        if self.state is _W and now_ms >= self.expires_ms:
            return self.to(ProposalState.EXPIRED, self.expires_ms, outcome=EXPIRED)
        return self

    def to(self, state: ProposalState, at_ms: int, **said: Any) -> ProposedChange:
        """This proposal in another state.

        Raises:
            Conflict: the move is not in `TRANSITIONS`.
        """
        if state not in TRANSITIONS[self.state]:
            raise Conflict(
                f"Proposal {self.id} is {self.state} and cannot become {state}. {NOTHING}"
            )
        settled = at_ms if self.state is _W else self.settled_ms
        return replace(self, state=state, settled_ms=settled, **said)

    def can_be(self, person: Person, now_ms: int) -> tuple[str, ...]:
        """What a person with the role for it may do with this proposal: verbs."""
        if self.at(now_ms).state is not _W or not person.name:
            return ()
        return ("withdraw",) if person.is_same(self.proposer) else ("approve", "reject")


NOTHING: Final = "Nothing was changed."
UNKNOWN_PERSON: Final = (
    f"This change needs a second person, and this backend cannot tell who you are. {NOTHING}"
)
SHOW_CREDENTIAL: Final = "Use a credential of your own."
EXPIRED: Final = "nobody approved it in time"


def check_verb(proposal: ProposedChange, verb: str, person: Person, now_ms: int) -> None:
    """Return only where somebody may approve, reject or withdraw a proposal.

    Raises:
        Conflict: it is settled or too old, or it takes another person.
    """
    seen = proposal.at(now_ms)
    if seen.state is ProposalState.EXPIRED:
        late = duration_text((now_ms - proposal.expires_ms) / 1000)
        raise Conflict(
            f"Proposal {proposal.id} expired {late} ago: {EXPIRED}. {NOTHING}",
            advice="Propose it again.",
        )
    if seen.state is not _W:
        by = f" by {seen.settled_by}" if seen.settled_by else ""
        raise Conflict(
            f"Proposal {proposal.id} was {_SETTLED[seen.state]}{by}. A proposal can be used once. "
            f"{NOTHING}",
            advice=f"Its result: {seen.outcome}." if seen.outcome else "",
        )
    if verb in proposal.can_be(person, now_ms):
        return
    if not person.name:
        raise Conflict(UNKNOWN_PERSON, advice=SHOW_CREDENTIAL)
    if verb == "withdraw":
        raise Conflict(
            f"{proposal.proposer.name} proposed {proposal.id}, and only they can withdraw it. "
            f"{NOTHING}",
            advice="Reject it.",
        )
    raise Conflict(
        f"{proposal.proposer.name} proposed {proposal.id}: another person must {verb} it, with a "
        f"credential and a name of their own. {NOTHING}",
        advice="Ask another person, or withdraw it.",
    )


_SETTLED: Final[Mapping[ProposalState, str]] = {
    ProposalState.APPROVED: "approved",
    ProposalState.DONE: "approved",
    ProposalState.FAILED: "approved",
    ProposalState.REJECTED: "rejected",
    ProposalState.WITHDRAWN: "withdrawn",
}


def requester_and_approver(proposer: str, approver: str) -> str:
    """Who asks for what two people agreed to: `ada, approved by bob`."""
    return f"{proposer[:NAME_MAX]}, approved by {approver[:NAME_MAX]}"


NAME_MAX: Final = 90
"""Of each of two names, so that the audit has room for both."""


@dataclass(frozen=True, slots=True)
class ShownProposal:
    """A proposal as a backend shows it to one caller."""

    id: str
    action: str
    subject: str
    summary: str
    state: ProposalState
    who: str
    """Who proposed it."""
    reason: str
    proposed_ms: int
    expires_ms: int
    foreseen: tuple[str, ...] = ()
    settled_by: str = ""
    settled_reason: str = ""
    settled_ms: TimeMs | None = None
    operation_id: str = ""
    outcome: str = ""
    actions: tuple[str, ...] = ()
    """What this caller may do with it: `approve` and `reject`, or `withdraw`."""

    @classmethod
    def of(cls, proposal: ProposedChange, reader: Person, now_ms: int) -> ShownProposal:
        """A proposal as `reader` may see it now."""
        seen = proposal.at(now_ms)
        same = {one.name: getattr(seen, one.name) for one in fields(cls) if hasattr(seen, one.name)}
        return cls(**same, who=seen.proposer.name, actions=seen.can_be(reader, now_ms))

    @property
    def waiting(self) -> bool:
        """Whether it waits for somebody."""
        return self.state is _W


@dataclass(frozen=True, slots=True)
class ProposalEffect:
    """The effect of a proposal, by the cluster at one moment."""

    lines: tuple[str, ...] = ()
    """Item by item in words, the first of them."""
    notes: tuple[str, ...] = ()
    fingerprint: str = ""
    """Sent with the approval, which is rejected if the cluster has changed since then."""
    changed: bool = False
    """Whether its effect differs from the time when it was proposed."""
    results: tuple[Result, ...] = ()
    """The expected result of each item."""
