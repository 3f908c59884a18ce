"""A backend that writes down each stall of its event loop: when it ended, and how long it was.

It also writes down the processor time that the process took in it. On a machine with other work the
clock alone would count that work too.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import TextIO

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.server.listener import Listen, serve
from kshunt.backend.clock import SystemClock
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal
from kshunt.backend.serve.logs import set_up
from kshunt.backend.settings import Settings
from tests.support.access.keys import KEYS

LOOK_S = 0.002
REPORTED_S = 0.01
"""Shorter ones are of the machine."""


async def watch(file: TextIO, clock: SystemClock) -> None:
    """Write a line a stall, until cancelled."""
    while True:
        asked_s, before_s = time.monotonic(), time.process_time()
        await clock.wait_s(LOOK_S)
        stall_s = time.monotonic() - asked_s - LOOK_S
        if stall_s > REPORTED_S:
            worked_s = min(stall_s, time.process_time() - before_s)
            file.write(f"{time.monotonic():.4f} {stall_s:.4f} {worked_s:.4f}\n")
            file.flush()


async def run(options: argparse.Namespace) -> None:
    """Serve until a signal ends it."""
    settings, clock = Settings(options.bootstrap_server), SystemClock()

    def open_journal(cluster_id: str, backend_id: str) -> TopicJournal:
        return TopicJournal(
            settings.bootstrap_servers,
            client_config({}),
            cluster_id=cluster_id,
            writer=backend_id,
            clock=clock,
            keys=KEYS,
        )

    admin = KafkaAdmin(settings, owned_throttles=True)
    await admin.connect()
    backend = Backend(settings, admin, clock, open_journal)
    admin.guard = backend.membership.guard
    with options.stalls.open("w") as file:
        watching = asyncio.create_task(watch(file, clock))
        await serve(backend, Listen(options.socket))
        watching.cancel()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--stalls", type=Path, required=True)
    set_up("text")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
