"""A durable shrink by HTTP: what is refused, what is started, and who agrees to its cut-over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkProgress, ShrinkRequest
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BackendError
from tests.support.admin import fresh_name
from tests.support.embedded.background import Running, running
from tests.support.serving import serving
from tests.support.shrink.check import write
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
HOUR_MS = 3_600_000
"""Nobody waits for it: the shrinks of these tests come no further than to wait for writers."""


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    """One that cannot delete partitions itself."""
    return ClusterSpec(plain_brokers(3), native=False)


@pytest.fixture
def topic(embedded: Running) -> str:
    name = fresh_name("shrink")
    create_topic(embedded.bootstrap_servers, name, [[1, 2], [2, 3], [3, 1]])
    write(embedded.bootstrap_servers, name, dict.fromkeys(range(3), 2))
    return name


def post(client: BackendClient, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = client.sender.exchange("POST", path, body, endless=False)
    return answer.status, json.loads(answer.content)


def operation_of(client: BackendClient, id: str) -> Operation:
    (found,) = [one for one in client.operations.list() if one.id == id]
    return found


def progress_of(client: BackendClient, id: str) -> ShrinkProgress:
    progress = operation_of(client, id).details.shrink
    assert progress is not None
    return progress


def test_a_rehearsal_says_what_would_be_done_and_records_nothing(
    client: BackendClient, topic: str
) -> None:
    before = client.operations.list()
    answer = client.shrinks.start(ShrinkRequest(topic, 1, HOUR_MS), Change(validate_only=True))
    assert (answer.validate_only, answer.operation_id) == (True, None)
    assert [one.item for one in answer.results] == [topic]
    assert any("POINT OF NO RETURN" in note for note in answer.notes)
    into = ShrinkRequest(topic, 1, HOUR_MS, CutOver.NEW_NAME, f"{topic}-small")
    answer = client.shrinks.start(into, Change(validate_only=True))
    assert not any("POINT OF NO RETURN" in note for note in answer.notes)
    assert client.operations.list() == before


def test_a_shrink_is_started_watched_and_taken_back(client: BackendClient, topic: str) -> None:
    answer = client.shrinks.start(
        ShrinkRequest(topic, 1, HOUR_MS), Change(who="ada@bastion", reason="too many")
    )
    id = answer.operation_id or ""
    operation = operation_of(client, id)
    assert (operation.kind, operation.who, operation.reason) == (
        "shrink",
        "ada@bastion",
        "too many",
    )
    wait_until(
        lambda: progress_of(client, id).phase is ShrinkPhase.QUIESCE,
        DEADLINE_S,
        "it waits for quiet",
    )
    progress = progress_of(client, id)
    assert (progress.topic, progress.current, progress.wanted) == (topic, 3, 1)
    assert not progress.past_no_return

    with pytest.raises(BackendError, match="already") as again:
        client.shrinks.start(ShrinkRequest(topic, 2, HOUR_MS))
    assert again.value.status == 409
    with pytest.raises(BackendError, match="Nothing was changed") as early:
        client.shrinks.confirm(id, topic)
    assert early.value.status == 409

    client.operations.pause(id, Change(who="bob@laptop"))
    wait_until(
        lambda: operation_of(client, id).state is OperationState.PAUSED, DEADLINE_S, "it is paused"
    )
    client.operations.resume(id)
    client.operations.cancel(id, Change(who="ada@bastion", reason="not today"))
    wait_until(lambda: operation_of(client, id).state.ended, DEADLINE_S, "it is taken back")
    assert operation_of(client, id).state is OperationState.CANCELLED
    (described,) = client.topics.describe([topic], configs=False).topics
    assert len(described.partitions) == 3
    lines = client.audit.lines(id)
    assert ("ada@bastion", "too many") in {(line.who, line.reason) for line in lines}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "total_count"),
        ({"total_count": -1}, 400, "total_count"),
        ({"total_count": 1.5}, 400, "total_count"),
        ({"total_count": "2"}, 400, "total_count"),
        ({"total_count": 2, "delay_ms": -1}, 400, "delay_ms"),
        ({"total_count": 2, "delay_ms": 2**60}, 400, "delay_ms"),
        ({"total_count": 2, "cut_over": "soon"}, 400, "cut_over"),
        ({"total_count": 2, "insisted": ["No Code"]}, 400, "insisted"),
        ({"total_count": 2, "target": "a/b"}, 400, "target"),
        ({"total_count": 2, "immediate": True}, 400, "immediate"),
        ({"total_count": 0}, 422, "at least one"),
        ({"total_count": 3}, 422, "would not be fewer"),
        ({"total_count": 2, "target": "other"}, 422, "keep its name"),
        ({"total_count": 2, "cut_over": "new-name"}, 422, "target"),
        ({"total_count": 2, "cluster_id": "another"}, 409, "another"),
    ],
)
@pytest.mark.parametrize("validate_only", [True, False])
def test_what_cannot_be_meant_is_refused_in_words(
    client: BackendClient,
    topic: str,
    body: dict[str, Any],
    status: int,
    said: str,
    validate_only: bool,
) -> None:
    found, problem = post(client, f"/v1/topics/{topic}/shrink", **body, validate_only=validate_only)
    assert (found, said in problem["detail"]) == (status, True), problem
    assert not any(topic in one.summary for one in client.operations.list())


def test_topics_that_must_not_shrink_are_refused(client: BackendClient) -> None:
    for topic in ("no-such-topic", "__consumer_offsets", "__kshunt_journal"):
        with pytest.raises(BackendError, match=r"(?i)nothing was changed") as refused:
            client.shrinks.start(ShrinkRequest(topic, 1, 0))
        assert refused.value.status in (404, 409, 422)


@pytest.mark.parametrize(
    ("id", "body", "status"),
    [
        ("nosuch", {"typed": "orders"}, 422),
        ("nosuch", {}, 400),
        ("nosuch", {"typed": 3}, 400),
        ("nosuch", {"typed": "x" * 250}, 400),
        ("x" * 65, {"typed": "orders"}, 400),
        ("nosuch", {"typed": "orders", "cluster_id": "another"}, 409),
    ],
)
def test_a_name_for_nothing_is_refused(
    client: BackendClient, id: str, body: dict[str, Any], status: int
) -> None:
    found, problem = post(client, f"/v1/operations/{id}/confirm", **body)
    assert found == status, problem


def test_a_cluster_that_deletes_partitions_itself_copies_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running(
        ClusterSpec(plain_brokers(1), static={"delete.topic.partition.enable": "true"})
    ) as handle:
        create_topic(handle.bootstrap_servers, "t", [[1], [1]])
        folder = tmp_path_factory.mktemp("native")
        with serving(handle.bootstrap_servers, folder) as address, BackendClient(address) as found:
            with pytest.raises(BackendError, match="Nothing was changed") as refused:
                found.shrinks.start(ShrinkRequest("t", 1, 0))
            assert refused.value.status == 409
