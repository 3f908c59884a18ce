"""Starting a shrink, agreeing to its cut-over, and steering it, because somebody asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kshunt.backend.admin.port.capabilities import Verb, require
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.shrink.check import Severity, ShrinkCheck
from kshunt.backend.domain.shrink.delete_partitions import DELAY_MS_MAX, NO_DELAY
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkRequest
from kshunt.backend.domain.text.formatting import duration_text, listed, many
from kshunt.backend.domain.topics.descriptions import TOPIC_NAME_MAX
from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.shrink.check import ShrinkChecks
from kshunt.backend.operations.shrink.topic_settings import SEALED, copy_name
from kshunt.backend.operations.state.shrink_work import ShrinkWork

State = OperationState
KEYLESS: Final = ("round-robin", "as-source")
_PAUSABLE: Final = frozenset(
    {
        ShrinkPhase.QUIESCE,
        ShrinkPhase.COPY,
        ShrinkPhase.VERIFY,
        ShrinkPhase.COPY_REST,
        ShrinkPhase.VERIFY_REST,
        ShrinkPhase.COPY_BACK,
        ShrinkPhase.VERIFY_BACK,
    }
)
_CANCELLABLE: Final = frozenset(
    {State.STARTING, State.RUNNING, State.PAUSING, State.PAUSED, State.RESUMING}
)


def shrink_actions(operation: Operation, work: ShrinkWork) -> tuple[str, ...]:
    """What can be done with a shrink now, in the order in which it is offered."""
    state, running = operation.state, operation.state is State.RUNNING
    allowed = (
        ("confirm", running and work.needs_name),
        ("pause", running and work.phase in _PAUSABLE),
        ("resume", state in (State.PAUSING, State.PAUSED)),
        ("cancel", state in _CANCELLABLE and not work.past_no_return and not _in_use(work)),
    )
    return tuple(name for name, offered in allowed if offered)


def _in_use(work: ShrinkWork) -> bool:
    """True where groups may have gone on to the smaller topic."""
    return work.phase in (ShrinkPhase.TRANSLATE, ShrinkPhase.CLEAN_UP)


class Shrinks:
    """See the module's text."""

    def __init__(self, context: Context, checks: ShrinkChecks) -> None:
        self._context = context
        self._registry = context.registry
        self._checks = checks

    async def start(self, request: ShrinkRequest, change: Change) -> ChangeAnswer:
        """Begin to shrink a topic; the engine does the rest.

        Raises:
            BadInput: the request cannot be meant.
            Conflict: something forbids it, which is named; nothing was changed.
            NotActive: another backend acts for this cluster.
            NotSupported: this way to the cluster does not offer it.
        """
        require(Verb.SHRINK, self._context.admin)
        _check_request(request)
        check = await self._checked(request)
        # A later check may see other records; the copy continues with this check's partitioner.
        request = replace(request, partitioner=check.partitioner)
        async with self._context.lock:
            self._check_free(request)
            draft = self._registry.draft(
                OperationKind.SHRINK,
                _summary(request),
                requester=change.requester,
                partitions=tuple(
                    TopicPartition(request.topic, number)
                    for number in range(request.total_count, check.current)
                ),
            )
            copy = request.target or copy_name(request.topic, draft.id)
            await self._check_names(request, copy)
            if not change.validate_only:
                self._registry.require()
                await self._registry.put(draft, shrink=ShrinkWork(request, check.current, copy))
        words = f"{check.current} partitions become {request.total_count}, through {copy}"
        if change.validate_only:
            words = words.replace(draft.id, "ID")
        result = Result(request.topic, 0, "NONE", words)
        operation_id = None if change.validate_only else draft.id
        notes, warnings = tuple(_notes(request, check)), tuple(_warnings(check))
        return ChangeAnswer(change.validate_only, operation_id, (result,), notes, warnings=warnings)

    async def confirm(self, operation_id: str, typed: str, change: Change) -> ChangeAnswer:
        """Let it continue with what cannot be taken back; `typed` is the topic's name.

        Raises:
            BadInput: there is no such operation, or another name was typed.
            Conflict: it does not wait for that.
            NotActive: another backend acts for this cluster.
        """
        async with self._context.lock:
            operation, work = self._found(operation_id, "confirm")
            if typed != work.topic:
                raise BadInput(
                    f"'{typed}' is not the name of the topic; nothing was changed.",
                    advice=f"Type {work.topic}, if that is the topic to shrink.",
                )
            if change.validate_only:
                result = Result(work.topic, 0, "NONE", _agreed_to(work))
                notes = () if work.past_no_return else tuple(_then(work.request, work.copy))
                return ChangeAnswer(True, operation_id, (result,), notes)
            self._registry.require()
            words = _by(change)
            if agreed := change.requester.proposal:
                words = f"{words} (proposal {agreed})"
            after = replace(work, confirmed=words, accepted=bool(work.differs))
            await self._registry.put(operation, shrink=after)
        result = Result(work.topic, 0, "NONE", f"continues: {words}")
        return ChangeAnswer(False, operation_id, (result,))

    async def pause(self, operation_id: str, change: Change) -> ChangeAnswer:
        """Let the job end after its batch; nothing is taken back."""
        words = "the job ends after its current batch; the copied records are kept"
        return await self._steer(operation_id, "pause", State.PAUSING, words, change)

    async def resume(self, operation_id: str, change: Change) -> ChangeAnswer:
        """Let it continue."""
        words = "continues after the records that are already copied"
        return await self._steer(operation_id, "resume", State.RESUMING, words, change)

    async def cancel(self, operation_id: str, change: Change) -> ChangeAnswer:
        """Take all of it back."""
        work = self._registry.shrink(operation_id)
        words = "all of it is reverted"
        words += (
            "" if work is None else (f"; {work.topic} stays as it is, and {work.copy} is deleted")
        )
        return await self._steer(operation_id, "cancel", State.CANCELLING, words, change)

    async def _steer(
        self, operation_id: str, action: str, state: OperationState, words: str, change: Change
    ) -> ChangeAnswer:
        async with self._context.lock:
            operation, work = self._found(operation_id, action)
            if not change.validate_only:
                self._registry.require()
                after = self._context.to(operation, state, f"{state.value} for {_by(change)}")
                cancelled = work.cancelled or state is State.CANCELLING
                await self._registry.put(after, shrink=replace(work, cancelled=cancelled))
        return ChangeAnswer(
            change.validate_only, operation_id, (Result(work.topic, 0, "NONE", words),)
        )

    def _found(self, operation_id: str, action: str) -> tuple[Operation, ShrinkWork]:
        operation, work = self._registry.get(operation_id), self._registry.shrink(operation_id)
        if operation is None:
            raise BadInput(f"There is no operation {operation_id}; nothing was changed.")
        if work is None:
            raise BadInput(
                f"Operation {operation_id} does not shrink a topic; nothing was changed."
            )
        if action in (offered := shrink_actions(operation, work)):
            return operation, work
        if action == "cancel" and work.past_no_return and not operation.state.ended:
            raise Conflict(
                f"Operation {operation_id} cannot be cancelled any more: {work.topic} was "
                f"deleted, and kshunt creates it again. Every record is in {work.copy}; the "
                "operation continues without your help.",
            )
        others = (
            f"Possible actions: {listed(offered)}." if offered else "No action on it is possible."
        )
        raise Conflict(
            f"Operation {operation_id} is {operation.state} ({work.phase}): {action} is not "
            f"possible. Nothing was changed. {others}"
        )

    # What speaks against it

    async def _checked(self, request: ShrinkRequest) -> ShrinkCheck:
        """The safety view.

        Raises:
            BadInput, Conflict: it refuses.
        """
        check = await self._checks.check(
            request.topic, request.total_count, partitioner=request.partitioner
        )
        if not check.current:
            raise BadInput(f"There is no topic {request.topic}; nothing was changed.")
        if refusals := check.refusals(request.insisted):
            words = " ".join(one.words for one in refusals)
            insistable = [one.code for one in refusals if one.insistable]
            advice = " ".join(one.advice for one in refusals if one.advice)
            if insistable:
                advice += f" You can insist on: {listed(insistable, 9)}."
            # A count that makes no sense is another problem than what cannot be done now.
            senseless = any(one.code.startswith("count-") for one in refusals)
            kind = BadInput if senseless else Conflict
            raise kind(f"{words} Nothing was changed.", advice=advice)
        if check.native:
            raise Conflict(
                "The cluster can delete partitions (KIP-694), so kshunt does not copy the topic. "
                "Nothing was changed.",
                advice="Ask for the deletion of the partitions; their records are lost.",
            )
        return check

    def _check_free(self, request: ShrinkRequest) -> None:
        for operation_id in self._registry.unfinished:
            work = self._registry.shrink(operation_id)
            if work is not None and {request.topic, request.target} & {work.topic, work.copy}:
                raise Conflict(
                    f"Operation {operation_id} already shrinks {work.topic}, through {work.copy}. "
                    "Nothing was changed.",
                    advice="Wait until it ends, or cancel it.",
                )

    async def _check_names(self, request: ShrinkRequest, copy: str) -> None:
        if len(copy) > TOPIC_NAME_MAX:
            raise BadInput(
                f"The copy's name would be {copy}, which is longer than {TOPIC_NAME_MAX} "
                "characters. Nothing was changed.",
                advice="Shrink it to a topic of another name, and choose a short one.",
            )
        timeout_s = self._context.timeout_s
        found = await self._context.admin.topics.describe(
            [copy], configs=False, min_isr=False, timeout_s=timeout_s
        )
        if any(one.name == copy for one in found.topics):
            raise Conflict(f"There is already a topic {copy}. Nothing was changed.")
        if request.write_block:
            # Raises where there is no authorizer.
            block = await self._context.admin.write_blocks.describe(
                request.topic, timeout_s=timeout_s
            )
            if block.may_write is False:
                raise Conflict(
                    f"kshunt is not authorized to write {request.topic}. Nothing was changed."
                )
            if block.alone:
                raise Conflict(
                    f"There is no ACL for {request.topic}. If clients may do everything that no "
                    "ACL covers, an ACL that denies writing would also stop its readers. Nothing "
                    "was changed.",
                    advice="Add ACLs that allow its readers to READ it, or continue without the "
                    "write block.",
                )


def _check_request(request: ShrinkRequest) -> None:
    nothing = "nothing was changed."
    if not 0 <= request.delay_ms <= DELAY_MS_MAX:
        raise BadInput(f"A delay of {request.delay_ms} ms is not valid; {nothing}")
    if request.keyless not in KEYLESS:
        raise BadInput(f"keyless must be one of {listed(KEYLESS)}; {nothing}")
    if request.cut_over is CutOver.SAME_NAME and request.target:
        raise BadInput(f"A target is named, but the topic is to keep its name; {nothing}")
    if request.cut_over is CutOver.NEW_NAME and request.target in ("", request.topic):
        raise BadInput(f"For a new name, the target must be another topic; {nothing}")


def _summary(request: ShrinkRequest) -> str:
    words = f"shrink {request.topic} to {many(request.total_count, 'partition')}"
    return f"{words} as {request.target}" if request.target else words


def _warnings(check: ShrinkCheck) -> Iterator[str]:
    """What its safety view warns of."""
    for one in check.findings:
        if one.severity is Severity.WARN:
            yield f"{one.words} {one.advice}".strip()


def _notes(request: ShrinkRequest, check: ShrinkCheck) -> Iterator[str]:
    """What will be done, and what an operator should know."""
    if request.write_block:
        yield f"During the operation only super users may write {request.topic} (ACL)."
    if request.delay_ms:
        yield (
            "It waits until the partitions to remove had no new records for "
            f"{duration_text(request.delay_ms / 1000)}."
        )
    elif not request.write_block:
        yield NO_DELAY
    if check.distinct_keys:
        yield f"It places keys by {request.partitioner}."
    yield "It copies and compares the records; then it waits until you type the topic's name."
    yield from _then(request, request.target)
    if request.cut_over is CutOver.SAME_NAME and not request.write_block:
        yield (
            "A producer that still runs may write between the records that are copied back: stop "
            "all producers before you type the name."
        )


def _then(request: ShrinkRequest, copy: str) -> Iterator[str]:
    """What comes after the topic's name was typed."""
    yield f"Then its groups must have no members, and the brokers reject producers ({SEALED})."
    if request.cut_over is CutOver.SAME_NAME:
        yield (
            f"POINT OF NO RETURN: then kshunt deletes {request.topic}, creates it again with "
            f"{many(request.total_count, 'partition')}, and copies the records back. Until then "
            "you can undo everything."
        )
    else:
        yield (
            f"{request.topic} stays, read-only. In {copy} each record has one more header, "
            "kshunt-source."
        )


def _agreed_to(work: ShrinkWork) -> str:
    """What would continue when the operator types the topic's name."""
    then = "continues after its point of no return" if work.past_no_return else "is cut over"
    return f"{then} ({work.phase})" + (f", although {work.differs}" if work.differs else "")


def _by(change: Change) -> str:
    words = change.who or "an operator"
    return f"{words}: {change.reason}" if change.reason else words
