"""The brokers, and a backend of theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from tests.support.brokers.launcher import RealKafka
from tests.support.brokers.shared import kafka as kafka
from tests.support.serving import serving


@pytest.fixture(scope="package")
def backend_address(kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A `kshunt serve` of its own process for the shared cluster, on a Unix-domain socket."""
    with serving(kafka.bootstrap_servers, tmp_path_factory.mktemp("backend")) as address:
        yield address


@pytest.fixture
def client(backend_address: str) -> Iterator[BackendClient]:
    """A client of that backend."""
    with BackendClient(backend_address) as connected:
        yield connected
