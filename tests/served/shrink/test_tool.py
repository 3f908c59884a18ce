"""`kshunt kafka-topics` with fewer partitions, on a cluster that has to copy the topic for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.tools.topics.command import main
from tests.support.embedded.background import running
from tests.support.serving import serving
from tests.support.shrink.check import write
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

HOUR_MS = "3600000"
"""Nobody waits for it: the shrink comes no further than to wait for writers."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with running(ClusterSpec(plain_brokers(3), native=False)) as handle:
        create_topic(handle.bootstrap_servers, "orders", [[1, 2], [2, 3], [3, 1]])
        write(handle.bootstrap_servers, "orders", dict.fromkeys(range(3), 2))
        yield handle.bootstrap_servers


def alter(*words: str) -> int:
    wanted = ["--alter", "--topic", "orders", "--partitions", "2"]
    return main([*words, *wanted, "--delete-partitions-delay", HOUR_MS])


def test_it_says_what_would_be_done(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert alter("--bootstrap-server", servers, "--validate-only") == 0
    said = capsys.readouterr().out
    assert "orders: 3 partitions become 2, through orders.kshunt-ID" in said
    assert "POINT OF NO RETURN" in said
    assert said.endswith("Nothing was changed.\n")


def test_it_begins_the_operation_and_says_where_to_go_on(
    servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(servers, tmp_path) as address, BackendClient(address) as client:
        assert alter("--backend", address, "--reason", "too many") == 0
        (operation,) = client.operations.list()
        assert (operation.kind, operation.reason) == (OperationKind.SHRINK, "too many")
        said = capsys.readouterr().out
        assert f"Operation {operation.id} has started." in said
        assert f"kshunt --backend {address}" in said
        # Not twice.
        assert alter("--backend", address, "--json") == 1
        assert "already" in json.loads(capsys.readouterr().out)["error"]["detail"]
        client.operations.cancel(operation.id)
        wait_until(lambda: client.operations.list()[0].state.ended, 60, "it is taken back")
