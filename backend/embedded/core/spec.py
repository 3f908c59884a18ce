"""What an embedded cluster is made of, before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kshunt.backend.embedded.core.cluster_core import Timing
from kshunt.backend.embedded.data.hosts import Hardware
from kshunt.backend.embedded.metadata.acls import Acl
from kshunt.backend.embedded.replication.model import LAG_TIME_MAX_MS

SIMULATED_START_MS: Final = 1_700_000_000_000
"""Where a simulated clock begins: the same for every run."""


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """One broker."""

    id: int
    rack: str | None = None
    log_dirs: tuple[str, ...] = ("/kafka/d1",)
    """Names of its directories; nothing is written there."""
    hardware: Hardware = field(default_factory=Hardware)
    started: bool = True
    """False for a broker that a fault or a scenario starts later."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One cluster."""

    brokers: tuple[BrokerSpec, ...]
    seed: int = 0
    native: bool = True
    """Whether the brokers speak the seeds' own RPCs."""
    simulated: bool = False
    """Whether the clock stands still until it is moved."""
    port_base: int = 0
    """Ports from here on, in the order of the brokers; 0 for free ones."""
    data: Path | None = None
    """Folder in which everything survives the process, or None."""
    static: Mapping[str, str] = field(default_factory=dict)
    """The brokers' properties file."""
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The password of each user. With any, clients authenticate by SASL/PLAIN; without, all are
    `User:ANONYMOUS`."""
    acls: tuple[Acl, ...] = ()
    """What holds from the first start on, with an authorizer."""
    timing: Timing = field(default_factory=Timing)
    lag_time_max_ms: int = LAG_TIME_MAX_MS
    """`replica.lag.time.max.ms`."""
    grain_ms: int = 10
    """Nothing that follows from rates is timed finer than this."""


def plain_brokers(count: int, racks: int = 3, log_dirs: int = 1) -> tuple[BrokerSpec, ...]:
    """Brokers 1 to `count`, their racks in turn, without limits of hardware."""
    dirs = tuple(f"/kafka/d{number}" for number in range(1, log_dirs + 1))
    return tuple(
        BrokerSpec(number, f"rack-{(number - 1) % racks + 1}", dirs)
        for number in range(1, count + 1)
    )
