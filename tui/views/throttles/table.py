"""The throttles view: every rate and every throttled replica list, in one table.

Two kinds of row: a broker with its two rates, and a topic with its two replica lists. Each says
whose it is, what comes back, and what an operator is about to set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from kshunt.backend.domain.text.formatting import UNKNOWN, limit_text, many
from kshunt.backend.domain.throttles.configs import (
    BrokerThrottle,
    ReplicaSet,
    ThrottledRate,
    ThrottledReplicas,
)
from kshunt.backend.domain.throttles.owners import OwnedThrottle, ShownDrift, ShownOrphan
from kshunt.tui.facts.drift_words import (
    BRIEF_ORIGINS,
    ORIGINS,
    drift_words,
    orphan_words,
    owner_words,
    value_words,
)
from kshunt.tui.facts.pending_rates import Foresight, Pending, needs_of
from kshunt.tui.facts.row_keys import ListRowKey, RateRowKey
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.list_table import ListColumn, ListTable
from kshunt.tui.tables.model import Cell, Column, Order, RowKey
from kshunt.tui.views.throttles.owners import NOT_OURS, before_text, owned_lines, owner_text

if TYPE_CHECKING:
    from kshunt.tui.facts.view_query import Job


BEFORE: Final = "before"


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
    owned: tuple[OwnedThrottle, ...] = ()
    """Its settings that operations here have a share of."""
    owner: str = UNKNOWN
    before: str = ""
    """What comes back in the end; empty where nothing of it is ours."""
    pending: ThrottledRate | None = None
    """What an operator is about to set."""
    brief: str = ""
    """The note where there is no room for it; empty: it is cut."""


class ThrottleTable(ListTable[ThrottleRow]):
    """The rows, and what the rates that an operator is about to set would do."""

    foresight: Foresight | None = None


def throttle_table(
    facts: Facts,
    order: Order,
    drift: Sequence[ShownDrift] = (),
    orphans: Sequence[ShownOrphan] = (),
    owned: Sequence[OwnedThrottle] | None = None,
    pending: Pending = (),
) -> ThrottleTable:
    """Rates of every broker, then lists of every topic that has one, or should have.

    `owned` None: nobody has said yet whose they are.
    """
    throttles = facts.snapshot.throttles
    idle = not facts.moving.any()
    wanted = dict(pending)
    rows: dict[RowKey, ThrottleRow] = {
        RateRowKey(id): replace(
            _rate_row(id, throttles.rates.get(id), idle), pending=wanted.get(id)
        )
        for id in sorted(facts.snapshot.brokers)
    }
    named = {one.topic for one in drift} | {one.topic for one in orphans}
    for topic in sorted((named - {None}).union(throttles.replicas), key=str):
        lists = throttles.replicas.get(topic or "", ThrottledReplicas())
        rows[ListRowKey(topic or "")] = _list_row(topic or "", lists, idle)
    drifted, left, whose = _by_key(drift), _by_key(orphans), _by_key(owned or ())
    for key, row in rows.items():
        judged = _judged(row, drifted.get(key, ()), left.get(key, ()))
        rows[key] = judged if owned is None else _owned(judged, whose.get(key, ()))
    # What comes back is there to be said only where something is ours: a note needs the room.
    ours = any(row.before for row in rows.values())
    fields = [field for field in FIELDS if ours or field.column.key != BEFORE]
    table = ThrottleTable(fields, rows, order, more=_more)
    if pending:
        table.foresight = _foresight(facts, pending)
    return table


def _foresight(facts: Facts, pending: Pending) -> Foresight:
    from kshunt.backend.domain.forecast.what_if import what_if

    now, then = (what_if(facts.snapshot, dict(rates)) for rates in ((), pending))
    snapshot = facts.snapshot
    return Foresight(pending, snapshot.throttles, now, then, snapshot.taken_ms, needs_of(snapshot))


_About = TypeVar("_About", ShownDrift, ShownOrphan, OwnedThrottle)


def _by_key(found: Iterable[_About]) -> dict[RowKey, tuple[_About, ...]]:
    """By the row that it is about."""
    rows: dict[RowKey, tuple[_About, ...]] = {}
    for one in found:
        rows[_key_of(one)] = rows.get(_key_of(one), ()) + (one,)  # noqa: RUF005
    return rows


def _key_of(one: ShownDrift | ShownOrphan | OwnedThrottle) -> RowKey:
    return ListRowKey(one.topic or "") if one.broker is None else RateRowKey(one.broker)


def _judged(
    row: ThrottleRow, drift: tuple[ShownDrift, ...], orphans: tuple[ShownOrphan, ...]
) -> ThrottleRow:
    """The row with what is wrong about it."""
    if drift:
        first = drift[0]
        should = (
            f"was {value_words(first.wanted_value)}" if first.broker is not None else first.kind
        )
        return replace(row, note=f"DRIFT: {should}", note_tone="bad", drift=drift, orphans=orphans)
    if orphans:
        origin = orphans[0].origin
        note, brief = (f"orphan: {words[origin]}" for words in (ORIGINS, BRIEF_ORIGINS))
        return replace(row, note=note, brief=brief, note_tone="warn", orphans=orphans)
    return row


def _owned(row: ThrottleRow, cells: tuple[OwnedThrottle, ...]) -> ThrottleRow:
    """The row with whose it is."""
    present = sum(1 for text in (row.leader, row.follower) if text not in ("none", UNKNOWN))
    return replace(row, owned=cells, owner=owner_text(cells, present), before=before_text(cells))


def _more(row: ThrottleRow) -> list[tuple[str, str]]:
    """Whose it is, and what is wrong about it, in full."""
    return [
        *owned_lines(row.owned),
        *(("Drift", f"{drift_words(one)} ({owner_words(one.operations)})") for one in row.drift),
        *(("Orphan", orphan_words(one)) for one in row.orphans),
    ]


def throttle_hint(facts: Facts, job: Job, foreign: int) -> str:
    """The worst that is wrong with the throttles, in a few words; empty where nothing is.

    The pane below the table tells the rest.
    """
    if job.drift:
        return f"{len(job.drift):,} drifted"
    if job.orphans:
        return many(len(job.orphans), "orphan")
    return f"{many(foreign, 'move')} of others" if foreign else orphan_hint(facts)


def orphan_hint(facts: Facts) -> str:
    """What is left over where throttles stand and nothing moves; empty where all is well."""
    throttles = facts.snapshot.throttles
    brokers = sum(1 for throttle in throttles.rates.values() if _has_rate(throttle))
    topics = len(throttles.replicas)
    if facts.moving.any() or not (brokers or topics):
        return ""
    parts = []
    if brokers:
        parts.append(f"rates on {many(brokers, 'broker')}")
    if topics:
        parts.append(f"replica lists on {many(topics, 'topic')}")
    return f"Nothing moves, but throttles are set: {' and '.join(parts)}."


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
        limit_text(rate.leader_bytes_per_s),
        limit_text(rate.follower_bytes_per_s),
        note,
        "" if _has_rate(throttle) else "dim",
        "warn" if left_over else "dim",
    )


def _source(throttle: BrokerThrottle) -> str:
    """Kafka's config sources in words an operator reads at a glance."""
    if not _has_rate(throttle):
        return ""
    words = (source.lower().replace("_", " ") for source in throttle.sources)
    return ", ".join(source.removesuffix(" config") for source in words)


def _list_row(topic: str, lists: ThrottledReplicas, idle: bool) -> ThrottleRow:
    return ThrottleRow(
        topic,
        (1, 0, topic),
        _list_text(lists.leaders),
        _list_text(lists.followers),
        "left over: nothing moves" if idle else "",
        "",
        "warn" if idle else "dim",
    )


def _list_text(replicas: ReplicaSet) -> str:
    if replicas.everything:
        return "* (all)"
    return str(replicas) or "none"


def _rate_cell(present: str, wanted: int | None, row: ThrottleRow, width: int) -> Cell:
    """What is set, and what an operator is about to set instead."""
    if row.pending is None:
        return Cell(present, row.tone or ("dim" if present == "none" else ""))
    both = f"{present} -> {limit_text(wanted)}"
    return Cell(both if len(both) <= width else f"->{limit_text(wanted, tight=True)}", "warn")


def _leader(row: ThrottleRow, width: int) -> Cell:
    wanted = None if row.pending is None else row.pending.leader_bytes_per_s
    return _rate_cell(row.leader, wanted, row, width)


def _follower(row: ThrottleRow, width: int) -> Cell:
    wanted = None if row.pending is None else row.pending.follower_bytes_per_s
    return _rate_cell(row.follower, wanted, row, width)


def _note(row: ThrottleRow, width: int) -> Cell:
    short = row.brief and width < len(row.note)
    return Cell(row.brief if short else row.note, row.note_tone)


def _owner(row: ThrottleRow, width: int) -> Cell:
    return Cell(row.owner, "dim" if row.owner in (NOT_OURS, UNKNOWN) else "")


FIELDS: Final[tuple[ListColumn[ThrottleRow], ...]] = (
    ListColumn(
        Column(
            "what", "Broker or topic", 12, 60, grows=True, comfort=36, names=True, identifies=True
        ),
        lambda row, width: Cell(row.what),
        lambda row: row.rank,
    ),
    ListColumn(
        Column("leader", "Leader", 9, 50, 1, grows=True, comfort=10, label="Leader side"),
        _leader,
        lambda row: row.leader,
    ),
    ListColumn(
        Column("follower", "Follower", 9, 50, 1, grows=True, comfort=10, label="Follower side"),
        _follower,
        lambda row: row.follower,
    ),
    ListColumn(
        Column("owner", "Owner", 12, 30, 2, grows=True, comfort=13),
        _owner,
        lambda row: row.owner,
    ),
    ListColumn(
        Column(BEFORE, "Before", 7, 20, 4, grows=True, comfort=9),
        lambda row, width: Cell(row.before, "dim" if row.before == "none" else ""),
        lambda row: row.before,
    ),
    ListColumn(
        Column("note", "Note", 16, 80, 3, grows=True, comfort=20),
        _note,
        lambda row: row.note,
    ),
)
