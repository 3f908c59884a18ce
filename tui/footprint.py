"""What the process keeps of memory that it no longer needs, and what the collector looks at."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from typing import Final

_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
COLUMN_BYTES: Final = 1_000_000
"""Blocks of this size are given back as soon as they are dropped: columns of a large cluster."""
YOUNG_MOST: Final = 20_000
"""So many objects are made between two looks for garbage; a frame makes some thousands."""


def prepare() -> None:
    """Before data libraries are loaded and threads begin.

    Columns of a large cluster are made in one thread and dropped in another: all of them share one
    heap, or each thread keeps room for the most that it ever held.
    """
    # The dashboard does no linear algebra: these threads would only cost memory and time to start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Elsewhere than with glibc it does without.
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, 1)
        # Else the first large block that is dropped makes room for its like on the heap, for good.
        library.mallopt(_MMAP_THRESHOLD, COLUMN_BYTES)
    gc.set_threshold(YOUNG_MOST, 20, 50)


def settle() -> None:
    """What is there by now stays for good: collections of garbage need not look at it.

    A full one stops every thread for as long as eight frames.
    """
    gc.freeze()
