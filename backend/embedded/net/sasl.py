"""A connection until its client has authenticated: SaslHandshake and SaslAuthenticate (KIP-43).

Kafka's `SaslServerAuthenticator`. Until then a broker answers only ApiVersions and these two, takes
no large frame, and ends the connection with its answer to what fails. After version 0 of the
handshake the tokens come in frames without a header (before KIP-152).
"""

from __future__ import annotations

import enum
import struct
from typing import Final

from kshunt.backend.embedded.net.api import WireClose, WireRequest
from kshunt.backend.embedded.security.sasl_plain import MECHANISM, AuthenticationFailed, PlainUsers
from kshunt.backend.error_codes import (
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
)
from kshunt.backend.wire.api_keys import SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY

FRAME_BYTES_MAX: Final = 524_288
"""Kafka's default of `sasl.server.max.receive.size`."""

_LENGTH: Final = struct.Struct(">i")


class _SaslState(enum.Enum):
    HANDSHAKE = enum.auto()
    BARE_TOKEN = enum.auto()
    TOKEN = enum.auto()
    DONE = enum.auto()


class SaslSession:
    """How far one connection has come."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self._state = _SaslState.HANDSHAKE
        self.principal: str | None = None
        """Who the client is, once that is certain."""
        self.failed = False
        """The connection ends with the answer that was just made."""

    @property
    def expects_bare_token(self) -> bool:
        """Whether the next frame is a token and no request."""
        return self._state is _SaslState.BARE_TOKEN

    def bare_token(self, frame: bytes) -> bytes:
        """The whole answer to a token that came without a header: nothing.

        Raises:
            WireClose: it is not a user's. There is no place for a reason.
        """
        try:
            self._authenticate(frame)
        except AuthenticationFailed as failed:
            raise WireClose(failed.message) from None
        return _LENGTH.pack(0)

    def answer(self, request: WireRequest) -> bytes:
        """The whole answer to a request of a client that has not authenticated.

        Raises:
            WireClose: the request needs an authenticated client.
        """
        key = request.api.key
        if key == SASL_HANDSHAKE_KEY and self._state is _SaslState.HANDSHAKE:
            return self._handshake(request)
        if key == SASL_AUTHENTICATE_KEY and self._state is _SaslState.TOKEN:
            return self._token(request)
        raise WireClose(f"{request.api.name} from a client that has not authenticated")

    def _handshake(self, request: WireRequest) -> bytes:
        made, version = request.api.response, request.header.api_version
        code = 0
        if request.message.mechanism == MECHANISM:
            self._state = _SaslState.TOKEN if version else _SaslState.BARE_TOKEN
        else:
            code, self.failed = UNSUPPORTED_SASL_MECHANISM, True
        return request.answer(made(version=version, error_code=code, mechanisms=[MECHANISM]))

    def _token(self, request: WireRequest) -> bytes:
        made, version = request.api.response, request.header.api_version
        answer = made(version=version, error_code=0, error_message=None, auth_bytes=b"")
        try:
            self._authenticate(bytes(request.message.auth_bytes))
        except AuthenticationFailed as failed:
            self.failed = True
            answer.error_code, answer.error_message = SASL_AUTHENTICATION_FAILED, failed.message
        return request.answer(answer)

    def _authenticate(self, token: bytes) -> None:
        self.principal = self._users.authenticated(token)
        self._state = _SaslState.DONE
