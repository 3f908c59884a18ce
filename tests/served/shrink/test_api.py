"""Topics by HTTP: listed, described, grown and shrunk; and what the audit says of it."""

from __future__ import annotations

import pytest

from kshunt.backend.api.client.backend_client import BackendClient
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.shrink.delete_partitions import (
    KEYED,
    NO_PARTITION,
    UNDER_CHANGES,
    DeletePartitions,
    ShrinkSupport,
)
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.descriptions import TopicSummary
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import BackendError
from tests.support.admin import fresh_name
from tests.support.embedded.background import Running, running
from tests.support.serving import serving
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

ENABLE = "delete.topic.partition.enable"
DEADLINE_S = 60.0
RW, RO, NONE = PartitionMode.READ_WRITE, PartitionMode.READ_ONLY, PartitionMode.NONE


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    configs = {ENABLE: "true", "delete.topic.partition.interval.delay.ms": "1000"}
    return ClusterSpec(plain_brokers(3), seed=5, static=configs)


@pytest.fixture
def topic(embedded: Running) -> str:
    name = fresh_name("shrink")
    create_topic(embedded.bootstrap_servers, name, [[1, 2], [2, 3], [3, 1], [1, 3]])
    return name


def count_of(client: BackendClient, topic: str) -> int:
    (described,) = client.topics.describe([topic], configs=False).topics
    return len(described.partitions)


def test_topics_are_listed_and_described(client: BackendClient, topic: str) -> None:
    listed = {one.topic: one for one in client.topics.list()}
    assert listed[topic] == TopicSummary(topic, 4, 2, internal=False)
    described = client.topics.describe([topic, "no-such-topic"], min_isr=True)
    assert described.live == {1, 2, 3}
    (found,) = described.topics
    assert (found.name, found.min_isr, found.replication_factor) == (topic, 1, 2)
    assert [one.replicas for one in found.partitions] == [(1, 2), (2, 3), (3, 1), (1, 3)]
    assert not any(one.under_replicated or one.changing for one in found.partitions)
    names = [one.name for one in client.topics.describe(configs=False).topics]
    assert names == sorted(listed)


def test_a_topic_grows_with_brokers_chosen_or_not(client: BackendClient, topic: str) -> None:
    answer = client.topics.alter({topic: AlteredTopic(6, -1, {4: [2, 1], 5: [3, 2]})})
    assert not answer.failures
    (found,) = client.topics.describe([topic], configs=False).topics
    assert [one.replicas for one in found.partitions[4:]] == [(2, 1), (3, 2)]
    assert not client.topics.alter({topic: AlteredTopic(7)}, Change(validate_only=True)).failures
    assert count_of(client, topic) == 6


@pytest.mark.conforms("kip-694:delete-partitions")
def test_a_topic_shrinks_and_the_audit_says_who_wanted_it(
    client: BackendClient, topic: str
) -> None:
    assert client.shrinks.support() is ShrinkSupport.ENABLED
    wanted = {topic: DeletePartitions(2, 3_600_000)}
    third, last = TopicPartition(topic, 2), TopicPartition(topic, 3)
    checked = client.shrinks.delete_partitions(wanted, Change(validate_only=True))
    assert (checked.validate_only, checked.operation_id, checked.notes) == (True, None, (KEYED,))
    assert [(one.partition, one.mode) for one in checked.partitions] == [(2, RO), (3, RO)]
    assert not client.topics.describe([topic], configs=False).topics[0].changing
    answer = client.shrinks.delete_partitions(wanted, Change(who="ada@bastion", reason="too many"))
    assert answer.partitions == checked.partitions
    (found,) = client.topics.describe([topic], configs=False).topics
    assert [one.mode for one in found.partitions] == [RW, RW, RO, RO]
    (operation,) = [one for one in client.operations.list() if one.id == answer.operation_id]
    assert (operation.kind, operation.state) == ("delete_partitions", "done")
    assert operation.partitions == (third, last)
    words = f"shrink {topic}: keeps 2 partitions; the others are deleted after 3600000 ms"
    assert operation.summary == words
    lines = client.audit.lines(answer.operation_id or "")
    assert [line.event for line in lines] == ["requested", "ended"]
    assert (lines[0].who, lines[0].reason) == ("ada@bastion", "too many")
    back = client.shrinks.delete_partitions({topic: DeletePartitions(3)})
    assert [(one.partition, one.mode) for one in back.partitions] == [(2, RW), (3, RO)]
    assert back.notes == (KEYED, UNDER_CHANGES)
    now = client.shrinks.delete_partitions({topic: DeletePartitions(3, 0)})
    assert [(one.partition, one.mode) for one in now.partitions] == [(3, NONE)]
    wait_until(lambda: count_of(client, topic) == 3, DEADLINE_S, "the last partition is gone")


def test_each_topic_is_answered_for_itself(client: BackendClient, topic: str) -> None:
    asked = {
        topic: DeletePartitions(4),
        "no-such-topic": DeletePartitions(1),
        "__consumer_offsets": DeletePartitions(0),
    }
    answer = client.shrinks.delete_partitions(asked)
    assert len(answer.failures) == 3
    assert all(one.partition == NO_PARTITION for one in answer.failures)
    assert answer.notes == ()
    assert count_of(client, topic) == 4


@pytest.mark.parametrize("count", [-1, 2**31, "3"])
def test_what_is_no_count_does_not_fit(client: BackendClient, count: object) -> None:
    with pytest.raises(BackendError) as refused:
        client.shrinks.delete_partitions({"t": DeletePartitions(count)})  # type: ignore[arg-type]
    assert refused.value.status == 400


def test_a_cluster_without_the_request_is_a_conflict(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running(ClusterSpec(plain_brokers(1), native=False)) as handle:
        create_topic(handle.bootstrap_servers, "t", [[1], [1]])
        folder = tmp_path_factory.mktemp("unsupported")
        with serving(handle.bootstrap_servers, folder) as address, BackendClient(address) as found:
            assert found.shrinks.support() is ShrinkSupport.UNSUPPORTED
            with pytest.raises(BackendError, match="Nothing was changed") as refused:
                found.shrinks.delete_partitions({"t": DeletePartitions(1)})
            assert refused.value.status == 409
            assert found.operations.list() == ()
