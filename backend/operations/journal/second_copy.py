"""What a backend that acts keeps of the journal on its own host: for when the journal is lost.

Goals
    The values that settings had before kshunt's throttles survive the journal. A journal that was
    cut off or brought back from an earlier time is noticed by a host that knows better.
Constraints
    It is a copy: the journal comes first, and nothing of this is used unless an operator asks.
Algorithm
    While it acts, a backend writes a signed file whenever whose the throttles are has changed, or
    the newest line of the audit. When it takes over and finds a journal without records that the
    file has, it says so and leaves the file alone until an operator uses or discards them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kshunt.backend.access.cluster_keys import ClusterKeys, SignatureVerdict
from kshunt.backend.clock import Clock
from kshunt.backend.files import make_folder, replace_file, state_folder
from kshunt.backend.operations.journal.entries import Body, EntryKind, JournalState
from kshunt.backend.operations.journal.records import seal_of, signed

LOOK_S: Final = 1.0
"""So often the file is compared with what is known."""
KEY: Final = "second-copy"
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
_THROTTLES: Final = (EntryKind.BROKER_THROTTLE, EntryKind.TOPIC_THROTTLE)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the file holds."""

    journal: str = ""
    """Which journal it is of."""
    newest: str = ""
    """Key of the newest line of the audit."""
    throttles: Mapping[str, Body] = field(default_factory=dict)
    """The ownership records, by key."""

    @classmethod
    def of(cls, state: JournalState) -> Remembered:
        """Of a journal."""
        owned = {e.key: e.body for kind in _THROTTLES for e in state.of(kind).values()}
        return cls(state.journal_id, state.audit.newest if state.audit else "", owned)

    def lost_in(self, state: JournalState) -> dict[str, Body]:
        """The ownership records that a journal should have and has not."""
        gone = set(state.missing) if state.journal_id == self.journal else set(self.throttles)
        return {
            key: body
            for key, body in self.throttles.items()
            if key in gone and key not in state.entries
        }


def path_of(cluster_id: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The file of a cluster: `$XDG_STATE_HOME/kshunt/prior/CLUSTER.json`."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id)[:100]
    return state_folder(environment) / "prior" / f"{safe}.json"


def file_of(remembered: Remembered, cluster_id: str, time_ms: int, keys: ClusterKeys) -> bytes:
    """The file's content."""
    about: dict[str, Any] = {
        "journal": remembered.journal,
        "newest": remembered.newest,
        "throttles": {key: dict(body) for key, body in remembered.throttles.items()},
    }
    return signed({"key": KEY, "cluster_id": cluster_id, **about}, time_ms, keys) + b"\n"


def read_file(path: Path, cluster_id: str, keys: ClusterKeys) -> Remembered | None:
    """What the file holds; None where there is none that a backend with these keys wrote."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            return None
        content = path.read_bytes().rstrip(b"\n")
    except OSError:
        return None
    if seal_of(KEY, content, cluster_id, keys).verdict is not SignatureVerdict.VALID:
        return None
    found = json.loads(content)
    return Remembered(found["journal"], found["newest"], found["throttles"])


class SecondCopy:
    """Keeps the file of one cluster."""

    def __init__(self, keys: ClusterKeys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._cluster_id = ""
        self._written: Remembered | None = None
        self.lost: Mapping[str, Body] = {}
        """Ownership records that this host remembers, and the journal does not."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know of it."""
        if not self.lost:
            return ()
        some = ", ".join(sorted(self.lost)[:3]) + (", ..." if len(self.lost) > 3 else "")
        return (
            f"the journal has lost {len(self.lost)} throttle records that this host remembers: "
            f"{some}; GET /v1/throttles/prior shows the former values, and POST "
            "/v1/throttles/prior restores or discards them",
        )

    def opened(self, state: JournalState, cluster_id: str) -> None:
        """The backend takes over, and found this."""
        self._cluster_id = cluster_id
        found = read_file(path_of(cluster_id), cluster_id, self._keys)
        self.lost = {} if found is None else found.lost_in(state)
        self._written = found
        if self.lost or state.missing:
            log.warning(
                "The journal has lost entries; removed by others: %d, known to this host: %d",
                len(state.missing),
                len(self.lost),
            )

    def forget_lost(self) -> None:
        """An operator has used or discarded what was lost."""
        self.lost = {}

    async def save(self, state: JournalState) -> None:
        """Write the file, if there is news and nothing in it is still asked about."""
        remembered = Remembered.of(state)
        if self.lost or remembered == self._written or not self._cluster_id:
            return
        now_ms = self._clock.now_ms()
        content = file_of(remembered, self._cluster_id, now_ms, self._keys)
        try:
            await asyncio.to_thread(_write, path_of(self._cluster_id), content)
        except OSError as error:
            log.warning("The second copy of prior values cannot be written: %s", error)
        self._written = remembered


def _write(path: Path, content: bytes) -> None:
    make_folder(path.parent)
    replace_file(path, content, mode=0o600)
