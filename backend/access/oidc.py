"""Signed claims of an identity provider (OpenID Connect), as bearer tokens.

Goals
    A caller with the provider's signed claims comes in, by the role that these give. Nobody else
    does.
Constraints
    Only asymmetric signatures count: with a shared secret, a party that checks could also sign.
    Issuer, audience, subject and expiry are required, and the subject is a text that can be read.
    The keys are a file, or an address that is asked over TLS; while it does not answer, the keys
    that were read before count.
Algorithm
    The key is chosen by the token's `kid`. A `kid` that is unknown has the keys read anew, at most
    once in `REREAD_S`, for a provider changes its keys without telling.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import jwt

from kshunt.backend.access.roles import Caller, Role
from kshunt.backend.clock import Clock
from kshunt.backend.errors import ConfigError
from kshunt.backend.secret_files import refuse_writable

log = logging.getLogger(__name__)

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "EdDSA",
)
LEEWAY_S: Final = 30.0
"""Clocks of the provider and of this machine may differ by so much."""
REREAD_S: Final = 60.0
FETCH_S: Final = 5.0
KEYS_BYTES_MAX: Final = 1 << 20
NAME_MAX: Final = 255
"""Characters of a subject; OpenID Connect Core, section 2."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Whose claims count, and for what."""

    issuer: str
    """`iss`, to the letter."""
    audience: str
    """One of `aud`: what the provider calls this backend."""
    keys: str
    """A JWKS: the path of a file, or an https address."""
    role_claim: str = "roles"
    """Where the roles are; dots lead into objects, as in `realm_access.roles`."""
    roles: Mapping[str, Role] = field(default_factory=lambda: {role.value: role for role in Role})
    """What the claim's values mean here; the highest one counts, others mean nothing."""


class ClaimsCheck:
    """Checks the claims of one provider."""

    def __init__(self, provider: Provider, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read_s: float | None = None
        self._reading = asyncio.Lock()

    async def start(self) -> None:
        """Read the keys for the first time.

        Raises:
            ConfigError: they cannot be read, or none of them can be used.
        """
        self._keys = await self._fetched()
        self._read_s = self._clock.monotonic_s()

    async def caller(self, text: str) -> Caller | None:
        """Who is vouched for; None where the token lets nobody in."""
        try:
            kid = jwt.get_unverified_header(text).get("kid", "")
            key = await self._key(kid if isinstance(kid, str) else "")
            if key is None:
                return None
            found = jwt.decode(
                text,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._provider.audience,
                issuer=self._provider.issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        # A token is a stranger's: whatever is wrong with it, it lets nobody in.
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            log.info("claims were rejected: %s", type(error).__name__)
            return None
        role = self._role(found)
        subject = found["sub"]
        if role is None or not _names_somebody(subject):
            return None
        return Caller(subject, role, f"claims-{subject}")

    def _role(self, found: Mapping[str, Any]) -> Role | None:
        value: Any = found
        for step in self._provider.role_claim.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        named = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        known = [
            self._provider.roles[each]
            for each in named
            if isinstance(each, str) and each in self._provider.roles
        ]
        return max(known, key=list(Role).index, default=None)

    async def _key(self, kid: str) -> jwt.PyJWK | None:
        async with self._reading:
            due_s = -REREAD_S if self._read_s is None else self._read_s
            if kid not in self._keys and self._clock.monotonic_s() >= due_s + REREAD_S:
                self._read_s = self._clock.monotonic_s()
                try:
                    self._keys = await self._fetched()
                except ConfigError as error:
                    log.warning("the keys of %s: %s", self._provider.issuer, error)
        return self._keys.get(kid)

    async def _fetched(self) -> dict[str, jwt.PyJWK]:
        where = self._provider.keys
        try:
            content = await (_asked(where) if "://" in where else asyncio.to_thread(_read, where))
            keys = jwt.PyJWKSet.from_dict(json.loads(content)).keys
        except (OSError, httpx.HTTPError) as error:
            raise ConfigError(f"The keys at {where} cannot be read: {error}.") from None
        except (ValueError, TypeError, KeyError, AttributeError, jwt.PyJWTError) as error:
            raise ConfigError(f"{where} does not hold a set of keys: {error}.") from None
        # A key without an id serves tokens that name none.
        usable = {
            key.key_id or "": key
            for key in keys
            if key.public_key_use in (None, "sig") and key.algorithm_name in ALGORITHMS
        }
        if not usable:
            raise ConfigError(f"None of the keys at {where} can check a signature.")
        return usable


def _names_somebody(subject: object) -> bool:
    """Whether a subject can stand in the audit, for one person and nobody else.

    One that is blank, has characters that are not seen, or would have to be cut off could be taken
    for another's.
    """
    if not isinstance(subject, str) or not 0 < len(subject) <= NAME_MAX:
        return False
    return subject.isprintable() and subject == subject.strip()


def _read(path: str) -> bytes:
    refuse_writable(Path(path), "The file of keys")
    with Path(path).open("rb") as file:
        return file.read(KEYS_BYTES_MAX)


async def _asked(url: str) -> bytes:
    async with httpx.AsyncClient(timeout=FETCH_S, follow_redirects=False) as client:
        answer = await client.get(url, headers={"accept": "application/json"})
        answer.raise_for_status()
        return answer.content[:KEYS_BYTES_MAX]
