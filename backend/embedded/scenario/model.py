"""Scenarios: a cluster with topics, traffic and a timeline, read from a TOML file.

A scenario is data and draws nothing; what is random comes from the seed it is run with. Sizes are
bytes, rates bytes a second, times seconds of the cluster's clock since its start. The manual
(docs/embedded-cluster.md) describes the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kshunt.backend.embedded.core.spec import BrokerSpec
from kshunt.backend.embedded.metadata.acls import Acl

FOLDER: Final = Path(__file__).parent / "shipped_scenarios"
DAY_S: Final = 86_400.0
GRAIN_MS: Final = 10
PARTITIONS_PER_MS: Final = 100
"""So that a step, which takes a millisecond for 2,000 partitions or so, is a small share of it."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic, or `count` topics alike."""

    name: str
    """With `{}` for the topic's number where there are several."""
    partitions: int
    count: int = 1
    replication_factor: int = 3
    bytes_per_partition: float = 0.0
    """What a partition holds in the middle of them all."""
    size_spread: float = 0.5
    """How unequal partitions are: the sigma of a log-normal distribution."""
    bytes_per_s: float = 0.0
    """What is written to one topic."""
    rate_spread: float = 0.0
    """How unequal topics of one `count` are in that; a sigma as above."""
    record_bytes: int = 1_000
    skew: float = 0.0
    """Of keyed records: the exponent of a Zipf distribution over the partitions; 0 is even."""
    swing: float = 0.0
    """By which share the rate goes up and down in a `period_s`."""
    period_s: float = DAY_S
    noise: float = 0.0
    """By which share the rate jitters from one look to the next."""
    configs: Mapping[str, str] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()
    """Where its replicas lie at first; empty for all brokers that run."""
    leaders: tuple[int, ...] = ()
    """Brokers that lead what they have a replica of, preferred or not."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its topics."""
        if self.count == 1:
            return (self.name,)
        digits = len(str(self.count - 1))
        return tuple(self.name.replace("{}", f"{n:0{digits}}") for n in range(self.count))


@dataclass(frozen=True, slots=True)
class ScenarioEvent:
    """Something that happens at a time of the cluster's clock."""

    at_s: float


@dataclass(frozen=True, slots=True)
class BrokerEvent(ScenarioEvent):
    """Brokers stop, crash, start, stall or resume."""

    action: str
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FailLogDir(ScenarioEvent):
    """A broker's disk fails."""

    broker: int
    path: str


@dataclass(frozen=True, slots=True)
class SlowLink(ScenarioEvent):
    """What goes from one broker to another gets a limit, or loses it."""

    source: int
    target: int
    bytes_per_s: float = math.inf


@dataclass(frozen=True, slots=True)
class FailOver(ScenarioEvent):
    """Another broker becomes the controller."""


@dataclass(frozen=True, slots=True)
class Configure(ScenarioEvent):
    """Keys of topics or brokers are set, or with None deleted; of the default of all brokers if
    neither is named."""

    values: Mapping[str, str | None]
    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reassign(ScenarioEvent):
    """Partitions move: away from brokers, onto brokers, or each to its own list."""

    drain: tuple[int, ...] = ()
    expand: tuple[int, ...] = ()
    moves: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    """Only partitions of these; empty for all."""
    partitions_max: int = 2**31
    throttle_bytes_per_s: int | None = None
    remove_throttle: bool = False
    """Whether the cluster takes the throttle off at the end (KIP-179)."""
    by_kshunt: bool = False
    """Whether the demo submits it through its backend."""


@dataclass(frozen=True, slots=True)
class PreferredElection(ScenarioEvent):
    """Preferred leaders are elected, of these topics or of all."""

    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionsDeleted(ScenarioEvent):
    """A topic keeps its first partitions; the others go after a delay (KIP-694)."""

    topic: str
    partitions: int
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class TrafficFactor(ScenarioEvent):
    """Clients write `factor` times the ordinary traffic."""

    factor: float
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario."""

    name: str
    title: str
    about: str
    """What the operator sees, and may try."""
    brokers: tuple[BrokerSpec, ...]
    static: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The password of each user; see `ClusterSpec`."""
    acls: tuple[Acl, ...] = ()
    topics: tuple[TopicSpec, ...] = ()
    events: tuple[ScenarioEvent, ...] = ()
    """In the order of their times."""

    @property
    def grain_ms(self) -> int:
        """How finely replication is timed: each step goes through all replicas."""
        partitions = sum(topic.count * topic.partitions for topic in self.topics)
        return max(GRAIN_MS, partitions // PARTITIONS_PER_MS)


def scenario_names() -> tuple[str, ...]:
    """The scenarios that come with kshunt."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
