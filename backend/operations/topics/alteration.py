"""Altering topics (KIP-179's early draft, alterTopics): partitions, replication factor, assignment.

The cluster, or `kshunt.backend.admin`, does the work; this writes down what was asked and what came
of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kshunt.backend.admin.port.capabilities import Verb, require
from kshunt.backend.domain.operations.operation import UNKNOWN_REQUESTER, OperationKind, Requester
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.results import results
from kshunt.backend.operations.throttles.changes import recorded


class Alterations:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def alter(
        self,
        topics: Mapping[str, AlteredTopic],
        *,
        validate_only: bool,
        timeout_s: float,
        requester: Requester = UNKNOWN_REQUESTER,
    ) -> ChangeAnswer:
        """Alter topics, with results by topic.

        Raises:
            BadInput: no topic is named.
            NotActive: another backend acts for this cluster.
            NotSupported: this way to the cluster does not offer it.
        """
        if not topics:
            raise BadInput("No topic is named; nothing was changed.")
        require(Verb.ALTER_TOPICS, self._context.admin)
        admin, registry = self._context.admin, self._context.registry
        async with self._context.lock:
            if validate_only:
                foreseen = await admin.alterations.alter(
                    topics, validate_only=True, timeout_s=timeout_s
                )
                return ChangeAnswer(True, None, results(foreseen))
            registry.require()
            operation = await registry.begin(
                OperationKind.ALTER_TOPICS,
                f"alter {many(len(topics), 'topic')}: {listed(sorted(topics), 3)}",
                requester=requester,
                requested={name: _words(topic) for name, topic in topics.items()},
            )
            registry.require()
            outcomes = await admin.alterations.alter(
                topics, validate_only=False, timeout_s=timeout_s
            )
            answer = ChangeAnswer(False, operation.id, results(outcomes))
            return await recorded(registry, operation, answer)


def _words(topic: AlteredTopic) -> str:
    given = many(len(topic.assignments), "partition")
    return (
        f"partitions {topic.partitions}, replication factor {topic.replication_factor}, "
        f"assignment of {given}"
    )
