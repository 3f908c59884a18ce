"""The one story that every run tells: a throttled move is started, watched and ended.

A backend of its own process serves the cluster, once embedded and once on three real brokers. The
operator uses the tool and nothing else; a client looks at what the cluster is set to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import format_plan
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.tools.reassign import command
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.background import running
from tests.support.serving import serving
from tests.support.tools import Tool, run_with, write
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
TOPIC = "orders"
MOVED = TopicPartition(TOPIC, 0)
RECORDS, RECORD_BYTES = 60, 100_000
SLOW, FAST = 200_000, 100_000_000
"""Rates in bytes a second: the move takes 30 s at the first one, and no time at the other."""
DONE, NOT_YET = 0, 2
"""What the tool's exit codes say."""


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kafka":
        kafka: RealKafka = request.getfixturevalue("kafka")
        yield kafka.bootstrap_servers
        return
    with running(ClusterSpec(brokers=plain_brokers(3))) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def address(bootstrap: str, tmp_path: Path) -> Iterator[str]:
    create_topic(bootstrap, TOPIC, [[1], [2]])
    produce(bootstrap, TOPIC, RECORDS, RECORD_BYTES, partition=MOVED.partition)
    with serving(bootstrap, tmp_path) as address:
        yield address


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    return run_with(command.main, capsys)


def test_a_throttled_move_is_started_watched_and_ended(
    address: str, tool: Tool, tmp_path: Path
) -> None:
    plan = write(tmp_path, "plan.json", format_plan({MOVED: (3,)}))

    def ask(action: str, *more: str) -> tuple[int, str]:
        code, out, err = tool(action, "--backend", address, "--reassignment-json-file", plan, *more)
        return code, out + err

    with BackendClient(address) as client:
        before = client.throttles.list()
        code, said = ask("--execute", "--throttle", str(SLOW))
        assert code == DONE
        assert f"Successfully started partition reassignment for {MOVED}" in said
        throttles = client.throttles.list()
        assert throttles.rates[1].rate.leader_bytes_per_s == SLOW
        assert throttles.rates[3].rate.follower_bytes_per_s == SLOW
        assert [*throttles.replicas] == [TOPIC]

        code, said = ask("--progress")
        assert code == NOT_YET
        assert "Behind:" in said
        [operation] = client.operations.list()
        assert not operation.state.ended

        code, said = ask("--execute", "--additional", "--throttle", str(FAST))
        assert code == DONE
        assert f"Operation {operation.id} already moves 1 partition of this plan." in said
        assert f"Already moving, and not started again: {MOVED}" in said
        assert [one.id for one in client.operations.list()] == [operation.id]
        assert client.throttles.list().rates[3].rate == ThrottledRate(FAST, FAST)
        wait_until(lambda: ask("--verify")[0] == DONE, DEADLINE_S, "the move is done")
        wait_until(lambda: client.throttles.list() == before, DEADLINE_S, "the throttle is gone")
        wait_until(
            lambda: all(one.state.ended for one in client.operations.list()),
            DEADLINE_S,
            "it is told",
        )
        assert client.reassignments.list() == ()
        assert ask("--progress")[0] == DONE
