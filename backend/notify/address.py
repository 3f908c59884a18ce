"""One webhook's address: what may be one, and what of it may be shown.

Where the path of an address is what lets a sender in (Slack's), the address is as secret as a
password. So logs, metrics and files name a hook by its host and a short hash of the address.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kshunt.backend.addresses import is_loopback
from kshunt.backend.errors import ConfigError

SECRET_CHARACTERS: Final = 8
"""A part of an address that is shorter is no secret."""


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """Where a hook's messages go."""

    url: str = field(repr=False)
    host: str
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """Each signs; none: messages are not signed."""
    authorities: Path | None = None
    """PEM: authorities for its certificate, instead of the system's authorities."""

    @property
    def id(self) -> str:
        """The same for the same address, and says nothing of it."""
        return hashlib.blake2b(self.url.encode(), digest_size=5).hexdigest()

    @property
    def lets_in(self) -> bool:
        """Whether the address itself may be what lets in: it has a password or a long part."""
        parts = urlsplit(self.url)
        pieces = [*parts.path.split("/"), *re.split("[=&]", parts.query)]
        return bool(parts.password) or any(len(one) >= SECRET_CHARACTERS for one in pieces)

    def without_address(self, text: str) -> str:
        """A text that may quote the address, as "Cannot POST /path" does, without what is secret.

        Parts that are too short to let anybody in stay: they are words of any text.
        """
        parts = urlsplit(self.url)
        asked = f"{parts.path}?{parts.query}" if parts.query else parts.path
        pieces = [*parts.path.split("/"), *re.split("[=&]", parts.query), parts.password or ""]
        for whole in (self.url, asked, parts.path):
            text = text.replace(whole, "…") if len(whole) > 1 else text
        for piece in sorted(pieces, key=len, reverse=True):
            text = text.replace(piece, "…") if len(piece) >= SECRET_CHARACTERS else text
        return text

    def __str__(self) -> str:
        return f"{self.host} ({self.id})"


def target_of(url: str, keys: tuple[bytes, ...], authorities: Path | None) -> WebhookAddress:
    """A hook's target.

    The address is the operator's own word: nothing that a request or a cluster says goes into it,
    and redirects are not followed. So one within a private network is no mistake and is allowed.

    Raises:
        ConfigError: it is no address, or others could read on the way what is sent there.
    """
    scheme, host, port = _parts(url)
    if scheme not in ("https", "http") or not host:
        # What was meant may hold a secret.
        raise ConfigError(
            "--webhook is not a valid address.", advice="Write https://host/path, without a # part."
        )
    if scheme == "http" and not is_loopback(host):
        raise ConfigError(
            f"--webhook: http://{host} would send the names of operations unencrypted.",
            advice="Give an https address; http is allowed only for this machine.",
        )
    return WebhookAddress(url, host if port is None else f"{host}:{port}", keys, authorities)


def _parts(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port; empty where it is no sound address."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", "", None
    sound = url.isascii() and url.isprintable() and " " not in url and not parts.fragment
    return (parts.scheme, host, port) if sound else ("", "", None)
