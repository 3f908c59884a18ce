"""The clusters of the contract, an admin of each, and the places of journals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from kshunt.backend.admin.connect import Reached
from tests.support.admin import connected, unthrottle
from tests.support.brokers.shared import kafka as kafka
from tests.support.brokers.shared import zookeeper as zookeeper
from tests.support.clusters import FLAVOURS, ContractCluster, flavours, found
from tests.support.operations.journal import Where, embedded_cluster, where_of


@pytest.fixture(scope="module", params=flavours(FLAVOURS))
def cluster(request: pytest.FixtureRequest) -> Iterator[ContractCluster]:
    """Each cluster of the contract in turn: embedded, with the seeds' RPCs or not, and Kafka."""
    with found(request, request.param) as one:
        yield one


@pytest.fixture
async def admin(cluster: ContractCluster) -> AsyncIterator[Reached]:
    """An admin of the cluster; no broker keeps a rate after the test."""
    async with connected(cluster.bootstrap_servers) as admin:
        try:
            yield admin
        finally:
            await unthrottle(admin, cluster.broker_ids)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Where]:
    """An embedded cluster, of one file."""
    with embedded_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def where(request: pytest.FixtureRequest) -> Where:
    """The embedded cluster, and real Kafka."""
    return where_of(request)
