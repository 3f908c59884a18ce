"""Scenarios: their files are read strictly, each shows its point, and a seed repeats its run."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import FOLLOWER_RATE, LEADER_RATE, LEADER_REPLICAS
from kshunt.backend.embedded.controller.configs import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    incremental_alter_configs,
)
from kshunt.backend.embedded.controller.elections import elect_leaders
from kshunt.backend.embedded.controller.shrink import delete_partitions
from kshunt.backend.embedded.controller.topics import NewPartitions, create_partitions
from kshunt.backend.embedded.metadata.records import PartitionModeCode, ResourceType
from kshunt.backend.embedded.scenario.model import scenario_names
from kshunt.backend.embedded.scenario.reading import load_scenario, read_scenario
from kshunt.backend.embedded.scenario.timeline import OwnMove
from kshunt.backend.errors import BadInput
from tests.support.embedded.scenarios import Played
from tests.support.paths import ROOT

MB = 1_000_000

SMALL = """
title = "Small"
about = "Four brokers."
[[brokers]]
count = 4
racks = ["a", "b"]
log_dirs = ["/d1", "/d2"]
[[topics]]
name = "t"
partitions = 8
bytes_per_partition = 50_000_000
bytes_per_s = 8_000_000
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def small(folder: Path, more: str = "", *, seed: int = 0) -> Played:
    return Played(read_scenario(written(folder, SMALL + more)), seed)


def played(name: str) -> Played:
    return Played(load_scenario(name))


# --- files


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_that_comes_with_kshunt_can_be_read(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert 10 < len(scenario.title) < 50
    assert "Try:" in scenario.about


def test_the_scenarios_are_those_that_are_promised() -> None:
    assert set(scenario_names()) == {
        "expand",
        "drain",
        "rack-loss",
        "hot-broker",
        "throttle-too-low",
        "orphan-throttles",
        "stuck-replica",
        "shrink",
        "huge",
    }


def test_a_file_of_ones_own_is_a_scenario_too(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    assert load_scenario(str(path)) == read_scenario(path)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"no scenario named 'nothing'.*expand"):
        load_scenario("nothing")


EVENT = '[[events]]\nat_s = 1\naction = "{}"\n{}\n'


def test_the_manual_names_every_action(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="must be one of") as refused:
        read_scenario(written(tmp_path, SMALL + EVENT.format("explode", "")))
    actions = re.findall(r"[a-z_]+", str(refused.value).partition("must be one of")[2])
    manual = (ROOT / "docs" / "embedded-cluster.md").read_text()
    assert len(actions) > 10
    assert [action for action in actions if f"`{action}`" not in manual] == []


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("colour = 1", r"topics\[0\].colour is unknown"),
        ("skew = 'much'", r"topics\[0\].skew is not a number"),
        ("swing = -1", r"topics\[0\].swing must be a finite number of at least 0"),
        ("noise = nan", r"topics\[0\].noise must be a finite number"),
        ("noise = inf", r"topics\[0\].noise must be a finite number"),
        ("count = true", r"topics\[0\].count is not a whole number"),
        ("count = 2", r"topics\[0\].name must have \{\} for a number"),
        ("replication_factor = 5", r"topics\[0\].replication_factor is 5"),
        ("brokers = [9]", r"topics\[0\].brokers names broker 9"),
        ("brokers = [1, 'x']", r"topics\[0\].brokers\[1\] is not a whole number"),
        ("configs = {nothing = '1'}", r"topics\[0\].configs.nothing cannot be '1'"),
        ("configs = {'retention.ms' = 'x'}", r"configs.retention.ms cannot be 'x'"),
        ("[static]\n'min.insync.replicas' = '0'", r"static.min.insync.replicas cannot be '0'"),
        ("[static]\n'min.insync.replicas' = 2", r"static.min.insync.replicas is not a string"),
        ("[[topics]]\nname = 't'\npartitions = 1", "topics has a name twice"),
        ("[[topics]]\nname = 'u'", r"topics\[1\].partitions is missing"),
        ("[[brokers]]\nids = [1]", "brokers has an id twice"),
        ("[[brokers]]\nids = [-1]", r"brokers\[1\].ids has a negative one"),
        ("[[brokers]]\nids = [7]\ncount = 2", r"brokers\[1\].count cannot be used with ids"),
        ("[[events]]\naction = 'elect'", r"events\[0\].at_s is missing"),
        ("[[events]]\nat_s = -1\naction = 'elect'", r"events\[0\].at_s must be a finite"),
        (EVENT.format("explode", ""), r"events\[0\].action is 'explode', but must be one of stop"),
        (EVENT.format("stop", ""), r"events\[0\]\.brokers names no broker"),
        (EVENT.format("stop", "brokers = [5]"), r"events\[0\].brokers names broker 5"),
        (EVENT.format("elect", "brokers = [1]"), r"events\[0\].brokers is unknown"),
        (EVENT.format("fail_log_dir", "broker = 1\npath = '/d3'"), r"events\[0\].path is '/d3'"),
        (EVENT.format("slow_link", "source = 1\ntarget = 8"), r"target names broker 8"),
        (EVENT.format("reassign", ""), r"events\[0\].drain or expand or moves must be"),
        (EVENT.format("reassign", "drain = [1]\nexpand = [2]"), "only one of them"),
        (EVENT.format("reassign", "moves = {t-8 = [1]}"), "moves.t-8 is not a partition"),
        (EVENT.format("reassign", "moves = {t-0 = [1, 1]}"), "moves.t-0 is empty, or has"),
        (EVENT.format("reassign", "drain = [1]\nby = 'me'"), r"events\[0\].by is 'me'"),
        (EVENT.format("set_config", "values = {'x' = '1'}"), r"values.x cannot be '1'"),
        (EVENT.format("set_config", "topics = ['u']"), r"events\[0\].topics names 'u'"),
        (EVENT.format("set_config", ""), r"events\[0\].values is missing"),
        (EVENT.format("delete_config", "keys = ['x']"), r"events\[0\].keys\[0\] is 'x'"),
        (
            EVENT.format("delete_partitions", "topic = 't'\npartitions = 8"),
            "is not less than the number that t",
        ),
        (EVENT.format("traffic", "factor = 'x'"), r"events\[0\].factor is not a number"),
        ("[[events]", "is not valid TOML"),
    ],
)
def test_a_mistake_is_named_by_file_and_key(tmp_path: Path, more: str, problem: str) -> None:
    path = written(tmp_path, SMALL + more)
    with pytest.raises(BadInput, match=problem) as caught:
        read_scenario(path)
    assert str(path) in caught.value.message


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none.toml cannot be read: No such file"):
        load_scenario(str(tmp_path / "none.toml"))


# --- the same seed


@pytest.mark.slow
def test_a_seed_repeats_its_run_byte_for_byte() -> None:
    scenario = load_scenario("drain")
    first, second, other = Played(scenario, 7), Played(scenario, 7), Played(scenario, 8)
    assert other.written.data != first.written.data
    for run in (first, second):
        run.run(600)
    assert first.image.offset > 100
    assert first.written.data == second.written.data
    for table in ("replicas", "partitions"):
        one, same = (getattr(run.plane.replication, table) for run in (first, second))
        for name in one.DEFAULTS:
            assert np.array_equal(getattr(one, name), getattr(same, name)), name


# --- moves


def test_a_drain_keeps_replicas_and_racks(tmp_path: Path) -> None:
    run = small(tmp_path, EVENT.format("reassign", "drain = [2]"))
    before = {n: p.replicas for n, p in run.image.topics["t"].partitions.items()}
    run.run(900)
    assert run.moving == set()
    for number, partition in run.image.topics["t"].partitions.items():
        assert 2 not in partition.replicas
        assert len(set(partition.replicas)) == 3
        kept = set(before[number]) - {2}
        assert kept <= set(partition.replicas)
        assert len({broker % 2 for broker in partition.replicas}) == 2


def test_an_expansion_gives_new_brokers_their_share(tmp_path: Path) -> None:
    text = SMALL.replace("count = 4", "count = 6") + "brokers = [1, 2, 3, 4]\n"
    path = written(tmp_path, text + EVENT.format("reassign", "expand = [5, 6]"))
    run = Played(read_scenario(path))
    run.run(900)
    counts = Counter(
        broker
        for partition in run.image.topics["t"].partitions.values()
        for broker in partition.replicas
    )
    assert counts[5] == counts[6] == 4
    assert set(counts.values()) <= {3, 4, 5}


def test_only_so_many_partitions_of_some_topics_move(tmp_path: Path) -> None:
    goal = "drain = [1]\ntopics = ['t']\npartitions_max = 2\nthrottle_bytes_per_s = 100_000"
    run = small(tmp_path, EVENT.format("reassign", goal))
    run.run(2)
    assert len(run.moving) == 2
    assert run.image.dynamic_configs(ResourceType.BROKER, "1")[LEADER_RATE] == "100000"


def test_kshunts_own_moves_are_handed_over() -> None:
    moves: list[OwnMove] = []
    run = Played(load_scenario("expand"), submit=moves.append)
    assert run.moving == set()
    assert len(moves) == 1
    assert moves[0].throttle_bytes_per_s == 60 * MB
    assert all(len(set(replicas) & {7, 8}) == 1 for replicas in moves[0].targets.values())


# --- what each scenario is for


def test_expand_fills_two_empty_brokers_and_takes_its_throttle_off() -> None:
    run = played("expand")
    first = {
        b for t in run.image.topics.values() for p in t.partitions.values() for b in p.original
    }
    assert first == {1, 2, 3, 4, 5, 6}
    run.run(300)
    assert len(run.moving) > 20
    run.run(2400)
    assert run.moving == set()
    assert run.image.hosted_count(7) == run.image.hosted_count(8) > 20
    assert FOLLOWER_RATE not in run.image.dynamic_configs(ResourceType.BROKER, "7")


def test_drain_waits_for_the_throttle_of_the_broker_that_is_drained() -> None:
    run = played("drain")
    assert sum(len(t.partitions) for t in run.image.topics.values()) == 5_000
    run.run(60)
    assert 200 < len(run.moving) < 788
    assert run.sent_bytes_per_s(7) == pytest.approx(40 * MB, rel=0.01)


def test_rack_loss_and_return() -> None:
    run = played("rack-loss")
    run.run(25)
    assert run.sockets.words == ["crash 2", "crash 5", "crash 8"]
    assert run.under_replicated == 0  # not noticed yet
    run.run(20)
    assert run.under_replicated > 40
    assert run.moving
    run.run(400)
    assert run.sockets.words[3:] == ["start 2", "start 5", "start 8"]
    assert run.under_replicated == 0


def test_hot_broker_is_relieved_by_preferred_leaders() -> None:
    run = played("hot-broker")
    run.run(55)
    assert run.sent_bytes_per_s(3) > 115 * MB
    assert sum(len(p.isr) < 3 for p in run.image.topics["clickstream"].partitions.values()) > 0
    run.run(120)
    run.core.commit(elect_leaders(run.image, None))
    run.run(60)
    assert run.under_replicated == 0
    assert run.sent_bytes_per_s(3) < 70 * MB


def test_a_throttle_that_is_too_low_never_ends() -> None:
    run = played("throttle-too-low")
    before = run.left_bytes()
    run.run(600)
    assert run.left_bytes() > before
    rates = {LEADER_RATE: 60 * MB, FOLLOWER_RATE: 60 * MB}
    changes = [ConfigChange(key, ConfigOp.SET, str(value)) for key, value in rates.items()]
    brokers = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in range(1, 6)]
    run.core.commit(incremental_alter_configs(run.image, dict.fromkeys(brokers, changes)))
    run.run(1_200)
    assert run.moving == set()


def test_orphan_throttles_hold_back_a_broker_that_returns() -> None:
    run = played("orphan-throttles")
    assert run.moving == set()
    assert run.image.dynamic_configs(ResourceType.TOPIC, "orders")[LEADER_REPLICAS] == "*"
    run.run(300)
    assert run.sockets.words == ["crash 4", "start 4"]
    assert run.under_replicated > 5
    gone = [ConfigChange(key, ConfigOp.DELETE) for key in (LEADER_RATE, FOLLOWER_RATE)]
    brokers = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in range(1, 7)]
    run.core.commit(incremental_alter_configs(run.image, dict.fromkeys(brokers, gone)))
    run.run(120)
    assert run.under_replicated == 0


def test_stuck_replica_is_the_only_one_in_the_end() -> None:
    run = played("stuck-replica")
    assert len(run.moving) > 5
    run.run(2_400)
    assert run.moving == {"ledger-0"}


def test_shrink_closes_partitions_and_then_deletes_them() -> None:
    run = played("shrink")
    clicks = run.image.topics["clicks"].partitions
    run.run(30)
    modes = [partition.mode for _, partition in sorted(clicks.items())]
    assert modes == [PartitionModeCode.READ_WRITE] * 16 + [PartitionModeCode.READ_ONLY] * 8
    held = run.plane.named("clicks", 23)
    assert held is not None
    end = run.plane.log_end_offset(held, held.leader)
    run.run(60)
    assert run.plane.log_end_offset(held, held.leader) == end
    run.run(60)
    assert len(run.image.topics["sessions"].partitions) == 6
    run.run(150)
    assert len(clicks) == 16


# --- traffic and events


def rates(run: Played, topic: str = "t") -> list[float]:
    column = run.plane.replication.partitions.bytes_rate
    found = [run.plane.named(topic, n) for n in sorted(run.image.topics[topic].partitions)]
    return [float(column[held.row]) for held in found if held is not None]


def test_even_traffic_is_even(tmp_path: Path) -> None:
    assert rates(small(tmp_path)) == [MB] * 8


def test_keyed_traffic_is_a_zipf_in_an_order_of_the_seeds(tmp_path: Path) -> None:
    found = rates(small(tmp_path, "skew = 1.0"))
    harmonic = sum(1 / rank for rank in range(1, 9))
    expected = [8 * MB / rank / harmonic for rank in range(1, 9)]
    assert sorted(found, reverse=True) == pytest.approx(expected)
    assert rates(small(tmp_path, "skew = 1.0", seed=1)) != found


def test_a_swing_goes_up_and_down(tmp_path: Path) -> None:
    run = small(tmp_path, "swing = 0.5\nperiod_s = 240")
    run.run(60)
    assert sum(rates(run)) == pytest.approx(12 * MB)
    run.run(120)
    assert sum(rates(run)) == pytest.approx(4 * MB)


def test_noise_stays_within_its_share(tmp_path: Path) -> None:
    run = small(tmp_path, "noise = 0.2")
    totals = []
    for _ in range(20):
        run.run(10)
        totals.append(sum(rates(run)))
    assert len(set(totals)) == 20
    assert 6.4 * MB <= min(totals) < max(totals) <= 9.6 * MB


def test_a_factor_multiplies_what_is_written(tmp_path: Path) -> None:
    run = small(tmp_path, EVENT.format("traffic", "factor = 3\ntopics = ['t']"))
    run.run(2)
    assert rates(run) == [3 * MB] * 8


def test_new_partitions_take_their_share(tmp_path: Path) -> None:
    run = small(tmp_path)
    grown = create_partitions(run.image, {"t": NewPartitions(16)}, run.core.random)
    run.core.commit(grown)
    run.run(10)
    assert rates(run) == [MB / 2] * 16


def test_partitions_that_somebody_closes_are_written_to_no_more(tmp_path: Path) -> None:
    run = small(tmp_path, "[static]\n'delete.topic.partition.enable' = 'true'")
    run.core.commit(delete_partitions(run.image, {"t": 6}, run.core.now_ms, delay_ms=10**9))
    run.run(10)
    assert rates(run)[5:] == [MB, 0.0, 0.0]
    run.core.commit(delete_partitions(run.image, {"t": 8}, run.core.now_ms))
    run.run(20)
    assert rates(run) == [MB] * 8


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("stop", ["stop 2"]),
        ("crash", ["crash 2"]),
        ("stall", ["stall 2"]),
        ("start", []),
        ("resume", []),
    ],
)
def test_what_happens_to_a_broker_happens_to_its_sockets(
    tmp_path: Path, action: str, words: list[str]
) -> None:
    run = small(tmp_path, EVENT.format(action, "brokers = [2]"))
    run.run(2)
    assert run.sockets.words == words
    assert run.plane.is_up(2) == (not words)
    run.run(15)
    assert run.image.brokers[2].fenced == bool(words)


def test_a_broker_that_hangs_goes_on(tmp_path: Path) -> None:
    resumed = '[[events]]\nat_s = 20\naction = "resume"\nbrokers = [2]\n'
    run = small(tmp_path, EVENT.format("stall", "brokers = [2]") + resumed)
    run.run(60)
    assert run.sockets.words == ["stall 2", "resume 2"]
    assert run.under_replicated == 0


def test_a_broker_may_start_later(tmp_path: Path) -> None:
    later = "[[brokers]]\nids = [9]\nstarted = false\n"
    run = small(tmp_path, later + EVENT.format("start", "brokers = [9]"))
    assert 9 not in run.image.brokers
    run.run(2)
    assert run.image.brokers[9].port == 9_009
    assert run.sockets.words == ["start 9"]


def test_other_events_happen_too(tmp_path: Path) -> None:
    run = small(
        tmp_path,
        EVENT.format("fail_log_dir", "broker = 3\npath = '/d1'")
        + EVENT.format("fail_over", "")
        + EVENT.format("slow_link", "source = 1\ntarget = 2\nbytes_per_s = 10")
        + EVENT.format("set_config", "values = {'min.insync.replicas' = '2'}")
        + EVENT.format("set_config", "topics = ['t']\nvalues = {'retention.ms' = '5'}")
        + EVENT.format("elect", "topics = ['t']")
        + EVENT.format("delete_config", "topics = ['t']\nkeys = ['retention.ms']").replace(
            "at_s = 1", "at_s = 60"
        ),
    )
    before = run.image.controller
    run.run(50)
    assert run.image.brokers[3].offline_dirs == ("/d1",)
    assert run.image.controller != before
    assert run.image.cluster_config("min.insync.replicas") == "2"
    assert run.image.dynamic_configs(ResourceType.TOPIC, "t") == {"retention.ms": "5"}
    assert run.under_replicated > 0
    run.run(20)
    assert run.image.dynamic_configs(ResourceType.TOPIC, "t") == {}


def test_a_cluster_that_comes_back_goes_on_without_its_past(tmp_path: Path) -> None:
    run = small(tmp_path, EVENT.format("reassign", "moves = {t-0 = [1, 2, 3]}"))
    run.run(5)
    ids = {name: topic.topic_id for name, topic in run.image.topics.items()}
    before = run.image.offset
    run.timeline.begin()
    assert run.image.offset == before
    assert {name: topic.topic_id for name, topic in run.image.topics.items()} == ids
    assert run.image.partition(*TopicPartition("t", 0)) is not None
