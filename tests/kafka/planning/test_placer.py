"""A backend's placer (KIP-660) on clusters without one: embedded, and real brokers.

What it says is sent as explicit lists; what it cannot say changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.kafka.logs import KafkaLogs
from kshunt.backend.admin.kips.backend_placer import load_backend_placer
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.embedded.core.spec import ClusterSpec, plain_brokers
from kshunt.backend.errors import ConfigError, KshuntError
from kshunt.backend.operations.reassignment.queries import Queries
from kshunt.backend.placement.placer import ReplicaPlacementFailed, load_placer
from kshunt.backend.placement.placer_calls import close_placers
from kshunt.backend.settings import PlacerSettings
from tests.support.admin import (
    DEADLINE_S,
    TIMEOUT_S,
    connected,
    nothing_moves,
    states_of,
    topic_with,
)
from tests.support.brokers.launcher import RealKafka
from tests.support.embedded.background import running
from tests.support.placement.given_placers import FAULTS, RACK_FIRST, Aware, Counting, named
from tests.support.shrink.cases import is_as_before, is_shrunk, made, run, started
from tests.support.shrink.driver import Driver
from tests.support.waiting import wait_until_async

RF3 = AlteredTopic(-1, 3)
BEFORE = [[1, 2], [2, 3]]
HANGS_S = 0.2


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Three brokers in racks `rack-1` to `rack-3`, without the seeds' calls."""
    if request.param == "kafka":
        kafka: RealKafka = request.getfixturevalue("kafka")
        yield kafka.bootstrap_servers
        return
    with running(ClusterSpec(plain_brokers(3, log_dirs=2), native=False)) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
async def admin(servers: str) -> AsyncIterator[Reached]:
    async with connected(servers) as found:
        yield found
    close_placers(HANGS_S)


def rack_first(folder: Path, rack: str) -> PlacerSettings:
    """The placer that puts every leader into one rack."""
    file = folder / "placer.properties"
    file.write_text(f"# as brokers have it\nrack.first = {rack}\n")
    return PlacerSettings(RACK_FIRST, file)


def choose(admin: Reached, settings: PlacerSettings) -> None:
    admin.placing = load_backend_placer(settings, admin.cluster, admin.logs)


def counting(admin: Reached) -> Counting:
    choose(admin, PlacerSettings(named("Counting")))
    placer = load_placer(named("Counting"))
    assert isinstance(placer, Counting)
    return placer


async def alter(admin: Reached, topics: Mapping[str, AlteredTopic]) -> Mapping[str, ItemResult]:
    return await admin.alterations.alter(topics, validate_only=False, timeout_s=TIMEOUT_S)


async def lies(admin: Reached, topic: str, wanted: Sequence[Sequence[int]]) -> None:
    """Wait until a topic's partitions are on these brokers, in this order."""

    async def there() -> bool:
        states = await states_of(admin, topic)
        return [list(states[number].replicas) for number in sorted(states)] == list(wanted)

    await wait_until_async(there, DEADLINE_S, f"{topic} is on {wanted}")
    await nothing_moves(admin, topic)


@pytest.mark.conforms("kip-660-draft:on-other-clusters")
async def test_added_partitions_and_replicas_lie_where_the_placer_says(
    admin: Reached, tmp_path: Path
) -> None:
    choose(admin, rack_first(tmp_path, "rack-2"))
    added = await topic_with(admin, "placed", BEFORE)
    wider = await topic_with(admin, "placed", [[3], [1]])
    both = await topic_with(admin, "placed", [[3], [1]])
    fewer = await topic_with(admin, "placed", BEFORE)
    wanted = {added: AlteredTopic(4), wider: AlteredTopic(-1, 2), both: AlteredTopic(3, 2)}
    results = await alter(admin, wanted | {fewer: AlteredTopic(-1, 1)})
    assert {result.error_name for result in results.values()} == {"NONE"}, results
    await lies(admin, added, [*BEFORE, [2, 1], [2, 1]])
    # What is there stays; the placer names what is added.
    await lies(admin, wider, [[3, 2], [1, 2]])
    await lies(admin, both, [[3, 2], [1, 2], [2, 1]])
    await lies(admin, fewer, [[1], [2]])


async def test_the_placer_is_told_what_there_is(admin: Reached) -> None:
    placer = counting(admin)
    topic = await topic_with(admin, "told", [[1, 2], [2, 3], [3, 1]])
    checked = await admin.alterations.alter(
        {topic: AlteredTopic(5)}, validate_only=True, timeout_s=TIMEOUT_S
    )
    assert checked[topic].ok
    await lies(admin, topic, [[1, 2], [2, 3], [3, 1]])
    assert (await alter(admin, {topic: AlteredTopic(5)}))[topic].ok
    await lies(admin, topic, [[1, 2], [2, 3], [3, 1], [3, 2], [2, 1]])
    assert [call[:3] for call in placer.asked] == [(3, 2, 2)] * 2
    racks = {broker.id: broker.rack for broker in placer.asked[0][3]}
    assert racks == {1: "rack-1", 2: "rack-2", 3: "rack-3"}
    assert placer.topics == [(topic, None)] * 2
    assert placer.existing[0] == [(1, 2), (2, 3), (3, 1)]


async def test_a_placer_that_goes_by_load_is_told_of_disks_and_replicas(admin: Reached) -> None:
    choose(admin, PlacerSettings(named("Aware")))
    topic = await topic_with(admin, "aware", [[1], [1], [2]])
    before = await replicas_held(admin)
    assert (await alter(admin, {topic: AlteredTopic(4)}))[topic].ok
    placer = load_placer(named("Aware"))
    assert isinstance(placer, Aware)
    (loads,) = placer.loads
    assert sorted(loads.brokers) == [1, 2, 3]
    for load in loads.brokers.values():
        assert load.disk_used_bytes is not None
        assert load.disk_total_bytes is not None
        assert 0 <= load.disk_used_bytes < load.disk_total_bytes
        assert load.throughput_bytes_per_s is None
    told = sum(one.replicas or 0 for one in loads.brokers.values())
    # The new partition was not there when they were read; topics of other tests come and go.
    after = await replicas_held(admin) - 1
    assert min(before, after) <= told <= max(before, after)


async def replicas_held(admin: Reached) -> int:
    """How many replicas the cluster has."""
    return len((await admin.cluster.describe(timeout_s=TIMEOUT_S)).assignment)


async def test_what_a_request_places_itself_is_no_question(admin: Reached) -> None:
    placer = counting(admin)
    topic = await topic_with(admin, "given", BEFORE)
    for wanted in (
        AlteredTopic(),
        AlteredTopic(2, 2),
        AlteredTopic(3, -1, {2: [1, 3]}),
        AlteredTopic(1),
        AlteredTopic(-1, 1),
    ):
        await alter(admin, {topic: wanted})
    await lies(admin, topic, [[1], [2], [1]])
    assert placer.asked == []


async def test_proposals_are_the_placers(admin: Reached, tmp_path: Path) -> None:
    choose(admin, rack_first(tmp_path, "rack-3"))
    queries = Queries(admin, SystemClock(), placing=admin.placing)
    first = await topic_with(admin, "proposed", BEFORE)
    second = await topic_with(admin, "proposed", [[1]])
    found = await queries.generate([second, first], [2, 1, 3], rack_aware=True)
    assert found.proposed.replicas == {
        TopicPartition(first, 0): (3, 1),
        TopicPartition(first, 1): (3, 1),
        TopicPartition(second, 0): (3,),
    }
    assert found.current.replicas[TopicPartition(first, 1)] == (2, 3)
    without = await queries.generate([first], [2, 1], rack_aware=False)
    assert set(without.proposed.replicas.values()) == {(1, 2)}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_placer_that_does_not_place_changes_nothing(admin: Reached, name: str) -> None:
    choose(admin, PlacerSettings(named(name)))
    topics = [await topic_with(admin, "refused", BEFORE) for _ in range(3)]
    given = await topic_with(admin, "given", BEFORE)
    wanted = dict(zip(topics, (AlteredTopic(3), RF3, AlteredTopic(4, 3)), strict=True))
    wanted[given] = AlteredTopic(3, -1, {2: [3, 1]})
    # Of what hangs the first question waits for the end of its time, and the others do not.
    first_s = HANGS_S if name == "Hanging" else TIMEOUT_S
    words = "Hanging hangs" if name == "Hanging" else FAULTS[name]
    queries = Queries(admin, SystemClock(), placing=admin.placing, timeout_s=first_s)
    with pytest.raises(ReplicaPlacementFailed) as refused:
        await queries.generate(topics[:1], [1, 2, 3], rack_aware=True)
    assert str(refused.value).startswith(f"Topic {topics[0]}: ")
    assert FAULTS[name] in str(refused.value)
    results = await alter(admin, wanted)
    for topic in topics:
        result = results[topic]
        assert (result.error_name, result.error_code) == ("REPLICA_PLACEMENT_FAILED", 10_000)
        assert words in result.message
        assert not result.retriable
        await lies(admin, topic, BEFORE)
    assert results[given].ok
    await lies(admin, given, [*BEFORE, [3, 1]])


def test_a_topic_that_shrinks_is_copied_to_where_the_placer_says(
    servers: str, tmp_path: Path
) -> None:
    seen: list[Mapping[int, Sequence[int]]] = []
    work = tmp_path / "work"
    work.mkdir()
    before = made(servers, "placed-shrink")

    async def look(driver: Driver) -> None:
        for topic in (driver.work.copy, driver.work.topic):
            states = await states_of(driver.admin, topic)
            seen.append({number: state.replicas for number, state in states.items()})

    driver = Driver(servers, work, placer=rack_first(tmp_path, "rack-3"))
    run(driver, started("placed-shrink"), lambda one: one.until("confirm"), look)
    assert seen[0] == {0: (3, 1), 1: (3, 1)}
    run(driver, Driver.to_end, look)
    assert driver.done, driver.operation
    assert seen[-1] == {0: (3, 1), 1: (3, 1)}
    is_shrunk(before)


def test_a_shrink_that_the_placer_does_not_place_comes_to_nothing(
    servers: str, tmp_path: Path
) -> None:
    before = made(servers, "unplaced-shrink")
    driver = Driver(servers, tmp_path, placer=PlacerSettings(named("Refusing")))
    run(driver, started("unplaced-shrink"), Driver.to_end)
    assert str(driver.operation.state) == "failed"
    assert FAULTS["Refusing"] in driver.operation.outcome
    is_as_before(before)


def test_a_setting_that_is_wrong_is_said_when_it_is_loaded(tmp_path: Path) -> None:
    malformed = tmp_path / "malformed"
    malformed.write_text("rack.first = \\u12\n")
    wrong: Mapping[str, PlacerSettings] = {
        "no installed package has it": PlacerSettings("no-such-placer"),
        "does not have the methods place, configure, close": PlacerSettings(named("NoPlacer")),
        "cannot be created": PlacerSettings(named("Absent")),
        "cannot be read: Is a directory": PlacerSettings("striped", tmp_path),
        "cannot be read: No such file": PlacerSettings("striped", tmp_path / "absent"),
        "Line 1: .u is not followed": PlacerSettings("striped", malformed),
    }
    calls = BrokerCalls.__new__(BrokerCalls)
    for words, settings in wrong.items():
        with pytest.raises(ConfigError, match=words) as refused:
            load_backend_placer(settings, calls, KafkaLogs(calls))
        assert isinstance(refused.value, KshuntError)
    assert load_backend_placer(PlacerSettings(), calls, KafkaLogs(calls)) is None
