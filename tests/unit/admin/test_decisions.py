"""What the admin layer decides without a cluster: errors, checks, lists, lags."""

import asyncio
import inspect
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import kafka.errors
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeConfigsResponse, IncrementalAlterConfigsResponse

from kshunt.backend.admin.kafka.kafka_admin import KafkaAdmin
from kshunt.backend.admin.kips.measured_lags import lags
from kshunt.backend.admin.kips.reassignment.checks import ReassignmentFacts, check_plan, moves_of
from kshunt.backend.admin.kips.reassignment.throttle import topic_changes, unthrottled
from kshunt.backend.admin.kips.replica_status import missing_lags
from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.admin.rpc import configs, requests
from kshunt.backend.admin.rpc.bootstrap import bootstrap_addresses
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.configs import ConfigValue
from kshunt.backend.admin.rpc.error_mapping import (
    CODE_OF_CLIENT_ERROR,
    BrokerDown,
    ConnectionRefused,
    TlsListener,
    decode_message,
    item_error,
    item_result,
    kafka_code,
    raise_for_code,
    whole_call_error,
    whole_cluster_error,
)
from kshunt.backend.domain.cluster.assignment import Assignment, part_of
from kshunt.backend.domain.cluster.columns import OffsetColumns, columns_of
from kshunt.backend.domain.cluster.metadata import (
    OngoingReassignment,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
)
from kshunt.backend.error_codes import NAMES, RETRIABLE
from kshunt.backend.errors import (
    BrokerUnreachable,
    ClusterError,
    ClusterUnreachable,
    ConfigError,
    KshuntError,
    NotAuthorized,
    NotSupported,
)
from kshunt.backend.settings import Settings
from kshunt.backend.wire.raw_request import RawAnswer
from kshunt.backend.wire.reader import WireError

P0, P1, P2 = (TopicPartition("t", n) for n in range(3))

KAFKA_ERRORS = [
    kind
    for _, kind in inspect.getmembers(kafka.errors, inspect.isclass)
    if issubclass(kind, kafka.errors.KafkaError)
]
ABSTRACT = {
    kafka.errors.KafkaError,
    kafka.errors.RetriableError,
    kafka.errors.BrokerResponseError,
    kafka.errors.AuthorizationError,
}
RENAMED = {"CORRUPT_MESSAGE"}
"""Codes that Kafka's own client tries again and kafka-python does not."""


def an_error(kind: Any) -> Exception:
    error: Exception = kind({}) if kind is kafka.errors.LogTruncationError else kind()
    return error


# Errors


@pytest.mark.parametrize("kind", KAFKA_ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_kafka_python_has_a_code_and_a_place(kind: Any) -> None:
    error = an_error(kind)
    code = kafka_code(error)
    assert code in NAMES
    if getattr(kind, "errno", None) is not None:
        assert code == kind.errno
        assert kind.retriable == (code in RETRIABLE) or NAMES[code] in RENAMED
    elif kind not in ABSTRACT:
        assert any(issubclass(kind, mapped) for mapped, _ in CODE_OF_CLIENT_ERROR)
    assert isinstance(whole_call_error(error, 1, ("h", 9092), "PLAINTEXT"), KshuntError)
    result = item_error(error)
    assert (result.error_code, result.error_name) == (code, NAMES[code])


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ConnectionRefused("connection refused"), BrokerDown, r"Broker 1 \(h:9092\) is down"),
        (socket.gaierror(-2, "Name unknown"), BrokerDown, "name unknown"),
        (TlsListener("x"), ConfigError, "h:9092 expects TLS"),
        (kafka.errors.KafkaTimeoutError("slow"), BrokerUnreachable, "slow"),
        (kafka.errors.SaslAuthenticationFailedError("no"), NotAuthorized, "credentials: no"),
        (kafka.errors.ClusterAuthorizationFailedError(), NotAuthorized, "CLUSTER_AUTHORIZATION"),
        (kafka.errors.UnsupportedSaslMechanismError("x"), ConfigError, "sasl.mechanism"),
        (kafka.errors.IllegalSaslStateError(), ConfigError, "does not use SASL"),
        (kafka.errors.IncompatibleBrokerVersion("no such call"), NotSupported, "no such call"),
        (kafka.errors.InvalidReceiveError("length"), WireError, "length"),
        (kafka.errors.PolicyViolationError("mine"), ClusterError, "POLICY_VIOLATION: mine"),
        (ConnectionResetError(104, "Reset"), BrokerUnreachable, "reset"),
        (NotAuthorized("ours"), NotAuthorized, "ours"),
    ],
)
def test_what_a_failed_call_means(error: Exception, kind: type[KshuntError], words: str) -> None:
    found = whole_call_error(error, 1, ("h", 9092), "SSL")
    assert type(found) is kind
    with pytest.raises(kind, match=words):
        raise found


def test_a_certificate_that_is_not_trusted_is_a_setting_to_mend() -> None:
    error = ssl.SSLCertVerificationError("x")
    error.verify_message = "self signed"
    found = whole_call_error(error, ("h", 1), ("h", 1), "SSL")
    assert isinstance(found, ConfigError)
    assert "self signed" in found.message


def test_the_most_telling_failure_speaks_for_all() -> None:
    slow, down, denied = BrokerUnreachable("slow"), BrokerDown("down"), NotAuthorized("denied")
    assert whole_cluster_error([slow, denied, down], "a:1") is denied
    unreachable = whole_cluster_error([down, slow, slow], "a:1")
    assert isinstance(unreachable, ClusterUnreachable)
    assert unreachable.message == "No broker answered (a:1). down slow"
    assert unreachable.__cause__ is slow
    assert isinstance(whole_cluster_error([down], "a:1").__cause__, BrokerDown)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(31, NotAuthorized), (29, NotAuthorized), (35, NotSupported), (42, ClusterError)],
)
def test_a_whole_answers_error_is_raised(code: int, kind: type[KshuntError]) -> None:
    with pytest.raises(kind, match=NAMES[code]):
        raise_for_code(code, "why", "Doing it")


def test_a_code_of_a_newer_kafka_is_shown_as_its_number() -> None:
    assert item_result(999, None) == ItemResult(999, "ERROR_999", "", False)
    assert item_result(0) is OK
    assert item_result(41, "m") == ItemResult(41, "NOT_CONTROLLER", "m", True)


@given(st.binary(max_size=80))
def test_any_answer_to_a_small_request_is_read_or_refused(body: bytes) -> None:
    for response, version in ((DescribeConfigsResponse, 4), (IncrementalAlterConfigsResponse, 1)):
        try:
            decode_message(response, RawAnswer(version, body))
        except WireError:
            continue


@pytest.mark.conforms("kip-183:to-the-controller")
def test_another_controller_is_asked_for_by_its_code() -> None:
    assert requests.is_for_another_controller(RawAnswer(0, b"\0\0\0\0\0\x29\x01"))
    assert not requests.is_for_another_controller(RawAnswer(0, b"\0\0\0\x29\0\0"))


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ("a:1", (("a", 1),)),
        (" a:1 , b:2,,a:1", (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
    ],
)
def test_bootstrap_servers(servers: str, found: tuple[Any, ...]) -> None:
    assert bootstrap_addresses(servers) == found


async def test_the_admin_is_what_the_port_asks_for_and_closes_twice() -> None:
    admin: ClusterAdmin = KafkaAdmin(Settings("127.0.0.1:1"))
    await admin.close()
    await admin.close()


def test_a_tool_that_only_reads_does_not_load_what_only_changes_need() -> None:
    names = ("confluent_kafka", "urllib.request", "fastapi", "pyarrow")
    wanted = f"[n for n in {names} if n in sys.modules]"
    program = f"import sys, kshunt.backend.admin.kafka.kafka_admin; print({wanted})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


async def test_together_raises_the_failure_itself_and_leaves_nothing_running() -> None:
    ended = asyncio.Event()

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fails() -> None:
        raise BrokerDown("gone")

    with pytest.raises(BrokerDown, match="gone"):
        await together([for_ever(), fails()])
    assert ended.is_set()
    assert await together([]) == []


# Configurations


def values(**texts: tuple[str, str]) -> Mapping[str, ConfigValue]:
    keys = {"leader": LEADER_RATE, "follower": FOLLOWER_RATE, "dirs": LOG_DIR_RATE}
    keys |= {"leaders": LEADER_REPLICAS, "followers": FOLLOWER_REPLICAS}
    return {keys[name]: ConfigValue(*text) for name, text in texts.items()}


def test_a_rate_is_what_holds_and_kafkas_default_is_none() -> None:
    throttle = configs.broker_throttle(
        1,
        values(
            leader=("500", "STATIC_BROKER_CONFIG"),
            follower=(str(2**63 - 1), "DYNAMIC_BROKER_CONFIG"),
            # A value that was deleted, and that its broker is about to forget.
            dirs=("700", "DEFAULT_CONFIG"),
        ),
    )
    assert throttle.rate == ThrottledRate(500, None)
    assert throttle.log_dir_bytes_per_s is None
    assert throttle.leader_source == "STATIC_BROKER_CONFIG"
    assert (throttle.follower_source, throttle.log_dir_source) == ("", "")
    assert throttle.sources == ("STATIC_BROKER_CONFIG",)
    assert configs.broker_throttle(1, {}).sources == ()


def test_each_rate_has_a_source_of_its_own() -> None:
    throttle = configs.broker_throttle(
        1,
        values(
            leader=("500", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
            follower=("600", "DYNAMIC_BROKER_CONFIG"),
            dirs=("700", "STATIC_BROKER_CONFIG"),
        ),
    )
    assert throttle.rate == ThrottledRate(500, 600)
    assert throttle.sources == (
        "DYNAMIC_DEFAULT_BROKER_CONFIG",
        "DYNAMIC_BROKER_CONFIG",
        "STATIC_BROKER_CONFIG",
    )


def test_what_cannot_be_read_is_not_taken_for_empty() -> None:
    with pytest.raises(WireError, match="0:x"):
        configs.throttled_replicas(values(leaders=("0:x", "DYNAMIC_TOPIC_CONFIG")))
    with pytest.raises(WireError, match="fast"):
        configs.broker_throttle(1, values(leader=("fast", "DYNAMIC_BROKER_CONFIG")))


def test_what_was_there_is_restored_to_the_letter_and_what_was_inherited_is_deleted() -> None:
    prior = values(
        leader=("500", "DYNAMIC_BROKER_CONFIG"), follower=("600", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    )
    keys = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
    back = configs.restoring(prior, keys)
    assert back == {LEADER_RATE: "500", FOLLOWER_RATE: None, LOG_DIR_RATE: None}
    assert configs.in_force(back, prior)
    assert not configs.in_force({LEADER_RATE: None}, prior)
    assert not configs.in_force({FOLLOWER_RATE: "600"}, prior)


# Checks


def situation(
    states: Mapping[TopicPartition, tuple[int, ...]],
    ongoing: Mapping[TopicPartition, OngoingReassignment] | None = None,
    live: tuple[int, ...] = (1, 2, 3),
) -> ReassignmentFacts:
    known = {p: PartitionState(p, r[0], r, r) for p, r in states.items()}
    return ReassignmentFacts(known, ongoing or {}, live, {1: ["/a", "/b"]})


def names(results: Mapping[TopicPartition, ItemResult]) -> dict[TopicPartition, str]:
    return {partition: result.error_name for partition, result in results.items()}


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ([], "INVALID_REPLICA_ASSIGNMENT"),
        ([1, 1], "INVALID_REPLICA_ASSIGNMENT"),
        ([1, 9], "INVALID_REPLICA_ASSIGNMENT"),
        ([1, 2, 3], "INVALID_REPLICATION_FACTOR"),
        ([2, 3], "NONE"),
    ],
)
def test_a_target_is_checked(target: list[int], name: str) -> None:
    options = ReassignOptions(allow_replication_factor_change=False)
    checked = check_plan({P0: target}, {}, options, situation({P0: (1, 2)}))
    assert checked[P0].error_name == name


def test_one_mistake_holds_up_the_whole_plan_where_that_is_asked_for() -> None:
    plan = {P0: [2], P1: [9], P2: [1]}
    there = situation({P0: (1,), P1: (1,)})
    each = check_plan(plan, {}, ReassignOptions(), there)
    assert names(each) == {
        P0: "NONE",
        P1: "INVALID_REPLICA_ASSIGNMENT",
        P2: "UNKNOWN_TOPIC_OR_PARTITION",
    }
    checked = check_plan(plan, {}, ReassignOptions(all_or_nothing=True), there)
    assert names(checked) == {
        P0: "OPERATION_NOT_ATTEMPTED",
        P1: "INVALID_REPLICA_ASSIGNMENT",
        P2: "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert checked[P0].message == (
        "nothing was submitted because t-1 cannot be reassigned, nor 1 more"
    )


def test_a_broker_that_is_down_may_stay_but_not_be_added() -> None:
    now = situation({P0: (1, 2), P1: (1, 3)}, live=(1, 3))
    assert check_plan({P0: [2, 3]}, {}, ReassignOptions(), now)[P0] == ItemResult(
        message="keeps broker 2, which is down"
    )
    assert not check_plan({P1: [1, 2]}, {}, ReassignOptions(), now)[P1].ok


def test_log_dirs_are_checked_where_their_broker_answered() -> None:
    now = situation({P0: (1, 2)})

    def check(broker: int, path: str) -> str:
        plan = check_plan({P0: [1, 2]}, {(P0, broker): path}, ReassignOptions(), now)
        return plan[P0].error_name

    assert check(1, "/a") == "NONE"
    assert check(1, "/c") == "LOG_DIR_NOT_FOUND"
    assert check(2, "/c") == "NONE"
    assert check(3, "/a") == "INVALID_REPLICA_ASSIGNMENT"


def test_a_partition_that_moves_is_where_it_was() -> None:
    moving = OngoingReassignment(P0, (3, 1, 2), adding=(3,), removing=(2,))
    now = situation({P0: (3, 1, 2)}, {P0: moving})
    (move,) = moves_of({P0: [2, 3]}, now)
    assert (move.current, move.adding, move.removing) == ((1, 2), (3,), (1,))
    note = check_plan({P0: [2, 3]}, {}, ReassignOptions(), now)[P0]
    assert note.ok
    assert note.message == "was moving to [3, 1]; a cancellation would leave it on [1, 2, 3]"
    assert check_plan({P0: [3, 1]}, {}, ReassignOptions(), now)[P0] == OK


@given(
    there=st.one_of(
        st.just("*"),
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4))).map(
            lambda pairs: ",".join(f"{p}:{b}" for p, b in pairs)
        ),
    ),
    target=st.permutations([1, 2, 3, 4]).map(lambda brokers: brokers[:2]),
)
def test_what_others_throttle_stays_throttled(there: str, target: list[int]) -> None:
    prior = {"t": values(leaders=(there, "DYNAMIC_TOPIC_CONFIG"))} if there else {}
    moves = moves_of({P0: target}, situation({P0: (1, 2)}))
    changes = topic_changes(moves, prior)
    adding = set(target) - {1, 2}
    if not adding:
        assert changes == {}
        return
    written = ReplicaSet.parse(changes["t"][LEADER_REPLICAS] or "")
    before = ReplicaSet.parse(there)
    assert written == before | ReplicaSet(frozenset({(0, 1), (0, 2)}))
    assert changes["t"][FOLLOWER_REPLICAS] == ",".join(f"0:{b}" for b in sorted(adding))
    undone = configs.restoring(prior.get("t", {}), (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    assert undone == {LEADER_REPLICAS: there or None, FOLLOWER_REPLICAS: None}


def test_a_broker_that_is_down_does_not_hold_up_a_move_and_a_slow_one_does() -> None:
    topics = {"a": OK, "b": item_result(44, "policy")}
    brokers = {1: OK, 2: item_error(BrokerDown("gone")), 3: item_error(BrokerUnreachable("slow"))}
    assert unthrottled(topics, brokers) == ("topic b", "broker 3")


def test_an_empty_side_of_a_list_is_removed() -> None:
    replicas = ThrottledReplicas(ReplicaSet.parse("0:2,0:1"), ReplicaSet())
    assert configs.replica_changes(replicas) == {
        LEADER_REPLICAS: "0:1,0:2",
        FOLLOWER_REPLICAS: None,
    }


# Lags


def assignment(rows: list[tuple[str, int, int, int, bool]]) -> Assignment:
    """Rows of topic, partition, broker, leader, in sync; in the order of `Assignment`."""
    topics = tuple(sorted({row[0] for row in rows}))
    return Assignment(
        topics,
        np.array([topics.index(row[0]) for row in rows], np.int32),
        np.array([row[1] for row in rows], np.int32),
        np.array([row[2] for row in rows], np.int32),
        np.zeros(len(rows), np.int16),
        np.array([row[3] for row in rows], np.int32),
        np.array([row[4] for row in rows], np.bool_),
        np.zeros(len(rows), np.bool_),
    )


def offsets(*entries: tuple[int, int]) -> OffsetColumns:
    return OffsetColumns(
        np.array([offset for offset, _ in entries], np.int64),
        np.array([code for _, code in entries], np.int16),
    )


def test_lag_is_the_leaders_end_less_the_replicas() -> None:
    rows = assignment([("t", 0, 1, 1, True), ("t", 0, 2, 1, False), ("t", 0, 3, 1, True)])
    ends = {1: offsets((100, 0)), 2: offsets((40, 0)), 3: offsets((103, 0))}
    found = lags(rows, ends, {1: 5, 2: 4, 3: 6})
    assert [(lag.broker, lag.lag_messages, lag.in_isr) for lag in found] == [
        (1, 0, True),
        (2, 60, False),
        # Read a moment later than the leader: ahead of it is not behind it.
        (3, 0, True),
    ]
    # A lag is as old as the older of the two offsets that it is computed from.
    assert [lag.status_ms for lag in found] == [5, 4, 5]
    assert all(lag.result.ok for lag in found)


def test_what_is_not_known_is_minus_one_and_says_why() -> None:
    rows = assignment(
        [
            ("t", 0, 1, 1, True), ("t", 0, 2, 1, False), ("t", 0, 3, 1, False),
            ("t", 1, 2, -1, False),
            ("u", 0, 3, 3, True), ("u", 0, 1, 3, True),
        ]
    )  # fmt: skip
    found = lags(
        rows,
        {
            1: offsets((10, 0), (7, 0)),
            2: offsets((-1, 6), (5, 0)),
            3: item_error(BrokerDown("gone")),
        },
        {1: 7, 2: 7, 3: 7},
    )
    assert [(lag.lag_messages, lag.result.error_name) for lag in found] == [
        (0, "NONE"),
        (-1, "REPLICA_NOT_AVAILABLE"),
        (-1, "BROKER_NOT_AVAILABLE"),
        (-1, "LEADER_NOT_AVAILABLE"),
        (-1, "BROKER_NOT_AVAILABLE"),
        (-1, "LEADER_NOT_AVAILABLE"),
    ]
    assert "broker 3, its leader" in found[5].result.message
    assert [lag.status_ms for lag in found] == [7, -1, -1, -1, -1, -1]


def test_partitions_become_columns_sorted_and_once() -> None:
    columns = columns_of([TopicPartition("b", 1), P1, P0, P1])
    assert columns.topics == ("b", "t")
    assert columns.topic_index.tolist() == [0, 1, 1]
    assert columns.partition.tolist() == [1, 0, 1]
    assert len(columns_of([])) == 0


@pytest.mark.conforms("kip-179-early-draft:authorize-status", "kip-179-early-draft:status-error-31")
def test_only_the_partitions_asked_for_are_kept() -> None:
    rows = assignment([("t", 0, 1, 1, True), ("t", 1, 2, 2, True), ("u", 0, 1, 1, True)])
    kept = part_of(rows, [P1, TopicPartition("u", 5), TopicPartition("x", 0)])
    assert kept.broker.tolist() == [2]
    hidden = TopicPartition("hidden", 0)
    errors = {"x": "UNKNOWN_TOPIC_OR_PARTITION", "hidden": "TOPIC_AUTHORIZATION_FAILED"}
    asked = [P1, P2, TopicPartition("x", 0), hidden]
    missing = missing_lags(asked, {P1}, errors)
    assert [(one.partition, one.lag_messages, one.result.error_code) for one in missing] == [
        (P2, -1, 37),
        (TopicPartition("x", 0), -1, 17),
        (hidden, -1, 31),
    ]
