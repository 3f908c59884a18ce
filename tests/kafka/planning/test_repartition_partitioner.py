"""Kafka's murmur2 over arrays, compared with Java's and librdkafka's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from kshunt.backend.pipeline.kernels.partitioner import (
    murmur2,
    partitions_of,
)
from tests.support.brokers.java import LIBS, ensure_jars
from tests.support.brokers.launcher import RealKafka
from tests.support.pipeline.keys import binary, keys_of
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
