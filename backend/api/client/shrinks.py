"""The client's part for taking partitions from a topic."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from kshunt.backend.api.client.sending.sender import UNCHECKED, UNPREVIEWED, Subject
from kshunt.backend.api.schema.shrinks import DeletionSupport
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.check import ShrinkCheck
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletePartitions,
    ShrinkAnswer,
    ShrinkSupport,
)
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.domain.topics.partitioners import Partitioner
from kshunt.backend.domain.untrusted.json_codec import to_document


class ShrinksClient(Subject):
    """The check before it, a durable shrink, and KIP-694's own way."""

    def check(
        self,
        topic: str,
        partitions: int,
        *,
        copy_rate_bytes_per_s: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> ShrinkCheck:
        """What speaks against leaving a topic this number of partitions; nothing is changed.

        Args:
            topic: Its name.
            partitions: How many it would keep. Any number is valid: a senseless one is a finding.
            copy_rate_bytes_per_s: How fast a copy would be. None: the backend's assumption.
            partitioner: The one by which a copy would place keys. None: the one that the keys
                follow.

        Raises:
            BackendError: there is no such topic (`status` 404), or the cluster does not answer.
        """
        asked = {"partitions": str(partitions)}
        if copy_rate_bytes_per_s is not None:
            asked["copy_rate"] = str(copy_rate_bytes_per_s)
        if partitioner is not None:
            asked["partitioner"] = partitioner.value
        return self._sender.ask(ShrinkCheck, f"/v1/topics/{quote(topic, safe='')}/shrink", asked)

    def start(self, request: ShrinkRequest, change: Change = ANONYMOUS_CHANGE) -> ChangeAnswer:
        """Let a topic have fewer partitions, by copying it; the answer names the operation.

        Raises:
            BackendError: something speaks against it that was not or cannot be insisted upon, or
                the topic is being shrunk already (`status` 409); it cannot be meant (422).
        """
        body = {
            "total_count": request.total_count,
            "delay_ms": request.delay_ms,
            "cut_over": request.cut_over.value,
            "target": request.target,
            "write_block": request.write_block,
            "insisted": list(request.insisted),
            "partitioner": request.partitioner,
        }
        path = f"/v1/topics/{quote(request.topic, safe='')}/shrink"
        return self._sender.change(ChangeAnswer, path, change, body, omit=UNPREVIEWED)

    def confirm(
        self, operation_id: str, typed: str, change: Change = ANONYMOUS_CHANGE
    ) -> ChangeAnswer:
        """Agree to what a shrink cannot take back.

        Raises:
            BackendError: it does not wait for that (any more), or the topic has another name.
        """
        path = f"/v1/operations/{quote(operation_id, safe='')}/confirm"
        return self._sender.change(ChangeAnswer, path, change, {"typed": typed}, omit=UNCHECKED)

    def support(self) -> ShrinkSupport:
        """Whether the cluster can delete partitions (KIP-694)."""
        return self._sender.ask(DeletionSupport, "/v1/topics/deletion").support

    def delete_partitions(
        self,
        topics: Mapping[str, DeletePartitions],
        change: Change = ANONYMOUS_CHANGE,
        *,
        timeout_ms: int = 10_000,
    ) -> ShrinkAnswer:
        """Let topics keep their first partitions, the others go (KIP-694).

        Raises:
            BackendError: the cluster cannot do so by itself, or it is switched off there
                (`status` 409).
        """
        wanted = [{"topic": name, **to_document(one)} for name, one in topics.items()]
        body = {"topics": wanted, "timeout_ms": timeout_ms}
        path = "/v1/topics/delete-partitions"
        return self._sender.change(ShrinkAnswer, path, change, body, omit=UNPREVIEWED)
