"""The clusters that the contract is tested on, and the one table of what differs between them.

A test that needs a difference asks `differs(name, flavour)` for the value to expect; everything
else must be the same on all three. `test_contract.py` fails for an entry that no test asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from backend.embedded.background import running
from backend.embedded.spec import ClusterSpec, plain_brokers

NATIVE, EMULATED, KAFKA = "native", "emulated", "kafka"
FLAVOURS: Final = (NATIVE, EMULATED, KAFKA)
"""The embedded cluster with the seeds' RPCs, the same without them, and Apache Kafka 4.1."""

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
}


@dataclass(frozen=True, slots=True)
class ContractCluster:
    """One of the three."""

    flavour: str
    bootstrap_servers: str
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
