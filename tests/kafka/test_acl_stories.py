"""Single stories on real brokers that obey ACLs: refusals, and a rate set just as one is lifted.

`KSHUNT_LIFT_RACES=20` lets many rates come at the lift; `-s` prints how many were written over.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka.admin import ResourceType

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.errors import KshuntError
from tests.support.audit_checker import problems
from tests.support.brokers.launcher import RealKafka
from tests.support.faults.truth_ground import ALTER, BROKERS, OVERRIDES, RATE_KEYS, Ground
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers, pytest.mark.slow]

DEADLINE_S = 60.0
DENIED = 31
OURS, FAST, PRIOR = 300_000, 1_000_000_000, 5_000_000
RACES = int(os.environ.get("KSHUNT_LIFT_RACES", "2"))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with RealKafka(3, OVERRIDES, sasl=True) as kafka:
        made = Ground(kafka, tmp_path_factory.mktemp("truth"))
        yield made
        made.close()


@pytest.fixture
def address(ground: Ground) -> str:
    """Of the backend that `client` talks to; it is the newest."""
    return f"unix:{ground.newest_socket}"


@pytest.fixture
def client(ground: Ground) -> Iterator[BackendClient]:
    process, made = ground.backend()
    yield made
    made.close()
    process.terminate()
    process.join(20)
    process.kill()
    process.join()


def started(
    client: BackendClient, topic: str, target: tuple[int, ...], rate: int = OURS
) -> ChangeAnswer:
    """The answer to a move of the topic's first partition, once a backend acts."""
    found: list[ChangeAnswer] = []

    def taken() -> bool:
        with suppress(KshuntError):
            plan = ReassignmentPlan({TopicPartition(topic, 0): target})
            found.append(
                client.reassignments.start(plan, Change(who="a test"), throttle_bytes_per_s=rate)
            )
        return bool(found)

    wait_until(taken, DEADLINE_S, "a backend takes the plan")
    return found[0]


def operation(client: BackendClient, answer: ChangeAnswer) -> Operation:
    return next(one for one in client.operations.list() if one.id == answer.operation_id)


def over(client: BackendClient, answer: ChangeAnswer) -> Operation:
    wait_until(lambda: operation(client, answer).state.ended, DEADLINE_S, "it ends")
    return operation(client, answer)


def rates(ground: Ground) -> dict[int, dict[str, str]]:
    return {b: ground.own(ResourceType.BROKER, str(b)) for b in BROKERS}


def a_topic(ground: Ground, name: str) -> str:
    create_topic(ground.servers, name, [[1, 2]])
    produce(ground.servers, name, 60, 50_000, 0)
    return name


def test_a_move_that_the_cluster_refuses_leaves_nothing_and_never_starts(
    ground: Ground, client: BackendClient
) -> None:
    topic = a_topic(ground, "refused")
    for key in RATE_KEYS:
        ground.rate(1, key, PRIOR)
    ground.shown({(1, key): PRIOR for key in RATE_KEYS})
    before = rates(ground)
    with ground.denied(ALTER):
        answer = started(client, topic, (3, 2))
        assert [one.error_code for one in answer.results] == [DENIED]
        assert any("former values" in note for note in answer.notes)
        ended = over(client, answer)
        assert (ended.state.value, "CLUSTER_AUTHORIZATION_FAILED" in ended.outcome) == (
            "failed",
            True,
        )
        wait_until(lambda: rates(ground) == before, DEADLINE_S, "the rates are as before")
        assert ground.own(ResourceType.TOPIC, topic) == {}
    # The engine ticks each second while anything is open: what is over stays over.
    until_s = time.monotonic() + 4
    wait_until(lambda: time.monotonic() > until_s, DEADLINE_S, "some ticks have passed")
    assert client.reassignments.list() == ()
    assert ground.cluster(topic).replicas[topic, 0] == (1, 2)
    for key in RATE_KEYS:
        ground.rate(1, key, None)


def test_the_tool_says_that_the_cluster_refused_and_exits_with_1(
    ground: Ground, client: BackendClient, address: str
) -> None:
    topic = a_topic(ground, "by-tool")
    before = rates(ground)
    plan = ground.folder / "plan.json"
    moves = [{"topic": topic, "partition": 0, "replicas": [3, 2]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    tool = [sys.executable, "-m", "kshunt", "kafka-reassign-partitions", "--backend", address]
    tool += ["--execute", "--reassignment-json-file", str(plan), "--throttle", str(OURS)]
    wait_until(lambda: client.backend_status().backend, DEADLINE_S, "the backend serves")
    with ground.denied(ALTER):
        ended = subprocess.run(
            tool, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1, said
    assert "CLUSTER_AUTHORIZATION_FAILED" in said
    assert "former values" in said
    assert "being found out" not in said
    wait_until(lambda: rates(ground) == before, DEADLINE_S, "the rates are as before")


def test_a_cancellation_that_the_cluster_refuses_is_not_done_later(
    ground: Ground, client: BackendClient
) -> None:
    topic = a_topic(ground, "stays")
    answer = started(client, topic, (3, 2), 2_000)
    with ground.denied(ALTER):
        refused = client.reassignments.cancel([TopicPartition(topic, 0)], Change(who="a test"))
        assert [one.error_code for one in refused.results] == [DENIED]
        assert operation(client, refused).state.value == "failed"
    until_s = time.monotonic() + 4
    wait_until(lambda: time.monotonic() > until_s, DEADLINE_S, "some ticks have passed")
    assert len(client.reassignments.list()) == 1
    assert rates(ground)[3][RATE_KEYS[1]] == "2000"
    assert not client.reassignments.cancel(
        [TopicPartition(topic, 0)], Change(who="a test")
    ).failures
    assert over(client, answer).state.value == "cancelled"


def test_a_rate_that_somebody_sets_at_the_lift_stays_or_is_as_before(
    ground: Ground, client: BackendClient
) -> None:
    """Kafka has no compare-and-set: between the last reading and the write it is written over."""
    chance, lost, every = random.Random(7), 0, 0
    topic = a_topic(ground, "races")
    for race in range(RACES):
        target = (3, 2) if race % 2 == 0 else (1, 2)
        answer = started(client, topic, target, FAST)
        edits = {
            (broker, key): (20_000_000 + race * 100 + n, chance.uniform(0.0, 2.0))
            for n, (broker, key) in enumerate((b, k) for b in BROKERS for k in RATE_KEYS)
        }
        done_ms = raced(ground, edits)
        ended = over(client, answer)
        there = rates(ground)
        late = set()
        for (broker, key), (value, _) in edits.items():
            found = there[broker].get(key)
            assert found in (None, str(value)), f"broker {broker} {key} is {found}"
            lost += found is None
            every += 1
            if done_ms[broker, key] > (ended.ended_ms or 0) - 1_000:
                late.add(("broker", str(broker), key))
        lines = [x for x in ground.lines() if x["operation_id"] == answer.operation_id]
        assert problems(lines, ground.cluster(topic), {}, edited_since=late) == []
        for broker, key in edits:
            ground.rate(broker, key, None)
    sys.stdout.write(f"{lost} of {every} foreign rates at the lift were written over\n")


def raced(
    ground: Ground, edits: dict[tuple[int, str], tuple[int, float]]
) -> dict[tuple[int, str], float]:
    """Set each rate after its delay in seconds; when each was set, milliseconds."""
    done: dict[tuple[int, str], float] = {}
    never = threading.Event()

    def one(cell: tuple[int, str], value: int, delay_s: float) -> None:
        never.wait(delay_s)
        ground.rate(*cell, value)
        done[cell] = time.time() * 1000

    threads = [threading.Thread(target=one, args=(cell, *edit)) for cell, edit in edits.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    return done
