"""The clusters that the contract is tested on, and the one table of what differs between them.

A test that needs a difference asks `differs(name, flavour)` for the value to expect; everything
else must be the same on all of them. `tests.house.test_differences` fails for an entry that no
test asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from kshunt.backend.addresses import ZOOKEEPER_SCHEME
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from tests.support.brokers.launcher import RealKafka
from tests.support.brokers.zookeeper import ZooKeeperKafka
from tests.support.embedded.background import running

NATIVE, EMULATED, KAFKA, ZOOKEEPER = "native", "emulated", "kafka", "zookeeper"
FLAVOURS: Final = (NATIVE, EMULATED, KAFKA)
"""The embedded cluster with the seeds' RPCs, the same without them, and Apache Kafka 4.1."""
EVERY: Final = (*FLAVOURS, ZOOKEEPER)
"""And Apache Kafka 3.9 in ZooKeeper mode, reached through ZooKeeper."""
MARKS: Final = {
    KAFKA: (pytest.mark.kafka,),
    ZOOKEEPER: (pytest.mark.kafka, pytest.mark.zookeeper),
}

BROKERS: Final = (1, 2, 3)
DIRS: Final = ("/kafka/d1", "/kafka/d2")


@dataclass(frozen=True, slots=True)
class Difference:
    """What is to be expected on each flavour, and why it is not the same."""

    values: Mapping[str, Any]
    """By flavour; what is not named is as on Kafka."""
    reason: str


DIFFERENCES: Final[Mapping[str, Difference]] = {
    "speaks the seeds": Difference(
        {KAFKA: False, NATIVE: True, EMULATED: False},
        "Apache Kafka never shipped the RPCs of KIP-179 and KIP-694.",
    ),
    "throttle goes by itself": Difference(
        {KAFKA: False, NATIVE: True, EMULATED: False},
        "KIP-179's controller removes the throttle with the end of the move; elsewhere the "
        "operation that asked for it does, or `--verify`.",
    ),
    "cancels moves": Difference(
        {KAFKA: True, ZOOKEEPER: False},
        "A controller looks at /admin/reassign_partitions only when it is made; to delete it stops "
        "nothing.",
    ),
    "replaces a move that runs": Difference(
        {KAFKA: True, ZOOKEEPER: False},
        "There is one znode for reassignments, and while it is there no other can be asked for.",
    ),
    "moves between directories": Difference(
        {KAFKA: True, ZOOKEEPER: False}, "No znode asks for it: only the broker itself does."
    ),
    "says which partitions it refuses": Difference(
        {KAFKA: True, ZOOKEEPER: False},
        "A controller answers nobody who makes a znode, and would wait for ever for a broker that "
        "does not exist: such a plan is refused before.",
    ),
}


@dataclass(frozen=True, slots=True)
class ContractCluster:
    """One of them."""

    flavour: str
    bootstrap_servers: str
    """As in `Settings`."""
    cluster_id: str
    dirs: Mapping[int, tuple[str, ...]]
    """Log directories by broker."""
    broker_ids: tuple[int, ...] = BROKERS


def differs(name: str, cluster: ContractCluster) -> Any:
    """What to expect where the clusters differ.

    Raises:
        KeyError: the table has no such difference.
    """
    values = DIFFERENCES[name].values
    return values.get(cluster.flavour, values[KAFKA])


@contextmanager
def embedded(flavour: str) -> Iterator[ContractCluster]:
    """Three embedded brokers, with the seeds' RPCs or without."""
    spec = ClusterSpec(plain_brokers(3, log_dirs=2), seed=7, native=flavour == NATIVE)
    with running(spec) as handle:
        yield ContractCluster(
            flavour,
            handle.bootstrap_servers,
            handle.call(lambda cluster: cluster.world.cluster_id),
            dict.fromkeys(BROKERS, DIRS),
        )


@contextmanager
def found(request: pytest.FixtureRequest, flavour: str) -> Iterator[ContractCluster]:
    """The cluster of a flavour, for a fixture that has it as its parameter."""
    if flavour == KAFKA:
        kafka: RealKafka = request.getfixturevalue("kafka")
        dirs = {broker: tuple(map(str, kafka.log_dirs(broker))) for broker in kafka.broker_ids}
        yield ContractCluster(KAFKA, kafka.bootstrap_servers, kafka.cluster_id, dirs)
    elif flavour == ZOOKEEPER:
        other: ZooKeeperKafka = request.getfixturevalue("zookeeper")
        dirs = {broker: tuple(map(str, other.log_dirs(broker))) for broker in other.broker_ids}
        address = f"{ZOOKEEPER_SCHEME}{other.connect}"
        yield ContractCluster(ZOOKEEPER, address, other.cluster_id, dirs)
    else:
        with embedded(flavour) as cluster:
            yield cluster


def flavours(names: Iterable[str]) -> list[Any]:
    """Parameters for such a fixture, with their marks."""
    return [pytest.param(name, marks=MARKS.get(name, ())) for name in names]
