"""Who hosts what, for a whole cluster, in columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from backend.domain.cluster import Broker


@dataclass(frozen=True, eq=False)
class Assignment:
    """Who hosts what, in columns: one row a replica, sorted by (topic, partition, position).

    Every array has shape (replicas,).
    """

    topics: tuple[str, ...]
    """Topic names, sorted; `topic_index` points into them."""
    topic_index: NDArray[np.int32]
    partition: NDArray[np.int32]
    broker: NDArray[np.int32]
    position: NDArray[np.int16]
    """Place in the replica list; 0 is the preferred leader."""
    leader: NDArray[np.int32]
    """The partition's leader, repeated on each of its replicas; `NO_BROKER` if none."""
    in_isr: NDArray[np.bool_]
    offline: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.broker)


@dataclass(frozen=True, eq=False)
class ClusterState:
    """One answer to "who are you and who hosts what"."""

    cluster_id: str
    controller: int
    """Broker id that the cluster names as controller, or `NO_BROKER`."""
    brokers: Mapping[int, Broker]
    assignment: Assignment
    topic_errors: Mapping[str, str] = field(default_factory=dict)
    """Kafka's error name by topic, for topics that were asked for and not described."""
