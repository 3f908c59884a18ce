"""The seeds' RPCs of the embedded brokers, over real sockets, with the seeds' own messages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kshunt.backend.embedded.metadata.records import PartitionModeCode, ResourceType
from kshunt.backend.wire import kip_requests
from tests.support.embedded.connection import connected
from tests.support.embedded.core import MB
from tests.support.embedded.listeners import ListeningCluster, listening, lists, rate

REASSIGN = kip_requests.REASSIGN_PARTITIONS_KEY
RATES = kip_requests.ALTER_INTERBROKER_THROTTLED_RATES_KEY
REPLICAS = kip_requests.ALTER_INTERBROKER_THROTTLED_REPLICAS_KEY
ALTER_TOPICS = kip_requests.ALTER_TOPICS_KEY
STATUS = kip_requests.REPLICA_STATUS_KEY
ELECT = kip_requests.ELECT_PREFERRED_LEADERS_KEY
DELETE = kip_requests.DELETE_PARTITIONS_KEY

UNKNOWN_PARTITION, NOT_LEADER, BROKER_NOT_AVAILABLE = 3, 6, 8
INVALID_TOPIC, UNKNOWN_MEMBER, INVALID_PARTITIONS = 17, 25, 37
INVALID_FACTOR, INVALID_ASSIGNMENT, INVALID_REQUEST = 38, 39, 42
IN_PROGRESS, DELETION_DISABLED, NOT_AVAILABLE = 60, 73, 80
READ_WRITE, READ_ONLY, GONE = 0, 1, -1
RATE = 10 * MB
DELETE_ENABLE = "delete_topic_partition_enable"


def entries(topics: list[Any]) -> list[tuple[str, Any]]:
    """Topic and entry of each partition of an answer, whatever its list of them is called."""
    names = ("partition_error", "partition_errors", "partition_result")
    lists_of = [(t.topic, next(getattr(t, n) for n in names if hasattr(t, n))) for t in topics]
    return [(topic, entry) for topic, found in lists_of for entry in found]


def by_partition(topics: list[Any]) -> dict[tuple[str, int], int]:
    """Error codes of an answer that has partitions in topics."""
    return {(topic, entry.partition_id): entry.error_code for topic, entry in entries(topics)}


def words(topics: list[Any]) -> list[str]:
    """Error messages of an answer that has partitions in topics."""
    return [entry.error_message for _, entry in entries(topics)]


async def reassign(
    cluster: ListeningCluster, targets: dict[tuple[str, int], list[int]], **more: Any
) -> dict[tuple[str, int], int]:
    """Error codes of ReassignPartitions, asked of a broker that is not the controller."""
    wanted = [(topic, [(number, replicas)]) for (topic, number), replicas in targets.items()]
    broker = next(b for b in cluster.servers if b != cluster.image.controller)
    answer = await cluster.ask(broker, REASSIGN, topic_reassignments=wanted, **more)
    assert answer.throttle_time_ms == 0
    return by_partition(answer.reassign_partition_result)


@pytest.mark.conforms("kip-179:throttle-rates")
async def test_a_throttle_comes_with_its_move_and_goes_with_it() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2], [2, 3])
        cluster.fill("t", 100 * MB)
        codes = await reassign(cluster, {("t", 0): [2, 4]}, throttle=RATE, remove_throttle=True)
        assert codes == {("t", 0): 0}
        assert cluster.throttled() == {
            "t": lists("0:1,0:2", "0:4"), 1: rate(RATE), 2: rate(RATE), 4: rate(RATE)
        }  # fmt: skip
        assert cluster.removal() == (("t",), (1, 2, 4))
        cluster.pass_s(9)
        assert cluster.image.is_moving
        assert cluster.throttled()
        cluster.pass_s(2)
        assert cluster.at("t").replicas == (2, 4)
        assert cluster.throttled() == {}
        assert cluster.removal() == ((), ())


@pytest.mark.conforms("kip-179:auto-remove")
async def test_a_throttle_that_shall_stay_stays() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2])
        cluster.fill("t", 10 * MB)
        await reassign(cluster, {("t", 0): [2, 4]}, throttle=RATE, remove_throttle=False)
        assert cluster.removal() == ((), ())
        cluster.pass_s(5)
        assert not cluster.image.is_moving
        assert cluster.throttle_of(4) == rate(RATE)
        assert cluster.throttle_of("t") == lists("0:1,0:2", "0:4")


@pytest.mark.conforms("kip-179:throttle-long-max", "kip-179:throttle-minus-one")
@pytest.mark.parametrize("unthrottled", [kip_requests.UNTHROTTLED, -1])
async def test_a_move_without_a_throttle_writes_none(unthrottled: int) -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2])
        cluster.fill("t", 100 * MB)
        await reassign(cluster, {("t", 0): [2, 4]}, throttle=unthrottled, remove_throttle=True)
        assert cluster.image.is_moving
        assert cluster.throttled() == {}


@pytest.mark.conforms("kip-179:response-each")
async def test_each_partition_of_a_reassignment_has_its_own_answer() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2], [2, 3], [1, 3])
        cluster.fill("t", 100 * MB)
        await reassign(cluster, {("t", 0): [2, 4]})
        wanted = {
            ("t", 0): [1, 4],
            ("t", 1): [3, 99],
            ("t", 2): [3, 4],
            ("t", 9): [1],
            ("none", 0): [1],
        }
        codes = await reassign(cluster, wanted, throttle=RATE, remove_throttle=True)
        assert codes == {
            ("t", 0): IN_PROGRESS,
            ("t", 1): INVALID_ASSIGNMENT,
            ("t", 2): 0,
            ("t", 9): UNKNOWN_PARTITION,
            ("none", 0): UNKNOWN_PARTITION,
        }
        # The throttle is for what moves by this request, and for nothing else.
        assert cluster.throttled() == {
            "t": lists("2:1,2:3", "2:4"), 1: rate(RATE), 3: rate(RATE), 4: rate(RATE)
        }  # fmt: skip


@pytest.mark.conforms("kip-179:validate-only", "kip-179:request-validate-only")
async def test_a_request_that_only_validates_changes_nothing() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2])
        before = cluster.image.offset
        codes = await reassign(
            cluster, {("t", 0): [2, 4], ("t", 1): [1]}, throttle=RATE, validate_only=True
        )
        assert codes == {("t", 0): 0, ("t", 1): UNKNOWN_PARTITION}
        rates = await cluster.ask(1, RATES, broker_throttles=[(1, RATE, RATE)], validate_only=True)
        assert [entry.error_code for entry in rates.broker_error] == [0]
        replicas = await cluster.ask(
            1, REPLICAS, topic_throttles=[("t", [(0, [1])])], validate_only=True
        )
        assert by_partition(replicas.topic_errors) == {("t", 0): 0}
        assert cluster.image.offset == before


@pytest.mark.conforms("kip-179:controller-authz", "kip-179:named-twice")
async def test_what_refuses_a_request_as_a_whole_is_said_of_each_of_its_items() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2], [2, 3])
        slow = await reassign(cluster, {("t", 0): [2, 4], ("t", 1): [4, 3]}, throttle=999)
        assert slow == {("t", 0): INVALID_REQUEST, ("t", 1): INVALID_REQUEST}
        twice = await cluster.ask(
            1, REASSIGN, topic_reassignments=[("t", [(0, [2, 4]), (0, [3, 4])])]
        )
        assert by_partition(twice.reassign_partition_result) == {("t", 0): INVALID_REQUEST}
        assert "t-0 is named twice" in words(twice.reassign_partition_result)[0]
        alike = await cluster.ask(
            1, REASSIGN, topic_reassignments=[("t", [(0, [2, 1]), (0, [2, 1])])]
        )
        assert by_partition(alike.reassign_partition_result) == {("t", 0): 0}
        assert not cluster.image.is_moving


@pytest.mark.conforms("kip-179:rates-replace")
async def test_altered_rates_replace_those_that_the_move_brought() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2])
        cluster.fill("t", 100 * MB)
        await reassign(cluster, {("t", 0): [2, 4]}, throttle=RATE, remove_throttle=True)
        answer = await cluster.ask(
            3,
            RATES,
            broker_throttles=[(2, 5 * MB, 6 * MB), (9, MB, MB), (3, MB, 10)],
            remove_throttle=True,
        )
        assert [(e.broker_id, e.error_code) for e in answer.broker_error] == [
            (2, 0), (9, BROKER_NOT_AVAILABLE), (3, INVALID_REQUEST)
        ]  # fmt: skip
        leader, follower = (cluster.throttle_of(2)[key] for key in rate(1))
        assert (leader, follower) == (str(5 * MB), str(6 * MB))
        assert cluster.throttle_of(1) == cluster.throttle_of(4) == {}
        assert cluster.removal() == (("t",), (2,))
        # Neither the partition's leader nor its new follower is held back any longer.
        cluster.pass_s(2)
        assert not cluster.image.is_moving
        assert cluster.throttled() == {}


@pytest.mark.conforms("kip-179:replicas-results", "kip-179:replicas-roles")
async def test_altered_replicas_have_one_list_in_version_0_and_roles_in_version_1() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2], [2, 3])
        cluster.create("u", [1, 2])
        plain = await cluster.ask(
            1, REPLICAS, topic_throttles=[("t", [(0, [1, 2]), (1, None)]), ("u", [(7, [1])])]
        )
        assert by_partition(plain.topic_errors) == {
            ("t", 0): 0, ("t", 1): 0, ("u", 7): UNKNOWN_PARTITION
        }  # fmt: skip
        everyone = "0:1,0:2,1:1,1:2,1:3,1:4"
        assert cluster.throttled() == {"t": lists(everyone, everyone)}

        made = (
            kip_requests.AlterInterbrokerThrottledReplicasRequest.TopicThrottles.PartitionThrottles
        )
        entry = made(version=1, partition_id=1, leaders=[2], followers=[])
        strange = made(version=1, partition_id=0, leaders=[99], followers=None)
        roles = await cluster.ask(
            1, REPLICAS, 1, topic_throttles=[("t", [entry, strange])], remove_throttle=True
        )
        assert by_partition(roles.topic_errors) == {("t", 1): 0, ("t", 0): BROKER_NOT_AVAILABLE}
        assert cluster.throttled() == {"t": lists("1:2", "")}
        assert cluster.removal() == (("t",), ())


@pytest.mark.conforms("kip-179-early-draft:alter-any-broker")
async def test_topics_are_altered_by_the_early_draft() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2], [2, 3])
        cluster.create("u", [1])
        altered = [
            ("t", 3, -1, []),
            ("u", -1, 2, []),
            ("none", -1, -1, []),
            ("w", 1, -1, [(0, [77])]),
        ]
        cluster.create("w", [1])
        answer = await cluster.ask(2, ALTER_TOPICS, altered_topic=altered)
        codes = {entry.topic: entry.error for entry in answer.altered_topic}
        assert codes == {"t": 0, "u": 0, "none": INVALID_TOPIC, "w": UNKNOWN_MEMBER}
        assert answer.altered_topic[2].detail == "There is no topic none."
        assert len(cluster.at("t", 2).replicas) == 2
        assert len(cluster.at("u").target) == 2
        refused = [("t", 1, -1, []), ("u", -1, 9, []), ("w", 1, -1, [(5, [1])])]
        answer = await cluster.ask(2, ALTER_TOPICS, altered_topic=refused)
        assert [entry.error for entry in answer.altered_topic] == [
            INVALID_PARTITIONS, INVALID_FACTOR, INVALID_ASSIGNMENT
        ]  # fmt: skip


@pytest.mark.conforms(
    "kip-179-early-draft:status-leader",
    "kip-179-early-draft:status-error-17",
    "kip-179-early-draft:status-error-37",
    "kip-179-early-draft:status-error-25",
    "kip-179-early-draft:status-error-3",
    "kip-179-early-draft:status-error-0",
)
async def test_a_leader_tells_how_far_its_followers_are() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2])
        cluster.fill("t", 100 * MB)
        await reassign(cluster, {("t", 0): [1, 4]}, throttle=RATE)
        cluster.pass_s(4)
        behind = cluster.end("t", 1) - cluster.end("t", 4)
        assert 50_000 < behind < 70_000
        asked = [("t", 0, 2), ("t", 0, 4), ("t", 0, 1), ("t", 0, 3), ("t", 0, 9)]
        asked += [("t", 5, 2), ("none", 0, 2)]
        answer = await cluster.ask(1, STATUS, replica=asked)
        found = [(e.broker, e.error, e.lag) for e in answer.replica_status]
        assert found == [
            (2, 0, 0),
            (4, 0, behind),
            (1, UNKNOWN_PARTITION, -1),
            (3, UNKNOWN_PARTITION, -1),
            (9, UNKNOWN_MEMBER, -1),
            (2, INVALID_PARTITIONS, -1),
            (2, INVALID_TOPIC, -1),
        ]
        times = [entry.status_time for entry in answer.replica_status]
        assert times == [cluster.core.now_ms] * 2 + [-1] * 5


@pytest.mark.conforms("kip-179-early-draft:status-not-leader")
async def test_a_broker_that_does_not_lead_says_so() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2])
        answer = await cluster.ask(2, STATUS, replica=[("t", 0, 2)])
        assert [entry.error for entry in answer.replica_status] == [NOT_LEADER]


@pytest.mark.conforms(
    "kip-183:partitions",
    "kip-183:duplicates",
    "kip-183:error-0",
    "kip-183:not-needed",
    "kip-183:sent-when-complete",
)
async def test_preferred_leaders_lead_when_the_answer_comes() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2], [2, 3], [3, 1])
        await cluster.stop_broker(1)
        cluster.pass_s(1)
        cluster.restart(1)
        cluster.pass_s(5)
        await cluster.stop_broker(3)
        assert [cluster.at("t", n).leader for n in range(3)] == [2, 2, 1]
        answer = await cluster.ask(
            4, ELECT, topic_partitions=[("t", [0, 0, 1, 2, 9])], timeout_ms=5_000
        )
        assert by_partition(answer.replica_election_result) == {
            ("t", 0): 0, ("t", 1): 0, ("t", 2): NOT_AVAILABLE, ("t", 9): UNKNOWN_PARTITION
        }  # fmt: skip
        assert cluster.at("t", 0).leader == cluster.held("t", 0).leader == 1
        everything = await cluster.ask(4, ELECT, topic_partitions=None, timeout_ms=5_000)
        assert by_partition(everything.replica_election_result) == {
            ("t", 0): 0, ("t", 1): 0, ("t", 2): NOT_AVAILABLE
        }  # fmt: skip
        nothing = await cluster.ask(4, ELECT, topic_partitions=[], timeout_ms=5_000)
        assert nothing.replica_election_result == []


def deletions(answer: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """Mode and error code by partition."""
    return {
        (topic.name, entry.partition_index): (entry.status_code, entry.error_code)
        for topic in answer.responses
        for entry in topic.partitions
    }


@pytest.mark.conforms("kip-694:status-code")
async def test_the_last_partitions_go_after_their_delay() -> None:
    async with listening() as cluster:
        cluster.set(ResourceType.BROKER, "", **{DELETE_ENABLE: "true"})
        cluster.create("t", [1, 2], [2, 3], [3, 1])
        answer = await cluster.ask(
            2, DELETE, topics=[("t", [2, 1])], delete_partitions_delay=1_000, timeout_ms=1_000
        )
        assert answer.error_code == 0
        assert deletions(answer) == {("t", 1): (READ_ONLY, 0), ("t", 2): (READ_ONLY, 0)}
        assert cluster.at("t", 2).mode is PartitionModeCode.READ_ONLY
        # To name fewer takes the others back.
        answer = await cluster.ask(2, DELETE, topics=[("t", [2])], delete_partitions_delay=1_000)
        assert deletions(answer) == {("t", 1): (READ_WRITE, 0), ("t", 2): (READ_ONLY, 0)}
        answer = await cluster.ask(2, DELETE, topics=[("t", [])])
        assert deletions(answer) == {("t", 2): (READ_WRITE, 0)}
        # One that goes already does not count among those that are there.
        answer = await cluster.ask(2, DELETE, topics=[("t", [2])])
        assert deletions(answer) == {("t", 2): (GONE, 0)}
        answer = await cluster.ask(2, DELETE, topics=[("t", [1])])
        assert deletions(answer) == {("t", 1): (GONE, 0)}
        cluster.pass_s(5)
        topic = cluster.image.topic("t")
        assert topic is not None
        assert list(topic.partitions) == [0]


@pytest.mark.conforms("kip-694:request-partitions")
async def test_partitions_that_cannot_go_say_why() -> None:
    async with listening() as cluster:
        cluster.create("t", [1, 2], [2, 3], [3, 1])
        answer = await cluster.ask(2, DELETE, topics=[("t", [2])])
        assert (answer.error_code, answer.responses) == (DELETION_DISABLED, [])
        cluster.set(ResourceType.BROKER, "", **{DELETE_ENABLE: "true"})
        answer = await cluster.ask(2, DELETE, topics=[("t", [2])], delete_partitions_delay=-1)
        assert answer.error_code == INVALID_REQUEST
        cluster.create("u", [1])
        answer = await cluster.ask(2, DELETE, topics=[("t", [1]), ("u", [0]), ("none", [1, 2])])
        assert deletions(answer) == {
            ("t", 1): (READ_WRITE, INVALID_PARTITIONS),
            ("u", 0): (READ_WRITE, INVALID_PARTITIONS),
            ("none", 1): (GONE, UNKNOWN_PARTITION),
            ("none", 2): (GONE, UNKNOWN_PARTITION),
        }
        named = answer.responses[0].partitions[0].error_message
        assert named == "Only the last partitions of topic t can be deleted."
        cluster.fill("t", 100 * MB)
        await reassign(cluster, {("t", 2): [3, 4]})
        answer = await cluster.ask(2, DELETE, topics=[("t", [2])])
        assert deletions(answer) == {("t", 2): (READ_WRITE, IN_PROGRESS)}


async def test_brokers_that_are_not_native_close_on_every_one_of_them() -> None:
    async with listening(native=False) as cluster:
        for key in kip_requests.MESSAGES:
            async with connected(cluster.servers[1]) as client:
                client.ask(1, key, 0)
                assert await client.ends() == b""
        assert not kip_requests.MESSAGES.keys() & set(cluster.asked)


@pytest.mark.conforms("kip-179:protocol")
async def test_many_ask_at_once() -> None:
    """The cluster removes all throttles of moves that were asked for together after the last."""
    async with listening() as cluster:
        cluster.create("t", [1, 2], [2, 3], [3, 1])
        cluster.fill("t", 50 * MB)
        targets = {0: [1, 4], 1: [2, 4], 2: [3, 4]}
        await asyncio.gather(
            *(
                reassign(cluster, {("t", n): b}, throttle=RATE, remove_throttle=True)
                for n, b in targets.items()
            )
        )
        assert cluster.throttle_of("t") == lists("0:1,0:2,1:2,1:3,2:1,2:3", "0:4,1:4,2:4")
        cluster.pass_s(60)
        assert cluster.throttled() == {}
        assert [cluster.at("t", n).replicas for n in targets] == [(1, 4), (2, 4), (3, 4)]
