"""The client's part for elections."""

from __future__ import annotations

from collections.abc import Sequence

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.election import ElectionAnswer, UncleanAnswer
from kshunt.backend.domain.untrusted.json_codec import to_document


class ElectionsClient(Requests):
    """Options are those of every change: see `backend_client`."""

    def elect_preferred_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        *,
        batch_size: int | None = None,
        pause_ms: int = 0,
        timeout_ms: int = 10_000,
        validate_only: bool = False,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ElectionAnswer:
        """Elect preferred replicas as leaders, of every partition if None (KIP-183).

        The answer comes when all are elected; with `batch_size` it is waited for without end.
        """
        body = {
            "partitions": None
            if partitions is None
            else [to_document(partition) for partition in partitions],
            "batch_size": batch_size,
            "pause_ms": pause_ms,
            "timeout_ms": timeout_ms,
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        endless = batch_size is not None and not validate_only
        return self._send(ElectionAnswer, "/v1/elections/preferred", body, endless=endless)

    def elect_unclean_leaders(
        self,
        partitions: Sequence[TopicPartition],
        *,
        confirm: Sequence[str] = (),
        timeout_ms: int = 10_000,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> UncleanAnswer:
        """Elect leaders that may lack messages, which are then lost (KIP-460).

        `confirm` has to hold each partition's name, unless nothing is to be changed.
        """
        body = {
            "partitions": [to_document(partition) for partition in partitions],
            "confirm": list(confirm),
            "timeout_ms": timeout_ms,
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return self._send(UncleanAnswer, "/v1/elections/unclean", body)
