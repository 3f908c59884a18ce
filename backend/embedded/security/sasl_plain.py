"""SASL/PLAIN (RFC 4616): users with passwords, as Kafka's `PlainSaslServer` checks them."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from kshunt.backend.embedded.security.principals import user
from kshunt.backend.errors import KshuntError

MECHANISM: Final = "PLAIN"
_TOKENS: Final = 3


class AuthenticationFailed(KshuntError):
    """A client did not prove that it is a user."""

    title = "Authentication failed"


class PlainUsers:
    """The users of a cluster, and their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = {name: word.encode() for name, word in passwords.items()}

    def authenticated(self, token: bytes) -> str:
        """The principal of the user whose name and password the token has.

        Raises:
            AuthenticationFailed: in Kafka's words, which do not tell whether there is the user.
        """
        parts = token.split(b"\0")
        if len(parts) != _TOKENS:
            why = f"Invalid SASL/PLAIN response: expected {_TOKENS} tokens, got {len(parts)}"
            raise AuthenticationFailed(why)
        wanted, name, password = parts
        if not name:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        known = self._passwords.get(name.decode("utf-8", "replace"), b"")
        if not hmac.compare_digest(known, password) or not known:
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if wanted not in (b"", name):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        return user(name.decode("utf-8"))
