"""A backend with tokens and the two-person rule that can be told to end itself as soon as a
proposal is marked as used.

`python -m tests.support.operations.approval_backend SERVERS PORT TOKENS [--ends]`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.server.listener import Listen, serve
from kshunt.backend.clock import SystemClock
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal
from kshunt.backend.operations.journal.entries import Body
from kshunt.backend.settings import Settings
from kshunt.backend.two_person import TwoPersonKind, TwoPersonRule
from tests.support.access.keys import KEYS


class EndsWhenUsed(TopicJournal):
    """A journal whose backend does not outlive the mark that a proposal is used."""

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """As `Journal.append`."""
        await super().append(entries, replacing=replacing)
        for key, body in entries.items():
            if key.startswith("proposal/") and body is not None and body["state"] == "approved":
                os.kill(os.getpid(), signal.SIGKILL)


async def _serve(servers: str, port: int, tokens: Path, *, ends: bool) -> None:
    clock = SystemClock()
    settings = Settings(servers, two_person=TwoPersonRule(frozenset(TwoPersonKind)))

    def open_journal(cluster_id: str, backend_id: str) -> TopicJournal:
        return (EndsWhenUsed if ends else TopicJournal)(
            settings.bootstrap_servers,
            client_config({}),
            cluster_id=cluster_id,
            writer=backend_id,
            clock=clock,
            keys=KEYS,
        )

    admin = KafkaAdmin(settings, owned_throttles=True)
    await admin.connect()
    backend = Backend(settings, admin, clock, open_journal, keys=KEYS)
    admin.guard = backend.membership.guard
    credentials = TokenFile(tokens, clock)
    await credentials.start()
    await serve(backend, Listen(None, "127.0.0.1", port), [credentials])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), ends="--ends" in sys.argv))
