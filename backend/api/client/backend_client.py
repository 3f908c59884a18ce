"""The client of a kshunt backend: what the dashboard and the tools call.

Blocking, for use in a thread: a one-shot tool needs no event loop, and the dashboard decodes in
threads so that its own loop stays free. Data libraries are loaded by `snapshots` only.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import httpx

from kshunt.backend.api.client.answer_checks import checks_answers
from kshunt.backend.api.client.audit import AuditClient
from kshunt.backend.api.client.elections import ElectionsClient
from kshunt.backend.api.client.events import Event, read_events
from kshunt.backend.api.client.operations import OperationsClient
from kshunt.backend.api.client.pipeline import PipelineClient
from kshunt.backend.api.client.plans import PlansClient
from kshunt.backend.api.client.presence import PresenceClient
from kshunt.backend.api.client.previews import PreviewsClient
from kshunt.backend.api.client.proposals import ProposalsClient
from kshunt.backend.api.client.reassignments import ReassignmentsClient
from kshunt.backend.api.client.sending.httpx_sender import HttpxSender
from kshunt.backend.api.client.shrinks import ShrinksClient
from kshunt.backend.api.client.throttles import ThrottlesClient
from kshunt.backend.api.client.topics import TopicsClient
from kshunt.backend.api.schema.cluster import BackendPart
from kshunt.backend.domain.backend.backend_status import BackendStatus
from kshunt.backend.domain.cluster.metadata import ClusterInfo
from kshunt.backend.errors import BackendUnreachable

if TYPE_CHECKING:
    from kshunt.backend.domain.replicas.snapshot import Snapshot


@checks_answers
class BackendClient:
    """One backend, at `unix:/path/to.sock` or `http://host:port`; a part for each subject."""

    def __init__(self, address: str, *, timeout_s: float = 30.0) -> None:
        self.address = address
        self.sender = sender = HttpxSender(address, timeout_s=timeout_s)
        self.audit = AuditClient(sender)
        self.elections = ElectionsClient(sender)
        self.operations = OperationsClient(sender)
        self.pipeline = PipelineClient(sender)
        self.plans = PlansClient(sender)
        self.presence = PresenceClient(sender)
        self.previews = PreviewsClient(sender)
        self.proposals = ProposalsClient(sender)
        self.reassignments = ReassignmentsClient(sender)
        self.shrinks = ShrinksClient(sender)
        self.throttles = ThrottlesClient(sender)
        self.topics = TopicsClient(sender)

    def __enter__(self) -> BackendClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections; a thread that waits for a stream's next bytes wakes."""
        self.sender.close()

    def cluster(self) -> ClusterInfo:
        """Which cluster the backend serves."""
        return self.sender.ask(ClusterInfo, "/v1/cluster")

    def backend_status(self) -> BackendStatus:
        """Which backend acts, and what of the journal needs attention."""
        return self.sender.ask(BackendPart, "/v1/backend").status()

    def snapshots(self) -> Generator[Snapshot, None, None]:
        """The cluster now, and again whenever it changes, until the backend goes away.

        Raises:
            BackendUnreachable: the backend does not answer, or has fallen silent.
        """
        from kshunt.backend.api.schema.frames.snapshot_reader import MEDIA_TYPE, read_snapshots

        # A backend that does not know the parameter sends each header whole.
        path = "/v1/replicas/stream?header_changes=true"
        with self.sender.stream(path, {"accept": MEDIA_TYPE}) as response:
            stream = io.BufferedReader(_ResponseFile(response), buffer_size=1 << 16)
            try:
                yield from read_snapshots(cast(BinaryIO, stream))
            except ValueError as error:
                raise BackendUnreachable(
                    f"The stream from {self.address} was interrupted: {error}."
                ) from None

    def events(self, last_event_id: int | None = None) -> Iterator[Event]:
        """What happens, as it happens; after `last_event_id` if it is given.

        Raises:
            BackendUnreachable: the backend does not answer, or has fallen silent.
        """
        headers = {"accept": "text/event-stream"}
        if last_event_id is not None:
            headers["last-event-id"] = str(last_event_id)
        with self.sender.stream("/v1/events", headers) as response:
            try:
                yield from read_events(response.iter_bytes())
            except ValueError as error:
                raise BackendUnreachable(
                    f"The events from {self.address} were interrupted: {error}."
                ) from None


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
