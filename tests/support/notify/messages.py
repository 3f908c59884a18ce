"""What the tests of webhooks share: a notifier whose pauses take no time, and its files."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kshunt.backend.notify.address import WebhookAddress, target_of
from kshunt.backend.notify.dead_letters import DeadLetters, Letter, read_letters
from kshunt.backend.notify.http_sender import HttpSender
from kshunt.backend.notify.message import Message, News
from kshunt.backend.notify.message_store import MessageStore
from kshunt.backend.notify.notifier import Notifier
from kshunt.backend.notify.retries import RetryPolicy
from kshunt.backend.notify.spool import Spool
from kshunt.backend.notify.webhook import Webhook

KEY = b"a key of a test, long enough"
SECRET = "whsec_YSBrZXkgb2YgYSB0ZXN0LCBsb25nIGVub3VnaA=="
CLUSTER = "cluster-1"
QUICK = RetryPolicy(attempts=4, attempts_refused=2, pause_s=2, pause_s_max=20, answer_s=5)


class EagerClock:
    """Its pauses take no time, and it remembers them; a pause waits while `free` is not set."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0
        self.pauses: list[float] = []
        self.free = asyncio.Event()
        self.free.set()

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def monotonic_s(self) -> float:
        return self.seconds

    async def wait_s(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)
        await self.free.wait()
        self.seconds += seconds


@dataclass
class Desk:
    """Where a notifier keeps what it has, over several lives of it."""

    folder: Path
    policy: RetryPolicy = QUICK
    clock: EagerClock = field(default_factory=EagerClock)
    ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def dead(self) -> Path:
        return self.folder / "dead.jsonl"

    @property
    def waiting(self) -> Path:
        return self.folder / "dead.jsonl.waiting"

    def letters(self) -> tuple[Letter, ...]:
        """The dead letters; none while there is no file."""
        return read_letters(self.dead)[0] if self.dead.exists() else ()

    def notifier(self, *targets: WebhookAddress) -> Notifier:
        """A notifier of these targets."""
        keeping = MessageStore(Spool(self.waiting), DeadLetters(self.dead), self.clock)
        hooks = [
            Webhook(target, HttpSender(target, self.policy), keeping, self.clock, self.policy, seed)
            for seed, target in enumerate(targets)
        ]
        return Notifier(hooks, keeping, self.clock, self.policy, lambda: f"msg_{next(self.ids)}")

    @asynccontextmanager
    async def notifying(self, *targets: WebhookAddress) -> AsyncIterator[Notifier]:
        """A notifier from start to stop."""
        notifier = self.notifier(*targets)
        await notifier.start()
        try:
            yield notifier
        finally:
            await notifier.stop()


def target(url: str, keys: Sequence[bytes] = (KEY,), ca: Path | None = None) -> WebhookAddress:
    return target_of(url, tuple(keys), ca)


def news(number: int, subject: str = "") -> News:
    """One that can be told from others."""
    return News("test.event", f"event {number}", {"number": number}, subject)


def message(number: int = 1, subject: str = "") -> Message:
    return Message.of(news(number, subject), f"msg_{number}", 1_700_000_000_000, CLUSTER)
