"""Which partitioner keys follow: known hashes, real clients' choices, and what a few keys tell."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.topics.partitioners import (
    KeyPlacing,
    KeysSeen,
    Partitioner,
    absolute,
    at_least,
    fnv1a,
    keys_seen,
    murmur2,
    partition_of,
)
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.pipeline.kernels import partitioner as kernel
from tests.support.embedded.background import running
from tests.support.pipeline.keys import binary, keys_of
from tests.support.topics import create_topic

ONE, MIXED, OTHER, UNKNOWN = KeyPlacing
MURMUR2, CRC32, FNV1A = Partitioner
OF_LIBRDKAFKA = {
    MURMUR2: "murmur2_random",
    CRC32: "consistent_random",
    FNV1A: "fnv1a_random",
}


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # Of Apache Kafka's own UtilsTest.testMurmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "hashed"),
    # Of the reference of FNV, by Landon Curt Noll.
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],
)
def test_fnv1a_is_the_references(key: bytes, hashed: int) -> None:
    assert fnv1a(key) == hashed


def test_a_hash_loses_its_sign_as_saramas_does() -> None:
    assert [absolute(h) for h in (0, 5, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000001, 0x80000000)] == [
        *(0, 5, 0x7FFFFFFF, 1, 0x7FFFFFFF, 0x80000000)
    ]


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("partitioner", Partitioner)
@pytest.mark.parametrize("partitions", [1, 2, 7, 12])
def test_librdkafka_chooses_the_same_partitions(
    brokers: str, partitioner: Partitioner, partitions: int
) -> None:
    topic = f"{partitioner}-{partitions}"
    create_topic(brokers, topic, [[1 + n % 3] for n in range(partitions)])
    keys = [key for key in dict.fromkeys(keys_of(seed=2, count=600)) if key]
    chosen = written(brokers, topic, keys, OF_LIBRDKAFKA[partitioner])
    assert {key: partition_of(key, partitions, partitioner) for key in keys} == chosen
    arrays = kernel.partitions_of(binary(keys), partitions, partitioner).tolist()
    assert dict(zip(keys, arrays, strict=True)) == chosen


def test_crc32_is_librdkafkas_default(brokers: str) -> None:
    create_topic(brokers, "default", [[1 + n % 3] for n in range(7)])
    keys = [b"key-%d" % n for n in range(200)]
    chosen = written(brokers, "default", keys, None)
    assert {key: partition_of(key, 7, CRC32) for key in keys} == chosen


def written(
    servers: str, topic: str, keys: list[bytes], partitioner: str | None
) -> dict[bytes, int]:
    """Where a producer puts each key."""
    chosen: dict[bytes, int] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None
        key, partition = message.key(), message.partition()
        assert key is not None
        assert partition is not None
        chosen[bytes(key)] = partition

    settings: dict[str, object] = {"bootstrap.servers": servers, "log_level": 0}
    if partitioner is not None:
        settings["partitioner"] = partitioner
    producer = Producer(settings)
    for key in keys:
        producer.produce(topic, b"", key, on_delivery=delivered)
    assert producer.flush(60) == 0
    return chosen


@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=80),
    st.integers(1, 20),
    st.sampled_from(Partitioner),
)
def test_arrays_have_the_partitions_of_single_keys(
    keys: list[bytes | None], partitions: int, partitioner: Partitioner
) -> None:
    found = kernel.partitions_of(binary(keys), partitions, partitioner).tolist()
    assert found == [
        kernel.NO_KEY if key is None else partition_of(key, partitions, partitioner) for key in keys
    ]


# What keys tell


def placed(keys: int, partitions: int, *partitioners: Partitioner | None) -> KeysSeen:
    """Keys by each partitioner in turn; None chooses as it likes."""
    dice = random.Random(keys)
    pairs = []
    for number in range(keys):
        key, by = b"customer-%d" % number, partitioners[number % len(partitioners)]
        where = dice.randrange(partitions) if by is None else partition_of(key, partitions, by)
        pairs.append((key, where))
    return keys_seen(pairs, partitions)


@pytest.mark.parametrize("partitioner", Partitioner)
@pytest.mark.parametrize("partitions", [2, 3, 12, 200])
def test_keys_of_one_partitioner_name_it(partitioner: Partitioner, partitions: int) -> None:
    assert placed(60, partitions, partitioner).followed() == (ONE, (partitioner,))


@pytest.mark.parametrize("partitions", [3, 12, 200])
def test_keys_of_several_are_told_with_all_of_them(partitions: int) -> None:
    placing, found = placed(400, partitions, MURMUR2, CRC32, CRC32).followed()
    assert (placing, found) == (MIXED, (CRC32, MURMUR2))
    # Not all of one either: somebody else wrote the rest.
    assert placed(400, partitions, FNV1A, None).followed() == (MIXED, (FNV1A,))
    # One key that is elsewhere is one too many.
    assert placed(60, partitions, *[MURMUR2] * 59, CRC32).followed()[0] is MIXED


def test_keys_of_a_partitioner_of_their_own_are_told() -> None:
    assert placed(400, 12, None).followed() == (OTHER, ())


def test_few_keys_tell_nothing_but_who_it_may_be() -> None:
    assert KeysSeen().followed() == (UNKNOWN, ())
    placing, found = placed(3, 12, CRC32).followed()
    assert (placing, found[0]) == (UNKNOWN, CRC32)
    assert placed(60, 1, CRC32).followed()[0] is UNKNOWN
    assert placed(3, 12, None).followed() == (UNKNOWN, ())


def test_a_key_of_no_bytes_is_no_witness() -> None:
    pairs = [(b"", 3), (b"", 4), (b"k", partition_of(b"k", 12, MURMUR2))]
    assert keys_seen(pairs, 12).keys == 1


def test_chances_are_those_of_coins() -> None:
    assert at_least(0, 10, 0.5) == 1.0
    assert at_least(10, 10, 0.5) == pytest.approx(2**-10)
    assert at_least(9, 10, 0.5) == pytest.approx(11 * 2**-10)
    assert at_least(3, 3, 1.0) == 1.0
