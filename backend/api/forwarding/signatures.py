"""What one backend tells another about a request that it passes on, and what proves it.

Goals
    The backend that acts knows who asks, and with which role, although the credential never leaves
    the backend that it was shown to. Nobody without a key of the cluster can say so, nor say the
    same a second time, nor answer in the place of the backend that acts.
Constraints
    The clocks of two hosts differ. A backend has to forget what it has seen at some time.
Algorithm
    A statement names the sender, the receiving backend, the caller, and the request: method,
    target, and the digest of the body. It is signed for `Purpose.REQUEST`. It is fresh while it
    holds a heartbeat of the receiving backend, at most `FRESH_MS` old by that backend's own
    clock. Its nonce counts once, and is remembered for longer than that. The answer is signed for
    `Purpose.ANSWER`, together with the nonce.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from kshunt.backend.access.cluster_keys import ClusterKeys, Purpose, Signature, SignatureVerdict
from kshunt.backend.access.roles import LOCAL, Caller, Role

PASSED_ON: Final = "kshunt-forwarded-"
"""How the headers of a request begin that says that it was passed on."""
STATEMENT: Final = f"{PASSED_ON}statement"
"""In a request that is passed on: the statement, its key's id, and the signature."""
ANSWER_SIGNED: Final = "kshunt-answer-signature"
"""In its answer: the key's id, and the signature."""
FRESH_MS: Final = 60_000
NONCES_MAX: Final = 100_000
SIGNED_HEADERS: Final = ("content-type", "retry-after", "allow")
"""The headers of an answer that are passed on to the caller."""
_SIGNED: Final = re.compile(r"([A-Za-z0-9_=-]{1,65536})\.([0-9a-f]{8})\.([0-9a-f]{64})")
_SIGNATURE: Final = re.compile(r"([0-9a-f]{8})\.([0-9a-f]{64})")


class Reach(enum.StrEnum):
    """Who reaches a backend that asks for no credentials."""

    OWNER = "owner"
    """A socket that only its owner may open."""
    GROUP = "group"
    """A socket that a group may open."""
    HOST = "host"
    """A loopback port: everybody on the machine."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a backend runs, and as whom."""

    host: str
    boot_id: str
    uid: int


@dataclass(frozen=True, slots=True)
class Statement:
    """See the module's text."""

    sender: str
    """Id of the backend that passes the request on."""
    meant: str
    """Id of the backend that must carry it out."""
    site: Site
    """Of the sender."""
    reach: str
    """Who reaches the sender where it asked for no credential (`Reach`); else empty."""
    name: str
    caller: str
    """The caller's id."""
    role: str
    method: str
    target: str
    """Path and query, as they are sent."""
    body_digest: str
    beat_ms: int
    """Of the newest heartbeat that the sender has seen of the receiving backend."""
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def who(self) -> Caller | None:
        """The caller; None if the statement names no valid one."""
        if self.reach:
            local = (self.name, self.role, self.caller) == (LOCAL.name, LOCAL.role, LOCAL.id)
            return LOCAL if local and self.reach in set(Reach) else None
        if not self.name.strip() or self.caller in ("", LOCAL.id) or self.role not in set(Role):
            return None
        return Caller(self.name, Role(self.role), self.caller)


def digest_of(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def signed(statement: Statement, keys: ClusterKeys) -> str:
    """A statement as a header."""
    text = _canonical(asdict(statement))
    proof = keys.sign(Purpose.REQUEST, text)
    return f"{base64.urlsafe_b64encode(text).decode()}.{proof.key_id}.{proof.mac}"


def read(header: str, keys: ClusterKeys) -> Statement | SignatureVerdict:
    """The statement of a header; what its signature is worth where that is not enough."""
    match = _SIGNED.fullmatch(header)
    if match is None:
        return SignatureVerdict.FORGED
    try:
        text = base64.urlsafe_b64decode(match[1])
    except (ValueError, binascii.Error):
        return SignatureVerdict.FORGED
    verdict = keys.verify(Purpose.REQUEST, text, Signature(match[2], match[3]))
    if verdict is not SignatureVerdict.VALID:
        return verdict
    return _parsed(text) or SignatureVerdict.FORGED


def _parsed(text: bytes) -> Statement | None:
    """What a peer signed; None where another version of kshunt says other things."""
    try:
        document = json.loads(text)
        site = document.pop("site")
        found = Statement(site=Site(**site), **document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    numbers = (found.beat_ms, found.site.uid)
    texts = [found.site.host, found.site.boot_id]
    texts += [getattr(found, one.name) for one in fields(found) if one.name not in _NO_TEXT]
    right = all(type(one) is int for one in numbers) and all(type(one) is str for one in texts)
    return found if right else None


_NO_TEXT: Final = frozenset({"site", "beat_ms"})


@dataclass(frozen=True, slots=True)
class AnswerStatement:
    """What a signature of an answer is about."""

    nonce: str
    """Of the statement."""
    status: int
    headers: Mapping[str, str]
    """Those of `SIGNED_HEADERS` that it has."""
    body_digest: str

    def text(self) -> bytes:
        """What is signed."""
        return _canonical(
            {
                "nonce": self.nonce,
                "status": self.status,
                "headers": dict(self.headers),
                "body_digest": self.body_digest,
            }
        )

    def signature(self, keys: ClusterKeys) -> str:
        """As a header."""
        proof = keys.sign(Purpose.ANSWER, self.text())
        return f"{proof.key_id}.{proof.mac}"

    def is_signed_by(self, header: str, keys: ClusterKeys) -> bool:
        """Whether a header proves that a backend of the cluster gave it."""
        match = _SIGNATURE.fullmatch(header)
        if match is None:
            return False
        proof = Signature(match[1], match[2])
        return keys.verify(Purpose.ANSWER, self.text(), proof) is SignatureVerdict.VALID


class Nonces:
    """Those that were used, for as long as a statement that holds one could be fresh."""

    def __init__(self) -> None:
        self._used: OrderedDict[str, float] = OrderedDict()

    def take(self, nonce: str, now_s: float) -> bool:
        """Whether it was not used before; it is from then on. False too where there are too many.

        Args:
            nonce: of a statement whose signature is valid.
            now_s: by a monotonic clock.
        """
        while self._used and now_s - next(iter(self._used.values())) > 2 * FRESH_MS / 1000:
            self._used.popitem(last=False)
        if nonce in self._used or len(self._used) >= NONCES_MAX:
            return False
        self._used[nonce] = now_s
        return True


def is_fresh(beat_ms: int, now_ms: int) -> bool:
    """Whether a heartbeat of ours is new enough, by the clock that it was made by."""
    return abs(now_ms - beat_ms) <= FRESH_MS


def _canonical(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
