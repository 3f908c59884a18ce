"""The planner for log directories, compared with plans by hand and with the best there is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshunt.backend.domain.cluster.metadata import LogDir, OngoingReassignment, TopicPartition
from kshunt.backend.domain.planning.proposal import Proposal
from kshunt.backend.domain.reassignment.plan import parse_plan
from kshunt.backend.errors import BadInput
from kshunt.backend.placement.plans.log_dirs import move_log_dirs
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from tests.support.placement.plans import tp
from tests.support.runs.examples import many

Dirs = dict[str, int | None]
"""Bytes that may be added to each directory; None where its volume is not known."""


def situation(
    replicas: Sequence[tuple[str | None, int | None]],
    dirs: Dirs,
    moving: Sequence[OngoingReassignment] = (),
    down: bool = False,
) -> Situation:
    """Broker 1 with these directories, and partitions of it in one of them with a size."""
    volumes = tuple(
        LogDir(1, path) if room is None else LogDir(1, path, 100_000, 15_000 + room)
        for path, room in dirs.items()
    )
    return Situation.of(
        [
            PartitionSituation(tp(n), (2, 1), 2, (2, 1), size, log_dirs=(None, path))
            for n, (path, size) in enumerate(replicas)
        ],
        [BrokerFacts(1, up=not down, log_dirs=volumes), BrokerFacts(2)],
        moving,
    )


def where(replicas: Sequence[tuple[str, int]], proposal: Proposal) -> list[str]:
    """The directory of each replica in the end, by the proposal's JSON."""
    if not proposal.targets:
        return [path for path, _ in replicas]
    plan = parse_plan(proposal.plan_json)
    assert all(plan.replicas[name] == (2, 1) for name in plan.replicas)
    assert plan.log_dirs == proposal.log_dirs
    back = parse_plan(proposal.rollback_json)
    assert back.log_dirs == {
        (name, broker): replicas[name.partition][0] for name, broker in plan.log_dirs
    }
    return [plan.log_dirs.get((tp(n), 1), path) for n, (path, _) in enumerate(replicas)]


def copied(replicas: Sequence[tuple[str, int]], after: Sequence[str]) -> int:
    return sum(size for (path, size), target in zip(replicas, after, strict=True) if path != target)


def fits(replicas: Sequence[tuple[str, int]], after: Sequence[str], dirs: Dirs) -> bool:
    for directory, room in dirs.items():
        added = [
            size
            for (path, size), target in zip(replicas, after, strict=True)
            if target == directory != path
        ]
        if room is not None and sum(added) > room:
            return False
    return True


def held(replicas: Sequence[tuple[str, int]], after: Sequence[str], path: str) -> int:
    return sum(size for (_, size), at in zip(replicas, after, strict=True) if at == path)


disks = st.dictionaries(
    st.sampled_from(("/a", "/b", "/c")), st.one_of(st.none(), st.integers(0, 150)), min_size=2
)


@settings(max_examples=many(100))
@given(disks, st.data(), st.sampled_from((0.0, 0.2)))
def test_directories_are_evened_out_by_the_fewest_bytes(
    dirs: Dirs, data: st.DataObject, tolerance: float
) -> None:
    replica = st.tuples(st.sampled_from(sorted(dirs)), st.integers(1, 100))
    replicas = data.draw(st.lists(replica, min_size=1, max_size=5))
    proposal = move_log_dirs(situation(replicas, dirs), 1, tolerance=tolerance)
    after = where(replicas, proposal)
    # All volumes are of one size here, or one is not known: each has the same share.
    share = sum(size for _, size in replicas) / len(dirs)

    def outside(places: Sequence[str]) -> float:
        loads = [held(replicas, places, path) for path in dirs]
        low, high = share * (1 - tolerance), share * (1 + tolerance)
        return sum(max(load - high, low - load, 0.0) for load in loads)

    reached = outside(after)
    assert fits(replicas, after, dirs)
    assert abs(proposal.measure.after - reached) < 1e-6
    assert proposal.cost.log_dir_bytes == copied(replicas, after)
    assert proposal.cost.moved_bytes == 0
    best = min(
        copied(replicas, each)
        for each in product(dirs, repeat=len(replicas))
        if fits(replicas, each, dirs) and outside(each) <= reached + 1e-4
    )
    assert copied(replicas, after) <= 1.1 * best
    assert bool(proposal.notes) == (reached > 1e-4)


@settings(max_examples=many(100))
@given(disks, st.data())
def test_an_emptied_directory_keeps_only_what_fits_nowhere(dirs: Dirs, data: st.DataObject) -> None:
    replica = st.tuples(st.sampled_from(sorted(dirs)), st.integers(1, 100))
    replicas = data.draw(st.lists(replica, min_size=1, max_size=5))
    gone = data.draw(st.sampled_from(sorted(dirs)))
    proposal = move_log_dirs(situation(replicas, dirs), 1, empty=[gone])
    after = where(replicas, proposal)
    left = held(replicas, after, gone)
    assert fits(replicas, after, dirs)
    assert proposal.measure.after == left
    best = min(
        copied(replicas, each)
        for each in product(dirs, repeat=len(replicas))
        if fits(replicas, each, dirs) and held(replicas, each, gone) <= left
    )
    assert copied(replicas, after) <= 1.1 * best
    if all(room is None for path, room in dirs.items() if path != gone):
        assert left == 0
    assert bool(proposal.notes) == (left > 0)


def test_a_full_directory_is_emptied_into_the_others_by_their_share() -> None:
    replicas = [("/a", 30), ("/a", 20), ("/a", 10), ("/b", 10), ("/c", 40)]
    proposal = move_log_dirs(
        situation(replicas, {"/a": None, "/b": None, "/c": None}), 1, empty=["/a"]
    )
    assert where(replicas, proposal) == ["/b", "/b", "/c", "/b", "/c"] or where(
        replicas, proposal
    ) == ["/b", "/c", "/b", "/b", "/c"]
    assert proposal.cost.log_dir_bytes == 60
    assert "3 replicas change directory (60 B)" in proposal.sentence
    assert '"replicas":[2,1],"log_dirs":["any","/b"]' in proposal.plan_json


def test_many_replicas_are_evened_out_too() -> None:
    replicas = [("/a" if n % 3 else "/b", 50 + n) for n in range(60)]
    proposal = move_log_dirs(situation(replicas, {"/a": None, "/b": None, "/c": None}), 1)
    after = where(replicas, proposal)
    total = sum(size for _, size in replicas)
    loads = {path: held(replicas, after, path) for path in ("/a", "/b", "/c")}
    assert all(0.9 * total / 3 <= load <= 1.1 * total / 3 for load in loads.values())
    # The empty one has to be given 0.9 of its share by any plan.
    assert proposal.cost.log_dir_bytes <= 1.05 * 0.9 * total / 3
    assert proposal.measure.after == 0


def test_what_is_not_known_or_not_free_stays_with_a_note() -> None:
    move = OngoingReassignment(tp(0), (2, 1, 3), (3,), ())
    found = situation([("/a", 30), (None, 20), ("/a", None)], {"/a": None, "/b": None}, [move])
    proposal = move_log_dirs(found, 1, empty=["/a"])
    # The largest known size, 30, is what the unknown one counts as.
    assert proposal.log_dirs == {(tp(2), 1): "/b"}
    assert proposal.measure.after == 30
    words = " ".join(map(str, proposal.notes))
    assert "being reassigned" in words
    assert "directory of 1 replica of it is unknown" in words
    assert "1 replica of unknown size move" in words
    assert move_log_dirs(found, 1, scope=Scope(include=("t",))).targets == {}


@pytest.mark.parametrize(
    ("empty", "down", "words"),
    [
        (["/x"], False, "no log directory /x"),
        (["/a", "/b"], False, "no log directory left"),
        ([], True, "down or has not reported"),
    ],
)
def test_what_cannot_be_meant_is_refused(empty: list[str], down: bool, words: str) -> None:
    found = situation([("/a", 1)], {"/a": None, "/b": None}, down=down)
    with pytest.raises(BadInput, match=words):
        move_log_dirs(found, 1, empty=empty)
    with pytest.raises(BadInput, match="Unknown broker id 9"):
        move_log_dirs(found, 9)


def test_an_offline_directory_takes_nothing_and_is_no_measure() -> None:
    volumes = (LogDir(1, "/a"), LogDir(1, "/b"), LogDir(1, "/c", error="KAFKA_STORAGE_ERROR"))
    found = Situation.of(
        [
            PartitionSituation(TopicPartition("t", n), (1,), 1, (1,), 10, log_dirs=("/a",))
            for n in range(4)
        ],
        [BrokerFacts(1, log_dirs=volumes)],
    )
    proposal = move_log_dirs(found, 1, tolerance=0.0)
    assert list(proposal.log_dirs.values()) == ["/b", "/b"]
    assert proposal.measure.after == 0
