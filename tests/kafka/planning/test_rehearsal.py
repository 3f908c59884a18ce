"""A rehearsal compared with the same move on real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers.launcher import RealKafka
from tests.support.placement.rehearsed_moves import compare

NEAR = 0.4
"""The bench says how near it comes on a quiet machine; further off than this it is a defect."""


@pytest.fixture
def kafka() -> Iterator[RealKafka]:
    """Brokers of its own: what others left behind on the shared ones would take part."""
    with RealKafka() as brokers:
        yield brokers


@pytest.mark.kafka
@pytest.mark.own_brokers
def test_a_throttled_move_takes_as_long_as_it_did_in_the_twin(
    kafka: RealKafka, tmp_path: Path
) -> None:
    (found,) = compare(kafka, tmp_path, (6, 6, 6, 6), (500_000,))
    assert abs(found.error) <= NEAR, found
