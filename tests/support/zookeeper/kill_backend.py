"""A backend that starts one move through ZooKeeper, and ends itself before a chosen commit:
`python -m tests.support.zookeeper.kill_backend --help`.

Each commit to ZooKeeper is a step: nothing else changes the cluster. They are counted, and written
to a file as they come; before the chosen one the process sends itself SIGKILL. Heartbeats come by
the clock, and do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from kshunt.backend.admin.zookeeper.ensemble_config import ensemble_config
from kshunt.backend.admin.zookeeper.session import Op, Session
from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.backend.journal import JOURNAL_ZNODE
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.journal_storage.zookeeper.parts import ZooKeeperParts
from kshunt.backend.operations.lease.lease import LeaseTimes
from kshunt.backend.operations.reassignment.starting import ReassignRequest
from tests.support.access.keys import KEYS
from tests.support.runs.forked import fork_context
from tests.support.waiting import wait_until_async
from tests.support.zookeeper.znodes import settings_of

QUICK: Final = LeaseTimes(0.3, 1.0, 1.3, 1.0)
"""A lease that is taken over soon."""
PATIENCE_S: Final = 0.5
DEADLINE_S: Final = 60.0


class Counting(Session):
    """A session that ends its process before a commit."""

    at = 0
    passed: Path | None = None
    count = 0

    async def commit(
        self, operations: Sequence[Op], *, timeout_s: float, fenced: bool = True
    ) -> None:
        """As `Session.commit`."""
        words = steps_of(operations)
        if words and self.passed is not None:
            self.count += 1
            with self.passed.open("a") as file:
                file.write(f"{self.count} {' '.join(words)}\n")
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
        await super().commit(operations, timeout_s=timeout_s, fenced=fenced)


def steps_of(operations: Sequence[Op]) -> list[str]:
    """What a commit is about; nothing for a heartbeat, and for what is made once in a cluster."""
    names = [unquote(one.path).rpartition("/journal/")[2] for one in operations]
    kinds = [name.split("/")[0] if name[0] != "/" else name for name in names]
    return [] if {"backend", JOURNAL_ZNODE} & set(kinds) else list(dict.fromkeys(kinds))


@asynccontextmanager
async def backend_of(
    connect: str, session: Session | None = None, *, recovers: bool = True
) -> AsyncIterator[Backend]:
    """A backend as `kshunt serve --zookeeper` puts it together, without its API.

    `recovers`: what only KIP-179's znodes name goes by itself.
    """
    settings, clock = settings_of(connect), SystemClock()
    admin = await ZooKeeperAdmin.opened(settings, clock, session=session)
    parts = ZooKeeperParts(admin.session, clock, KEYS, patience_s=PATIENCE_S)
    backend = Backend(settings, admin, clock, parts.open_journal, terms=QUICK, keys=KEYS)
    admin.guard = backend.membership.guard
    await backend.start()
    try:
        async with parts.recovering(backend.membership) if recovers else nullcontext():
            yield backend
    finally:
        await backend.stop()


async def _move(options: argparse.Namespace) -> None:
    session = Counting(ensemble_config(options.zookeeper, None))
    session.at, session.passed = options.at, options.passed
    request = ReassignRequest(parse_plan(options.plan), throttle_bytes_per_s=options.rate)
    async with backend_of(options.zookeeper, session) as backend:
        await backend.ready()
        answer = await backend.reassignments.start(request)

        def over() -> bool:
            operation = backend.registry.get(answer.operation_id or "")
            return operation is not None and operation.state.ended

        await wait_until_async(over, DEADLINE_S, "the operation ends")


def forked(arguments: Sequence[str]) -> BaseProcess:
    """A process that does so; it starts in no time, for its parent has imported all it needs."""
    process = fork_context().Process(target=main, args=(list(arguments),), daemon=True)
    process.start()
    return process


def main(arguments: Sequence[str] | None = None) -> int:
    """Move, until it is done or the chosen commit comes; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.zookeeper.kill_backend", description=__doc__
    )
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--plan", required=True, help="Kafka's JSON")
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--passed", type=Path, required=True, help="where commits are listed")
    parser.add_argument("--at", type=int, default=0, help="end before this commit")
    asyncio.run(_move(parser.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
