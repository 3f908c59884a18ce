"""Proposals over the end of a backend: killed between approving and acting, and taken over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import AwaitsApproval, BackendError, BackendUnreachable
from tests.support.access.team import clients_of, make_tokens
from tests.support.embedded.background import Running, running
from tests.support.faults.truth_ground import untrue_of
from tests.support.ports import free_ports
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 40.0


@pytest.fixture
def cluster() -> Iterator[Running]:
    configs = {"delete.topic.partition.enable": "true"}
    with running(ClusterSpec(plain_brokers(3), static=configs)) as handle:
        create_topic(handle.bootstrap_servers, "orders", [[1, 2], [2, 3], [3, 1]])
        yield handle


@contextmanager
def backend(
    cluster: Running, folder: Path, name: str, tokens: Mapping[str, str], *flags: str
) -> Iterator[tuple[subprocess.Popen[str], Mapping[str, BackendClient]]]:
    """A backend in a process of its own, and a client of each person."""
    port = free_ports(1)[0]
    words = [cluster.bootstrap_servers, str(port), str(folder / "tokens.json"), *flags]
    with (folder / f"{name}.log").open("w") as log, ExitStack() as stack:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.operations.approval_backend", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        stack.callback(process.wait, DEADLINE_S)
        stack.callback(process.kill)
        assert process.stdout is not None
        stack.callback(process.stdout.close)
        said = process.stdout.readline()
        assert "kshunt serves" in said, (folder / f"{name}.log").read_text()
        yield process, stack.enter_context(clients_of(f"http://127.0.0.1:{port}", tokens))


def propose(client: BackendClient) -> str:
    with pytest.raises(AwaitsApproval) as awaits:
        client.shrinks.delete_partitions({"orders": DeletePartitions(1)}, Change(reason="too many"))
    return awaits.value.proposal_id


def count_of(client: BackendClient) -> int:
    (described,) = client.topics.describe(["orders"], configs=False).topics
    return len(described.partitions)


def state_of(client: BackendClient, id: str) -> str:
    """Empty where it is not known, as to a backend that has read nothing yet."""
    return next((one.state for one in client.proposals.list() if one.id == id), "")


def test_killed_between_approving_and_acting(cluster: Running, tmp_path: Path) -> None:
    tokens = make_tokens(tmp_path / "tokens.json")
    with backend(cluster, tmp_path, "one", tokens, "--ends") as (process, one):
        id = propose(one["ada"])
        with pytest.raises(BackendUnreachable):
            one["bob"].proposals.approve(id)
        assert process.wait(DEADLINE_S) == -9
    with backend(cluster, tmp_path, "two", tokens) as (_, two):
        wait_until(
            lambda: state_of(two["ada"], id) == "failed", DEADLINE_S, "what is left is closed"
        )
        (closed,) = [one for one in two["ada"].proposals.list() if one.id == id]
        assert "nothing was changed" in closed.outcome
        assert (closed.settled_by, closed.actions) == ("bob", ())
        with pytest.raises(BackendError, match="used once"):
            two["bob"].proposals.approve(id)
        assert count_of(two["ada"]) == 3
        assert two["ada"].operations.list() == ()
        assert untrue_of(two["ada"], cluster.bootstrap_servers, "orders") == []
        assert [line.event for line in two["ada"].audit.lines()] == [
            "proposed",
            "approved",
            "carried_out",
        ]


def test_another_backend_takes_over_what_waits(cluster: Running, tmp_path: Path) -> None:
    tokens = make_tokens(tmp_path / "tokens.json")
    with ExitStack() as stack:
        process, one = stack.enter_context(backend(cluster, tmp_path, "one", tokens))
        id = propose(one["ada"])
        _, two = stack.enter_context(backend(cluster, tmp_path, "two", tokens))
        # A follower shows the same, and forwards what changes it.
        wait_until(lambda: two["bob"].proposals.list(), DEADLINE_S, "the follower has read it")
        with pytest.raises(BackendError, match="another person"):
            two["ada"].proposals.approve(id)
        other = propose(two["bob"])
        wait_until(
            lambda: other in {one.id for one in two["bob"].proposals.list()},
            DEADLINE_S,
            "it is there",
        )
        process.kill()
        process.wait(DEADLINE_S)

        def approved() -> bool:
            # Refused until the one that ended has been silent for long enough.
            with suppress(BackendError):
                two["bob"].proposals.approve(id)
            return state_of(two["bob"], id) == "done"

        wait_until(approved, DEADLINE_S, "the other one acts")
        wait_until(lambda: count_of(two["ada"]) == 1, DEADLINE_S, "the topic is smaller")
        assert state_of(two["ada"], id) == "done"
        assert untrue_of(two["ada"], cluster.bootstrap_servers, "orders") == []
        with pytest.raises(BackendError):
            two["bob"].proposals.approve(other)
