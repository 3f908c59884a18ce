"""Ten thousand broken frames against a live broker, which answers or closes and then continues.

A run has a seed, which a failure prints; KSHUNT_FUZZ_SEED runs that one again.
"""

import asyncio
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kshunt.backend.embedded.net.api import KAFKA_APIS, SEED_APIS
from kshunt.backend.wire import kip_requests
from tests.support.topics import create_topic

FRAMES = 10_000
AT_ONCE = 8
"""Connections that send at a time."""
CHECK_EVERY = 500
"""Frames of one connection after which a well-behaved client must be served."""
DEADLINE_S = 60.0
MEMORY_GROWTH_BYTES_MAX = 64 * 1024 * 1024
INTERESTING = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 12,
    b"\x00",
    b"\x01",
)
METADATA = 3
BODY_AT = 18
"""Where the body begins in a frame of `framed`, or its header's tagged fields."""
EVERY_API = KAFKA_APIS | SEED_APIS

Mutation = Callable[[random.Random, bytearray], None]


def corpus() -> list[bytes]:
    """A valid frame for each version of each API, and some with something in them."""
    frames = []
    for api in EVERY_API.values():
        for version in range(api.min_version, api.max_version + 1):
            frames.append(framed(api.key, version, api.request(version=version)))
    for key, version, fields in RICH:
        frames.append(framed(key, version, EVERY_API[key].request(version=version, **fields)))
    return frames


RICH: list[tuple[int, int, dict[str, Any]]] = [
    (0, 9, {"topic_data": [("orders", [(0, b"records" * 20)])], "acks": -1}),
    (2, 7, {"topics": [("orders", [(0, -1, -1), (1, -1, -1)])], "replica_id": -2}),
    (3, 4, {"topics": [("orders",), ("events",)]}),
    (10, 4, {"coordinator_keys": ["group", "other"]}),
    (32, 4, {"resources": [(2, "orders", ["a", "b"]), (4, "1", None)]}),
    (45, 0, {"topics": [("orders", [(0, [1, 2]), (1, None)])]}),
    (kip_requests.REASSIGN_PARTITIONS_KEY, 0, {"topic_reassignments": [("orders", [(0, [1, 2])])]}),
    (kip_requests.ALTER_TOPICS_KEY, 0, {"altered_topic": [("orders", 3, -1, [(0, [1])])]}),
    (kip_requests.DELETE_PARTITIONS_KEY, 0, {"topics": [("orders", [1, 2])]}),
]


def framed(key: int, version: int, message: Any) -> bytes:
    end = b"\x00" if EVERY_API[key].flexible(version) else b""
    head = struct.pack(">hhih", key, version, 7, 4) + b"fuzz" + end
    body = bytes(message.encode(version=version))
    return struct.pack(">i", len(head) + len(body)) + head + body


def place(rng: random.Random, frame: bytearray) -> int:
    """An offset after the length, mostly in the body: the broker refuses a broken header
    immediately."""
    in_body = len(frame) > BODY_AT and rng.random() < 0.8
    return rng.randrange(BODY_AT if in_body else 4, len(frame))


def flip(rng: random.Random, frame: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        frame[place(rng, frame)] ^= 1 << rng.randrange(8)


def overwrite(rng: random.Random, frame: bytearray) -> None:
    piece = rng.choice(INTERESTING)
    at = place(rng, frame)
    frame[at : at + len(piece)] = piece


def insert(rng: random.Random, frame: bytearray) -> None:
    at = place(rng, frame)
    frame[at:at] = rng.choice(INTERESTING) * rng.choice((1, 1, 1, 500))


def delete(rng: random.Random, frame: bytearray) -> None:
    at = place(rng, frame)
    del frame[at : at + rng.randint(1, 9)]


def other_api(rng: random.Random, frame: bytearray) -> None:
    struct.pack_into(">hh", frame, 4, rng.choice(list(EVERY_API)), rng.randint(-1, 19))


def noise(rng: random.Random, frame: bytearray) -> None:
    frame[BODY_AT:] = rng.randbytes(rng.randint(0, 300))


MUTATIONS: tuple[Mutation, ...] = (flip, overwrite, insert, delete, other_api, noise)


def mutated(rng: random.Random, frames: list[bytes]) -> bytes:
    """One frame, broken in one to three ways; its length mostly fits, so that it is read."""
    frame = bytearray(rng.choice(frames))
    for _ in range(rng.choice((1, 1, 2, 3))):
        if len(frame) >= BODY_AT:
            rng.choice(MUTATIONS)(rng, frame)
    if rng.random() < 0.1:
        frame[:4] = rng.choice([rng.randbytes(4), *INTERESTING[:3]])[:4]
    else:
        frame[:4] = struct.pack(">i", len(frame) - 4)
    return bytes(frame)


async def exchange(port: int, frame: bytes) -> bytes:
    """Send a frame and nothing after it; what the server says until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(frame)
        writer.write_eof()
        async with asyncio.timeout(DEADLINE_S):
            return await reader.read()
    except ConnectionError:
        return b""  # closed with some of our bytes unread
    except TimeoutError:
        raise AssertionError(f"no answer within {DEADLINE_S} s to {frame.hex()}") from None
    finally:
        writer.transport.abort()


def whole_answer(answer: bytes) -> bool:
    """Nothing, or one answer that has the length it gives."""
    return not answer or (len(answer) >= 8 and len(answer) == 4 + int.from_bytes(answer[:4], "big"))


async def served(port: int) -> bool:
    """Whether a client that says nothing wrong gets its answer."""
    asked = framed(METADATA, 4, EVERY_API[METADATA].request(version=4, topics=[("events",)]))
    return bool(await exchange(port, asked))


async def send_all(port: int, rng: random.Random, frames: list[bytes]) -> int:
    """Send this connection's share, one after the other; how many were answered."""
    answered = 0
    for number in range(FRAMES // AT_ONCE):
        frame = mutated(rng, frames)
        answer = await exchange(port, frame)
        assert whole_answer(answer), f"{frame.hex()} got {answer.hex()}"
        answered += bool(answer)
        if number % CHECK_EVERY == 0:
            assert await served(port), f"nobody is served after {frame.hex()}"
    return answered


@dataclass(frozen=True)
class LiveCluster:
    """`kshunt cluster` in a process of its own."""

    process: subprocess.Popen[bytes]
    servers: str
    said: Path
    """What it wrote to its standard error."""

    @property
    def port(self) -> int:
        """Of the broker that is sent what is broken."""
        return int(self.servers.split(",")[0].rpartition(":")[2])

    def resident_bytes(self) -> int:
        """Memory of the process."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def failures(self) -> list[str]:
        """Requests that made a handler fail, which none may."""
        return [line for line in self.said.read_text().splitlines() if "Error" in line]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    """Three brokers with two topics."""
    said = tmp_path / "stderr"
    command = [sys.executable, "-m", "kshunt", "cluster", "--brokers", "3"]
    with (
        said.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            assert process.stdout is not None
            servers = process.stdout.readline().decode().split()[1]
            create_topic(servers, "orders", [[1, 2], [2, 3], [3, 1]])
            create_topic(servers, "events", [[1, 2, 3]])
            yield LiveCluster(process, servers, said)
        finally:
            process.kill()


async def test_broken_frames_are_answered_or_refused_and_the_next_client_is_served(
    cluster: LiveCluster,
) -> None:
    seed = int(os.environ.get("KSHUNT_FUZZ_SEED") or random.SystemRandom().randrange(2**32))
    print(f"KSHUNT_FUZZ_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    frames = corpus()
    before = cluster.resident_bytes()
    async with asyncio.TaskGroup() as group:
        senders = [
            group.create_task(send_all(cluster.port, random.Random(seed + n), frames))
            for n in range(AT_ONCE)
        ]
    answered = sum(sender.result() for sender in senders)
    # Some mutants are requests still, and are handled; most are not.
    assert FRAMES // 50 < answered < FRAMES // 2, f"{answered} were answered"
    assert cluster.resident_bytes() - before < MEMORY_GROWTH_BYTES_MAX
    admin = AdminClient({"bootstrap.servers": cluster.servers, "log_level": 0})
    listed = await asyncio.to_thread(admin.list_topics, timeout=DEADLINE_S)
    assert sorted(listed.brokers) == [1, 2, 3]
    assert cluster.failures() == []


async def test_every_version_of_every_api_is_answered(cluster: LiveCluster) -> None:
    for frame in corpus():
        answer = await exchange(cluster.port, frame)
        assert whole_answer(answer)
        assert answer or is_without_answer(frame), frame.hex()
    assert cluster.failures() == []


def is_without_answer(frame: bytes) -> bool:
    """Whether it is a Produce with acks=0, which is what an empty one asks for."""
    return frame[4:6] == b"\x00\x00"
