"""The brokers of the story."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.launcher import RealKafka


@pytest.fixture(scope="package")
def kafka() -> Iterator[RealKafka]:
    """Three real brokers that end with the story: idle ones cost the rest of the run a lot."""
    with RealKafka() as cluster:
        yield cluster
