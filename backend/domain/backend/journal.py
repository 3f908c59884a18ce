"""Where the journal is kept, and why an entry of it is not believed."""

from __future__ import annotations

import enum
from typing import Final

JOURNAL_TOPIC: Final = "__kshunt_journal"
JOURNAL_ZNODE: Final = "/kshunt"
"""Through ZooKeeper."""


class UnreadableReason(enum.StrEnum):
    """Why an entry cannot be read, or is not believed."""

    DAMAGED = "damaged"
    """Truncated, changed or incomplete."""
    FOREIGN = "foreign"
    """Of another cluster, under another key, or of a kind that does not exist."""
    NEWER = "newer"
    """Of a later version of kshunt."""
    TOO_LARGE = "too_large"
    """Larger than an entry of its kind, or than the journal as a whole, may be."""
    UNSIGNED = "unsigned"
    """Written by a kshunt that signed nothing, or by anybody else."""
    UNKNOWN_KEY = "unknown_key"
    """Signed with a key that this backend does not have."""
    FORGED = "forged"
    """Its signature does not fit it."""
    REPLAYED = "replayed"
    """A backend of this cluster wrote it, and has replaced or removed it since."""
