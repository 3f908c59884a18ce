"""Proposals without a cluster: a journal in memory, people, a change that counts its effects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.domain.audit.lines import AuditEntry
from kshunt.backend.domain.operations.approval import Person, ProposalEffect, ProposedChange
from kshunt.backend.domain.operations.change import AgreedChange, Requester
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.errors import Conflict, JournalUnavailable, NotActive
from kshunt.backend.operations.audit.lines import read_audit
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.journal.entries import Body, Entry, EntryHeader, JournalState
from kshunt.backend.operations.journal.port import check_append
from kshunt.backend.operations.review.approvals import Approvals, ProposalDraft, ProposalResult
from kshunt.backend.two_person import TwoPersonKind, TwoPersonRule
from tests.support.clocks import StoppedClock

EXPIRY_S: Final = 600.0
RULE: Final = TwoPersonRule(frozenset(TwoPersonKind), EXPIRY_S)
ADA, BOB, EVE = (Person(name, f"token-{name}") for name in ("ada", "bob", "eve"))
PEOPLE: Final = {person.name: person for person in (ADA, BOB, EVE)}


class Crash(BaseException):
    """The backend is gone."""


@dataclass(eq=False)
class Book:
    """The journal, in memory; of one writer."""

    state: JournalState = field(default_factory=JournalState)
    active: bool = True
    written: int = 0
    """How often anything was."""
    fault: str = ""
    """What happens at the next append: `refused`, `doubt`, `before` or `after` it is committed, or
    `stopped`: another backend acts from then on."""

    def require(self) -> None:
        if not self.active:
            raise NotActive("Another backend is active. Nothing was changed.")

    async def wait_while_paused(self) -> None:
        """It is never paused."""

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        self.require()
        check_append(self.state, entries, replacing)
        fault, self.fault = self.fault if entries else "", "" if entries else self.fault
        if fault == "before":
            raise Crash
        if fault == "refused":
            raise JournalUnavailable("The journal did not answer. Nothing was written.")
        self.commit(entries)
        if fault == "after":
            raise Crash
        if fault == "stopped":
            self.active = False
        if fault == "doubt":
            raise JournalUnavailable("The journal's answer was lost.", written=None)

    def commit(self, entries: Mapping[str, Body | None]) -> None:
        """Write, whatever was there."""
        merged = dict(self.state.entries)
        self.written += 1
        for key, body in entries.items():
            merged.pop(key, None)
            if body is not None:
                merged[key] = Entry(key, body, EntryHeader("here", "one", self.written))
        self.state = JournalState(merged, self.state.unreadable)


@dataclass(eq=False)
class Effects:
    """What was done to the cluster, by the id of the proposal; and when, by the clock."""

    done: list[tuple[str, int, Requester]] = field(default_factory=list)
    fingerprint: str = "f"
    """Of what it would do; a test changes it, as others change a cluster."""
    fault: str = ""
    """`refused`, or a crash `before` the operation is written, or `after` that."""


@dataclass(eq=False)
class Deed:
    """A deed: it writes its operation, and then has its effect."""

    registry: Registry
    effects: Effects
    clock: StoppedClock

    async def foresee(self) -> ProposalEffect:
        return ProposalEffect(("orders-0: lost",), (), self.effects.fingerprint)

    async def carry_out(self, change: AgreedChange) -> ProposalResult:
        fault, self.effects.fault = self.effects.fault, ""
        if fault == "refused":
            raise Conflict("Broker 1 leads. Nothing was changed.")
        if fault == "before":
            raise Crash
        operation = await self.registry.begin(
            OperationKind.ELECTION, "an election", requester=change.requester
        )
        self.effects.done.append((change.proposal, self.clock.now_ms(), change.requester))
        if fault == "after":
            raise Crash
        await self.registry.move(operation.id, OperationState.DONE, "done")
        return ProposalResult(operation.id, "1 of 1 done", {"operation_id": operation.id})


class Side:
    """One backend on a journal; made anew after a crash."""

    def __init__(
        self, book: Book, clock: StoppedClock, effects: Effects, rule: TwoPersonRule = RULE
    ) -> None:
        self.book, self.clock, self.effects = book, clock, effects
        self.announced: list[ProposedChange] = []
        self.registry = Registry(clock, lambda operation: None, book, "one", self.announced.append)
        self.registry.load(book.state)
        self.approvals = Approvals(self.registry, clock, rule)

    @property
    def change(self) -> Deed:
        return Deed(self.registry, self.effects, self.clock)

    async def propose(self, by: Person = ADA, reason: str = "disks died") -> ProposedChange:
        foreseen = await self.change.foresee()
        draft = ProposalDraft(
            "unclean_election", "", "UNCLEAN election", {"partitions": []}, foreseen
        )
        return await self.approvals.propose(draft, by, reason)

    async def approve(
        self, id: str, by: Person = BOB, agreed: str = "", reason: str = "seen"
    ) -> ProposedChange:
        found, _ = await self.approvals.approve(id, by, reason, agreed, self.change)
        return found

    def audit(self) -> list[AuditEntry]:
        """The lines, oldest first."""
        return [row for row in read_audit(self.book.state) if isinstance(row, AuditEntry)]


def side() -> Side:
    """A backend on an empty journal."""
    return Side(Book(), StoppedClock(1_700_000_000_000), Effects())
