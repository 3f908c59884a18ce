"""Kafka's znodes: where they are, and what the JSON in them means. No session, no effect.

Sources: Kafka 3.9, `kafka.zk.ZkData` (paths, versions and fields); KIP-179 for the znodes that say
which throttles go with the reassignment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    Broker,
    OngoingReassignment,
    TopicPartition,
)
from kshunt.backend.errors import ClusterError

BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CLUSTER_ID: Final = "/cluster/id"
ADMIN: Final = "/admin"
REASSIGN: Final = "/admin/reassign_partitions"
DELETING: Final = "/admin/delete_topics"
ELECTION: Final = "/admin/preferred_replica_election"
TOPICS_REMOVAL: Final = "/admin/throttled_replicas_removal"
BROKERS_REMOVAL: Final = "/admin/throttled_rates_removal"
CONFIG: Final = "/config"
CHANGES: Final = "/config/changes/config_change_"
DEFAULT_BROKER: Final = "<default>"
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_VERSIONED: Final = 1
"""Of what is read here and written again: what another version adds to it would be lost."""

Name = TypeVar("Name", str, int)


class UnreadableZnode(ClusterError):
    """A znode holds what cannot be understood; it is neither used nor written over."""

    title = "Unreadable znode"

    def __init__(self, path: str, why: str) -> None:
        advice = "Half of it may be missing: check it, and repair or delete it by hand."
        if path in (REASSIGN, ELECTION):
            advice += (
                " Until there is a new controller, the controller does not read another one: "
                f"also delete {CONTROLLER}."
            )
        super().__init__(f"The znode {path} {why}. It was not changed.", advice=advice)
        self.path = path


def may_be_topic(name: str) -> bool:
    """Whether a topic can be called so (Kafka's `Topic.validate`); another name is another path."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def topic_path(topic: str) -> str:
    """Of a topic's assignment."""
    return f"{TOPICS}/{topic}"


def state_path(topic: str, partition: int) -> str:
    """Of a partition's leader and ISR."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(entity: str) -> str:
    """Of a configuration; `entity` is `topics/NAME` or `brokers/ID`."""
    return f"{CONFIG}/{entity}"


def document(path: str, data: bytes) -> dict[str, Any]:
    """A znode's JSON object.

    Raises:
        UnreadableZnode: it holds none.
    """
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        size = len(data)
        raise UnreadableZnode(
            path, f"does not hold JSON, or is incomplete ({size} bytes)"
        ) from None
    if not isinstance(found, dict):
        raise UnreadableZnode(path, "does not hold a JSON object")
    return found


def _versioned(path: str, data: bytes) -> dict[str, Any]:
    found = document(path, data)
    version = found.get("version", _VERSIONED)
    # Brokers write it as a number, and Kafka's tools took text, too.
    if str(version) != str(_VERSIONED):
        raise UnreadableZnode(path, f"has version {version!r}, but kshunt knows only version 1")
    return found


def text(found: Mapping[str, Any]) -> bytes:
    """JSON as Kafka writes it, without blanks."""
    return json.dumps(found, separators=(",", ":")).encode()


# --- what brokers write


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """Who hosts a topic's partitions, and what of it moves (KIP-455, since Kafka 2.4)."""

    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    tells_moves: bool = True
    """False where a controller before Kafka 2.4 wrote it: what moves, and how, is not in it."""


def read_topic(path: str, data: bytes) -> TopicZnode:
    """A topic's assignment.

    Raises:
        UnreadableZnode: it cannot be understood.
    """
    found = document(path, data)
    return TopicZnode(
        _lists(path, found, "partitions"),
        _lists(path, found, "adding_replicas"),
        _lists(path, found, "removing_replicas"),
        tells_moves="adding_replicas" in found,
    )


def _lists(path: str, found: Mapping[str, Any], name: str) -> dict[int, tuple[int, ...]]:
    table = found.get(name, {})
    try:
        return {int(number): _ids(brokers) for number, brokers in sorted(table.items())}
    except (AttributeError, TypeError, ValueError):
        raise UnreadableZnode(path, f"has no lists of broker ids under '{name}'") from None


def _ids(brokers: Any) -> tuple[int, ...]:
    if not isinstance(brokers, list) or not all(type(one) is int for one in brokers):
        raise ValueError("not a list of broker ids")
    return tuple(brokers)


def read_state(path: str, data: bytes) -> tuple[int, tuple[int, ...]]:
    """A partition's leader and ISR.

    Raises:
        UnreadableZnode: it cannot be understood.
    """
    found = document(path, data)
    leader = found.get("leader")
    try:
        isr = _ids(found.get("isr"))
    except ValueError:
        raise UnreadableZnode(path, "names no ISR") from None
    if type(leader) is not int:
        raise UnreadableZnode(path, "names no leader")
    return leader, isr


def read_broker(path: str, data: bytes, broker: int, protocol: str) -> Broker:
    """A broker, at its listener of that security protocol.

    A broker without one has no address for us: its host is empty.

    Raises:
        UnreadableZnode: it cannot be understood.
    """
    found = document(path, data)
    endpoints, rack = found.get("endpoints", []), found.get("rack")
    protocols = found.get("listener_security_protocol_map", {})
    if not isinstance(endpoints, list) or not isinstance(protocols, dict):
        raise UnreadableZnode(path, "names no endpoints")
    for endpoint in endpoints:
        name, _, address = str(endpoint).partition("://")
        host, _, port = address.rpartition(":")
        if protocols.get(name, name) == protocol and port.isdigit():
            return Broker(broker, host.strip("[]"), int(port), rack)
    return Broker(broker, "", 0, rack)


def read_controller(data: bytes) -> int:
    """The controller's broker id.

    Raises:
        UnreadableZnode: it cannot be understood.
    """
    found = document(CONTROLLER, data).get("brokerid")
    return found if type(found) is int else NO_BROKER


def read_cluster_id(data: bytes) -> str:
    """The cluster's id.

    Raises:
        UnreadableZnode: it cannot be understood.
    """
    found = document(CLUSTER_ID, data).get("id")
    if not isinstance(found, str) or not found:
        raise UnreadableZnode(CLUSTER_ID, "names no id")
    return found


def read_config(path: str, data: bytes) -> dict[str, str]:
    """What is configured on a topic or a broker itself.

    Raises:
        UnreadableZnode: it cannot be understood.
    """
    found = _versioned(path, data).get("config")
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise UnreadableZnode(path, "holds no configuration")
    return found


def config_text(config: Mapping[str, str]) -> bytes:
    """The opposite of `read_config`."""
    return text({"version": 1, "config": dict(config)})


def change_text(entity: str) -> bytes:
    """The notification that has brokers read a configuration anew."""
    return text({"version": 2, "entity_path": entity})


# --- what administrators write


def read_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """The targets of the reassignment that runs.

    Raises:
        UnreadableZnode: it cannot be understood.
    """
    entries = document(REASSIGN, data).get("partitions")
    try:
        return {
            TopicPartition(_text(one["topic"]), _number(one["partition"])): _ids(one["replicas"])
            for one in _entries(entries)
        }
    except (KeyError, TypeError, ValueError):
        raise UnreadableZnode(REASSIGN, "is not a reassignment") from None


def _entries(found: Any) -> Sequence[Any]:
    if not isinstance(found, list):
        raise ValueError("not a list")
    return found


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise ValueError("not a text")
    return found


def _number(found: Any) -> int:
    if type(found) is not int:
        raise ValueError("not a number")
    return found


def reassignment_text(targets: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """A reassignment, as Kafka 2's tool wrote it."""
    entries = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in targets.items()
    ]
    return text({"version": 1, "partitions": entries})


def election_text(partitions: Iterable[TopicPartition]) -> bytes:
    """An election of preferred leaders, as Kafka 2's tool wrote it."""
    entries = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return text({"version": 1, "partitions": entries})


def untold(
    topics: Mapping[str, TopicZnode], asked: Mapping[TopicPartition, tuple[int, ...]]
) -> list[TopicPartition]:
    """Those that move, of which the topic's znode does not tell what is added.

    A controller before 2.4 writes no more than the union of both lists.
    """
    return [
        partition
        for partition, target in asked.items()
        if (znode := topics.get(partition.topic)) is not None
        and not znode.tells_moves
        and set(target) <= set(znode.replicas.get(partition.partition, ()))
    ]


def ongoing_of(
    topics: Mapping[str, TopicZnode],
    asked: Mapping[TopicPartition, tuple[int, ...]],
    in_sync: Mapping[TopicPartition, Collection[int]] | None = None,
) -> dict[TopicPartition, OngoingReassignment]:
    """Every partition that moves: by its topic's znode, or because it is to move and does not yet.

    `in_sync`: the ISR of those that are `untold`. What of the target is not in it is taken to be
    added: such a controller waits for just that.
    """
    synced = in_sync or {}
    found = {
        TopicPartition(topic, number): _ongoing(topic, number, znode)
        for topic, znode in topics.items()
        for number in {*znode.adding, *znode.removing}
        if number in znode.replicas
    }
    for partition, target in asked.items():
        znode = topics.get(partition.topic)
        if partition in found or znode is None or partition.partition not in znode.replicas:
            continue
        here = znode.replicas[partition.partition]
        removing = tuple(broker for broker in here if broker not in target)
        there = synced.get(partition, here)
        adding = tuple(broker for broker in target if broker not in there)
        found[partition] = OngoingReassignment(partition, (*target, *removing), adding, removing)
    return found


def _ongoing(topic: str, number: int, znode: TopicZnode) -> OngoingReassignment:
    return OngoingReassignment(
        TopicPartition(topic, number),
        znode.replicas[number],
        znode.adding.get(number, ()),
        znode.removing.get(number, ()),
    )


# --- the removal records of KIP-179


def read_removal(path: str, field_name: str, data: bytes, kind: type[Name]) -> tuple[Name, ...]:
    """The topics or brokers whose throttles go when the reassignment has ended.

    Raises:
        UnreadableZnode: it cannot be understood.
    """
    names = _versioned(path, data).get(field_name)
    if not isinstance(names, list) or not all(type(one) is kind for one in names):
        raise UnreadableZnode(path, f"names no {field_name}")
    return tuple(names)


def removal_text(field_name: str, names: Iterable[str | int]) -> bytes:
    """The opposite of `read_removal`."""
    return text({"version": 1, field_name: list(names)})
