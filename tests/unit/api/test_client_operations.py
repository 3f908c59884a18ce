"""What the client reads of steering is what the service writes."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeVar

import pytest
from pydantic import BaseModel

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.client.operations import DEFAULT_CAPS
from kshunt.backend.api.request_models.drift import MendRequestModel
from kshunt.backend.api.request_models.operations import AbandonRequestModel, SteerRequestModel
from kshunt.backend.api.request_models.previews import PreviewRequestModel
from kshunt.backend.api.request_models.throttles import AdoptRequestModel
from kshunt.backend.api.schema.audit import AuditEntries, read_audit_line
from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, UnreadableAudit
from kshunt.backend.domain.backend.backend_status import BackendStatus
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.domain.throttles.owners import (
    DriftKind,
    OrphanOrigin,
    SettingValue,
    ShownDrift,
    ShownOrphan,
)
from kshunt.backend.domain.untrusted.json_codec import from_document, to_json
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.ownership.cells import FoundRate, ListKey, RateKey
from kshunt.backend.operations.ownership.drift import ListDrift, RateDrift
from kshunt.backend.operations.throttles.orphans import OrphanRate, OrphanReplicas
from kshunt.backend.operations.throttles.repair import shown_drift, shown_orphan

Shown = TypeVar("Shown", ShownDrift, ShownOrphan)

PLACE = TopicPartition("orders", 3)
PLAN = ReassignmentPlan({PLACE: (1, 2)})
ANSWER: dict[str, Any] = {"validate_only": True, "operation_id": None, "results": [], "notes": []}
RADIUS = {"sentence": "Touches nothing.", "warnings": [], "fingerprint": "f"}
LISTED = ReplicaSet(frozenset({(3, 1)}))


def test_drift_is_shown_with_both_values() -> None:
    found = FoundRate(2_000, ConfigSource.DYNAMIC_BROKER)
    rate = RateDrift(4, RateKey.FOLLOWER, DriftKind.CHANGED, 1_000, found, ("a",))
    shown = as_read(shown_drift(rate))
    assert (shown.broker, shown.topic, shown.setting) == (4, None, RateKey.FOLLOWER.value)
    assert (shown.wanted_value, shown.found_value) == (SettingValue(1_000), SettingValue(2_000))
    assert shown.operations == ("a",)
    nothing = ReplicaSet()
    lacks = ListDrift(
        "orders", ListKey.LEADERS, DriftKind.NARROWED, LISTED, nothing, LISTED, ("a", "b")
    )
    shown = as_read(shown_drift(lacks))
    assert (shown.broker, shown.topic, shown.kind) == (None, "orders", DriftKind.NARROWED)
    assert (shown.wanted_value, shown.changed_replicas) == (SettingValue(replicas="3:1"), "3:1")
    assert shown.operations == ("a", "b")


def test_orphans_are_shown_with_value_and_origin() -> None:
    rate = as_read(
        shown_orphan(OrphanRate(4, RateKey.LEADER, 1_000, OrphanOrigin.ENDED_MOVE, ("a",)))
    )
    assert (rate.broker, rate.present_value) == (4, SettingValue(1_000))
    assert (rate.origin, rate.operations) == (OrphanOrigin.ENDED_MOVE, ("a",))
    listed = OrphanReplicas("orders", ListKey.LEADERS, LISTED, OrphanOrigin.UNKNOWN)
    shown = as_read(shown_orphan(listed))
    assert (shown.topic, shown.present_value) == ("orders", SettingValue(replicas="3:1"))


def test_an_origin_in_words_of_version_0_1_is_unknown() -> None:
    document = {
        "id": "o1",
        "setting": RateKey.LEADER.value,
        "broker": 4,
        "topic": None,
        "value": "1000 B/s",
        "origin": "left by a move that was cancelled",
        "operations": [],
    }
    read = from_document(ShownOrphan, document)
    assert (read.broker, read.origin) == (4, OrphanOrigin.UNKNOWN)
    assert read.present_value is None


def as_read(shown: Shown) -> Shown:
    """As a client reads what the backend writes."""
    return from_document(type(shown), json.loads(to_json(shown)))


def test_the_audit_is_read_as_it_is_written() -> None:
    started = AuditEntry(1_000, 0, AuditEvent.STARTED, "op", who="ada@b", outcome="2 refused")
    broken = UnreadableAudit("audit/x", None, UnreadableReason.DAMAGED, "It is not JSON.")
    entries = AuditEntries.of([started, broken], "c").entries
    first, second = map(read_audit_line, entries)
    assert (first.time_ms, first.event, first.who, first.text) == (
        1_000,
        "started",
        "ada@b",
        "2 refused",
    )
    assert (second.time_ms, second.event, second.text) == (None, "unreadable", "It is not JSON.")


def test_a_backend_follows_where_another_acts() -> None:
    assert BackendStatus("a", "follow", "b").follows
    assert not BackendStatus("a", "act", "a").follows
    assert not BackendStatus("a", "idle").follows


def test_the_caps_that_are_offered_are_the_limits() -> None:
    assert (DEFAULT_CAPS.per_broker, DEFAULT_CAPS.in_cluster) == (
        LIMITS.moves_per_broker,
        LIMITS.moves_in_cluster,
    )


class _Service(BaseHTTPRequestHandler):
    """Keeps what is asked, and answers that there is nothing to report."""

    asked: ClassVar[list[tuple[str, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.asked.append((self.path, json.loads(body)))
        answer = json.dumps(RADIUS if self.path == "/v1/preview" else ANSWER).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: a test's output is its own."""


@pytest.fixture
def recorded() -> Iterator[tuple[BackendClient, list[tuple[str, Any]]]]:
    """A client, and what its service was asked."""
    _Service.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        with BackendClient(f"http://127.0.0.1:{server.server_port}") as client:
            yield client, _Service.asked
        server.shutdown()
        thread.join()


def test_every_request_fits_the_services_model(
    recorded: tuple[BackendClient, list[tuple[str, Any]]],
) -> None:
    client, asked = recorded
    change = Change(who="ada@b", reason="why")
    client.operations.pause("op", replace(change, preview="f"))
    client.operations.abandon("op", [3], change)
    client.throttles.adopt([PLACE], change)
    client.throttles.adopt(None, change)
    client.throttles.reapply_or_accept_drift(["a"], change, ours=True)
    client.throttles.reapply_or_accept_drift(["a"], change, ours=False)
    client.throttles.remove_orphans(["a"], change)
    models: dict[str, type[BaseModel]] = {
        "pause": SteerRequestModel,
        "abandon": AbandonRequestModel,
        "adopt": AdoptRequestModel,
        "reapply": MendRequestModel,
        "accept": MendRequestModel,
        "remove": MendRequestModel,
    }
    for path, body in asked:
        models[path.rsplit("/", 1)[1]].model_validate(body)
    assert {body["who"] for _, body in asked} == {"ada@b"}


def test_every_preview_fits_the_services_model(
    recorded: tuple[BackendClient, list[tuple[str, Any]]],
) -> None:
    client, asked = recorded
    assert client.previews.start(PLAN, 5_000).fingerprint == "f"
    client.previews.cancel([PLACE])
    client.previews.elect([PLACE])
    client.previews.elect(None)
    client.previews.throttle(rates={1: ThrottledRate(1_000, None)})
    client.previews.throttle(replicas={"orders": ThrottledReplicas(LISTED, ReplicaSet())})
    client.previews.operation("undo", "op")
    for _, body in asked:
        PreviewRequestModel.model_validate(body)
    actions = [body["action"] for _, body in asked]
    assert actions == ["start", "cancel", "elect", "elect", "throttle", "throttle", "undo"]
