"""Fifty dashboards on one backend: what they cost it, and how old a row is when they have it.

    python -m tests.bench.pipeline.bench_replica_streams

serves the replica stream over snapshots of 200,000 replicas, one a second, of which one row in a
hundred changes, to whom shows one of five tokens. Of 50 clients in another process five decode what
they read, 44 only read it, and one reads 1 KB a second. The sampler is not part of it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from kshunt.backend.access.roles import Role
from kshunt.backend.access.tokens import TokenFile
from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.core.frame_feed import FrameFeed
from kshunt.backend.api.core.streams import replica_stream
from kshunt.backend.api.http.route_roles import Declared, Routes
from kshunt.backend.api.schema.frames.snapshot_writer import MEDIA_TYPE
from kshunt.backend.api.server.authentication import AccessPolicy, AuthenticationLayer
from kshunt.backend.clock import SystemClock
from kshunt.backend.errors import BackendUnreachable
from kshunt.backend.telemetry.sampling.snapshot_hub import SnapshotHub
from tests.support.bench.tui_load import LoadCluster

CLIENTS: Final = 50
OBSERVERS: Final = 5
"""Of them, those that decode: fifty times over it would be the clients' cost on this machine."""
SLOW_BYTES_PER_S: Final = 1_024
SHARE: Final = 0.01
SECONDS: Final = 45.0
SETTLE_S: Final = 15.0
"""Until then the first frames, some 20 MB for each client, are on their way."""
PEOPLE: Final = 5
"""The number of tokens; each token may have sixteen streams."""
ASK: Final = (
    "GET /v1/replicas/stream?header_changes=true HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    "authorization: Bearer {}\r\n\r\n"
)


def serve(listener: socket.socket, told: Connection, tokens: Path) -> None:
    """The backend's process: its CPU and memory go to `told` whenever something comes of it."""
    asyncio.run(_serve(listener, told, tokens))


async def _serve(listener: socket.socket, told: Connection, tokens: Path) -> None:
    hub, feed, app = SnapshotHub(), FrameFeed(), FastAPI()
    file = TokenFile(tokens, SystemClock())
    await file.start()

    @Routes(app, Role.VIEWER).get("/v1/replicas/stream", stream=True)
    async def stream(header_changes: bool) -> StreamingResponse:
        frames = replica_stream(hub, feed, header_changes=header_changes)
        return StreamingResponse(frames, media_type=MEDIA_TYPE)

    layer = AuthenticationLayer(app, Declared(app), AccessPolicy(credentials=[file]), SystemClock())
    server = uvicorn.Server(uvicorn.Config(layer, log_config=None, access_log=False))
    ticking = asyncio.create_task(_tick(hub))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    # It is killed in the end.
    while not ticking.done() and not serving.done():
        await asyncio.to_thread(told.recv)
        used = resource.getrusage(resource.RUSAGE_SELF)
        told.send((used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))


async def _tick(hub: SnapshotHub) -> None:
    cluster, clock = LoadCluster(), SystemClock()
    cluster.share = SHARE
    while True:
        began = time.monotonic()
        snapshot = await asyncio.to_thread(cluster.step)
        await hub.publish(replace(snapshot, taken_ms=time.time_ns() // 1_000_000))
        await clock.wait_s(max(0.0, 1.0 - (time.monotonic() - began)))


class Observer(threading.Thread):
    """A client that decodes, and notes how old each snapshot is by then."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.client = BackendClient(address)
        self.ages_ms: list[tuple[float, int]] = []

    def run(self) -> None:
        """Read until the connection is closed."""
        with suppress(BackendUnreachable, OSError, ValueError):
            for snapshot in self.client.snapshots():
                self.ages_ms.append(
                    (time.monotonic(), time.time_ns() // 1_000_000 - snapshot.taken_ms)
                )


@contextmanager
def drained(port: int, clients: int, tokens: list[str]) -> Iterator[list[int]]:
    """Clients that only read, in one thread, and one that reads slowly; bytes of each."""
    read = [0] * (clients + 1)
    loop, clock = asyncio.new_event_loop(), SystemClock()

    async def one(number: int, token: str, pause_s: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(ASK.format(token).encode())
        while data := await reader.read(SLOW_BYTES_PER_S if pause_s else 1 << 20):
            read[number] += len(data)
            await clock.wait_s(pause_s)

    async def all_of_them() -> None:
        with suppress(asyncio.CancelledError):
            shown = islice(cycle(tokens), clients + 1)
            await asyncio.gather(
                *(
                    one(number, token, float(number == clients))
                    for number, token in enumerate(shown)
                )
            )

    task = loop.create_task(all_of_them())
    thread = threading.Thread(target=loop.run_until_complete, args=(task,), daemon=True)
    thread.start()
    yield read
    loop.call_soon_threadsafe(task.cancel)
    thread.join()
    loop.close()


def measure(clients: int) -> tuple[float, float, list[int], list[int]]:
    """CPU seconds a second and MB of the backend, ages in ms, and bytes read by each client."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    waiting = threading.Event()
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        file = TokenFile(Path(folder) / "tokens.json", SystemClock())
        tokens = [file.create(f"person-{n}", Role.VIEWER)[1] for n in range(PEOPLE)]
        os.environ["KSHUNT_TOKEN"] = tokens[0]
        port = int(listener.getsockname()[1])
        arguments = (listener, theirs, Path(folder) / "tokens.json")
        process = spawning.Process(target=serve, args=arguments)
        process.start()
        observers = [Observer(f"http://127.0.0.1:{port}") for _ in range(min(clients, OBSERVERS))]
        for observer in observers:
            observer.start()
        with drained(port, max(clients - len(observers) - 1, 0), tokens[1:]) as read:
            waiting.wait(SETTLE_S)
            ours.send(True)
            before_s, _ = ours.recv()
            began = time.monotonic()
            waiting.wait(SECONDS)
            ours.send(True)
            after_s, peak_mb = ours.recv()
            spent = (after_s - before_s) / (time.monotonic() - began)
        process.kill()
        process.join()
        for observer in observers:
            observer.client.close()
    ages = [age for each in observers for at, age in each.ages_ms if at > began]
    return spent, peak_mb, ages, read


@pytest.mark.bench
def test_fifty_dashboards() -> None:
    for clients in (2, CLIENTS):
        spent, peak_mb, ages, read = measure(clients)
        p50, p99 = np.percentile(ages, [50, 99])
        print(
            f"\n{clients} streams, 200,000 replicas, 1 Hz, one at 1 KB/s "
            f"({read[-1] / 1e3:.0f} kB): "
            f"{spent:.0%} of a core, {peak_mb:,.0f} MB at most; a row's age at the client "
            f"p50 {p50:.0f} ms, p99 {p99:.0f} ms over {len(ages):,} snapshots; "
            f"{sum(read[:-1]) / 1e6:,.0f} MB read"
        )


if __name__ == "__main__":
    test_fifty_dashboards()
