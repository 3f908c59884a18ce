"""The mode of a partition (KIP-694): whether it is there to stay, and words about one that is not.

A cluster without modes has only partitions that are ReadWrite.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.text.formatting import duration_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNKNOWN_MS: Final = -1
"""A time of deletion that the cluster does not tell."""


class PartitionMode(enum.IntEnum):
    """What can be done with a partition; the seed's codes."""

    READ_WRITE = 0
    READ_ONLY = 1
    """It takes no records and is read until its delay is over; the deletion can be cancelled."""
    NONE = -1
    """Its data is being deleted."""

    def __str__(self) -> str:
        return _MODE_NAMES[self]

    @property
    def key(self) -> str:
        """Its name in filters and in the API: `readonly`."""
        return _MODE_NAMES[self].lower()

    @classmethod
    def of(cls, code: int) -> PartitionMode:
        """A mode by its code; one with an unknown code takes no records, as far as is known."""
        known = code in (0, 1, -1)
        return cls(code) if known else cls.READ_ONLY


_MODE_NAMES: Final = {
    PartitionMode.READ_WRITE: "ReadWrite",
    PartitionMode.READ_ONLY: "ReadOnly",
    PartitionMode.NONE: "None",
}

MODES_BY_KEY: Final = {mode.key: mode for mode in PartitionMode}


def mode_words(mode: PartitionMode, deletes_ms: int = UNKNOWN_MS, now_ms: int = 0) -> str:
    """The mode in a few words: `leaving in 3 min`; empty for ReadWrite.

    `deletes_ms` is when the data goes, in milliseconds since the epoch.
    """
    if mode is PartitionMode.NONE:
        return "being deleted"
    if mode is PartitionMode.READ_WRITE:
        return ""
    if deletes_ms == UNKNOWN_MS:
        return "read-only"
    left_ms = deletes_ms - now_ms
    return f"leaving in {duration_text(left_ms / 1000)}" if left_ms > 0 else "leaving now"


def leaving_words(mode: PartitionMode) -> str:
    """Why a change of such a partition is refused, in lower case, and what to do about it."""
    if mode is PartitionMode.NONE:
        return "it is being deleted"
    return "it is read-only, and about to be deleted; cancel its deletion first"


def waits_words(mode: PartitionMode) -> str:
    """What a move of such a partition waits for."""
    if mode is PartitionMode.NONE:
        return "nothing: it is being deleted"
    return "its deletion to be cancelled; until then it is read-only"


def why_left_out(mode: PartitionMode) -> str:
    """Why a partition in this mode is not moved, elected or placed, as a sentence."""
    if mode is PartitionMode.NONE:
        return "It is being deleted."
    return "It is read-only, and about to be deleted."


def mode_counts(modes: NDArray[np.int8]) -> dict[str, int]:
    """How many partitions are in each mode, by `PartitionMode.key`; `modes` has one a partition."""
    return {mode.key: int((modes == mode).sum()) for mode in PartitionMode}
