"""The client's part for throttles: those that stand or are set, drift, and orphans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshunt.backend.api.client.sending.sender import UNPREVIEWED, Subject
from kshunt.backend.api.schema.throttles import (
    DriftedThrottles,
    OrphanThrottles,
    OwnedThrottles,
    ThrottleSettings,
    rates_json,
    replicas_json,
)
from kshunt.backend.domain.audit.past_drift import PastDrift
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import ANONYMOUS_CHANGE, Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas, Throttles
from kshunt.backend.domain.throttles.owners import OwnedThrottle, ShownDrift, ShownOrphan
from kshunt.backend.domain.untrusted.json_codec import to_document


class ThrottlesClient(Subject):
    """Replication throttles."""

    def list(self) -> Throttles:
        """Every one, asked of the cluster."""
        return self._sender.ask(ThrottleSettings, "/v1/throttles").throttles()

    def alter_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        change: Change = ANONYMOUS_CHANGE,
        *,
        auto_remove_throttle: bool = True,
        timeout_ms: int = 10_000,
    ) -> ChangeAnswer:
        """Set brokers' throttled rates; None in a rate removes it."""
        body = {
            "rates": rates_json(rates),
            "auto_remove_throttle": auto_remove_throttle,
            "timeout_ms": timeout_ms,
        }
        return self._sender.change(ChangeAnswer, "/v1/throttles/rates", change, body)

    def alter_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        change: Change = ANONYMOUS_CHANGE,
        *,
        auto_remove_throttle: bool = True,
        timeout_ms: int = 10_000,
    ) -> ChangeAnswer:
        """Set topics' throttled replicas; an empty side is removed."""
        body = {
            "replicas": replicas_json(replicas),
            "auto_remove_throttle": auto_remove_throttle,
            "timeout_ms": timeout_ms,
        }
        return self._sender.change(ChangeAnswer, "/v1/throttles/replicas", change, body)

    def owned(self) -> tuple[OwnedThrottle, ...]:
        """Whose each throttle is, and what comes back; what is not among them is not ours."""
        return self._sender.ask(OwnedThrottles, "/v1/throttles/owned").throttles

    def adopt(
        self,
        partitions: Sequence[TopicPartition] | None = None,
        change: Change = ANONYMOUS_CHANGE,
    ) -> ChangeAnswer:
        """Take over the throttle of moves that somebody else started; of all of them if None."""
        named = None if partitions is None else list(map(to_document, partitions))
        return self._mend("/v1/throttles/adopt", change, {"partitions": named})

    def drift(self) -> tuple[ShownDrift, ...]:
        """Changes that somebody else made to the throttles of running operations."""
        return self._sender.ask(DriftedThrottles, "/v1/drift").drift

    def past_drift(self) -> PastDrift:
        """Drift of the last 24 hours, whether or not it is over."""
        return self._sender.ask(PastDrift, "/v1/drift/past")

    def reapply_or_accept_drift(
        self, ids: Sequence[str], change: Change = ANONYMOUS_CHANGE, *, ours: bool
    ) -> ChangeAnswer:
        """Put our throttle back where it drifted (`ours`), or keep what somebody else set."""
        path = "/v1/drift/reapply" if ours else "/v1/drift/accept"
        return self._mend(path, change, {"ids": list(ids)})

    def orphans(self) -> tuple[ShownOrphan, ...]:
        """Those that no move justifies."""
        return self._sender.ask(OrphanThrottles, "/v1/orphans").orphans

    def remove_orphans(self, ids: Sequence[str], change: Change = ANONYMOUS_CHANGE) -> ChangeAnswer:
        """Remove throttles that are still orphans."""
        return self._mend("/v1/orphans/remove", change, {"ids": list(ids)})

    def _mend(self, path: str, change: Change, body: Mapping[str, Any]) -> ChangeAnswer:
        return self._sender.change(ChangeAnswer, path, change, body, omit=UNPREVIEWED)
