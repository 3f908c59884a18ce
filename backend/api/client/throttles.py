"""The client's part for throttles: those that stand or are set, drift, and orphans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshunt.backend.api.client.requests import Requests
from kshunt.backend.api.schema.throttles import (
    DriftedThrottles,
    OrphanThrottles,
    OwnedThrottles,
    ThrottleSettings,
    rates_json,
    replicas_json,
)
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas, Throttles
from kshunt.backend.domain.throttles.owners import OwnedThrottle, ShownDrift, ShownOrphan
from kshunt.backend.domain.untrusted.json_codec import to_document


class ThrottlesClient(Requests):
    """Options are those of every change: see `backend_client`."""

    def throttles(self) -> Throttles:
        """Every replication throttle, asked of the cluster."""
        return self._ask(ThrottleSettings, "/v1/throttles").throttles()

    def alter_throttled_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        *,
        auto_remove_throttle: bool = True,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Set brokers' throttled rates; None in a rate removes it."""
        body = {
            "rates": rates_json(rates),
            "auto_remove_throttle": auto_remove_throttle,
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        return self._send(ChangeAnswer, "/v1/throttles/rates", body)

    def alter_throttled_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        *,
        auto_remove_throttle: bool = True,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Set topics' throttled replicas; an empty side is removed."""
        body = {
            "replicas": replicas_json(replicas),
            "auto_remove_throttle": auto_remove_throttle,
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        return self._send(ChangeAnswer, "/v1/throttles/replicas", body)

    def owned_throttles(self) -> tuple[OwnedThrottle, ...]:
        """Whose each throttle is, and what comes back; what is not among them is not ours."""
        return self._ask(OwnedThrottles, "/v1/throttles/owned").throttles

    def adopt(
        self,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Take over the throttle of moves that somebody else started; of all of them if None."""
        body = {
            "partitions": None if partitions is None else list(map(to_document, partitions)),
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return self._send(ChangeAnswer, "/v1/throttles/adopt", body)

    def drift(self) -> tuple[ShownDrift, ...]:
        """What somebody else did to the throttles of running operations."""
        return self._ask(DriftedThrottles, "/v1/drift").drift

    def reapply_or_accept_drift(
        self,
        ids: Sequence[str],
        *,
        ours: bool,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Put our throttle back where it drifted (`ours`), or keep what somebody else set."""
        body = _repair_body(ids, validate_only, cluster_id, who, reason)
        path = "/v1/drift/reapply" if ours else "/v1/drift/accept"
        return self._send(ChangeAnswer, path, body)

    def orphans(self) -> tuple[ShownOrphan, ...]:
        """Throttles that no move justifies."""
        return self._ask(OrphanThrottles, "/v1/orphans").orphans

    def remove_orphans(
        self,
        ids: Sequence[str],
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Take off orphan throttles, as far as they still are."""
        body = _repair_body(ids, validate_only, cluster_id, who, reason)
        return self._send(ChangeAnswer, "/v1/orphans/remove", body)


def _repair_body(
    ids: Sequence[str], validate_only: bool, cluster_id: str | None, who: str, reason: str
) -> dict[str, Any]:
    return {
        "ids": list(ids),
        "validate_only": validate_only,
        "cluster_id": cluster_id,
        "who": who,
        "reason": reason,
    }
