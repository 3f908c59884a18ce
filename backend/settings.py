"""What can be set of a backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kshunt.backend.addresses import ZOOKEEPER_SCHEME
from kshunt.backend.two_person import TwoPersonRule


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """How often the cluster is asked, and how long an answer may take."""

    tick_s: float = 1.0
    """Moving partitions are sampled this often."""
    sweep_s: float = 10.0
    """Everything else is sampled this often."""
    broker_timeout_s: float = 2.0
    """A broker that takes longer leaves its own rows stale; the others continue."""


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """Whether and how samples are recorded: to a folder, to topics, or (neither) not at all."""

    folder: Path | None = None
    """A recording of one cluster; see `kshunt.backend.domain.pipeline.sample_columns` for its
    layout."""
    topic: str = ""
    """Rows go to the topics `TOPIC-replicas`, `TOPIC-brokers` and `TOPIC-forecasts` instead."""
    flush_s: float = 5.0
    """A file a table this often; what is not flushed is lost in a crash."""
    flush_rows: int = 400_000
    """And as soon as this number of rows wait."""
    whole_s: float = 60.0
    """Replicas that do not move are recorded this often."""
    brokers_s: float = 5.0
    """Brokers are recorded this often."""
    rows_waiting: int = 1_000_000
    """Rows that are kept while they cannot be written: about 125 MB of memory."""
    keep_days: int = 7
    """Hours older than this are dropped as a whole; of topics, their retention."""
    compact: bool = True
    """Put the files of an hour together once it is over."""
    compact_after_s: float = 7_200.0
    """That long after the hour's end: a stream that follows the files has read them by then."""
    keeping_s: float = 600.0
    """How often a look is taken at what to drop and to put together."""


PLACER_VARIABLE: Final = "KSHUNT_REPLICA_PLACER"
"""Names the placer of private backends, and of tools that do without one."""
PLACER_CONFIG_VARIABLE: Final = "KSHUNT_REPLICA_PLACER_CONFIG"
"""Names its properties file."""


@dataclass(frozen=True, slots=True)
class PlacerSettings:
    """Who chooses brokers for new partitions on a cluster without a placer (KIP-660)."""

    name: str = ""
    """As in `replica.placer.class.name`; empty: kshunt chooses without a placer."""
    config: Path | None = None
    """The properties file that it is configured with, or None."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> PlacerSettings:
        """What the environment says."""
        name, config = environ.get(PLACER_VARIABLE, ""), environ.get(PLACER_CONFIG_VARIABLE, "")
        return cls(name, Path(config).absolute() if config else None)


@dataclass(frozen=True, slots=True)
class Settings:
    """One backend's settings."""

    bootstrap_servers: str
    """`host:port,host:port`, as Kafka's tools take it; or `zookeeper://host:port,.../chroot`."""
    command_config: Path | None = None
    """A Java client properties file, or none for PLAINTEXT."""
    sampler: SamplerSettings = field(default_factory=SamplerSettings)
    request_timeout_s: float = 10.0
    """A call that changes the cluster may take this long."""
    calibration: Path | None = None
    """The calibration that forecasts are made with, which is read again when it changes; None: of
    the cluster's own operations, or the shipped one."""
    recording: RecordingSettings = field(default_factory=RecordingSettings)
    placer: PlacerSettings = field(default_factory=PlacerSettings)
    two_person: TwoPersonRule = field(default_factory=TwoPersonRule)

    @property
    def zookeeper(self) -> str:
        """What `--zookeeper` names, or empty where brokers are named."""
        named = self.bootstrap_servers
        return named.removeprefix(ZOOKEEPER_SCHEME) if named.startswith(ZOOKEEPER_SCHEME) else ""
