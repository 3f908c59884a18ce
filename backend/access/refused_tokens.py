"""Tokens that were refused, by the peer that sent them: slowed down, and told in the log.

Goals
    An operator sees in the log who tries tokens. Nobody can try many, or fill the log by trying.
    Users who share an address with such a peer, behind a proxy or a tunnel, still come in.
Constraints
    A token cannot be guessed (256 random bits, or a signature), so nobody has to be locked out.
    This module bounds the work of checking, and the lines of the log. No token is kept.
Algorithm
    1. A peer is an IPv4 address, or the 64-bit network of an IPv6 address. Each has a bucket of
       `Limits.failed_tries` tries; a refused token takes one, and `failed_tries_per_s` come back.
    2. While its bucket is empty, a peer's tokens are refused unchecked, but for those that were
       valid before: a keyed hash of each of the newest ones is kept.
    3. The first refusal of a peer is a line of the log. Then the peer gets at most one line a
       minute, with the count. All peers together get `LINES_PER_MINUTE` lines a minute, and then
       one with the count of the refusals beyond them.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import math
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from kshunt.backend.clock import Clock
from kshunt.backend.limits import LIMITS

log = logging.getLogger(__name__)

PEERS_MAX: Final = 10_000
"""Peers that are remembered; the one that failed longest ago goes first."""
VALID_MAX: Final = 10_000
"""Hashes of tokens that were valid; the one that was used longest ago goes first."""
LINE_EVERY_S: Final = 60.0
LINES_PER_MINUTE: Final = 10
UNKNOWN: Final = "an unknown peer"
_TOKEN_ID: Final = re.compile(r"kshunt_([0-9a-f]{12})_")


@dataclass(slots=True)
class _Peer:
    left: float
    at_s: float
    said_s: float = -math.inf
    unsaid: int = 0
    """Refusals since the last line."""


class RefusedTokens:
    """See the module's text."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._peers: OrderedDict[str, _Peer] = OrderedDict()
        self._valid: OrderedDict[bytes, None] = OrderedDict()
        self._lines = 0
        self._minute_s = -math.inf
        self._beyond = 0

    def wait_s(self, peer: str, token: str) -> int:
        """How long a peer has to wait until this token is checked; 0: it is checked."""
        known = self._peers.get(peer)
        if known is None or self._hash(token) in self._valid:
            return 0
        self._fill(known)
        if known.left >= 1:
            return 0
        return math.ceil((1 - known.left) / LIMITS.failed_tries_per_s)

    def passed(self, token: str) -> None:
        """A token is valid."""
        digest = self._hash(token)
        self._valid[digest] = None
        self._valid.move_to_end(digest)
        if len(self._valid) > VALID_MAX:
            self._valid.popitem(last=False)

    def failed(self, peer: str, token: str) -> None:
        """A token was refused; it counts against its peer, and no longer as valid."""
        self._valid.pop(self._hash(token), None)
        known = self._peers.setdefault(peer, _Peer(LIMITS.failed_tries, self._clock.monotonic_s()))
        self._peers.move_to_end(peer)
        if len(self._peers) > PEERS_MAX:
            self._peers.popitem(last=False)
        self._fill(known)
        known.left = max(known.left - 1, 0.0)
        self._tell(peer, known, token)

    def _fill(self, peer: _Peer) -> None:
        now_s = self._clock.monotonic_s()
        filled = peer.left + (now_s - peer.at_s) * LIMITS.failed_tries_per_s
        peer.left, peer.at_s = min(filled, LIMITS.failed_tries), now_s

    def _tell(self, peer: str, known: _Peer, token: str) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - known.said_s < LINE_EVERY_S:
            known.unsaid += 1
            return
        if now_s - self._minute_s >= LINE_EVERY_S:
            if self._beyond:
                log.warning(
                    "%d more tokens of other peers were rejected in the last minute", self._beyond
                )
            self._minute_s, self._lines, self._beyond = now_s, 0, 0
        if self._lines >= LINES_PER_MINUTE:
            self._beyond += 1
            return
        self._lines += 1
        # The id is no secret; it tells an operator which token was revoked or has expired.
        found = _TOKEN_ID.match(token)
        named = f" (token {found[1]})" if found else ""
        more = f"; {known.unsaid} more since the last line" if known.unsaid else ""
        log.warning("a token from %s was rejected%s%s", peer, named, more)
        known.said_s, known.unsaid = now_s, 0

    def _hash(self, token: str) -> bytes:
        text = token.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._key, digest_size=16).digest()


def peer_of(scope: Any) -> str:
    """Who is at the other end of a connection, as the address in an ASGI scope says."""
    client = scope.get("client")
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except (TypeError, ValueError, IndexError, AttributeError):
        return UNKNOWN
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return str(address)
    return str(ipaddress.IPv6Network((address, 64), strict=False))
