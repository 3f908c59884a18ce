"""One hook at work: its messages, in their order, until each is delivered or given up.

Goals
    Everything arrives, in the order in which it happened, or is among the dead letters.
Constraints
    What waits is bounded. A receiver that said it is gone (410) is asked no more.
Algorithm
    The oldest message is tried until it is delivered or given up (`policy`), then the next one. A
    queue that is full loses the oldest message whose subject has a newer one, for that says all
    that counts; where there is none, the oldest. What it loses is a dead letter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from kshunt.backend.clock import Clock
from kshunt.backend.domain.backend.webhooks import WebhookStatus
from kshunt.backend.notify.address import WebhookAddress
from kshunt.backend.notify.http_sender import Sender
from kshunt.backend.notify.message import Message
from kshunt.backend.notify.message_store import MessageStore
from kshunt.backend.notify.retries import (
    AttemptOutcome,
    AttemptResult,
    RetryPolicy,
    given_up,
    pause_s,
)

log = logging.getLogger(__name__)

CROWDED: Final = "too many messages waited before its turn"


@dataclass(eq=False, slots=True)
class _Waiting:
    message: Message
    attempts: int = 0
    error: str = ""


class Webhook:
    """See the module's text. `run` until cancelled, then perhaps `last_try`."""

    def __init__(
        self,
        target: WebhookAddress,
        sender: Sender,
        keeping: MessageStore,
        clock: Clock,
        policy: RetryPolicy,
        seed: int,
    ) -> None:
        """`seed` is of the pauses' jitter."""
        self.target = target
        self._sender = sender
        self._keeping = keeping
        self._clock = clock
        self._policy = policy
        self._random = Random(seed)
        self._queue: list[_Waiting] = []
        self._some = asyncio.Event()
        self._sending_allowed = asyncio.Event()
        self._sending_allowed.set()
        self._free = asyncio.Event()
        """Set while nothing is being sent."""
        self._free.set()
        self._at_work: _Waiting | None = None
        self._failures = 0
        """In a row, of any message."""
        self._delivered = self._failed = self._given_up = 0
        self._stopped = False

    @property
    def status(self) -> WebhookStatus:
        """How it goes."""
        counts = (self._delivered, self._failed, self._given_up, len(self._queue))
        return WebhookStatus(str(self.target), *counts, self._stopped)

    async def take(self, messages: Iterable[Message]) -> None:
        """Queue messages that are kept already."""
        self._queue += map(_Waiting, messages)
        if self._queue:
            self._some.set()
        while len(self._queue) > self._policy.waiting_max:
            lost = self._queue.pop(self._superfluous())
            if not await self._bury(lost, lost.error or CROWDED):
                one = lost.message
                log.error("webhook %s drops message %s: %s", self.target, one.id, one.text)

    def _superfluous(self) -> int:
        """The place of the message that is missed least; not of the one that is being sent."""
        free = [n for n, one in enumerate(self._queue) if one is not self._at_work]
        return free[superseded([self._queue[n].message for n in free])]

    async def run(self) -> None:
        """Send, until cancelled."""
        while True:
            await self._some.wait()
            await self._sending_allowed.wait()
            answer = await self._first()
            if answer is not None:
                asked_s = answer.retry_after_s
                wait_s = pause_s(self._failures, asked_s, self._policy, self._random)
                await self._clock.wait_s(wait_s)

    async def halt(self) -> None:
        """Begin no more attempts, and wait for the end of the one that is made."""
        self._sending_allowed.clear()
        await self._free.wait()

    async def last_try(self) -> None:
        """Try each message once more, in their order, until one cannot be delivered."""
        while self._queue and not self._stopped:
            if await self._first() is not None:
                return

    async def _first(self) -> AttemptOutcome | None:
        """Try the oldest message; None where the next one may be tried immediately."""
        self._at_work = one = self._queue[0]
        self._free.clear()
        try:
            if self._stopped:
                return await self._unwanted(one)
            answer = await self._sender.send(one.message, self._clock.now_ms())
            if answer.result is AttemptResult.DELIVERED:
                await self._arrived(one)
                return None
            return await self._not_delivered(one, answer)
        finally:
            self._at_work = None
            self._free.set()

    async def _unwanted(self, one: _Waiting) -> AttemptOutcome | None:
        """What comes after a 410 is a dead letter immediately."""
        if not await self._bury(one, one.error or "the receiver accepts no more messages (410)"):
            return AttemptOutcome(AttemptResult.AGAIN)
        self._remove(one)
        return None

    async def close(self) -> None:
        """Release the connections."""
        await self._sender.close()

    async def _arrived(self, one: _Waiting) -> None:
        if self._failures:
            log.info("webhook %s answers again", self.target)
        self._failures = 0
        self._delivered += 1
        self._remove(one)
        await self._keeping.forget(self.target.id, one.message.id)

    async def _not_delivered(self, one: _Waiting, answer: AttemptOutcome) -> AttemptOutcome | None:
        self._failed += 1
        self._failures += 1
        one.attempts += 1
        one.error = answer.words
        if self._failures == 1:
            log.warning("webhook %s: %s", self.target, answer.words)
        if answer.result is AttemptResult.GONE:
            log.error(
                "webhook %s accepts no more messages (410); kshunt sends it nothing more",
                self.target,
            )
            self._stopped = True
            return None
        # Where the disk does not take a dead letter, the message is tried on.
        if given_up(one.attempts, answer, self._policy) and await self._bury(one, one.error):
            self._remove(one)
        return answer

    async def _bury(self, one: _Waiting, error: str) -> bool:
        hook, host = self.target.id, self.target.host
        buried = await self._keeping.bury(hook, host, one.message, one.attempts, error)
        self._given_up += buried
        return buried

    def _remove(self, one: _Waiting) -> None:
        self._queue.remove(one)
        if not self._queue:
            self._some.clear()


def superseded(messages: Sequence[Message]) -> int:
    """The place of the oldest message whose subject has a newer one; 0 where there is none."""
    newest = {message.subject: place for place, message in enumerate(messages)}
    for place, message in enumerate(messages):
        if message.subject and newest[message.subject] != place:
            return place
    return 0
