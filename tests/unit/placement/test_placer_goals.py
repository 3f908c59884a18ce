"""The goal-driven placers: new brokers first, and none on those that go or are full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from kshunt.backend.domain.cluster.broker_loads import BrokerLoad, BrokerLoads
from kshunt.backend.errors import ConfigError
from kshunt.backend.placement.avoid_full import AvoidFullBrokers
from kshunt.backend.placement.avoid_removed import AvoidRemovedBrokers
from kshunt.backend.placement.goals import GoalPlacer
from kshunt.backend.placement.placer import InvalidReplicationFactor, ReplicaPlacementFailed
from kshunt.backend.placement.prefer_new import PreferNewBrokers
from tests.support.placement.placers import ask, broker, brokers, in_racks, racks_of

MB = 10**6


def held(placed: Sequence[Sequence[int]]) -> dict[int, int]:
    return dict(Counter(replica for replicas in placed for replica in replicas))


def leads(placed: Sequence[Sequence[int]]) -> dict[int, int]:
    return dict(Counter(replicas[0] for replicas in placed))


def holding(*replicas: int | None) -> BrokerLoads:
    """Brokers 0, 1, 2 … that hold these numbers of replicas; None if the number is not known."""
    return BrokerLoads({at: BrokerLoad(at, replicas=many) for at, many in enumerate(replicas)})


def disks(*shares: float | None) -> BrokerLoads:
    """Brokers 0, 1, 2 … whose disks are so full."""
    return BrokerLoads(
        {
            at: BrokerLoad(at, None if share is None else round(share * 1000), 1000)
            for at, share in enumerate(shares)
        }
    )


def prefer_new(ids: str = "", loads: BrokerLoads | None = None) -> PreferNewBrokers:
    placer = PreferNewBrokers(Random(1))
    placer.configure({"kshunt.placer.new.brokers": ids})
    if loads is not None:
        placer.observe(loads)
    return placer


def avoid_removed(ids: str, strict: str = "true") -> AvoidRemovedBrokers:
    placer = AvoidRemovedBrokers(Random(1))
    placer.configure({"kshunt.placer.removed.brokers": ids, "kshunt.placer.removed.strict": strict})
    return placer


def avoid_full(loads: BrokerLoads, **configs: str) -> AvoidFullBrokers:
    placer = AvoidFullBrokers(Random(1))
    placer.configure({f"kshunt.placer.{key}".replace("_", "."): configs[key] for key in configs})
    placer.observe(loads)
    return placer


# New brokers


@pytest.mark.conforms("kip-660-draft:new-brokers")
def test_named_brokers_come_first_where_nobody_knows_what_they_hold() -> None:
    placed = ask(prefer_new("4, 5"), 6, 2, brokers(6))
    assert held(placed) == {4: 6, 5: 6}
    assert leads(placed) == {4: 3, 5: 3}
    third = held(ask(prefer_new("4,5"), 8, 3, brokers(6)))
    assert third == {4: 8, 5: 8, 0: 2, 1: 2, 2: 2, 3: 2}


def test_the_emptiest_come_first_until_all_hold_as_much() -> None:
    loads = holding(10, 10, 10, 0)
    assert held(ask(prefer_new("", loads), 4, 1, brokers(4))) == {3: 4}
    after = Counter({0: 10, 1: 10, 2: 10}) + Counter(
        held(ask(prefer_new("", loads), 9, 2, brokers(4)))
    )
    assert after == {0: 13, 1: 13, 2: 13, 3: 9}
    assert held(ask(prefer_new("", loads), 50, 1, brokers(4))) == {0: 10, 1: 10, 2: 10, 3: 20}


def test_a_named_broker_comes_first_until_it_holds_an_even_share() -> None:
    loads = holding(30, 10, 20)
    # (60 + 18) / 3 = 26 each: broker 2 takes six, though broker 1 is emptier.
    assert held(ask(prefer_new("2", loads), 6, 1, brokers(3))) == {1: 4, 2: 2}
    assert held(ask(prefer_new("2", loads), 18, 1, brokers(3))) == {1: 12, 2: 6}


def test_who_leads_least_leads_first_where_that_is_known_of_all() -> None:
    def leading(*leaders: int | None) -> BrokerLoads:
        return BrokerLoads({at: BrokerLoad(at, None, None, 4, n) for at, n in enumerate(leaders)})

    assert leads(ask(prefer_new("", leading(4, 4, 0)), 4, 3, brokers(3))) == {2: 4}
    assert leads(ask(prefer_new("", leading(4, None, 0)), 6, 3, brokers(3))) == {0: 2, 1: 2, 2: 2}


def test_racks_come_before_new_brokers() -> None:
    given = in_racks(2, 2, 2)
    placed = ask(prefer_new("4,5"), 6, 3, given)
    assert all(len(set(racks_of(given, replicas))) == 3 for replicas in placed)
    assert held(placed) == dict.fromkeys(range(6), 3)
    assert held(ask(prefer_new("4,5"), 6, 1, given)) == {4: 3, 5: 3}


def test_a_new_broker_that_is_fenced_gets_nothing_while_others_are_enough() -> None:
    given = [*brokers(3), broker(3, fenced=True)]
    assert held(ask(prefer_new("3", holding(5, 5, 5, 0)), 3, 2, given)) == {0: 2, 1: 2, 2: 2}
    assert held(ask(prefer_new("3"), 3, 4, given)) == dict.fromkeys(range(4), 3)


# Brokers that are being removed


@pytest.mark.conforms("kip-660-draft:removed-brokers")
def test_brokers_that_go_get_nothing_and_the_others_share_evenly() -> None:
    placed = ask(avoid_removed("0,5"), 8, 2, brokers(6))
    assert held(placed) == dict.fromkeys(range(1, 5), 4)
    assert leads(placed) == dict.fromkeys(range(1, 5), 2)


def test_a_rack_of_brokers_that_go_counts_no_more() -> None:
    placed = ask(avoid_removed("4"), 6, 3, in_racks(2, 2, 1))
    assert 4 not in held(placed)


def test_too_few_that_stay_are_a_failure_that_says_so() -> None:
    with pytest.raises(ReplicaPlacementFailed) as failed:
        ask(avoid_removed("2,1"), 1, 3, brokers(4))
    assert str(failed.value) == (
        "3 replica(s) need 3 brokers, but only 2 of 4 may be used (2 not fenced): broker 1 is "
        "being removed; broker 2 is being removed. Nothing was placed."
    )
    with pytest.raises(ReplicaPlacementFailed, match="0 not fenced"):
        ask(avoid_removed("0"), 1, 1, [broker(0), broker(1, fenced=True)])
    with pytest.raises(InvalidReplicationFactor, match="only 4 broker"):
        ask(avoid_removed("2,1"), 1, 5, brokers(4))


def test_where_it_is_not_strict_those_that_go_come_last() -> None:
    assert held(ask(avoid_removed("2,1", "false"), 6, 3, brokers(4))) == {0: 6, 3: 6, 1: 3, 2: 3}
    racks = in_racks(2, 1)
    placed = ask(avoid_removed("1,2", "false"), 4, 2, racks)
    assert held(placed) == {0: 4, 2: 4}


# Brokers that are full


@pytest.mark.conforms("kip-660-draft:full-brokers")
def test_full_disks_get_nothing() -> None:
    loads = disks(0.85, 0.84, 0.2, 0.99)
    assert held(ask(avoid_full(loads), 4, 2, brokers(4))) == {1: 4, 2: 4}
    low = avoid_full(loads, disk_limit="0.5")
    assert held(ask(low, 4, 1, brokers(4))) == {2: 4}


def test_between_equals_the_emptier_disk_comes_first_and_an_unknown_one_last() -> None:
    loads = disks(0.5, 0.1, None, 0.3)
    assert [ask(avoid_full(loads), 1, 4, brokers(4))[0]] == [(1, 3, 0, 2)]
    assert held(ask(avoid_full(loads), 8, 1, brokers(4))) == dict.fromkeys(range(4), 2)


@pytest.mark.conforms("kip-660-draft:full-brokers")
def test_throughput_counts_where_there_is_a_limit_and_both_directions_are_known() -> None:
    loads = BrokerLoads(
        {
            0: BrokerLoad(0, in_bytes_per_s=60 * MB, out_bytes_per_s=40 * MB),
            1: BrokerLoad(1, in_bytes_per_s=60 * MB, out_bytes_per_s=39 * MB),
            2: BrokerLoad(2, in_bytes_per_s=500 * MB),
        }
    )
    limited = avoid_full(loads, throughput_limit_bytes="100e6")
    assert held(ask(limited, 4, 2, brokers(3))) == {1: 4, 2: 4}
    assert held(ask(avoid_full(loads), 3, 2, brokers(3))) == {0: 2, 1: 2, 2: 2}


def test_every_full_broker_is_named_with_its_figure() -> None:
    loads = BrokerLoads(
        {
            0: BrokerLoad(0, 91, 100),
            1: BrokerLoad(1, 10, 100, in_bytes_per_s=9.0, out_bytes_per_s=2.0),
            2: BrokerLoad(2, 10, 100),
        }
    )
    strict = avoid_full(loads, throughput_limit_bytes="10")
    with pytest.raises(ReplicaPlacementFailed) as failed:
        ask(strict, 1, 2, brokers(3))
    assert "broker 0 has 91% of its disks used (limit 85%)" in str(failed.value)
    assert "broker 1 carries 11 B/s (limit 10 B/s)" in str(failed.value)
    lenient = avoid_full(loads, throughput_limit_bytes="10", full_strict="false")
    assert held(ask(lenient, 4, 2, brokers(3))) == {0: 2, 1: 2, 2: 4}


# All of them


@pytest.mark.parametrize(
    ("placer", "configs", "words"),
    [
        (PreferNewBrokers, {"new.brokers": "1,x"}, "'x' is not a broker id"),
        (AvoidRemovedBrokers, {"removed.brokers": "-1"}, "'-1' is not a broker id"),
        (AvoidRemovedBrokers, {"removed.strict": "no"}, "'no' must be true or false"),
        (AvoidFullBrokers, {"disk.limit": "85"}, "85 is not a share"),
        (AvoidFullBrokers, {"disk.limit": "0"}, "0 is not a share"),
        (AvoidFullBrokers, {"disk.limit": "nan"}, "nan is not a share"),
        (AvoidFullBrokers, {"disk.limit": "much"}, "'much' is not a number"),
        (AvoidFullBrokers, {"throughput.limit.bytes": "-5"}, "-5 is not a rate"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(
    placer: type[GoalPlacer], configs: Mapping[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        placer().configure({f"kshunt.placer.{key}": value for key, value in configs.items()})
    assert error.value.message.startswith("kshunt.placer.")


@pytest.mark.conforms("kip-660-draft:racks-and-no-racks")
def test_brokers_with_and_without_a_rack_are_refused() -> None:
    with pytest.raises(ReplicaPlacementFailed, match="Not all brokers have rack"):
        ask(prefer_new(), 1, 1, [broker(0, "a"), broker(1)])
