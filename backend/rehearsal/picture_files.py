"""Pictures of clusters in files, to rehearse a plan for a cluster that cannot be reached from here.

JSON, gzipped where the name ends in `.gz`. It holds names, ids, sizes and rates; no messages, no
addresses and no credentials.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from kshunt.backend.domain.cluster.metadata import LogDir, OngoingReassignment, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import MODES_BY_KEY, PartitionMode
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    Throttles,
)
from kshunt.backend.domain.untrusted.strict_json import UnreadableJson, read_json
from kshunt.backend.errors import BadInput, KshuntError
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.rehearsal.picture import Capacity, Picture

VERSION: Final = 1
KIND: Final = "kshunt cluster picture"
LARGEST_BYTES: Final = 1 << 28
"""A file that unpacks to more is not read: 200,000 replicas take some 50 MB."""
VALUES_MAX: Final = 20_000_000
"""And one of more values: 200,000 replicas take some 3 million."""

Json = dict[str, Any]


def save_picture(picture: Picture, path: Path) -> None:
    """Write a picture to a new file; one that is there already stays.

    Raises:
        BadInput: the file exists, or cannot be written.
    """
    data = json.dumps(picture_json(picture), separators=(",", ":")).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise BadInput(f"{path} already exists.", advice="Name another file.") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.") from error


def load_picture(path: Path) -> Picture:
    """Read a picture.

    Raises:
        BadInput: the file cannot be read, or is no picture; with the place of the mistake.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {error}.") from error
    if len(data) > LARGEST_BYTES:
        raise BadInput(f"{path} is not a picture of a cluster: it holds more than 256 MB.")
    try:
        document = read_json(data, bytes_max=LARGEST_BYTES, values_max=VALUES_MAX)
    except UnreadableJson as error:
        raise BadInput(f"{path} is not a picture: {error}.") from None
    del data
    try:
        return picture_of_json(document)
    except BadInput as mistake:
        raise BadInput(f"{path}: {mistake}", advice=mistake.advice) from mistake
    # A whole number beyond what a column holds, for one.
    except (LookupError, ValueError, TypeError, ArithmeticError) as error:
        raise BadInput(f"{path} is not a valid picture: {error}.") from None


# To JSON


def picture_json(picture: Picture) -> Json:
    """The picture as a document."""
    return {
        "kind": KIND,
        "version": VERSION,
        "cluster_id": picture.cluster_id,
        "taken_ms": picture.taken_ms,
        "brokers": [_broker_json(picture, one) for one in picture.situation.brokers.values()],
        "topics": {
            topic: {"leaders": str(lists.leaders), "followers": str(lists.followers)}
            for topic, lists in picture.throttles.replicas.items()
        },
        "partitions": list(_partitions_json(picture)),
    }


def _broker_json(picture: Picture, one: BrokerFacts) -> Json:
    capacity = picture.capacities.get(one.id)
    throttle = picture.throttles.rates.get(one.id)
    return {
        "id": one.id,
        "rack": one.rack,
        "up": one.up,
        "log_dirs": [[each.path, each.total_bytes, each.usable_bytes] for each in one.log_dirs],
        "capacity": None
        if capacity is None
        else [
            capacity.network_in_bytes_per_s,
            capacity.network_out_bytes_per_s,
            capacity.disk_bytes_per_s,
        ],
        "throttle": None
        if throttle is None
        else [
            throttle.rate.leader_bytes_per_s,
            throttle.rate.follower_bytes_per_s,
            throttle.log_dir_bytes_per_s,
        ],
    }


def _partitions_json(picture: Picture) -> Iterator[Json]:
    situation = picture.situation
    lags: dict[TopicPartition, dict[str, int]] = {}
    for (name, broker), lag_bytes in picture.lag_bytes.items():
        lags.setdefault(name, {})[str(broker)] = lag_bytes
    for row, (name, replicas) in enumerate(situation.current().items()):
        move = situation.moving.get(name)
        places = situation.log_dir[row, : len(replicas)].tolist()
        yield {
            "topic": name.topic,
            "partition": name.partition,
            "replicas": replicas,
            "leader": int(situation.leader[row]),
            "isr": np.array(replicas)[situation.in_sync[row, : len(replicas)]].tolist(),
            "size_bytes": _known(int(situation.size_bytes[row])),
            "in_bytes_per_s": _rate(float(situation.in_bytes_per_s[row])),
            "out_bytes_per_s": _rate(float(situation.out_bytes_per_s[row])),
            "min_isr": _known(int(situation.min_isr[row])),
            "log_dirs": [situation.log_dir_paths[at] if at >= 0 else None for at in places],
            "adding": [] if move is None else move.adding,
            "removing": [] if move is None else move.removing,
            "lag_bytes": lags.get(name, {}),
            **({"mode": situation.leaving[name].key} if name in situation.leaving else {}),
        }


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _rate(value: float) -> float | None:
    return None if np.isnan(value) else value


# From JSON


def picture_of_json(document: object) -> Picture:
    """The picture of a document.

    Raises:
        BadInput: it is none, or one of a later version.
    """
    whole = _DocumentPart("", document)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BadInput(
            "This is not a picture of a cluster.", advice="To take one, run `kshunt plan picture`."
        )
    version = whole.get("version", int)
    if version != VERSION:
        raise BadInput(
            f"It is a picture of version {version}, and this kshunt reads version {VERSION}.",
            advice="Take it with this kshunt, or read it with the kshunt that took it.",
        )
    brokers = list(whole.parts("brokers"))
    partitions = list(whole.parts("partitions"))
    names = [TopicPartition(each.get("topic", str), each.count("partition")) for each in partitions]
    moves = [_move(each, name) for each, name in zip(partitions, names, strict=True)]
    situation = Situation.of(
        map(_partition, partitions, names),
        map(_broker, brokers),
        filter(None, moves),
        {name: mode for each, name in zip(partitions, names, strict=True) if (mode := each.mode())},
    )
    return Picture(
        situation,
        Throttles(dict(_throttles(brokers)), dict(_lists(whole))),
        dict(_capacities(brokers)),
        {
            (name, int(broker)): lag
            for each, name in zip(partitions, names, strict=True)
            for broker, lag in each.lags()
        },
        whole.get("cluster_id", str),
        whole.count("taken_ms"),
    )


class _DocumentPart:
    """A part of the document, which knows where it stands."""

    def __init__(self, where: str, document: object) -> None:
        self.where, self._document = where, document

    def _at(self, key: str) -> Any:
        if not isinstance(self._document, dict) or key not in self._document:
            raise BadInput(f"{self.where or 'The picture'} has no {key}.")
        return self._document[key]

    def get(self, key: str, kind: type) -> Any:
        """A value of this type."""
        found = self._at(key)
        if not isinstance(found, kind) or (kind is not bool and isinstance(found, bool)):
            raise BadInput(
                f"{self.where} {key} is not a {kind.__name__}: {str(found)[:40]}.".strip()
            )
        return found

    def maybe(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """A value of this type, not negative, or None."""
        return _checked(self._at(key), kind, f"{self.where} {key}")

    def count(self, key: str) -> int:
        """A whole number, not negative."""
        found: int = self.get(key, int)
        if found < 0:
            raise BadInput(f"{self.where} {key} is negative: {found}.".strip())
        return found

    def ids(self, key: str) -> tuple[int, ...]:
        """Broker ids."""
        found = self.get(key, list)
        if not all(type(one) is int and one >= 0 for one in found):
            raise BadInput(f"{self.where} {key} are not broker ids: {str(found)[:40]}.")
        return tuple(found)

    def rates(self, key: str) -> tuple[Any, Any, Any] | None:
        """Three rates, each of them a number or None; or None for all."""
        found = self._at(key)
        if found is None:
            return None
        if not isinstance(found, list) or len(found) != 3:
            raise BadInput(f"{self.where} {key} are not three rates: {str(found)[:40]}.")
        first, second, third = (_checked(one, (int, float), f"{self.where} {key}") for one in found)
        return first, second, third

    def mode(self) -> PartitionMode:
        """KIP-694's; ReadWrite where nothing is said."""
        if not isinstance(self._document, dict) or "mode" not in self._document:
            return PartitionMode.READ_WRITE
        key = self.get("mode", str)
        if key not in MODES_BY_KEY:
            raise BadInput(f"{self.where} mode is unknown: {key[:40]}.")
        return MODES_BY_KEY[key]

    def parts(self, key: str) -> Iterator[_DocumentPart]:
        """The members of a list."""
        for place, each in enumerate(self.get(key, list)):
            yield _DocumentPart(f"{key}[{place}]", each)

    def lags(self) -> Iterator[tuple[str, int]]:
        """Broker id and bytes."""
        for broker, lag in self.get("lag_bytes", dict).items():
            if not broker.isdecimal():
                raise BadInput(f"{self.where} lag_bytes: {broker[:40]} is not a broker id.")
            yield broker, _checked(lag, int, f"{self.where} lag_bytes") or 0


def _checked(found: Any, kind: type | tuple[type, ...], where: str) -> Any:
    if found is None:
        return None
    value: Any = found
    if isinstance(found, bool) or not isinstance(found, kind) or not 0 <= value < math.inf:
        raise BadInput(f"{where} is not a possible number: {str(found)[:40]}.")
    return found


def _broker(part: _DocumentPart) -> BrokerFacts:
    id = part.count("id")
    dirs = []
    for each in part.get("log_dirs", list):
        if (
            not isinstance(each, list)
            or len(each) != 3
            or not isinstance(each[0], str)
            or not all(type(size) is int for size in each[1:])
        ):
            raise BadInput(f"{part.where} log_dirs: {str(each)[:40]} is not a path with two sizes.")
        dirs.append(LogDir(id, *each))
    rack = part.get("rack", str) if part._at("rack") is not None else None
    return BrokerFacts(id, rack, part.get("up", bool), tuple(dirs))


def _partition(part: _DocumentPart, name: TopicPartition) -> PartitionSituation:
    dirs = part.get("log_dirs", list)
    if not all(one is None or isinstance(one, str) for one in dirs):
        raise BadInput(f"{part.where} log_dirs are not paths.")
    leader = part.get("leader", int)
    return PartitionSituation(
        name,
        part.ids("replicas"),
        leader,
        part.ids("isr"),
        part.maybe("size_bytes", int),
        part.maybe("in_bytes_per_s", (int, float)),
        part.maybe("out_bytes_per_s", (int, float)),
        part.maybe("min_isr", int),
        tuple(dirs),
    )


def _move(part: _DocumentPart, name: TopicPartition) -> OngoingReassignment | None:
    adding, removing = part.ids("adding"), part.ids("removing")
    if not adding and not removing:
        return None
    return OngoingReassignment(name, part.ids("replicas"), adding, removing)


def _capacities(brokers: list[_DocumentPart]) -> Iterator[tuple[int, Capacity]]:
    for part in brokers:
        rates = part.rates("capacity")
        if rates is not None:
            yield part.count("id"), Capacity(*rates)


def _throttles(brokers: list[_DocumentPart]) -> Iterator[tuple[int, BrokerThrottle]]:
    for part in brokers:
        rates = part.rates("throttle")
        if rates is not None:
            leader, follower, log_dirs = rates
            id = part.count("id")
            yield id, BrokerThrottle(id, ThrottledRate(leader, follower), log_dirs)


def _lists(whole: _DocumentPart) -> Iterator[tuple[str, ThrottledReplicas]]:
    topics: Mapping[str, object] = whole.get("topics", dict)
    for topic, lists in topics.items():
        part = _DocumentPart(f"topics.{topic}", lists)
        try:
            yield (
                topic,
                ThrottledReplicas(
                    ReplicaSet.parse(part.get("leaders", str)),
                    ReplicaSet.parse(part.get("followers", str)),
                ),
            )
        except KshuntError as mistake:
            raise BadInput(f"{part.where}: {mistake}") from mistake
