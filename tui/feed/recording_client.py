"""A client that tells what it was asked to change, and what became of it, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.errors import AwaitsApproval, KshuntError
from kshunt.tui.feed.messages import ActionTaken
from kshunt.tui.text.formatting import names_text, plural, rate_text

_READS: Final = (
    "/v1/reassignments/progress",
    "/v1/reassignments/verify",
    "/v1/reassignments/generate",
    "/v1/presence",
)
"""These are posted because what they ask about is long; they are no changes."""
PREVIEW: Final = "/v1/preview"
FAILURES_SHOWN: Final = 3


class RecordingClient(BackendClient):
    """A `BackendClient` that `tell`s of every change; from the thread that asks."""

    def __init__(self, address: str, tell: Callable[[ActionTaken], object]) -> None:
        super().__init__(address)
        self._tell = tell

    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        if path in _READS:
            return super()._post(path, body, endless=endless)
        stage, what = stage_of(path, body), asked_words(path, body)
        who, reason = str(body.get("who", "")), str(body.get("reason", ""))
        self._tell(ActionTaken(stage, what, who, reason))
        try:
            answer = super()._post(path, body, endless=endless)
        except AwaitsApproval as waits:
            words = f"{what}: proposed as {waits.proposal_id}, for somebody else to approve"
            self._tell(ActionTaken("answered", words, who))
            raise
        except KshuntError as error:
            self._tell(ActionTaken("refused", f"{what}: {error.message}", who))
            raise
        if stage == "sent":
            self._tell(ActionTaken("answered", f"{what}: {answer_words(answer)}", who))
        return answer


def stage_of(path: str, body: Mapping[str, Any]) -> str:
    """How far a change has come with this request."""
    if path == PREVIEW:
        return "previewed"
    return "rehearsed" if body.get("validate_only") else "sent"


def asked_words(path: str, body: Mapping[str, Any]) -> str:
    """What a request asks for; a preview in the words of what it previews."""
    if path == PREVIEW:
        return _previewed(body)
    parts = path.removeprefix("/v1/").split("/")
    match parts:
        case ["reassignments"]:
            rate = body.get("throttle_bytes_per_s")
            held = f", throttled to {rate_text(rate)}" if rate is not None else ""
            return f"start moving {_partitions(body.get('plan') or {})}{held}"
        case ["reassignments", "cancel"]:
            return f"cancel the moves of {_partitions(body)}"
        case ["elections", kind]:
            return f"elect {kind} leaders of {_partitions(body)}"
        case ["operations", id, "notes"]:
            return f"note on operation {id}: {body.get('text', '')}"
        case ["operations", id, "claim"] if body.get("take_over"):
            return f"take over operation {id}"
        case ["proposals", id, verb]:
            return f"{verb} proposal {id}"
        case ["operations", id, verb]:
            return f"{verb} operation {id}"
        case ["throttles", "rates"]:
            return _rates(body)
        case ["throttles", "replicas"]:
            topics = [entry["topic"] for entry in body["replicas"]]
            return f"set the throttled replicas of {names_text(topics)}"
        case ["throttles", "adopt"]:
            return f"take over the throttles of {_partitions(body)}"
        case ["drift", "reapply"]:
            return f"put our throttle back in {plural(len(body['ids']), 'place')}"
        case ["drift", "accept"]:
            return f"keep their throttle in {plural(len(body['ids']), 'place')}"
        case ["orphans", "remove"]:
            return f"remove {plural(len(body['ids']), 'orphan throttle')}"
        case _:
            return path


def _previewed(body: Mapping[str, Any]) -> str:
    action = str(body.get("action", ""))
    match action:
        case "start":
            return asked_words("/v1/reassignments", body)
        case "cancel" if body.get("operation_id") is None:
            return asked_words("/v1/reassignments/cancel", body)
        case "elect":
            return asked_words("/v1/elections/preferred", body)
        case "throttle" if body.get("rates"):
            return _rates(body)
        case "throttle":
            return asked_words("/v1/throttles/replicas", body)
        case _:
            return f"{action} operation {body.get('operation_id', '')}"


def _partitions(body: Mapping[str, Any]) -> str:
    entries = body.get("partitions")
    if entries is None:
        return "every partition"
    names = [f"{entry['topic']}-{entry['partition']}" for entry in entries[:3]]
    return names_text(names) if len(entries) <= 3 else plural(len(entries), "partition")


def _rates(body: Mapping[str, Any]) -> str:
    by_rate: dict[tuple[int | None, int | None], list[int]] = {}
    for entry in body["rates"]:
        rates = entry["leader_bytes_per_s"], entry["follower_bytes_per_s"]
        by_rate.setdefault(rates, []).append(entry["broker"])
    said = [
        f"of {'broker' if len(brokers) == 1 else 'brokers'} {names_text(brokers)} to "
        f"{rate_text(leader)} sent and {rate_text(follower)} fetched"
        for (leader, follower), brokers in by_rate.items()
    ]
    return f"set rates {'; '.join(said[:FAILURES_SHOWN])}"


def answer_words(answer: Any) -> str:
    """What became of a change."""
    if not isinstance(answer, Mapping) or not {"results", "partitions"} & answer.keys():
        return "answered"
    results = answer.get("results") or ()
    failed = [one for one in results if one["error_code"] not in (0, 84)]
    operation = answer.get("operation_id")
    words = [f"operation {operation}"] if operation else []
    words.append(f"{len(results) - len(failed)} of {len(results)} done")
    reasons = [f"{one['item']}: {one['message'] or one['error_name']}" for one in failed]
    words += reasons[:FAILURES_SHOWN]
    return ", ".join(words)
