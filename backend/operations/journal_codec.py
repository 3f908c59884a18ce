"""Journal entries as records of a compacted topic, and the state that a log of them amounts to.

Goals
    What is read is exactly what a backend of ours wrote for this cluster, or it is an
    `Unreadable` that says why; nothing in between. Records stay legible with Kafka's console
    consumer where they are small.
Constraints
    Pure. A record is at most about half a megabyte, so that topics with Kafka's default
    `max.message.bytes` (and producers with librdkafka's default) take any entry.
Algorithm
    A value is one JSON object: format, key, cluster id, writer, time, body, and a digest of all
    that in canonical JSON. The key is in it, so that a record copied under another key is no
    entry. A large body is compressed with zlib and cut into raw parts, each under a key of its
    own (`operation/<id>#0000`, ...); the head then holds their number and the digest of the
    whole. Head, parts and the tombstones of parts that an earlier, longer version left are written
    in one transaction, so a reader of committed records never ends between them.
"""

from __future__ import annotations

import enum
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from backend.errors import BadInput

Body: TypeAlias = Mapping[str, Any]
"""A JSON object; what it holds is the business of whoever wrote it."""
Record: TypeAlias = tuple[bytes, bytes | None]
"""Key and value; a value of None is a tombstone."""

FORMAT: Final = 1
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one body, as JSON."""
INLINE_BYTES_MAX: Final = 128 * 1024
"""A longer body is compressed and cut into parts."""
PART_BYTES: Final = 512 * 1024
PARTS_MAX: Final = 10_000
BACKEND_KEY: Final = "backend"

_DIGEST_BYTES: Final = 8
_PART: Final = re.compile(r"(?s)(.*)#(\d{4})")
_FIELDS: Final = frozenset({"format", "key", "cluster_id", "writer", "time_ms", "digest"})


class Kind(enum.StrEnum):
    """What an entry is about; its key begins so."""

    OPERATION = "operation"
    """One operation: all that another backend needs to finish it."""
    BROKER_THROTTLE = "throttle/broker"
    """Who owns which share of a broker's throttled rates, and what was there before."""
    TOPIC_THROTTLE = "throttle/topic"
    """The same of a topic's throttled replicas."""
    AUDIT = "audit"
    """One line of the audit; written once."""
    BACKEND = "backend"
    """Who acts."""
    PROPOSAL = "proposal"
    """One change that takes two people."""
    TEAM = "team"
    """What people said about one operation: who steers it, and notes."""


_NAMES: Final[Mapping[Kind, str]] = {
    Kind.OPERATION: r"/([A-Za-z0-9_-]{1,64})",
    Kind.BROKER_THROTTLE: r"/(0|[1-9][0-9]{0,9})",
    Kind.TOPIC_THROTTLE: r"/([A-Za-z0-9._-]{1,249})",
    Kind.AUDIT: r"/([0-9]{13}-[0-9]{4,9})",
    Kind.BACKEND: "()",
    Kind.PROPOSAL: r"/([A-Za-z0-9_-]{1,64})",
    Kind.TEAM: r"/([A-Za-z0-9_-]{1,64})",
}
_KEYS: Final = {kind: re.compile(re.escape(kind) + name) for kind, name in _NAMES.items()}


def kind_of(key: str) -> Kind | None:
    """The kind of entry under a key, or None for a key that no entry of ours has."""
    return next((kind for kind, pattern in _KEYS.items() if pattern.fullmatch(key)), None)


def operation_key(operation_id: str) -> str:
    """The key of an operation.

    Raises:
        BadInput: the id is empty, too long, or has other characters than letters, digits, - and _.
    """
    return _checked(f"{Kind.OPERATION}/{operation_id}")


def broker_throttle_key(broker: int) -> str:
    """The key of a broker's ownership record.

    Raises:
        BadInput: the id is negative.
    """
    return _checked(f"{Kind.BROKER_THROTTLE}/{broker}")


def topic_throttle_key(topic: str) -> str:
    """The key of a topic's ownership record.

    Raises:
        BadInput: no topic can have this name.
    """
    return _checked(f"{Kind.TOPIC_THROTTLE}/{topic}")


def proposal_key(proposal_id: str) -> str:
    """The key of a proposal.

    Raises:
        BadInput: as `operation_key`.
    """
    return _checked(f"{Kind.PROPOSAL}/{proposal_id}")


def team_key(operation_id: str) -> str:
    """The key of what people said about an operation.

    Raises:
        BadInput: as `operation_key`.
    """
    return _checked(f"{Kind.TEAM}/{operation_id}")


def audit_key(time_ms: int, number: int) -> str:
    """The key of an audit entry; keys sort by time, and by number within a millisecond.

    Raises:
        BadInput: the time is not of this era, or the number is negative.
    """
    return _checked(f"{Kind.AUDIT}/{time_ms:013d}-{number:04d}")


def _checked(key: str) -> str:
    if kind_of(key) is None:
        raise BadInput(f"'{key}' is no key of a journal entry.")
    return key


@dataclass(frozen=True, slots=True)
class Header:
    """What every entry says of itself."""

    cluster_id: str
    writer: str
    """Id of the backend that wrote it."""
    time_ms: int
    """When, by the writer's clock; milliseconds since the epoch."""
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Entry:
    """One readable entry."""

    key: str
    body: Body
    header: Header


class Why(enum.StrEnum):
    """Why an entry cannot be read."""

    DAMAGED = "damaged"
    """Truncated, changed or incomplete."""
    FOREIGN = "foreign"
    """Of another cluster, under another key, or of a kind that does not exist."""
    NEWER = "newer"
    """Of a later version of kshunt."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry that is listed, never acted upon, and never overwritten without being named."""

    key: str
    why: Why
    detail: str
    """One sentence for an operator."""
    digest: str = ""
    """Tells two unreadable values under one key apart."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Who acts, and a sign of life: the body of the entry `backend`."""

    backend: str
    host: str
    address: str
    """Where its API can be reached: `unix:/path`, good on its own host only, or a URL."""
    started_ms: int
    beat_ms: int
    """By its own clock; only ever compared with another beat of the same backend."""
    boot_id: str = ""
    """Of the kernel that it runs on, or empty where that has none."""

    def body(self) -> Body:
        """As the body of an entry."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, entry: Entry) -> Heartbeat | Unreadable:
        """From an entry."""
        texts = [entry.body.get(name) for name in ("backend", "host", "address", "boot_id")]
        times = [entry.body.get(name) for name in ("started_ms", "beat_ms")]
        wanted = set(entry.body) == set(cls.__slots__)
        if not wanted or not all(type(one) is str for one in texts):
            return Unreadable(entry.key, Why.DAMAGED, "It does not say who acts.")
        if not all(type(one) is int for one in times):
            return Unreadable(entry.key, Why.DAMAGED, "It does not say when.")
        return cls(**entry.body)


# --- one entry


def encode(key: str, body: Body, header: Header) -> list[Record]:
    """The records of an entry: its head, and the parts of a large body.

    Raises:
        BadInput: no entry has such a key, or the body is no JSON object or too large.
    """
    _checked(key)
    text = _canonical_body(key, body)
    envelope: dict[str, Any] = {
        "format": header.format,
        "key": key,
        "cluster_id": header.cluster_id,
        "writer": header.writer,
        "time_ms": header.time_ms,
    }
    if len(text) <= INLINE_BYTES_MAX:
        # As a reader will have it: JSON has no tuples, and no keys but text.
        return [(key.encode(), _sealed({**envelope, "body": json.loads(text)}))]
    packed = zlib.compress(text)
    parts = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
    about = {"parts": len(parts), "bytes": len(text), "digest": _digest(packed)}
    head = (key.encode(), _sealed({**envelope, "packed": about}))
    return [head, *((part_key(key, n).encode(), part) for n, part in enumerate(parts))]


def part_key(key: str, number: int) -> str:
    """The key of one part of an entry."""
    return f"{key}#{number:04d}"


def entry_key(key: str) -> str:
    """The key of the entry that a record under this key belongs to: of a part, its head's."""
    match = _PART.fullmatch(key)
    return match[1] if match and kind_of(match[1]) else key


def decode(
    key: str, value: bytes, part: Callable[[int], bytes | None], cluster_id: str
) -> Entry | Unreadable:
    """The entry of a head, which asks `part` for the parts that it names."""
    try:
        return _decoded(key, value, part, cluster_id)
    except _Refused as refused:
        return Unreadable(key, refused.why, refused.detail, _digest(value))


class _Refused(Exception):
    def __init__(self, why: Why, detail: str) -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail


def _decoded(key: str, value: bytes, part: Callable[[int], bytes | None], cluster_id: str) -> Entry:
    envelope = _parsed(value)
    version = envelope.get("format")
    if type(version) is int and version > FORMAT:
        raise _Refused(
            Why.NEWER, f"It has format {version}, and this kshunt reads up to {FORMAT}: upgrade it."
        )
    if kind_of(key) is None:
        raise _Refused(Why.FOREIGN, "It is of a kind that this kshunt does not know.")
    _check_seal(envelope)
    if envelope["cluster_id"] != cluster_id:
        raise _Refused(Why.FOREIGN, f"It was written for cluster {envelope['cluster_id']}.")
    if envelope["key"] != key:
        raise _Refused(Why.FOREIGN, f"It was written under the key {envelope['key']}.")
    header = Header(
        envelope["cluster_id"], envelope["writer"], envelope["time_ms"], envelope["format"]
    )
    body = envelope.get("body")
    return Entry(key, _unpacked(envelope["packed"], part) if body is None else body, header)


def _check_seal(envelope: dict[str, Any]) -> None:
    sealed = envelope.pop("digest", None)
    if sealed != _digest(_canonical(envelope)):
        raise _Refused(Why.DAMAGED, "Its digest does not match what it says.")
    rest = set(envelope) - _FIELDS
    texts = (envelope.get(name) for name in ("key", "cluster_id", "writer"))
    numbers = (envelope.get(name) for name in ("format", "time_ms"))
    whole = rest in ({"body"}, {"packed"}) and isinstance(envelope[rest.pop()], dict)
    typed = all(type(one) is str for one in texts) and all(type(one) is int for one in numbers)
    if not (whole and typed and envelope["format"] == FORMAT):
        raise _Refused(Why.DAMAGED, "It lacks what every entry has.")


def _unpacked(about: dict[str, Any], part: Callable[[int], bytes | None]) -> Body:
    count, size, digest = (about.get(name) for name in ("parts", "bytes", "digest"))
    if type(count) is not int or type(size) is not int or type(digest) is not str:
        raise _Refused(Why.DAMAGED, "It does not say what its parts are.")
    if not (0 < count <= PARTS_MAX and 0 <= size <= BODY_BYTES_MAX):
        raise _Refused(Why.DAMAGED, f"It cannot have {count} parts and {size} bytes.")
    parts = [part(number) for number in range(count)]
    missing = parts.count(None)
    if missing:
        raise _Refused(Why.DAMAGED, f"{missing} of its {count} parts are missing.")
    packed = b"".join(one for one in parts if one is not None)
    if _digest(packed) != digest:
        raise _Refused(Why.DAMAGED, "Its parts are not those that were written with it.")
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, size + 1)
    except zlib.error as error:
        raise _Refused(Why.DAMAGED, f"It cannot be decompressed: {error}.") from None
    if len(text) != size or not unpacking.eof:
        raise _Refused(Why.DAMAGED, f"It is not {size} bytes long.")
    return _parsed(text)


def _parsed(value: bytes) -> dict[str, Any]:
    try:
        document = json.loads(
            value.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number
        )
    except (ValueError, RecursionError):
        raise _Refused(Why.DAMAGED, "It is no JSON, or cut short.") from None
    if not isinstance(document, dict):
        raise _Refused(Why.DAMAGED, "It is no JSON object.")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field twice")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _canonical_body(key: str, body: Body) -> bytes:
    try:
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"The entry '{key}' cannot be written as JSON: {error}.") from None
    if not text.startswith(b"{"):
        raise BadInput(f"The entry '{key}' is no JSON object.")
    if len(text) > BODY_BYTES_MAX:
        raise BadInput(f"The entry '{key}' has {len(text)} bytes; {BODY_BYTES_MAX} are the most.")
    return text


def _canonical(envelope: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(envelope, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise _Refused(Why.DAMAGED, "It holds a number that is none.") from None


def _sealed(envelope: dict[str, Any]) -> bytes:
    text = _canonical(envelope)
    return text[:-1] + f',"digest":"{_digest(text)}"}}'.encode()


def _digest(text: bytes) -> str:
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


# --- the whole log


@dataclass(frozen=True, slots=True)
class JournalState:
    """All that is committed, by key."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    unreadable: Mapping[str, Unreadable] = field(default_factory=dict)

    @property
    def heartbeat(self) -> Heartbeat | Unreadable | None:
        """Who acts; None where nobody does, or it has ended in order."""
        if BACKEND_KEY in self.unreadable:
            return self.unreadable[BACKEND_KEY]
        entry = self.entries.get(BACKEND_KEY)
        return None if entry is None else Heartbeat.of(entry)

    def of(self, kind: Kind) -> Mapping[str, Entry]:
        """The entries of a kind by what follows it in the key: an id, a broker, a topic."""
        start = f"{kind}/"
        return {
            key.removeprefix(start): self.entries[key]
            for key in sorted(self.entries)
            if key.startswith(start)
        }


class Fold:
    """Takes the records of a log in their order, and says what they amount to."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._values: dict[str, bytes] = {}
        self._parts: dict[str, dict[int, bytes]] = {}
        """By the key of the entry, and the part's number."""
        self._raw_keys: dict[str, bytes] = {}
        """Of keys that are no UTF-8."""
        self._changed: set[str] = set()
        self._state = JournalState()

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """The next record."""
        name = "" if key is None else key.decode("utf-8", "backslashreplace")
        head = entry_key(name)
        self._changed.add(head)
        if key is not None and name.encode() != key:
            self._raw_keys[name] = key
        if head == name:
            _put(self._values, name, value)
            return
        parts = self._parts.setdefault(head, {})
        _put(parts, int(name[-4:]), value)
        if not parts:
            del self._parts[head]

    def state(self) -> JournalState:
        """What the records amount to; the same object as before where nothing changed.

        To be asked at the end of a transaction only: within one, parts may still be missing.
        """
        if not self._changed:
            return self._state
        entries, unreadable = dict(self._state.entries), dict(self._state.unreadable)
        for key in self._changed:
            entries.pop(key, None)
            unreadable.pop(key, None)
            found = self._entry(key)
            if isinstance(found, Entry):
                entries[key] = found
            elif found is not None:
                unreadable[key] = found
        self._changed.clear()
        self._state = JournalState(entries, unreadable)
        return self._state

    def _entry(self, key: str) -> Entry | Unreadable | None:
        value, parts = self._values.get(key), self._parts.get(key, {})
        if value is not None:
            return decode(key, value, parts.get, self._cluster_id)
        if parts:
            return Unreadable(key, Why.DAMAGED, f"{len(parts)} parts of it, and no head.")
        return None

    def records(self, entries: Mapping[str, Body | None], header: Header) -> list[Record]:
        """What to write so that the entries take the place of what is under their keys.

        Raises:
            BadInput: as `encode`.
        """
        records: list[Record] = []
        for key, body in entries.items():
            raw_key = self._raw_keys.get(key, key.encode())
            written = [(raw_key, None)] if body is None else encode(key, body, header)
            records += written
            kept = len(written) - 1
            gone = sorted(n for n in self._parts.get(key, {}) if n >= kept)
            records += [(part_key(key, number).encode(), None) for number in gone]
        return records


def _put(where: dict[Any, bytes], key: Any, value: bytes | None) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value
