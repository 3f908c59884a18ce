"""A journal with one entry of each kind, and what somebody could write into it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from kshunt.backend.access.cluster_keys import ClusterKeys, Key
from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, Touched
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
from kshunt.backend.domain.shrink.phases import ShrinkPhase, ShrinkRequest
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.operations.journal.entries import (
    BACKEND_KEY,
    Body,
    EntryHeader,
    Heartbeat,
    Record,
    broker_throttle_key,
    forecasts_key,
    operation_key,
    proposal_key,
    team_key,
    topic_throttle_key,
)
from kshunt.backend.operations.journal.records import encode
from kshunt.backend.operations.journal.replay import JournalReplay
from kshunt.backend.operations.state.operation_body import operation_body
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork
from kshunt.backend.operations.state.shrink_work import ShrinkWork
from kshunt.backend.operations.state.team_bodies import forecasts_body, proposal_body, team_body
from tests.support.access.keys import KEYS
from tests.support.forecast.kept import kept_forecast

CLUSTER: Final = "zQcs2L5vn2KsTAnCggbn4w"
HEADER: Final = EntryHeader(CLUSTER, "one", 1_700_000_000_000)
STRANGER: Final = ClusterKeys.new()
"""Somebody with keys of their own."""
FORGER: Final = ClusterKeys((Key(KEYS.keys[0].id, bytes(32)),))
"""Somebody who names a key of ours."""

PARTITION: Final = TopicPartition("orders", 0)
RUNNING: Final = Operation(
    id="aa11",
    kind=OperationKind.REASSIGN,
    state=OperationState.RUNNING,
    started_ms=1_700_000_000_000,
    summary="move 1 partition",
    partitions=(PARTITION,),
    throttle_bytes_per_s=1000,
    details=OperationDetails(proposal="pp11"),
    who="ada",
)
SHRINK: Final = replace(
    RUNNING,
    id="bb22",
    kind=OperationKind.SHRINK,
    partitions=(),
    details=NO_DETAILS,
    summary="shrink",
)
SHRINK_WORK: Final = ShrinkWork(
    ShrinkRequest("orders", 1, 0), 2, "orders-copy", ShrinkPhase.COPY, assignment=((1, 2),)
)
PROPOSAL: Final = ProposedChange(
    id="pp11",
    action="unclean",
    subject="orders-0",
    summary="an unclean election",
    body={"partitions": [["orders", 0]]},
    reason="broker lost",
    proposer=Person("ada", "ada"),
    proposed_ms=1_700_000_000_000,
    expires_ms=1_700_000_900_000,
    foreseen=("orders-0 loses 3 messages",),
    fingerprint="f00",
    state=ProposalState.WAITING,
)
BEAT: Final = Heartbeat("b1", "host", "unix:/run/b1.sock", 1, 2, "boot")
LINE: Final = AuditEntry(
    1_700_000_000_000,
    0,
    AuditEvent.REQUESTED,
    "aa11",
    "reassign",
    "ada",
    "disk full",
    Touched.of(partitions=[PARTITION]),
    "asked",
    "b1",
)
WORK: Final = ReassignmentWork(
    {PARTITION: Move(PARTITION, (1, 2), (2, 3))}, throttle_bytes_per_s=1000
)
RATE: Final = {
    "prior": {"value": 77, "source": "DYNAMIC_BROKER_CONFIG"},
    "known": [1000],
    "shares": {"aa11": {"rate": 1000, "auto_remove": True, "state": "held"}},
}
LIST: Final = {
    "prior": {"value": "", "source": "DEFAULT_CONFIG"},
    "pending": "0:1",
    "shares": {"aa11": {"pairs": "0:1", "going": "", "auto_remove": True, "state": "held"}},
}
BODIES: Final[Mapping[str, Body]] = {
    operation_key("aa11"): operation_body(RUNNING, WORK),
    operation_key("bb22"): operation_body(SHRINK, None, SHRINK_WORK),
    operation_key("cc33"): operation_body(
        replace(RUNNING, id="cc33", kind=OperationKind.ELECTION, state=OperationState.DONE), None
    ),
    broker_throttle_key(1): {
        "format": 1,
        "broker": 1,
        "rates": {"leader.replication.throttled.rate": RATE},
    },
    topic_throttle_key("orders"): {
        "format": 1,
        "topic": "orders",
        "lists": {"leader.replication.throttled.replicas": LIST},
    },
    proposal_key("pp11"): proposal_body(PROPOSAL),
    team_key("aa11"): team_body(Team(Claim("ada", 1, "mine"), (Note("bob", 2, "look"),))),
    forecasts_key("aa11"): forecasts_body((kept_forecast(actual_s=850.0), kept_forecast())),
    LINE.key: LINE.body(),
    BACKEND_KEY: BEAT.body(),
}
DEEP: Final[Any] = json.loads("[" * 300 + "]" * 300)
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 2**31, 2**63, 10**40, 1.5, 1e300, "", "x", "\udc00", "\x00\x1b[2J"),
    *("../../etc", "x" * 5_000, [], [[]], [1, "a"], {}, {"id": "zz"}, {"a": {"b": []}}, DEEP),
)
"""What takes the place of a field's value."""


def journal_of(bodies: Mapping[str, Body] = BODIES, keys: ClusterKeys = KEYS) -> list[Record]:
    """The records of a journal that a backend wrote, in two appends."""
    fold = JournalReplay(CLUSTER, keys)
    first = fold.records({key: {**body} for key, body in bodies.items()}, HEADER)
    for record in first:
        fold.take(*record)
    return first


def mutated(body: Any) -> Iterator[Any]:
    """A body with one thing in it changed: each place, each way."""
    for place, value in _places(body):
        for other in VALUES:
            if other != value or type(other) is not type(value):
                yield _with(body, place, lambda _: other)  # noqa: B023
    for place, value in _places(body):
        if isinstance(value, dict):
            yield _with(body, place, lambda found: {**found, "more": 1})
            for name in value:
                yield _with(body, place, lambda found: _without(found, name))  # noqa: B023
        if isinstance(value, list) and value:
            yield _with(body, place, lambda found: found + found)
            yield _with(body, place, lambda found: found[1:])


def _without(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != name}


def _places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield here, value
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    if isinstance(value, list):
        inner = list(enumerate(value))
    for name, one in inner:
        yield from _places(one, (*here, name))


def _with(value: Any, place: tuple[Any, ...], change: Any) -> Any:
    if not place:
        return change(value)
    first, *rest = place
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[first] = _with(value[first], tuple(rest), change)
    return copy


def unsigned(key: str, body: Any, cluster_id: str = CLUSTER) -> Record:
    """An entry as an earlier kshunt wrote it, and as anybody can."""
    about = {"format": 1, "key": key, "cluster_id": cluster_id, "writer": "one", "time_ms": 5}
    text = _json({**about, "body": body})
    digest = hashlib.blake2b(text, digest_size=8).hexdigest()
    return key.encode(), text[:-1] + f',"digest":"{digest}"}}'.encode()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def forged(key: str, body: Any, header: EntryHeader = HEADER) -> Iterator[Record]:
    """One statement, in each way in which somebody without our keys can make it."""
    yield unsigned(key, body, header.cluster_id)
    if isinstance(body, dict):
        number = 2 * HEADER.time_ms
        yield from encode(key, body, header, number, STRANGER)
        yield from encode(key, body, header, number, FORGER)
