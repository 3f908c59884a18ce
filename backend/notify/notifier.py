"""All hooks of a backend: what is told is kept on the disk first, and then queued for each."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from kshunt.backend.clock import Clock
from kshunt.backend.domain.backend.webhooks import WebhookStatus
from kshunt.backend.notify.message import Message, News
from kshunt.backend.notify.message_store import MessageStore
from kshunt.backend.notify.retries import RetryPolicy
from kshunt.backend.notify.webhook import Webhook

log = logging.getLogger(__name__)

NO_HOOK: Final = "no webhook of that address is configured any more"
UNWRITTEN_MAX: Final = 10_000
"""Messages that wait for a disk that hangs; the oldest is lost then, and that is logged."""


def new_id() -> str:
    """Of a message; no other one has it."""
    return f"msg_{secrets.token_hex(12)}"


class Notifier:
    """Tells every hook; `start` and `stop` bracket its life, `tell` may be called in between."""

    def __init__(
        self,
        hooks: Sequence[Webhook],
        keeping: MessageStore,
        clock: Clock,
        policy: RetryPolicy,
        make_id: Callable[[], str] = new_id,
    ) -> None:
        self._hooks = tuple(hooks)
        self._keeping = keeping
        self._clock = clock
        self._policy = policy
        self._make_id = make_id
        self._unwritten: deque[Message] = deque()
        self._some = asyncio.Event()
        self._all_saved = asyncio.Event()
        self._all_saved.set()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def status(self) -> tuple[WebhookStatus, ...]:
        """How each hook goes."""
        return tuple(hook.status for hook in self._hooks)

    def tell(self, news: News, cluster: str) -> None:
        """Have a message sent to every hook; returns immediately."""
        message = Message.of(news, self._make_id(), self._clock.now_ms(), cluster)
        self._unwritten.append(message)
        if len(self._unwritten) > UNWRITTEN_MAX:
            lost = self._unwritten.popleft()
            log.error(
                "the disk does not respond; message %s (%s) is lost: %s",
                lost.id,
                lost.type,
                lost.text,
            )
        self._all_saved.clear()
        self._some.set()

    async def start(self) -> None:
        """Begin, with what was left when the last backend ended.

        Raises:
            ConfigError: the file of what waits cannot be used.
        """
        left = await self._keeping.open()
        by_id = {hook.target.id: hook for hook in self._hooks}
        for hook_id, message in left:
            if hook_id not in by_id:
                await self._keeping.bury(hook_id, "", message, 0, NO_HOOK)
        for hook in self._hooks:
            await hook.take([message for id, message in left if id == hook.target.id])
        works = [self._save(), *(hook.run() for hook in self._hooks)]
        self._tasks = [asyncio.create_task(work, name="webhooks") for work in works]
        for task in self._tasks:
            task.add_done_callback(_look)

    async def stop(self) -> None:
        """Try what waits once more, for `RetryPolicy.grace_s` at most; the rest is kept."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._policy.grace_s):
                await self._all_saved.wait()
                # What is on its way has perhaps arrived: to send it again would tell it twice.
                await asyncio.gather(*(hook.halt() for hook in self._hooks))
        await self._end_tasks()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._policy.grace_s):
                await asyncio.gather(*(hook.last_try() for hook in self._hooks))
        for hook in self._hooks:
            if waiting := hook.status.waiting:
                log.warning("webhook %s: %d messages wait for the next start", hook.target, waiting)
            await hook.close()
        await self._keeping.close()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _save(self) -> None:
        """Write what is told to the disk, and hand it to the hooks."""
        while True:
            await self._some.wait()
            self._some.clear()
            messages, self._unwritten = tuple(self._unwritten), deque()
            ids = [hook.target.id for hook in self._hooks]
            await self._keeping.put([(id, message) for message in messages for id in ids])
            for hook in self._hooks:
                await hook.take(messages)
            if not self._unwritten:
                self._all_saved.set()


def _look(task: asyncio.Task[None]) -> None:
    """Say that a task has failed: nothing would be sent any more."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("webhooks have stopped", exc_info=error)
