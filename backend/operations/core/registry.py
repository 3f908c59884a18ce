"""What the backends of one cluster were asked to do: known here, and written in the journal.

Goals
    Nothing that was asked is lost: an operation, its throttles and a line of the audit are in the
    journal before the first effect, all of them or none.
Constraints
    Only the backend that acts may write. A backend that follows shows what it reads.
Algorithm
    `put` writes in one transaction and then takes over what was written; so what is known here is
    never ahead of the journal. `load` takes over what another backend wrote. What cannot be read
    is kept apart: it is shown, and neither acted upon nor written over.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, Protocol

from msgspec import structs

from kshunt.backend.clock import Clock
from kshunt.backend.domain.audit.lines import AuditEntry
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.scoring.milestones import Kept
from kshunt.backend.domain.operations.approval import ProposedChange
from kshunt.backend.domain.operations.change import UNKNOWN_REQUESTER, Requester
from kshunt.backend.domain.operations.operation import (
    NO_DETAILS,
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.operations.team import Team
from kshunt.backend.errors import Conflict, JournalUnavailable, KshuntError, NotActive
from kshunt.backend.limits import LIMITS
from kshunt.backend.offload import offload
from kshunt.backend.operations.audit.forecast_lines import forecast_line, tally_line
from kshunt.backend.operations.audit.lines import next_number
from kshunt.backend.operations.audit.operation_steps import changed_line, line_of, step_line
from kshunt.backend.operations.core.known_operations import KnownOperations, known_operations
from kshunt.backend.operations.journal.entries import (
    Body,
    Entry,
    EntryKind,
    JournalState,
    forecasts_key,
    operation_key,
    proposal_key,
    team_key,
)
from kshunt.backend.operations.journal.port import retired
from kshunt.backend.operations.ownership.ownership import Ownership
from kshunt.backend.operations.state.forecast_steps import turned_out
from kshunt.backend.operations.state.operation_body import operation_body, read_operation_body
from kshunt.backend.operations.state.ownership_documents import changed_documents
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.state.shrink_work import ShrinkWork
from kshunt.backend.operations.state.team_bodies import forecasts_body, proposal_body, team_body


class JournalWriter(Protocol):
    """Who may write the journal; `kshunt.backend.operations.lease.membership.Membership` is one."""

    @property
    def state(self) -> JournalState:
        """What is committed."""
        ...

    def require(self) -> None:
        """Return only where this backend may change the cluster now.

        Raises:
            NotActive: it may not.
        """
        ...

    async def wait_while_paused(self) -> None:
        """Return once this backend may act again, is fenced, or has waited for long enough."""
        ...

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """Write all of the entries or none; returns once every in-sync replica has them."""
        ...


_INTENT: Final[ContextVar[str]] = ContextVar("intent", default="")
"""The operation that the running request has written, and that has not gone further; or empty."""


def _note_intent(written: Operation) -> None:
    """What the running request has written of an operation."""
    if written.state is OperationState.STARTING:
        _INTENT.set(written.id)
    elif _INTENT.get() == written.id:
        _INTENT.set("")


def _stopped_after(intent: str, refused: NotActive) -> NotActive:
    """Why a request stops that has written its intent: what it asked for may yet be done."""
    return NotActive(
        f"This backend stopped being active after it wrote operation {intent} into the journal. "
        f"The backend that acts next completes operation {intent}, or ends it and says why.",
        advice=f"Look at operation {intent} before you repeat the request.",
        active=refused.active,
    )


class Registry:
    """See the module's text. Without a scribe nothing is written: for a tool that ends with its
    answer and leaves nothing behind."""

    def __init__(
        self,
        clock: Clock,
        changed: Callable[[Operation], None],
        scribe: JournalWriter | None = None,
        backend: str = "",
        proposed: Callable[[ProposedChange], None] = lambda proposal: None,
    ) -> None:
        """The registry calls `changed` with every new or different operation, and `proposed` with
        every new or different proposal; `backend` is our id."""
        self._clock = clock
        self._changed = changed
        self._proposed = proposed
        self._scribe = scribe
        self._backend = backend
        self._known = KnownOperations()
        self.in_doubt = False
        """True where a write may have succeeded and is not known here."""
        self._writing = asyncio.Lock()
        """One transaction at a time: an election is held while the engine ticks."""

    def __iter__(self) -> Iterator[Operation]:
        """Newest first."""
        return iter(reversed(tuple(self._known.operations.values())))

    @property
    def known(self) -> KnownOperations:
        """All that is known."""
        return self._known

    @property
    def ownership(self) -> Ownership:
        """Whose the throttles are."""
        return self._known.ownership

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Operations that have not ended, oldest first."""
        return tuple(o.id for o in self._known.operations.values() if not o.state.ended)

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """Partitions that wait for their turn in operations that have not ended."""
        works = (self._known.works.get(id) for id in self.unfinished)
        return frozenset(one for work in works if work is not None for one in work.waiting)

    def get(self, operation_id: str) -> Operation | None:
        """The operation of that id, or None."""
        return self._known.operations.get(operation_id)

    def work(self, operation_id: str) -> ReassignmentWork | None:
        """What the engine remembers of a reassignment, or None."""
        return self._known.works.get(operation_id)

    def shrink(self, operation_id: str) -> ShrinkWork | None:
        """What the engine remembers of a shrink, or None."""
        return self._known.shrinks.get(operation_id)

    def team(self, operation_id: str) -> Team:
        """What people said about an operation."""
        return self._known.teams.get(operation_id, Team())

    def forecasts(self, operation_id: str) -> Kept:
        """What was forecast of an operation, and how it turned out."""
        return self._known.forecasts.get(operation_id, ())

    def require(self) -> None:
        """Return only where this backend may change the cluster; to be asked before each effect.

        Raises:
            NotActive: it may not. It names the operation that this request has written before.
        """
        if self._scribe is None:
            return
        try:
            self._scribe.require()
        except NotActive as refused:
            if intent := _INTENT.get():
                raise _stopped_after(intent, refused) from refused
            raise

    def draft(
        self,
        kind: OperationKind,
        summary: str,
        *,
        requester: Requester = UNKNOWN_REQUESTER,
        partitions: tuple[TopicPartition, ...] = (),
        throttle_bytes_per_s: int | None = None,
        auto_remove_throttle: bool = True,
        details: OperationDetails = NO_DETAILS,
        requested: Mapping[str, str] | None = None,
    ) -> Operation:
        """An operation that nobody knows of yet, in state STARTING."""
        return Operation(
            id=secrets.token_hex(4),
            kind=kind,
            state=OperationState.STARTING,
            started_ms=self._clock.now_ms(),
            summary=summary,
            partitions=partitions,
            throttle_bytes_per_s=throttle_bytes_per_s,
            auto_remove_throttle=auto_remove_throttle,
            details=structs.replace(
                details, requested=requested or None, proposal=requester.proposal
            ),
            who=requester.who,
            reason=requester.reason,
        )

    async def begin(
        self,
        kind: OperationKind,
        summary: str,
        *,
        requester: Requester = UNKNOWN_REQUESTER,
        details: OperationDetails = NO_DETAILS,
        requested: Mapping[str, str] | None = None,
        ownership: Ownership | None = None,
    ) -> Operation:
        """A new operation that ends with its answer, in state STARTING: the intent.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not written; nothing may be done.
        """
        operation = self.draft(
            kind, summary, requester=requester, details=details, requested=requested
        )
        await self.put(operation, ownership=ownership)
        return operation

    async def move(
        self,
        operation_id: str,
        state: OperationState,
        outcome: str = "",
        throttles: tuple[str, ...] | None = None,
    ) -> Operation:
        """Put an operation into another state; `throttles` as in `put`.

        Raises:
            Conflict: the move is not legal.
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        operation = self._known.operations[operation_id]
        after = operation.to(state, at_ms=self._clock.now_ms(), outcome=outcome)
        await self.put(after, throttles=throttles)
        return after

    def set_outcome(self, operation_id: str, outcome: str, *, is_progress: bool = False) -> None:
        """Say how an operation goes that has not ended; it is not written.

        `is_progress`: the words only say how far it is, and ask nothing of anybody.
        """
        operation = self.get(operation_id)
        if operation is None or operation.state.ended:
            return
        after = operation.with_outcome(outcome, is_progress=is_progress)
        if after != operation:
            self._take(after, None, None, self.ownership)

    async def put(
        self,
        operation: Operation,
        work: ReassignmentWork | None = None,
        ownership: Ownership | None = None,
        *,
        shrink: ShrinkWork | None = None,
        throttles: tuple[str, ...] | None = None,
        asked: Requester | None = None,
    ) -> None:
        """Write an operation, its work and whose the throttles are; None leaves what was there.

        `throttles` is what the line of the audit says of them; None: what `ownership` decides.
        `asked` is who asked for a change of a running operation; the audit has a line of it.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: nothing of it may be acted upon.
        """
        async with self._writing:
            before = self._known.operations.get(operation.id)
            current_work = work or self.work(operation.id)
            was = self.shrink(operation.id)
            owned = self.ownership if ownership is None else ownership
            size, shrinks = (
                0 if current_work is None else len(current_work.moves),
                (was, shrink or was),
            )
            both, us = (self.ownership, owned), self._backend
            entries, line = await offload(
                size, _step_entries, before, operation, current_work, shrinks, both, us, throttles
            )
            line = line if asked is None else changed_line(operation, both, us, asked)
            kept = self._turned_out(before, operation, current_work)
            entries |= {forecasts_key(id): forecasts_body(one) for id, one in kept.items()}
            tally = tally_line(before, operation, {**self._known.forecasts, **kept}, us)
            # The last line of an operation is that of its end.
            entries |= self._lines(*filter(None, (tally, line)))
            teams = self._without_claim(operation)
            entries |= {team_key(id): team_body(team) for id, team in teams.items()}
            await self._write(entries)
            _note_intent(operation)
            self._know(
                teams={**self._known.teams, **teams}, forecasts={**self._known.forecasts, **kept}
            )
            self._take(operation, work, shrink, owned)
            if operation.state.ended:
                await self._retire()
        if self._scribe is not None:
            # Effects follow, and a write that took long may have held up the heartbeat.
            await self._scribe.wait_while_paused()

    def _without_claim(self, operation: Operation) -> Mapping[str, Team]:
        """What has to be written where an operation ends that somebody steers: nobody does."""
        team = self.team(operation.id)
        if not operation.state.ended or team.claim is None:
            return {}
        return {operation.id: replace(team, claim=None)}

    def _turned_out(
        self, before: Operation | None, after: Operation, work: ReassignmentWork | None
    ) -> Mapping[str, Kept]:
        """What has to be written where a step says how forecasts turned out."""
        kept = self.forecasts(after.id)
        if before is None or before.state is after.state or not kept:
            return {}
        found = turned_out(kept, after.state, work, self._clock.now_ms())
        return {} if found == kept else {after.id: found}

    async def save_ownership(self, ownership: Ownership) -> None:
        """Write whose the throttles are.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        if ownership == self.ownership:
            return
        async with self._writing:
            moves = sum(len(self._known.works[id].moves) for id in self._known.works)
            if changed := await offload(moves, changed_documents, self.ownership, ownership):
                await self._write(changed)
            self._known = replace(self._known, ownership=ownership)

    async def put_team(self, operation: Operation, team: Team, line: AuditEntry) -> None:
        """Write what people said about an operation, with its line of the audit.

        Raises:
            Conflict: the operation is forgotten, or what is in the journal there cannot be read;
                nothing was written.
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        async with self._writing:
            newest = self._known.operations.get(operation.id)
            if newest is None:
                # Forgotten while this waited for its turn; nobody would ever remove what is said.
                raise Conflict(f"Operation {operation.id} is forgotten. Nothing was written.")
            if newest.state.ended:
                # It ended while this waited for its turn.
                team = replace(team, claim=None)
            placed = self._lines(replace(line, backend=self._backend))
            await self._write({team_key(operation.id): team_body(team), **placed})
            self._know(teams={**self._known.teams, operation.id: team})
        self._changed(newest)

    async def put_forecasts(self, operation_id: str, kept: Kept) -> None:
        """Write what is forecast of an operation that runs; a new one with a line of the audit.

        Nothing is written where it has left RUNNING since: a step says how forecasts turned out.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        async with self._writing:
            operation, before = self.get(operation_id), self.forecasts(operation_id)
            if operation is None or operation.state is not OperationState.RUNNING:
                return
            new = kept[len(before) :]
            lines = [forecast_line(operation, one, self._backend) for one in new]
            entry = {forecasts_key(operation_id): forecasts_body(kept)}
            await self._write({**entry, **self._lines(*lines)})
            self._know(forecasts={**self._known.forecasts, operation_id: kept})
        self._changed(operation)

    async def tell(self, line: AuditEntry) -> None:
        """Write a line of the audit that belongs to no step.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        async with self._writing:
            await self._write(self._lines(replace(line, backend=self._backend)))

    @property
    def audit(self) -> tuple[Body, ...]:
        """The bodies of the audit's lines, in their order."""
        return tuple(entry.body for _, entry in sorted(self._state.of(EntryKind.AUDIT).items()))

    async def put_proposal(self, proposal: ProposedChange, line: AuditEntry) -> None:
        """Write a proposal with its line of the audit, and drop those that ended long ago.

        Raises:
            Conflict: what is in the journal there cannot be read; nothing was written.
            NotActive, JournalFenced, JournalUnavailable: it was not written.
        """
        async with self._writing:
            proposals = {**self._known.proposals, proposal.id: proposal}
            ended = [one for one in proposals.values() if one.state.ended]
            # One that waited for long is news when it ends.
            ended.sort(key=lambda one: one.settled_ms or 0)
            gone = [one.id for one in ended[: max(0, len(ended) - LIMITS.proposals_kept)]]
            entries: dict[str, Body | None] = {
                proposal_key(proposal.id): proposal_body(proposal),
                **self._lines(replace(line, backend=self._backend)),
                **{proposal_key(one): None for one in gone},
            }
            await self._write(entries)
            for one in gone:
                del proposals[one]
            self._know(proposals=proposals)
        self._proposed(proposal)

    def _know(self, **news: Any) -> None:
        self._known = replace(self._known, **news)

    def _lines(self, *lines: AuditEntry) -> dict[str, Body | None]:
        """Entries of these lines, in their order."""
        entries: dict[str, Body | None] = {}
        after: tuple[int, int] | None = None
        for line in lines:
            after = next_number(self._state, self._clock.now_ms(), after=after)
            placed = replace(line, time_ms=after[0], number=after[1])
            entries[placed.key] = placed.body()
        return entries

    def load(self, state: JournalState) -> None:
        """Take over what the journal says, and report to the listeners what is new or different."""
        before = self._known
        self._known = known_operations(state)
        for operation in self._known.operations.values():
            same = before.teams.get(operation.id, Team()) == self.team(operation.id)
            same &= before.forecasts.get(operation.id, ()) == self.forecasts(operation.id)
            if before.operations.get(operation.id) != operation or not same:
                self._changed(operation)
        for proposal in self._known.proposals.values():
            if before.proposals.get(proposal.id) != proposal:
                self._proposed(proposal)

    @property
    def _state(self) -> JournalState:
        return JournalState() if self._scribe is None else self._scribe.state

    async def resolve(self) -> None:
        """Find out what became of a write whose answer was lost, and take that over.

        Call it before you decide anything. A write that took hold although its caller did not hear
        so is an intent like any other: the engine continues it.

        Raises:
            NotActive, JournalFenced, JournalUnavailable: it is not known yet.
        """
        if self.in_doubt and self._scribe is not None:
            async with self._writing:
                await self._scribe.append({})
                self.in_doubt = False
                self.load(self._scribe.state)

    async def _write(self, entries: Mapping[str, Body | None]) -> None:
        if self._scribe is None:
            return
        try:
            await self._scribe.append(entries)
        except JournalUnavailable as failed:
            self.in_doubt = self.in_doubt or failed.written is not False
            raise

    def _take(
        self,
        operation: Operation,
        work: ReassignmentWork | None,
        shrink: ShrinkWork | None,
        ownership: Ownership,
    ) -> None:
        """Take over what was written; None leaves what was there."""
        operations = {**self._known.operations, operation.id: operation}
        works, shrinks = dict(self._known.works), dict(self._known.shrinks)
        teams, forecasts = dict(self._known.teams), dict(self._known.forecasts)
        if work is not None:
            works[operation.id] = work
        if shrink is not None:
            shrinks[operation.id] = shrink
        ended = [o.id for o in operations.values() if o.state.ended]
        for operation_id in ended[: max(0, len(ended) - LIMITS.operations_kept)]:
            del operations[operation_id]
            for about in (works, shrinks, teams, forecasts):
                about.pop(operation_id, None)
        self._know(
            operations=operations,
            works=works,
            shrinks=shrinks,
            teams=teams,
            forecasts=forecasts,
            ownership=ownership,
        )
        self._changed(operation)

    async def _retire(self) -> None:
        """Remove the oldest from the journal; what cannot be removed now is removed later."""
        if gone := retired(self._state, self._has_ended):
            try:
                await self._write(gone)
            except KshuntError:
                return

    def _has_ended(self, entry: Entry) -> bool:
        """Whether an operation may be forgotten; one that cannot be read may not."""
        known = self.get(entry.key.removeprefix(f"{EntryKind.OPERATION}/"))
        if known is not None:
            return known.state.ended
        try:
            return read_operation_body(entry.body).operation.state.ended
        except KshuntError:
            return False


def _step_entries(
    before: Operation | None,
    after: Operation,
    work: ReassignmentWork | None,
    shrink: tuple[ShrinkWork | None, ShrinkWork | None],
    owned: tuple[Ownership, Ownership],
    backend: str,
    throttles: tuple[str, ...] | None,
) -> tuple[dict[str, Body | None], AuditEntry | None]:
    """What to write of an operation and of whose the throttles are, and its line of the audit.

    `shrink` and `owned` are those before and after; `throttles` as `Registry.put`.
    """
    entries: dict[str, Body | None] = {
        operation_key(after.id): operation_body(after, work, shrink[1]),
        **(changed_documents(*owned) if owned[0] is not owned[1] else {}),
    }
    line = line_of(before, after, work, owned, backend, throttles)
    return entries, line or step_line(*shrink, after, backend)
