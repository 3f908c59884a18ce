"""What tests do with a backend through its client: watch, wait for an end, take off throttles."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from tests.support.waiting import wait_until

MOVE_DEADLINE_S = 60.0


def newest(client: BackendClient) -> Operation:
    """The operation that was started last."""
    return max(client.operations.list(), key=lambda one: one.started_ms)


def operation_of(client: BackendClient, answer: ChangeAnswer) -> Operation:
    """The operation that an answer names."""
    return next(o for o in client.operations.list() if o.id == answer.operation_id)


def wait_for_end(client: BackendClient, answer: ChangeAnswer) -> Operation:
    """The same once it has ended."""
    wait_until(
        lambda: operation_of(client, answer).state.ended,
        MOVE_DEADLINE_S,
        f"operation {answer.operation_id} has ended",
    )
    return operation_of(client, answer)


def lift(client: BackendClient) -> None:
    """Take off every throttle."""
    client.throttles.alter_rates(dict.fromkeys((1, 2, 3), ThrottledRate(None, None)))
    listed = client.throttles.list().replicas
    if listed:
        client.throttles.alter_replicas(dict.fromkeys(listed, ThrottledReplicas()))


@contextmanager
def watching(address: str) -> Iterator[list[Snapshot]]:
    """Snapshots, gathered from the stream in a thread."""
    seen: list[Snapshot] = []
    done = threading.Event()

    def read() -> None:
        with BackendClient(address) as client:
            for snapshot in client.snapshots():
                seen.append(snapshot)
                if done.is_set():
                    return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        done.set()
        reader.join(20)
        assert not reader.is_alive()


def rows_of(snapshot: Snapshot, topic: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The rows of a topic; none where the snapshot does not know it."""
    if topic not in snapshot.topics:
        return np.empty(0, np.int64)
    return np.flatnonzero(snapshot.replicas.topic_index == snapshot.topics.index(topic))
