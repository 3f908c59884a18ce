"""What lies in which log directory of a broker: DescribeLogDirs, AlterReplicaLogDirs (KIP-113).

Each broker answers for itself, from what it holds rather than from what the controller knows.

`offset_lag` is what a real broker says: of a replica, how far its log is behind its own high
watermark. A follower's high watermark lags with its log, so `offset_lag` is 0 however far the
leader is ahead. Of a copy that is under way it is the messages that are still to be copied.

The entries of a directory's partitions have a fixed size, so they are written as one array.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.data.data_plane import DataPlane
from kshunt.backend.embedded.data.hosted_partition import HostedPartition
from kshunt.backend.embedded.handlers.responses import response
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.net.api import KAFKA_APIS
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.embedded.replication.columns import NOWHERE
from kshunt.backend.error_codes import (
    KAFKA_STORAGE_ERROR,
    LOG_DIR_NOT_FOUND,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.wire.api_keys import ALTER_REPLICA_LOG_DIRS_KEY, DESCRIBE_LOG_DIRS_KEY
from kshunt.backend.wire.reader import array_length, string, tags

UNKNOWN_BYTES: Final = -1
"""What a broker says of a disk that failed."""

_FLEXIBLE_FROM: Final = 2
_ERROR_FROM: Final = 3
_BYTES_FROM: Final = 4
_ENTRY: Final = np.dtype([("index", ">i4"), ("size", ">i8"), ("lag", ">i8"), ("future", "u1")])
_FLEXIBLE_ENTRY: Final = np.dtype([*_ENTRY.descr, ("tags", "u1")])

_NO_VOLUME: Final = (UNKNOWN_BYTES, UNKNOWN_BYTES)

Wanted = Callable[[HostedPartition], bool]


class StoredReplica(NamedTuple):
    """What a broker has of a partition in one directory, in the order of an answer."""

    log_dir: int
    """Its number in replication."""
    topic: str
    partition: int
    is_future: bool
    """True for a copy that will take the replica's place."""
    size_bytes: int
    lag_messages: int


def handlers(world: World) -> dict[int, Handler]:
    """The APIs of this module by key."""
    answers = _LogDirs(world)
    return {
        DESCRIBE_LOG_DIRS_KEY: answers.describe_log_dirs,
        ALTER_REPLICA_LOG_DIRS_KEY: answers.alter_replica_log_dirs,
    }


class _LogDirs:
    """One method an API."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def _image(self) -> ClusterImage:
        return self._world.core.image

    @property
    def _plane(self) -> DataPlane:
        return self._world.core.plane

    async def describe_log_dirs(self, context: RequestContext, message: Any) -> bytes:
        """The directories of the broker asked, with the replicas that are asked for."""
        version, broker = context.version, context.broker_id
        replicas = held_replicas(self._plane, broker, _wanted(message.topics))
        by_dir = {key: list(group) for key, group in groupby(replicas, lambda one: one.log_dir)}
        state = self._image.brokers[broker]
        volumes = self._plane.dir_volumes(broker)
        dirs = []
        for path in state.log_dirs:
            number = self._plane.dir_number(broker, path)
            if path in state.offline_dirs:
                dirs.append(_dir_bytes(version, path, [], _NO_VOLUME, KAFKA_STORAGE_ERROR))
            else:
                dirs.append(_dir_bytes(version, path, by_dir.get(number, []), volumes[number]))
        flexible = version >= _FLEXIBLE_FROM
        error = b"\x00\x00" if version >= _ERROR_FROM else b""
        count = array_length(len(dirs), flexible=flexible)
        return b"".join((bytes(4), error, count, *dirs, tags(flexible=flexible)))

    async def alter_replica_log_dirs(self, context: RequestContext, message: Any) -> Any:
        """Copy replicas of the broker asked to other directories of it.

        The directory where a replica is already ends a copy of it. For a replica that is not
        there yet the directory is kept in mind, though the answer is an error (KIP-113).
        """
        version = context.version
        errors: dict[str, dict[int, int]] = {}
        for wanted in message.dirs:
            for topic in wanted.topics:
                for number in topic.partitions:
                    code = self._move(context.broker_id, topic.name, number, wanted.path)
                    errors.setdefault(topic.name, {})[number] = code
        self._world.changed()
        made = KAFKA_APIS[ALTER_REPLICA_LOG_DIRS_KEY].response.AlterReplicaLogDirTopicResult
        one = made.AlterReplicaLogDirPartitionResult
        results = []
        for name, codes in errors.items():
            entries = [
                one(version=version, partition_index=number, error_code=code)
                for number, code in codes.items()
            ]
            results.append(made(version=version, topic_name=name, partitions=entries))
        return response(ALTER_REPLICA_LOG_DIRS_KEY, version, results=results)

    def _move(self, broker: int, topic: str, number: int, path: str) -> int:
        """Start or end a copy; returns the error, in the order in which a broker looks."""
        state = self._image.brokers[broker]
        if path not in state.online_dirs:
            return LOG_DIR_NOT_FOUND
        held = self._plane.named(topic, number)
        if held is None:
            return UNKNOWN_TOPIC_OR_PARTITION
        row = held.replicas.get(broker)
        if row is None:
            self._world.core.wish_log_dir(held, broker, path)
            return REPLICA_NOT_AVAILABLE
        present = int(self._plane.replication.replicas.log_dir[row])
        if present != NOWHERE and self._plane.dir_path(present) in state.offline_dirs:
            return KAFKA_STORAGE_ERROR
        self._plane.move_log_dir(held, broker, path)
        return 0


def held_replicas(plane: DataPlane, broker: int, wanted: Wanted) -> list[StoredReplica]:
    """What a broker has of the partitions that are wanted, sorted.

    Raises:
        KeyError: the broker never registered.
    """
    table, parts = plane.replication.replicas, plane.replication.partitions
    own = (table.broker == plane.broker_number(broker)) & (table.partition != NOWHERE)
    rows = np.flatnonzero(own & (table.log_dir != NOWHERE))
    places = table.partition[rows]
    sizes = (table.position[rows] - parts.start_position[places]).astype(np.int64)
    names = [plane.at_row(place) for place in places.tolist()]
    numbers = zip(table.log_dir[rows].tolist(), names, sizes.tolist(), strict=True)
    found = [
        StoredReplica(log_dir, held.topic, held.number, False, size, 0)
        for log_dir, held, size in numbers
        if wanted(held)
    ]
    found += _copies(plane, rows[table.target_dir[rows] != NOWHERE], wanted)
    found.sort()
    return found


def _copies(plane: DataPlane, rows: Sequence[int], wanted: Wanted) -> Iterator[StoredReplica]:
    """The copies between directories that are under way."""
    table, parts = plane.replication.replicas, plane.replication.partitions
    for row in map(int, rows):
        place = int(table.partition[row])
        held = plane.at_row(place)
        if not wanted(held):
            continue
        start = parts.start_position[place]
        size, copied = table.position[row] - start, table.moved[row] - start
        messages = table.leo[row] - parts.start_offset[place]
        left = int(messages * (1 - copied / size)) if size > 0 else 0
        target = int(table.target_dir[row])
        yield StoredReplica(target, held.topic, held.number, True, int(copied), left)


def _wanted(topics: Sequence[Any] | None) -> Wanted:
    """Which partitions a request asks for; null is all of them."""
    if topics is None:
        return lambda held: True
    asked: Mapping[str, set[int]] = {topic.topic: set(topic.partitions) for topic in topics}
    return lambda held: held.number in asked.get(held.topic, ())


def _dir_bytes(
    version: int,
    path: str,
    replicas: Sequence[StoredReplica],
    volume: tuple[int, int],
    error: int = 0,
) -> bytes:
    """A directory of the answer; `volume` is how many bytes fit on its disk, and are free."""
    flexible = version >= _FLEXIBLE_FROM
    end = tags(flexible=flexible)
    topics = [_topic_bytes(n, list(g), end) for n, g in groupby(replicas, lambda one: one.topic)]
    out = [struct.pack(">h", error), string(path, flexible=flexible)]
    out += [array_length(len(topics), flexible=flexible), *topics]
    if version >= _BYTES_FROM:
        out.append(struct.pack(">qq", *volume))
    return b"".join((*out, end))


def _topic_bytes(name: str, replicas: Sequence[StoredReplica], end: bytes) -> bytes:
    """A topic of a directory; `end` is the empty tag section of a flexible version."""
    flexible = bool(end)
    entries = np.zeros(len(replicas), _FLEXIBLE_ENTRY if flexible else _ENTRY)
    entries["index"] = [one.partition for one in replicas]
    entries["size"] = [one.size_bytes for one in replicas]
    entries["lag"] = [one.lag_messages for one in replicas]
    entries["future"] = [one.is_future for one in replicas]
    count = array_length(len(replicas), flexible=flexible)
    return b"".join((string(name, flexible=flexible), count, entries.tobytes(), end))
