"""Signatures of messages, as the Standard Webhooks specification has them.

The headers are `webhook-id`, `webhook-timestamp` (seconds) and `webhook-signature`. The last is
HMAC-SHA256 over `id.timestamp.body`, in base64 after `v1,`. It has one signature for each key,
with a space between, so that a key can be replaced while receivers know either.
Source: standardwebhooks.com, Signature scheme.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from kshunt.backend.errors import ConfigError
from kshunt.backend.notify.message import Message

PREFIX: Final = "whsec_"
KEY_BYTES_MIN: Final = 16
KEYS_MAX: Final = 5


def keys_of(text: str, where: str) -> tuple[bytes, ...]:
    """The keys in a text, one a word: `whsec_` and base64, or the bytes of the word itself.

    Args:
        text: What a file or a variable holds.
        where: Its name, for the error; the error never says what it holds.

    Raises:
        ConfigError: there is none, there are too many, one cannot be read, or one is short
            enough to be guessed.
    """
    keys = tuple(_key(word, where) for word in text.split())
    if not 0 < len(keys) <= KEYS_MAX:
        raise ConfigError(
            f"{where} holds {len(keys)} keys.", advice=f"Give one, or up to {KEYS_MAX}."
        )
    return keys


def _key(word: str, where: str) -> bytes:
    key = word.encode()
    if word.startswith(PREFIX):
        encoded = word.removeprefix(PREFIX)
        try:
            key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(f"{where}: the part after {PREFIX} is not base64.") from None
    if len(key) < KEY_BYTES_MIN:
        raise ConfigError(
            f"{where} holds a key of {len(key)} bytes.",
            advice=f"A key needs at least {KEY_BYTES_MIN} bytes. To create a good one, run "
            f"openssl rand -base64 32, and put {PREFIX} before it.",
        )
    return key


def signature(key: bytes, id: str, timestamp_s: int, body: bytes) -> str:
    """The signature by one key."""
    signed = hmac.new(key, f"{id}.{timestamp_s}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed.digest()).decode()}"


def headers_of(message: Message, body: bytes, now_ms: int, keys: Sequence[bytes]) -> dict[str, str]:
    """The headers that go with a message now; without a key it is not signed."""
    timestamp_s = now_ms // 1000
    headers = {"webhook-id": message.id, "webhook-timestamp": str(timestamp_s)}
    if keys:
        signatures = (signature(key, message.id, timestamp_s, body) for key in keys)
        headers["webhook-signature"] = " ".join(signatures)
    return headers
