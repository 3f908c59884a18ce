"""Requests to a backend by httpx: with TLS, and with answers that take as long as they like."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from kshunt.backend.api.client.problems import raise_for_problem, unreachable
from kshunt.backend.api.client.sending.sender import Reply, Sender
from kshunt.backend.api.client.sending.transport import Bearer, NamedTransport, server_name, trusted
from kshunt.backend.errors import BackendUnreachable

STREAM_SILENCE_S = 15.0
"""A stream that sends nothing for this long is dead; the backend sends at least every 2 s."""


class HttpxSender(Sender):
    """To one backend, at `unix:/path/to.sock`, `http://host:port` or `https://host:port`."""

    def __init__(self, address: str, *, timeout_s: float = 30.0) -> None:
        super().__init__(address)
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

    def close(self) -> None:
        """Release the connections; a thread that waits for a stream's next bytes wakes."""
        for response in tuple(self._streams):
            _shut_down(response)
        self._http.close()

    def watch_requests(self, hook: Callable[[httpx.Request], None]) -> None:
        """Call `hook` before each request is sent, in the thread that asks."""
        self._http.event_hooks["request"] = [hook]

    def exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, endless: bool
    ) -> Reply:
        """As `Sender` has it."""
        timeout = httpx.Timeout(10.0, read=None) if endless else httpx.USE_CLIENT_DEFAULT
        with self._translated():
            response = self._http.request(method, path, json=body, timeout=timeout)
        return Reply(response.status_code, response.content)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """An answer without an end, to be read as it comes.

        Raises:
            BackendError: the backend refuses it.
            BackendUnreachable: it does not answer, or has fallen silent.
        """
        timeout = httpx.Timeout(10.0, read=STREAM_SILENCE_S)
        with self._translated():
            request = self._http.build_request("GET", path, headers=headers, timeout=timeout)
            response = self._http.send(request, stream=True)
            self._streams.add(response)
            try:
                if not response.is_success:
                    raise_for_problem(response.status_code, response.read())
                yield response
            finally:
                self._streams.discard(response)
                response.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn httpx's errors of the connection into ours."""
        try:
            yield
        except httpx.TimeoutException as error:
            raise BackendUnreachable(
                f"The backend at {self.address} did not answer in time.",
                advice="The request may still be carried out; check before you ask again.",
            ) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise unreachable(self.address, str(error)) from error


def _shut_down(response: httpx.Response) -> None:
    """End a stream at its socket: closing alone does not wake a thread that reads from it."""
    connection = response.extensions["network_stream"].get_extra_info("socket")
    # It may have ended by itself in the meantime.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
