"""What is known of each broker's disks, replicas and traffic, for those that place by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """One broker at one moment; None stands for what is not known, and never for 0."""

    broker: int
    disk_used_bytes: int | None = None
    """On the volumes of its log directories; other programs' files count too."""
    disk_total_bytes: int | None = None
    """Size of those volumes."""
    replicas: int | None = None
    """Replicas that it holds, those that are being copied to it included."""
    leaders: int | None = None
    """Partitions that it leads."""
    in_bytes_per_s: float | None = None
    """From producers and from the leaders that it follows."""
    out_bytes_per_s: float | None = None
    """To consumers and to its followers."""

    @property
    def disk_share(self) -> float | None:
        """How full its disks are, 0 to 1; None where that is not known."""
        if self.disk_used_bytes is None or not self.disk_total_bytes:
            return None
        return self.disk_used_bytes / self.disk_total_bytes

    @property
    def throughput_bytes_per_s(self) -> float | None:
        """What goes in and out; None unless both are known."""
        if self.in_bytes_per_s is None or self.out_bytes_per_s is None:
            return None
        return self.in_bytes_per_s + self.out_bytes_per_s


@dataclass(frozen=True, slots=True)
class BrokerLoads:
    """The load of the brokers, as far as somebody measured it."""

    brokers: Mapping[int, BrokerLoad] = field(default_factory=dict)
    """By broker id; a broker of which nothing is known may be left out."""

    def of(self, broker: int) -> BrokerLoad:
        """The load of a broker; of one that is not listed, nothing is known."""
        return self.brokers.get(broker) or BrokerLoad(broker)
