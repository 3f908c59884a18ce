"""The real clusters that the tests of one folder share.

pytest makes such a fixture once for each folder whose `conftest.py` imports it. It ends the fixture
as soon as another folder's tests come: idle brokers take a tenth of a processor.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.launcher import RealKafka
from tests.support.brokers.zookeeper import ZooKeeperKafka


@pytest.fixture(scope="package")
def kafka() -> Iterator[RealKafka]:
    """Three real brokers, shared: a test names its own topics and undoes what it alters."""
    with RealKafka() as cluster:
        yield cluster


@pytest.fixture(scope="package")
def zookeeper() -> Iterator[ZooKeeperKafka]:
    """Three brokers that keep their metadata in a ZooKeeper, shared likewise."""
    with ZooKeeperKafka() as cluster:
        yield cluster
