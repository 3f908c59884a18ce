"""What a topic's row says in each column of the topics view, and how the column is sorted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.domain.text.formatting import bytes_text, count_text, rate_text
from kshunt.tui.tables.model import Cell, Column, Unit
from kshunt.tui.views.partitions.group_table import GROUP_RANKS
from kshunt.tui.views.partitions.sorting import Ranks, amount_ranks, float_ranks
from kshunt.tui.views.topics.topic_sums import TopicSums

UNEVEN: Final = 1.5
"""More than this, in times an even share, is worth a look."""
COLUMNS: Final = (
    Column("group", "Topic", 24, 80, 0, grows=True, comfort=34, names=True, identifies=True),
    Column("partitions", "Parts", 5, 10, 3, 6, right=True, label="Partitions", unit=Unit.COUNT),
    Column("factor", "RF", 3, 0, 6, right=True, label="RF", unit=Unit.COUNT),
    Column("size", "Size", 7, 9, 2, 1, right=True, unit=Unit.BYTES),
    Column("written", "Write/s", 7, 10, 1, 1, right=True, label="Written/s", unit=Unit.RATE),
    Column("leader_skew", "LSkw", 4, 9, 8, 4, right=True, label="Lead skew", unit=Unit.TIMES),
    Column("size_skew", "DSkw", 4, 9, 9, 4, right=True, label="Data skew", unit=Unit.TIMES),
    Column("moving_partitions", "Mov", 4, 6, 2, 3, right=True, label="Moving", unit=Unit.COUNT),
    Column("copied", "Copy", 4, 6, 2, 3, right=True, label="Copied", unit=Unit.SHARE),
    Column(
        "under_replicated", "Under", 5, 10, 1, 2, right=True, label="Under-repl", unit=Unit.COUNT
    ),
    Column("at_min_isr", "AtMin", 5, 10, 4, 2, right=True, label="At min ISR", unit=Unit.COUNT),
    Column("listed", "Thr", 3, 11, 5, 5, label="Throttled"),
    Column("lag_bytes", "Left", 9, 0, 10, right=True, extra=True, unit=Unit.BYTES),
    Column("eta", "ETA", 13, 0, 11, right=True, extra=True, unit=Unit.SECONDS),
    Column("stuck", "Stuck", 5, 0, 12, right=True, extra=True, unit=Unit.COUNT),
    Column("replicas", "Replicas", 8, 0, 13, right=True, extra=True, unit=Unit.COUNT),
)
"""`kshunt.tui.views.partitions.group_table` has the cells of those that are not in `CELLS`."""


def _factor(sums: TopicSums, place: int, width: int) -> Cell:
    """`3`, or `2-3` where its partitions differ."""
    least, most = int(sums.factor_least[place]), int(sums.factor_most[place])
    return Cell(str(most)) if least == most else Cell(f"{least}-{most}", "warn")


def _size(sums: TopicSums, place: int, width: int) -> Cell:
    """At least, where some replicas do not say."""
    size = int(sums.size_bytes[place])
    more = ">" if sums.size_unknown[place] and size >= 0 else ""
    return Cell(more + bytes_text(size, tight=width < 9))


def _written(sums: TopicSums, place: int, width: int) -> Cell:
    rate = float(sums.written_bytes_per_s[place])
    if math.isnan(rate):
        return Cell("?", "dim")
    if rate == 0 and not sums.written_unknown[place]:
        return Cell("-", "dim")
    more = ">" if sums.written_unknown[place] else ""
    return Cell(more + rate_text(rate, tight=width < 10))


def skew_text(skew: float) -> str:
    """`1.3x`, `12x`."""
    return f"{skew:.1f}x" if skew < 9.95 else f"{skew:.0f}x"


def _skew(skew: float, nothing: str) -> Cell:
    if math.isnan(skew):
        return Cell(nothing, "dim")
    return Cell(skew_text(skew), "warn" if skew > UNEVEN else "")


def _leader_skew(sums: TopicSums, place: int, width: int) -> Cell:
    return _skew(float(sums.leader_skew[place]), "-")


def _size_skew(sums: TopicSums, place: int, width: int) -> Cell:
    return _skew(float(sums.size_skew[place]), "?" if sums.size_unknown[place] else "-")


def _moving(sums: TopicSums, place: int, width: int) -> Cell:
    count = int(sums.moving_partitions[place])
    return Cell(count_text(count, tight=width < 6), "strong") if count else Cell("-", "dim")


def copied_text(sums: TopicSums, place: int) -> str:
    """`45%`; empty where nothing is added."""
    if not sums.moving[place]:
        return ""
    share = float(sums.copied[place])
    return "?" if math.isnan(share) else f"{int(share * 100)}%"


def _copied(sums: TopicSums, place: int, width: int) -> Cell:
    text = copied_text(sums, place)
    return Cell(text, "strong") if text else Cell("-", "dim")


def _under(sums: TopicSums, place: int, width: int) -> Cell:
    count = int(sums.under_replicated[place])
    return Cell(count_text(count, tight=width < 8), "warn" if count else "dim")


def _at_min(sums: TopicSums, place: int, width: int) -> Cell:
    """At it or below it together, where there is no room for both."""
    under, at = int(sums.under_min_isr[place]), int(sums.at_min_isr[place])
    if not under and not at:
        # Of a topic whose min.insync.replicas nobody knows, nothing can be said.
        return Cell("?" if sums.min_isr_unknown[place] else "0", "dim")
    tone = "bad" if under else "warn"
    both = ", ".join(
        part for part in (f"{under} under" * bool(under), f"{at} at" * bool(at)) if part
    )
    if under and width >= len(both):
        return Cell(both, tone)
    # The sign is for those who see no colours.
    return Cell(count_text(under + at, tight=width < 8) + "!" * bool(under), tone)


def _listed(sums: TopicSums, place: int, width: int) -> Cell:
    """Which of its lists name replicas; how many, where there is room."""
    sides = [
        (letter, int(count))
        for letter, count in (("L", sums.leader_listed[place]), ("F", sums.follower_listed[place]))
        if count
    ]
    if width >= 11:
        return Cell(
            " ".join(f"{letter}:{count_text(count, tight=True)}" for letter, count in sides)
        )
    return Cell("".join(letter for letter, _ in sides))


CELLS: Final[dict[str, Callable[[TopicSums, int, int], Cell]]] = {
    "factor": _factor,
    "size": _size,
    "written": _written,
    "leader_skew": _leader_skew,
    "size_skew": _size_skew,
    "moving_partitions": _moving,
    "copied": _copied,
    "under_replicated": _under,
    "at_min_isr": _at_min,
    "listed": _listed,
}


def _at_min_number(sums: TopicSums, place: int) -> float:
    """Those below it too, as where the cell has no room for both."""
    under, at = int(sums.under_min_isr[place]), int(sums.at_min_isr[place])
    return math.nan if sums.min_isr_unknown[place] and not under + at else under + at


NUMBERS: Final[dict[str, Callable[[TopicSums, int], float]]] = {
    "factor": lambda sums, place: int(sums.factor_least[place]),
    "size": lambda sums, place: int(sums.size_bytes[place]),
    "written": lambda sums, place: float(sums.written_bytes_per_s[place]),
    "leader_skew": lambda sums, place: float(sums.leader_skew[place]),
    "size_skew": lambda sums, place: float(sums.size_skew[place]),
    "moving_partitions": lambda sums, place: int(sums.moving_partitions[place]),
    "copied": lambda sums, place: float(sums.copied[place]) if sums.moving[place] else math.nan,
    "under_replicated": lambda sums, place: int(sums.under_replicated[place]),
    "at_min_isr": _at_min_number,
}
"""In figures, what `CELLS` says in words; -1 or NaN where it is not known."""


def ranks_of(sums: TopicSums, key: str) -> Ranks:
    """The rank of each topic in a column; unknown stands before everything that is known."""
    return RANKS[key](sums) if key in RANKS else GROUP_RANKS[key](sums)


def _at_min_ranks(sums: TopicSums) -> Ranks:
    """One that is under it is worse than many that are at it."""
    found: Ranks = (sums.under_min_isr << 24) + sums.at_min_isr
    return found


RANKS: Final[dict[str, Callable[[TopicSums], Ranks]]] = {
    "factor": lambda sums: sums.factor_most * 128 + sums.factor_least,
    "size": lambda sums: amount_ranks(sums.size_bytes, unknown_before=True),
    "written": lambda sums: _float_ranks(sums.written_bytes_per_s),
    "leader_skew": lambda sums: _float_ranks(sums.leader_skew),
    "size_skew": lambda sums: _float_ranks(sums.size_skew),
    "moving_partitions": lambda sums: sums.moving_partitions,
    "copied": lambda sums: _float_ranks(np.where(sums.moving > 0, sums.copied, -2.0)),
    "under_replicated": lambda sums: sums.under_replicated,
    "at_min_isr": _at_min_ranks,
    "listed": lambda sums: sums.leader_listed + sums.follower_listed,
}


def _float_ranks(values: NDArray[np.float64]) -> Ranks:
    return float_ranks(values.astype(np.float32), unknown=-1.0)
