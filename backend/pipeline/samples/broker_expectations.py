"""What is expected of recorded rows of brokers, and what becomes of those that break it.

As with replicas nothing is dropped silently; see `kshunt.backend.pipeline.samples.expectations`.
"""

from __future__ import annotations

from typing import Final

from kshunt.backend.domain.pipeline.sample_columns import BROKER_SAMPLES
from kshunt.backend.pipeline.samples.expectations import (
    TIME_PLAUSIBLE,
    Expectation,
    RowOutcome,
    keys_known,
    not_negative,
)

BROKER_KEYS: Final = tuple(column.name for column in BROKER_SAMPLES if not column.nullable)
_COUNTS: Final = ("leaders", "preferred_leaders", "replicas")
_SIZES: Final = ("log_bytes", "disk_total_bytes", "disk_usable_bytes")
_SPEEDS: Final = ("in_bytes_per_s", "out_bytes_per_s")
NOT_NEGATIVE: Final = (*_COUNTS, *_SIZES, *_SPEEDS)
KNOWN_BEFORE: Final = (*_SIZES, *_SPEEDS, *_COUNTS)
"""Of rows with one key the one that knows most of these is kept, then the one with the greatest."""

BROKER_EXPECTATIONS: Final = (
    keys_known(BROKER_KEYS),
    TIME_PLAUSIBLE,
    not_negative(
        "sizes_not_negative",
        NOT_NEGATIVE,
        "no count, size or speed is below 0",
    ),
    Expectation(
        "unique", RowOutcome.DROPPED, "one row for each broker and time", "copy_number = 1"
    ),
    Expectation(
        "disk_adds_up",
        RowOutcome.KEPT,
        "its disks have no more free space than their size",
        "disk_usable_bytes <= disk_total_bytes",
    ),
)
