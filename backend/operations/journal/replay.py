"""What a log of records amounts to, and what of it is believed.

Goals
    Somebody who can write the journal's topic can make no backend do anything. A backend shows what
    no backend of ours wrote, and never acts upon it. One bad entry harms no other.
Constraints
    Pure. A tombstone bears no signature, and compaction keeps only the last record of a key.
Algorithm
    Each append has a number, greater than any before it, which its signatures cover. The entry
    `manifest` is signed like any other, and names each entry but the audit's lines and the
    heartbeat, with its number. Every append that changes these writes it anew, in the same
    transaction. So an old entry that is written again, or one that was removed, is recognised
    although its signature fits. What is believed:

    ===================================  ==========================================================
    found under a key                    what is done with it
    ===================================  ==========================================================
    signed by us, its number the         believed
    manifest's, or greater than the
    manifest's own

    signed by us, audit or heartbeat     believed

    signed by us, any other number       set aside: replayed; an entry that was there stays

    no signature, one that does not      set aside; an entry that was there stays
    fit, or one with an unknown key

    a part that its head does not name   ignored

    a tombstone                          the entry goes; where the manifest names it, that is said.
                                         Manifest and heartbeat stay: a heartbeat ends with a signed
                                         word

    signed by us, damaged or newer       unreadable: listed, and not written over
    ===================================  ==========================================================

    Where there is no manifest of ours, but something that a backend may have written, the journal
    is somebody else's (`Provenance`). No backend acts on it until an operator says what it is.
    `Unproven.ADOPT` believes all of it, and `Unproven.IGNORE` none.

Somebody who can write the topic can still remove entries while no backend acts; the manifest then
says which. They can also bring a whole older journal back, and stop kshunt. Only ACLs prevent that.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from kshunt.backend.access.cluster_keys import ClusterKeys, SignatureVerdict
from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.limits import LIMITS
from kshunt.backend.operations.journal.audit_chain import Chained, chained, line_hash
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    MANIFEST_KEY,
    AuditSpan,
    Body,
    Entry,
    EntryHeader,
    EntryKind,
    JournalState,
    Provenance,
    Record,
    Unreadable,
    kind_of,
)
from kshunt.backend.operations.journal.records import (
    INLINE_BYTES_MAX,
    Seal,
    claimed,
    disbelieved,
    encode,
    entry_key,
    opened,
    part_digest,
    part_key,
    parts_of,
    seal_of,
)

REMOVED_KEPT: Final = 20_000
"""Removed entries whose number is remembered, so that they cannot be written again."""
ENDED: Final[Body] = {"ended": True}
"""The body of the last heartbeat of a backend that has ended in order."""
_ENDED: Final = b'"body":{"ended":true}'
_UNLISTED: Final = frozenset({EntryKind.AUDIT, EntryKind.BACKEND, EntryKind.MANIFEST})
"""Kinds that the manifest does not name."""
_PROVENANCE: Final[Mapping[UnreadableReason, Provenance]] = {
    UnreadableReason.NEWER: Provenance.NEWER,
    UnreadableReason.UNKNOWN_KEY: Provenance.UNKNOWN,
    UnreadableReason.UNSIGNED: Provenance.UNSIGNED,
    UnreadableReason.REPLAYED: Provenance.UNLISTED,
}
"""What a journal without a manifest is that holds an entry which is set aside for this; the first
that applies counts."""


@dataclass(slots=True)
class SignedHead:
    """A head that we signed."""

    value: bytes
    seal: Seal
    digests: tuple[str, ...] | None = None
    """Of its parts; None before anybody asked."""
    body_bytes: int = 0
    parts: dict[int, bytes] = field(default_factory=dict)

    def take(self, number: int, part: bytes) -> None:
        """A part; ignored where the head does not name it."""
        if self.digests is None:
            self.digests, self.body_bytes = parts_of(self.value)
        if number < len(self.digests) and part_digest(part) == self.digests[number]:
            self.parts[number] = part

    @property
    def size_bytes(self) -> int:
        """What its body takes once it is read."""
        return max(len(self.value), self.body_bytes if self.parts else 0)


@dataclass(slots=True)
class UnprovenHead:
    """A head that we did not sign, or that was replaced."""

    value: bytes | None = None
    seal: Seal = field(default_factory=lambda: Seal(None))
    parts: dict[int, bytes] = field(default_factory=dict)
    entry: Entry | Unreadable | None = None
    """What it says with its parts, once an operator wants to believe it."""

    @property
    def body_bytes(self) -> int:
        """What its body takes about, once it is read."""
        packed = sum(map(len, self.parts.values()))
        return len(self.value or b"") + (parts_of(self.value or b"")[1] if packed else 0)

    @property
    def size_bytes(self) -> int:
        """What it takes here."""
        return len(self.value or b"") + sum(map(len, self.parts.values()))


class Unproven(enum.StrEnum):
    """What becomes of a journal that nobody with our keys has written."""

    REFUSE = "refuse"
    """It is shown, and this backend changes nothing."""
    ADOPT = "adopt"
    """It is believed, and signed by the backend that takes over."""
    IGNORE = "ignore"
    """Nothing of it is believed; it stays where it is."""


class JournalReplay:
    """Takes the records of a log in their order, and says what they amount to."""

    def __init__(
        self, cluster_id: str, keys: ClusterKeys, unproven: Unproven = Unproven.REFUSE
    ) -> None:
        self._cluster_id = cluster_id
        self._keys = keys
        self._unproven = unproven
        self._heads: dict[str, SignedHead] = {}
        self._claims: dict[str, UnprovenHead] = {}
        self._claim_bytes = 0
        self._claims_dropped = 0
        self._numbers: dict[str, int] = {}
        """The greatest that was found of a key, also of one that was removed."""
        self._newest = 0
        self._raw_keys: dict[str, bytes] = {}
        """Of keys that are no UTF-8."""
        self._changed: set[str] = set()
        self._listed: Mapping[str, int] | None = None
        """What the manifest names; None where there is none."""
        self._listed_at = -1
        self.journal_id = ""
        """Which journal it is: one that is begun anew has another."""
        self._entries: dict[str, Entry] = {}
        self._unreadable: dict[str, Unreadable] = {}
        self._aside: dict[str, Unreadable] = {}
        self._audit = AuditSpan()
        self._links: dict[str, tuple[str, str]] = {}
        """Of each line of the audit: the hash of the one before, and its own."""
        self._sizes: dict[str, int] = {}
        """Of the entries, as JSON."""
        self._state = JournalState()

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """The next record."""
        name = "" if key is None else key.decode("utf-8", "backslashreplace")
        head = entry_key(name)
        self._changed.add(head)
        if head != name:
            self._take_part(head, int(name[-4:]), value)
        elif value is None:
            self._remove(name)
        else:
            self._take_head(name, value)
        if key is not None and name.encode() != key and name in self._claims:
            self._raw_keys[name] = key

    def _remove(self, name: str) -> None:
        self._drop_claim(name)
        self._raw_keys.pop(name, None)
        if name not in (MANIFEST_KEY, BACKEND_KEY):
            self._heads.pop(name, None)
        while len(self._numbers) > len(self._heads) + REMOVED_KEPT:
            oldest = next(one for one in self._numbers if one not in self._heads)
            del self._numbers[oldest]

    def _take_head(self, name: str, value: bytes) -> None:
        head = self._heads.get(name)
        if head is not None and head.value == value:
            self._drop_claim(name)
            return
        seal = seal_of(name, value, self._cluster_id, self._keys)
        if seal.verdict is not SignatureVerdict.VALID or seal.number <= self._numbers.get(name, -1):
            self._claim(name, UnprovenHead(value, seal))
            return
        self._drop_claim(name)
        # Those that were found last are last, for `_remove`.
        self._numbers.pop(name, None)
        self._numbers[name] = seal.number
        self._newest = max(self._newest, seal.number)
        self._heads[name] = SignedHead(value, seal)
        if name == BACKEND_KEY and _ENDED in value:
            del self._heads[name]

    def _take_part(self, name: str, number: int, part: bytes | None) -> None:
        head, claim = self._heads.get(name), self._claims.get(name)
        if part is not None and head is not None:
            head.take(number, part)
        if claim is None and (head is not None or part is None):
            return
        made = claim or UnprovenHead()
        self._drop_claim(name)
        if part is None:
            made.parts.pop(number, None)
        else:
            made.parts[number] = part
        made.entry = None
        if made.value is not None or made.parts:
            self._claim(name, made)

    def _drop_claim(self, name: str) -> None:
        claim = self._claims.pop(name, None)
        if claim is not None:
            self._claim_bytes -= len(name) + claim.size_bytes

    def _claim(self, name: str, claim: UnprovenHead) -> None:
        self._drop_claim(name)
        room = LIMITS.journal_aside_bytes - self._claim_bytes
        size = len(name) + claim.size_bytes
        if len(self._claims) >= LIMITS.journal_aside or size > room:
            self._claims_dropped += 1
            return
        self._claims[name] = claim
        self._claim_bytes += size

    # --- what it amounts to

    def state(self) -> JournalState:
        """What the records amount to; the same object as before where nothing changed.

        To be asked at the end of a transaction only: within one, parts may still be missing.
        """
        if not self._changed:
            return self._state
        self._read_manifest()
        for key in self._changed:
            self._look_at(key)
        self._changed.clear()
        entries, unreadable = self._within_bounds()
        aside, provenance = dict(self._aside), self._provenance()
        adopted = self._adopted()
        if adopted:
            provenance = Provenance.OURS
            for key, entry in adopted.items():
                entries[key] = entry
                aside.pop(key, None)
        missing = tuple(sorted(key for key in self._listed or () if not self._is_there(key)))
        self._state = JournalState(
            entries,
            unreadable,
            aside,
            missing,
            provenance,
            bool(adopted),
            self._audit,
            self.journal_id,
            self._claims_dropped,
        )
        return self._state

    def _look_at(self, key: str) -> None:
        for known in (self._entries, self._unreadable, self._aside, self._sizes, self._links):
            known.pop(key, None)
        found = self._head_entry(key)
        if isinstance(found, Entry):
            self._entries[key] = found
            if kind_of(key) is EntryKind.AUDIT:
                previous = found.header.previous
                self._links[key] = previous, line_hash(key, found.body, previous)
            self._sizes[key] = self._heads[key].size_bytes
        elif found is not None:
            (self._aside if found.why is UnreadableReason.REPLAYED else self._unreadable)[key] = (
                found
            )
        if (claim := self._claims.get(key)) is not None:
            self._aside[key] = self._claim_entry(key, claim)

    def _is_there(self, key: str) -> bool:
        head = self._heads.get(key)
        return head is not None and self._is_listed(key, head.seal.number)

    def _read_manifest(self) -> None:
        head = self._heads.get(MANIFEST_KEY)
        if head is None or head.seal.number == self._listed_at:
            return
        found = opened(MANIFEST_KEY, head.value, head.parts.get, self._cluster_id)
        listed = _numbers_in(found.body) if isinstance(found, Entry) else None
        if listed is None or not isinstance(found, Entry):
            return
        self.journal_id = str(found.body.get("journal", ""))
        self._audit = _span_in(found.body)
        if self._listed is None:
            self._changed |= self._heads.keys()
        self._changed |= {key for key, _ in (self._listed or {}).items() ^ listed.items()}
        self._listed, self._listed_at = listed, head.seal.number

    def _head_entry(self, key: str) -> Entry | Unreadable | None:
        head = self._heads.get(key)
        if head is None:
            return None
        if key == MANIFEST_KEY:
            found = opened(key, head.value, head.parts.get, self._cluster_id)
            return found if isinstance(found, Unreadable) else None
        if not self._is_listed(key, head.seal.number):
            return disbelieved(
                key, head.value, Unreadable(key, UnreadableReason.REPLAYED, ""), head.seal
            )
        return opened(key, head.value, head.parts.get, self._cluster_id)

    def _is_listed(self, key: str, number: int) -> bool:
        if kind_of(key) in _UNLISTED:
            return True
        if self._listed is None:
            return False
        return self._listed.get(key) == number or number > self._listed_at

    def _claim_entry(self, key: str, claim: UnprovenHead) -> Unreadable:
        if claim.value is None:
            return Unreadable(
                key, UnreadableReason.DAMAGED, f"{len(claim.parts)} parts of it, but no head."
            )
        # Parts are not put together for something that is only shown.
        found = claimed(key, claim.value, lambda number: None, self._cluster_id, claim.seal)
        return disbelieved(key, claim.value, found, claim.seal)

    def _provenance(self) -> Provenance:
        if (unreadable := self._unreadable.get(MANIFEST_KEY)) is not None:
            newer = unreadable.why is UnreadableReason.NEWER
            return Provenance.NEWER if newer else Provenance.UNLISTED
        if self._listed is not None or self._unproven is Unproven.IGNORE:
            return Provenance.OURS
        found = {one.why for one in self._aside.values()}
        return next((p for why, p in _PROVENANCE.items() if why in found), Provenance.OURS)

    def _within_bounds(self) -> tuple[dict[str, Entry], dict[str, Unreadable]]:
        """The entries and what cannot be read, with the largest among the latter where all of
        them are too large."""
        entries, unreadable = dict(self._entries), dict(self._unreadable)
        total = sum(self._sizes.values())
        if total > LIMITS.journal_bytes:
            for key in sorted(self._sizes, key=lambda one: -self._sizes[one]):
                if total <= LIMITS.journal_bytes:
                    break
                size = self._sizes[key]
                total -= size
                entries.pop(key, None)
                detail = f"It has {size} bytes, and the journal more than {LIMITS.journal_bytes}."
                unreadable[key] = Unreadable(key, UnreadableReason.TOO_LARGE, detail)
        return entries, unreadable

    # --- signing what is not

    def _adopted(self) -> dict[str, Entry]:
        """What an operator says is ours."""
        found: dict[str, Entry] = {}
        if self._unproven is not Unproven.ADOPT or self._listed is not None:
            return found
        total = sum(self._sizes.values())
        for key, why in self._aside.items():
            entry = None if why.why is UnreadableReason.FORGED else self._adoptable(key)
            if isinstance(entry, Entry):
                claim = self._claims.get(key)
                total += INLINE_BYTES_MAX if claim is None else claim.body_bytes
                if total > LIMITS.journal_bytes:
                    break
                found[key] = entry
        return found

    def _adoptable(self, key: str) -> Entry | Unreadable | None:
        claim, head = self._claims.get(key), self._heads.get(key)
        if kind_of(key) is EntryKind.MANIFEST:
            return None
        if claim is not None and claim.value is not None:
            if claim.entry is None:
                claim.entry = claimed(
                    key, claim.value, claim.parts.get, self._cluster_id, claim.seal
                )
            return None if claim.seal.verdict is SignatureVerdict.VALID else claim.entry
        return opened(key, head.value, head.parts.get, self._cluster_id) if head else None

    def unsigned(self) -> Collection[str]:
        """The entries that are believed and not signed with the key that signs."""
        newest = self._keys.keys[0].id
        return [
            key
            for key in self.state().entries
            if key != BACKEND_KEY
            and (key not in self._heads or self._heads[key].seal.key_id != newest)
        ]

    # --- writing

    def foreign(self, key: bytes | None, value: bytes | None) -> str | None:
        """A record that somebody else wrote, or may have, while we are the only writer.

        Returns the key of the entry of ours that has to be written again.
        """
        name = "" if key is None else key.decode("utf-8", "backslashreplace")
        head = entry_key(name)
        ours = self._heads.get(head)
        if value is not None and head == name:
            if ours is not None and ours.value == value:
                return None
            seal = seal_of(name, value, self._cluster_id, self._keys)
            if seal.verdict is not SignatureVerdict.VALID:
                self.take(key, value)
        elif value is not None:
            if ours is not None and ours.parts.get(int(name[-4:])) == value:
                return None
            self.take(key, value)
        return None if ours is None else head

    @property
    def listed_at(self) -> int:
        """The number of the manifest, or -1 where there is none."""
        self._read_manifest()
        return self._listed_at

    def is_continued_by(self, other: JournalReplay) -> bool:
        """Whether another log is this journal at a later time, and whole."""
        later = other.listed_at > self._newest and not other.state().missing
        return later and bool(self.journal_id) and other.journal_id == self.journal_id

    def go_on_from(self, before: JournalReplay) -> None:
        """Continue a journal whose log is no more."""
        self._newest = max(self._newest, before._newest)
        self.journal_id = before.journal_id
        self._audit, self._links = before._audit, dict(before._links)

    def records(
        self,
        entries: Mapping[str, Body | None],
        header: EntryHeader,
        *,
        unfinished: bool = False,
        again: bool = False,
    ) -> list[Record]:
        """What to write so that the entries take the place of what is under their keys.

        Args:
            entries: None removes an entry.
            header: Of all of them.
            unfinished: The manifest is left as it is. More has to be signed before it is true.
            again: The manifest is written although it says nothing new.

        Raises:
            BadInput: as `encode`.
        """
        number = max(self._newest + 1, header.time_ms)
        listed = self._believed()
        audit = self._audit_with(entries)
        records: list[Record] = []
        for key, body in entries.items():
            raw_key = self._raw_keys.get(key, key.encode())
            written: list[Record] = [(raw_key, None)]
            if key == BACKEND_KEY and body is None:
                body = ENDED
            if body is not None:
                linked = replace(header, previous=audit.links.get(key, ("", ""))[0])
                written = encode(key, body, linked, number, self._keys)
            records += self._with_old_parts(key, written)
            listed.pop(key, None)
            if body is not None and kind_of(key) not in _UNLISTED:
                listed[key] = number
        changed = listed != self._listed or audit.span != self._audit or self._is_old_manifest()
        due = again or (records and changed)
        if due and not unfinished:
            about = {
                "journal": self.journal_id or f"{header.writer}-{number}",
                "entries": listed,
                "audit": asdict(audit.span),
            }
            written = encode(MANIFEST_KEY, about, header, number, self._keys)
            records += self._with_old_parts(MANIFEST_KEY, written)
        return records

    def _audit_with(self, entries: Mapping[str, Body | None]) -> Chained:
        lines = {key: body for key, body in entries.items() if kind_of(key) is EntryKind.AUDIT}
        if not lines:
            return Chained(self._audit, {})
        self.state()
        return chained(self._audit, self._links, lines)

    def _is_old_manifest(self) -> bool:
        return self._heads[MANIFEST_KEY].seal.key_id != self._keys.keys[0].id

    def _with_old_parts(self, key: str, written: list[Record]) -> list[Record]:
        """With tombstones for the parts that an earlier version left."""
        parts = len(written) - 1
        head, claim = self._heads.get(key), self._claims.get(key)
        there = {*(head.parts if head else ()), *(claim.parts if claim else ())}
        gone = sorted(number for number in there if number >= parts)
        return written + [(part_key(key, number).encode(), None) for number in gone]

    def _believed(self) -> dict[str, int]:
        """What the manifest has to name, as it is."""
        self._read_manifest()
        return {
            key: head.seal.number
            for key, head in self._heads.items()
            if not key.startswith("audit/")
            and kind_of(key) not in _UNLISTED
            and self._is_listed(key, head.seal.number)
        }


def _span_in(body: Mapping[str, Any]) -> AuditSpan:
    found = body.get("audit")
    names = ("oldest", "newest", "head")
    if not isinstance(found, dict) or not all(type(found.get(name)) is str for name in names):
        return AuditSpan()
    return AuditSpan(*(found[name] for name in names))


def _numbers_in(body: Mapping[str, Any]) -> Mapping[str, int] | None:
    found = body.get("entries")
    if not isinstance(found, dict) or not all(type(one) is int for one in found.values()):
        return None
    return found
