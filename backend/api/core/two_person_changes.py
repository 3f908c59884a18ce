"""The changes that can be made to take two people: what each is, and how it is carried out.

The backend carries out a request for one of them immediately, or records it as a proposal where the
rule requires that. An approval carries out the very body that was recorded, by the same function.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from fastapi.responses import Response
from pydantic import ValidationError

from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.access.roles import Caller
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.core.change_checks import refuse_other_cluster, require_active
from kshunt.backend.api.core.request_values import (
    once,
    partitions_of,
    timeout_s_of,
)
from kshunt.backend.api.http.answers import MEDIA_TYPE
from kshunt.backend.api.request_models.elections import UncleanRequestModel
from kshunt.backend.api.request_models.shrinks import (
    ConfirmRequestModel,
    DeletePartitionsRequestModel,
    ShrinkRequestModel,
)
from kshunt.backend.domain.audit.lines import Touched
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.approval import (
    NOTHING,
    Person,
    ProposalEffect,
    ProposedChange,
    ShownProposal,
)
from kshunt.backend.domain.operations.change import AgreedChange, Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions, ShrinkAnswer
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.untrusted.json_codec import to_document, to_json
from kshunt.backend.errors import Conflict
from kshunt.backend.operations.elections.unclean import check_confirmation, last_seen_ends
from kshunt.backend.operations.review.approvals import ProposalDraft, ProposalResult, agreed_change
from kshunt.backend.two_person import TwoPersonKind

LINES_MAX: Final = 20
"""Of what a change would do; the others are counted."""

UNCLEAN: Final = "unclean_election"
SHRINK: Final = "shrink"
CUT_OVER: Final = "cut_over"
DELETE: Final = "delete_partitions"


Answer = ChangeAnswer | ShrinkAnswer


@dataclass(frozen=True, slots=True)
class _RequestSubject:
    """What a request is about, in words and for the audit."""

    summary: str
    touched: Touched
    operation_id: str = ""
    """Of the operation that it continues, if it continues one."""


@dataclass(frozen=True, slots=True)
class _ChangeKind:
    """One kind of change."""

    guarded: TwoPersonKind
    model: type[Any]
    """Of its request."""
    about: Callable[[Backend, str, Any], _RequestSubject]
    run: Callable[[Backend, str, Any, Change], Awaitable[Answer]]
    """Carries out a request on a subject, or checks it; as its route answers."""
    whole: bool = False
    """Whether none of it is done where any of it is refused."""
    confirmed: Callable[[Any], None] = lambda body: None
    """Raises where a request lacks a confirmation that a check does not ask for."""
    only_rescues: Callable[[Any], bool] = lambda answer: False
    """Whether a request, by the answer to its check, loses nothing and only takes a loss back."""


async def _unclean(backend: Backend, _: str, body: UncleanRequestModel, change: Change) -> Answer:
    partitions = partitions_of(body.partitions)
    return await backend.unclean.elect(
        partitions,
        change,
        confirm=body.confirm,
        last_seen=last_seen_ends(backend.hub.latest, partitions),
        timeout_s=timeout_s_of(body.timeout_ms),
    )


def _about_unclean(_: Backend, __: str, body: UncleanRequestModel) -> _RequestSubject:
    partitions = sorted(set(partitions_of(body.partitions)))
    words = f"UNCLEAN election of {many(len(partitions), 'partition')}: {listed(partitions, 3)}"
    return _RequestSubject(words, Touched.of(partitions=partitions))


def _every_name(body: UncleanRequestModel) -> None:
    check_confirmation(sorted(set(partitions_of(body.partitions))), body.confirm)


async def _shrink(backend: Backend, topic: str, body: ShrinkRequestModel, change: Change) -> Answer:
    return await backend.shrinks.start(body.request(topic), change)


def _about_shrink(_: Backend, topic: str, body: ShrinkRequestModel) -> _RequestSubject:
    name = f" as {body.target}" if body.target else ""
    words = f"shrink {topic} to {many(body.total_count, 'partition')}{name}"
    return _RequestSubject(words, Touched.of(topics=(topic,)))


async def _cut_over(backend: Backend, id: str, body: ConfirmRequestModel, change: Change) -> Answer:
    backend.claims.require((id,), change.requester)
    return await backend.shrinks.confirm(id, body.typed, change)


def _about_cut_over(backend: Backend, id: str, body: ConfirmRequestModel) -> _RequestSubject:
    words = f"cut over {body.typed}: operation {id} begins the part that cannot be undone"
    return _RequestSubject(words, Touched.of(topics=(body.typed,)), id)


async def _delete(
    backend: Backend, _: str, body: DeletePartitionsRequestModel, change: Change
) -> Answer:
    wanted = {one.topic: DeletePartitions(one.total_count, one.delay_ms) for one in body.topics}
    once(len(wanted), len(body.topics), "topic")
    timeout_s = timeout_s_of(body.timeout_ms)
    return await backend.deletions.delete(wanted, change, timeout_s=timeout_s)


def _about_delete(_: Backend, __: str, body: DeletePartitionsRequestModel) -> _RequestSubject:
    topics = [one.topic for one in body.topics]
    fewer = [f"{one.topic} to {many(one.total_count, 'partition')}" for one in body.topics]
    return _RequestSubject(
        f"shrink {listed(fewer, 3)}: deletes the last partitions with their records",
        Touched.of(topics=topics),
    )


def _only_keeps(answer: ShrinkAnswer) -> bool:
    """Whether it calls off deletions whose delay runs; one that is refused may go later."""
    modes = {(one.error_code, one.mode) for one in answer.partitions}
    return modes == {(0, PartitionMode.READ_WRITE)}


_KINDS: Final[Mapping[str, _ChangeKind]] = {
    UNCLEAN: _ChangeKind(
        *(TwoPersonKind.UNCLEAN, UncleanRequestModel, _about_unclean, _unclean),
        whole=True,
        confirmed=_every_name,
    ),
    SHRINK: _ChangeKind(TwoPersonKind.SHRINK, ShrinkRequestModel, _about_shrink, _shrink),
    CUT_OVER: _ChangeKind(TwoPersonKind.SHRINK, ConfirmRequestModel, _about_cut_over, _cut_over),
    DELETE: _ChangeKind(
        *(TwoPersonKind.SHRINK, DeletePartitionsRequestModel, _about_delete, _delete),
        only_rescues=_only_keeps,
    ),
}


def person_of(caller: Caller) -> Person:
    """The person that a caller is."""
    return Person(caller.name, caller.id)


async def request_change(backend: Backend, action: str, subject: str, body: Any) -> Any:
    """Carry out a request, or record it as a proposal; the answer of its route.

    Raises:
        KshuntError: it is refused; nothing was changed.
    """
    kind = _KINDS[action]
    change = await require_active(backend, body)
    if change.validate_only or not backend.approvals.takes_two(kind.guarded):
        return await kind.run(backend, subject, body, change)
    kind.confirmed(body)
    deed = TwoPersonChange(backend, action, subject, body, change)
    answer = await deed.check()
    if kind.only_rescues(answer):
        # Its time may run out while a second person is looked for.
        return await kind.run(backend, subject, body, change)
    foreseen = deed.foreseen(answer)
    about = kind.about(backend, subject, body)
    draft = ProposalDraft(
        *(action, subject, about.summary, body.model_dump(mode="json"), foreseen),
        *(about.operation_id, about.touched),
    )
    caller = person_of(CURRENT_CALLER.get())
    proposal = await backend.approvals.propose(draft, caller, change.reason)
    shown = ShownProposal.of(proposal, caller, backend.clock.now_ms())
    return Response(to_json(shown), 202, media_type=MEDIA_TYPE)


class TwoPersonChange:
    """One such change; a `kshunt.backend.operations.review.approvals.ProposedAction`."""

    def __init__(
        self, backend: Backend, action: str, subject: str, body: Any, change: Change
    ) -> None:
        self._backend = backend
        self._kind = _KINDS[action]
        self._subject = subject
        self._body = body
        self._change = change

    @classmethod
    def of(cls, backend: Backend, proposal: ProposedChange, approver: Person) -> TwoPersonChange:
        """What was proposed.

        Raises:
            Conflict: this kshunt does not understand it.
        """
        try:
            body = _KINDS[proposal.action].model.model_validate(dict(proposal.body))
        except (KeyError, ValidationError):
            raise Conflict(
                f"Proposal {proposal.id} was made by another version of kshunt. {NOTHING}",
                advice="Propose it again.",
            ) from None
        change = agreed_change(proposal, approver)
        return cls(backend, proposal.action, proposal.subject, body, change)

    async def foresee(self) -> ProposalEffect:
        """What it would do.

        Raises:
            KshuntError: it would be refused, or that cannot be found out.
        """
        return self.foreseen(await self.check())

    async def check(self) -> Answer:
        """The answer of its route to the same request, with nothing done.

        Raises:
            KshuntError: it would be refused as a whole, or that cannot be found out.
        """
        await refuse_other_cluster(self._backend, self._body.cluster_id)
        checked = replace(self._change, validate_only=True)
        return await self._kind.run(self._backend, self._subject, self._body, checked)

    def foreseen(self, answer: Answer) -> ProposalEffect:
        """What such an answer says.

        Raises:
            Conflict: nothing of it would be done, or not all where it is all or nothing.
        """
        change = _change(answer)
        items = list(_items(answer))
        refused = [f"{name}: {said}" for name, said, code in items if code]
        if refused and (self._kind.whole or len(refused) == len(items)):
            raise Conflict(f"It would be rejected: {listed(refused, 3)}. {NOTHING}")
        lines = [f"{name}: {'REFUSED, ' if code else ''}{said}" for name, said, code in items]
        more = [f"and {len(lines) - LINES_MAX:,} more"] if len(lines) > LINES_MAX else []
        text = json.dumps(items, separators=(",", ":"))
        fingerprint = blake2b(text.encode(), digest_size=8).hexdigest()
        return ProposalEffect(
            (*lines[:LINES_MAX], *more),
            (*change.notes, *change.warnings),
            fingerprint,
            results=change.results,
        )

    async def carry_out(self, change: AgreedChange) -> ProposalResult:
        """Do it, as the request that was recorded.

        Raises:
            KshuntError: it was refused, or it is not known what became of it.
        """
        answer = await self._kind.run(self._backend, self._subject, self._body, change)
        items = list(_items(answer))
        failed = [f"{name}: {said}" for name, said, code in items if code]
        words = f"{len(items) - len(failed)} of {len(items)} done"
        if failed:
            words = f"{words}; {listed(failed, 3)}"
        return ProposalResult(answer.operation_id or "", words, to_document(answer))


def _change(answer: Answer) -> ChangeAnswer:
    return answer.as_change() if isinstance(answer, ShrinkAnswer) else answer


def _items(answer: Answer) -> Iterator[tuple[str, str, int]]:
    """Each item of an answer: its name, what is said of it, and its error code."""
    for one in _change(answer).results:
        yield one.item, one.message or one.error_name, one.error_code
