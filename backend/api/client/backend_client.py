"""The client of a kshunt backend: what the dashboard and the tools call.

Blocking, for use in a thread: a one-shot tool needs no event loop, and the dashboard decodes in
threads so that its own loop stays free. Data libraries are loaded by `snapshots` only.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import quote

import httpx

from backend.api.client.answer_checks import ANSWER_BYTES_MAX, VALUES_MAX, checks_answers
from backend.api.client.events import Event, read_events
from backend.api.client.operations import SteeringClient, rates_json, replicas_json
from backend.api.client.pipeline import PipelineClient
from backend.api.client.plans import PlanningClient
from backend.api.client.problems import refusal, unreachable
from backend.api.client.shrink_checks import ShrinkClient
from backend.api.client.shrinks import ShrinkingClient
from backend.api.client.team import TeamClient, raise_if_proposed
from backend.api.client.topics import TopicsClient
from backend.api.client.transport import Bearer, NamedTransport, server_name, trusted
from backend.api.schema.audit import read_audit_json
from backend.api.schema.base import partition_json, plan_json, read_change
from backend.api.schema.elections import read_election, read_unclean
from backend.api.schema.operations import read_operation
from backend.api.schema.reassignments import (
    read_generated,
    read_progress,
    read_reassignment,
    read_verify,
)
from backend.api.schema.throttles import read_throttles
from backend.domain.audit.lines import AuditRow
from backend.domain.cluster.metadata import ClusterInfo, OngoingReassignment, TopicPartition
from backend.domain.operations.election import ElectionAnswer, UncleanAnswer
from backend.domain.operations.operation import Operation
from backend.domain.reassignment.answers import (
    ChangeAnswer,
    GeneratedPlan,
    ProgressRow,
    VerifyAnswer,
)
from backend.domain.reassignment.move_caps import MoveCaps
from backend.domain.reassignment.plan import ReassignmentPlan
from backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas, Throttles
from backend.domain.topics.configs import TopicConfig
from backend.domain.untrusted.strict_json import read_json
from backend.errors import BackendUnreachable

if TYPE_CHECKING:
    from backend.domain.replicas.snapshot import Snapshot

STREAM_SILENCE_S = 15.0
"""A stream that says nothing for so long is dead; the backend sends at least every 5 s."""


@checks_answers
class BackendClient(
    SteeringClient,
    TeamClient,
    TopicsClient,
    ShrinkClient,
    ShrinkingClient,
    PipelineClient,
    PlanningClient,
):
    """One backend, at `unix:/path/to.sock` or `http://host:port`."""

    def __init__(self, address: str, *, timeout_s: float = 30.0) -> None:
        self.address = address
        base, transport, bearer = address, None, None
        if address.startswith("unix:"):
            base = "http://kshunt"
            # No TLS runs over the socket, and building a context for it takes 30 ms.
            transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"), verify=False)
        else:
            bearer = Bearer(address)
            verify = trusted() if address.startswith("https:") else False
            transport = NamedTransport(server_name(), verify)
        self._http = httpx.Client(
            base_url=base, transport=transport, auth=bearer, timeout=timeout_s, trust_env=False
        )
        self._streams: set[httpx.Response] = set()

    def __enter__(self) -> BackendClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections; a thread that waits for a stream's next bytes wakes."""
        for response in tuple(self._streams):
            _shut_down(response)
        self._http.close()

    def watch_requests(self, hook: Callable[[httpx.Request], None]) -> None:
        """Call `hook` before each request is sent, in the thread that asks."""
        self._http.event_hooks = {"request": [hook]}

    # What the cluster is

    def cluster(self) -> ClusterInfo:
        """Which cluster the backend serves."""
        return ClusterInfo(**self._get("/v1/cluster"))

    def reassignments(self) -> tuple[OngoingReassignment, ...]:
        """Every partition that moves now, asked of the cluster."""
        entries = self._get("/v1/reassignments")["reassignments"]
        return tuple(read_reassignment(entry) for entry in entries)

    def throttles(self) -> Throttles:
        """Every replication throttle, asked of the cluster."""
        return read_throttles(self._get("/v1/throttles"))

    def topic_configs(self, topic: str) -> tuple[TopicConfig, ...]:
        """Everything a topic is configured with, sorted by name.

        Raises:
            BackendError: there is no such topic (`status` 404), or it cannot be read.
        """
        document = self._get(f"/v1/topics/{quote(topic, safe='')}/configs")
        return tuple(TopicConfig(**entry) for entry in document["configs"])

    def operations(self) -> tuple[Operation, ...]:
        """What this backend was asked to do, newest first."""
        return tuple(map(read_operation, self._get("/v1/operations")["operations"]))

    def audit(
        self,
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
        operation_id: str = "",
    ) -> tuple[str, tuple[AuditRow, ...]]:
        """The cluster's id, and the lines of its audit, newest last.

        Args:
            since_ms: the first millisecond; None for the beginning.
            until_ms: the first millisecond that is left out; None for the end.
            operation_id: of one operation only; empty for all.
        """
        asked = {"since_ms": since_ms, "until_ms": until_ms, "operation": operation_id or None}
        named = {name: str(value) for name, value in asked.items() if value is not None}
        document = self._get("/v1/audit", named)
        return document["cluster_id"], read_audit_json(document)

    def snapshots(self) -> Generator[Snapshot, None, None]:
        """The cluster now, and again whenever it changes, until the backend goes away.

        Raises:
            BackendUnreachable: the backend does not answer, or has fallen silent.
        """
        from backend.api.schema.frames.reader import MEDIA_TYPE, read_snapshots

        timeout = httpx.Timeout(10.0, read=STREAM_SILENCE_S)
        with _translated(self.address):
            request = self._http.build_request(
                "GET", "/v1/replicas/stream", headers={"accept": MEDIA_TYPE}, timeout=timeout
            )
            response = self._http.send(request, stream=True)
            self._streams.add(response)
            try:
                _raise_for_problem(response)
                stream = io.BufferedReader(_ResponseFile(response), buffer_size=1 << 16)
                yield from read_snapshots(cast(BinaryIO, stream))
            except ValueError as error:
                raise BackendUnreachable(f"The stream of {self.address} broke: {error}.") from None
            finally:
                self._streams.discard(response)
                response.close()

    def events(self, last_event_id: int | None = None) -> Iterator[Event]:
        """What happens, as it happens; after `last_event_id` if it is given.

        Raises:
            BackendUnreachable: the backend does not answer, or has fallen silent.
        """
        headers = {"accept": "text/event-stream"}
        if last_event_id is not None:
            headers["last-event-id"] = str(last_event_id)
        timeout = httpx.Timeout(10.0, read=STREAM_SILENCE_S)
        with (
            _translated(self.address),
            self._http.stream("GET", "/v1/events", headers=headers, timeout=timeout) as response,
        ):
            _raise_for_problem(response)
            self._streams.add(response)
            try:
                yield from read_events(response.iter_bytes())
            except ValueError as error:
                raise BackendUnreachable(f"The events of {self.address} broke: {error}.") from None
            finally:
                self._streams.discard(response)

    # What changes the cluster. `validate_only` checks, and changes nothing; `preview` is the
    # fingerprint of the preview that was agreed to; `who` and `reason` are for the audit.

    def reassign(
        self,
        plan: ReassignmentPlan,
        *,
        throttle_bytes_per_s: int | None = None,
        log_dirs_throttle_bytes_per_s: int | None = None,
        auto_remove_throttle: bool = True,
        additional: bool = False,
        caps: MoveCaps | None = None,
        allow_replication_factor_change: bool = True,
        all_or_nothing: bool = False,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Start moving partitions (KIP-179, reassignPartitions); all at once without `caps`.

        Each partition is answered for itself, but with `all_or_nothing`.
        """
        body = {
            "plan": plan_json(plan),
            "throttle_bytes_per_s": throttle_bytes_per_s,
            "log_dirs_throttle_bytes_per_s": log_dirs_throttle_bytes_per_s,
            "auto_remove_throttle": auto_remove_throttle,
            "additional": additional,
            "caps": None if caps is None else asdict(caps),
            "allow_replication_factor_change": allow_replication_factor_change,
            "all_or_nothing": all_or_nothing,
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        return read_change(self._post("/v1/reassignments", body))

    def cancel(
        self,
        partitions: Sequence[TopicPartition],
        *,
        preserve_throttles: bool = False,
        validate_only: bool = False,
        timeout_ms: int = 10_000,
        cluster_id: str | None = None,
        preview: str = "",
        who: str = "",
        reason: str = "",
    ) -> ChangeAnswer:
        """Return moving partitions to their original replicas."""
        body = {
            "partitions": [partition_json(partition) for partition in partitions],
            "preserve_throttles": preserve_throttles,
            "validate_only": validate_only,
            "timeout_ms": timeout_ms,
            "cluster_id": cluster_id,
            "preview": preview,
            "who": who,
            "reason": reason,
        }
        return read_change(self._post("/v1/reassignments/cancel", body))

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
        return read_change(self._post("/v1/throttles/rates", body))

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
        return read_change(self._post("/v1/throttles/replicas", body))

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
            else [partition_json(partition) for partition in partitions],
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
        answer = self._post("/v1/elections/preferred", body, endless=endless)
        return read_election(answer)

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
            "partitions": [partition_json(partition) for partition in partitions],
            "confirm": list(confirm),
            "timeout_ms": timeout_ms,
            "validate_only": validate_only,
            "cluster_id": cluster_id,
            "who": who,
            "reason": reason,
        }
        return read_unclean(self._post("/v1/elections/unclean", body))

    # What the tools ask

    def progress(self, plan: ReassignmentPlan) -> tuple[ProgressRow, ...]:
        """How far each replica of the plan is (KIP-179, --progress)."""
        answer = self._post("/v1/reassignments/progress", {"plan": plan_json(plan)})
        return read_progress(answer["rows"])

    def verify(self, plan: ReassignmentPlan, *, preserve_throttles: bool) -> VerifyAnswer:
        """Whether the plan is done; clears its throttles if it is and they are not preserved."""
        body = {"plan": plan_json(plan), "preserve_throttles": preserve_throttles}
        return read_verify(self._post("/v1/reassignments/verify", body))

    def generate(
        self, topics: Sequence[str], brokers: Sequence[int], *, rack_aware: bool
    ) -> GeneratedPlan:
        """A plan that spreads the topics over the brokers; nothing is changed."""
        body = {"topics": list(topics), "brokers": list(brokers), "rack_aware": rack_aware}
        return read_generated(self._post("/v1/reassignments/generate", body))

    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        with _translated(self.address):
            return _document(self._http.get(path, params=parameters))

    def _get_text(self, path: str, parameters: Mapping[str, str]) -> str:
        with _translated(self.address):
            response = self._http.get(path, params=parameters)
            _raise_for_problem(response)
            return response.text

    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        timeout = httpx.Timeout(10.0, read=None) if endless else httpx.USE_CLIENT_DEFAULT
        with _translated(self.address):
            return _document(self._http.post(path, json=body, timeout=timeout))


@contextmanager
def _translated(address: str) -> Iterator[None]:
    """Turn httpx's errors of the connection into ours."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise BackendUnreachable(
            f"The backend at {address} did not answer in time.",
            advice="What was asked may still be carried out; look before asking again.",
        ) from error
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise unreachable(address, str(error)) from error


def _shut_down(response: httpx.Response) -> None:
    """End a stream at its socket: closing alone does not wake a thread that reads from it."""
    connection = response.extensions["network_stream"].get_extra_info("socket")
    # It may have ended by itself in the meantime.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _document(response: httpx.Response) -> Any:
    _raise_for_problem(response)
    document = read_json(response.content, bytes_max=ANSWER_BYTES_MAX, values_max=VALUES_MAX)
    raise_if_proposed(response.status_code, document)
    return document


def _raise_for_problem(response: httpx.Response) -> None:
    if response.is_success:
        return
    raise refusal(response.status_code, response.read())


class _ResponseFile(io.RawIOBase):
    """A streamed response as a file, for readers that pull."""

    def __init__(self, response: httpx.Response) -> None:
        self._chunks = response.iter_raw()
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            try:
                self._rest = memoryview(next(self._chunks))
            except StopIteration:
                return 0
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
