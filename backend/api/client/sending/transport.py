"""A client's credential on its requests, and whom it believes to be a backend."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Generator
from typing import Final

import httpx

from kshunt.backend.api.client.sending.credential import token_for
from kshunt.backend.errors import ConfigError

CA_FILE: Final = "KSHUNT_CA_FILE"
"""Certificates that are believed instead of the system's."""
SERVER_NAME: Final = "KSHUNT_TLS_SERVER_NAME"
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")


class Bearer(httpx.Auth):
    """Shows the token, and a newer one where it is refused and there is one."""

    def __init__(self, address: str) -> None:
        """`address` is the backend's."""
        self._address = address
        self._token: str | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request with the token that there is."""
        if self._token is None:
            self._token = token_for(self._address)
        shown = self._token
        if shown:
            request.headers["authorization"] = f"Bearer {shown}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED and shown:
            self._token = token_for(self._address)
            if self._token != shown:
                request.headers["authorization"] = f"Bearer {self._token}"
                yield request


class NamedTransport(httpx.HTTPTransport):
    """HTTP to an address whose certificate is for another name, as at the end of a tunnel."""

    def __init__(self, name: str, verify: ssl.SSLContext | bool) -> None:
        """`name` is what the certificate has to be for; empty: the address's own."""
        super().__init__(verify=verify)
        self._name = name

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """As httpx's."""
        if self._name:
            request.extensions = {**request.extensions, "sni_hostname": self._name}
        return super().handle_request(request)


def server_name() -> str:
    """The name in the backend's certificate, where it is not that of the address.

    Raises:
        ConfigError: `KSHUNT_TLS_SERVER_NAME` holds no name.
    """
    name = os.environ.get(SERVER_NAME, "").strip()
    if name and not _NAME.fullmatch(name):
        raise ConfigError(f"{SERVER_NAME}: '{name}' is not a server name.")
    return name


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
