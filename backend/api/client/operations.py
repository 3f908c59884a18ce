"""The client's part that steers operations and mends throttles; see `backend_client`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from backend.api.client.answer_checks import ANSWER_BYTES_MAX
from backend.api.schema.base import partition_json, plan_json, read_change
from backend.domain.audit.shown_line import AuditLine
from backend.domain.cluster.metadata import TopicPartition
from backend.domain.operations.preview import Preview
from backend.domain.reassignment.answers import ChangeAnswer
from backend.domain.reassignment.move_caps import MoveCaps
from backend.domain.reassignment.plan import ReassignmentPlan
from backend.domain.service.backend_status import BackendStatus
from backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from backend.domain.throttles.owners import OwnedThrottle, Share, ShownDrift, ShownOrphan
from backend.domain.untrusted.strict_json import read_json
from backend.settings import LIMITS

Verb = Literal["pause", "resume", "cancel", "undo"]
Format = Literal["json", "markdown"]

DEFAULT_CAPS: Final = MoveCaps(LIMITS.moves_per_broker, LIMITS.moves_in_cluster)
"""Moves in flight where an operator asks for caps and names none."""


class SteeringClient:
    """What `BackendClient` adds to by knowing how to send it."""

    # Facts

    def standing(self) -> BackendStatus:
        """Which backend acts, and what of the journal needs attention."""
        return read_standing(self._get("/v1/backend"))

    def drift(self) -> tuple[ShownDrift, ...]:
        """What somebody else did to the throttles of running operations."""
        return tuple(map(read_drift, self._get("/v1/drift")["drift"]))

    def owned_throttles(self) -> tuple[OwnedThrottle, ...]:
        """Whose each throttle is, and what comes back; what is not among them is not ours."""
        return tuple(map(read_owned, self._get("/v1/throttles/owned")["throttles"]))

    def orphans(self) -> tuple[ShownOrphan, ...]:
        """Throttles that no move justifies."""
        return tuple(map(read_orphan, self._get("/v1/orphans")["orphans"]))

    def audit_lines(self, operation_id: str = "") -> tuple[AuditLine, ...]:
        """The audit of one operation, or of all, newest last."""
        text = self.audit_text("json", operation_id)
        entries = read_json(text, bytes_max=ANSWER_BYTES_MAX)["entries"]
        return tuple(map(read_audit_line, entries))

    def verify_audit(self) -> tuple[int, tuple[str, ...]]:
        """How many lines are proven, and what was found wrong, a sentence each."""
        found = self._get("/v1/audit/verification")
        return found["lines"], tuple(found["problems"])

    def audit_text(self, format: Format, operation_id: str = "") -> str:
        """The audit as a document, of one operation or of all."""
        asked = {"format": format} | ({"operation": operation_id} if operation_id else {})
        return self._get_text("/v1/audit", asked)

    # Previews: what a change would touch; nothing is changed

    def preview_start(
        self, plan: ReassignmentPlan, throttle_bytes_per_s: int | None = None
    ) -> Preview:
        """What starting a plan would touch."""
        return self._preview(
            "start", plan=plan_json(plan), throttle_bytes_per_s=throttle_bytes_per_s
        )

    def preview_cancel(self, partitions: Sequence[TopicPartition]) -> Preview:
        """What cancelling partitions would touch."""
        return self._preview("cancel", partitions=list(map(partition_json, partitions)))

    def preview_elect(self, partitions: Sequence[TopicPartition] | None) -> Preview:
        """What electing preferred leaders would touch; of every partition if None."""
        named = None if partitions is None else list(map(partition_json, partitions))
        return self._preview("elect", partitions=named)

    def preview_throttle(
        self,
        rates: Mapping[int, ThrottledRate] | None = None,
        replicas: Mapping[str, ThrottledReplicas] | None = None,
    ) -> Preview:
        """What changing throttles would touch."""
        return self._preview(
            "throttle", rates=rates_json(rates or {}), replicas=replicas_json(replicas or {})
        )

    def preview_operation(
        self, verb: Literal["cancel", "pause", "undo"], operation_id: str
    ) -> Preview:
        """What a verb would touch that is done to an operation."""
        return self._preview(verb, operation_id=operation_id)

    def _preview(self, action: str, **about: Any) -> Preview:
        document = self._post("/v1/preview", {"action": action, **about})
        return Preview(
            document["sentence"], tuple(document["warnings"]), str(document["fingerprint"])
        )

    # What changes the cluster. Options are those of `BackendClient`'s changes.

    def steer(
        self,
        verb: Verb,
        operation_id: str,
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Pause, resume, cancel or undo an operation."""
        body = {
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        return read_change(self._post(f"/v1/operations/{operation_id}/{verb}", body))

    def abandon(
        self,
        operation_id: str,
        brokers: Sequence[int],
        *,
        validate_only: bool = False,
        cluster_id: str | None = None,
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """End an operation although brokers that are gone for good still have its throttle."""
        body = {
            "brokers": list(brokers),
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return read_change(self._post(f"/v1/operations/{operation_id}/abandon", body))

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
            "partitions": None if partitions is None else list(map(partition_json, partitions)),
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return read_change(self._post("/v1/throttles/adopt", body))

    def settle_drift(
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
        body = _mending(ids, validate_only, cluster_id, who, reason)
        path = "/v1/drift/reapply" if ours else "/v1/drift/accept"
        return read_change(self._post(path, body))

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
        body = _mending(ids, validate_only, cluster_id, who, reason)
        return read_change(self._post("/v1/orphans/remove", body))

    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        raise NotImplementedError

    def _get_text(self, path: str, parameters: Mapping[str, str]) -> str:
        raise NotImplementedError

    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        raise NotImplementedError


def _mending(
    ids: Sequence[str], validate_only: bool, cluster_id: str | None, who: str, reason: str
) -> dict[str, Any]:
    return {
        "ids": list(ids),
        "validate_only": validate_only,
        "cluster_id": cluster_id,
        "who": who,
        "reason": reason,
    }


def rates_json(rates: Mapping[int, ThrottledRate]) -> list[dict[str, Any]]:
    """Rates by broker, as requests have them."""
    return [
        {
            "broker": broker,
            "leader_bytes_per_s": rate.leader_bytes_per_s,
            "follower_bytes_per_s": rate.follower_bytes_per_s,
        }
        for broker, rate in rates.items()
    ]


def replicas_json(replicas: Mapping[str, ThrottledReplicas]) -> list[dict[str, Any]]:
    """Lists by topic, as requests have them."""
    return [
        {"topic": topic, "leaders": str(lists.leaders), "followers": str(lists.followers)}
        for topic, lists in replicas.items()
    ]


def read_standing(document: Mapping[str, Any]) -> BackendStatus:
    """From the answer of `/v1/backend`."""
    acting = document["acting"] or {}
    return BackendStatus(
        backend=document["backend"],
        duty=document["duty"],
        acting=acting.get("backend", ""),
        host=acting.get("host", ""),
        remarks=tuple(document["remarks"]),
        unreadable=tuple(
            f"{one['key']} ({one['why']}): {one['detail']}" for one in document["unreadable"]
        ),
        not_offered=tuple((one["what"], one["why"]) for one in document.get("not_offered", ())),
    )


def read_drift(document: Mapping[str, Any]) -> ShownDrift:
    """From an entry of `/v1/drift`."""
    named = {name: document[name] for name in ("id", "setting", "broker", "topic", "kind", "text")}
    return ShownDrift(
        wanted=document["wanted"],
        found=document["found"],
        operations=tuple(document["operations"]),
        **named,
    )


def read_owned(document: Mapping[str, Any]) -> OwnedThrottle:
    """From an entry of `/v1/throttles/owned`."""
    names = ("setting", "broker", "topic", "value", "source", "prior", "prior_source", "drift")
    shares = tuple(
        Share(one["operation"], one["who"], one["wants"], one["state"])
        for one in document["shares"]
    )
    return OwnedThrottle(shares=shares, **{name: document[name] for name in names})


def read_orphan(document: Mapping[str, Any]) -> ShownOrphan:
    """From an entry of `/v1/orphans`."""
    named = {name: document[name] for name in ("id", "setting", "broker", "topic", "value")}
    return ShownOrphan(origin=document["origin"], operations=tuple(document["operations"]), **named)


def read_audit_line(document: Mapping[str, Any]) -> AuditLine:
    """From an entry of `/v1/audit`."""
    if document["unreadable"] is not None:
        return AuditLine(document["time_ms"], "unreadable", "", document["detail"])
    return AuditLine(
        document["time_ms"],
        document["event"],
        document["who"],
        document["outcome"] or document["reason"],
        document.get("operation_id", ""),
        document.get("kind", ""),
        document["reason"],
        document["outcome"],
        tuple(_touched(document.get("touched", {}))),
        document.get("backend", ""),
    )


def _touched(document: Mapping[str, Any]) -> Iterator[str]:
    """`2 brokers: 1, 3`: each kind of thing with its number and the first names."""
    for noun in ("broker", "topic", "partition", "throttle"):
        count, names = document.get(f"{noun}_count", 0), document.get(f"{noun}s", ())
        if count:
            words = ", ".join(
                "-".join(map(str, n)) if noun == "partition" else str(n) for n in names
            )
            more = f" and {count - len(names):,} more" if count > len(names) else ""
            yield f"{count:,} {noun}{'' if count == 1 else 's'}: {words}{more}"
