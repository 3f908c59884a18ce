"""Changes on a cluster where partitions finish all the time: each preview still holds.

The scenarios run at full speed. Each change is previewed, and then sent with the fingerprint of
its preview, as the dashboard does it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.throttles.configs import (
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
)
from kshunt.backend.embedded.scenario.reading import load_scenario
from kshunt.backend.errors import BackendError
from tests.support.embedded.background import running
from tests.support.serving import serving
from tests.support.waiting import wait_until

T = TypeVar("T")

CHANGES: Final = int(os.environ.get("KSHUNT_CHANGES", "10"))
"""Of each kind; KSHUNT_CHANGES=50 makes them that many."""
DEADLINE_S: Final = 60.0
RATE: Final = 60_000_000
LISTED: Final = {"drain": "metrics", "rack-loss": "audit-log"}
"""Topics whose throttled replicas are edited."""
DRAINED: Final = {"drain": 7, "rack-loss": 9}


def accepted(send: Callable[[], T]) -> T:
    """What was answered to a preview and its change; both anew where brokers that crash hold up
    the journal, for the change may have been made, or may still be.

    Raises:
        BackendError: the preview is out of date, and no change of this call can be why.
    """
    answers: list[T] = []
    in_doubt: list[BackendError] = []

    def is_sent() -> bool:
        try:
            answers.append(send())
        except BackendError as refused:
            if "since the preview" in refused.message and not in_doubt:
                raise
            in_doubt.append(refused)
        return bool(answers)

    wait_until(is_sent, DEADLINE_S, "the journal takes it")
    return answers[0]


@pytest.fixture(params=sorted(LISTED), scope="module")
def busy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, BackendClient]]:
    """The scenario's name, and a backend of the cluster that plays it."""
    with (
        running(load_scenario(request.param)) as cluster,
        serving(cluster.bootstrap_servers, tmp_path_factory.mktemp("busy")) as address,
        BackendClient(address) as client,
    ):
        wait_until(lambda: bool(client.reassignments.list()), DEADLINE_S, "the move is under way")
        yield request.param, client


def test_rates_are_changed_while_partitions_finish(busy: tuple[str, BackendClient]) -> None:
    scenario, client = busy
    broker = DRAINED[scenario]
    before = len(client.reassignments.list())

    def change(number: int) -> ChangeAnswer:
        rates = {broker: ThrottledRate(RATE + number, RATE + number)}
        preview = client.previews.throttle(rates).fingerprint
        return client.throttles.alter_rates(rates, Change(preview=preview))

    for number in range(CHANGES):
        assert not accepted(partial(change, number)).failures
    assert client.throttles.list().rates[broker].rate.leader_bytes_per_s == RATE + CHANGES - 1
    if scenario == "drain":
        assert len(client.reassignments.list()) < before, "partitions finished meanwhile"


def test_lists_are_edited_while_partitions_finish(busy: tuple[str, BackendClient]) -> None:
    scenario, client = busy
    topic = LISTED[scenario]

    def change(number: int) -> ChangeAnswer:
        present = client.throttles.list().replicas.get(topic, ThrottledReplicas())
        pairs = present.leaders.pairs ^ {(number % 5, DRAINED[scenario])}
        lists = {topic: ThrottledReplicas(ReplicaSet(pairs), present.followers)}
        preview = client.previews.throttle(replicas=lists).fingerprint
        return client.throttles.alter_replicas(lists, Change(preview=preview))

    for number in range(CHANGES):
        assert not accepted(partial(change, number)).failures


def test_leaders_are_elected_while_partitions_finish(busy: tuple[str, BackendClient]) -> None:
    _, client = busy

    def elect() -> bool:
        preview = client.previews.elect(None)
        change = Change(preview=preview.fingerprint)
        answer = client.elections.elect_preferred_leaders(None, change)
        return bool(answer.operation_id) or not preview.leaders_moving

    for _ in range(CHANGES):
        assert accepted(elect)
