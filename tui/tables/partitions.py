"""The partitions view: one row a replica, 200,000 of them if need be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backend.domain.snapshot import ReplicaStatus
from backend.domain.stuck import Cause
from tui.tables.base import Cell, Column, Order, Placed, RowKey
from tui.tables.causes import stuck_word, why_lines
from tui.tables.facts import Facts
from tui.tables.filters import Term
from tui.tables.masks import mask_of
from tui.text import bytes_text, count_text, duration_text, eta_text, rate_text, speed_text

_STUCK_RANK: Final = max(ReplicaStatus) + 1
FOLLOW_ORDER: Final = Order("lag_bytes", reverse=True)
"""How the moving replicas are sorted while they are followed: the furthest behind first."""


class ReplicaKey(NamedTuple):
    """What identifies a replica."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


class PartitionTable:
    """Replicas of a snapshot, filtered and sorted."""

    def __init__(self, facts: Facts, rows: NDArray[np.intp], order: Order) -> None:
        self.facts = facts
        self.order = order
        self.columns = _columns(facts)
        self.total = len(facts.rows)
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def key_of(self, row: int) -> ReplicaKey:
        """Topic, partition and broker of a row."""
        place = int(self._rows[row])
        replicas = self.facts.rows
        return ReplicaKey(
            self.facts.snapshot.topic_of(place),
            int(replicas.partition[place]),
            int(replicas.broker[place]),
        )

    def row_of(self, key: RowKey) -> int | None:
        """Where a replica is, or None if it is filtered out or gone."""
        place = self._place_of(key)
        if place is None:
            return None
        found = np.flatnonzero(self._rows == place)
        return int(found[0]) if len(found) else None

    def _place_of(self, key: RowKey) -> int | None:
        assert isinstance(key, ReplicaKey)
        for place in self.facts.rows_of(key.topic, key.partition):
            if self.facts.rows.broker[place] == key.broker:
                return place
        return None

    def cells(self, row: int, placed: Sequence[Placed]) -> list[Cell]:
        """The row's texts for these columns."""
        place = int(self._rows[row])
        return [_CELLS[column.key](self.facts, place, width) for column, width in placed]

    def first(self, row: int) -> list[tuple[str, str]]:
        """Why the replica does not advance, and what to do."""
        snapshot = self.facts.snapshot
        return why_lines(snapshot.why(int(self._rows[row])), snapshot)

    def more(self, row: int) -> list[tuple[str, str]]:
        """The partition's other replicas, who is in sync, and where this one lies."""
        facts, place = self.facts, int(self._rows[row])
        rows, key = facts.rows, self.key_of(row)
        places = facts.rows_of(key.topic, key.partition)
        in_sync = [str(rows.broker[other]) for other in places if rows.in_isr[other]]
        paths, path = facts.snapshot.log_dir_paths, int(rows.log_dir[place])
        return [
            ("Replicas", ", ".join(_replica_words(facts, other) for other in places)),
            ("In-sync set", ", ".join(in_sync) or "none"),
            ("Log directory", paths[path] if 0 <= path < len(paths) else "?"),
            ("Log end offset", count_text(int(rows.log_end_offset[place]))),
        ]


def _replica_words(facts: Facts, place: int) -> str:
    """`3`, `3 leader`, `3 adding`, `3 leader, removing`."""
    role = _role(facts, place, 16).text
    broker = str(facts.rows.broker[place])
    return broker if role == "follower" else f"{broker} {role}"


def partition_table(
    facts: Facts, terms: tuple[Term, ...], order: Order, follow: bool
) -> PartitionTable:
    """The replicas that pass the filter, sorted; only those of moving partitions if `follow`."""
    mask = mask_of(terms, facts)
    if follow:
        mask = facts.moving if mask is None else mask & facts.moving
    rows = np.arange(len(facts.rows)) if mask is None else np.flatnonzero(mask)
    return PartitionTable(facts, _sorted(facts, rows, order), order)


def _sorted(facts: Facts, rows: NDArray[np.intp], order: Order) -> NDArray[np.intp]:
    """Ties stay in the order of topic, partition and position, so no two rows ever swap idly."""
    if order.key in ("", "topic"):
        return rows[::-1] if order.reverse else rows
    values = _SORT_VALUES[order.key](facts)[rows]
    return rows[np.argsort(-values if order.reverse else values, kind="stable")]


def _lag_rank(column: NDArray[np.int64]) -> NDArray[np.float64]:
    """An unknown lag is worse than none and stands right behind the known ones."""
    return np.where(column < 0, 0.5, column.astype(np.float64))


def _speed_rank(column: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.where(np.isnan(column), -math.inf, column.astype(np.float64))


def _eta_rank(column: NDArray[np.float32]) -> NDArray[np.float64]:
    """Unknown before every known ETA; "not at this rate" after them."""
    return np.where(np.isnan(column), -1.0, column.astype(np.float64))


def _role_rank(facts: Facts) -> NDArray[np.int64]:
    rows = facts.rows
    rank = np.where(rows.leader == rows.broker, 0, 1)
    return np.where(rows.adding, 2, np.where(rows.removing, 3, rank))


_SORT_VALUES: Final[dict[str, Callable[[Facts], NDArray[Any]]]] = {
    "partition": lambda facts: facts.rows.partition.astype(np.int64),
    "broker": lambda facts: facts.rows.broker.astype(np.int64),
    "role": _role_rank,
    "status": lambda facts: np.where(facts.stuck, _STUCK_RANK, facts.rows.status.astype(np.int64)),
    "lag_messages": lambda facts: _lag_rank(facts.rows.lag_messages),
    "lag_bytes": lambda facts: _lag_rank(facts.rows.lag_bytes),
    "rate": lambda facts: _speed_rank(facts.rows.catch_up_bytes_per_s),
    "message_rate": lambda facts: _speed_rank(facts.rows.catch_up_messages_per_s),
    "eta": lambda facts: _eta_rank(facts.rows.eta_s),
    "throttled": lambda facts: (
        facts.rows.leader_throttled.astype(np.int64) + 2 * facts.rows.follower_throttled
    ),
    "size": lambda facts: facts.rows.size_bytes,
    "leader": lambda facts: facts.rows.leader.astype(np.int64),
}


def _columns(facts: Facts) -> tuple[Column, ...]:
    """Widths follow the longest ids of the cluster, so that they do not change between ticks."""
    rows = facts.rows
    partition = len(str(int(rows.partition.max(initial=0))))
    broker = len(str(int(rows.broker.max(initial=0))))
    return (
        Column("topic", "Topic", 14, 80, 0, grows=True, comfort=34, names=True),
        Column("partition", "Part", max(4, partition), 0, 1, right=True, label="Partition"),
        Column("broker", "Brk", max(4, broker + 1), 7, 1, right=True, label="Broker"),
        Column("role", "Role", 8, 0, 5),
        Column("status", "Status", 11, 33, 2, 3),
        Column("lag_messages", "Msgs", 5, 10, 6, 2, right=True, label="Lag msgs"),
        Column("lag_bytes", "Bytes", 6, 9, 3, 1, right=True, label="Lag bytes"),
        Column("rate", "Rate", 6, 10, 4, 1, right=True, label="Catch-up"),
        Column("eta", "ETA", 6, 16, 3, 1, right=True),
        Column("throttled", "Thr", 3, 0, 7, label="Throttled"),
        Column("size", "Size", 8, 0, 8, right=True, extra=True),
        Column("age", "Age", 6, 0, 9, right=True, extra=True, sortable=False),
        Column("leader", "Leader", 6, 0, 10, right=True, extra=True),
        Column("message_rate", "Msgs/s", 9, 0, 11, right=True, extra=True, label="Catch-up msgs"),
    )


def _topic(facts: Facts, place: int, width: int) -> Cell:
    return Cell(facts.snapshot.topic_of(place))


def _partition(facts: Facts, place: int, width: int) -> Cell:
    return Cell(str(facts.rows.partition[place]))


def _broker(facts: Facts, place: int, width: int) -> Cell:
    """The preferred replica carries a star; it warns where another replica leads."""
    rows = facts.rows
    preferred = rows.position[place] == 0
    misled = preferred and rows.leader[place] != rows.broker[place]
    return Cell(f"{rows.broker[place]}{'*' if preferred else ' '}", "warn" if misled else "")


def _role(facts: Facts, place: int, width: int) -> Cell:
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


def _status(facts: Facts, place: int, width: int) -> Cell:
    """KIP-179's words; the number of messages where there is room for all of them.

    A replica that is stuck says so, and its cause where there is room; its lag has columns of
    its own.
    """
    if facts.stuck[place]:
        return Cell(stuck_word(Cause(int(facts.rows.cause[place])), width), "bad")
    status = ReplicaStatus(int(facts.rows.status[place]))
    cell = _STATUS[status]
    lag = int(facts.rows.lag_messages[place])
    words = f"Behind: {lag} messages behind"
    whole = status is ReplicaStatus.BEHIND and lag >= 0 and len(words) <= width
    return Cell(words, cell.tone) if whole else cell


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
    return Cell(speed_text(rate), "bad" if rate < 0 else "")


def _eta(facts: Facts, place: int, width: int) -> Cell:
    if _quiet(facts, place):
        return Cell("")
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
    return Cell("none", "bad") if leader < 0 else Cell(str(leader), "dim")


def _age(facts: Facts, place: int, width: int) -> Cell:
    if not facts.stale[place]:
        return Cell("")
    return Cell(duration_text(facts.broker_age_s(int(facts.rows.broker[place]))), "warn")


_CELLS: Final[dict[str, Callable[[Facts, int, int], Cell]]] = {
    "topic": _topic,
    "partition": _partition,
    "broker": _broker,
    "role": _role,
    "status": _status,
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
