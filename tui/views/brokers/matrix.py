"""Who feeds whom: moves as a matrix of brokers, and of partitions by brokers.

The source of a copy is its partition's leader. A cell of the first matrix holds the number of
copies and their rate together; `!` between them says that one of them is stuck. A cell of the
second matrix says what a replica is. `L` leads, `=` is in sync, `~` is behind, and `!` is stuck or
offline. `45%` is being copied and has 45 % so far; `?` is being copied and its share is unknown.
The cluster removes `-` when the copy is done; `L-` leads until then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.snapshot import ReplicaStatus
from kshunt.backend.domain.text.formatting import rate_text, terse_rate_text
from kshunt.tui.facts.brokers.flows import ALL, NOBODY, CopyFlow, Sent, flows_of
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.list_table import ListColumn, ListTable
from kshunt.tui.tables.model import Cell, Column, Order, RowKey, Unit

FLOWS: Final = "flows"
PLACES: Final = "places"
MATRICES: Final = (FLOWS, PLACES)
"""What the brokers view shows in place of brokers, in the order in which a key shows them."""
LEGENDS: Final[Mapping[str, str]] = {
    FLOWS: "Rows send, columns receive: copies and rate  ! one is stuck  h l shift",
    PLACES: "L leads  = in sync  45% copied  ~ behind  - leaving  ! stuck or down",
}
PARTITIONS_MOST: Final = 2_000
"""Moving partitions that are listed one by one."""


def flow_table(facts: Facts, order: Order, shift: int = 0) -> ListTable[Sent]:
    """One row a broker that sends, one column a broker that receives; from the `shift`-th on."""
    rows = flows_of(facts)
    targets = list(rows[ALL].to) if rows else []
    most = rows[ALL].total.copies if rows else 0
    most_to_one = max((flow.copies for flow in rows[ALL].to.values()), default=0) if rows else 0
    first = min(max(shift, 0), max(len(targets) - 1, 0))
    fields = [
        ListColumn(Column("from", "From", 4, 6, 0, 2, right=True), _source, _source_rank),
        # Where not everything fits, the sums are dropped first, and then brokers.
        _flow_field("total", "All", most, len(targets) + 1, lambda sent: sent.total),
        *(
            _flow_field(f"to {target}", f">{target}", most_to_one, 1 + place, _to(target))
            for place, target in enumerate(targets[first:])
        ),
    ]
    return ListTable(fields, rows, order, more=_more)


def _to(target: int) -> Callable[[Sent], CopyFlow]:
    return lambda sent: sent.to.get(target, CopyFlow())


def _flow_field(
    key: str, title: str, most: int, rank: int, flow: Callable[[Sent], CopyFlow]
) -> ListColumn[Sent]:
    """A column as wide as the largest number of copies, a sign and a short rate."""
    return ListColumn(
        Column(key, title, len(str(most)) + 5, 12, rank, 1, right=True, unit=Unit.RATE),
        lambda sent, room: _flow_cell(flow(sent), room),
        lambda sent: (flow(sent).copies, _known(flow(sent).rate_bytes_per_s)),
        lambda sent: flow(sent).rate_bytes_per_s if flow(sent).copies else 0.0,
    )


def _flow_cell(flow: CopyFlow, width: int) -> Cell:
    """`3 25M`, or `3 25.0 MB/s`; a dot where nothing is copied."""
    if not flow.copies:
        return Cell(".", "dim")
    written = rate_text if width >= 12 else terse_rate_text
    rate = written(flow.rate_bytes_per_s)
    tone = "bad" if flow.stuck else "strong" if flow.rate_bytes_per_s > 0 else "warn"
    return Cell(f"{flow.copies}{'!' if flow.stuck else ' '}{rate}", tone)


def _source(sent: Sent, width: int) -> Cell:
    if sent.source == NOBODY:
        return Cell("none", "bad")
    return Cell(str(sent.source), "" if sent.source == ALL else "strong")


def _source_rank(sent: Sent) -> float:
    return math.inf if isinstance(sent.source, str) else sent.source


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _more(sent: Sent) -> list[tuple[str, str]]:
    """Each flow in full."""
    flows = [(f"To {target}", flow.words) for target, flow in sent.to.items() if flow.copies]
    look = "" if isinstance(sent.source, str) else f"leader:{sent.source} adding"
    return [("Sends", sent.total.words), *flows, *([("Filter", look)] if look else [])]


@dataclass(frozen=True, slots=True)
class Placement:
    """A moving partition: what each broker's replica of it is."""

    partition: TopicPartition
    marks: Mapping[int, Cell]
    """By broker."""


def place_table(facts: Facts, order: Order, shift: int = 0) -> ListTable[Placement]:
    """One row a moving partition, one column a broker that has to do with one."""
    starts = facts.starts[facts.moving[facts.starts]][:PARTITIONS_MOST]
    rows: dict[RowKey, Placement] = {}
    for start in starts.tolist():
        partition = facts.snapshot.partition_of(start)
        rows[partition] = Placement(partition, _marks(facts, facts.rows_of(*partition)))
    brokers = sorted({broker for row in rows.values() for broker in row.marks})
    first = min(max(shift, 0), max(len(brokers) - 1, 0))
    fields = [
        ListColumn(
            Column("partition", "Partition", 14, 60, 0, grows=True, comfort=30, names=True),
            lambda row, width: Cell(str(row.partition)),
            lambda row: row.partition,
        ),
        *(_mark_field(broker, 1 + place) for place, broker in enumerate(brokers[first:])),
    ]
    return ListTable(fields, rows, order)


def _mark_field(broker: int, rank: int) -> ListColumn[Placement]:
    nothing = Cell(".", "dim")
    return ListColumn(
        Column(f"on {broker}", str(broker), max(4, len(str(broker))), 0, rank, right=True),
        lambda row, width: row.marks.get(broker, nothing),
        lambda row: row.marks.get(broker, nothing).text,
    )


def _marks(facts: Facts, places: Sequence[int]) -> dict[int, Cell]:
    return {int(facts.rows.broker[place]): _mark(facts, place) for place in places}


def _mark(facts: Facts, place: int) -> Cell:
    rows = facts.rows
    leads = rows.leader[place] == rows.broker[place]
    if facts.stuck[place] or rows.status[place] == ReplicaStatus.OFFLINE:
        return Cell("!", "bad")
    if rows.adding[place]:
        return Cell(_copied(int(rows.size_bytes[place]), int(rows.lag_bytes[place])), "strong")
    if rows.removing[place]:
        return Cell("L-" if leads else "-", "dim")
    if leads:
        return Cell("L")
    return Cell("=", "good") if rows.in_isr[place] else Cell("~", "warn")


def _copied(size_bytes: int, lag_bytes: int) -> str:
    """The share that is there, never all of it before it is in sync."""
    if size_bytes < 0 or lag_bytes < 0:
        return "?"
    whole = size_bytes + lag_bytes
    return f"{min(int(size_bytes * 100 / whole) if whole else 100, 100 if not lag_bytes else 99)}%"
