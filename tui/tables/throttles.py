"""The throttles view: every rate and every throttled replica list, in one table.

Two kinds of row: a broker with its two rates, and a topic with its two replica lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from backend.domain.steering import ShownDrift, ShownOrphan
from backend.domain.throttle import BrokerThrottle, ReplicaSet, ThrottledReplicas
from tui.tables.base import Cell, Column, Order, RowKey
from tui.tables.facts import Facts
from tui.tables.mending import drift_words, orphan_words, owner_words, readable
from tui.tables.small import Field, SmallTable
from tui.text import plural, rate_text

if TYPE_CHECKING:
    from tui.store import Job


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
    drift: tuple[ShownDrift, ...] = ()
    orphans: tuple[ShownOrphan, ...] = ()


def throttle_table(
    facts: Facts,
    order: Order,
    drift: Sequence[ShownDrift] = (),
    orphans: Sequence[ShownOrphan] = (),
) -> SmallTable[ThrottleRow]:
    """Rates of every broker, then lists of every topic that has one, or should have."""
    throttles = facts.snapshot.throttles
    idle = not facts.moving.any()
    rows: dict[RowKey, ThrottleRow] = {
        RateKey(id): _rate_row(id, throttles.rates.get(id), idle)
        for id in sorted(facts.snapshot.brokers)
    }
    named = {one.topic for one in drift if one.topic is not None}
    named |= {one.topic for one in orphans if one.topic is not None}
    for topic in sorted(named.union(throttles.replicas)):
        rows[ListKey(topic)] = _list_row(
            topic, throttles.replicas.get(topic, ThrottledReplicas()), idle
        )
    for key, row in rows.items():
        rows[key] = _judged(
            row,
            tuple(one for one in drift if _key_of(one) == key),
            tuple(one for one in orphans if _key_of(one) == key),
        )
    return SmallTable(FIELDS, rows, order, more=_more)


def _key_of(one: ShownDrift | ShownOrphan) -> RowKey:
    return ListKey(one.topic or "") if one.broker is None else RateKey(one.broker)


def _judged(
    row: ThrottleRow, drift: tuple[ShownDrift, ...], orphans: tuple[ShownOrphan, ...]
) -> ThrottleRow:
    """The row with what is wrong about it."""
    if drift:
        first = drift[0]
        should = f"should be {readable(first.wanted)}" if first.broker is not None else first.kind
        return replace(row, note=f"DRIFT: {should}", note_tone="bad", drift=drift, orphans=orphans)
    if orphans:
        return replace(row, note=f"orphan: {orphans[0].origin}", note_tone="warn", orphans=orphans)
    return row


def _more(row: ThrottleRow) -> list[tuple[str, str]]:
    """What is wrong about it, in full."""
    return [
        *(("Drift", f"{drift_words(one)} ({owner_words(one.operations)})") for one in row.drift),
        *(("Orphan", orphan_words(one)) for one in row.orphans),
    ]


def throttle_hint(facts: Facts, job: Job, foreign: int) -> str:
    """What is wrong with the throttles, in a few words; empty where nothing is."""
    parts = [
        f"{len(job.drift):,} drifted" if job.drift else "",
        plural(len(job.orphans), "orphan") if job.orphans else "",
        f"{plural(foreign, 'move')} of others" if foreign else "",
    ]
    return ", ".join(part for part in parts if part) or orphan_hint(facts)


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
    """Kafka's config sources in words an operator reads at a glance."""
    if not _has_rate(throttle):
        return ""
    return ", ".join(throttle.sources).lower().replace("_", " ")


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
        Column("note", "Note", 25, 70, 2, grows=True, comfort=25),
        lambda row, width: Cell(row.note, row.note_tone),
        lambda row: row.note,
    ),
)
