"""The partitions view: one row a replica, 200,000 of them if need be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.replicas.snapshot import Replicas, ReplicaStatus
from kshunt.backend.domain.replicas.stuck_causes import STUCK_CAUSES
from kshunt.backend.domain.text.formatting import count_text
from kshunt.tui.facts.filter_terms import Term
from kshunt.tui.facts.replica_groups import GroupKey, group_rows
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.facts.stuck_words import why_lines
from kshunt.tui.tables.model import Cell, Order, Placed, RowKey
from kshunt.tui.views.partitions.filter_masks import mask_of
from kshunt.tui.views.partitions.replica_columns import CELLS, columns_of, number_of, role_cell
from kshunt.tui.views.partitions.sorting import Ranks, amount_ranks, float_ranks, sorted_places

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.operation import Operation

_STUCK_RANK: Final = max(ReplicaStatus) + 1


class PartitionTable:
    """Replicas of a snapshot, filtered and sorted."""

    def __init__(
        self,
        facts: Facts,
        rows: NDArray[np.intp],
        order: Order,
        operations: Sequence[Operation] = (),
    ) -> None:
        self.facts = facts
        self.order = order
        self.columns = columns_of(facts)
        self.total = len(facts.rows)
        self._rows = rows
        self._operations = operations

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
        """Where a replica is, or None if it is filtered out or gone; of a group its first one."""
        if isinstance(key, GroupKey):
            return self._first_of(key)
        place = self._place_of(key)
        if place is None:
            return None
        found = np.flatnonzero(self._rows == place)
        return int(found[0]) if len(found) else None

    def _first_of(self, key: GroupKey) -> int | None:
        members = group_rows(self.facts, key, self._operations)[self._rows]
        return int(np.argmax(members)) if members.any() else None

    def _place_of(self, key: RowKey) -> int | None:
        assert isinstance(key, ReplicaKey)
        for place in self.facts.rows_of(key.topic, key.partition):
            if self.facts.rows.broker[place] == key.broker:
                return place
        return None

    def cells(self, row: int, placed: Sequence[Placed]) -> list[Cell]:
        """The row's texts for these columns."""
        place = int(self._rows[row])
        return [CELLS[column.key](self.facts, place, width) for column, width in placed]

    def number(self, row: int, key: str) -> float | None:
        """What a column with a unit says in figures."""
        return number_of(self.facts, int(self._rows[row]), key)

    def longest(self, key: str) -> int:
        """The longest name of a topic, so that the columns stay as rows go by."""
        return self.facts.longest_topic if key == "topic" else 0

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
    role = role_cell(facts, place, 16).text
    broker = str(facts.rows.broker[place])
    return broker if role == "follower" else f"{broker} {role}"


def matching_rows(
    facts: Facts, terms: tuple[Term, ...], follow: bool, operations: Sequence[Operation] = ()
) -> NDArray[np.intp]:
    """The rows that pass the filter, in their natural order.

    If `follow`, those of partitions that move or ail.
    """
    mask = mask_of(terms, facts, operations)
    if follow:
        mask = facts.active if mask is None else mask & facts.active
    return np.arange(len(facts.rows)) if mask is None else np.flatnonzero(mask)


def sorted_rows(facts: Facts, rows: NDArray[np.intp], order: Order) -> NDArray[np.intp]:
    """Ties stay in the order of topic, partition and position, so no two rows ever swap idly."""
    wanted = [level for level in order.levels if level.key in RANKINGS]
    levels = [(RANKINGS[key].of(facts.rows)[rows], reverse) for key, reverse in wanted]
    if not levels:
        return rows[::-1] if order.reverse else rows
    return rows[sorted_places(levels, len(rows))]


class Ranking(NamedTuple):
    """How rows are sorted by a column of the view."""

    decided_by: tuple[str, ...]
    """The columns of `Replicas` from which the ranks are made, and nothing else."""
    ranks: Callable[..., Ranks]

    def of(self, rows: Replicas) -> Ranks:
        """The rank of each row."""
        return self.ranks(*(getattr(rows, name) for name in self.decided_by))


def _number_ranks(column: NDArray[Any]) -> Ranks:
    """Numbers from -1."""
    return column.astype(np.int64) + 1


def _role_ranks(
    leader: NDArray[Any], broker: NDArray[Any], adding: NDArray[Any], removing: NDArray[Any]
) -> Ranks:
    return np.where(adding, 2, np.where(removing, 3, np.where(leader == broker, 0, 1)))


def _status_ranks(cause: NDArray[Any], status: NDArray[Any]) -> Ranks:
    stuck = np.isin(cause, np.array(STUCK_CAUSES, np.uint8))
    return np.where(stuck, _STUCK_RANK, status.astype(np.int64))


def _throttled_ranks(leader: NDArray[Any], follower: NDArray[Any]) -> Ranks:
    ranks: Ranks = leader.astype(np.int64) + 2 * follower
    return ranks


def _mode_ranks(mode: NDArray[Any]) -> Ranks:
    return np.where(mode == PartitionMode.NONE, 2, mode.astype(np.int64))


_RATE_RANKS: Final = partial(float_ranks, unknown=-math.inf)
RANKINGS: Final[Mapping[str, Ranking]] = {
    "topic": Ranking(("topic_index",), _number_ranks),
    "partition": Ranking(("partition",), _number_ranks),
    "broker": Ranking(("broker",), _number_ranks),
    "role": Ranking(("leader", "broker", "adding", "removing"), _role_ranks),
    "status": Ranking(("cause", "status"), _status_ranks),
    # An unknown lag is worse than none and stands right behind the known ones.
    "lag_messages": Ranking(("lag_messages",), amount_ranks),
    "lag_bytes": Ranking(("lag_bytes",), amount_ranks),
    "rate": Ranking(("catch_up_bytes_per_s",), _RATE_RANKS),
    "message_rate": Ranking(("catch_up_messages_per_s",), _RATE_RANKS),
    # Unknown before every known ETA; "not at this rate" after them.
    "eta": Ranking(("eta_s",), partial(float_ranks, unknown=-1.0)),
    "throttled": Ranking(("leader_throttled", "follower_throttled"), _throttled_ranks),
    "size": Ranking(("size_bytes",), partial(amount_ranks, unknown_before=True)),
    "mode": Ranking(("mode",), _mode_ranks),
    "leader": Ranking(("leader",), _number_ranks),
}
"""By the key of a column that can be sorted."""
