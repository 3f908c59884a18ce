"""Which configuration limits what copies pass through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kshunt.backend.domain.replicas.expected_end_values import ResourceKind
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE

RATE_KEYS: Final[Mapping[ResourceKind, str]] = {
    ResourceKind.LEADER_THROTTLE: LEADER_RATE,
    ResourceKind.FOLLOWER_THROTTLE: FOLLOWER_RATE,
}
"""The configuration of a broker that limits a resource."""
