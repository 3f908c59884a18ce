"""Tables of the plan wizard: brokers to choose from, the diff, brokers before and after, notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.planning.impact import BrokerImpact, Impact
from kshunt.backend.domain.planning.proposal import PlanNote, Proposal, note_sentences
from kshunt.backend.domain.text.formatting import UNKNOWN, bytes_text, count_text
from kshunt.tui.changes.plan.fields import ShownCluster
from kshunt.tui.facts.brokers.disks import disk_tone, peak_tone
from kshunt.tui.facts.brokers.row import BrokerRow
from kshunt.tui.tables.list_table import ListColumn, ListTable
from kshunt.tui.tables.model import NATURAL, Cell, Column, Order, Placed, RowKey
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.brokers.table import broker_table

if TYPE_CHECKING:
    from kshunt.tui.facts.snapshot_facts import Facts

CHANGE: Final = "change"
"""The column of a diff in which replicas go and come."""
LEADS: Final = "*"
NOTES_MOST: Final = 1_000
"""Notes that are listed one by one."""


def about(facts: Facts) -> ShownCluster:
    """What fields have to know of a cluster."""
    snapshot = facts.snapshot
    listed = {int(broker) for broker in np.unique(facts.rows.broker)}
    paths = dict.fromkeys(one.path for one in snapshot.log_dirs)
    return ShownCluster(frozenset(listed.union(snapshot.brokers)), snapshot.topics, tuple(paths))


# Brokers to choose from


def pick_table(facts: Facts) -> ListTable[BrokerRow]:
    """Every broker, with what it is chosen by."""
    table = broker_table(facts, NATURAL)
    rows: dict[RowKey, BrokerRow] = {}
    for place in range(len(table)):
        key = table.key_of(place)
        row = table.value_of(key)
        assert row is not None
        rows[key] = row
    return ListTable(_PICKED, rows)


def _state(row: BrokerRow) -> Cell:
    return Cell(row.state, "" if row.state == "up" else "bad")


def _share(row: BrokerRow) -> Cell:
    share = row.disk.share
    if share is None:
        return Cell(UNKNOWN, "dim")
    return Cell(f"{share:.0%}", disk_tone(share))


_PICKED: Final[Sequence[ListColumn[BrokerRow]]] = (
    ListColumn(
        Column("broker", "Broker", 6, right=True),
        lambda row, _: Cell(str(row.id), "strong"),
        lambda row: row.id,
    ),
    ListColumn(
        Column("rack", "Rack", 8, 24, grows=True, names=True),
        lambda row, _: Cell(row.rack or "-"),
        lambda row: row.rack,
    ),
    ListColumn(
        Column("state", "State", 10, priority=3), lambda row, _: _state(row), lambda row: row.state
    ),
    ListColumn(
        Column("replicas", "Replicas", 8, right=True),
        lambda row, _: Cell(count_text(row.replicas)),
        lambda row: row.replicas,
    ),
    ListColumn(
        Column("leaders", "Leaders", 7, right=True, priority=2),
        lambda row, _: Cell(count_text(row.leaders)),
        lambda row: row.leaders,
    ),
    ListColumn(
        Column("used", "Used", 8, right=True, priority=1),
        lambda row, _: Cell(bytes_text(row.disk.used_bytes)),
        lambda row: row.disk.used_bytes,
    ),
    ListColumn(
        Column("disk", "Disk", 5, right=True),
        lambda row, _: _share(row),
        lambda row: row.disk.share,
    ),
)


# What changes, partition by partition


def diff_text(
    before: Sequence[int], after: Sequence[int], leader: int | None, glyphs: Glyphs
) -> str:
    """`-1* 2 3 → +4 2 3`: the sign says what goes and what comes; `*` leads."""

    def side(replicas: Sequence[int], sign: str, others: Sequence[int]) -> str:
        return " ".join(
            f"{'' if broker in others else sign}{broker}{LEADS if broker == leader else ''}"
            for broker in replicas
        )

    order = "  only their order" if sorted(before) == sorted(after) else ""
    return f"{side(before, '-', after)} {glyphs.arrow} {side(after, '+', before)}{order}"


class DiffTable:
    """The partitions that change, by name; a line is written when it comes into sight."""

    columns = (
        Column("partition", "Partition", 20, 70, grows=True, names=True, comfort=36),
        Column(CHANGE, "Replicas: -old +new *leader", 30, 90, grows=True, comfort=36),
    )
    order: Order = NATURAL

    def __init__(self, proposal: Proposal, facts: Facts | None, glyphs: Glyphs) -> None:
        self._proposal, self._facts, self._glyphs = proposal, facts, glyphs
        before = proposal.before
        changed = sorted(p for p, target in proposal.targets.items() if target != before[p])
        self._keys: list[Any] = [*changed, *sorted(proposal.log_dirs)]
        self._places = {key: place for place, key in enumerate(self._keys)}
        self.total = len(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def key_of(self, row: int) -> RowKey:
        """A partition, or a replica that changes its directory."""
        key: RowKey = self._keys[row]
        return key

    def row_of(self, key: RowKey) -> int | None:
        """The row of a key; None where it has none."""
        return self._places.get(key)

    def cells(self, row: int, placed: Sequence[Placed]) -> list[Cell]:
        """The partition, and what changes."""
        name, change = self._line(self._keys[row])
        return [Cell(change if column.key == CHANGE else name) for column, _ in placed]

    def _line(self, key: Any) -> tuple[str, str]:
        proposal = self._proposal
        if isinstance(key, TopicPartition):
            before, after = proposal.before[key], proposal.targets[key]
            return str(key), diff_text(before, after, self._leader(key), self._glyphs)
        partition, broker = key
        here = proposal.log_dirs_before.get(key, UNKNOWN)
        moved = f"{broker}: {here} {self._glyphs.arrow} {proposal.log_dirs[key]}"
        return str(partition), moved

    def _leader(self, partition: TopicPartition) -> int | None:
        if self._facts is None:
            return None
        rows = self._facts.rows_of(*partition)
        return int(self._facts.rows.leader[rows.start]) if len(rows) else None

    def number(self, row: int, key: str) -> float | None:
        """Its columns are text."""
        return None

    def longest(self, key: str) -> int:
        """Partitions in sight are measured."""
        return 0

    def first(self, row: int) -> list[tuple[str, str]]:
        """Nothing comes before the columns."""
        return []

    def more(self, row: int) -> list[tuple[str, str]]:
        """Nothing is left out of the columns."""
        return []


# Brokers before and after


def impact_table(impact: Impact, glyphs: Glyphs) -> ListTable[BrokerImpact]:
    """Every broker, those that change first: disk before, at the peak and after; replicas and
    leaders."""
    ordered = sorted(impact.brokers, key=lambda row: (not row.changes, row.broker))
    rows: dict[RowKey, BrokerImpact] = {row.broker: row for row in ordered}
    return ListTable(_impact_fields(glyphs), rows)


def _impact_fields(glyphs: Glyphs) -> Sequence[ListColumn[BrokerImpact]]:
    def size(key: str, title: str, name: str, priority: int = 0) -> ListColumn[BrokerImpact]:
        def cell(row: BrokerImpact, _: int) -> Cell:
            return _quiet(row, bytes_text(getattr(row, name), tight=True))

        column = Column(key, title, 7, right=True, priority=priority)
        return ListColumn(column, cell, lambda row: getattr(row, name))

    def counts(key: str, title: str) -> ListColumn[BrokerImpact]:
        def cell(row: BrokerImpact, _: int) -> Cell:
            before, after = getattr(row, f"{key}_before"), getattr(row, f"{key}_after")
            return _quiet(row, f"{before}{glyphs.arrow}{after}" if before != after else str(after))

        column = Column(key, title, 11, right=True)
        return ListColumn(column, cell, lambda row: getattr(row, f"{key}_after"))

    number = Column("broker", "Broker", 6, right=True)
    shares = Column("shares", "Of disk", 14, right=True, label="Of disk, same")
    return (
        ListColumn(
            number, lambda row, _: _quiet(row, str(row.broker), "strong"), lambda r: r.broker
        ),
        size("before", "Before", "bytes_before"),
        size("peak", "Peak", "bytes_peak"),
        size("after", "After", "bytes_after"),
        ListColumn(shares, lambda row, _: shares_cell(row), lambda row: row.peak_share or 0.0),
        counts("replicas", "Replicas"),
        counts("leaders", "Leaders"),
        size("in", "In", "received_bytes", 1),
        size("out", "Out", "sent_bytes", 2),
    )


def _quiet(row: BrokerImpact, text: str, tone: str = "") -> Cell:
    """The cell of a broker that does not change is dim."""
    return Cell(text, tone if row.changes else "dim")


def shares_cell(row: BrokerImpact) -> Cell:
    """How full its disks are before, at the peak, and after."""
    if not row.disk_bytes:
        return Cell(UNKNOWN, "dim")
    shares = (row.bytes_before, row.bytes_peak, row.bytes_after)
    text = "".join(f"{size / row.disk_bytes:5.0%}" for size in shares).strip()
    return Cell(text, peak_tone(row.bytes_peak / row.disk_bytes))


# Notes


def notes_table(notes: Sequence[PlanNote], width: int) -> ListTable[str]:
    """What was not done and why, wrapped to a width; the most are counted."""
    sentences = note_sentences(notes)
    lines = list(_note_lines(sentences[:NOTES_MOST], max(width, 20)))
    if len(sentences) > NOTES_MOST:
        lines.append(f"... and {len(sentences) - NOTES_MOST:,} more")
    return line_table("Not done, or assumed", lines)


def line_table(title: str, lines: Sequence[str]) -> ListTable[str]:
    """Lines of text, as they are."""
    column = Column("line", title, 10, 400, grows=True, sortable=False)
    rows: Mapping[RowKey, str] = dict(enumerate(lines))
    return ListTable([ListColumn(column, lambda row, _: Cell(row), lambda row: row)], rows)


def _note_lines(sentences: Iterable[str], width: int) -> Iterable[str]:
    for sentence in sentences:
        first, *others = wrap(sentence, width - 2) or [""]
        yield f"- {first}"
        yield from (f"  {line}" for line in others)
