"""Who steers an operation, and what people remark on it.

Goals
    Two people at two terminals do not steer one operation against each other without knowing it.
Constraints
    Soft: a person who may steer can take over, with a reason that the audit keeps. A name is what
    the credential says; where no credentials are asked for it is what people say of themselves, and
    proves nothing.
Algorithm
    A claim is an entry of the journal next to that of its operation, so that neither overwrites the
    other. It ends with the operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace

from kshunt.backend.clock import Clock
from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Requester
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.operations.team import Claim, Note, Team, note_text
from kshunt.backend.domain.text.formatting import moment_text
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.core.registry import Registry


class Claims:
    """See the module's text."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._one = asyncio.Lock()
        """What is written depends on what was there."""

    async def claim(self, operation_id: str, requester: Requester, *, take_over: bool) -> Operation:
        """Say that somebody steers an operation, which is returned.

        Raises:
            BadInput: there is no such operation, or who asks says no name, or no reason to take it
                over.
            Conflict: it has ended, or another person steers it and `take_over` is false.
            NotActive: another backend acts for this cluster.
        """
        async with self._one:
            operation = self._operation(operation_id)
            if not requester.who.strip():
                raise BadInput("To claim an operation, give a name; nothing was written.")
            if operation.state.ended:
                raise Conflict(
                    f"Operation {operation_id} is {operation.state}: it cannot be claimed."
                )
            team = self._registry.team(operation_id)
            event, words = AuditEvent.CLAIMED, f"{requester.who} has claimed it"
            if team.claim is not None and team.claim.who != requester.who:
                if not take_over:
                    raise _held(operation_id, team.claim)
                if not requester.reason.strip():
                    raise BadInput(
                        f"{team.claim.who} has claimed operation {operation_id}. To take it over, "
                        "give a reason; nothing was written."
                    )
                event, words = AuditEvent.CLAIM_TAKEN, f"taken over from {team.claim.who}"
            claim = Claim(requester.who, self._clock.now_ms(), requester.reason)
            return await self._put(operation, replace(team, claim=claim), event, requester, words)

    async def release(self, operation_id: str, requester: Requester) -> Operation:
        """Say that nobody steers an operation any more, which is returned.

        Raises:
            BadInput: there is no such operation.
            Conflict: nobody steers it, or another one does.
            NotActive: another backend acts for this cluster.
        """
        async with self._one:
            operation, team = self._operation(operation_id), self._registry.team(operation_id)
            if team.claim is None:
                raise Conflict(f"Nobody has claimed operation {operation_id}.")
            if team.claim.who != requester.who:
                raise _held(operation_id, team.claim)
            return await self._put(
                operation,
                replace(team, claim=None),
                AuditEvent.RELEASED,
                requester,
                "nobody has claimed it",
            )

    async def note(self, operation_id: str, text: str, requester: Requester) -> Operation:
        """Remark on an operation, which is returned, for everybody and for the audit.

        Raises:
            BadInput: there is no such operation, or the note cannot be meant.
            Conflict: there are too many.
            NotActive: another backend acts for this cluster.
        """
        async with self._one:
            operation, team = self._operation(operation_id), self._registry.team(operation_id)
            note = Note(requester.who, self._clock.now_ms(), note_text(text))
            if len(team.notes) >= LIMITS.notes_per_operation:
                raise Conflict(
                    f"Operation {operation_id} has {len(team.notes)} notes, which is the maximum. "
                    "Nothing was written."
                )
            after = replace(team, notes=(*team.notes, note))
            return await self._put(operation, after, AuditEvent.NOTED, requester, note.text)

    async def _put(
        self, operation: Operation, team: Team, event: AuditEvent, requester: Requester, words: str
    ) -> Operation:
        self._registry.require()
        line = AuditEntry(
            *(0, 0, event, operation.id, operation.kind.value, requester.who, requester.reason),
            outcome=words,
        )
        await self._registry.put_team(operation, team, line)
        return self._registry.get(operation.id) or operation

    def _operation(self, operation_id: str) -> Operation:
        operation = self._registry.get(operation_id)
        if operation is None:
            raise BadInput(f"There is no operation {operation_id}; nothing was written.")
        return operation

    # What a claim holds back

    def require(self, operation_ids: Iterable[str], requester: Requester) -> None:
        """Return only where nobody else steers one of these operations.

        Raises:
            Conflict: somebody does; says who, since when, why, and what to do.
        """
        for operation_id in operation_ids:
            operation = self._registry.get(operation_id)
            claim = self._registry.team(operation_id).claim
            ended = operation is None or operation.state.ended
            if claim is not None and not ended and claim.who not in requester.names:
                raise _held(operation_id, claim)

    def require_rates(self, brokers: Collection[int], requester: Requester) -> None:
        """As `require`, of the operations that throttle one of these brokers."""
        rates = self._registry.ownership.rates
        self.require(
            (id for cell_id, cell in rates.items() if cell_id[0] in brokers for id in cell.shares),
            requester,
        )

    def require_lists(self, topics: Collection[str], requester: Requester) -> None:
        """As `require`, of the operations that throttle replicas of one of these topics."""
        lists = self._registry.ownership.lists
        self.require(
            (id for cell_id, cell in lists.items() if cell_id[0] in topics for id in cell.shares),
            requester,
        )

    def require_moves(self, partitions: Collection[TopicPartition], requester: Requester) -> None:
        """As `require`, of the operations that move one of these partitions."""
        wanted = set(partitions)
        known = self._registry.known
        steered = (id for id in self._registry.unfinished if self._registry.team(id).claim)
        moving = ((id, known.works[id].moves) for id in steered if id in known.works)
        self.require((id for id, moves in moving if not wanted.isdisjoint(moves)), requester)


def _held(operation_id: str, claim: Claim) -> Conflict:
    why = f": {claim.reason}" if claim.reason else ""
    return Conflict(
        f"{claim.who} has claimed operation {operation_id} since "
        f"{moment_text(claim.since_ms)}{why}. Nothing was changed.",
        advice="Talk to them, or take it over with a reason: press K in the dashboard's "
        "operations, or send a claim with take_over.",
    )
