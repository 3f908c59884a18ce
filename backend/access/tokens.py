"""Bearer tokens in a file that only its owner can read.

Goals
    A token lets its holder in until it expires or is revoked. Then it immediately lets nobody in,
    without a restart. A reader of the file cannot use what is in it.
Constraints
    A secret has 256 random bits, so that one round of SHA-256 is as good as a slow hash: there is
    nothing to guess. It is shown once, when it is made.
Algorithm
    A token is `kshunt_ID_SECRET`. Its id finds the entry, and the hashes of the secrets are
    compared in constant time. For an id that is not there the given hash is compared with one that
    fits nothing, so that the answer takes the same time. Several processes may change the file:
    they take turns by a lock next to it and replace it as a whole. A reader looks at the
    file's identity before each use, and reads it anew where it is another one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from kshunt.backend.access.roles import Caller, Role, role_of
from kshunt.backend.clock import Clock
from kshunt.backend.errors import BadInput, ConfigError
from kshunt.backend.files import replace_file, turn
from kshunt.backend.secret_files import refuse_writable

VERSION: Final = 1
TOKENS_MAX: Final = 10_000
_TOKEN: Final = re.compile(r"kshunt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_NOBODY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """An entry of the file."""

    id: str
    name: str
    """Whom or what it was made for; the audit names it."""
    role: Role
    sha256: str
    """Of the secret, in hexadecimal digits."""
    created_ms: int
    expires_ms: int | None = None
    """None: it does not."""
    revoked_ms: int | None = None
    """None: it was not. Its entry stays, so that nobody wonders what it was."""

    def valid(self, now_ms: int) -> bool:
        """Whether it lets anybody in."""
        if self.revoked_ms is not None:
            return False
        return self.expires_ms is None or now_ms < self.expires_ms


class TokenFile:
    """The tokens of one backend, or of several that share the file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._tokens: dict[str, TokenEntry] = {}

    # A backend's

    async def start(self) -> None:
        """Read the file for the first time.

        Raises:
            ConfigError: it cannot be read, or others could read it.
        """
        self._current()

    async def caller(self, text: str) -> Caller | None:
        """Who holds a token; None where it lets nobody in.

        Raises:
            ConfigError: the file cannot be read, or others could read it.
        """
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        token = self._current().get(match[1])
        given = hashlib.sha256(match[2].encode()).hexdigest()
        same = hmac.compare_digest(given, _NOBODY if token is None else token.sha256)
        if token is None or not same or not token.valid(self._clock.now_ms()):
            return None
        return Caller(token.name, token.role, f"token-{token.id}")

    def _current(self) -> dict[str, TokenEntry]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be read: {error.strerror}.") from None
        identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        if identity != self._seen:
            self._tokens = {token.id: token for token in read_tokens(self._path)}
            self._seen = identity
        return self._tokens

    # The command line's

    def listed(self) -> tuple[TokenEntry, ...]:
        """All of them, the oldest first; none where there is no file yet.

        Raises:
            ConfigError: the file cannot be read, or others could read it.
        """
        return read_tokens(self._path) if self._path.exists() else ()

    def create(
        self, name: str, role: Role, lifetime_ms: int | None = None
    ) -> tuple[TokenEntry, str]:
        """A new one and its text, which is kept nowhere.

        Raises:
            BadInput: the name is none, or a token of that name is valid.
            ConfigError: the file cannot be read or written.
        """
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"'{name}' is not a valid name for a token.",
                advice="Use at most 100 letters, digits and . _ @ - and begin with a letter or "
                "digit.",
            )
        now_ms = self._clock.now_ms()
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        digest = hashlib.sha256(secret.encode()).hexdigest()
        expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        token = TokenEntry(id, name, role, digest, now_ms, expires_ms)

        def add(tokens: list[TokenEntry]) -> list[TokenEntry]:
            # Names that differ in case only look like one person in the audit.
            for each in tokens:
                if each.name.casefold() == name.casefold() and each.valid(now_ms):
                    raise BadInput(
                        f"There is already a valid token named {each.name}.",
                        advice="Revoke it, or choose another name.",
                    )
            if len(tokens) >= TOKENS_MAX:
                raise BadInput(f"The file holds {TOKENS_MAX} tokens, which is the maximum.")
            return [*tokens, token]

        self._change(add)
        return token, f"kshunt_{id}_{secret}"

    def revoke(self, named: str) -> TokenEntry:
        """Let in nobody by it any more; by its id, or the name of a valid one.

        Raises:
            BadInput: there is none, or it was revoked already.
            ConfigError: the file cannot be read or written.
        """
        now_ms = self._clock.now_ms()
        found: list[TokenEntry] = []

        def strike(tokens: list[TokenEntry]) -> list[TokenEntry]:
            wanted = [
                token
                for token in tokens
                if named == token.id or (named == token.name and token.valid(now_ms))
            ]
            if not wanted:
                raise BadInput(
                    f"There is no valid token '{named}'.",
                    advice="List the tokens with `kshunt tokens list`.",
                )
            old = wanted[0]
            if old.revoked_ms is not None:
                raise BadInput(f"Token {old.id} is already revoked.")
            found.append(replace(old, revoked_ms=now_ms))
            return [found[0] if token.id == old.id else token for token in tokens]

        self._change(strike)
        return found[0]

    def _change(self, change: Callable[[list[TokenEntry]], list[TokenEntry]]) -> None:
        try:
            with turn(self._path.with_name(f"{self._path.name}.lock")):
                tokens = change(list(self.listed()))
                text = json.dumps({"version": VERSION, "tokens": list(map(asdict, tokens))})
                replace_file(self._path, f"{text}\n".encode(), mode=0o600)
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written: {error.strerror}.", advice="Nothing was changed."
            ) from None


def read_tokens(path: Path) -> tuple[TokenEntry, ...]:
    """The tokens of a file.

    Raises:
        ConfigError: it cannot be read, is no file of tokens, or others than its owner could read
            or write it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    refuse_writable(path, "The file of tokens")
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(
            f"Other users can read {path} (mode {stat.S_IMODE(mode):04o}).",
            advice=f"Run chmod 600 {path}.",
        )
    try:
        document = json.loads(content)
        if document["version"] != VERSION:
            raise ConfigError(f"{path} has version {document['version']}, which is unknown.")
        return tuple(map(_read, document["tokens"]))
    except (ValueError, TypeError, KeyError, RecursionError, BadInput):
        raise ConfigError(
            f"{path} is not a file of tokens.", advice="Restore it, or begin with a new one."
        ) from None


def _read(entry: dict[str, Any]) -> TokenEntry:
    token = TokenEntry(**{**entry, "role": role_of(entry["role"])})
    texts = (token.id, token.name, token.sha256)
    times = (token.created_ms, token.expires_ms or 0, token.revoked_ms or 0)
    if not all(isinstance(each, str) for each in texts) or len(token.sha256) != len(_NOBODY):
        raise ValueError("a token is not a text")
    if not all(type(each) is int for each in times):
        raise ValueError("a time is not a number")
    return token
