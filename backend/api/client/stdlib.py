"""A client of a backend with the standard library alone.

`BackendClient` can do all of this, but importing its HTTP library takes longer than everything
else that `--progress` does together, and a script may call that every second. What takes longer
than a timeout goes through `BackendClient`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from kshunt.backend import local_sockets
from kshunt.backend.api.client.answer_checks import ANSWER_BYTES_MAX, VALUES_MAX, checks_answers
from kshunt.backend.api.client.credential import token_for
from kshunt.backend.api.client.problems import refusal, unreachable
from kshunt.backend.api.client.proposals import raise_if_proposed
from kshunt.backend.api.client.reassignments import ReassignmentsClient
from kshunt.backend.domain.untrusted.strict_json import read_json
from kshunt.backend.errors import BackendUnreachable


class _UnixConnection(HTTPConnection):
    """HTTP over a Unix-domain socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("kshunt", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        connection = local_sockets.connect(self._path)
        if connection is None:
            raise ConnectionRefusedError("nobody accepts connections there")
        connection.settimeout(self.timeout)
        self.sock = connection


@checks_answers
class StdlibClient(ReassignmentsClient):
    """Questions about plans to one backend, at `unix:/path/to.sock` or `http://host:port`."""

    def __init__(self, address: str, *, timeout_s: float = 30.0) -> None:
        self.address = address
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

    def _get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        return self._exchange("GET", f"{path}?{urlencode(parameters)}" if parameters else path)

    def _post(self, path: str, body: Mapping[str, Any], *, endless: bool = False) -> Any:
        return self._exchange("POST", path, body)

    def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            self._http.request(
                method,
                self._prefix + path,
                None if body is None else json.dumps(body).encode(),
                self._headers,
            )
            response = self._http.getresponse()
            content = response.read(ANSWER_BYTES_MAX + 1)
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None
        return _document(response, content)

    def _unreachable(self, error: Exception) -> BackendUnreachable:
        return unreachable(self.address, str(error) or type(error).__name__)


def _document(response: HTTPResponse, content: bytes) -> Any:
    """The answer's JSON.

    Raises:
        BackendError: it is a problem document.
        UnreadableJson: it is no JSON.
        AwaitsApproval: it says that the change takes two people.
    """
    if response.status >= 300:
        raise refusal(response.status, content)
    document = read_json(content, bytes_max=ANSWER_BYTES_MAX, values_max=VALUES_MAX)
    raise_if_proposed(response.status, document)
    return document
