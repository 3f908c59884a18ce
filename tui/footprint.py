"""What the process keeps of memory that it no longer needs, and what the collector looks at."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from typing import Final

_ARENA_MAX: Final = -8


def prepare() -> None:
    """Before data libraries are loaded and threads begin.

    Columns of a large cluster are made in one thread and dropped in another: all of them share one
    heap, or each thread keeps room for the most that it ever held.
    """
    # The dashboard does no linear algebra: these threads would only cost memory and time to start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Elsewhere than with glibc it does without.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def settle() -> None:
    """What is there by now stays for good: collections of garbage need not look at it.

    A full one stops every thread for as long as eight frames.
    """
    gc.freeze()
