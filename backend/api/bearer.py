"""A client's credential on its requests, and whom it believes to be a backend."""

from __future__ import annotations

import os
import ssl
from collections.abc import Generator
from typing import Final

import httpx

from backend.api.credential import token
from backend.errors import ConfigError

CA_FILE: Final = "KSHUNT_CA_FILE"
"""Certificates that are believed instead of the system's."""


class Bearer(httpx.Auth):
    """Shows the token, and a newer one where it is refused and there is one."""

    def __init__(self) -> None:
        self._token: str | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request with the token that there is."""
        if self._token is None:
            self._token = token()
        shown = self._token
        if shown:
            request.headers["authorization"] = f"Bearer {shown}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED and shown:
            self._token = token()
            if self._token != shown:
                request.headers["authorization"] = f"Bearer {self._token}"
                yield request


def trusted() -> ssl.SSLContext:
    """Whom to believe to be a backend: the system's authorities, or those of `KSHUNT_CA_FILE`.

    Raises:
        ConfigError: the file cannot be read, or holds no certificates.
    """
    path = os.environ.get(CA_FILE) or None
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{CA_FILE}: {path} cannot be used: {error}.") from None
