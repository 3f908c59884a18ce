"""Answers of brokers as bytes, with any tagged fields: what the codecs are tried on."""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from kshunt.backend.domain.cluster.columns import PartitionColumns
from kshunt.backend.wire.reader import array_length, string

TAG_SECTIONS = (b"\x00", b"\x01\x05\x02ab", b"\x02\x00\x00\x82\x01\x01z")
"""No tagged fields; one; two, one of which has a two-byte tag."""


class Encoder:
    """Writes an answer with the tagged fields it is given in turn, where the version has them."""

    def __init__(self, version: int, flexible_from: int, sections: Iterator[bytes]) -> None:
        self.version = version
        self.flexible = version >= flexible_from
        self._sections = sections

    def tags(self) -> bytes:
        return next(self._sections) if self.flexible else b""

    def array(self, entries: list[bytes]) -> bytes:
        return array_length(len(entries), flexible=self.flexible) + b"".join(entries)

    def string(self, text: str | None) -> bytes:
        if text is None:
            return b"\x00"
        return string(text, flexible=self.flexible)

    def ids(self, values: list[int]) -> bytes:
        return self.array([struct.pack(">i", value) for value in values])


def endless(sections: list[bytes]) -> Iterator[bytes]:
    """The sections, and then none."""
    yield from sections
    while True:
        yield b"\x00"


def columns(topics: dict[str, list[int]]) -> PartitionColumns:
    """Partitions in the order of the dictionary."""
    return PartitionColumns(
        tuple(topics),
        np.repeat(np.arange(len(topics), dtype=np.int32), [len(p) for p in topics.values()]),
        np.array([p for partitions in topics.values() for p in partitions], np.int32),
    )


def list_offsets_answer(
    encoder: Encoder, topics: dict[str, list[tuple[int, int, int, int, int]]]
) -> bytes:
    encoded = []
    for name, entries in topics.items():
        partitions = [struct.pack(">ihqqi", *entry) + encoder.tags() for entry in entries]
        encoded.append(encoder.string(name) + encoder.array(partitions) + encoder.tags())
    return struct.pack(">i", 0) + encoder.array(encoded) + encoder.tags()


def log_dirs_answer(encoder: Encoder, dirs: list[Any], error: int = 0) -> bytes:
    results = []
    for code, path, topics, volume in dirs:
        encoded = []
        for name, entries in topics.items():
            partitions = [struct.pack(">iqq?", *entry) + encoder.tags() for entry in entries]
            encoded.append(encoder.string(name) + encoder.array(partitions) + encoder.tags())
        sizes = struct.pack(">qq", *volume) if encoder.version >= 4 else b""
        head = struct.pack(">h", code) + encoder.string(path)
        results.append(head + encoder.array(encoded) + sizes + encoder.tags())
    top = struct.pack(">h", error) if encoder.version >= 3 else b""
    return struct.pack(">i", 0) + top + encoder.array(results) + encoder.tags()


def metadata_answer(encoder: Encoder, listed: list[Any], topics: dict[str, Any]) -> bytes:
    nodes = [
        struct.pack(">i", node) + encoder.string(host) + struct.pack(">i", port)
        + encoder.string(rack) + encoder.tags()
        for node, host, port, rack in listed
    ]  # fmt: skip
    encoded = []
    for name, (code, entries) in topics.items():
        partitions = [
            struct.pack(">hiii", *entry[:4])
            + b"".join(encoder.ids(group) for group in entry[4:])
            + encoder.tags()
            for entry in entries
        ]
        topic_id = bytes(16) if encoder.version >= 10 else b""
        head = struct.pack(">h", code) + encoder.string(name) + topic_id + b"\x00"
        encoded.append(head + encoder.array(partitions) + struct.pack(">i", -1) + encoder.tags())
    head = struct.pack(">i", 0) + encoder.array(nodes) + encoder.string("cluster")
    operations = struct.pack(">i", -1) if encoder.version <= 10 else b""
    return head + struct.pack(">i", 1) + encoder.array(encoded) + operations + encoder.tags()
