"""Partitions that are read-only or being deleted (KIP-694): who leaves them alone, and says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from kshunt.backend.admin.connect import Reached
from kshunt.backend.admin.kips.reassignment.checks import ReassignmentFacts as Decided
from kshunt.backend.admin.kips.reassignment.checks import check_plan
from kshunt.backend.admin.port.reassignments import ReassignOptions
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import LogDir, PartitionState, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.planning.goals import Goal
from kshunt.backend.domain.planning.requests import PlanRequest
from kshunt.backend.domain.replicas.snapshot import Snapshot, stuck_rows
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.replicas.stuck_sentences import stuck_text
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.errors import PlanError
from kshunt.backend.operations.elections.preferred import foreseen
from kshunt.backend.operations.elections.unclean import refusal
from kshunt.backend.operations.moves.cluster_view import ClusterView, under_min_isr
from kshunt.backend.operations.moves.schedule import Queue, WaitReason, next_moves
from kshunt.backend.operations.reassignment.queries import Queries
from kshunt.backend.operations.review.blast_radius import ElectRequest, StartRequest, blast_radius
from kshunt.backend.placement.plans.check import check_proposal
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.planning.propose import propose
from kshunt.backend.rehearsal.picture import Picture
from kshunt.backend.rehearsal.picture_files import picture_json, picture_of_json
from tests.support.embedded.listeners import ListeningCluster
from tests.support.native import T0, T1, TIMEOUT_S, administered, enable, look
from tests.support.operations.elections import Held, codes, words
from tests.support.operations.engine import columns

RW, RO, NONE = PartitionMode.READ_WRITE, PartitionMode.READ_ONLY, PartitionMode.NONE
LATER = tuple(TopicPartition("big", number) for number in (4, 5))
NOW = tuple(TopicPartition("big", number) for number in (6, 7))
LEAVING = dict.fromkeys(LATER, RO) | dict.fromkeys(NOW, NONE)


def situation() -> Situation:
    """Eight partitions on brokers 1 and 2, in one of broker 1's two directories; the last leave."""
    dirs = (LogDir(1, "/a", 10_000, 9_000), LogDir(1, "/b", 10_000, 9_999))
    return Situation.of(
        [
            PartitionSituation(
                TopicPartition("big", number),
                (1, 2),
                -1 if number > 5 else 1,
                (1, 2),
                100,
                10.0,
                20.0,
                1,
                ("/a", None),
            )
            for number in range(8)
        ],
        [
            BrokerFacts(1, "x", log_dirs=dirs),
            BrokerFacts(2, "x"),
            BrokerFacts(3, "y"),
            BrokerFacts(4, "y"),
        ],
        leaving=LEAVING,
    )


REQUESTS = (
    PlanRequest(Goal.DRAIN, brokers=(1,)),
    PlanRequest(Goal.EXPAND, brokers=(3, 4)),
    PlanRequest(Goal.REBALANCE),
    PlanRequest(Goal.LEADERS),
    PlanRequest(Goal.RACK_REPAIR),
    PlanRequest(Goal.REPLACE, brokers=(1, 3)),
    PlanRequest(Goal.REPLICATION_FACTOR, factors={"big": 3}),
    PlanRequest(Goal.MOVE_LOG_DIRS, brokers=(1,)),
    PlanRequest(Goal.MOVE_LOG_DIRS, brokers=(1,), directories=("/a",)),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: f"{one.goal} {one.directories}")
def test_no_planner_touches_what_leaves_and_each_names_it(request_: PlanRequest) -> None:
    proposal = propose(Picture(situation(), cluster_id="c"), request_).proposal
    assert proposal.targets, "the partitions that stay are planned"
    assert not proposal.targets.keys() & LEAVING.keys()
    said = "\n".join(map(str, proposal.notes))
    assert all(str(partition) in said for partition in LEAVING), said
    assert "read-only" in said
    assert "being deleted" in said


def test_a_plan_of_other_topics_says_nothing_of_what_leaves() -> None:
    known = situation()
    only = replace(known, leaving={TopicPartition("other", 0): RO})
    proposal = propose(
        Picture(only, cluster_id="c"), PlanRequest(Goal.DRAIN, brokers=(1,), topics=("big",))
    ).proposal
    assert "read-only" not in "".join(map(str, proposal.notes))


def test_a_proposal_that_moves_what_leaves_is_a_defect() -> None:
    free = replace(situation(), leaving={})
    proposal = propose(
        Picture(free, cluster_id="c"), PlanRequest(Goal.DRAIN, brokers=(1,))
    ).proposal
    check_proposal(proposal, free, Scope())
    with pytest.raises(PlanError, match="must not be changed"):
        check_proposal(proposal, situation(), Scope())


def test_a_saved_picture_keeps_what_leaves() -> None:
    document = json.loads(json.dumps(picture_json(Picture(situation(), cluster_id="c"))))
    assert picture_of_json(document).situation.leaving == LEAVING
    assert "mode" not in document["partitions"][0]


# What is asked for by name


def states(**modes: PartitionMode) -> dict[TopicPartition, PartitionState]:
    """`t-0`, ... on brokers 1 and 2, in these modes: `p0=RO`."""
    return {
        TopicPartition("t", int(name[1:])): PartitionState(
            TopicPartition("t", int(name[1:])),
            -1 if mode is NONE else 2,
            (1, 2),
            (1, 2),
            mode=mode,
        )
        for name, mode in modes.items()
    }


def test_a_reassignment_of_what_leaves_is_refused_by_name() -> None:
    known = Decided(states(p0=RW, p1=RO, p2=NONE), {}, frozenset({1, 2, 3}), {})
    plan = dict.fromkeys(known.states, (2, 3))
    found = {p.partition: r for p, r in check_plan(plan, {}, ReassignOptions(), known).items()}
    assert [found[n].error_name for n in range(3)] == [
        "NONE",
        "OPERATION_NOT_ATTEMPTED",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert "read-only" in found[1].message
    assert "cancel its deletion first" in found[1].message
    assert "being deleted" in found[2].message


def view(**modes: PartitionMode) -> ClusterView:
    """Of partitions in these modes."""
    return ClusterView("c", frozenset({1, 2, 3}), states(**modes), min_isr={"t": 1})


def test_a_move_that_waits_its_turn_does_not_start_once_its_partition_leaves() -> None:
    plan = dict.fromkeys(states(p0=RW, p1=RW, p2=RW), (2, 3))
    batch = next_moves(Queue(plan), view(p0=RW, p1=RO, p2=NONE))
    assert [move.partition.partition for move in batch.start] == [0]
    assert {p.partition: held.why for p, held in batch.held.items()} == {
        1: WaitReason.LEAVING,
        2: WaitReason.LEAVING,
    }
    assert str(batch.held[T1]).startswith("its deletion to be cancelled")


def test_a_preview_says_what_would_be_left_alone() -> None:
    start = blast_radius(
        StartRequest(dict.fromkeys(states(p0=RW, p1=NONE), (2, 3))), view(p0=RW, p1=NONE)
    )
    assert "1 partition would wait for nothing: it is being deleted." in start.warnings
    elect = blast_radius(ElectRequest((T0, T1)), view(p0=RW, p1=NONE))
    assert elect.partitions == (T0,)
    assert any("t-1 is being deleted" in one for one in elect.warnings)
    every = blast_radius(ElectRequest(None), view(p0=RW, p1=NONE))
    assert every.partitions == (T0,)


def test_what_takes_no_records_is_not_under_min_isr() -> None:
    low = tuple(replace(one, isr=()) for one in states(p0=RW, p1=RO, p2=NONE).values())
    found = under_min_isr(replace(columns(*low), mode=modes_of(low)), {"t": 1})
    assert found == {T0}


def modes_of(low: tuple[PartitionState, ...]) -> NDArray[np.int8]:
    return np.repeat(np.array([state.mode for state in low], np.int8), 2)


def test_an_election_of_what_is_being_deleted_is_refused() -> None:
    known = states(p0=RO, p1=NONE)
    assert foreseen(known[T0]).ok, "it can still be read, so somebody has to lead it"
    assert foreseen(known[T1]).error_name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "being deleted" in foreseen(known[T1]).message
    refused = refusal(known[T1], {1: None, 2: None})
    assert refused is not None
    assert "being deleted" in refused.message


# On the embedded cluster: a broker is down while a partition of it is deleted


@pytest.fixture
async def stopped() -> AsyncIterator[tuple[ListeningCluster, Reached]]:
    """t-1, on brokers 2 and 3, is being deleted, and broker 3 is down."""
    async with administered() as (cluster, admin):
        enable(cluster)
        cluster.core.stop_broker(3)
        cluster.pass_s(1)
        gone = {"t": DeletePartitions(1)}
        await admin.partition_deletions.delete(gone, validate_only=False, timeout_s=TIMEOUT_S)
        cluster.pass_s(5)
        assert int(cluster.at("t", 1).mode) == NONE
        yield cluster, admin


Stopped = tuple[ListeningCluster, Reached]


async def test_validating_an_election_says_the_same_as_holding_it(stopped: Stopped) -> None:
    on = Held(stopped[1])
    for partitions in (None, [T0, T1]):
        checked = await on.elect(partitions, validate_only=True)
        run = await on.elect(partitions)
        assert codes(checked) == codes(run)
        assert checked.notes == run.notes
        named = "t-1" in codes(run)
        assert named == (partitions is not None)
        assert ("t-1" in "".join(run.notes)) == (partitions is None)
    assert codes(run)["t-1"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert words(run)["t-1"] == "it is being deleted"


async def test_a_generated_plan_leaves_out_what_is_being_deleted(stopped: Stopped) -> None:
    _, admin = stopped
    queries = Queries(admin, SystemClock(), timeout_s=TIMEOUT_S)
    found = await queries.generate(["t"], [1, 2], rack_aware=False)
    assert list(found.current.replicas) == list(found.proposed.replicas) == [T0]
    assert found.notes == ("1 partition is being deleted, and not part of the plan: t-1.",)


@pytest.mark.conforms("kip-694:mode-none")
async def test_the_deletion_waits_for_the_broker_and_nothing_is_offline(stopped: Stopped) -> None:
    seen: Snapshot = await look(stopped[1])
    causes = {
        (str(seen.partition_of(row)), int(seen.replicas.broker[row])): seen.why(row)
        for row in stuck_rows(seen.replicas).nonzero()[0].tolist()
    }
    assert list(causes) == [("t-1", 3)]
    (why,) = causes.values()
    assert why is not None
    assert why.cause is Cause.DELETION_WAITS
    assert "deletion of t-1 waits for broker 3" in stuck_text(why).reason
    assert stuck_text(why).action.startswith("Start broker 3")
    assert not (seen.replicas.eta_s == float("inf")).any()


async def test_a_deletion_that_goes_on_waits_for_nobody() -> None:
    async with administered() as (cluster, admin):
        enable(cluster)
        gone = {"t": DeletePartitions(1)}
        await admin.partition_deletions.delete(gone, validate_only=False, timeout_s=TIMEOUT_S)
        seen = await look(admin)
        assert seen.leaving() == {T1: NONE}
        assert not stuck_rows(seen.replicas).any()
