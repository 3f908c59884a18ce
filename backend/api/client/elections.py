"""The client's part for elections."""

from __future__ import annotations

from collections.abc import Sequence

from kshunt.backend.api.client.sending.sender import UNPREVIEWED, Subject
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.operations.election import ElectionAnswer, UncleanAnswer
from kshunt.backend.domain.untrusted.json_codec import to_document


class ElectionsClient(Subject):
    """Leaders of partitions."""

    def elect_preferred_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        change: Change = ANONYMOUS_CHANGE,
        *,
        batch_size: int | None = None,
        pause_ms: int = 0,
        timeout_ms: int = 10_000,
    ) -> ElectionAnswer:
        """Elect preferred replicas as leaders, of every partition if None (KIP-183).

        The answer comes when all are elected; with `batch_size` it is waited for without end.
        """
        body = {
            "partitions": None if partitions is None else list(map(to_document, partitions)),
            "batch_size": batch_size,
            "pause_ms": pause_ms,
            "timeout_ms": timeout_ms,
        }
        endless = batch_size is not None and not change.validate_only
        path, omit = "/v1/elections/preferred", ("cluster_id", *UNPREVIEWED)
        return self._sender.change(ElectionAnswer, path, change, body, omit=omit, endless=endless)

    def elect_unclean_leaders(
        self,
        partitions: Sequence[TopicPartition],
        change: Change = ANONYMOUS_CHANGE,
        *,
        confirm: Sequence[str] = (),
        timeout_ms: int = 10_000,
    ) -> UncleanAnswer:
        """Elect leaders that may lack messages, which are then lost (KIP-460).

        `confirm` has to hold each partition's name, unless nothing is to be changed.
        """
        body = {
            "partitions": list(map(to_document, partitions)),
            "confirm": list(confirm),
            "timeout_ms": timeout_ms,
        }
        path = "/v1/elections/unclean"
        return self._sender.change(UncleanAnswer, path, change, body, omit=UNPREVIEWED)
