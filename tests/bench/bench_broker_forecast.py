"""Forecasts of moves on three real brokers, by a backend that runs as users run it.

    python -m tests.bench.bench_broker_forecast [--moves 21]

Each round begins three moves at the same time, each from another broker to another, under a
throttle of the round's own. Sizes, throttles and what producers write are drawn anew in each
run. A move takes minutes, so that its beginning is a small part of it. The ends that snapshots told
are scored as those of simulated operations are (`bench_forecast`), with the ranges that they had.
The whole takes about half an hour, and up to 6 GB of disk. `KSHUNT_BENCH_MOVES` is the number of
moves, too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from confluent_kafka import Producer

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.telemetry.sampling.forecaster import NOTHING
from tests.support.brokers.launcher import RealKafka
from tests.support.clients import operation_of, rows_of, watching
from tests.support.forecast.scores import as_text, scores
from tests.support.forecast.watched_operations import Look, Watched
from tests.support.serving import serving
from tests.support.topics import create_topic, delete_topics, produce
from tests.support.waiting import wait_until

MB = 1_000_000
RECORD_BYTES = 10_000
PAIRS = ((1, 2), (2, 3), (3, 1))
MOVES = 21
MOVES_KEY = "KSHUNT_BENCH_MOVES"
LEAST_MB_PER_S, MOST_MB_PER_S = 2.0, 5.0
"""Throttles."""
LEAST_S, MOST_S = 90.0, 180.0
"""What a move takes about, if nothing is written meanwhile."""
GIVEN_UP_S = 600.0
BURSTS_S = 10.0


@dataclass(frozen=True, slots=True)
class RealMove:
    """One of a round."""

    topic: str
    target: int
    size_bytes: int
    written_bytes_per_s: float
    bursts: bool
    """It is written at twice the rate, and not at all, in turn."""


def main() -> None:
    """Run the rounds, and print how forecasts turned out."""
    parser = argparse.ArgumentParser(description="Score forecasts of moves on real brokers.")
    parser.add_argument("--moves", type=int, default=int(os.environ.get(MOVES_KEY, MOVES)))
    options = parser.parse_args()
    runs: list[Watched] = []
    with (
        RealKafka() as kafka,
        tempfile.TemporaryDirectory() as folder,
        serving(kafka.bootstrap_servers, Path(folder)) as address,
    ):
        while len(runs) < options.moves:
            pairs = PAIRS[: options.moves - len(runs)]
            runs += run_round(kafka.bootstrap_servers, address, len(runs), pairs)
            done = sum(run.took_s is not None for run in runs)
            print(f"{len(runs)} of {options.moves} moves: {done} ended", flush=True)
    for run in runs:
        print(as_line(run))
    print(as_text(scores(runs, None)))


def as_line(run: Watched) -> str:
    """The first forecast of a move, and how long it took or that it was given up."""
    took = "given up" if run.took_s is None else f"{run.took_s:.0f} s"
    told = (look for look in run.looks if look.end is not None and look.end.p50_s is not None)
    first = next(told, None)
    if first is None or (end := first.end) is None:
        return f"move {run.seed}: took {took}; nothing was told"
    low, middle, high = (
        f"{first.at_s + (end_s or 0.0):.0f}" for end_s in (end.p10_s, end.p50_s, end.p90_s)
    )
    return f"move {run.seed}: took {took}; told after {first.at_s:.0f} s: {middle} ({low}-{high}) s"


def run_round(
    bootstrap: str, address: str, number: int, pairs: Sequence[tuple[int, int]]
) -> list[Watched]:
    """A move for each pair of source and target, all at the same time, to their ends."""
    dice = SystemRandom()
    throttle = round(dice.uniform(LEAST_MB_PER_S, MOST_MB_PER_S) * MB)
    moves = []
    for source, target in pairs:
        size = round(throttle * dice.uniform(LEAST_S, MOST_S))
        topic = f"forecast-{number}-{source}"
        create_topic(bootstrap, topic, [[source]])
        produce(bootstrap, topic, size // RECORD_BYTES, RECORD_BYTES, 0)
        written = throttle * dice.choice((0.0, 0.05, 0.1, 0.2))
        moves.append(RealMove(topic, target, size, written, dice.random() < 0.3))
    with (
        BackendClient(address) as client,
        watching(address) as seen,
        _written(bootstrap, moves),
    ):
        wait_until(lambda: bool(seen), 20, "a first snapshot")
        begun = [_begun(client, one, throttle) for one in moves]
        deadline_s = time.monotonic() + GIVEN_UP_S

        def over() -> bool:
            all_ended = all(operation_of(client, one).state.ended for one in begun)
            return all_ended or time.monotonic() > deadline_s

        wait_until(over, GIVEN_UP_S + 60, "the moves have ended")
        for answer in begun:
            if answer.operation_id and not operation_of(client, answer).state.ended:
                client.operations.cancel(answer.operation_id)
    delete_topics(bootstrap, [one.topic for one in moves])
    return [
        _watched(number + place, one.topic, answer.operation_id or "", seen)
        for place, (one, answer) in enumerate(zip(moves, begun, strict=True))
    ]


def _begun(client: BackendClient, move: RealMove, throttle: int) -> ChangeAnswer:
    plan = ReassignmentPlan({TopicPartition(move.topic, 0): (move.target,)})
    return client.reassignments.start(plan, throttle_bytes_per_s=throttle, additional=True)


@contextmanager
def _written(bootstrap: str, moves: Sequence[RealMove]) -> Iterator[None]:
    """Records are written to the topics in a thread until then."""
    done = threading.Event()
    writer = threading.Thread(target=_write, args=(bootstrap, moves, done))
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join(60)


def _write(bootstrap: str, moves: Sequence[RealMove], done: threading.Event) -> None:
    producer = Producer({"log_level": 0, "bootstrap.servers": bootstrap, "linger.ms": 50})
    began_s = last_s = time.monotonic()
    owed = dict.fromkeys((one.topic for one in moves), 0.0)
    while not done.wait(0.2):
        now_s = time.monotonic()
        high = int((now_s - began_s) / BURSTS_S) % 2 == 0
        for one in moves:
            share = 1.0 if not one.bursts else 2.0 if high else 0.0
            owed[one.topic] += share * one.written_bytes_per_s * (now_s - last_s)
            for _ in range(int(owed[one.topic] // RECORD_BYTES)):
                producer.produce(one.topic, bytes(RECORD_BYTES), partition=0)
                owed[one.topic] -= RECORD_BYTES
        producer.poll(0)
        last_s = now_s
    producer.flush(30)


def _watched(number: int, topic: str, id: str, seen: Sequence[Snapshot]) -> Watched:
    """What snapshots said about a move while it ran, and the seconds to the first without it."""
    looks, first_ms, ended_ms = [], None, None
    for snapshot in seen:
        rows = rows_of(snapshot, topic)
        table = snapshot.replicas
        copied = rows[table.adding[rows]]
        if not len(copied):
            if first_ms is not None:
                ended_ms = snapshot.taken_ms
                break
            continue
        lags = table.lag_bytes[copied]
        if (lags < 0).any():
            continue
        first_ms = snapshot.taken_ms if first_ms is None else first_ms
        at_s = (snapshot.taken_ms - first_ms) / 1000
        looks.append(Look(at_s, int(lags.sum()), snapshot.expected_ends.get(id), NOTHING))
    took_s = None if ended_ms is None or first_ms is None else (ended_ms - first_ms) / 1000
    return Watched(number, took_s, tuple(looks))


if __name__ == "__main__":
    main()
