"""Throttles that are too low on real brokers: named, and the rate that is named sets it free."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE, ThrottledRate
from tests.support.brokers.launcher import RealKafka
from tests.support.clients import lift, wait_for_end, watching
from tests.support.operations.stuck_scene import written_to
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka
TOPIC, NEW = "stuck", 3
KEY = (TopicPartition(TOPIC, 0), NEW)
BATCH_BYTES = 100_000
"""Written ten times a second, which is well above the throttle."""
LOW_BYTES_PER_S = 100_000
IN_TIME_S = 60.0


def why(seen: list[Snapshot]) -> Stuck | None:
    return seen[-1].explained.get(KEY) if seen else None


def cause(seen: list[Snapshot]) -> Cause:
    found = why(seen)
    return Cause.NONE if found is None else found.cause


def test_a_throttle_below_what_is_written_and_one_of_nothing(
    client: BackendClient, backend_address: str, kafka: RealKafka
) -> None:
    create_topic(kafka.bootstrap_servers, TOPIC, [[1]])
    produce(kafka.bootstrap_servers, TOPIC, 600, 50_000, 0)
    plan = ReassignmentPlan({KEY[0]: (NEW,)})
    with (
        watching(backend_address) as seen,
        written_to(kafka.bootstrap_servers, TOPIC, 10, BATCH_BYTES // 10),
    ):
        answer = client.reassignments.start(plan, throttle_bytes_per_s=LOW_BYTES_PER_S)
        wait_until(lambda: cause(seen) is Cause.THROTTLE_TOO_LOW, IN_TIME_S, "it is too low")
        said = why(seen)
        assert said is not None
        assert {(rate.broker, rate.key) for rate in said.rates} == {
            (1, LEADER_RATE),
            (NEW, FOLLOWER_RATE),
        }
        assert all(rate.written_bytes_per_s > LOW_BYTES_PER_S for rate in said.rates)
        enough = max(rate.needs_bytes_per_s for rate in said.rates)
        _throttle(client, enough)
        wait_until(lambda: cause(seen) is Cause.NONE, IN_TIME_S, "it comes nearer again")
        _throttle_to_nothing(kafka.bootstrap_servers)
        wait_until(lambda: cause(seen) is Cause.THROTTLE_FLOOR, IN_TIME_S, "a throttle of 0")
        _throttle(client, 50 * enough)
        wait_for_end(client, answer)
        wait_until(lambda: cause(seen) is Cause.NONE, IN_TIME_S, "nothing is stuck")
    lift(client)


def _throttle_to_nothing(bootstrap_servers: str) -> None:
    """Kafka takes a rate of 0; no tool of ours writes it."""
    entry = ConfigEntry(FOLLOWER_RATE, "0", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ConfigResource.Type.BROKER, str(NEW), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for written in admin.incremental_alter_configs([broker]).values():
        written.result(IN_TIME_S)


def _throttle(client: BackendClient, rate: int) -> None:
    both = ThrottledRate(rate, rate)
    assert client.throttles.alter_rates(dict.fromkeys((1, NEW), both)).failures == ()
