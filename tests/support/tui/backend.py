"""A backend for the dashboard's tests: real bytes on a Unix socket, from a scripted cluster.

It speaks what `kshunt.backend.api.client.backend_client` reads (Arrow frames, server-sent events,
JSON, problems). It also lets a test do what a real service does not do on demand: cut every
connection, fall silent, refuse, answer late. It runs on the test's own event loop; the dashboard
reads it from its threads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kshunt.backend.api.schema.cluster import (
    ActingBackend,
    BackendPart,
    NotOfferedAction,
    UnreadableEntry,
)
from kshunt.backend.api.schema.frames.snapshot_writer import FrameWriter
from kshunt.backend.domain.audit.past_drift import PastDrift
from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.backend.backend_status import BackendStatus
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.operations.preview import Preview
from kshunt.backend.domain.pipeline.delivered import ABSENT
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.domain.throttles.owners import OwnedThrottle, ShownDrift, ShownOrphan
from kshunt.backend.domain.untrusted.json_codec import to_document
from tests.support.tui.cluster import ScriptedCluster
from tests.support.tui.delivered_answers import answer_of
from tests.support.tui.team import TeamAnswers
from tests.support.tui.wire import CuttableServer, chunk, next_or_gone, respond, start_stream

Json = dict[str, Any]
PLANNERS = ("/v1/plans", "/v1/rehearsals")


class Problem(Exception):
    """An answer that is an RFC 9457 problem."""

    def __init__(self, status: int, detail: str, advice: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.advice = status, detail, advice
        self.document: Json = {"detail": detail, "advice": advice}


class ScriptedBackend:
    """The service. `async with` it; `publish` sends what the cluster looks like."""

    def __init__(self, socket: Path, cluster: ScriptedCluster) -> None:
        self.socket = socket
        self.cluster = cluster
        self.asked: list[tuple[str, Json]] = []
        """Every change that was asked for, checks too: path and body."""
        self.questions: list[tuple[str, Json]] = []
        """What planners were asked, which changes nothing."""
        self.refuse: Problem | None = None
        """Answer every change with this."""
        self.events_problem: Problem | None = None
        """Answer the next reader of events with this."""
        self.drift_problem: Problem | None = None
        """Answer who asks for drift with this."""
        self.failing: dict[str, Result] = {}
        """By item: what becomes of it, for the next changes."""
        self.held: asyncio.Event | None = None
        """While set up, changes are answered only once it is set."""
        self.previewed: list[Json] = []
        """What a preview was asked of."""
        self.preview = Preview(
            "Touches 3 brokers and 2 topics (6 partitions), 0 partitions at min-ISR.", (), "a-1"
        )
        """The answer to each; a change with another fingerprint is refused."""
        self.status = BackendStatus("kshunt-0a1b2c3d", "act", "kshunt-0a1b2c3d", "bastion-1")
        self.pipeline = ABSENT
        self.delivered: dict[str, Any] = {}
        """What the data pipeline delivered, by the end of its path: `eta`, `stalls`, …"""
        self.delivered_problem: Problem | None = None
        self.drift: dict[str, ShownDrift] = {}
        self.past_drift: PastDrift | None = None
        """Of the last day; None: as an earlier backend, it has no such route."""
        self.orphans: dict[str, ShownOrphan] = {}
        self.owned_problem: Problem | None = None
        """Answer who asks for owners with this."""
        self.owned: list[OwnedThrottle] = []
        """Settings that operations have a share of."""
        self.audit: list[tuple[str, AuditLine]] = []
        """An operation's id and a line, oldest first."""
        self.configs: dict[str, list[Json]] = {}
        """By topic: what it is configured with."""
        self.scripted: dict[str, Callable[[Json], Json]] = {}
        """By the beginning of a path: answers that a test gives itself."""
        self.looked: list[str] = []
        """Paths that were read."""
        self.team = TeamAnswers(cluster, self.announce)
        self.snapshot = cluster.step()
        self.readers = 0
        """Snapshot streams that are open."""
        self._server = CuttableServer(socket, self._serve_one)
        self._frames: set[asyncio.Queue[Snapshot]] = set()
        self._events: set[asyncio.Queue[bytes]] = set()
        self._sent: list[tuple[int, bytes]] = []
        self._event_id = 0

    @property
    def address(self) -> str:
        """As the client takes it."""
        return f"unix:{self.socket}"

    @property
    def changes(self) -> list[tuple[str, Json]]:
        """What was asked in earnest."""
        return [(path, body) for path, body in self.asked if not body.get("validate_only")]

    async def __aenter__(self) -> ScriptedBackend:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()
        await self._server.close()

    async def start(self) -> None:
        """Listen."""
        await self._server.listen()

    async def stop(self) -> None:
        """Cut every connection and listen no more."""
        await self._server.cut()

    def publish(self, seconds: float = 1.0) -> Snapshot:
        """Let time pass in the cluster and send what it looks like then."""
        self.snapshot = self.cluster.step(seconds)
        for queue in self._frames:
            queue.put_nowait(self.snapshot)
        return self.snapshot

    def announce(self, operation: Operation) -> None:
        """Send an operation as an event."""
        self._event("operation", to_document(operation))

    def alert(self, text: str) -> None:
        """Send an alert."""
        self._event("alert", {"message": text})

    def cut_events(self) -> None:
        """End every stream of events."""
        for queue in self._events:
            queue.put_nowait(b"")

    def reset_events(self) -> None:
        """Tell readers that they missed some."""
        self._event("reset", {})

    def _event(self, kind: str, document: Json) -> None:
        self._event_id += 1
        data = f"id: {self._event_id}\nevent: {kind}\ndata: {json.dumps(document)}\n\n".encode()
        self._sent.append((self._event_id, data))
        for queue in self._events:
            queue.put_nowait(data)

    # HTTP

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if path.startswith("/v1/replicas/stream"):
            await self._stream_frames(reader, writer, changes="header_changes=true" in path)
            return False
        if path == "/v1/events" and self.events_problem is None:
            await self._stream_events(reader, writer, int(headers.get("last-event-id", "-1")))
            return False
        try:
            document = await self._answer(method, path, json.loads(body) if body else {})
            respond(writer, 200, "application/json", document)
        except Problem as problem:
            respond(writer, problem.status, "application/problem+json", problem.document)
        await writer.drain()
        return True

    async def _stream_frames(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, changes: bool
    ) -> None:
        queue: asyncio.Queue[Snapshot] = asyncio.Queue()
        frames = FrameWriter(header_changes=changes)
        start_stream(writer, "application/vnd.apache.arrow.stream")
        chunk(writer, frames.write(self.snapshot))
        self._frames.add(queue)
        self.readers += 1
        gone = asyncio.ensure_future(reader.read())
        try:
            while True:
                await writer.drain()
                chunk(writer, frames.write(await next_or_gone(queue, gone)))
        finally:
            self.readers -= 1
            self._frames.discard(queue)

    async def _stream_events(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, last: int
    ) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        start_stream(writer, "text/event-stream")
        for id, data in self._sent:
            if id > last >= 0:
                chunk(writer, data)
        chunk(writer, b": hello\n\n")
        self._events.add(queue)
        gone = asyncio.ensure_future(reader.read())
        try:
            while True:
                await writer.drain()
                data = await next_or_gone(queue, gone)
                chunk(writer, data)
                if not data:
                    return
        finally:
            self._events.discard(queue)

    async def _answer(self, method: str, path: str, body: Json) -> Json:
        if (told := self.team.answer(method, path, body)) is not None:
            return told
        if method == "GET":
            self.looked.append(path)
            return self._read(path)
        if path == "/v1/preview":
            return self._preview(body)
        (self.questions if path in PLANNERS else self.asked).append((path, body))
        if self.held is not None:
            await self.held.wait()
        if self.refuse is not None:
            raise self.refuse
        wanted = body.get("cluster_id")
        if wanted is not None and wanted != self.cluster.cluster_id:
            raise Problem(
                409, f"This backend serves cluster {self.cluster.cluster_id}, not {wanted}."
            )
        if body.get("preview") not in (None, "", self.preview.fingerprint):
            raise Problem(
                409,
                "The cluster has changed since the preview: who leads. Nothing was done.",
                "Check the new preview and confirm that one.",
            )
        if path in self.scripted:
            return self.scripted[path](body)
        if path in PLANNERS:
            raise Problem(422, "Nothing is planned here.")
        return to_document(self._change(path, body))

    def _preview(self, body: Json) -> Json:
        self.previewed.append(body)
        return to_document(self.preview)

    def _read(self, path: str) -> Json:
        cluster = self.cluster
        if path.partition("?")[0] in self.scripted:
            return self.scripted[path.partition("?")[0]]({"path": path})
        if path == "/v1/cluster":
            return {
                "cluster_id": cluster.cluster_id,
                "bootstrap_servers": cluster.bootstrap,
                "controller": 1,
                "brokers": len(cluster.racks),
                "topics": len({p.topic for p in cluster.partitions}),
                "replicas": sum(len(s.replicas) for s in cluster.partitions.values()),
                "moving_partitions": sum(1 for s in cluster.partitions.values() if s.copied),
                "sampled_ms": cluster.now_ms,
                "backend_pid": 1,
                "backend_version": "0",
            }
        if path == "/v1/operations":
            return {"operations": [to_document(o) for o in cluster.operations.values()]}
        if path == "/v1/backend":
            return status_json(self.status)
        if path == "/v1/pipeline":
            return asdict(self.pipeline)
        if path.startswith("/v1/pipeline/") and self.delivered_problem is not None:
            raise self.delivered_problem
        if path.startswith("/v1/pipeline/"):
            return answer_of(self.delivered, path)
        if path == "/v1/drift/past" and self.past_drift is not None:
            return to_document(self.past_drift)
        if path == "/v1/drift" and self.drift_problem is not None:
            raise self.drift_problem
        if path == "/v1/drift":
            return {"drift": [to_document(one) for one in self.drift.values()]}
        if path == "/v1/throttles/owned" and self.owned_problem is not None:
            raise self.owned_problem
        if path == "/v1/throttles/owned":
            return {"throttles": [to_document(one) for one in self.owned]}
        if path == "/v1/orphans":
            return {"orphans": [to_document(one) for one in self.orphans.values()]}
        if path.startswith("/v1/topics/"):
            return self._configs_of(path.split("/")[3])
        if path.startswith("/v1/audit"):
            return self._audit(path)
        if path == "/v1/events" and self.events_problem is not None:
            raise self.events_problem
        raise Problem(404, f"There is no {path}.")

    def _configs_of(self, topic: str) -> Json:
        if topic not in self.configs:
            raise Problem(404, f"The cluster has no topic '{topic}'.")
        return {"topic": topic, "configs": self.configs[topic]}

    # Changes

    def _change(self, path: str, body: Json) -> ChangeAnswer:
        verbs: dict[str, Callable[[Json, bool], tuple[list[Result], OperationKind]]] = {
            "/v1/reassignments": self._reassign,
            "/v1/reassignments/cancel": self._cancel,
            "/v1/throttles/rates": self._rates,
            "/v1/throttles/replicas": self._lists,
            "/v1/elections/preferred": self._elect,
            "/v1/throttles/adopt": self._adopt,
            "/v1/drift/reapply": self._reapply_or_accept,
            "/v1/drift/accept": self._reapply_or_accept,
            "/v1/orphans/remove": self._remove,
        }
        if path.startswith("/v1/operations/"):
            return self._steer(path, body)
        verb = verbs[path]
        earnest = not body["validate_only"]
        back = self._way_back(body)
        results, kind = verb(body, earnest)
        operation = None
        if earnest:
            state = (
                OperationState.RUNNING if kind is OperationKind.REASSIGN else OperationState.DONE
            )
            operation = self.cluster.note(
                kind,
                f"{kind.value} of {len(results)}",
                state=state,
                partitions=tuple(_partitions(body)),
                throttle_bytes_per_s=body.get("throttle_bytes_per_s"),
            )
            self.announce(operation)
        return ChangeAnswer(
            validate_only=not earnest,
            operation_id=operation.id if operation is not None else None,
            results=tuple(results),
            rollback_plan=back if kind is OperationKind.REASSIGN else None,
        )

    def _steer(self, path: str, body: Json) -> ChangeAnswer:
        """What becomes of an operation by one of the verbs that it offers."""
        *_, id, verb = path.split("/")
        operation = self.cluster.operations[id]
        if verb not in operation.actions:
            raise Problem(409, f"Operation {id} is {operation.state}: no {verb} is possible.")
        if not body["validate_only"]:
            state, actions = _AFTER[verb]
            changed = replace(operation, state=state, actions=actions, outcome=f"{verb} asked")
            self.cluster.operations[id] = changed
            self.announce(changed)
        results = tuple(self._result(str(partition)) for partition in operation.partitions)
        return ChangeAnswer(body["validate_only"], id, results or (self._result(id),))

    def _adopt(self, body: Json, earnest: bool) -> tuple[list[Result], OperationKind]:
        comes_off = Result("broker 1 leader rate", 0, "NONE", "25 MB/s at the end")
        return [comes_off], OperationKind.ADOPT

    def _reapply_or_accept(self, body: Json, earnest: bool) -> tuple[list[Result], OperationKind]:
        return self._mended(self.drift, body, earnest), OperationKind.DRIFT

    def _remove(self, body: Json, earnest: bool) -> tuple[list[Result], OperationKind]:
        return self._mended(self.orphans, body, earnest), OperationKind.ORPHANS

    def _mended(self, shown: dict[str, Any], body: Json, earnest: bool) -> list[Result]:
        changed = Result(
            "", -1, "CHANGED_SINCE", "it was removed, or has changed since it was shown"
        )
        results = [
            self._result(f"{shown[id].setting} of {shown[id].broker or shown[id].topic}")
            if id in shown
            else replace(changed, item=id)
            for id in body["ids"]
        ]
        if earnest:
            for id in body["ids"]:
                shown.pop(id, None)
        return results

    def _audit(self, path: str) -> Json:
        _, _, wanted = path.partition("operation=")
        lines = [(id, line) for id, line in self.audit if not wanted or id == wanted]
        entries = [
            {
                "time_ms": line.time_ms,
                "operation_id": id,
                "event": line.event,
                "who": line.who,
                "outcome": line.text,
                "reason": "",
                "unreadable": None,
            }
            for id, line in lines
        ]
        return {"cluster_id": self.cluster.cluster_id, "entries": entries}

    def _way_back(self, body: Json) -> Json:
        """The plan that undoes a reassignment."""
        present = {str(p): (p, state.replicas) for p, state in self.cluster.partitions.items()}
        named = [present[str(p)] for p in _partitions(body) if str(p) in present]
        entries = [{**to_document(p), "replicas": list(was)} for p, was in named]
        return {"version": 1, "partitions": entries}

    def _result(self, item: str) -> Result:
        return self.failing.get(item, Result(item, 0, "NONE", ""))

    def _reassign(self, body: Json, earnest: bool) -> tuple[list[Result], OperationKind]:
        results = []
        for entry in body["plan"]["partitions"]:
            partition = TopicPartition(entry["topic"], entry["partition"])
            result = self._result(str(partition))
            if partition not in self.cluster.partitions:
                result = Result(
                    str(partition), 3, "UNKNOWN_TOPIC_OR_PARTITION", "There is no such partition."
                )
            if result.ok and earnest:
                self.cluster.move(partition, entry["replicas"])
            results.append(result)
        return results, OperationKind.REASSIGN

    def _cancel(self, body: Json, earnest: bool) -> tuple[list[Result], OperationKind]:
        results = []
        for partition in _partitions(body):
            result = self._result(str(partition))
            if not self.cluster.partitions[partition].copied:
                result = Result(str(partition), 85, "NO_REASSIGNMENT_IN_PROGRESS", "")
            if result.ok and earnest:
                self.cluster.cancel(partition)
            results.append(result)
        return results, OperationKind.CANCEL

    def _elect(self, body: Json, earnest: bool) -> tuple[list[Result], OperationKind]:
        named = body["partitions"]
        wanted = list(self.cluster.partitions) if named is None else list(_partitions(body))
        results = []
        for partition in wanted:
            result = self._result(str(partition))
            results.append(self.cluster.elect(partition) if result.ok and earnest else result)
        return results, OperationKind.ELECTION

    def _rates(self, body: Json, earnest: bool) -> tuple[list[Result], OperationKind]:
        results = []
        for entry in body["rates"]:
            result = self._result(str(entry["broker"]))
            if result.ok and earnest:
                self.cluster.rates[entry["broker"]] = ThrottledRate(
                    entry["leader_bytes_per_s"], entry["follower_bytes_per_s"]
                )
            results.append(result)
        return results, OperationKind.THROTTLED_RATES

    def _lists(self, body: Json, earnest: bool) -> tuple[list[Result], OperationKind]:
        results = []
        for entry in body["replicas"]:
            result = self._result(entry["topic"])
            if result.ok and earnest:
                self.cluster.lists[entry["topic"]] = ThrottledReplicas(
                    ReplicaSet.parse(entry["leaders"]), ReplicaSet.parse(entry["followers"])
                )
            results.append(result)
        return results, OperationKind.THROTTLED_REPLICAS


_AFTER = {
    "pause": (OperationState.PAUSED, ("resume", "cancel")),
    "resume": (OperationState.RUNNING, ("pause", "cancel")),
    "cancel": (OperationState.CANCELLING, ()),
    "undo": (OperationState.DONE, ("undo",)),
    "abandon": (OperationState.FAILED, ("undo",)),
}
"""The state of an operation after each verb, and what can be done then."""


def status_json(status: BackendStatus) -> Json:
    """As `/v1/backend` writes it."""
    part = BackendPart(
        status.backend,
        status.duty,
        ActingBackend(status.acting, status.host, "", 0) if status.acting else None,
        "__kshunt_journal",
        status.remarks,
        tuple(UnreadableEntry(key, "damaged", "It is not JSON.") for key in status.unreadable),
        tuple(NotOfferedAction(what, why) for what, why in status.not_offered),
        status.forecast_record,
    )
    return to_document(part)


def _partitions(body: Mapping[str, Any]) -> Iterable[TopicPartition]:
    entries = body.get("partitions") or body.get("plan", {}).get("partitions", ())
    return (TopicPartition(entry["topic"], entry["partition"]) for entry in entries)
