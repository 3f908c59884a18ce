"""The keys that the backends of one cluster share.

Goals
    A backend can tell what another backend of the same cluster wrote or asked from what anybody
    else did. The right to write a topic, or a way to a port, gives no key.
Constraints
    The secrets never leave the file. One secret serves several purposes, and a signature that was
    made for one is worth nothing for another. Keys can be replaced while backends run.
Algorithm
    The file has one key a line, `ID SECRET` in hexadecimal digits. The first key signs, and all of
    them verify: to replace a key, put the new one first everywhere, then remove the old one. A
    signature is HMAC-SHA-256 (RFC 2104) with a key that is derived for its purpose.
"""

from __future__ import annotations

import enum
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kshunt.backend.errors import ConfigError
from kshunt.backend.files import make_folder, replace_file, state_folder, turn
from kshunt.backend.secret_files import read_secret

KEYS_VARIABLE: Final = "KSHUNT_CLUSTER_KEYS"
"""Names the key file of private backends, and of tools that do without one."""
KEYS_MAX: Final = 32
SECRET_BYTES: Final = 32
_LINE: Final = re.compile(r"([0-9a-f]{8})[ \t]+([0-9a-f]{64})")


class Purpose(enum.StrEnum):
    """What a signature is for."""

    JOURNAL = "journal"
    """An entry of the journal, or a line of the audit."""
    REQUEST = "request"
    """A request that one backend passes on to another."""
    ANSWER = "answer"
    """The answer to such a request."""


class SignatureVerdict(enum.StrEnum):
    """What a signature is worth."""

    VALID = "valid"
    """A backend of this cluster made it, for this text."""
    UNKNOWN_KEY = "unknown_key"
    """It names a key that this backend does not have."""
    FORGED = "forged"
    """It names a key that this backend has, and does not fit the text."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What proves who wrote a text."""

    key_id: str
    mac: str
    """64 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file."""

    id: str
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> Key:
        """A random key."""
        return cls(secrets.token_hex(4), secrets.token_bytes(SECRET_BYTES))

    def mac(self, purpose: Purpose, text: bytes) -> str:
        """The signature of a text for a purpose, in hexadecimal digits."""
        derived = hmac.digest(self.secret, f"kshunt/{purpose}".encode(), "sha256")
        return hmac.digest(derived, text, "sha256").hex()


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """The keys of one file; the first one signs."""

    keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("at least one key is needed")

    @classmethod
    def new(cls) -> ClusterKeys:
        """One random key, in no file."""
        return cls((Key.new(),))

    def sign(self, purpose: Purpose, text: bytes) -> Signature:
        """The signature of a text."""
        key = self.keys[0]
        return Signature(key.id, key.mac(purpose, text))

    def verify(self, purpose: Purpose, text: bytes, signature: Signature) -> SignatureVerdict:
        """What a signature of a text is worth; takes as long whatever the text is."""
        key = next((one for one in self.keys if one.id == signature.key_id), None)
        if key is None:
            return SignatureVerdict.UNKNOWN_KEY
        expected = key.mac(purpose, text).encode()
        same = hmac.compare_digest(expected, signature.mac.encode("utf-8", "surrogatepass"))
        return SignatureVerdict.VALID if same else SignatureVerdict.FORGED

    def text(self) -> str:
        """As it is in a file."""
        return "".join(f"{key.id} {key.secret.hex()}\n" for key in self.keys)


def default_path(cluster_id: str, environment: Mapping[str, str]) -> Path:
    """The key file of a cluster where none is named: `$XDG_STATE_HOME/kshunt/keys/CLUSTER.keys`.

    Characters of the id that are unsafe in a file name are replaced by `_`.
    """
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id)[:100]
    return state_folder(environment) / "keys" / f"{safe}.keys"


def read_keys(path: Path) -> ClusterKeys:
    """The keys of a file.

    Raises:
        ConfigError: it cannot be read, others can read it, or a line is not a key. The message
            never holds a secret.
    """
    try:
        lines = read_secret(path, "The key file").splitlines()
    except ConfigError as error:
        if path.exists():
            raise
        raise ConfigError(
            error.message,
            advice="The first start of a backend makes it. Or copy the one of another backend.",
        ) from None
    stated = [(at, line.strip()) for at, line in enumerate(lines, 1)]
    found = [_parsed(path, at, line) for at, line in stated if line and line[0] != "#"]
    if not 0 < len(found) <= KEYS_MAX:
        raise ConfigError(
            f"The key file {path} has {len(found)} keys; 1 to {KEYS_MAX} are allowed.",
            advice="Copy the file from another backend of this cluster.",
        )
    if len({key.id for key in found}) < len(found):
        raise ConfigError(f"The key file {path} has two keys with the same id.")
    return ClusterKeys(tuple(found))


def _parsed(path: Path, at: int, line: str) -> Key:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ConfigError(
            f"Line {at} of the key file {path} is not a key.",
            advice="A key line has an id of 8 and a secret of 64 hexadecimal digits.",
        )
    return Key(match[1], bytes.fromhex(match[2]))


def write_keys(path: Path, keys: ClusterKeys) -> None:
    """Replace the key file, readable by its owner only.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        make_folder(path.parent, mode=0o700)
        replace_file(path, keys.text().encode(), mode=0o600)
    except OSError as error:
        raise ConfigError(f"The key file {path} cannot be written: {error.strerror}.") from None


def read_or_make_keys(path: Path) -> ClusterKeys:
    """The keys of a file, which is made with one random key where it does not exist.

    Two backends that start at the same time end with the same keys.

    Raises:
        ConfigError: as `read_keys` and `write_keys`.
    """
    if path.exists():
        return read_keys(path)
    try:
        make_folder(path.parent, mode=0o700)
        with turn(path.with_name(f"{path.name}.lock")):
            if not path.exists():
                write_keys(path, ClusterKeys.new())
    except OSError as error:
        raise ConfigError(f"The key file {path} cannot be created: {error.strerror}.") from None
    return read_keys(path)


def named_path(option: Path | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The key file that a flag or the environment names; None: the default one is used."""
    named = environment.get(KEYS_VARIABLE, "")
    return option if option is not None else (Path(named) if named else None)
