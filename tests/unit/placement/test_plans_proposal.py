"""What planners are given and what they give: situations, proposals, and the checks on both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import Broker, LogDir, OngoingReassignment
from kshunt.backend.domain.planning.proposal import PlanNote, Proposal
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.replicas.snapshot import DTYPES, BrokerStatus, Replicas, Snapshot
from kshunt.backend.domain.throttles.configs import Throttles
from kshunt.backend.errors import BadInput, PlanError
from kshunt.backend.placement.plans.check import check_proposal
from kshunt.backend.placement.plans.drain import drain
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import BrokerFacts, PartitionSituation, Situation
from kshunt.backend.placement.plans.snapshot_situation import situation_of
from tests.support.placement.plans import GB, applied, check_untouched, outcome, tp, world

FOUND = world([[1, 2], [2, 3], [3, 1]], [GB, GB, GB], {1: "a", 2: "b", 3: "c", 4: "a"})


def drained() -> Proposal:
    return drain(FOUND.situation(), [1])


def test_a_proposal_says_what_it_does_in_one_sentence() -> None:
    proposal = drained()
    assert proposal.targets == {tp(0): (4, 2), tp(2): (3, 4)}
    assert proposal.sentence == (
        "To drain broker 1: 2 partitions change, 2 replicas move (2.00 GB); 1 note."
    )
    (note,) = proposal.notes
    assert "disks of broker 4 are unknown" in str(note)
    idle = drain(FOUND.situation(), [4])
    assert idle.sentence == "To drain broker 4, nothing changes; 0 notes."
    assert len(idle.plan) == 0
    note = PlanNote("It stays.", "Wait.", tp(1), 7)
    assert str(note) == "partition t-1, broker 7: It stays. Wait."


def test_the_rollback_leads_back() -> None:
    proposal = drained()
    assert applied(outcome(FOUND, proposal), proposal.rollback) == FOUND.lists
    with pytest.raises(PlanError, match="t-9 of the plan is not there"):
        applied(FOUND.lists, ReassignmentPlan({tp(9): (1,)}))


def test_what_was_not_named_is_proved_to_be_untouched() -> None:
    proposal = drained()
    after = outcome(FOUND, proposal)
    check_untouched(proposal, FOUND.lists, {**after, tp(0, "new"): (1,)})
    with pytest.raises(PlanError, match=r"t-1 is on \[3, 2\], and \[2, 3\] was expected"):
        check_untouched(proposal, FOUND.lists, {**after, tp(1): (3, 2)})
    with pytest.raises(PlanError, match="t-0 is on"):
        check_untouched(proposal, FOUND.lists, FOUND.lists)
    with pytest.raises(PlanError, match="was not where"):
        check_untouched(proposal, {**FOUND.lists, tp(0): (2, 1)}, after)
    with pytest.raises(PlanError, match="was not there"):
        check_untouched(proposal, {tp(1): (2, 3)}, after)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ((4,), "has 1 replicas, but had 2"),
        ((4, 4), "two on one broker"),
        ((), "no replica"),
        ((9, 2), "broker 9, which is not up"),
        ((1, 4), "would span 1 racks"),
    ],
)
def test_a_proposal_that_breaks_a_rule_is_stopped(target: tuple[int, ...], words: str) -> None:
    situation, proposal = FOUND.situation(), drained()
    check_proposal(proposal, situation, Scope())
    broken = changed(proposal, targets={**proposal.targets, tp(0): target})
    with pytest.raises(PlanError, match=words):
        check_proposal(broken, situation, Scope())


def test_a_proposal_for_another_state_or_beyond_its_scope_is_stopped() -> None:
    situation, proposal = FOUND.situation(), drained()
    with pytest.raises(PlanError, match="must not be changed"):
        check_proposal(proposal, situation, Scope(exclude=("t",)))
    moved = changed(situation, moving={tp(0): OngoingReassignment(tp(0), (1, 2), (), ())})
    with pytest.raises(PlanError, match="must not be changed"):
        check_proposal(proposal, moved, Scope())
    with pytest.raises(PlanError, match=r"t-0 is not on \[2, 1\]"):
        check_proposal(
            changed(proposal, before={**proposal.before, tp(0): (2, 1)}), situation, Scope()
        )
    with pytest.raises(PlanError, match="a list before for each"):
        check_proposal(changed(proposal, before={}), situation, Scope())
    full = changed(
        situation,
        brokers={**situation.brokers, 4: BrokerFacts(4, "a", True, (LogDir(4, "/d", 10, 10),))},
    )
    with pytest.raises(PlanError, match="broker 4 would receive 2000000000 bytes"):
        check_proposal(proposal, full, Scope())


def facts(replicas: tuple[int, ...], dirs: tuple[str | None, ...] = ()) -> PartitionSituation:
    return PartitionSituation(tp(0), replicas, 1, (1,), log_dirs=dirs)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Situation.of([facts((1,)), facts((2,))], []), "Partition t-0 is given twice"),
        (lambda: Situation.of([facts(())], []), "has no replicas"),
        (lambda: Situation.of([facts((1, 1))], []), "names a broker twice"),
        (lambda: Situation.of([facts((1, 2), ("/a",))], []), "1 directories for 2"),
        (lambda: Situation.of([], [BrokerFacts(1), BrokerFacts(1)]), "Broker 1 is given twice"),
        (
            lambda: changed(Situation.of([facts((1,))], []), leader=np.zeros(3, np.int32)),
            "differ in length",
        ),
    ],
)
def test_a_situation_that_contradicts_itself_is_refused(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        make()


def test_a_broker_that_only_a_list_names_is_down_and_can_be_drained() -> None:
    found = Situation.of([facts((1, 7))], [BrokerFacts(1, "a"), BrokerFacts(2, "b")])
    assert not found.brokers[7].up
    proposal = drain(found, [7])
    assert proposal.targets == {tp(0): (1, 2)}
    assert (proposal.cost.moved_bytes, proposal.cost.unknown_sizes) == (0, 1)


def snapshot() -> Snapshot:
    """t-0 on 1, 2 and moving from 2 to 3; t-1 on 2, whose broker has not said its size."""
    columns = {
        "topic_index": [0, 0, 0, 0],
        "partition": [0, 0, 0, 1],
        "broker": [3, 1, 2, 2],
        "position": [0, 1, 2, 0],
        "leader": [1, 1, 1, 2],
        "in_isr": [False, True, True, True],
        "adding": [True, False, False, False],
        "removing": [False, False, True, False],
        "size_bytes": [5, 10, 12, -1],
        "log_dir": [0, 1, -1, 0],
    }
    rows = Replicas(
        **{name: np.array(columns.get(name, [0] * 4), kind) for name, kind in DTYPES.items()}
    )
    return Snapshot(
        version=1,
        taken_ms=1,
        cluster_id="c",
        controller=1,
        topics=("t",),
        replicas=rows,
        brokers={
            1: BrokerStatus(Broker(1, "h", 9, "a"), 1, stale=False),
            2: BrokerStatus(Broker(2, "h", 9, "b"), 1, stale=True),
            3: BrokerStatus(Broker(3, "", 0), None, stale=True),
        },
        throttles=Throttles({}, {}),
        log_dirs=(LogDir(1, "/b", 100, 50),),
        log_dir_paths=("/a", "/b"),
        min_isr=(2,),
    )


def test_a_snapshot_becomes_a_situation() -> None:
    found = situation_of(snapshot(), {tp(0): (1.5, 2.5)})
    plain = Situation.of(
        [
            PartitionSituation(tp(0), (3, 1, 2), 1, (1, 2), 10, 1.5, 2.5, 2, ("/a", "/b", None)),
            PartitionSituation(tp(1), (2,), 2, (2,), None, None, None, 2, ("/a",)),
        ],
        [
            BrokerFacts(1, "a", True, (LogDir(1, "/b", 100, 50),)),
            BrokerFacts(2, "b", False),
            BrokerFacts(3, None, False),
        ],
        [OngoingReassignment(tp(0), (3, 1, 2), (3,), (2,))],
    )
    for name in ("partitions", "log_dir_paths", "brokers", "moving"):
        assert getattr(found, name) == getattr(plain, name)
    for name in (
        "replicas", "leader", "in_sync", "size_bytes", "in_bytes_per_s", "out_bytes_per_s",
        "min_isr", "log_dir",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
        assert getattr(found, name).dtype == getattr(plain, name).dtype


def test_an_empty_cluster_has_nothing_to_plan() -> None:
    empty = changed(
        snapshot(),
        replicas=Replicas(**{name: np.zeros(0, kind) for name, kind in DTYPES.items()}),
        topics=(),
        min_isr=(),
    )
    assert len(situation_of(empty)) == 0
    assert drain(situation_of(empty), [1]).targets == {}
