"""Requests of which a client may have some, and not the rest; and the seeds' answers by item."""

from __future__ import annotations

from typing import Any

import pytest

from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.embedded.controller.acls import created
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.handlers.admin import topics
from kshunt.backend.embedded.handlers.security.guard import guarded
from kshunt.backend.embedded.handlers.security.rights import GUARDS
from kshunt.backend.embedded.net.api import WireClose
from kshunt.backend.wire import kip_requests
from tests.support.embedded.rights import ADMIN, NOBODY, RightsCluster, allow, codes, grant
from tests.support.embedded.rights_cases import CASES, FILTER, GROUP, OFFSETS

CLUSTER_REFUSED = "Cluster authorization failed."


def partitions(answer: Any, topics: str, parts: str = "partitions") -> dict[str, set[int]]:
    """The codes of an answer by topic."""
    found: dict[str, set[int]] = {}
    for topic in getattr(answer, topics):
        name = next(value for key in ("name", "topic") if (value := getattr(topic, key, None)))
        found.setdefault(name, set()).update(one.error_code for one in getattr(topic, parts))
    return found


@pytest.mark.parametrize("version", range(4, 13))
def test_a_fetch_gives_what_may_be_read_and_refuses_the_rest(version: int) -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "READ topic orders")
    one = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 99}
    asked = {"topics": [{"topic": name, "partitions": [one]} for name in ("secret", "orders")]}
    answer = cluster.ask("Fetch", version, {**asked, "max_bytes": 999, "max_wait_ms": 0})
    assert partitions(answer, "responses") == {"orders": {0}, "secret": {29}}
    marks = {one.topic: one.partitions[0].high_watermark for one in answer.responses}
    assert marks == {"orders": 0, "secret": -1}


@pytest.mark.parametrize("version", range(14))
def test_metadata_tells_of_no_topic_that_one_may_not_describe(version: int) -> None:
    cluster = RightsCluster()
    nothing: dict[str, Any] = {"topics": None if version else []}
    assert cluster.ask("Metadata", version, nothing).topics == []
    grant(cluster.cluster, "WRITE topic orders")
    assert [topic.name for topic in cluster.ask("Metadata", version, nothing).topics] == ["orders"]
    names = {"topics": [{"name": name} for name in ("secret", "orders", "absent")]}
    answer = cluster.ask("Metadata", version, names)
    found = {topic.name: topic.error_code for topic in answer.topics}
    assert found == {"orders": 0, "secret": 29, "absent": 29}
    assert all(not topic.partitions for topic in answer.topics if topic.error_code)
    assert answer.brokers


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_that_is_asked_for_by_its_id_is_refused_without_its_name(version: int) -> None:
    cluster = RightsCluster()
    wire_id = cluster.topic_id("secret")
    [topic] = cluster.ask("Metadata", version, {"topics": [{"topic_id": wire_id}]}).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (29, None, wire_id)


def test_a_missing_topic_is_created_by_who_may_create_it() -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "DESCRIBE topic *", "CREATE topic mine")
    names = {"topics": [{"name": "mine"}, {"name": "other"}], "allow_auto_topic_creation": True}
    answer = cluster.ask("Metadata", 9, names)
    assert {one.name: one.error_code for one in answer.topics}["other"] == 29
    assert set(cluster.cluster.image.topics) == {"orders", "secret", "mine"}


def test_the_modes_of_partitions_are_told_beside_a_refusal() -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "DESCRIBE topic orders")
    going = {"topics": [{"name": "orders", "partitions": [2]}], "delete_partitions_delay": 99_000}
    cluster.ask("DeletePartitions", 0, going, ADMIN)
    cluster.cluster.advance(1_000)
    asked = {"topics": [{"name": "orders"}, {"name": "secret"}]}
    body = cluster.ask_bytes("Metadata", 12, asked)
    assert kip_requests.read_modes(body, 12) == {("orders", 2): PartitionMode.READ_ONLY}


def test_operations_told_are_those_of_the_client() -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "READ topic orders", "DESCRIBE cluster", "READ group g")
    ops = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    answer = cluster.ask("Metadata", 10, {"topics": [{"name": "orders"}], **ops})
    assert (set(answer.authorized_operations), set(answer.topics[0].authorized_operations)) == (
        {8},
        {3, 8},
    )
    described = cluster.ask("DescribeCluster", 1, {"endpoint_type": 1, **ops})
    assert set(described.authorized_operations) == {8}
    asked = {"topics": [], "response_partition_limit": 10, "cursor": None}
    [page] = cluster.ask("DescribeTopicPartitions", 0, asked).topics
    assert page.name == "orders"
    coordinator = cluster.ask("FindCoordinator", 0, {"key": "g"}).node_id
    groups = {"groups": ["g", "h"], "include_authorized_operations": True}
    answer = cluster.ask("DescribeGroups", 5, groups, broker=coordinator)
    found = {one.group_id: (one.error_code, one.authorized_operations) for one in answer.groups}
    assert found["h"][0] == 30
    assert set(found["g"][1]) == {3, 8}


@pytest.mark.parametrize("version", [1, 7, 8, 9])
def test_offsets_of_topics_that_one_may_not_describe(version: int) -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "READ group g", "READ topic orders", "READ topic secret")
    broker = cluster.ask("FindCoordinator", 0, {"key": "g"}).node_id
    commit = {
        "group_id": "g",
        "member_id": "",
        "generation_id_or_member_epoch": -1,
        "topics": [
            {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 7}]}
            for name in ("orders", "secret")
        ],
    }
    answer = cluster.ask("OffsetCommit", 8, commit, broker=broker)
    assert partitions(answer, "topics") == {"orders": {0}, "secret": {0}}
    cluster.cluster.core.commit(
        Decision.of([created(allow("ALL topic secret", denies=True))]),
    )
    topics = [{"name": name, "partition_indexes": [0]} for name in ("orders", "secret")]

    def fetched(wanted: Any) -> dict[str, set[tuple[int, int]]]:
        groups = [{"group_id": "g", "topics": wanted}, {"group_id": "h", "topics": []}]
        asked = {"group_id": "g", "topics": wanted, "groups": groups}
        answer = cluster.ask("OffsetFetch", version, asked, broker=broker)
        if version >= 8:
            assert {one.group_id: one.error_code for one in answer.groups} == {"g": 0, "h": 30}
        found = answer.topics if version < 8 else answer.groups[0].topics
        return {
            one.name: {(part.error_code, part.committed_offset) for part in one.partitions}
            for one in found
        }

    assert fetched(topics) == {"orders": {(0, 7)}, "secret": {(29, -1)}}
    if version > 1:
        assert fetched(None) == {"orders": {(0, 7)}}


def test_groups_are_listed_to_who_may_describe_them() -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "READ group a*", "READ topic orders", principal="User:a")
    grant(cluster.cluster, "READ group b*", "READ topic orders", principal="User:b")
    for group, who in (("a1", "User:a"), ("b1", "User:b")):
        for broker in (1, 2, 3):
            values = {**GROUP, **OFFSETS, "group_id": group, "generation_id_or_member_epoch": -1}
            cluster.ask("OffsetCommit", 8, values, who, broker=broker)

    def listed(who: str) -> set[str]:
        answers = [cluster.ask("ListGroups", 4, {}, who, broker=broker) for broker in (1, 2, 3)]
        return {one.group_id for answer in answers for one in answer.groups}

    assert (listed("User:a"), listed("User:b"), listed(NOBODY)) == ({"a1"}, {"b1"}, set())
    assert listed(ADMIN) == {"a1", "b1"}


@pytest.mark.parametrize("version", range(4))
def test_a_transaction_takes_all_topics_or_none(version: int) -> None:
    cluster = RightsCluster()
    values = {
        "v3_and_below_transactional_id": "t",
        "v3_and_below_producer_id": 1,
        "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": n, "partitions": [0]} for n in ("orders", "secret")],
    }

    def asked() -> dict[str, set[int]]:
        answer = cluster.ask("AddPartitionsToTxn", version, values)
        return {
            one.name: {part.partition_error_code for part in one.results_by_partition}
            for one in answer.results_by_topic_v3_and_below
        }

    assert asked() == {"orders": {53}, "secret": {53}}
    grant(cluster.cluster, "WRITE transactional_id t", "WRITE topic orders")
    assert asked() == {"orders": {55}, "secret": {29}}
    brokers = {"transactions": [{"transactional_id": "t", "topics": []}]}
    assert cluster.ask("AddPartitionsToTxn", 5, brokers).error_code == 31


def test_a_topic_is_deleted_by_id_without_its_name_being_told() -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "DESCRIBE topic orders")
    ids = [{"name": None, "topic_id": cluster.topic_id(name)} for name in ("orders", "secret")]
    asked = {"timeout_ms": 1_000, "topics": [*ids, {"name": "absent"}]}
    answer = cluster.ask("DeleteTopics", 6, asked)
    found = [(one.name, one.error_code) for one in answer.responses]
    assert sorted(found, key=str) == [("absent", 29), ("orders", 29), (None, 29)]
    grant(cluster.cluster, "DESCRIBE topic absent")
    [missing] = cluster.ask("DeleteTopics", 6, {**asked, "topics": [{"name": "absent"}]}).responses
    assert missing.error_code == 3
    assert set(cluster.cluster.image.topics) == {"orders", "secret"}
    grant(cluster.cluster, "DELETE cluster")
    assert not codes(cluster.ask("DeleteTopics", 6, {**asked, "topics": ids}))


def test_the_configuration_of_a_new_topic_is_told_to_who_may_see_it() -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "CREATE topic new*", "DESCRIBE_CONFIGS topic new2")
    new = [
        {"name": name, "num_partitions": 1, "replication_factor": 1}
        for name in ("new1", "new2", "old")
    ]
    answer = cluster.ask("CreateTopics", 7, {"timeout_ms": 1_000, "topics": new})
    found = {one.name: one for one in answer.topics}
    assert (found["old"].error_code, found["old"].error_message) == (29, "Authorization failed.")
    assert (found["new1"].error_code, found["new1"].topic_config_error_code) == (0, 29)
    assert (found["new1"].num_partitions, found["new1"].configs) == (-1, [])
    assert found["new2"].num_partitions == 1
    assert found["new2"].configs


def test_acks_0_leaves_no_place_for_a_refusal() -> None:
    cluster = RightsCluster()
    batch = {"index": 0, "records": b""}
    asked = {"acks": 0, "topic_data": [{"name": "orders", "partition_data": [batch]}]}
    with pytest.raises(WireClose, match="acks=0"):
        cluster.ask("Produce", 9, asked)


# The seeds' own RPCs refuse item by item


@pytest.mark.conforms(
    "kip-179:controller-authz",
    "kip-179:rates-authz",
    "kip-179:replicas-authz",
)
def test_each_item_of_a_seeds_rpc_says_that_the_cluster_refused_it() -> None:
    cluster = RightsCluster()
    throttle = {"timeout": 0, "validate_only": False, "remove_throttle": True}
    moves = [
        {
            "topic": name,
            "partition_reassignments": [{"partition_id": n, "broker": [3, 1]} for n in (0, 1)],
        }
        for name in ("orders", "secret")
    ]
    answer = cluster.ask("ReassignPartitions", 0, {"topic_reassignments": moves, **throttle})
    refused = [(0, 31, CLUSTER_REFUSED), (1, 31, CLUSTER_REFUSED)]
    assert [
        (t.topic, [(p.partition_id, p.error_code, p.error_message) for p in t.partition_error])
        for t in answer.reassign_partition_result
    ] == [("orders", refused), ("secret", refused)]
    rates = [{"broker_id": b, "leader_rate": 9_999, "follower_rate": 9_999} for b in (1, 2)]
    asked = {"broker_throttles": rates, **throttle}
    answer = cluster.ask("AlterInterbrokerThrottledRates", 0, asked)
    found = [(one.broker_id, one.error_code) for one in answer.broker_error]
    assert found == [(1, 31), (2, 31)]
    lists = [{"partition_id": number, "broker_id": [1]} for number in (0, 1)]
    asked = {"topic_throttles": [{"topic": "orders", "partition_throttles": lists}], **throttle}
    answer = cluster.ask("AlterInterbrokerThrottledReplicas", 0, asked)
    [topic] = answer.topic_errors
    found = [(one.partition_id, one.error_code) for one in topic.partition_errors]
    assert (topic.topic, found) == ("orders", [(0, 31), (1, 31)])
    image = cluster.cluster.image
    assert not image.is_moving
    assert not list(image.configured)


def test_partitions_of_one_topic_are_deleted_and_of_another_refused() -> None:
    cluster = RightsCluster()
    grant(cluster.cluster, "ALTER topic *", "DELETE topic orders")
    asked = {
        "delete_partitions_delay": 60_000,
        "topics": [{"name": name, "partitions": [2]} for name in ("secret", "orders")],
    }
    answer = cluster.ask("DeletePartitions", 0, asked)
    assert answer.error_code == 0
    assert [
        (t.name, [(p.partition_index, p.status_code, p.error_code) for p in t.partitions])
        for t in answer.responses
    ] == [("orders", [(2, 1, 0)]), ("secret", [(2, -1, 29)])]


@pytest.mark.conforms(
    "kip-179-early-draft:authorize-alter",
    "kip-179-early-draft:authorize-status",
    "kip-179-early-draft:alter-error-31",
    "kip-179-early-draft:status-error-31",
)
def test_the_early_drafts_calls_need_the_rights_that_it_names() -> None:
    cluster = RightsCluster()
    replica = {"topic": "orders", "partition": 0, "broker": 2}
    alter = {"topic": "orders", "partitions": 4, "replicas": -1, "partition_assignment": []}

    def altered() -> int:
        [entry] = cluster.ask("AlterTopics", 0, {"altered_topic": [alter]}).altered_topic
        assert entry.topic == "orders"
        return int(entry.error)

    def described() -> tuple[int, int, int]:
        [entry] = cluster.ask("ReplicaStatus", 0, {"replica": [replica]}).replica_status
        assert (entry.topic, entry.partition, entry.broker) == ("orders", 0, 2)
        return entry.error, entry.status_time, entry.lag

    assert (altered(), described()) == (31, (31, -1, -1))
    grant(cluster.cluster, "ALTER cluster", "ALTER topic orders")
    # Who may alter a cluster may describe it, and that is not to act for it.
    assert (altered(), described()[0]) == (31, 0)
    grant(cluster.cluster, "CLUSTER_ACTION cluster")
    assert altered() == 0


@pytest.mark.conforms("kip-183:authorization", "kip-183:error-31")
def test_an_election_needs_to_alter_the_cluster() -> None:
    cluster = RightsCluster()
    asked = {"topic_partitions": [{"topic": "orders", "partition_id": [0, 1]}]}

    def elected() -> list[tuple[int, int]]:
        [topic] = cluster.ask("ElectPreferredLeaders", 0, asked).replica_election_result
        return [(one.partition_id, one.error_code) for one in topic.partition_result]

    assert elected() == [(0, 31), (1, 31)]
    grant(cluster.cluster, "ALTER topic orders", "CLUSTER_ACTION cluster")
    assert elected() == [(0, 31), (1, 31)]
    grant(cluster.cluster, "ALTER cluster")
    assert elected() == [(0, 0), (1, 0)]


def test_an_election_of_everything_says_once_that_it_is_refused() -> None:
    everything = {"topic_partitions": None}
    answer = RightsCluster().ask("ElectPreferredLeaders", 0, everything)
    [entry] = answer.replica_election_result
    assert (entry.topic, codes(entry)) == ("", {31})


# Without an authorizer


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_without_an_authorizer_are_kafkas_error(version: int) -> None:
    cluster = RightsCluster(authorizer=False)
    creations = next(case.values for name, case in CASES if name == "CreateAcls")
    assert isinstance(creations, dict)
    described = cluster.ask("DescribeAcls", version, FILTER)
    words = "No Authorizer is configured on the broker"
    assert (described.error_code, described.error_message) == (54, words)
    [made] = cluster.ask("CreateAcls", version, creations).results
    [gone] = cluster.ask("DeleteAcls", version, {"filters": [FILTER]}).filter_results
    for one in (made, gone):
        assert (one.error_code, one.error_message) == (54, "No Authorizer is configured.")


def test_a_cluster_without_an_authorizer_has_no_guard_before_its_handlers() -> None:
    world = RightsCluster(authorizer=False).cluster.world
    handlers = topics.handlers(world)
    assert guarded(world, handlers, GUARDS) == handlers
