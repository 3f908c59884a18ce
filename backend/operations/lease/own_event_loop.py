"""Runs a coroutine on an event loop of its own, next to one that others may hold up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any


class _Apart:
    """One thread, with its event loop."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._work = work
        self._stopped = threading.Event()
        self._task: asyncio.Task[None] | None = None
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self.ended: Future[None] = pool.submit(lambda: asyncio.run(self._main()))
        pool.shutdown(wait=False)

    async def _main(self) -> None:
        task = asyncio.ensure_future(self._work())
        self._task = task
        if self._stopped.is_set():
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if not self._stopped.is_set():
                raise

    def stop(self) -> None:
        """Cancel the work, immediately or when it begins."""
        self._stopped.set()
        task = self._task
        if task is not None:
            # Its event loop may have ended meanwhile.
            with suppress(RuntimeError):
                task.get_loop().call_soon_threadsafe(task.cancel)


@asynccontextmanager
async def apart(
    work: Callable[[], Coroutine[Any, Any, None]], name: str
) -> AsyncIterator[Future[None]]:
    """Meanwhile the work runs on a thread of that name; gives its end.

    Leaving cancels the work, waits until the thread has ended, and raises what the work raised.
    """
    thread = _Apart(work, name)
    try:
        yield thread.ended
    finally:
        thread.stop()
        await asyncio.shield(asyncio.wrap_future(thread.ended))
