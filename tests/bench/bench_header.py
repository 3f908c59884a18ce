"""What the header of a frame costs with 2,000 throttled topics of 100 replicas each.

    python -m tests.bench.bench_header

Before, each header was whole. Now it has what changed. Both are measured in one run, in turn.
Writing is from a snapshot to the frame's bytes, and reading is from these bytes to a snapshot. A
topic has one row, so that rows hardly count. Merging is what the sampler does with all lists when
it has read them again: from the texts of configurations to what a snapshot holds.
"""

from __future__ import annotations

import gc
import io
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from kshunt.backend.api.core.frame_feed import frame_bytes
from kshunt.backend.api.schema.frames.snapshot_reader import read_snapshots
from kshunt.backend.api.schema.frames.snapshot_writer import encode_frame
from kshunt.backend.domain.cluster.metadata import LogDir
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.telemetry.sampling.observed_state import Answer, ObservedState
from tests.support.snapshots import replicas_of, snapshot_of

pytestmark = pytest.mark.bench

TOPICS: Final = tuple(f"topic-{number:04}" for number in range(2_000))
PAIRS: Final = 100
"""Of each topic, half of them on the leaders' side."""
BROKERS: Final = 100
DIRS: Final = 10
"""Of each broker."""
RUNS: Final = 15


OTHERS: Final = 10_000
"""So much is added to a topic's number for lists that are others."""


def pairs(first: int) -> list[tuple[int, int]]:
    """Half of a topic's pairs."""
    return [(first + place, 100 + (first + place * 7) % BROKERS) for place in range(PAIRS // 2)]


def throttled(number: int) -> ThrottledReplicas:
    """A topic's lists. They are not read from texts, so that a reader finds no text known."""
    return ThrottledReplicas(
        ReplicaSet(frozenset(pairs(number))), ReplicaSet(frozenset(pairs(number + 1)))
    )


def cluster() -> Snapshot:
    """A snapshot of all these throttles."""
    rows = replicas_of({(topic, 0, 7): (1, True, 1.0) for topic in range(len(TOPICS))})
    rate = ThrottledRate(50_000_000, 50_000_000)
    return replace(
        snapshot_of(rows, 1, TOPICS),
        throttles=Throttles(
            {id: BrokerThrottle(id, rate) for id in range(BROKERS)},
            {topic: throttled(number) for number, topic in enumerate(TOPICS)},
        ),
        log_dirs=tuple(
            LogDir(id, f"/data/{number}", 10**12, 10**11)
            for id in range(BROKERS)
            for number in range(DIRS)
        ),
    )


def with_one_topic(snapshot: Snapshot, number: int) -> Snapshot:
    """One topic's lists are others."""
    told = snapshot.throttles
    lists = {**told.replicas, TOPICS[number]: throttled(number + OTHERS)}
    return replace(snapshot, throttles=replace(told, replicas=lists))


def cpu_ms(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU of this process, in milliseconds, and what came of it."""
    gc.collect()
    started = time.process_time()
    found = run()
    return (time.process_time() - started) * 1e3, found


def measure(
    before: Snapshot, after: Callable[[int], Snapshot], *, header_changes: bool
) -> tuple[int, float, float]:
    """Bytes of a header, and medians of CPU for writing a frame and for reading it, in ms."""
    writing, reading, size = [], [], 0
    for run in range(RUNS):
        snapshot = replace(after(run), version=2)
        write = partial(frame_bytes, snapshot, before, header_changes=header_changes)
        took_ms, frame = cpu_ms(write)
        writing.append(took_ms)
        # Until now, a reader of a whole header could make no use of what it had.
        had = before if header_changes else replace(before, throttles=Throttles({}, {}))
        stream = read_snapshots(io.BytesIO(frame_bytes(had, None) + frame))
        next(stream)
        took_ms, got = cpu_ms(partial(next, stream))
        reading.append(took_ms)
        assert got.throttles == snapshot.throttles
        del got
        (header,) = encode_frame(snapshot, before, header_changes=header_changes).metadata.values()
        size = len(header)
    return size, statistics.median(writing), statistics.median(reading)


def test_headers_of_2_000_throttled_topics() -> None:
    first = cluster()
    steps: dict[str, Callable[[int], Snapshot]] = {
        "nothing changed": lambda run: first,
        "one topic changed": lambda run: with_one_topic(first, run),
        "every list changed": lambda run: replace(
            first,
            throttles=replace(
                first.throttles,
                replicas={t: throttled(n + OTHERS) for n, t in enumerate(TOPICS)},
            ),
        ),
    }
    print(f"\n{len(TOPICS):,} topics of {PAIRS} pairs, load {os.getloadavg()[0]:.1f}, {RUNS} runs:")
    for name, after in steps.items():
        for changes, when in ((False, "before"), (True, "now")):
            size, writing, reading = measure(first, after, header_changes=changes)
            print(
                f"  {name:<19} {when:<7} header {size:>9,} bytes; "
                f"writing {writing:6.1f} ms, reading {reading:6.1f} ms of CPU"
            )


def test_lists_that_are_read_again() -> None:
    sets = {topic: throttled(number) for number, topic in enumerate(TOPICS)}
    known, merging = ObservedState(), []
    for _ in range(RUNS):
        texts = {topic: (str(one.leaders), str(one.followers)) for topic, one in sets.items()}

        def merge(texts: dict[str, tuple[str, str]] = texts) -> None:
            read = {
                topic: ThrottledReplicas(ReplicaSet.parse(leaders), ReplicaSet.parse(followers))
                for topic, (leaders, followers) in texts.items()
            }
            known.merge(Answer(("throttles", -1), ((), TOPICS), Throttles({}, read), 1), 0.0)

        merging.append(cpu_ms(merge)[0])
    print(
        f"\nmerging {len(TOPICS):,} topics of {PAIRS} pairs: first {merging[0]:.1f} ms of CPU, "
        f"read again and the same {statistics.median(merging[1:]):.1f} ms"
    )


if __name__ == "__main__":
    test_headers_of_2_000_throttled_topics()
    test_lists_that_are_read_again()
