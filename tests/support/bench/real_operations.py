"""Throttled moves on real brokers, recorded by `kshunt serve --samples`, for the back-test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ThrottledRate
from tests.support.brokers.launcher import RealKafka
from tests.support.serving import STOP_DEADLINE_S, serve_process
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

KB, MB = 1_000, 1_000_000
RECORD_BYTES = 50 * KB
DEADLINE_S = 900.0
AFTER_S = 15.0
"""After each operation the replicas that have arrived are still recorded for this time."""


@dataclass(frozen=True, slots=True)
class Move:
    """One operation."""

    name: str
    replicas: Sequence[tuple[Sequence[int], Sequence[int]]]
    """Of each partition: before and after."""
    megabytes: Sequence[int]
    """What each partition holds."""
    throttle: int
    """Bytes a second, of each broker and direction."""
    changes: Sequence[tuple[float, int]] = ()
    """Seconds after its start, and the throttle from then on."""
    written: int = 0
    """Bytes a second that somebody produces to the topic during the move."""


MOVES = (
    Move("onto", [([1], [3]), ([2], [3]), ([1], [3]), ([2], [3])], [20, 40, 30, 60], 1_500 * KB),
    Move("uneven", [([1], [2]), ([2], [3]), ([2], [1]), ([3], [2])], [90, 20, 30, 25], 1 * MB),
    Move(
        "raised",
        [([1, 2], [2, 3]), ([2, 1], [3, 1]), ([3, 1], [1, 2])],
        [60, 45, 30],
        600 * KB,
        [(45.0, 1_500 * KB)],
    ),
    Move("lowered", [([1], [2]), ([2], [3]), ([3], [2])], [80, 40, 60], 2 * MB, [(25.0, 900 * KB)]),
    Move("written", [([1], [3]), ([2], [3]), ([1], [2])], [40, 50, 30], 1_500 * KB, (), 300 * KB),
    Move(
        "all",
        [([1], [2]), ([2], [1]), ([1], [3]), ([3], [1])],
        [70, 30, 40, 50],
        1 * MB,
        [(40.0, 2 * MB), (60.0, 800 * KB)],
        200 * KB,
    ),
    Move("drain", [([1], [2]), ([1], [3]), ([1], [2]), ([1], [3])], [30, 60, 45, 20], 1_200 * KB),
)


def record(folder: Path, moves: Sequence[Move] = MOVES) -> None:
    """Have these moves made, one after another, and recorded in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with RealKafka() as kafka:
        servers = kafka.bootstrap_servers
        for move in moves:
            create_topic(servers, move.name, [before for before, _ in move.replicas])
            for number, size in enumerate(move.megabytes):
                produce(servers, move.name, size * MB // RECORD_BYTES, RECORD_BYTES, number)
        socket = folder / "s"
        with (
            serve_process(servers, socket, "--samples", str(folder / "samples")) as process,
            BackendClient(f"unix:{socket}") as client,
        ):
            for move in moves:
                _make(client, servers, move)
            process.terminate()
            process.wait(STOP_DEADLINE_S)


def _make(client: BackendClient, servers: str, move: Move) -> None:
    targets = {
        TopicPartition(move.name, number): tuple(after)
        for number, (_, after) in enumerate(move.replicas)
    }
    with written_to(servers, move.name, len(targets), move.written):
        threading.Event().wait(2.0)
        began_s = time.monotonic()
        answer = client.reassignments.start(
            ReassignmentPlan(targets), throttle_bytes_per_s=move.throttle
        )

        def ended() -> bool:
            found = (one for one in client.operations.list() if one.id == answer.operation_id)
            return next(found).state.ended

        for after_s, rate in move.changes:
            until_s = began_s + after_s
            while time.monotonic() < until_s and not ended():
                threading.Event().wait(0.5)
            both = ThrottledRate(rate, rate)
            if not ended():
                client.throttles.alter_rates(dict.fromkeys((1, 2, 3), both))
        wait_until(ended, DEADLINE_S, f"{move.name} has ended")
        print(f"{move.name}: {time.monotonic() - began_s:.0f} s", flush=True)
    threading.Event().wait(AFTER_S)


@contextmanager
def written_to(servers: str, topic: str, partitions: int, bytes_per_s: int) -> Iterator[None]:
    """Somebody keeps producing, to all partitions alike."""
    done = threading.Event()
    pause_s = 0.0 if not bytes_per_s else partitions * RECORD_BYTES / bytes_per_s

    def write() -> None:
        while not done.wait(pause_s):
            for number in range(partitions):
                produce(servers, topic, 1, RECORD_BYTES, number)

    writer = threading.Thread(target=write)
    if bytes_per_s:
        writer.start()
    try:
        yield
    finally:
        done.set()
        if bytes_per_s:
            writer.join(60)
