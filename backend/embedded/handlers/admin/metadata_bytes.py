"""Topics of a Metadata answer as bytes.

Goals: a cluster of 100,000 partitions that a dashboard asks for again and again is described in
milliseconds, while the same event loop serves everybody else.

Constraints: byte for byte what kafka-python's encoder makes of the same content, in each version.
Nothing outdated is ever told.

Algorithm: the bytes of a topic are kept with a copy of its partitions, and used again while the
topic's partitions are equal to that copy. Partitions are frozen values, so equality is mostly one
comparison of addresses each. Whether a replica is offline also depends on its broker, so all is
forgotten when a broker is fenced or comes back, or loses a directory. So it is when the time
changes after which partitions of a ReadOnly mode are looked at. Versions without tagged fields
cannot tell a mode: while `delete.topic.partition.enable` is on, they call a partition that is
ReadOnly or None LEADER_NOT_AVAILABLE (KIP-694, Compatibility). Versions that describe a
topic alike share what is kept. A partition's entry is packed by one `struct` for its numbers of
replicas.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kshunt.backend.domain.cluster import partition_modes as domain
from kshunt.backend.domain.cluster.config_names import SHRINK_ENABLE
from kshunt.backend.domain.topics.descriptions import INTERNAL_TOPICS
from kshunt.backend.embedded.controller.shrink import looked_at_ms
from kshunt.backend.embedded.metadata.config_keys import SHRINK_INTERVAL_MS
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.image_values import PartitionImage, TopicImage
from kshunt.backend.embedded.metadata.records import NO_LEADER, PartitionModeCode
from kshunt.backend.error_codes import LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE
from kshunt.backend.wire.partition_modes import mode_fields, tag_section
from kshunt.backend.wire.reader import array_length, string

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 10

_INTERNAL_FROM: Final = 1
_OFFLINE_FROM: Final = 5
_EPOCHS_FROM: Final = 7
_LAYOUTS: Final = (0, _INTERNAL_FROM, _OFFLINE_FROM, _EPOCHS_FROM, FLEXIBLE_FROM, TOPIC_IDS_FROM)
"""The versions at which the description of a topic changed."""
_KEPT_MIN: Final = 64
"""The least number of kept topics above which `describe` looks whether they still exist."""
_NO_TAGS: Final = b"\x00"
_NO_ID: Final = bytes(16)

Pack = Callable[..., bytes]


class _Packer(NamedTuple):
    """How an entry of one shape is packed: each array comes after its length."""

    pack: Pack
    replicas: bytes
    isr: bytes
    offline: bytes


@dataclass(frozen=True, slots=True)
class _Cached:
    partitions: dict[int, PartitionImage]
    data: bytes


class MetadataTopics:
    """Describes topics, and keeps what it encoded; see the module.

    With `modes`, partitions tell KIP-694's mode in tagged fields: see
    `kshunt.backend.wire.partition_modes`.
    """

    def __init__(self, image: ClusterImage, *, modes: bool) -> None:
        self._image = image
        self._modes = modes
        self._cached: dict[int, dict[str, _Cached]] = {first: {} for first in _LAYOUTS}
        self._look_at = _KEPT_MIN
        """At more topics than this, those that are gone are forgotten."""
        self._packers: dict[tuple[int, int, int], _Packer] = {}
        self._health: dict[int, tuple[bool, tuple[str, ...]]] = {}
        self._healthy: frozenset[int] = frozenset()
        self._interval_ms = 0
        """How often the controller looks whether a delay is over."""
        self._hides = False
        """Whether versions without modes hide what is not ReadWrite."""

    def describe(self, version: int, topics: Iterable[TopicImage]) -> list[bytes]:
        """Each topic from its error code to its partitions; `topic_end` goes after it."""
        self._look_at_brokers()
        layout = max(first for first in _LAYOUTS if first <= version)
        if layout < FLEXIBLE_FROM:
            self._look_at_deletion()
        cached = self._cached[layout]
        described = []
        for topic in topics:
            found = cached.get(topic.topic_id)
            if found is None or found.partitions != topic.partitions:
                found = _Cached(dict(topic.partitions), self._encoded(layout, topic))
                cached[topic.topic_id] = found
            described.append(found.data)
        if len(cached) > self._look_at:
            gone = [topic_id for topic_id in cached if self._image.topic_by_id(topic_id) is None]
            for topic_id in gone:
                del cached[topic_id]
            self._look_at = _KEPT_MIN + 2 * len(cached)
        return described

    def _offline(self, partition: PartitionImage) -> tuple[int, ...]:
        if self._healthy.issuperset(partition.replicas):
            return ()
        return offline_replicas(self._image, partition)

    def _look_at_brokers(self) -> None:
        health = {b.id: (b.fenced, b.offline_dirs) for b in self._image.brokers.values()}
        interval_ms = int(self._image.cluster_config(SHRINK_INTERVAL_MS))
        if health == self._health and interval_ms == self._interval_ms:
            return
        self._interval_ms = interval_ms
        self._health = health
        self._healthy = frozenset(id for id, state in health.items() if state == (False, ()))
        for cached in self._cached.values():
            cached.clear()

    def _look_at_deletion(self) -> None:
        hides = self._image.cluster_config(SHRINK_ENABLE) == "true"
        if hides == self._hides:
            return
        self._hides = hides
        for layout in _LAYOUTS:
            if layout < FLEXIBLE_FROM:
                self._cached[layout].clear()

    def _encoded(self, layout: int, topic: TopicImage) -> bytes:
        count = len(topic.partitions)
        out = [topic_head(layout, 0, topic.name, bytes.fromhex(topic.topic_id), count)]
        if layout < FLEXIBLE_FROM:
            out += [self._fixed(layout, *entry) for entry in topic.partitions.items()]
            return b"".join(out)
        packers, modes = self._packers, self._modes
        for number, partition in topic.partitions.items():
            replicas, isr, offline = partition.replicas, partition.isr, self._offline(partition)
            shape = len(replicas), len(isr), len(offline)
            pack, before, between, last = packers.get(shape) or self._packer(shape)
            error = LEADER_NOT_AVAILABLE if partition.leader < 0 else 0
            head = error, number, partition.leader, partition.leader_epoch
            out.append(pack(*head, before, *replicas, between, *isr, last, *offline))
            stays = not modes or partition.mode is PartitionModeCode.READ_WRITE
            out.append(_NO_TAGS if stays else self._mode_tags(partition))
        return b"".join(out)

    def _mode_tags(self, partition: PartitionImage) -> bytes:
        goes_ms = domain.UNKNOWN_MS
        if partition.mode is PartitionModeCode.READ_ONLY and partition.deletion is not None:
            goes_ms = looked_at_ms(partition.deletion, self._interval_ms)
        return tag_section(mode_fields(domain.PartitionMode(partition.mode), goes_ms))

    def _packer(self, shape: tuple[int, int, int]) -> _Packer:
        lengths = [array_length(count, flexible=True) for count in shape]
        arrays = (f"{len(n)}s{count}i" for n, count in zip(lengths, shape, strict=True))
        packer = _Packer(struct.Struct(">hiii" + "".join(arrays)).pack, *lengths)
        self._packers[shape] = packer
        return packer

    def _fixed(self, layout: int, number: int, partition: PartitionImage) -> bytes:
        """An entry of the versions that have no compact lengths, and tell no mode."""
        hidden = self._hides and partition.mode is not PartitionModeCode.READ_WRITE
        leader = NO_LEADER if hidden else partition.leader
        error = LEADER_NOT_AVAILABLE if leader < 0 else 0
        replicas, isr = partition.replicas, partition.isr
        if layout == 0:
            replicas, isr = self._registered(replicas), self._registered(isr)
            if not error and (len(replicas), len(isr)) != (
                len(partition.replicas),
                len(partition.isr),
            ):
                error = REPLICA_NOT_AVAILABLE
        epoch = (partition.leader_epoch,) if layout >= _EPOCHS_FROM else ()
        arrays = [replicas, isr]
        if layout >= _OFFLINE_FROM:
            arrays.append(self._offline(partition))
        numbers = [n for array in arrays for n in (len(array), *array)]
        count = 2 + len(epoch) + len(numbers)
        return struct.pack(f">h{count}i", error, number, leader, *epoch, *numbers)

    def _registered(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        """The oldest clients learn of no broker that they cannot look up."""
        return tuple(broker for broker in brokers if broker in self._health)


def offline_replicas(image: ClusterImage, partition: PartitionImage) -> tuple[int, ...]:
    """The replicas that cannot be used, as their broker or its directory is away."""
    places = zip(partition.replicas, partition.log_dirs, strict=True)
    return tuple(broker for broker, path in places if not image.is_online(broker, path))


def topic_head(version: int, error: int, name: str | None, topic_id: bytes, count: int) -> bytes:
    """A topic's description up to the entries of its `count` partitions."""
    flexible = version >= FLEXIBLE_FROM
    out = [struct.pack(">h", error), b"\x00" if name is None else string(name, flexible=flexible)]
    if version >= TOPIC_IDS_FROM:
        out.append(topic_id or _NO_ID)
    if version >= _INTERNAL_FROM:
        out.append(b"\x01" if name in INTERNAL_TOPICS else b"\x00")
    out.append(array_length(count, flexible=flexible))
    return b"".join(out)
