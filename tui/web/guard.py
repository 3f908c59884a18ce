"""Who may open the dashboard in a browser: the holder of an address that was printed.

Goals
    One browser is let in for each address that was printed. Other pages of that browser, other
    users of the host and other servers on the host are not.
Constraints
    Any page that a browser has open can send requests to a port of loopback. A browser sends a
    cookie to every port of a host, so another server there must not be sent this one, and could not
    use the token if it were.
Algorithm
    The token of the address is good for one request, which exchanges it for a session: a random id
    in a cookie. The cookie is for a folder with a random name, below which all that needs it is
    served, so a browser sends it nowhere else. Sessions end with the process. A request needs a
    `Host` of this server, and a terminal needs an `Origin` that is this server.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Final

PARAMETER: Final = "token"
SESSIONS_MOST: Final = 64
"""Browsers that are let in; the oldest one is forgotten for a new one."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Sent with every answer."""
_SCHEMES: Final = ("http", "https")
_USED: Final = (
    "This address does not give access. Each address that `kshunt web` prints works for one "
    "browser: open the newest one."
)


@dataclass(frozen=True, slots=True)
class WebRequest:
    """What a request says of itself."""

    path: str
    host: str
    origin: str | None
    token: str | None
    """From the address."""
    cookie: str | None
    terminal: bool = False
    """Whether it asks for a WebSocket."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What becomes of a request."""

    status: int = 200
    """200 is let through, 303 exchanges the token for a session, else it is refused."""
    reason: str = ""
    session: str = ""
    """Of a 303: the value of the cookie."""


class Guard:
    """Judges requests, and knows the sessions."""

    def __init__(
        self,
        hosts: Collection[str],
        port: int,
        *,
        secure: bool = False,
        secret: Callable[[], str] = lambda: token_urlsafe(32),
    ) -> None:
        """Make the first token.

        Args:
            hosts: `127.0.0.1:8096`, ...: the names under which this server is reached.
            port: Where it listens. It is part of the cookie's name.
            secure: Whether browsers reach it over TLS alone.
            secret: Makes random texts.
        """
        self._hosts = frozenset(hosts)
        self._secret = secret
        self._sessions: deque[str] = deque(maxlen=SESSIONS_MOST)
        self.secure = secure
        self.folder = f"/{secret()}/"
        """What the cookie is for, and where the dashboard is."""
        self.cookie = f"__Secure-kshunt-{port}" if secure else f"kshunt-{port}"
        """Its name."""
        self.token = secret()
        """Of the next browser."""

    def judge(self, asked: WebRequest) -> Admission:
        """Whether a request is let through. A request with a good token uses it up."""
        if asked.host not in self._hosts:
            return Admission(421, f"This is not {asked.host}.")
        if asked.path == "/":
            return self._exchanged(asked.token)
        if not asked.path.startswith(self.folder) or not self._known(asked.cookie):
            return Admission(401, _USED)
        if asked.terminal and asked.origin not in self.origins:
            return Admission(403, "The terminal is only for this server's own page.")
        return Admission()

    @property
    def origins(self) -> frozenset[str]:
        """What the page of this server says it is from."""
        schemes = _SCHEMES[1:] if self.secure else _SCHEMES
        return frozenset(f"{scheme}://{host}" for host in self._hosts for scheme in schemes)

    def _exchanged(self, token: str | None) -> Admission:
        if not _same(token, self.token):
            return Admission(401, _USED)
        self.token = self._secret()
        self._sessions.append(self._secret())
        return Admission(303, session=self._sessions[-1])

    def _known(self, cookie: str | None) -> bool:
        # Each is compared, so that the time says nothing of where one was found.
        return sum([_same(cookie, session) for session in self._sessions]) > 0


def _same(given: str | None, expected: str) -> bool:
    encoded = b"" if given is None else given.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(encoded, expected.encode())
