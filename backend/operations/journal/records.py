"""Journal entries as records: signed, cut into parts where they are large, and read again.

Goals
    What is read is exactly what a backend with our keys wrote for this cluster under this key, or
    it is an `Unreadable` that says why. Records stay legible with Kafka's console consumer where
    they are small. Nothing that anybody can write costs more than reading it.
Constraints
    Pure. A record is at most about half a megabyte, so that topics with Kafka's default
    `max.message.bytes` (and producers with librdkafka's default) take any entry.
Algorithm
    A value is one JSON object: format, key, cluster id, writer, time, body, a number that only
    grows, and last the signature. Every later format keeps the signature in that place:
    `,"number":N,"signature":{"key":ID,"mac":MAC}}`. The MAC is over the cluster's id, the record's
    key, and all bytes before the signature. So nothing is parsed before it is known to be ours,
    and a record that is copied to another key or cluster does not fit.
    A large body is compressed with zlib and cut into raw parts, each under a key of its own
    (`operation/<id>#0000`, ...). The head names the SHA-256 of each part, and comes before them.
    Head, parts and the tombstones of parts that an earlier, longer version left are written in one
    transaction. What is decompressed is bounded by the entry's kind.
    Format 1 has a digest of eight bytes in place of number and signature. It proves nothing; such
    an entry is read only to show it, or to sign it when an operator says so.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any, Final

from kshunt.backend.access.cluster_keys import ClusterKeys, Purpose, Signature, SignatureVerdict
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.journal.entries import (
    BODY_BYTES_MAX,
    FORMAT,
    UNSIGNED_FORMAT,
    Body,
    Entry,
    EntryHeader,
    EntryKind,
    Record,
    Unreadable,
    checked,
    kind_of,
)

INLINE_BYTES_MAX: Final = 128 * 1024
"""A longer body is compressed and cut into parts."""
CLAIM_BYTES_MAX: Final = 2 * INLINE_BYTES_MAX
"""A longer value is not even looked at where nobody of ours signed it."""
PART_BYTES: Final = 512 * 1024
PIECE: Final = 500
"""Entries of a list that are written together."""
DETAIL_MAX: Final = 300

_PART: Final = re.compile(r"(?s)(.*)#(\d{4})")
_SIGNED: Final = re.compile(
    rb',"number":(0|[1-9][0-9]{0,15})'
    rb',"signature":\{"key":"([0-9a-f]{8})","mac":"([0-9a-f]{64})"\}\}'
)
_TAIL_BYTES: Final = len(
    b',"number":9999999999999999,"signature":{"key":"","mac":""}}' + bytes(8 + 64)
)
_FIELDS: Final = frozenset({"format", "key", "cluster_id", "writer", "time_ms"})

_SURROGATE: Final = b"\\ud"
"""How ASCII JSON begins what may be half a character."""
_COMPACT: Final[Mapping[str, Any]] = {
    "sort_keys": True,
    "separators": (",", ":"),
    "allow_nan": False,
}

Parts = Callable[[int], bytes | None]
"""The part of a number, or None where it is not there."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What a head's signature says."""

    verdict: SignatureVerdict | None
    """None: it has none."""
    number: int = -1
    key_id: str = ""


def part_key(key: str, number: int) -> str:
    """The key of one part of an entry."""
    return f"{key}#{number:04d}"


def entry_key(key: str) -> str:
    """The key of the entry that a record under this key belongs to: of a part, its head's."""
    match = _PART.fullmatch(key)
    return match[1] if match and kind_of(match[1]) else key


# --- writing


def encode(
    key: str, body: Body, header: EntryHeader, number: int, keys: ClusterKeys
) -> list[Record]:
    """The records of an entry: its head, and the parts of a large body.

    `number` is greater than that of any entry which was under this key.

    Raises:
        BadInput: no entry has such a key, or the body is no JSON object or too large.
    """
    checked(key)
    text = _canonical_body(key, body)
    envelope: dict[str, Any] = {
        "format": FORMAT,
        "key": key,
        "cluster_id": header.cluster_id,
        "writer": header.writer,
        "time_ms": header.time_ms,
        **({"previous": header.previous} if kind_of(key) is EntryKind.AUDIT else {}),
    }
    if len(text) <= INLINE_BYTES_MAX:
        # As a reader will have it: JSON has no tuples, and no keys but text.
        return [(key.encode(), signed({**envelope, "body": json.loads(text)}, number, keys))]
    packed = zlib.compress(text)
    parts = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
    about = {"parts": [part_digest(part) for part in parts], "bytes": len(text)}
    head = (key.encode(), signed({**envelope, "packed": about}, number, keys))
    return [head, *((part_key(key, n).encode(), part) for n, part in enumerate(parts))]


def signed(envelope: Mapping[str, Any], number: int, keys: ClusterKeys) -> bytes:
    """A head's value."""
    text = _canonical(envelope)[:-1] + f',"number":{number}'.encode()
    scope = _scope(envelope["cluster_id"], envelope["key"])
    made = keys.sign(Purpose.JOURNAL, scope + text)
    return text + f',"signature":{{"key":"{made.key_id}","mac":"{made.mac}"}}}}'.encode()


def _scope(cluster_id: str, key: str) -> bytes:
    return f"{json.dumps([cluster_id, key])}\n".encode()


def part_digest(part: bytes) -> str:
    """What a head names a part by."""
    return sha256(part).hexdigest()


def _canonical_body(key: str, body: Body) -> bytes:
    try:
        text = _in_pieces(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"The entry '{key}' cannot be written as JSON: {error}.") from None
    if not text.startswith(b"{"):
        raise BadInput(f"The entry '{key}' is not a JSON object.")
    if _SURROGATE in text:
        # Half a character, which no other reader of JSON would take.
        whole = json.loads(text)
        text = json.dumps(json.loads(_in_utf_8(whole, "replace")), **_COMPACT).encode()
    if len(text) > (most := _bytes_max(key)):
        raise BadInput(f"The entry '{key}' has {len(text)} bytes; the maximum is {most}.")
    return text


def _in_pieces(value: Any, depth: int = 3) -> str:
    """As `json.dumps`, with long lists near the root written a piece at a time.

    One call for all of it would hold up every other thread until it returns.
    """
    if depth and type(value) is dict and all(type(name) is str for name in value):
        fields = (f"{json.dumps(n)}:{_in_pieces(value[n], depth - 1)}" for n in sorted(value))
        return f"{{{','.join(fields)}}}"
    if isinstance(value, list | tuple) and len(value) > PIECE:
        pieces = (value[at : at + PIECE] for at in range(0, len(value), PIECE))
        return f"[{','.join(json.dumps(piece, **_COMPACT)[1:-1] for piece in pieces)}]"
    return json.dumps(value, **_COMPACT)


def _bytes_max(key: str) -> int:
    kind = kind_of(key)
    return 0 if kind is None else BODY_BYTES_MAX[kind]


# --- reading what is ours


def seal_of(key: str, value: bytes, cluster_id: str, keys: ClusterKeys) -> Seal:
    """Who signed a head, without a look at what it says."""
    match = _SIGNED.search(value, max(0, len(value) - _TAIL_BYTES))
    if match is None or match.end() != len(value):
        return Seal(None)
    number, key_id, mac = (one.decode() for one in match.groups())
    text = value[: match.end(1)]
    verdict = keys.verify(Purpose.JOURNAL, _scope(cluster_id, key) + text, Signature(key_id, mac))
    return Seal(verdict, int(number), key_id)


def opened(key: str, value: bytes, part: Parts, cluster_id: str) -> Entry | Unreadable:
    """The entry of a head that we signed; it asks `part` for the parts that it names."""
    try:
        envelope = _parsed(value)
        _check_format(envelope)
        if kind_of(key) is None:
            raise _EntryRefused(
                UnreadableReason.FOREIGN, "It has a kind that this kshunt does not know."
            )
        for name in ("number", "signature"):
            envelope.pop(name, None)
        return _entry(key, envelope, part, cluster_id, FORMAT)
    except _EntryRefused as refused:
        return Unreadable(key, refused.why, refused.detail, _digest(value))


def parts_of(value: bytes) -> tuple[tuple[str, ...], int]:
    """The digests of the parts that a head names, and the bytes that it says its body has.

    None and no bytes where the body is in the head.
    """
    try:
        packed = _parsed(value)["packed"]
        parts = packed["parts"]
        return tuple(map(str, parts if isinstance(parts, list) else ())), int(packed["bytes"])
    except (_EntryRefused, KeyError, TypeError, ValueError):
        return (), 0


class _EntryRefused(Exception):
    def __init__(self, why: UnreadableReason, detail: str) -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail


def _check_format(envelope: Mapping[str, Any]) -> None:
    version = envelope.get("format")
    if type(version) is int and version > FORMAT:
        raise _EntryRefused(
            UnreadableReason.NEWER,
            f"It has format {version}, and this kshunt reads formats up to {FORMAT}: upgrade it.",
        )


def _entry(key: str, envelope: dict[str, Any], part: Parts, cluster_id: str, version: int) -> Entry:
    previous = envelope.pop("previous", "") if kind_of(key) is EntryKind.AUDIT else ""
    rest = set(envelope) - _FIELDS
    texts = [envelope.get(name) for name in ("key", "cluster_id", "writer")]
    numbers = [envelope.get(name) for name in ("format", "time_ms")]
    whole = rest in ({"body"}, {"packed"}) and isinstance(envelope[next(iter(rest))], dict)
    typed = all(type(one) is str for one in texts) and all(type(one) is int for one in numbers)
    if not (whole and typed and type(previous) is str and envelope["format"] == version):
        raise _EntryRefused(UnreadableReason.DAMAGED, "It lacks a field that every entry has.")
    if envelope["cluster_id"] != cluster_id:
        raise _EntryRefused(
            UnreadableReason.FOREIGN, f"It was written for cluster {envelope['cluster_id']}."
        )
    if envelope["key"] != key:
        raise _EntryRefused(
            UnreadableReason.FOREIGN, f"It was written under the key {envelope['key']}."
        )
    header = EntryHeader(cluster_id, envelope["writer"], envelope["time_ms"], version, previous)
    if "body" in envelope:
        if len(_canonical(envelope["body"])) > _bytes_max(key):
            raise _EntryRefused(
                UnreadableReason.TOO_LARGE, "It is larger than an entry of its kind may be."
            )
        return Entry(key, envelope["body"], header)
    unpack = _unpacked if version == FORMAT else _unpacked_unsigned
    return Entry(key, unpack(envelope["packed"], part, _bytes_max(key)), header)


def _unpacked(about: Mapping[str, Any], part: Parts, most: int) -> Body:
    digests, size = about.get("parts"), about.get("bytes")
    if not isinstance(digests, list) or type(size) is not int:
        raise _EntryRefused(UnreadableReason.DAMAGED, "It does not list its parts.")
    packed = _joined(len(digests), size, part, most)
    if [part_digest(one) for one in packed] != digests:
        raise _EntryRefused(
            UnreadableReason.DAMAGED, "Its parts are not the ones that were written with it."
        )
    return _inflated(b"".join(packed), size)


def _joined(count: int, size: int, part: Parts, most: int) -> list[bytes]:
    """The parts of a body, if they and the body are within their bounds."""
    if size > most:
        raise _EntryRefused(
            UnreadableReason.TOO_LARGE, f"It has {size} bytes; the maximum of its kind is {most}."
        )
    if not (0 < count <= most // PART_BYTES + 2 and size >= 0):
        raise _EntryRefused(
            UnreadableReason.DAMAGED, f"It cannot have {count} parts and {size} bytes."
        )
    found = [part(number) for number in range(count)]
    parts = [one for one in found if one is not None]
    if len(parts) < count:
        raise _EntryRefused(
            UnreadableReason.DAMAGED, f"{count - len(parts)} of its {count} parts are missing."
        )
    return parts


def _inflated(packed: bytes, size: int) -> Body:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, size + 1)
    except zlib.error as error:
        raise _EntryRefused(
            UnreadableReason.DAMAGED, f"It cannot be decompressed: {error}."
        ) from None
    if len(text) != size or not unpacking.eof:
        raise _EntryRefused(UnreadableReason.DAMAGED, f"It is not {size} bytes long.")
    return _parsed(text)


def _parsed(value: bytes) -> dict[str, Any]:
    try:
        document = json.loads(
            value.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number
        )
        if _SURROGATE in value.lower():
            _in_utf_8(document)
    except (ValueError, RecursionError):
        raise _EntryRefused(UnreadableReason.DAMAGED, "It is not JSON, or is incomplete.") from None
    if not isinstance(document, dict):
        raise _EntryRefused(UnreadableReason.DAMAGED, "It is not a JSON object.")
    return document


def _in_utf_8(document: Any, errors: str = "strict") -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", errors)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("the same field twice")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _canonical(envelope: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(envelope, **_COMPACT).encode()
    except (ValueError, RecursionError):
        raise _EntryRefused(UnreadableReason.DAMAGED, "It holds an invalid number.") from None


# --- reading what is not


def claimed(key: str, value: bytes, part: Parts, cluster_id: str, seal: Seal) -> Entry | Unreadable:
    """What a head says that we did not sign; to be shown, and believed only by an operator."""
    try:
        if len(value) > CLAIM_BYTES_MAX:
            raise _EntryRefused(
                UnreadableReason.TOO_LARGE, f"Nobody signed it, and it has {len(value)} bytes."
            )
        envelope = _parsed(value)
        _check_format(envelope)
        if kind_of(key) is None:
            raise _EntryRefused(
                UnreadableReason.FOREIGN, "It has a kind that this kshunt does not know."
            )
        if seal.verdict is None:
            _check_digest(envelope)
            return _entry(key, envelope, part, cluster_id, UNSIGNED_FORMAT)
        for name in ("number", "signature"):
            envelope.pop(name, None)
        return _entry(key, envelope, part, cluster_id, FORMAT)
    except _EntryRefused as refused:
        return Unreadable(key, refused.why, clipped(refused.detail), _digest(value))


def disbelieved(key: str, value: bytes, found: Entry | Unreadable, seal: Seal) -> Unreadable:
    """Why an entry that we did not sign is set aside."""
    if seal.verdict is SignatureVerdict.VALID:
        detail = "A backend of this cluster wrote it, and has replaced or removed it since."
        return Unreadable(key, UnreadableReason.REPLAYED, detail, _digest(value))
    if isinstance(found, Unreadable):
        return found
    if seal.verdict is None:
        detail, why = (
            "It is not signed: an earlier kshunt or another client wrote it.",
            UnreadableReason.UNSIGNED,
        )
    elif seal.verdict is SignatureVerdict.UNKNOWN_KEY:
        detail = f"It is signed with the key {seal.key_id}, which this backend does not have."
        why = UnreadableReason.UNKNOWN_KEY
    else:
        detail, why = (
            f"Its signature with the key {seal.key_id} is not valid.",
            UnreadableReason.FORGED,
        )
    return Unreadable(key, why, detail, _digest(value))


def clipped(text: str) -> str:
    """Words of somebody else's, short, and such that UTF-8 can write them."""
    return text.encode("utf-8", "replace").decode("utf-8")[:DETAIL_MAX]


def _check_digest(envelope: dict[str, Any]) -> None:
    sealed = envelope.pop("digest", None)
    if sealed != _digest(_canonical(envelope)):
        raise _EntryRefused(UnreadableReason.DAMAGED, "Its digest does not match its content.")


def _unpacked_unsigned(about: Mapping[str, Any], part: Parts, most: int) -> Body:
    count, size, digest = (about.get(name) for name in ("parts", "bytes", "digest"))
    if type(count) is not int or type(size) is not int or type(digest) is not str:
        raise _EntryRefused(UnreadableReason.DAMAGED, "It does not list its parts.")
    packed = b"".join(_joined(count, size, part, most))
    if _digest(packed) != digest:
        raise _EntryRefused(
            UnreadableReason.DAMAGED, "Its parts are not the ones that were written with it."
        )
    return _inflated(packed, size)


def _digest(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()
