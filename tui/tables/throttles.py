"""The throttles view: every rate and every throttled replica list, in one table.

Two kinds of row: a broker with its two rates, and a topic with its two replica lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from backend.domain.throttle import BrokerThrottle, ReplicaSet, ThrottledReplicas
from tui.tables.base import Cell, Column, Order, RowKey
from tui.tables.facts import Facts
from tui.tables.small import Field, SmallTable
from tui.text import plural, rate_text


class RateKey(NamedTuple):
    """A broker's row."""

    broker: int


class ListKey(NamedTuple):
    """A topic's row."""

    topic: str


@dataclass(frozen=True, slots=True)
class ThrottleRow:
    """One row: a broker with rates, or a topic with lists."""

    what: str
    """`broker 3`, or the topic's name."""
    rank: tuple[int, int, str]
    """Brokers by number, then topics by name."""
    leader: str
    follower: str
    note: str = ""
    tone: str = ""
    note_tone: str = "dim"
    known: bool = True


def throttle_table(facts: Facts, order: Order) -> SmallTable[ThrottleRow]:
    """Rates of every broker, then lists of every topic that has one."""
    throttles = facts.snapshot.throttles
    idle = not facts.moving.any()
    rows: dict[RowKey, ThrottleRow] = {
        RateKey(id): _rate_row(id, throttles.rates.get(id), idle)
        for id in sorted(facts.snapshot.brokers)
    }
    for topic in sorted(throttles.replicas):
        rows[ListKey(topic)] = _list_row(topic, throttles.replicas[topic], idle)
    return SmallTable(FIELDS, rows, order)


def orphan_hint(facts: Facts) -> str:
    """What is left over where throttles stand and nothing moves; empty where all is well."""
    throttles = facts.snapshot.throttles
    brokers = sum(1 for throttle in throttles.rates.values() if _has_rate(throttle))
    topics = len(throttles.replicas)
    if facts.moving.any() or not (brokers or topics):
        return ""
    parts = []
    if brokers:
        parts.append(f"rates on {plural(brokers, 'broker')}")
    if topics:
        parts.append(f"replica lists on {plural(topics, 'topic')}")
    return f"Nothing moves, but throttles stand: {' and '.join(parts)}."


def _has_rate(throttle: BrokerThrottle) -> bool:
    rate = throttle.rate
    return rate.leader_bytes_per_s is not None or rate.follower_bytes_per_s is not None


def _rate_row(id: int, throttle: BrokerThrottle | None, idle: bool) -> ThrottleRow:
    what, rank = f"broker {id}", (0, id, "")
    if throttle is None:
        return ThrottleRow(what, rank, "?", "?", "could not be read", "warn", "warn", False)
    rate = throttle.rate
    left_over = idle and _has_rate(throttle)
    note = "left over: nothing moves" if left_over else _source(throttle)
    return ThrottleRow(
        what,
        rank,
        rate_text(rate.leader_bytes_per_s),
        rate_text(rate.follower_bytes_per_s),
        note,
        "" if _has_rate(throttle) else "dim",
        "warn" if left_over else "dim",
    )


def _source(throttle: BrokerThrottle) -> str:
    """Kafka's config source in words an operator reads at a glance."""
    if not _has_rate(throttle):
        return ""
    return throttle.source.lower().replace("_", " ")


def _list_row(topic: str, lists: ThrottledReplicas, idle: bool) -> ThrottleRow:
    return ThrottleRow(
        topic,
        (1, 0, topic),
        _list_text(lists.leaders),
        _list_text(lists.followers),
        "left over: nothing moves" if idle else "throttled replicas",
        "",
        "warn" if idle else "dim",
    )


def _list_text(replicas: ReplicaSet) -> str:
    if replicas.everything:
        return "* (all)"
    return str(replicas) or "none"


FIELDS: Final[tuple[Field[ThrottleRow], ...]] = (
    Field(
        Column("what", "Broker or topic", 16, 60, 0, grows=True, comfort=36, names=True),
        lambda row, width: Cell(row.what),
        lambda row: row.rank,
    ),
    Field(
        Column("leader", "Leader side", 16, 50, 1, grows=True),
        lambda row, width: Cell(row.leader, row.tone or ("dim" if row.leader == "none" else "")),
        lambda row: row.leader,
    ),
    Field(
        Column("follower", "Follower side", 16, 50, 1, grows=True),
        lambda row, width: Cell(
            row.follower, row.tone or ("dim" if row.follower == "none" else "")
        ),
        lambda row: row.follower,
    ),
    Field(
        Column("note", "Note", 25, 0, 2),
        lambda row, width: Cell(row.note, row.note_tone),
        lambda row: row.note,
    ),
)
