"""The backend on real Kafka: what it reports of a move, and what it leaves behind."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.api.client.events import Event
from kshunt.backend.api.schema.frames.snapshot_writer import MEDIA_TYPE
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import ReplicaStatus, Snapshot
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.errors import BackendError
from tests.support.brokers.launcher import RealKafka
from tests.support.clients import (
    MOVE_DEADLINE_S,
    lift,
    operation_of,
    rows_of,
    wait_for_end,
    watching,
)
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka
names = itertools.count()

RECORD_BYTES = 10_000


@pytest.fixture
def topic(kafka: RealKafka) -> str:
    """Two partitions of 6 MB each on broker 1."""
    name = f"backend-{next(names)}"
    create_topic(kafka.bootstrap_servers, name, [[1], [1]])
    for partition in (0, 1):
        produce(kafka.bootstrap_servers, name, 600, RECORD_BYTES, partition)
    return name


def plan_of(topic: str, *targets: tuple[int, ...]) -> ReassignmentPlan:
    return ReassignmentPlan({TopicPartition(topic, i): t for i, t in enumerate(targets)})


@pytest.fixture(scope="module", autouse=True)
def nothing_left_by_others(backend_address: str) -> Iterator[None]:
    """Throttles that other modules left on the shared cluster are not these tests' business."""
    with BackendClient(backend_address) as client:
        lift(client)
        yield
        lift(client)


@pytest.mark.conforms("kip-179:verify-not-needed")
def test_a_throttled_move_is_watched_steered_and_cleaned_up(
    client: BackendClient, backend_address: str, topic: str
) -> None:
    plan = plan_of(topic, (2,), (3,))
    with watching(backend_address) as seen:
        answer = client.reassignments.start(plan, throttle_bytes_per_s=300_000)
        assert answer.failures == ()
        assert answer.rollback_plan is not None
        assert [entry["replicas"] for entry in answer.rollback_plan["partitions"]] == [[1], [1]]
        wait_until(lambda: _is_behind(seen, topic), 60, "the stream shows the copy behind")
        present = client.throttles.list()
        assert present.rates[2].rate == ThrottledRate(300_000, 300_000)
        assert present.replicas[topic] == ThrottledReplicas(
            ReplicaSet.parse("0:1,1:1"), ReplicaSet.parse("0:2,1:3")
        )
        # At the faster rate too little is left to forecast an end.
        wait_until(lambda: _has_an_end(seen, topic), 60, "the stream shows when the copies end")
        faster = ThrottledRate(1_000_000, 1_000_000)
        changed = client.throttles.alter_rates(dict.fromkeys((1, 2, 3), faster))
        assert changed.failures == ()
        assert any("restores the earlier rates" in note for note in changed.notes)
        operation = wait_for_end(client, answer)
        wait_until(lambda: _has_arrived(seen, topic), 60, "the stream shows the end of the move")
    assert operation.state is OperationState.DONE
    assert operation.outcome == "2 of 2 where the plan wants them, throttle removed"
    _nothing_is_throttled(client, topic)
    assert len(_lags_of_copies(seen, topic)) >= 2
    _throttles_were_shown(seen, topic)
    remaining = [point.remaining_bytes for point in seen[-1].history]
    assert remaining[-1] == 0
    assert max(remaining) > 1_000_000


def _is_behind(seen: list[Snapshot], topic: str) -> bool:
    if not seen:
        return False
    rows = rows_of(seen[-1], topic)
    return bool((seen[-1].replicas.lag_messages[rows] > 0).any())


def _has_arrived(seen: list[Snapshot], topic: str) -> bool:
    rows = rows_of(seen[-1], topic)
    return sorted(seen[-1].replicas.broker[rows]) == [2, 3] and not _is_behind(seen, topic)


def _nothing_is_throttled(client: BackendClient, topic: str) -> None:
    """Brokers follow the controller's configuration a moment later, so this waits for them."""

    def nothing() -> bool:
        present = client.throttles.list()
        rates = {rate.rate for rate in present.rates.values()}
        return topic not in present.replicas and rates == {ThrottledRate(None, None)}

    wait_until(nothing, 60, f"no rate and no replica of {topic} is throttled")


def _lags_of_copies(seen: list[Snapshot], topic: str) -> set[int]:
    """Every lag between a copy's beginning and its end that the stream has shown."""
    lags: set[int] = set()
    for snapshot in seen:
        lags |= {int(lag) for lag in snapshot.replicas.lag_messages[_copying(snapshot, topic)]}
    return {lag for lag in lags if 0 < lag < 600}


def _has_an_end(seen: list[Snapshot], topic: str) -> bool:
    etas_s = seen[-1].replicas.eta_s[_copying(seen[-1], topic)]
    return bool((np.isfinite(etas_s) & (etas_s > 0)).any())


def _copying(snapshot: Snapshot, topic: str) -> NDArray[np.int64]:
    """The rows of replicas that copy. One that stays may fall out of the ISR on a busy machine."""
    rows = rows_of(snapshot, topic)
    behind = snapshot.replicas.status[rows] == ReplicaStatus.BEHIND
    copying: NDArray[np.int64] = rows[behind & snapshot.replicas.adding[rows]]
    return copying


def _throttles_were_shown(seen: list[Snapshot], topic: str) -> None:
    shown = [s for s in seen if s.replicas.follower_throttled[rows_of(s, topic)].any()]
    assert shown
    assert any(s.throttles.rates[2].rate.leader_bytes_per_s == 300_000 for s in shown)
    assert any(s.throttles.rates[2].rate.leader_bytes_per_s == 1_000_000 for s in shown)


def test_prior_throttles_come_back(client: BackendClient, topic: str) -> None:
    theirs = ThrottledRate(90_000_000, 80_000_000)
    client.throttles.alter_rates({2: theirs})
    listed = ThrottledReplicas(ReplicaSet.parse("1:1"), ReplicaSet())
    client.throttles.alter_replicas({topic: listed})
    try:
        answer = client.reassignments.start(plan_of(topic, (2,)), throttle_bytes_per_s=20_000_000)
        wait_for_end(client, answer)
        present = client.throttles.list()
        assert present.rates[2].rate == theirs
        assert present.rates[1].rate == ThrottledRate(None, None)
        assert present.replicas[topic] == listed
    finally:
        client.throttles.alter_replicas({topic: ThrottledReplicas()})
        lift(client)


def test_a_throttle_that_shall_stay_stays(client: BackendClient, topic: str) -> None:
    answer = client.reassignments.start(
        plan_of(topic, (2,)), throttle_bytes_per_s=20_000_000, auto_remove_throttle=False
    )
    assert "The throttle stays set after the move, as requested." in answer.notes
    operation = wait_for_end(client, answer)
    assert operation.outcome.endswith("throttle kept, as requested")
    assert client.throttles.list().rates[2].rate == ThrottledRate(20_000_000, 20_000_000)
    verified = client.reassignments.verify(plan_of(topic, (2,)), preserve_throttles=True)
    assert verified.done
    assert verified.cleared_brokers == ()
    verified = client.reassignments.verify(plan_of(topic, (2,)), preserve_throttles=False)
    assert verified.cleared_brokers == (1, 2)
    assert verified.cleared_topics == (topic,)
    _nothing_is_throttled(client, topic)


def test_cancelling_one_of_two_moves_keeps_the_throttle_of_the_other(
    client: BackendClient, topic: str
) -> None:
    operators = ThrottledRate(70_000_000, 70_000_000)
    client.throttles.alter_rates({3: operators})
    first = client.reassignments.start(plan_of(topic, (2,)), throttle_bytes_per_s=200_000)
    second = client.reassignments.start(
        ReassignmentPlan({TopicPartition(topic, 1): (2,)}),
        throttle_bytes_per_s=200_000,
        additional=True,
    )
    try:
        cancelled = client.reassignments.cancel([TopicPartition(topic, 0)])
        assert cancelled.failures == ()
        assert wait_for_end(client, first).state is OperationState.CANCELLED
        present = client.throttles.list()
        assert present.rates[2].rate == ThrottledRate(200_000, 200_000)
        assert present.replicas[topic].followers == ReplicaSet.parse("1:2")
        assert operation_of(client, second).state is OperationState.RUNNING
    finally:
        client.reassignments.cancel([TopicPartition(topic, 1)])
        wait_for_end(client, second)
    assert client.throttles.list().rates[3].rate == operators
    client.throttles.alter_rates({3: ThrottledRate(None, None)})
    _nothing_is_throttled(client, topic)


def test_progress_and_verify_follow_the_move(client: BackendClient, topic: str) -> None:
    plan = plan_of(topic, (2,), (1,))
    # Kafka takes the mean of ten seconds, so that a copy may begin with a burst.
    answer = client.reassignments.start(plan, throttle_bytes_per_s=300_000)
    statuses: set[str] = set()

    def ended() -> bool:
        rows = client.reassignments.progress(plan).rows
        statuses.update(row.status for row in rows)
        verified = client.reassignments.verify(plan, preserve_throttles=False)
        assert verified.cleared_brokers == ()
        return verified.done

    wait_until(ended, MOVE_DEADLINE_S, "the plan is verified")
    wait_for_end(client, answer)
    assert "In sync" in statuses
    assert len([status for status in statuses if status.startswith("Behind: ")]) >= 2
    _nothing_is_throttled(client, topic)


def test_a_second_reassignment_needs_to_be_asked_for(client: BackendClient, topic: str) -> None:
    answer = client.reassignments.start(plan_of(topic, (2,)), throttle_bytes_per_s=100_000)
    try:
        with pytest.raises(BackendError, match="already being reassigned") as refused:
            client.reassignments.start(ReassignmentPlan({TopicPartition(topic, 1): (3,)}))
        assert refused.value.status == 409
        assert len(client.reassignments.list()) == 1
    finally:
        client.reassignments.cancel([TopicPartition(topic, 0)])
        wait_for_end(client, answer)


def test_validation_changes_nothing(client: BackendClient, topic: str) -> None:
    before = client.throttles.list(), client.reassignments.list(), client.operations.list()
    partition = TopicPartition(topic, 0)
    checks: list[Callable[[], ChangeAnswer]] = [
        lambda: client.reassignments.start(
            plan_of(topic, (2,)), Change(validate_only=True), throttle_bytes_per_s=1_000
        ),
        lambda: client.throttles.alter_rates(
            {1: ThrottledRate(1_000, None)}, Change(validate_only=True)
        ),
        lambda: client.throttles.alter_replicas(
            {topic: ThrottledReplicas(ReplicaSet.parse("*"))}, Change(validate_only=True)
        ),
        lambda: client.elections.elect_preferred_leaders([partition], Change(validate_only=True)),
    ]
    for check in checks:
        answer = check()
        assert answer.validate_only
        assert answer.operation_id is None
        assert answer.failures == ()
    refused = client.reassignments.cancel([partition], Change(validate_only=True))
    assert refused.failures[0].error_name == "NO_REASSIGNMENT_IN_PROGRESS"
    assert (
        client.throttles.list(),
        client.reassignments.list(),
        client.operations.list(),
    ) == before


def test_what_the_cluster_does_not_have_is_named_and_does_not_move(
    client: BackendClient, topic: str
) -> None:
    before = client.throttles.list()
    plans = {
        "UNKNOWN_TOPIC_OR_PARTITION": plan_of("no-such-topic", (1,)),
        "INVALID_REPLICA_ASSIGNMENT": plan_of(topic, (42,)),
    }
    for name, plan in plans.items():
        answer = client.reassignments.start(plan, throttle_bytes_per_s=1_000_000)
        assert answer.failures[0].error_name == name
        assert operation_of(client, answer).state is OperationState.FAILED
    missing = ReassignmentPlan({TopicPartition(topic, 99): (1,), TopicPartition(topic, 0): (2,)})
    answer = client.reassignments.start(missing, throttle_bytes_per_s=1_000_000)
    assert [one.error_name for one in answer.failures] == ["UNKNOWN_TOPIC_OR_PARTITION"]
    wait_for_end(client, answer)
    whole = {TopicPartition(topic, 0): (1,), TopicPartition(topic, 99): (1,)}
    answer = client.reassignments.start(ReassignmentPlan(whole), all_or_nothing=True)
    assert len(answer.failures) == 2
    assert client.throttles.list() == before
    assert client.reassignments.list() == ()


def test_another_cluster_is_refused(client: BackendClient, topic: str) -> None:
    plan = plan_of(topic, (2,))
    with pytest.raises(BackendError, match="for cluster elsewhere") as refused:
        client.reassignments.start(plan, Change(cluster_id="elsewhere"))
    assert refused.value.status == 409
    with pytest.raises(BackendError, match="for cluster elsewhere"):
        client.reassignments.start(replace(plan, cluster_id="elsewhere"))
    ours = replace(plan, cluster_id=client.cluster().cluster_id)
    assert client.reassignments.start(ours, Change(validate_only=True)).failures == ()
    assert client.reassignments.list() == ()


def test_leaders_are_elected_where_it_is_needed(client: BackendClient, kafka: RealKafka) -> None:
    name = f"backend-{next(names)}"
    create_topic(kafka.bootstrap_servers, name, [[1, 2], [2, 1]])
    swapped = client.reassignments.start(plan_of(name, (2, 1)))
    wait_for_end(client, swapped)
    wanted = [TopicPartition(name, 0), TopicPartition(name, 0), TopicPartition(name, 1)]
    foreseen = client.elections.elect_preferred_leaders(wanted, Change(validate_only=True))
    assert [r.message for r in foreseen.results] == [
        "leadership would move from 1 to 2",
        "broker 2 already leads",
    ]
    elected = client.elections.elect_preferred_leaders([*wanted, TopicPartition(name, 7)])
    assert [r.error_name for r in elected.results] == [
        "NONE",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert client.elections.elect_preferred_leaders(None, Change(validate_only=True)).failures == ()


def _http(address: str) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
    return httpx.Client(base_url="http://kshunt", transport=transport, timeout=20)


def test_replicas_are_filtered_as_json_and_as_arrow(backend_address: str, topic: str) -> None:
    with _http(backend_address) as http:
        wait_until(
            lambda: http.get("/v1/replicas", params={"topic": topic}).json()["matching"] == 2,
            60,
            "the new topic is sampled",
        )
        wait_until(
            lambda: all(
                row["log_end_offset"] == 600
                for row in http.get("/v1/replicas", params={"topic": topic}).json()["replicas"]
            ),
            60,
            "its offsets are known",
        )
        params: dict[str, str | int] = {"topic": topic, "partition": 1}
        page = http.get("/v1/replicas", params=params).json()
        assert page["matching"] == 1
        row = page["replicas"][0]
        assert (row["partition"], row["broker"], row["status"]) == (1, 1, "in_sync")
        assert row["size_bytes"] > 600 * RECORD_BYTES
        assert row["catch_up_bytes_per_s"] is None
        arrow = http.get("/v1/replicas", params=params, headers={"accept": MEDIA_TYPE})
        table = pa.ipc.open_stream(arrow.content).read_all().to_pylist()
        assert [(r["topic"], r["partition"], r["broker"]) for r in table] == [(topic, 1, 1)]
        assert http.get("/v1/replicas", params={"moving": "true"}).json()["matching"] == 0


def test_events_resume_where_a_reader_stopped(client: BackendClient, backend_address: str) -> None:
    none = ThrottledRate(None, None)
    with BackendClient(backend_address) as reader:
        start = next(reader.events(0))
        assert start.kind == "reset"
    first = client.throttles.alter_rates({1: none})
    with BackendClient(backend_address) as reader:
        seen = _until(reader.events(start.id), first.operation_id)
    second = client.throttles.alter_rates({2: none})
    with BackendClient(backend_address) as reader:
        resumed = _until(reader.events(seen[-1].id), second.operation_id)
    ids = [event.id for event in (*seen, *resumed)]
    assert start.id < ids[0]
    assert ids == sorted(set(ids))
    assert first.operation_id not in {event.operation.id for event in resumed}
    assert resumed[-1].operation.state is OperationState.DONE
    for number in (start.id - 10**6, start.id + 10**6):
        with BackendClient(backend_address) as reader:
            assert next(reader.events(number)).kind == "reset"


def _until(events: Iterator[Event], operation_id: str | None) -> list[Event]:
    seen: list[Event] = []
    for event in events:
        seen.append(event)
        ended = event.kind == "operation" and event.operation.state.ended
        if ended and event.operation.id == operation_id:
            return seen
    raise AssertionError("the events ended")


@pytest.mark.parametrize(
    ("status", "path", "body", "words"),
    [
        (400, "/v1/reassignments", "{", "JSON"),
        (400, "/v1/reassignments", "[]", "body"),
        (400, "/v1/reassignments", '{"plan":{"partitions":[]}}', "partitions"),
        (
            422,
            "/v1/reassignments",
            '{"plan":{"partitions":[{"topic":"a","partition":0,"replicas":[1,1]}]}}',
            "twice",
        ),
        (
            400,
            "/v1/reassignments",
            '{"plan":{"partitions":[{"topic":"a","partition":0,"replicas":[1]}]},'
            '"throttle_bytes_per_s":999}',
            "throttle_bytes_per_s",
        ),
        (
            400,
            "/v1/throttles/rates",
            '{"rates":[{"broker":1,"leader_bytes_per_s":5,"follower_bytes_per_s":null}]}',
            "leader_bytes_per_s",
        ),
        (
            422,
            "/v1/throttles/replicas",
            '{"replicas":[{"topic":"a","leaders":"x","followers":""}]}',
            "not a throttled replica",
        ),
        (400, "/v1/elections/preferred", "{}", "partitions"),
    ],
)
def test_bad_input_is_a_problem_document(
    backend_address: str, status: int, path: str, body: str, words: str
) -> None:
    with _http(backend_address) as http:
        answer = http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = json.loads(answer.content)
    assert words in problem["detail"]
    assert problem["status"] == status
