"""A backend that ends itself at a chosen boundary.

`python -m tests.support.faults.kill_backend --help` lists the boundaries.

It is put together as `kshunt serve` puts a backend together, from a journal and an admin that count
what they are asked for. A *boundary* is the moment before or after the journal is opened or written
to, and before or after the cluster is changed. Each is appended to a file as it is passed; at the
chosen one the process sends itself a signal. The rates of several brokers, which a backend writes
in parallel, are written one after the other, so that there are boundaries between them too.

Heartbeats come by the clock, so only the first of a process counts.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from kshunt.backend.access.cluster_keys import write_keys
from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.kips.reassignment.native import KafkaReassignments
from kshunt.backend.admin.kips.throttles.kafka_throttles import KafkaThrottles
from kshunt.backend.admin.port.item_result import ItemResult, PartitionResults
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.admin.security.client_properties import client_config
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.server.listener import Listen, serve
from kshunt.backend.cli.main import main as kshunt
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.backend.journal import JOURNAL_TOPIC
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from kshunt.backend.errors import JournalUnavailable
from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal
from kshunt.backend.operations.journal.entries import BACKEND_KEY, Body, JournalState
from kshunt.backend.operations.lease.lease import LeaseTimes
from kshunt.backend.settings import Settings
from tests.support.access.keys import KEYS
from tests.support.admin import instead
from tests.support.runs.forked import fork_context

BEFORE, AFTER, DOUBT = "before", "after", "doubt"
OPEN, BEAT, RELEASE, APPEND = "open", "beat", "release", "append"
LISTS, RATES, SUBMIT, CANCEL = "lists", "rates", "submit", "cancel"
EFFECTS: Final = frozenset({LISTS, RATES, SUBMIT, CANCEL})
"""What changes the cluster."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """One moment of a backend's life."""

    when: str
    """`BEFORE` or `AFTER` what was done."""
    number: int
    """Of what was done, among all that counts, from 1."""
    what: str
    """What was done, and to what: `rates broker 3`, `append reassign:lifting throttle/broker`."""

    def __str__(self) -> str:
        return f"{self.when} {self.number} {self.what}"

    @property
    def verb(self) -> str:
        """The first word of what was done."""
        return self.what.split(" ", 1)[0]

    @classmethod
    def read(cls, line: str) -> Boundary:
        """The opposite of `str`."""
        when, number, what = line.split(" ", 2)
        return cls(when, int(number), what)


class Boundaries:
    """Counts, writes down what is passed, and sends the signal."""

    def __init__(self, passed: Path, at: int, when: str, number: signal.Signals) -> None:
        self._passed = passed.open("a", buffering=1)
        self._at, self._when, self._signal = at, when, number
        self._count = 0
        self._beaten = False

    @asynccontextmanager
    async def around(self, what: str) -> AsyncIterator[None]:
        """Something that counts is done inside."""
        self._count += 1
        here = self._count
        self._pass(Boundary(BEFORE, here, what))
        yield
        self._pass(Boundary(AFTER, here, what))
        if (here, DOUBT) == (self._at, self._when):
            raise JournalUnavailable("The answer is lost, as a test wants it.", written=None)

    def counts(self, what: str) -> bool:
        """Whether it does; to be asked once."""
        first = what != BEAT or not self._beaten
        self._beaten |= what == BEAT
        return first and what != RELEASE

    def _pass(self, boundary: Boundary) -> None:
        self._passed.write(f"{boundary}\n")
        if (boundary.number, boundary.when) == (self._at, self._when):
            os.kill(os.getpid(), self._signal)


class WatchedJournal(TopicJournal):
    """A journal with boundaries."""

    boundaries: Boundaries

    async def open(self) -> JournalState:
        """As `Journal.open`."""
        async with self.boundaries.around(OPEN):
            return await super().open()

    async def append(
        self, entries: Mapping[str, Body | None], *, replacing: Collection[str] = ()
    ) -> None:
        """As `Journal.append`."""
        what = written(entries)
        if not self.boundaries.counts(what):
            await super().append(entries, replacing=replacing)
            return
        async with self.boundaries.around(what):
            await super().append(entries, replacing=replacing)


def written(entries: Mapping[str, Body | None]) -> str:
    """What an append writes, in words that are the same in each run."""
    if BACKEND_KEY in entries:
        return RELEASE if entries[BACKEND_KEY] is None else BEAT
    words = []
    for key, body in entries.items():
        kind = key.rpartition("/")[0]
        words.append(f"{body['kind']}:{body['state']}" if kind == "operation" and body else kind)
    return " ".join([APPEND, *dict.fromkeys(words)])


class WatchedReassignments(KafkaReassignments):
    """Reassignments with boundaries around what changes the cluster."""

    boundaries: Boundaries

    async def reassign(
        self,
        assignments: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        log_dirs: Mapping[tuple[TopicPartition, int], str],
    ) -> ReassignOutcome:
        """As `ReassignmentAdmin.reassign`."""
        if options.validate_only:
            return await super().reassign(assignments, options, log_dirs)
        async with self.boundaries.around(SUBMIT):
            return await super().reassign(assignments, options, log_dirs)

    async def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        """As `ReassignmentAdmin.alter`; a submission has its boundary already."""
        if any(target is not None for target in targets.values()):
            return await super().alter(targets, timeout_s=timeout_s)
        async with self.boundaries.around(CANCEL):
            return await super().alter(targets, timeout_s=timeout_s)


class WatchedThrottles(KafkaThrottles):
    """Throttles with boundaries around what changes the cluster."""

    boundaries: Boundaries

    async def alter_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        *,
        log_dir_rates: Mapping[int, int | None] | None = None,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[int, ItemResult]:
        """As `ThrottleAdmin.alter_rates`, one broker after the other."""
        done: dict[int, ItemResult] = {}
        others = log_dir_rates or {}
        for broker in sorted({*rates, *others}):
            async with self.boundaries.around(f"{RATES} broker {broker}"):
                done |= await super().alter_rates(
                    {b: rate for b, rate in rates.items() if b == broker},
                    log_dir_rates={b: rate for b, rate in others.items() if b == broker},
                    validate_only=validate_only,
                    timeout_s=timeout_s,
                    as_found=as_found,
                )
        return done

    async def alter_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        *,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[str, ItemResult]:
        """As `ThrottleAdmin.alter_replicas`."""
        async with self.boundaries.around(LISTS):
            return await super().alter_replicas(
                replicas, validate_only=validate_only, timeout_s=timeout_s, as_found=as_found
            )


async def _serve(options: argparse.Namespace) -> None:
    at, when = options.at
    boundaries = Boundaries(options.passed, at, when, signal.Signals[f"SIG{options.signal}"])
    settings, clock = Settings(options.bootstrap_server), SystemClock()

    def open_journal(cluster_id: str, backend_id: str) -> TopicJournal:
        journal = WatchedJournal(
            settings.bootstrap_servers,
            client_config({}),
            cluster_id=cluster_id,
            writer=backend_id,
            clock=clock,
            keys=KEYS,
            topic=options.journal,
        )
        journal.boundaries = boundaries
        return journal

    admin = KafkaAdmin(settings, owned_throttles=True)
    reassignments = WatchedReassignments(admin.cluster, admin.throttle_configs, admin.logs)
    throttles = WatchedThrottles(admin.cluster, admin.throttle_configs)
    reassignments.boundaries = throttles.boundaries = boundaries
    watched = instead(admin, reassignments=reassignments, throttles=throttles)
    await admin.connect()
    terms = LeaseTimes(*options.terms) if options.terms else None
    backend = Backend(settings, watched, clock, open_journal, terms=terms, keys=KEYS)
    admin.guard = backend.membership.guard
    await serve(backend, Listen(options.socket))


def _boundary(text: str) -> tuple[int, str]:
    when, _, number = text.partition(":")
    if when not in (BEFORE, AFTER, DOUBT):
        raise argparse.ArgumentTypeError(f"'{text}' is neither before:N, after:N nor doubt:N")
    return int(number), when


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal ends it; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.faults.kill_backend", description=__doc__
    )
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--passed", type=Path, required=True, help="where boundaries are listed")
    parser.add_argument(
        "--at",
        type=_boundary,
        default=(0, BEFORE),
        help="before:N or after:N (default: nowhere); doubt:N, to lose what an append answers",
    )
    parser.add_argument("--signal", choices=["KILL", "STOP"], default="KILL")
    parser.add_argument("--journal", default=JOURNAL_TOPIC, help="the journal's topic")
    parser.add_argument("--terms", type=float, nargs=4, help="of the lease: beat act silence gap")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_serve(options))
    return 0


# --- many of them: a process that has imported everything is forked for each


def passed_by(path: Path) -> list[Boundary]:
    """What a backend has passed so far."""
    return [Boundary.read(line) for line in path.read_text().splitlines()] if path.exists() else []


def distinct(passed: Sequence[Boundary]) -> list[Boundary]:
    """One boundary for each state in which a backend can leave its journal and its cluster.

    Nothing counts between the return of one thing and the beginning of the next. A backend that is
    killed at the one leaves what it leaves at the other, so the first of such a pair is left out.
    """
    following = [*passed[1:], None]
    return [
        here
        for here, then in zip(passed, following, strict=True)
        if then is None or (here.when, then.when) != (AFTER, BEFORE)
    ]


def forked(arguments: Iterable[str], log: Path, *, watched: bool) -> BaseProcess:
    """A backend in a process of its own, that of this module or else `kshunt serve`.

    It starts in no time, for its parent has imported all that it needs and has done nothing else.
    """
    process = fork_context().Process(
        target=_run, args=(list(arguments), str(log), watched), daemon=True
    )
    process.start()
    return process


def _run(arguments: list[str], log: str, watched: bool) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if watched:
        sys.exit(main(arguments))
    if "--cluster-keys" not in arguments:
        keys = Path(log).with_suffix(".keys")
        write_keys(keys, KEYS)
        arguments = [*arguments, "--cluster-keys", str(keys)]
    sys.exit(kshunt(["serve", *arguments]))


if __name__ == "__main__":
    sys.exit(main())
