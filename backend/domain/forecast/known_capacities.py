"""What somebody said that brokers carry, for copies of which nothing was seen yet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kshunt.backend.domain.forecast.capacities import Ways
from kshunt.backend.domain.forecast.limits import Limits
from kshunt.backend.domain.replicas.expected_end_values import ResourceKind


@dataclass(frozen=True, slots=True)
class Spare:
    """What a broker has left for copies; `math.inf` is no limit."""

    sending_bytes_per_s: float = math.inf
    receiving_bytes_per_s: float = math.inf


def with_spare(found: Ways, limits: Limits, spare: Mapping[int, Spare]) -> Ways:
    """The same ways, which pass what brokers are said to carry; others have no limit."""
    passes, capacity = found.passes.copy(), found.capacity.copy()
    said = [spare.get(broker, Spare()) for broker in limits.brokers.tolist()]
    for column, kind, rates in (
        (2, ResourceKind.SENDING, [one.sending_bytes_per_s for one in said]),
        (3, ResourceKind.RECEIVING, [one.receiving_bytes_per_s for one in said]),
    ):
        block = slice(limits.first(kind), limits.first(kind) + len(said))
        capacity[block] = np.minimum(capacity[block], rates)
        number = limits.number(kind)
        passes[:, column] = np.where(np.isfinite(capacity[number]), number, passes[:, column])
    endless = np.logical_and.reduce(np.isinf(capacity[passes]), axis=1)
    return replace(
        found,
        passes=passes,
        capacity=capacity,
        unmeasured=found.unmeasured & endless,
        unbounded=found.unbounded & endless,
    )
