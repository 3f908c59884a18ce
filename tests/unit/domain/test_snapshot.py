"""A snapshot as a whole: whether any broker answers, and for how long none has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import Broker
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import BrokerStatus, Snapshot
from tests.support.tui.cluster import incident

TAKEN_MS = 100_000


def snapshot(*answered: tuple[bool, int | None]) -> Snapshot:
    """Of brokers that are stale or not, and when each answered last."""
    statuses = {
        number: BrokerStatus(Broker(number, "b", 1), answered_ms=at_ms, stale=stale)
        for number, (stale, at_ms) in enumerate(answered)
    }
    return replace(incident().snapshot(), brokers=statuses, taken_ms=TAKEN_MS)


@pytest.mark.parametrize(
    ("answered", "unseen_ms"),
    [
        ((), 0),
        (((False, 90_000),), 0),
        (((True, 90_000), (False, 50_000)), 0),
        (((True, 90_000),), 10_000),
        (((True, 90_000), (True, 95_000), (True, None)), 5_000),
        (((True, None),), 0),
        (((True, 100_001),), 0),
    ],
)
def test_how_long_nobody_has_answered(
    answered: tuple[tuple[bool, int | None], ...], unseen_ms: int
) -> None:
    assert snapshot(*answered).unseen_ms == unseen_ms


def test_partitions_that_leave_are_told_by_their_first_replica() -> None:
    base = incident().snapshot()
    mode = np.zeros(len(base.replicas), np.int8)
    first = int(np.flatnonzero(base.replicas.position == 0)[1])
    mode[first] = PartitionMode.READ_ONLY
    leaving = replace(base, replicas=replace(base.replicas, mode=mode)).leaving()
    assert leaving == {base.partition_of(first): PartitionMode.READ_ONLY}
    assert base.leaving() == {}
