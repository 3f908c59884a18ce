"""The client's part for taking partitions from a topic."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.api.schema.shrinks import DeletionSupport
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.shrink.check import ShrinkCheck
from kshunt.backend.domain.shrink.delete_partitions import (
    DeletePartitions,
    ShrinkAnswer,
    ShrinkSupport,
)
from kshunt.backend.domain.shrink.phases import ShrinkRequest
from kshunt.backend.domain.untrusted.json_codec import to_document


class ShrinksClient(Requests):
    """The check before it, a durable shrink, and KIP-694's own way."""

    def shrink_check(
        self, topic: str, partitions: int, *, copy_rate_bytes_per_s: int | None = None
    ) -> ShrinkCheck:
        """What speaks against leaving a topic so many partitions; nothing is changed.

        Args:
            topic: Its name.
            partitions: How many it shall keep; any number, for a senseless one is a finding.
            copy_rate_bytes_per_s: How fast a copy would be; None: the backend's assumption.

        Raises:
            BackendError: there is no such topic (`status` 404), or the cluster does not answer.
        """
        asked = {"partitions": str(partitions)}
        if copy_rate_bytes_per_s is not None:
            asked["copy_rate"] = str(copy_rate_bytes_per_s)
        return self._ask(ShrinkCheck, f"/v1/topics/{quote(topic, safe='')}/shrink", asked)

    def shrink(
        self,
        request: ShrinkRequest,
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
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
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        path = f"/v1/topics/{quote(request.topic, safe='')}/shrink"
        return self._send(ChangeAnswer, path, body)

    def confirm_shrink(
        self,
        operation_id: str,
        typed: str,
        *,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Agree to what a shrink cannot take back.

        Raises:
            BackendError: it does not wait for that (any more), or the topic has another name.
        """
        body = {"typed": typed, "cluster_id": cluster_id, "who": who, "reason": reason}
        path = f"/v1/operations/{quote(operation_id, safe='')}/confirm"
        return self._send(ChangeAnswer, path, body)

    def shrink_support(self) -> ShrinkSupport:
        """Whether the cluster deletes partitions by itself (KIP-694)."""
        return self._ask(DeletionSupport, "/v1/topics/deletion").support

    def delete_partitions(
        self,
        topics: Mapping[str, DeletePartitions],
        *,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ShrinkAnswer:
        """Let topics keep their first partitions, the others go (KIP-694).

        Raises:
            BackendError: the cluster cannot do so by itself, or it is switched off there
                (`status` 409).
        """
        body = {
            "topics": [{"topic": name, **to_document(wanted)} for name, wanted in topics.items()],
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return self._send(ShrinkAnswer, "/v1/topics/delete-partitions", body)
