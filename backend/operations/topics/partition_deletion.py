"""Deleting the last partitions of topics (KIP-694), on a cluster that does so by itself.

The cluster does the work, and continues it when nobody looks. This module writes down what was
asked and what came of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletedPartition,
    DeletePartitions,
    ShrinkAnswer,
    ShrinkSupport,
    deletions_of,
    shrink_warnings,
)
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.errors import BadInput, Conflict, NotSupported
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.elections.preferred import failing_on_error
from kshunt.backend.operations.throttles.changes import recorded


class PartitionDeletions:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def delete(
        self, topics: Mapping[str, DeletePartitions], change: Change, *, timeout_s: float
    ) -> ShrinkAnswer:
        """Let topics keep their first partitions, with results by partition.

        Raises:
            BadInput: no topic is named.
            Conflict: the cluster cannot delete partitions, or it is switched off there.
            NotActive: another backend acts for this cluster.
        """
        if not topics:
            raise BadInput("No topic is named; nothing was changed.")
        admin, registry = self._context.admin, self._context.registry
        async with self._context.lock:
            # Asked first, so that nothing is written down where nothing can be done.
            foreseen = await self._foreseen(topics, timeout_s)
            notes = await self._warnings(topics, foreseen, timeout_s)
            if change.validate_only:
                return ShrinkAnswer(True, None, deletions_of(foreseen), notes)
            registry.require()
            operation = registry.draft(
                OperationKind.DELETE_PARTITIONS,
                _summary(topics, foreseen),
                requester=change.requester,
                partitions=tuple(p for p, one in foreseen.items() if one.ok),
                requested={
                    name: shrink_words(wanted, keeps_all=keeps_all(name, foreseen))
                    for name, wanted in topics.items()
                },
            )
            await registry.put(operation)
            registry.require()
            async with failing_on_error(registry, operation):
                found = await admin.partition_deletions.delete(
                    topics, validate_only=False, timeout_s=timeout_s
                )
            results = tuple(
                Result(str(p), one.error_code, one.error_name, one.message or str(one.mode))
                for p, one in found.items()
            )
            await recorded(registry, operation, ChangeAnswer(False, operation.id, results))
            return ShrinkAnswer(False, operation.id, deletions_of(found), notes)

    async def _foreseen(
        self, topics: Mapping[str, DeletePartitions], timeout_s: float
    ) -> Mapping[TopicPartition, DeletedPartition]:
        admin = self._context.admin
        try:
            return await admin.partition_deletions.delete(
                topics, validate_only=True, timeout_s=timeout_s
            )
        except NotSupported as refused:
            # For the caller it is the cluster's state that forbids it, as where it is disabled.
            raise Conflict(refused.message, advice=refused.advice) from None

    async def _warnings(
        self,
        topics: Collection[str],
        foreseen: Mapping[TopicPartition, DeletedPartition],
        timeout_s: float,
    ) -> tuple[str, ...]:
        """The seed's, where anything goes: who cancels a deletion needs no warning."""
        leaving = {
            p.topic for p, one in foreseen.items() if one.mode is not PartitionMode.READ_WRITE
        }
        if not leaving:
            return ()
        described = await self._context.admin.topics.describe(
            sorted(leaving & set(topics)), configs=False, min_isr=False, timeout_s=timeout_s
        )
        changing = any(topic.changing for topic in described.topics)
        return tuple(shrink_warnings(ShrinkSupport.ENABLED, changing=changing))


def _summary(
    topics: Mapping[str, DeletePartitions], foreseen: Mapping[TopicPartition, DeletedPartition]
) -> str:
    """One line for an operator."""
    if len(topics) > 1:
        return f"shrink {many(len(topics), 'topic')}: {listed(sorted(topics), 3)}"
    ((name, wanted),) = topics.items()
    kind = "stop shrinking" if keeps_all(name, foreseen) else "shrink"
    return f"{kind} {name}: {shrink_words(wanted, keeps_all=keeps_all(name, foreseen))}"


def keeps_all(topic: str, foreseen: Mapping[TopicPartition, DeletedPartition]) -> bool:
    """Whether a request only takes a deletion back."""
    found = [one for partition, one in foreseen.items() if partition.topic == topic]
    return bool(found) and all(one.ok and one.mode is PartitionMode.READ_WRITE for one in found)


def shrink_words(wanted: DeletePartitions, *, keeps_all: bool = False) -> str:
    """`keeps 3 partitions; the others are deleted after 60000 ms`, for the audit."""
    keeps = f"keeps {many(wanted.total_count, 'partition')}"
    if keeps_all:
        return f"{keeps}; the deletion is cancelled"
    when = f"after {wanted.delay_ms} ms" if wanted.delay_ms else "immediately"
    if wanted.delay_ms is None:
        when = "immediately, or when the delay that was set before is over"
    return f"{keeps}; the others are deleted {when}"
