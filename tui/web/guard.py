"""Who may open the dashboard in a browser: whoever holds the token that was printed at the start.

Any page that a browser has open can send requests to a port of loopback, and any user of the host
can reach it. So a request needs the token (in the first address, then in a cookie), the `Host` it
was meant for, and, for the terminal itself, an `Origin` that is this server.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Final

COOKIE: Final = "kshunt"
PARAMETER: Final = "token"
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Sent with every answer."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says of itself."""

    path: str
    host: str
    origin: str | None
    token: str | None
    """From the address."""
    cookie: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a request."""

    status: int = 200
    """200 goes on, 303 takes the token out of the address, else it is refused."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Guard:
    """Judges requests. Pure, but for the token that is made with it."""

    hosts: Collection[str]
    """`127.0.0.1:8096`, ...: the names under which this server is reached."""
    token: str = field(default_factory=lambda: token_urlsafe(24))

    def judge(self, asked: Asked) -> Verdict:
        """Whether a request goes on."""
        if asked.host not in self.hosts:
            return Verdict(421, f"This is not {asked.host}.")
        if asked.path == "/" and self._is(asked.token):
            return Verdict(303)
        if not self._is(asked.cookie):
            return Verdict(401, "Open the address that `kshunt web` printed: it holds the token.")
        if asked.path == "/ws" and asked.origin not in self.origins:
            return Verdict(403, "The terminal is for this server's own page.")
        return Verdict()

    @property
    def origins(self) -> frozenset[str]:
        """What the page of this server says it is from."""
        return frozenset(f"{scheme}://{host}" for host in self.hosts for scheme in _SCHEMES)

    def _is(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())


_SCHEMES: Final = ("http", "https")
