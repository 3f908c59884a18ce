"""Why the pipeline sets a file of recorded samples aside."""

from __future__ import annotations

import enum
from typing import Final


class FileFault(enum.StrEnum):
    """What is wrong with the file."""

    DAMAGED = "damaged"
    """It cannot be read as Parquet, or not to its end."""
    EMPTY = "empty"
    """It has no byte."""
    INACCESSIBLE = "inaccessible"
    """The file system does not let it be read."""
    FOREIGN = "foreign"
    """It is Parquet, and no recording of kshunt's samples."""
    NEWER = "newer"
    """A newer kshunt wrote it."""
    OTHER_TABLE = "other_table"
    """It holds another table than its folder."""
    OTHER_CLUSTER = "other_cluster"
    """Its samples are of another cluster than the recording."""
    COLUMN_MISSING = "column_missing"
    """A column is not there."""
    COLUMN_CHANGED = "column_changed"
    """A column has another type."""


_WORDS: Final = {
    FileFault.DAMAGED: "it is damaged",
    FileFault.EMPTY: "it is empty",
    FileFault.INACCESSIBLE: "it cannot be opened",
    FileFault.FOREIGN: "it is not a file of kshunt",
    FileFault.NEWER: "a newer kshunt wrote it",
    FileFault.OTHER_TABLE: "it is in the folder of another table",
    FileFault.OTHER_CLUSTER: "it is from another cluster",
    FileFault.COLUMN_MISSING: "a column is missing",
    FileFault.COLUMN_CHANGED: "a column has another type",
}


def fault_text(fault: str) -> str:
    """The fault in words; one of a later version as it is."""
    return _WORDS[FileFault(fault)] if fault in tuple(FileFault) else fault
