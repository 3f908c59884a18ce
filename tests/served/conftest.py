"""The brokers, what tests of the command-line tools begin with, and a served embedded cluster.

A module that needs another cluster has a `spec` or an `embedded` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from tests.support.brokers.shared import kafka as kafka
from tests.support.embedded.background import Running, running
from tests.support.serving import serving
from tests.support.tools import own_runtime_dir as own_runtime_dir
from tests.support.tools import stub as stub


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    """Of the embedded cluster."""
    return ClusterSpec(plain_brokers(4))


@pytest.fixture(scope="module")
def embedded(spec: ClusterSpec) -> Iterator[Running]:
    with running(spec) as handle:
        yield handle


@pytest.fixture(scope="module")
def bootstrap(embedded: Running) -> str:
    return embedded.bootstrap_servers


@pytest.fixture(scope="module")
def address(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a backend of its own process, on a Unix-domain socket."""
    with serving(bootstrap, tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[BackendClient]:
    with BackendClient(address) as found:
        yield found
