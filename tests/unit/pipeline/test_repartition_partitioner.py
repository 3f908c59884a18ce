"""Kafka's murmur2 over arrays, beside Java's, librdkafka's and one written out plainly."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from backend.pipeline.kernels.partitioner import (
    NO_KEY,
    murmur2,
    partitions_of,
    partitions_of_bytes,
)
from tests.support.brokers.java import LIBS, ensure_jars
from tests.support.brokers.launcher import RealKafka
from tests.support.topics import create_topic

JAVA = """
import java.io.*;
import org.apache.kafka.common.utils.Utils;
public class Murmur {
    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        StringBuilder out = new StringBuilder();
        for (int n = in.readInt(); n > 0; n--) {
            byte[] key = in.readNBytes(in.readInt());
            out.append(Utils.murmur2(key)).append('\\n');
        }
        System.out.print(out);
    }
}
"""


def plain(key: bytes) -> int:
    """The hash as Kafka's source has it."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def keys_of(seed: int, count: int) -> list[bytes]:
    """Keys of all kinds: none of bytes, short, long, beyond ASCII, the same."""
    dice = random.Random(seed)
    lengths = [*range(20), 127, 128, 129, 255, 1000]
    words = ["", "ключ", "鍵", "clé", "user-42", "\x00", "\xff" * 7]
    keys = [word.encode() for word in words] + [bytes([255]) * n for n in range(9)]
    return keys + [dice.randbytes(dice.choice(lengths)) for _ in range(count)]


def binary(keys: Sequence[bytes | None]) -> pa.Array:
    return pa.array(keys, pa.binary())


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=80), st.integers(0, 5))
def test_every_key_has_the_hash_of_the_plain_way(keys: list[bytes | None], skipped: int) -> None:
    expected = [plain(key or b"") for key in keys]
    assert murmur2(binary(keys)).tolist() == expected
    # A part of an array begins in the middle of its buffers.
    assert murmur2(binary(keys).slice(skipped)).tolist() == expected[skipped:]


def test_long_keys_among_short_ones() -> None:
    keys = [b"x" * 100_000, *(b"k%d" % n for n in range(1_000)), bytes(range(256)) * 40]
    assert murmur2(binary(keys)).tolist() == [plain(key) for key in keys]


def test_a_record_without_key_has_no_partition() -> None:
    keys = [b"a", None, b"", None]
    found = partitions_of_bytes(keys, 5)
    assert [found[1], found[3]] == [NO_KEY, NO_KEY]
    assert [found[0], found[2]] == [(plain(key) & 0x7FFFFFFF) % 5 for key in (b"a", b"")]
    assert partitions_of_bytes([], 5) == []


@pytest.mark.kafka
def test_java_has_the_same_hash(tmp_path: Path) -> None:
    ensure_jars()
    keys = keys_of(seed=1, count=3_000)
    source = tmp_path / "Murmur.java"
    source.write_text(JAVA)
    told = len(keys).to_bytes(4, "big")
    told += b"".join(len(key).to_bytes(4, "big") + key for key in keys)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{LIBS}/*", str(source)]
    done = subprocess.run(command, input=told, capture_output=True, timeout=120, check=True)
    theirs = [int(line) & 0xFFFFFFFF for line in done.stdout.split()]
    assert murmur2(binary(keys)).tolist() == theirs


@pytest.mark.kafka
def test_librdkafka_chooses_the_same_partitions(kafka: RealKafka) -> None:
    create_topic(kafka.bootstrap_servers, "murmur", [[1 + n % 3] for n in range(7)])
    keys = list(dict.fromkeys(keys_of(seed=2, count=2_000)))
    chosen: dict[bytes, int | None] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None
        key = message.key()
        # A key of no bytes comes back as none.
        chosen[b"" if key is None else bytes(key)] = message.partition()

    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "partitioner": "murmur2_random",
            "log_level": 0,
        }
    )
    for key in keys:
        producer.produce("murmur", b"", key, on_delivery=delivered)
    assert producer.flush(60) == 0
    ours = partitions_of(binary(keys), 7).tolist()
    assert chosen == dict(zip(keys, ours, strict=True))
