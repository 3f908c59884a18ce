"""The client of a kshunt backend: what the dashboard and the tools call.

Blocking, for use in a thread: a one-shot tool needs no event loop, and the dashboard decodes in
threads so that its own loop stays free. Data libraries are loaded by `snapshots` only.

Of what changes the cluster, `validate_only` checks, and changes nothing; `preview` is the
fingerprint of the preview that was agreed to; `who` and `reason` are for the audit.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import httpx

from kshunt.backend.api.client.answer_checks import ANSWER_BYTES_MAX, VALUES_MAX, checks_answers
from kshunt.backend.api.client.audit import AuditClient
from kshunt.backend.api.client.elections import ElectionsClient
from kshunt.backend.api.client.events import Event, read_events
from kshunt.backend.api.client.operations import OperationsClient
from kshunt.backend.api.client.pipeline import PipelineClient
from kshunt.backend.api.client.plans import PlansClient
from kshunt.backend.api.client.presence import PresenceClient
from kshunt.backend.api.client.problems import refusal, unreachable
from kshunt.backend.api.client.proposals import ProposalsClient, raise_if_proposed
from kshunt.backend.api.client.reassignments import ReassignmentsClient
from kshunt.backend.api.client.shrinks import ShrinksClient
from kshunt.backend.api.client.throttles import ThrottlesClient
from kshunt.backend.api.client.topics import TopicsClient
from kshunt.backend.api.client.transport import Bearer, NamedTransport, server_name, trusted
from kshunt.backend.api.schema.cluster import BackendPart
from kshunt.backend.domain.cluster.metadata import ClusterInfo
from kshunt.backend.domain.service.backend_status import BackendStatus
from kshunt.backend.domain.untrusted.strict_json import read_json
from kshunt.backend.errors import BackendUnreachable

if TYPE_CHECKING:
    from kshunt.backend.domain.replicas.snapshot import Snapshot

STREAM_SILENCE_S = 15.0
"""A stream that says nothing for so long is dead; the backend sends at least every 5 s."""


@checks_answers
class BackendClient(
    ReassignmentsClient,
    ThrottlesClient,
    ElectionsClient,
    TopicsClient,
    ShrinksClient,
    OperationsClient,
    ProposalsClient,
    PresenceClient,
    AuditClient,
    PlansClient,
    PipelineClient,
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections; a thread that waits for a stream's next bytes wakes."""
        for response in tuple(self._streams):
            _shut_down(response)
        self._http.close()

    def watch_requests(self, hook: Callable[[httpx.Request], None]) -> None:
        """Call `hook` before each request is sent, in the thread that asks."""
        self._http.event_hooks["request"] = [hook]

    def cluster(self) -> ClusterInfo:
        """Which cluster the backend serves."""
        return self._ask(ClusterInfo, "/v1/cluster")

    def backend_status(self) -> BackendStatus:
        """Which backend acts, and what of the journal needs attention."""
        return self._ask(BackendPart, "/v1/backend").status()

    def snapshots(self) -> Generator[Snapshot, None, None]:
        """The cluster now, and again whenever it changes, until the backend goes away.

        Raises:
            BackendUnreachable: the backend does not answer, or has fallen silent.
        """
        from kshunt.backend.api.schema.frames.reader import MEDIA_TYPE, read_snapshots

        timeout = httpx.Timeout(10.0, read=STREAM_SILENCE_S)
        with _translated(self.address):
            # A backend that does not know the parameter sends each header whole.
            request = self._http.build_request(
                "GET",
                "/v1/replicas/stream",
                params={"header_changes": "true"},
                headers={"accept": MEDIA_TYPE},
                timeout=timeout,
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
