"""What the journal's znodes are called, and what the znode of its last append says."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from urllib.parse import quote

from kshunt.backend.admin.zookeeper import znode_layout
from kshunt.backend.admin.zookeeper.session import Znode
from kshunt.backend.errors import JournalFenced
from kshunt.backend.operations.journal.entries import Body, EntryKind, JournalState

THROTTLES: Final = (EntryKind.TOPIC_THROTTLE, EntryKind.BROKER_THROTTLE)


def named_by(commit: Znode) -> list[str] | None:
    """The records that the last append wrote; None where somebody has spoilt it."""
    with suppress(znode_layout.UnreadableZnode):
        names = znode_layout.document("/kshunt/commit", commit.data).get("names")
        if isinstance(names, list):
            return list(map(str, names))
    return None


def throttles_of(state: JournalState) -> dict[str, Body]:
    """The ownership records of a journal, by key."""
    return {entry.key: entry.body for kind in THROTTLES for entry in state.of(kind).values()}


def record_name(key: bytes) -> str:
    """A record's name below `/kshunt/journal`: a key has slashes."""
    return quote(key, safe="")


def fenced() -> JournalFenced:
    """Why a backend that is not the writer writes nothing."""
    return JournalFenced(
        "This backend does not write the journal. Nothing was written.",
        advice="It is a standby, and takes over when no other backend is active.",
    )
