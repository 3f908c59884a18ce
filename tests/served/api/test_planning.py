"""Plans and rehearsals that a backend works out, over a real socket, on the embedded cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.deadlines import holds
from kshunt.backend.domain.planning.goals import Goal
from kshunt.backend.domain.planning.requests import PlanRequest, RehearsalRequest
from kshunt.backend.errors import BackendError
from tests.support.topics import create_topic


@pytest.fixture(scope="module")
def bootstrap(bootstrap: str) -> str:
    create_topic(bootstrap, "orders", [[1, 2], [2, 3], [3, 1]])
    return bootstrap


def test_a_drain_is_proposed_with_its_preview(client: BackendClient) -> None:
    answer = client.plans.propose(PlanRequest(Goal.DRAIN, (1,), topics=("orders",)))
    assert sorted(answer.proposal.targets) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 2),
    ]
    assert all(1 not in target for target in answer.proposal.targets.values())
    assert answer.proposal.before[TopicPartition("orders", 0)] == (1, 2)
    rows = {row.broker: row for row in answer.impact.brokers}
    assert rows[1].replicas_before - rows[1].replicas_after == 2
    assert answer.cluster_id == client.cluster().cluster_id
    assert answer.plan.cluster_id == answer.cluster_id


def test_a_proposal_is_rehearsed(client: BackendClient) -> None:
    answer = client.plans.propose(PlanRequest(Goal.DRAIN, (1,), topics=("orders",)))
    targets = answer.proposal.targets
    deadline_ms = SystemClock().now_ms() + 3_600_000
    request = RehearsalRequest(targets, (None, 1_000_000), deadline_ms=deadline_ms)
    found = client.plans.rehearse(request)
    assert found.deadline is not None
    asked = [None, 1_000_000, found.deadline.throttle_bytes_per_s]
    assert [each.throttle_bytes_per_s for each in found.rehearsals] == asked
    assert [each.throttle_bytes_per_s for each in found.forecasts] == asked
    for each in found.rehearsals:
        assert each.finish_s is not None
        assert each.done_s.keys() == targets.keys()
        assert each.timeline.disk_bytes.shape == (len(each.timeline), len(each.brokers))
    assert found.deadline.possible
    assert holds(found.forecasts[2].end, deadline_ms)
    quick = client.plans.rehearse(replace(request, quick=True))
    assert quick.rehearsals == ()
    assert [each.throttle_bytes_per_s for each in quick.forecasts][:2] == asked[:2]
    with pytest.raises(BackendError, match="already over"):
        client.plans.rehearse(RehearsalRequest(targets, deadline_ms=1))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (PlanRequest(Goal.DRAIN, (99,)), "99"),
        (PlanRequest(Goal.REPLACE, (1, 1)), "cannot replace itself"),
        (PlanRequest(Goal.DRAIN, (1,), topics=("nothing",)), "topic"),
        (PlanRequest(Goal.REPLICATION_FACTOR, factors={"none*": 2}), "none*"),
        (PlanRequest(Goal.MOVE_LOG_DIRS, (1,), directories=("/not/there",)), "/not/there"),
    ],
)
def test_what_cannot_be_planned_is_said(
    client: BackendClient, question: PlanRequest, words: str
) -> None:
    with pytest.raises(BackendError, match=words.replace("*", r"\*")) as caught:
        client.plans.propose(question)
    assert caught.value.status == 422


def test_a_move_that_cannot_start_is_not_rehearsed(client: BackendClient) -> None:
    targets = {TopicPartition("orders", 0): (1, 77)}
    with pytest.raises(BackendError, match="77"):
        client.plans.rehearse(RehearsalRequest(targets, (None,)))


def test_a_plan_for_another_cluster_is_not_rehearsed(client: BackendClient, tmp_path: Path) -> None:
    body = {
        "plan": {
            "version": 1,
            "cluster_id": "another",
            "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}],
        },
        "throttles_bytes_per_s": [None],
    }
    with pytest.raises(BackendError) as caught:
        client.sender.post("/v1/rehearsals", body)
    assert caught.value.status == 409
