"""Requests to a backend by the standard library alone.

`httpx_sender` can do all of this, but importing its HTTP library takes longer than everything else
that `--progress` does together, and a script may call that every second. What takes longer than a
timeout goes through `httpx_sender`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kshunt.backend import local_sockets
from kshunt.backend.api.client.answer_checks import ANSWER_BYTES_MAX
from kshunt.backend.api.client.problems import unreachable
from kshunt.backend.api.client.sending.credential import token_for
from kshunt.backend.api.client.sending.sender import Reply, Sender
from kshunt.backend.errors import BackendUnreachable


class _UnixConnection(HTTPConnection):
    """HTTP over a Unix-domain socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("kshunt", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        connection = local_sockets.connect(self._path)
        if connection is None:
            raise ConnectionRefusedError("no process accepts connections there")
        connection.settimeout(self.timeout)
        self.sock = connection


class StdlibSender(Sender):
    """To one backend, at `unix:/path/to.sock` or `http://host:port`."""

    def __init__(self, address: str, *, timeout_s: float = 30.0) -> None:
        super().__init__(address)
        self._prefix = ""
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if address.startswith("unix:"):
            path = Path(address.removeprefix("unix:"))
            self._http: HTTPConnection = _UnixConnection(path, timeout_s)
            return
        try:
            url = urlsplit(address)
            self._http = HTTPConnection(url.hostname or "", url.port, timeout=timeout_s)
        except (ValueError, HTTPException) as error:
            raise self._unreachable(error) from None
        self._prefix = url.path.rstrip("/")
        if shown := token_for(address):
            self._headers["authorization"] = f"Bearer {shown}"

    def close(self) -> None:
        """Release the connection."""
        self._http.close()

    def exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, endless: bool
    ) -> Reply:
        """As `Sender` has it, but nothing is waited for longer than the timeout."""
        content = None if body is None else json.dumps(body).encode()
        try:
            self._http.request(method, self._prefix + path, content, self._headers)
            response = self._http.getresponse()
            return Reply(response.status, response.read(ANSWER_BYTES_MAX + 1))
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> BackendUnreachable:
        return unreachable(self.address, str(error) or type(error).__name__)
