"""Journal entries: what kinds there are, how their keys are made, and what a journal amounts to.

`kshunt.backend.operations.journal.records` makes records of them, and
`kshunt.backend.operations.journal.replay` says what a log of records amounts to and what of it is
believed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kshunt.backend.domain.backend.journal import UnreadableReason
from kshunt.backend.domain.untrusted.json_codec import read_exactly, to_document
from kshunt.backend.errors import BadInput
from kshunt.backend.limits import LIMITS

Body: TypeAlias = Mapping[str, Any]
"""A JSON object; only the code that wrote it knows what it holds."""
Record: TypeAlias = tuple[bytes, bytes | None]
"""Key and value; a value of None is a tombstone."""

FORMAT: Final = 2
UNSIGNED_FORMAT: Final = 1
"""The last format of entries that nobody signed."""
BACKEND_KEY: Final = "backend"
MANIFEST_KEY: Final = "manifest"
_MB: Final = 1024 * 1024


class EntryKind(enum.StrEnum):
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
    FORECASTS = "forecasts"
    """What was forecast of one operation, and how it turned out."""
    MANIFEST = "manifest"
    """Which entries there are."""


_NAMES: Final[Mapping[EntryKind, str]] = {
    EntryKind.OPERATION: r"/([A-Za-z0-9_-]{1,64})",
    EntryKind.BROKER_THROTTLE: r"/(0|[1-9][0-9]{0,9})",
    EntryKind.TOPIC_THROTTLE: r"/([A-Za-z0-9._-]{1,249})",
    EntryKind.AUDIT: r"/([0-9]{13}-[0-9]{4,9})",
    EntryKind.BACKEND: "()",
    EntryKind.PROPOSAL: r"/([A-Za-z0-9_-]{1,64})",
    EntryKind.TEAM: r"/([A-Za-z0-9_-]{1,64})",
    EntryKind.FORECASTS: r"/([A-Za-z0-9_-]{1,64})",
    EntryKind.MANIFEST: "()",
}
BODY_BYTES_MAX: Final[Mapping[EntryKind, int]] = {
    EntryKind.OPERATION: LIMITS.journal_operation_bytes,
    EntryKind.BROKER_THROTTLE: 4 * _MB,
    EntryKind.TOPIC_THROTTLE: 16 * _MB,
    EntryKind.AUDIT: _MB,
    EntryKind.BACKEND: _MB,
    EntryKind.PROPOSAL: LIMITS.journal_operation_bytes,
    EntryKind.TEAM: 8 * _MB,
    EntryKind.FORECASTS: _MB,
    EntryKind.MANIFEST: 16 * _MB,
}
"""Of one body, as JSON and not compressed."""
_KEYS: Final = {kind: re.compile(re.escape(kind) + name) for kind, name in _NAMES.items()}


def kind_of(key: str) -> EntryKind | None:
    """The kind of entry under a key, or None for a key that no entry of ours has."""
    return next((kind for kind, pattern in _KEYS.items() if pattern.fullmatch(key)), None)


def operation_key(operation_id: str) -> str:
    """The key of an operation.

    Raises:
        BadInput: the id is empty, too long, or has other characters than letters, digits, - and _.
    """
    return checked(f"{EntryKind.OPERATION}/{operation_id}")


def broker_throttle_key(broker: int) -> str:
    """The key of a broker's ownership record.

    Raises:
        BadInput: the id is negative.
    """
    return checked(f"{EntryKind.BROKER_THROTTLE}/{broker}")


def topic_throttle_key(topic: str) -> str:
    """The key of a topic's ownership record.

    Raises:
        BadInput: no topic can have this name.
    """
    return checked(f"{EntryKind.TOPIC_THROTTLE}/{topic}")


def proposal_key(proposal_id: str) -> str:
    """The key of a proposal.

    Raises:
        BadInput: as `operation_key`.
    """
    return checked(f"{EntryKind.PROPOSAL}/{proposal_id}")


def team_key(operation_id: str) -> str:
    """The key of what people said about an operation.

    Raises:
        BadInput: as `operation_key`.
    """
    return checked(f"{EntryKind.TEAM}/{operation_id}")


def forecasts_key(operation_id: str) -> str:
    """The key of what was forecast of an operation.

    Raises:
        BadInput: as `operation_key`.
    """
    return checked(f"{EntryKind.FORECASTS}/{operation_id}")


def checked(key: str) -> str:
    """The key, if an entry can have it.

    Raises:
        BadInput: no entry has such a key.
    """
    if kind_of(key) is None:
        raise BadInput(f"'{key}' is not the key of a journal entry.")
    return key


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """What every entry says of itself."""

    cluster_id: str
    writer: str
    """Id of the backend that wrote it."""
    time_ms: int
    """When, by the writer's clock; milliseconds since the epoch."""
    format: int = FORMAT
    previous: str = field(default="", compare=False)
    """Of a line of the audit: the hash of the line before; see `audit_chain`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One readable entry."""

    key: str
    body: Body
    header: EntryHeader


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry that is listed and never acted upon."""

    key: str
    why: UnreadableReason
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
    demands_credentials: bool = False
    """Whether every caller shows a credential."""
    two_person: tuple[str, ...] = ()  # Sorted; see `kshunt.backend.two_person`.
    key_id: str = ""
    """Of the key that signs its requests."""

    def body(self) -> Body:
        """As the body of an entry."""
        return to_document(self)

    @classmethod
    def of(cls, entry: Entry) -> Heartbeat | Unreadable:
        """From an entry."""
        # Earlier versions did not demand anything.
        demands = {"demands_credentials": False, "two_person": [], "key_id": ""}
        try:
            return read_exactly(cls, {**demands, **entry.body})
        except ValueError as error:
            words = f"It does not name the active backend: {error}."
            return Unreadable(entry.key, UnreadableReason.DAMAGED, words)


# --- the whole log


class Provenance(enum.StrEnum):
    """Who wrote a journal, as far as the keys of this backend tell."""

    OURS = "ours"
    """Backends with our keys; or it is empty."""
    UNSIGNED = "unsigned"
    """Nothing in it is signed."""
    UNKNOWN = "unknown"
    """Backends whose keys this one does not have."""
    UNLISTED = "unlisted"
    """Backends with our keys, and somebody else removed or damaged its manifest."""
    NEWER = "newer"
    """A later version of kshunt."""


REFUSED: Final[Mapping[Provenance, tuple[UnreadableReason, str]]] = {
    Provenance.UNSIGNED: (
        UnreadableReason.UNSIGNED,
        "The journal's entries are not signed with a key of this cluster's backends. Earlier "
        "versions of kshunt write such entries, and every client that can write the topic could "
        "too. Stop all earlier backends and check the entries. To sign them, start one backend "
        "with --adopt-unsigned-journal. If they are not kshunt's, use --ignore-unsigned-journal.",
    ),
    Provenance.UNKNOWN: (
        UnreadableReason.UNKNOWN_KEY,
        "The journal's entries are signed with keys that this backend does not have. Copy the key "
        "file from a backend that has them (see --cluster-keys), and start this one again. If "
        "these keys are lost, start one backend with --adopt-unsigned-journal.",
    ),
    Provenance.UNLISTED: (
        UnreadableReason.REPLAYED,
        "Another client removed or damaged the journal's manifest, so the current entries are "
        "unknown. Check them, and start one backend with --adopt-unsigned-journal to use them.",
    ),
    Provenance.NEWER: (
        UnreadableReason.NEWER,
        "A later version of kshunt writes the journal. Upgrade this one.",
    ),
}
"""Why a backend does not act with a journal that is not ours, and what an operator can do."""


@dataclass(frozen=True, slots=True)
class AuditSpan:
    """What the manifest says of the audit's lines; see
    `kshunt.backend.operations.journal.audit_chain`."""

    oldest: str = ""
    """A key."""
    newest: str = ""
    head: str = ""
    """The hash of the newest line."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """All that is committed, by key."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    """Those that are believed."""
    unreadable: Mapping[str, Unreadable] = field(default_factory=dict)
    """Those that a backend of ours wrote, and that cannot be read."""
    aside: Mapping[str, Unreadable] = field(default_factory=dict)
    """Those that are not believed: they hold back nothing."""
    missing: tuple[str, ...] = ()
    """Entries that the manifest names and that are gone: somebody else removed them."""
    provenance: Provenance = Provenance.OURS
    adopted: bool = False
    """True where an operator said to believe entries that no signature proves."""
    audit: AuditSpan | None = field(default=None, compare=False)
    journal_id: str = field(default="", compare=False)
    """Which journal it is: one that is begun anew has another."""
    claims_dropped: int = 0
    """Records that are not believed and that there was no room to remember."""

    @property
    def heartbeat(self) -> Heartbeat | Unreadable | None:
        """Who acts; None where nobody does, or it has ended in order."""
        if self.provenance in REFUSED:
            return Unreadable(BACKEND_KEY, *REFUSED[self.provenance])
        if BACKEND_KEY in self.unreadable:
            return self.unreadable[BACKEND_KEY]
        entry = self.entries.get(BACKEND_KEY)
        return None if entry is None else Heartbeat.of(entry)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of what was found; empty where all is well."""
        found = []
        if self.provenance in REFUSED:
            found.append(REFUSED[self.provenance][1])
        elif count := len(self.aside) + self.claims_dropped:
            some = ", ".join(f"{_plain(one.key)} ({one.why})" for one in [*self.aside.values()][:3])
            found.append(
                f"{count} entries of the journal are not from a backend of this cluster and are "
                f"ignored: {some}"
            )
        if self.missing:
            some = ", ".join(self.missing[:3]) + (", ..." if len(self.missing) > 3 else "")
            found.append(
                f"another client removed {len(self.missing)} entries from the journal: {some}"
            )
        return tuple(found)

    def of(self, kind: EntryKind) -> Mapping[str, Entry]:
        """The entries of a kind by what follows it in the key: an id, a broker, a topic."""
        start = f"{kind}/"
        return {
            key.removeprefix(start): self.entries[key]
            for key in sorted(self.entries)
            if key.startswith(start)
        }


def _plain(key: str) -> str:
    """A key that anybody may have written, without what a terminal acts upon."""
    return "".join(one if one.isprintable() else "?" for one in key[:60])
