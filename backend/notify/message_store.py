"""What is kept of messages on the disk, for the event loop: one thread makes all the calls.

The thread finishes a call that it has begun, even where the task that asked for it is cancelled.
So when a backend ends, each delivered message is settled, and no dead letter still waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kshunt.backend.clock import Clock
from kshunt.backend.notify.dead_letters import DeadLetters, Letter
from kshunt.backend.notify.message import Message
from kshunt.backend.notify.spool import Spool

log = logging.getLogger(__name__)

T = TypeVar("T")


class MessageStore:
    """The spool and the dead letters. Hooks send messages whatever the disk does."""

    def __init__(self, spool: Spool, dead: DeadLetters, clock: Clock) -> None:
        self._spool = spool
        self._dead = dead
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "webhooks")
        self._trouble = ""

    async def open(self) -> tuple[tuple[str, Message], ...]:
        """What was left to send, by hook.

        Raises:
            ConfigError: the file of what waits cannot be used.
        """
        return await self._call(self._spool.open)

    async def close(self) -> None:
        """Leave the files to others."""
        await self._call(self._spool.close)
        self._thread.shutdown()

    async def put(self, entries: Sequence[tuple[str, Message]]) -> None:
        """Keep messages of hooks until they are settled; where the disk refuses, that is logged."""
        try:
            await self._call(lambda: self._spool.put(entries))
        except OSError as error:
            self._said(f"messages of webhooks are kept in memory only: {error.strerror}")
        else:
            self._trouble = ""

    async def forget(self, hook: str, message_id: str) -> None:
        """A message needs nothing more."""
        await self._call(lambda: self._forget(hook, message_id))

    async def bury(self, hook: str, host: str, message: Message, attempts: int, error: str) -> bool:
        """Put a message among the dead letters; False where the disk refuses: it still waits."""
        letter = Letter(hook, host, self._clock.now_ms(), attempts, error, message)
        try:
            await self._call(lambda: self._bury(letter))
        except OSError as failed:
            self._said(f"{self._dead.path} cannot be written: {failed.strerror}")
            return False
        log.warning(
            "webhook %s (%s): message %s (%s) was given up after %d attempts: %s",
            *(host, hook, message.id, message.type, attempts, error),
        )
        return True

    def _forget(self, hook: str, message_id: str) -> None:
        try:
            self._spool.forget(hook, message_id)
        except OSError as error:
            self._said(f"a message that was already sent may be sent again: {error.strerror}")

    def _bury(self, letter: Letter) -> None:
        self._dead.add([letter])
        self._forget(letter.hook, letter.message.id)

    async def _call(self, what: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, what))

    def _said(self, trouble: str) -> None:
        """Log a trouble of the disk once, until it is another one."""
        if trouble != self._trouble:
            self._trouble = trouble
            log.error("%s", trouble)
