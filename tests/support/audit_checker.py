"""Is the audit true? The checker replays it line by line and compares it with the cluster.

It shares no code with `kshunt.backend.operations`: it reads the journal's records as JSON,
understands the words of the audit as an operator would, and asks the cluster by other clients.

Goals
    From the lines alone: which value each throttle setting has at the end, and how each operation
    ended. Every line is held against what is known when the last one was written.
Constraints
    Somebody may edit a setting after the last line about it. The audit cannot show that, so the
    caller says which settings these are (`edited_since`).
Algorithm
    `replay` goes through the lines in their order. A line that read settings back ("broker 3 leader
    rate: VALUE") sets them. A line that announces ("A → B") leaves a promise, which the next
    reading of the setting keeps or breaks. The outcome must mention a broken promise. `problems`
    compares the last reading with the cluster, and each end with where the partitions are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

Json = Mapping[str, Any]
Setting = tuple[str, str, str]
"""`broker` or `topic`, its name, and Kafka's key."""
Partition = tuple[str, int]

_SETTING: Final = re.compile(r"(broker|topic) (\S+) ([a-z ]+): (.*)", re.DOTALL)
_DRIFTED_RATE: Final = re.compile(
    r"([a-z ]+) of broker (\d+) was (?:changed|deleted): (.+) instead of .+"
)
_KEYS: Final[Mapping[str, str]] = {
    "leader rate": "leader.replication.throttled.rate",
    "follower rate": "follower.replication.throttled.rate",
    "log directory rate": "replica.alter.log.dirs.io.max.bytes.per.second",
    "leader list": "leader.replication.throttled.replicas",
    "follower list": "follower.replication.throttled.replicas",
}
"""Kafka's keys, by what the audit calls them."""
_COUNT: Final = re.compile(r"(\d+) of (\d+) where the plan wants them")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) ([kMG]?)B/s")
_UNITS: Final[Mapping[str, int]] = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_KEY: Final = re.compile(rb"audit/(\d{13}-\d{4,9})")
UNREAD: Final = "?"
_ENDS: Final = ("ended", "refused")
_AFTERWARDS: Final = ("noted", "carried_out")
"""What people say of an operation, and what came of a proposal: both may be later than its end."""
_STATES: Final = (
    "done",
    "cancelled",
    "partly cancelled",
    "cancelled elsewhere",
    "superseded",
    "failed",
)
_GONE: Final = "the point of no return"
_ANEW: Final = "the topic was created again"
_NOT_ARRIVED: Final = ("cancelled", "cancelled elsewhere", "superseded")


@dataclass(frozen=True)
class RequestedMove:
    """A move that a test asked for: where a partition was, and where it must end."""

    original: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class RequestedShrink:
    """A shrink that a test asked for, of a topic that keeps its name."""

    topic: str
    before: int
    """Partitions."""
    after: int


@dataclass(frozen=True)
class AuditedCluster:
    """The cluster's own state, by other clients than kshunt's."""

    settings: Mapping[Setting, str]
    """What is set on each broker and topic itself; what is not there is not set."""
    replicas: Mapping[Partition, tuple[int, ...]]


@dataclass
class Replayed:
    """What the lines amount to."""

    settings: dict[Setting, str | None] = field(default_factory=dict)
    """The last reading of each; None: nothing is set."""
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    """State and outcome, by operation."""
    begun: dict[str, str] = field(default_factory=dict)
    """The kind of each operation that was asked for."""
    untrue: list[str] = field(default_factory=list)
    """What the lines contradict by themselves."""


def lines_of(records: Iterable[tuple[bytes, bytes | None]]) -> list[Json]:
    """The audit's lines in their order, from the journal's records."""
    found = {}
    for key, value in records:
        match = _KEY.fullmatch(key)
        if match is not None and value is not None:
            found[match[1].decode()] = json.loads(value)["body"]
    return [found[place] for place in sorted(found)]


def replay(lines: Sequence[Json]) -> Replayed:
    """Go through the lines; see the module's text."""
    replayed = Replayed()
    promised: dict[str, dict[Setting, str | None]] = {}
    for line in lines:
        operation, event, outcome = line["operation_id"], line["event"], line["outcome"]
        if event == "requested":
            if operation in replayed.begun:
                replayed.untrue.append(f"{operation} is requested twice")
            replayed.begun[operation] = line["kind"]
        elif operation and operation not in replayed.begun:
            replayed.untrue.append(f"{operation}: {event} before it was requested")
        if operation in replayed.ends and event not in _AFTERWARDS:
            replayed.untrue.append(f"{operation}: {event} after its end")
        mine = promised.setdefault(operation, {})
        for words in line["touched"]["throttles"]:
            _take(words, event, outcome, mine, replayed)
        if event in _ENDS:
            replayed.ends[operation] = (_state(outcome), outcome)
    return replayed


def _take(
    words: str, event: str, outcome: str, promised: dict[Setting, str | None], replayed: Replayed
) -> None:
    """What a line says of one setting."""
    if event == "drift_found":
        if (match := _DRIFTED_RATE.fullmatch(words)) is not None:
            replayed.settings["broker", match[2], _KEYS[match[1]]] = _value(match[3])
        return
    match = _SETTING.fullmatch(words)
    if match is None or match[3] not in _KEYS:
        replayed.untrue.append(f"nobody can read '{words}'")
        return
    setting = (match[1], match[2], _KEYS[match[3]])
    if " → " in match[4]:
        if event == "lifted":
            promised[setting] = _value(match[4].rpartition(" → ")[2])
        return
    value = _value(match[4])
    if value == UNREAD:
        replayed.settings.pop(setting, None)
        return
    replayed.settings[setting] = value
    broken = setting in promised and promised[setting] not in (value, UNREAD)
    if event in _ENDS and broken and " ".join(match.groups()[:3]) not in outcome:
        replayed.untrue.append(
            f"{setting} was to become {promised[setting]}, is {value}: not said in '{outcome}'"
        )


def _value(words: str) -> str | None:
    """What is set, as Kafka has it; None for nothing."""
    if words == "none" or words.startswith(("no rate of its own", "no replicas")):
        return None
    if words.startswith("not read") or "replicas of ours" in words:
        return UNREAD
    words = words.removesuffix(" stays, because somebody else set it")
    rate = _RATE.fullmatch(words)
    return words if rate is None else str(int(Decimal(rate[1]) * _UNITS[rate[2]]))


def _state(outcome: str) -> str:
    """The state that an end names; `failed` and `done` where it names none."""
    head = outcome.partition(":")[0]
    if head in _STATES:
        return head
    return "failed" if "failed" in outcome or "refused" in outcome else "done"


def problems(
    lines: Sequence[Json],
    cluster: AuditedCluster,
    asked: Mapping[str, Mapping[Partition, RequestedMove]],
    *,
    edited_since: Collection[Setting] = (),
    moved_since: Collection[Partition] = (),
) -> list[str]:
    """Everything that the audit says and is not so.

    Args:
        asked: the moves by operation, of those whose partitions nothing has moved since.
        edited_since: settings that somebody changed after the last line about them.
        moved_since: partitions that somebody moved after the operation ended.
    """
    replayed = replay(lines)
    found = list(replayed.untrue)
    for setting, value in sorted(replayed.settings.items()):
        there = cluster.settings.get(setting)
        if setting not in edited_since and _same(value) != _same(there):
            found.append(f"the audit leaves {setting} at {value}, the cluster has {there}")
    for operation in sorted(replayed.begun.keys() - replayed.ends.keys()):
        found.append(f"{operation} ({replayed.begun[operation]}) has no end in the audit")
    for operation, moves in asked.items():
        if operation in replayed.ends:
            there_are = {p: m for p, m in moves.items() if p not in moved_since}
            found += _ends_amiss(operation, replayed.ends[operation], there_are, cluster)
    return found


def _same(value: str | None) -> object:
    """Lists in any order; an empty one is none."""
    if value is None or value == "":
        return None
    return frozenset(value.split(",")) if ":" in value else value


def _ends_amiss(
    operation: str,
    end: tuple[str, str],
    moves: Mapping[Partition, RequestedMove],
    cluster: AuditedCluster,
) -> list[str]:
    state, outcome = end
    at_target = [p for p, move in moves.items() if cluster.replicas.get(p) == move.target]
    found = []
    if state == "done" and len(at_target) < len(moves):
        found.append(f"{operation} is done, {len(at_target)} of {len(moves)} are there")
    if state == "cancelled" and at_target:
        found.append(f"{operation} is cancelled, and {len(at_target)} are where it wanted them")
    if state in _NOT_ARRIVED and len(at_target) == len(moves) and moves:
        found.append(f"{operation} is {state}, and all is where it wanted it")
    if state == "partly cancelled" and len(at_target) in (0, len(moves)):
        found.append(f"{operation} is partly cancelled, {len(at_target)} of {len(moves)} are there")
    count = _COUNT.search(outcome)
    if count is not None and int(count[2]) == len(moves) and int(count[1]) != len(at_target):
        found.append(f"{operation} says '{count[0]}', and {len(at_target)} are there")
    return found


def shrink_problems(
    lines: Sequence[Json], cluster: AuditedCluster, shrinks: Mapping[str, RequestedShrink]
) -> list[str]:
    """Everything that the audit says of settings and of these shrinks and is not so."""
    replayed = replay(lines)
    found = problems(lines, cluster, {})
    for operation, shrunk in shrinks.items():
        if replayed.begun.get(operation) != "shrink":
            found.append(f"{operation} is not told of as a shrink")
        if operation in replayed.ends:
            mine = [x["outcome"] for x in lines if x["operation_id"] == operation]
            found += _shrink_amiss(operation, replayed.ends[operation][0], mine, shrunk, cluster)
    return found


def _shrink_amiss(
    operation: str,
    state: str,
    outcomes: Sequence[str],
    shrunk: RequestedShrink,
    cluster: AuditedCluster,
) -> list[str]:
    """A done shrink reported the deletion, then the new topic; any other reported neither."""
    steps = [word for outcome in outcomes for word in (_GONE, _ANEW) if word in outcome]
    expected = [_GONE, _ANEW] if state == "done" else []
    found = [] if steps == expected else [f"{operation} is {state}, and its steps are {steps}"]
    there = sum(topic == shrunk.topic for topic, _ in cluster.replicas)
    if there != (wanted := shrunk.after if state == "done" else shrunk.before):
        found.append(f"{operation} is {state}: {there} partitions are there, not {wanted}")
    return found
