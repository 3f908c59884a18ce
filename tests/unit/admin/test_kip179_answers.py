"""KIP-179's answers are alike: by its wire calls, by the port and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.kips.throttles.checks import refused_replicas, without
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import (
    NO_RATE,
    UNTHROTTLED,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
    parse_rate,
)
from kshunt.backend.embedded.core.spec import plain_brokers
from kshunt.backend.embedded.scenario.model import Scenario, TopicSpec
from kshunt.backend.errors import BadInput
from kshunt.backend.wire import kip_requests
from tests.support.embedded.background import running
from tests.support.embedded.core import MB
from tests.support.embedded.listeners import THROTTLED_RATES, ListeningCluster, lists, rate
from tests.support.native import (
    MOVE,
    RATE,
    RATES,
    REPLICAS,
    T0,
    THROTTLED,
    TIMEOUT_S,
    administered,
    move,
    throttled,
)
from tests.support.serving import serving

UNKNOWN_PARTITION, NO_BROKER, INVALID_REQUEST = 3, 8, 42
NUMBERS = {"0:99": NO_BROKER, "77:1": UNKNOWN_PARTITION, "0:1": 0, "1:1": 0}
"""What the wire says of a pair on its own; 1:1 is no replica, and may become one."""
OVERFLOWS = {"0:9999999999": NO_BROKER, "4294967296:1": UNKNOWN_PARTITION}
"""What the wire cannot even write."""
RATES_ASKED = {5: INVALID_REQUEST, 999: INVALID_REQUEST, 1_000: 0, UNTHROTTLED: 0}


async def cleared(admin: Reached) -> None:
    """Take off what a test has set."""
    how: dict[str, Any] = {"validate_only": False, "timeout_s": TIMEOUT_S}
    await admin.throttles.alter_rates({2: NO_RATE}, **how)
    await admin.throttles.alter_replicas({"t": ThrottledReplicas()}, **how)


async def wire_of_pair(cluster: ListeningCluster, pair: str) -> int:
    number, broker = map(int, pair.split(":"))
    made = kip_requests.AlterInterbrokerThrottledReplicasRequest.TopicThrottles.PartitionThrottles
    entry = made(version=1, partition_id=number, leaders=[broker], followers=[])
    answer = await cluster.ask(
        1, REPLICAS, 1, topic_throttles=[("t", [entry])], timeout=1000, validate_only=True
    )
    ((_, ((_, code, _),)),) = [
        (one.topic, [(e.partition_id, e.error_code, e.error_message) for e in one.partition_errors])
        for one in answer.topic_errors
    ]
    return int(code)


async def wire_of_rate(cluster: ListeningCluster, value: int) -> int:
    answer = await cluster.ask(
        1, RATES, broker_throttles=[(2, value, value)], timeout=1000, validate_only=True
    )
    return int(answer.broker_error[0].error_code)


@pytest.mark.conforms("kip-179:replicas-validated")
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("only", [True, False], ids=["validated", "written"])
async def test_a_pair_is_refused_as_on_the_wire(native: bool, only: bool) -> None:
    async with administered() as (cluster, _):
        told = {pair: await wire_of_pair(cluster, pair) for pair in NUMBERS}
    assert told == NUMBERS
    async with administered(native=native) as (cluster, admin):
        for pair, code in (NUMBERS | OVERFLOWS).items():
            found = await admin.throttles.alter_replicas(
                {"t": throttled(pair, "")}, validate_only=only, timeout_s=TIMEOUT_S
            )
            assert found["t"].error_code == code, pair
            wanted = {} if only or code else {"t": lists(pair, "")}
            assert cluster.throttled() == wanted
            await cleared(admin)


async def test_the_others_of_a_topic_are_listed_and_a_broker_that_is_down_is_known() -> None:
    async with administered(native=False) as (cluster, admin):
        cluster.create("elsewhere", [4, 3])
        await cluster.stop_broker(4)
        found = await admin.throttles.alter_replicas(
            {"t": throttled("0:1,0:4,77:1", "1:99"), "none": throttled("", "")},
            validate_only=False,
            timeout_s=TIMEOUT_S,
        )
        assert {name: one.error_code for name, one in found.items()} == {
            "t": NO_BROKER,
            "none": UNKNOWN_PARTITION,
        }
        assert cluster.throttled() == {"t": lists("0:1,0:4", "")}


@pytest.mark.conforms("kip-179:rates-results", "kip-179:rates-validated")
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("only", [True, False], ids=["validated", "written"])
async def test_a_rate_is_refused_as_on_the_wire(native: bool, only: bool) -> None:
    async with administered() as (cluster, _):
        assert {r: await wire_of_rate(cluster, r) for r in RATES_ASKED} == RATES_ASKED
    async with administered(native=native) as (cluster, admin):
        for value, code in (RATES_ASKED | {UNTHROTTLED + 1: INVALID_REQUEST}).items():
            found = await admin.throttles.alter_rates(
                {2: ThrottledRate(RATE, value)}, validate_only=only, timeout_s=TIMEOUT_S
            )
            assert found[2].error_code == code, value
            written = cluster.throttle_of(2).get(THROTTLED_RATES[1])
            assert written == (None if only or code else str(value))
            await cleared(admin)


async def test_what_was_read_goes_back_unchecked() -> None:
    async with administered(native=False) as (cluster, admin):
        how: dict[str, Any] = {"validate_only": False, "timeout_s": TIMEOUT_S, "as_found": True}
        rates = await admin.throttles.alter_rates({2: ThrottledRate(5, 5)}, **how)
        replicas = {"t": throttled("77:1,0:99", "")}
        found = await admin.throttles.alter_replicas(replicas, **how)
        assert rates[2].ok
        assert found["t"].ok
        assert cluster.throttled() == {"t": lists("0:99,77:1", ""), 2: rate(5)}


@pytest.mark.conforms("kip-179:throttle-minimum")
@pytest.mark.parametrize("native", [True, False])
async def test_a_move_with_a_rate_that_the_wire_refuses_does_not_start(native: bool) -> None:
    async with administered(native=native) as (cluster, admin):
        for options in (
            replace(THROTTLED, throttle_bytes_per_s=5),
            replace(THROTTLED, throttle_bytes_per_s=5, validate_only=True),
            replace(THROTTLED, log_dirs_throttle_bytes_per_s=5),
        ):
            outcome = await move(admin, options=options)
            assert outcome.results[T0].error_code == INVALID_REQUEST
            assert "less than 1000 B/s" in outcome.results[T0].message
        assert not cluster.image.is_moving
        assert cluster.throttled() == {}


@pytest.mark.conforms("kip-179:throttle-long-max")
@pytest.mark.parametrize("native", [True, False])
async def test_long_max_value_moves_without_a_throttle(native: bool) -> None:
    async with administered(native=native) as (cluster, admin):
        outcome = await move(admin, MOVE, replace(THROTTLED, throttle_bytes_per_s=UNTHROTTLED))
        assert outcome.results[T0].ok
        assert cluster.image.is_moving
        assert cluster.throttled() == {}


def test_long_max_value_is_exact_and_its_neighbour_is_named_to_the_digit() -> None:
    assert UNTHROTTLED == 9223372036854775807
    assert parse_rate("9223372036854775807") is None
    with pytest.raises(BadInput, match="9223372036854775806 B/s is more than"):
        parse_rate("9223372036854775806")
    assert parse_rate("123456789.123456789MB/s") == 123456789123457
    for endless in ("9" * 5_000, "1." + "9" * 5_000):
        with pytest.raises(BadInput, match="is not a rate"):
            parse_rate(endless)


async def test_a_topic_of_which_nothing_is_left_is_not_written() -> None:
    asked = {"t": throttled("77:1", ""), "u": ThrottledReplicas(), "v": throttled("*", "0:1")}
    refused = [TopicPartition("t", 77), TopicPartition("v", 0)]
    assert without(asked, refused) == {"u": ThrottledReplicas(), "v": throttled("*", "")}
    async with administered(native=False) as (_, admin):
        assert await refused_replicas(admin.cluster, {"t": throttled("*", "")}, TIMEOUT_S) == {}


@pytest.mark.conforms("kip-179:replicas-null")
def test_all_brokers_of_one_partition_can_be_written_where_the_brokers_are_known() -> None:
    assert ReplicaSet.parse("0:*,1:2", [1, 2]) == ReplicaSet.parse("0:1,0:2,1:2")
    for text, brokers in (("0:*", None), ("*:1", [1]), ("0:**", [1])):
        with pytest.raises(BadInput):
            ReplicaSet.parse(text, brokers)


# Over HTTP


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    topic = TopicSpec("t", 2, bytes_per_partition=10_000_000, brokers=(1, 2), replication_factor=2)
    scenario = Scenario("checks", "t", "a", plain_brokers(3), topics=(topic,))
    folder = tmp_path_factory.mktemp("backend")
    with running(scenario) as cluster, serving(cluster.bootstrap_servers, folder) as address:
        transport = httpx.HTTPTransport(uds=address.removeprefix("unix:"))
        with httpx.Client(transport=transport, base_url="http://kshunt", timeout=60) as client:
            yield client


def posted(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def codes(answer: Mapping[str, Any]) -> dict[str, int]:
    return {one["item"]: one["error_code"] for one in answer["results"]}


def listed_now(client: httpx.Client) -> list[Any]:
    found: list[Any] = client.get("/v1/throttles").json()["replicas"]
    return found


@pytest.mark.conforms("kip-179:replicas-null", "kip-179:replicas-results")
@pytest.mark.parametrize("only", [True, False], ids=["validated", "written"])
def test_over_http_each_partition_that_is_refused_has_its_own_result(
    http: httpx.Client, only: bool
) -> None:
    wrong = "0:99,77:1,1:9999999999"
    entries = [{"topic": "t", "leaders": wrong, "followers": ""}]
    path = "/v1/throttles/replicas"
    answer = posted(http, path, replicas=entries, validate_only=only)
    assert codes(answer) == {"t-0": NO_BROKER, "t-1": NO_BROKER, "t-77": UNKNOWN_PARTITION}
    assert listed_now(http) == []
    entries = [{"topic": "t", "leaders": "0:99,1:1", "followers": "1:*"}]
    answer = posted(http, path, replicas=entries, validate_only=only)
    assert codes(answer) == {"t-0": NO_BROKER, "t": 0}
    wanted = [] if only else [{"topic": "t", "leaders": "1:1", "followers": "1:1,1:2,1:3"}]
    assert listed_now(http) == wanted
    posted(http, path, replicas=[{"topic": "t", "leaders": "", "followers": ""}])


@pytest.mark.conforms("kip-179:throttle-long-max")
def test_over_http_long_max_value_is_no_throttle_and_is_never_a_float(http: httpx.Client) -> None:
    exact = json.loads('{"broker": 1, "leader_bytes_per_s": 9223372036854775807}')
    entry = {**exact, "follower_bytes_per_s": 2 * MB}
    answer = posted(http, "/v1/throttles/rates", rates=[entry])
    assert codes(answer) == {"1": 0}
    now = next(one for one in http.get("/v1/throttles").json()["rates"] if one["broker"] == 1)
    assert (now["leader_bytes_per_s"], now["follower_bytes_per_s"]) == (None, 2 * MB)
    entry["follower_bytes_per_s"] = UNTHROTTLED
    assert codes(posted(http, "/v1/throttles/rates", rates=[entry])) == {"1": 0}
    plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2, 3]}]}
    body = {"plan": plan, "throttle_bytes_per_s": UNTHROTTLED, "validate_only": True}
    assert codes(posted(http, "/v1/reassignments", **body)) == {"t-0": 0}
    for beside in (UNTHROTTLED - 1, UNTHROTTLED + 1, float(UNTHROTTLED), 5):
        refused = http.post("/v1/reassignments", json={**body, "throttle_bytes_per_s": beside})
        assert refused.status_code == 400, beside


@pytest.mark.conforms("kip-179:rates-nothing-moves", "kip-179:replicas-auto-remove")
def test_over_http_a_throttle_that_nothing_takes_off_is_said_to_stay(http: httpx.Client) -> None:
    entry = {"broker": 2, "leader_bytes_per_s": None, "follower_bytes_per_s": MB}
    for only in (True, False):
        answer = posted(http, "/v1/throttles/rates", rates=[entry], validate_only=only)
        assert any("broker 2" in note and "stay until" in note for note in answer["notes"])
    body = {"rates": [entry], "auto_remove_throttle": False, "timeout_ms": 5_000}
    assert posted(http, "/v1/throttles/rates", **body)["notes"] == []
    lists = [{"topic": "t", "leaders": "0:1", "followers": ""}]
    answer = posted(http, "/v1/throttles/replicas", replicas=lists, timeout_ms=5_000)
    assert any("1 topic (t)" in note and "stay until" in note for note in answer["notes"])
    posted(http, "/v1/throttles/replicas", replicas=[{**lists[0], "leaders": ""}])
    posted(http, "/v1/throttles/rates", rates=[{**entry, "follower_bytes_per_s": None}])


@pytest.mark.conforms("kip-179:results-by-partition")
def test_over_http_one_unknown_partition_leaves_the_others_to_move(http: httpx.Client) -> None:
    def plan(*entries: tuple[str, int, list[int]]) -> dict[str, Any]:
        named = [{"topic": t, "partition": p, "replicas": r} for t, p, r in entries]
        return {"version": 1, "partitions": named}

    mixed = plan(("t", 0, [2, 1]), ("no-such", 0, [1]), ("t", 9, [1]), ("t", 1, [1, 77]))
    errors = {"no-such-0": 3, "t-9": 3, "t-1": 39}
    for only in (True, False):
        body = {"plan": mixed, "validate_only": only}
        whole = posted(http, "/v1/reassignments", **body, all_or_nothing=True)
        assert codes(whole) == {**errors, "t-0": 55}
        each = posted(http, "/v1/reassignments", **body)
        assert codes(each) == {**errors, "t-0": 0}
    found = posted(http, "/v1/topics/describe", topics=["t"])
    replicas = {one["partition"]: one["replicas"] for one in found["topics"][0]["partitions"]}
    assert replicas == {0: [2, 1], 1: replicas[1]}


@pytest.mark.conforms(
    "kip-179-early-draft:status-fields",
    "kip-179-early-draft:status-by-partition",
    "kip-179-early-draft:status-isr-time",
)
def test_over_http_a_status_says_who_is_in_sync_and_what_does_not_exist(
    http: httpx.Client,
) -> None:
    asked = [{"topic": t, "partition": p} for t, p in (("t", 1), ("t", 9), ("no-such", 0))]
    rows = posted(http, "/v1/replicas/status", partitions=asked)["replicas"]
    there = [one for one in rows if one["broker"] >= 0]
    assert {one["broker"] for one in there} == {1, 2}
    assert all(one["in_isr"] and one["lag_messages"] == 0 for one in there)
    missing = {(one["topic"], one["error_code"]) for one in rows if one["broker"] < 0}
    assert missing == {("t", 37), ("no-such", 17)}
    assert not any(one["in_isr"] for one in rows if one["broker"] < 0)
