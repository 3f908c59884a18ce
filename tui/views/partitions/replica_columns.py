"""What a replica's row says in each column of the partitions view."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode, mode_words
from kshunt.backend.domain.replicas.snapshot import ReplicaStatus, Snapshot
from kshunt.backend.domain.replicas.stuck_causes import Cause
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    count_text,
    duration_text,
    eta_text,
    message_rate_text,
    rate_text,
)
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.stuck_words import stuck_word
from kshunt.tui.tables.model import Cell, Column, Unit


def _id(key: str, title: str, width: int, wide: int, label: str) -> Column:
    """A number of the replica that a row is about."""
    return Column(
        key, title, width, wide, 1, right=True, label=label, unit=Unit.ID, identifies=True
    )


def columns_of(facts: Facts) -> tuple[Column, ...]:
    """Widths follow the longest ids of the cluster, so that they do not change between ticks."""
    rows = facts.rows
    part = max(4, len(str(int(rows.partition.max(initial=0)))))
    brk = max(4, len(str(int(rows.broker.max(initial=0)))) + 1)
    # A column for what hardly any cluster has is there only where a partition has it.
    modes = (Column("mode", "Mode", 8, 18, 2),) if rows.mode.any() else ()
    return (
        Column("topic", "Topic", 14, 80, 0, grows=True, comfort=34, names=True, identifies=True),
        _id("partition", "Part", part, 0, "Partition"),
        _id("broker", "Brk", brk, 7, "Broker"),
        Column("role", "Role", 8, 0, 5),
        Column("status", "Status", 11, 33, 2, 3),
        *modes,
        Column("lag_messages", "Msgs", 5, 10, 6, 2, right=True, label="Lag msgs", unit=Unit.COUNT),
        Column("lag_bytes", "Bytes", 6, 9, 3, 1, right=True, label="Lag bytes", unit=Unit.BYTES),
        Column("rate", "Rate", 6, 10, 4, 1, right=True, label="Catch-up", unit=Unit.RATE),
        Column("eta", "ETA", 6, 16, 3, 1, right=True, unit=Unit.SECONDS),
        Column("throttled", "Thr", 3, 0, 7, label="Throttled"),
        Column("size", "Size", 8, 0, 8, right=True, extra=True, unit=Unit.BYTES),
        Column("age", "Age", 6, 0, 9, right=True, extra=True, sortable=False, unit=Unit.SECONDS),
        Column("leader", "Leader", 6, 0, 10, right=True, extra=True, unit=Unit.ID),
        Column(
            "message_rate",
            "Msgs/s",
            9,
            0,
            11,
            right=True,
            extra=True,
            label="Catch-up msgs",
            unit=Unit.MESSAGE_RATE,
        ),
    )


def _topic(facts: Facts, place: int, width: int) -> Cell:
    return Cell(facts.snapshot.topic_of(place))


def _partition(facts: Facts, place: int, width: int) -> Cell:
    return Cell(str(facts.rows.partition[place]))


def _broker(facts: Facts, place: int, width: int) -> Cell:
    """The preferred replica carries a star; it warns where another replica leads."""
    rows = facts.rows
    preferred = rows.position[place] == 0
    leaderless = facts.being_deleted[place]
    misled = preferred and rows.leader[place] != rows.broker[place] and not leaderless
    return Cell(f"{rows.broker[place]}{'*' if preferred else ' '}", "warn" if misled else "")


def role_cell(facts: Facts, place: int, width: int) -> Cell:
    rows = facts.rows
    if rows.adding[place]:
        return Cell("adding", "strong")
    leads = rows.leader[place] == rows.broker[place]
    if rows.removing[place]:
        leading = "leader, removing" if width >= 16 else "leader -"
        return Cell(leading if leads else "removing", "" if leads else "dim")
    return Cell("leader") if leads else Cell("follower", "dim")


_STATUS: Final = {
    ReplicaStatus.IN_SYNC: Cell("In sync", "good"),
    ReplicaStatus.BEHIND: Cell("Behind", "warn"),
    ReplicaStatus.LAG_UNKNOWN: Cell("Lag unknown", "warn"),
    ReplicaStatus.OFFLINE: Cell("Offline", "bad"),
}


def status_cell(facts: Facts, place: int, width: int) -> Cell:
    """KIP-179's words; the number of messages where there is room for all of them.

    A replica that is stuck says so, and its cause where there is room; its lag has columns of
    its own.
    """
    if facts.stuck[place]:
        return Cell(stuck_word(Cause(int(facts.rows.cause[place])), width), "bad")
    if facts.rows.cause[place] == Cause.PAUSED:
        return Cell("Paused", "warn")
    if facts.being_deleted[place]:
        return Cell("Deleting", "dim")
    status = ReplicaStatus(int(facts.rows.status[place]))
    cell = _STATUS[status]
    if status is ReplicaStatus.BEHIND and facts.rows.adding[place]:
        # That it lacks something is what a copy is there for.
        cell = Cell(cell.text)
    lag = int(facts.rows.lag_messages[place])
    words = f"Behind: {lag} messages behind"
    whole = status is ReplicaStatus.BEHIND and lag >= 0 and len(words) <= width
    return Cell(words, cell.tone) if whole else cell


def mode_cell(facts: Facts, place: int, width: int) -> Cell:
    """`leaving in 3 min`; KIP-694's own word where there is no room for that."""
    snapshot = facts.snapshot
    mode = snapshot.mode_of(place)
    if mode is PartitionMode.READ_WRITE:
        return Cell("")
    words = mode_text(snapshot, place)
    tone = "dim" if mode is PartitionMode.NONE else "warn"
    return Cell(words if len(words) <= width else str(mode), tone)


def mode_text(snapshot: Snapshot, place: int) -> str:
    """`leaving in 3 min`, `being deleted`; nothing for a partition that stays."""
    deletes_ms = snapshot.deletes_ms.get(snapshot.partition_of(place), UNKNOWN_MS)
    return mode_words(snapshot.mode_of(place), deletes_ms, snapshot.taken_ms)


def _is_leader(facts: Facts, place: int) -> bool:
    return bool(facts.rows.leader[place] == facts.rows.broker[place])


def _quiet(facts: Facts, place: int) -> bool:
    """True for a replica that has nothing to copy."""
    return not facts.behind[place]


def _lag_messages(facts: Facts, place: int, width: int) -> Cell:
    return _lag(facts, place, count_text(int(facts.rows.lag_messages[place]), tight=width < 10))


def _lag_bytes(facts: Facts, place: int, width: int) -> Cell:
    return _lag(facts, place, bytes_text(int(facts.rows.lag_bytes[place]), tight=width < 9))


def _lag(facts: Facts, place: int, text: str) -> Cell:
    if _is_leader(facts, place):
        return Cell("-", "dim")
    return Cell(text, "dim" if _quiet(facts, place) else "")


def _rate(facts: Facts, place: int, width: int) -> Cell:
    if _quiet(facts, place):
        return Cell("")
    rate = float(facts.rows.catch_up_bytes_per_s[place])
    return Cell(rate_text(rate, tight=width < 10), "bad" if rate < 0 else "")


def _message_rate(facts: Facts, place: int, width: int) -> Cell:
    if _quiet(facts, place):
        return Cell("")
    rate = float(facts.rows.catch_up_messages_per_s[place])
    return Cell(message_rate_text(rate), "bad" if rate < 0 else "")


def _eta(facts: Facts, place: int, width: int) -> Cell:
    if _quiet(facts, place):
        return Cell("")
    if facts.rows.cause[place] == Cause.PAUSED:
        return Cell("held", "warn")
    eta = float(facts.rows.eta_s[place])
    return Cell(eta_text(eta, width), "bad" if math.isinf(eta) else "")


def _throttled(facts: Facts, place: int, width: int) -> Cell:
    rows = facts.rows
    leader = "L" if rows.leader_throttled[place] else ""
    follower = "F" if rows.follower_throttled[place] else ""
    return Cell(leader + follower)


def _size(facts: Facts, place: int, width: int) -> Cell:
    return Cell(bytes_text(int(facts.rows.size_bytes[place])), "dim")


def _leader(facts: Facts, place: int, width: int) -> Cell:
    leader = int(facts.rows.leader[place])
    if facts.being_deleted[place]:
        return Cell("none", "dim")
    return Cell("none", "bad") if leader < 0 else Cell(str(leader), "dim")


def _age(facts: Facts, place: int, width: int) -> Cell:
    if not facts.stale[place]:
        return Cell("")
    return Cell(duration_text(facts.broker_age_s(int(facts.rows.broker[place]))), "warn")


CELLS: Final[dict[str, Callable[[Facts, int, int], Cell]]] = {
    "topic": _topic,
    "partition": _partition,
    "broker": _broker,
    "role": role_cell,
    "status": status_cell,
    "mode": mode_cell,
    "lag_messages": _lag_messages,
    "lag_bytes": _lag_bytes,
    "rate": _rate,
    "message_rate": _message_rate,
    "eta": _eta,
    "throttled": _throttled,
    "size": _size,
    "leader": _leader,
    "age": _age,
}


def _age_s(facts: Facts, place: int) -> float:
    """Of a broker that is silent; else what it said is new."""
    return facts.broker_age_s(int(facts.rows.broker[place])) if facts.stale[place] else math.nan


_COLUMNS_OF_NUMBERS: Final = {
    "partition": "partition",
    "broker": "broker",
    "lag_messages": "lag_messages",
    "lag_bytes": "lag_bytes",
    "rate": "catch_up_bytes_per_s",
    "message_rate": "catch_up_messages_per_s",
    "eta": "eta_s",
    "size": "size_bytes",
    "leader": "leader",
}
_OF_COPIES: Final = frozenset({"rate", "message_rate", "eta"})
"""What only a replica has that has something to copy."""


def number_of(facts: Facts, place: int, key: str) -> float:
    """What a column with a unit says in figures; -1 or NaN where it is not known."""
    if key == "age":
        return _age_s(facts, place)
    held = key == "eta" and facts.rows.cause[place] == Cause.PAUSED
    if held or (key in _OF_COPIES and _quiet(facts, place)):
        return math.nan
    found: float = getattr(facts.rows, _COLUMNS_OF_NUMBERS[key])[place].item()
    return found
