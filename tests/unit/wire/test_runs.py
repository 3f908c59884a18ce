"""Long runs of partitions of one shape in a Metadata answer: each is read where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product, repeat
from typing import Any

import pytest

from kshunt.backend.wire.metadata import decode_metadata
from tests.support.wire_answers import TAG_SECTIONS, Encoder, endless, metadata_answer

COUNT = 70
"""More than the first look at a run takes in."""


def read(topics: dict[str, Any], sections: Iterator[bytes]) -> list[tuple[Any, ...]]:
    """Of each replica its partition, place, broker, leader; whether it is in sync, or offline."""
    body = metadata_answer(Encoder(12, 9, sections), [], topics)
    found = decode_metadata(body, 12).assignment
    columns = (found.partition, found.position, found.broker, found.leader)
    flags = (found.in_isr, found.offline)
    return list(zip(*(column.tolist() for column in (*columns, *flags)), strict=True))


def expected(entries: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        (number, place, broker, leader, broker in in_sync, broker in offline)
        for _, number, leader, _, replicas, in_sync, offline in entries
        for place, broker in enumerate(replicas)
    ]


def described(number: int, replicas: int, in_sync: int, offline: int) -> tuple[Any, ...]:
    """A partition with these numbers of replicas in each list, on brokers of its own."""
    brokers = [1_000 * number + place for place in range(replicas)]
    lost = brokers[replicas - offline :]
    return 0, number, brokers[0] if brokers else -1, 5, brokers, brokers[:in_sync], lost


@pytest.mark.parametrize(
    "shape", [one for one in product(range(4), range(4), range(4)) if max(one[1:]) <= one[0]]
)
def test_partitions_of_one_shape(shape: tuple[int, int, int]) -> None:
    entries = [described(number, *shape) for number in range(COUNT)]
    assert read({"t": (0, entries)}, endless([])) == expected(entries)


@pytest.mark.parametrize("section", TAG_SECTIONS[1:])
@pytest.mark.parametrize("odd", [0, 1, 33, COUNT - 1])
def test_one_with_tagged_fields_among_them(section: bytes, odd: int) -> None:
    entries = [described(number, 3, 2, 1) for number in range(COUNT)]
    sections = chain(repeat(b"\x00", odd), [section], repeat(b"\x00"))
    assert read({"t": (0, entries)}, sections) == expected(entries)


def test_shapes_that_take_turns() -> None:
    shapes = [(3, 3, 0), (3, 2, 1), (1, 1, 0), (2, 1, 1), (5, 0, 5)]
    for length in (1, 2, 9, 40):
        entries = [
            described(number, *shapes[number // length % len(shapes)])
            for number in range(4 * COUNT)
        ]
        assert read({"t": (0, entries)}, endless([])) == expected(entries)


@pytest.mark.parametrize("replicas", [126, 127, 128, 129])
def test_lists_whose_length_takes_two_bytes(replicas: int) -> None:
    entries = [described(number, replicas, replicas - 1, 1) for number in range(5)]
    assert read({"t": (0, entries)}, endless([])) == expected(entries)


@pytest.mark.parametrize("broker", [0, 255, 256, 65_536])
def test_tagged_fields_behind_any_broker(broker: int) -> None:
    """The end of the last list is not taken for the number of tagged fields, nor the reverse."""
    entries = [(0, number, 1, 5, [1, broker], [1], [broker]) for number in range(5)]
    for section in TAG_SECTIONS:
        assert read({"t": (0, entries)}, endless([section] * 5)) == expected(entries)
