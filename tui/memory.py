"""What the process keeps of memory that it no longer needs, and what the collector looks at."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from typing import Final

_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
COLUMN_BYTES: Final = 1_000_000
"""Blocks of this size are given back as soon as they are dropped: columns of a large cluster."""
SPARE_BYTES: Final = 4_000_000
"""How much of the heap's end is kept for the next snapshot. Given back and asked for again with
each of them, at 200,000 rows, its pages alone cost 25 ms of a core a second."""
HOLES_BYTES: Final = 10_000_000
"""What more the heap holds free, between what is used, is given back."""
YOUNG_MOST: Final = 20_000
"""How many objects are made between two looks for garbage; a frame makes some thousands."""


_HEAP_SAYS: Final = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _MallocInfo(ctypes.Structure):
    """What glibc's `mallinfo2` says."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _HEAP_SAYS)


_library: ctypes.CDLL | None = None
"""Where the heap is the one that this knows, once it was prepared."""


def prepare() -> None:
    """Before data libraries are loaded and threads begin.

    Columns of a large cluster are made in one thread and dropped in another. So all threads share
    one heap; otherwise each thread would keep room for the most that it ever held.
    """
    # What an earlier dashboard of this process kept for good is garbage by now.
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
    # The dashboard does no linear algebra: these threads would only cost memory and time to start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    global _library
    # Elsewhere than with glibc it does without.
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, 1)
        # Else the first large block that is dropped makes room for its like on the heap, for good.
        library.mallopt(_MMAP_THRESHOLD, COLUMN_BYTES)
        library.mallopt(_TRIM_THRESHOLD, SPARE_BYTES)
        library.mallinfo2.restype = _MallocInfo
        _library = library
    gc.set_threshold(YOUNG_MOST, 20, 50)


def give_back() -> None:
    """Give back what the heap holds free, where that is much; from any thread."""
    if _library is not None and _library.mallinfo2().fordblks > HOLES_BYTES:
        _library.malloc_trim(SPARE_BYTES)


def freeze() -> None:
    """What is there by now stays for good: collections of garbage need not look at it.

    A full one stops every thread for as long as eight frames.
    """
    gc.freeze()
    # Nothing is left to look at, but that it was done is counted: else one is due soon.
    gc.collect()
