"""How a topic is to be altered (KIP-179's early draft, AlteredTopic)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

UNCHANGED: Final = -1
"""A count that stays as it is."""


@dataclass(frozen=True, slots=True)
class AlteredTopic:
    """What a request changes of a topic."""

    partitions: int = UNCHANGED
    """How many partitions it will have."""
    replication_factor: int = UNCHANGED
    """How many replicas each partition will have."""
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Brokers by partition, the preferred leader first; empty to have the cluster place what is
    to be placed."""
