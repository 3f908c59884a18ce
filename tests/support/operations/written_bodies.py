"""Values of every kind that the journal keeps; `journal_bodies.json` has them as 0.1 wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.approval import Person, ProposalState, ProposedChange
from kshunt.backend.domain.operations.operation import (
    NO_DETAILS,
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.operations.team import Claim, Note, Team
from kshunt.backend.domain.shrink.phases import CutOver, ShrinkPhase, ShrinkRequest
from kshunt.backend.domain.throttles.configs import Move, ReplicaSet
from kshunt.backend.domain.throttles.owners import ShareState
from kshunt.backend.operations.journal.entries import Heartbeat
from kshunt.backend.operations.moves.pause_throttles import PauseRecord
from kshunt.backend.operations.moves.schedule import Caps, MoveOrder
from kshunt.backend.operations.ownership.cells import (
    FoundRate,
    ListCell,
    ListKey,
    ListShare,
    RateCell,
    RateKey,
    RateShare,
)
from kshunt.backend.operations.ownership.ownership import Ownership
from kshunt.backend.operations.state.operation_body import Recorded
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.state.shrink_work import Compared, GroupPlace, ShrinkWork

NOW_MS: Final = 1_700_000_000_000
P: Final = tuple(TopicPartition("orders", number) for number in range(5))
MOVES: Final = {one: Move(one, (1, 2), (2, 3)) for one in P}
PLAN: Final = {
    "version": 1,
    "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    ],
}
WORK: Final = ReassignmentWork(
    moves=MOVES,
    log_dirs={(P[0], 3): "/data/3", (P[1], 2): "any"},
    throttle_bytes_per_s=1_000_000,
    log_dirs_throttle_bytes_per_s=5_000,
    auto_remove=False,
    factor_may_change=False,
    timeout_s=2.5,
    order=MoveOrder.SMALLEST_FIRST,
    caps=Caps(2, 9),
    started=frozenset(P[:4]),
    unanswered=frozenset({P[1]}),
    cancelled=frozenset({P[2]}),
    refused=frozenset({P[3]}),
    pause=PauseRecord({1: None, 3: 1_000_000}, {"orders": ReplicaSet(frozenset({(0, 3), (2, 3)}))}),
    failed="the cluster refused all",
    adopted=True,
)
MOVING: Final = Operation(
    id="ab12",
    kind=OperationKind.REASSIGN,
    state=OperationState.PAUSED,
    started_ms=NOW_MS,
    summary="move 5 partitions of orders",
    partitions=P,
    throttle_bytes_per_s=1_000_000,
    auto_remove_throttle=False,
    outcome="paused",
    details=OperationDetails(
        rollback_plan=PLAN,
        proposal="pp11",
        put_back=(
            (1, "leader.replication.throttled.rate", None, False),
            (2, "follower.replication.throttled.rate", 77, True),
            ("orders", "leader.replication.throttled.replicas", "0:1", False),
        ),
    ),
    who="ada",
    reason="disk full",
)
PLAIN: Final = Operation(
    "cd34", OperationKind.ADOPT, OperationState.DONE, NOW_MS, "adopt", (), ended_ms=NOW_MS + 5
)
CANCEL: Final = Operation(
    "ca11", OperationKind.CANCEL, OperationState.STARTING, NOW_MS, "cancel 2 partitions",
    details=OperationDetails(
        returning=(("orders", 0, (2, 3)), ("orders", 1, None)), preserve_throttles=False
    ),
)  # fmt: skip
ELECTION: Final = Operation(
    "e1", OperationKind.ELECTION, OperationState.RUNNING, NOW_MS, "preferred election",
    partitions=P[:2], details=OperationDetails(batch_size=50, pause_s=0.5),
)  # fmt: skip
RATES: Final = Operation(
    "f1", OperationKind.THROTTLED_RATES, OperationState.DONE, NOW_MS, "rates of 2 brokers",
    details=OperationDetails(requested={"1": "10 MB/s", "2": "no rate"}, proposal="pp12"),
    ended_ms=NOW_MS,
)  # fmt: skip
AT_FIRST: Final = ShrinkWork(ShrinkRequest("orders", 3, 1_000), 8, "orders.kshunt-1")
EQUAL: Final = Compared({0: 10, 7: 2**40}, {0: 5, 2: 0}, 2**40 + 10, NOW_MS)
COPIED: Final = ShrinkWork(
    request=ShrinkRequest(
        "orders", 3, 0, CutOver.NEW_NAME, "orders-3", True, ("GROUPS", "KEYLESS"), "as-source"
    ),
    current=8,
    copy="orders-3",
    source_id="AAAA",
    copy_id="BBBB",
    final_id="CCCC",
    blocked_before=False,
    overrides={"retention.ms": "5"},
    in_force={"max.message.bytes": "1000"},
    assignment=((1, 2), (2, 3), (3, 1)),
    cuts=({0: 3}, {}),
    until={0: 10, 7: 2**40},
    rounds=2,
    verified=EQUAL,
    confirmed="ada: orders",
    sealed={},
    groups={
        "final": GroupPlace({0: 3}, {1: 2}, 4, {1: 2}, True, True),
        "later": GroupPlace({}, {}, 0),
    },
    verified_back=replace(EQUAL, records=0),
    differs="a record",
    accepted=True,
    failed="no room",
    cancelled=True,
)


def _shrink(number: int, phase: ShrinkPhase) -> Recorded:
    kind, state = OperationKind.SHRINK, OperationState.RUNNING
    operation = Operation(f"s{number}", kind, state, NOW_MS, f"shrink orders: {phase}")
    return Recorded(operation, None, replace(COPIED if number else AT_FIRST, phase=phase))


RECORDED: Final = (
    Recorded(MOVING, WORK),
    Recorded(replace(MOVING, id="ab13", details=NO_DETAILS), ReassignmentWork(MOVES)),
    *(Recorded(one) for one in (PLAIN, CANCEL, ELECTION, RATES)),
    *(_shrink(number, phase) for number, phase in enumerate(ShrinkPhase)),
)
OWNERSHIP: Final = Ownership(
    {
        (1, RateKey.LEADER): RateCell(
            FoundRate(77, ConfigSource.DYNAMIC_BROKER),
            {
                "ab12": RateShare(1_000_000, False, ShareState.HELD),
                "ab13": RateShare(None, True, ShareState.ENDING),
            },
            frozenset({None, 5, 1_000_000}),
        ),
        (2, RateKey.FOLLOWER): RateCell(None),
        (3, RateKey.LEADER): RateCell(FoundRate(None, ConfigSource.DEFAULT)),
    },
    {
        ("orders", ListKey.LEADERS): ListCell(
            ReplicaSet(frozenset({(0, 1), (1, 2)})),
            {"ab12": ListShare(frozenset({(0, 2)}), frozenset({(3, 1)}), False)},
            frozenset({(4, 1)}),
        ),
        ("orders", ListKey.FOLLOWERS): ListCell(ReplicaSet(everything=True)),
        ("lines", ListKey.FOLLOWERS): ListCell(ReplicaSet()),
        ("more", ListKey.LEADERS): ListCell(None),
    },
)
WAITING: Final = ProposedChange(
    id="pp11",
    action="unclean_election",
    subject="orders-0",
    summary="an unclean election",
    body={"partitions": [["orders", 0]], "force": None},
    reason="broker lost",
    proposer=Person("ada", "token:ada"),
    proposed_ms=NOW_MS,
    expires_ms=NOW_MS + 900_000,
    foreseen=("orders-0 loses 3 messages",),
    fingerprint="f00",
    state=ProposalState.WAITING,
)
PROPOSALS: Final = (
    WAITING,
    replace(
        WAITING,
        id="pp12",
        state=ProposalState.DONE,
        settled_by="bob",
        settled_reason="seen",
        settled_ms=NOW_MS + 1,
        operation_id="f1",
        outcome="done",
    ),
)
TEAMS: Final = (
    Team(),
    Team(Claim("ada", NOW_MS, "mine"), (Note("bob", NOW_MS, "look"), Note("eve", 0, ""))),
)
BEATS: Final = (
    Heartbeat("b1", "host", "unix:/run/b1.sock", 1, 2),
    Heartbeat("b2", "host", "https://b2:1", 1, 2, "boot", True, ("shrink", "unclean"), "k1"),
)

WRITTEN: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("journal_bodies.json").read_text()
)
"""The bodies of these values as version 0.1 wrote them."""
