"""Runs a computation on a thread where it is long enough to hold up an event loop.

Python hands the interpreter from thread to thread every few milliseconds, so the event loop keeps
running during a computation in Python. It does not during one call into C; those are kept short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

OFFLOAD_MIN: Final = 1_000
"""Entries from which it is worth a thread; with fewer it takes a few milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")


async def offload(entries: int, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a pure function. It runs on a thread if it visits many entries."""
    if entries < OFFLOAD_MIN:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
