"""Brokers as the API answers them, and as the header of a frame has them."""

from __future__ import annotations

from dataclasses import dataclass

from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.domain.replicas.snapshot import BrokerStatus


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """A broker, and what the backend knows of it."""

    id: int
    host: str
    port: int
    rack: str | None
    answered_ms: int | None
    """When it last answered, milliseconds since the epoch; null if it has not yet."""
    stale: bool
    """True while its newest rows are older than they should be."""
    problem: str = ""
    """Why it does not answer, in words."""
    failed: FailedRequest | None = None
    """What it was asked last and did not answer; null where it answers, or is not registered."""

    @classmethod
    def of(cls, status: BrokerStatus) -> BrokerAnswer:
        """As the API says it."""
        one = status.broker
        seen = status.answered_ms, status.stale, status.problem, status.failed
        return cls(one.id, one.host, one.port, one.rack, *seen)

    def status(self) -> BrokerStatus:
        """The value that this says."""
        broker, failed = Broker(self.id, self.host, self.port, self.rack), self.failed
        if failed is None and self.problem and broker.host:
            # An older backend says it in words alone.
            failed = FailedRequest(self.problem, self.id)
        return BrokerStatus(broker, self.answered_ms, self.stale, failed)


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers."""

    version: int
    """Of the snapshot; it grows."""
    brokers: tuple[BrokerAnswer, ...]
