"""Eight defects that other tools were seen to have, on real Kafka: here they do not happen.

Each test does what brought the defect about:

- D1: a cancellation that removes everybody's throttles.
- D2: a refused plan that leaves throttles behind.
- D3: a verification that deletes an operator's own rate.
- D4: a growing replication factor that cannot be cancelled.
- D5: a dead source broker that stops everything.
- D6: a verification of what is not there.
- D7: a plan that keeps a dead broker.
- D17: two changes of one topic's lists at the same time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, VerifyState
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE, ThrottledRate
from kshunt.backend.errors import BackendError
from tests.support.brokers.launcher import RealKafka
from tests.support.serving import serving
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.own_brokers]

names = itertools.count()
SLOW = 100_000
"""Bytes a second: what is copied is not done before the test is."""
DEADLINE_S = 60.0
RATES = (LEADER_RATE, FOLLOWER_RATE)
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealKafka]:
    """Brokers of this module's own, as it stops some of them."""
    with RealKafka() as brokers:
        yield brokers


@pytest.fixture(scope="module")
def backend(cluster: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(cluster.bootstrap_servers, tmp_path_factory.mktemp("backend")) as address:
        yield address


@pytest.fixture
def client(backend: str) -> Iterator[BackendClient]:
    with BackendClient(backend, timeout_s=60) as connected:
        yield connected


class Configs:
    """The cluster's own word on throttles, by another client than ours."""

    def __init__(self, kafka: RealKafka) -> None:
        self._bootstrap = kafka.bootstrap_servers

    def _client(self) -> AdminClient:
        """A new client each time: one that knew a broker before its restart waits for long."""
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def rates(self, broker: int) -> dict[str, str]:
        """The broker's own dynamic rates."""
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        admin = self._client()
        found = admin.describe_configs([resource], request_timeout=20)[resource].result()
        dynamic = ConfigSource.DYNAMIC_BROKER_CONFIG.value
        return {
            key: found[key].value for key in RATES if key in found and found[key].source == dynamic
        }

    def lists(self, topic: str) -> dict[str, str]:
        """The topic's lists that are not empty."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        admin = self._client()
        found = admin.describe_configs([resource], request_timeout=20)[resource].result()
        return {key: found[key].value for key in LISTS if found[key].value}

    def set_rate(self, broker: int, rate: int) -> None:
        """As an operator does with Kafka's own tool."""
        entries = [
            ConfigEntry(key, str(rate), incremental_operation=AlterConfigOpType.SET)
            for key in RATES
        ]
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=entries)
        admin = self._client()
        admin.incremental_alter_configs([resource])[resource].result()
        wanted = dict.fromkeys(RATES, str(rate))
        wait_until(lambda: self.rates(broker) == wanted, DEADLINE_S, f"broker {broker} has it")

    def drop_rate(self, broker: int) -> None:
        entries = [
            ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in RATES
        ]
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=entries)
        admin = self._client()
        admin.incremental_alter_configs([resource])[resource].result()
        wait_until(lambda: not self.rates(broker), DEADLINE_S, f"broker {broker} is free")


@pytest.fixture
def configs(cluster: RealKafka) -> Configs:
    return Configs(cluster)


def a_topic(kafka: RealKafka, assignments: list[list[int]], records: int = 600) -> str:
    """A topic of partitions with 10 kB a record."""
    name = f"defect-{next(names)}"
    create_topic(kafka.bootstrap_servers, name, assignments)
    for partition in range(len(assignments)):
        produce(kafka.bootstrap_servers, name, records, 10_000, partition)
    return name


def plan_of(topic: str, *targets: tuple[int, ...]) -> ReassignmentPlan:
    return ReassignmentPlan({TopicPartition(topic, i): target for i, target in enumerate(targets)})


def ended(client: BackendClient, answer: ChangeAnswer) -> Operation:
    def now() -> Operation:
        return next(o for o in client.operations.list() if o.id == answer.operation_id)

    wait_until(lambda: now().state.ended, DEADLINE_S, f"{answer.operation_id} has ended")
    return now()


def finish(client: BackendClient, answer: ChangeAnswer, brokers: tuple[int, ...]) -> Operation:
    """Let the copies between these brokers go as fast as they can, and wait for the end."""
    fast = ThrottledRate(10**9, 10**9)
    client.throttles.alter_rates(dict.fromkeys(brokers, fast))
    return ended(client, answer)


def test_d1_cancelling_one_of_two_moves_leaves_the_throttle_of_the_other(
    cluster: RealKafka, client: BackendClient, configs: Configs
) -> None:
    topic = a_topic(cluster, [[1], [1]])
    answer = client.reassignments.start(plan_of(topic, (2,), (3,)), throttle_bytes_per_s=SLOW)
    assert not answer.failures
    assert not client.reassignments.cancel([TopicPartition(topic, 0)]).failures
    assert configs.lists(topic) == dict(zip(LISTS, ("1:1", "1:3"), strict=True))
    for broker in (1, 3):
        assert configs.rates(broker) == dict.fromkeys(RATES, str(SLOW))
    assert configs.rates(2) == {}
    done = finish(client, answer, (1, 3))
    assert done.state is OperationState.PARTLY_CANCELLED
    assert done.outcome == "1 of 2 where the plan wants them, 1 cancelled, throttle removed"
    assert [configs.rates(broker) for broker in (1, 2, 3)] == [{}, {}, {}]
    assert configs.lists(topic) == {}


def test_d2_a_refused_plan_leaves_nothing_behind(
    cluster: RealKafka, client: BackendClient, configs: Configs
) -> None:
    topic = a_topic(cluster, [[1]], records=10)
    answer = client.reassignments.start(
        plan_of(topic, (2, 3)), throttle_bytes_per_s=SLOW, allow_replication_factor_change=False
    )
    assert [result.error_name for result in answer.results] == ["INVALID_REPLICATION_FACTOR"]
    assert [configs.rates(broker) for broker in (1, 2, 3)] == [{}, {}, {}]
    assert configs.lists(topic) == {}
    assert ended(client, answer).state is OperationState.FAILED


def test_d3_an_operators_own_rate_on_a_broker_that_no_move_touched_stays(
    cluster: RealKafka, client: BackendClient, configs: Configs
) -> None:
    topic = a_topic(cluster, [[1]], records=100)
    configs.set_rate(3, 7_000_000)
    try:
        plan = plan_of(topic, (2,))
        done = ended(client, client.reassignments.start(plan, throttle_bytes_per_s=50_000_000))
        assert done.state is OperationState.DONE
        answer = client.reassignments.verify(plan, preserve_throttles=False)
        assert [row.state for row in answer.rows] == [VerifyState.COMPLETED]
        assert answer.cleared_brokers == ()
        assert configs.rates(3) == dict.fromkeys(RATES, "7000000")
        assert [configs.rates(broker) for broker in (1, 2)] == [{}, {}]
    finally:
        configs.drop_rate(3)


def test_d3_an_operators_own_rate_on_a_broker_of_the_move_is_back_afterwards(
    cluster: RealKafka, client: BackendClient, configs: Configs
) -> None:
    topic = a_topic(cluster, [[1]], records=100)
    configs.set_rate(2, 9_000_000)
    try:
        answer = client.reassignments.start(plan_of(topic, (2,)), throttle_bytes_per_s=5_000_000)
        assert ended(client, answer).state is OperationState.DONE
        assert configs.rates(2) == dict.fromkeys(RATES, "9000000")
        assert configs.rates(1) == {}
    finally:
        configs.drop_rate(2)


@pytest.mark.conforms("kip-179:change-factor")
def test_d4_a_growing_replication_factor_can_be_cancelled(
    cluster: RealKafka, client: BackendClient, configs: Configs
) -> None:
    topic = a_topic(cluster, [[1]])
    answer = client.reassignments.start(plan_of(topic, (1, 2)), throttle_bytes_per_s=SLOW)
    (move,) = [m for m in client.reassignments.list() if m.partition.topic == topic]
    assert (move.adding, move.removing) == ((2,), ())
    assert not client.reassignments.cancel([TopicPartition(topic, 0)]).failures
    assert ended(client, answer).state is OperationState.CANCELLED
    assert not [m for m in client.reassignments.list() if m.partition.topic == topic]
    assert [configs.rates(broker) for broker in (1, 2)] == [{}, {}]


def test_d6_a_verification_of_what_is_not_there_says_so(
    cluster: RealKafka, client: BackendClient
) -> None:
    topic = a_topic(cluster, [[1], [2]], records=10)
    there, beyond = TopicPartition(topic, 0), TopicPartition(topic, 2)
    unknown = TopicPartition("no-such-topic", 0)
    plan = ReassignmentPlan({there: (1,), beyond: (1,), unknown: (1, 2)})
    states = {
        row.name: row.state
        for row in client.reassignments.verify(plan, preserve_throttles=True).rows
    }
    assert states == {
        there: VerifyState.COMPLETED,
        beyond: VerifyState.MISSING,
        unknown: VerifyState.MISSING,
    }


def test_d17_changes_of_one_topic_at_the_same_time_lose_nothing(
    cluster: RealKafka, client: BackendClient, backend: str, configs: Configs
) -> None:
    # More than a follower may take in one turn: it must not arrive before it is cancelled.
    topic = a_topic(cluster, [[1]] * 6)

    def start(partition: int) -> ChangeAnswer:
        plan = ReassignmentPlan({TopicPartition(topic, partition): (2 + partition % 2,)})
        with BackendClient(backend, timeout_s=60) as own:
            return own.reassignments.start(plan, throttle_bytes_per_s=10_000, additional=True)

    def cancel(partition: int) -> ChangeAnswer:
        with BackendClient(backend, timeout_s=60) as own:
            return own.reassignments.cancel([TopicPartition(topic, partition)])

    with ThreadPoolExecutor(6) as at_once:
        answers = list(at_once.map(start, range(6)))
        assert not [failure for answer in answers for failure in answer.failures]
        leaders, followers = LISTS
        listed = configs.lists(topic)
        assert listed[leaders] == ",".join(f"{n}:1" for n in range(6))
        assert listed[followers] == ",".join(f"{n}:{2 + n % 2}" for n in range(6))
        assert not [f for answer in at_once.map(cancel, range(0, 6, 2)) for f in answer.failures]
    assert configs.lists(topic)[leaders] == "1:1,3:1,5:1"
    with ThreadPoolExecutor(3) as at_once:
        list(at_once.map(cancel, range(1, 6, 2)))
    for answer in answers:
        assert ended(client, answer).state is OperationState.CANCELLED
    assert configs.lists(topic) == {}
    assert [configs.rates(broker) for broker in (1, 2, 3)] == [{}, {}, {}]


@contextmanager
def without(kafka: RealKafka, broker: int) -> Iterator[None]:
    kafka.stop_broker(broker)
    try:
        yield
    finally:
        kafka.start_broker(broker)


def test_d5_a_dead_source_broker_does_not_stop_the_move(
    cluster: RealKafka, client: BackendClient, configs: Configs
) -> None:
    topic = a_topic(cluster, [[1, 2]], records=100)
    with without(cluster, 2):
        answer = client.reassignments.start(plan_of(topic, (1, 3)), throttle_bytes_per_s=5_000_000)
        assert not answer.failures
        said = [note for note in answer.notes if "Broker 2 does not answer" in note]
        assert len(said) == 1
        # The move and its throttle end although the broker is still away.
        done = ended(client, answer)
        assert done.state is OperationState.DONE
        assert [configs.rates(broker) for broker in (1, 3)] == [{}, {}]
        assert configs.lists(topic) == {}
    assert configs.rates(2) == {}


def test_d7_a_plan_may_keep_a_broker_that_is_down(
    cluster: RealKafka, client: BackendClient, configs: Configs
) -> None:
    topic = a_topic(cluster, [[1, 2]], records=100)
    with without(cluster, 2):
        answer = client.reassignments.start(plan_of(topic, (3, 2)), throttle_bytes_per_s=5_000_000)
        assert not answer.failures
        assert "keeps broker 2, which is down" in answer.results[0].message
        (move,) = [m for m in client.reassignments.list() if m.partition.topic == topic]
        assert (move.adding, move.removing) == ((3,), (1,))
        with pytest.raises(BackendError, match="already being reassigned"):
            client.reassignments.start(plan_of(topic, (1, 2)))
    assert ended(client, answer).state is OperationState.DONE
    assert [configs.rates(broker) for broker in (1, 2, 3)] == [{}, {}, {}]
