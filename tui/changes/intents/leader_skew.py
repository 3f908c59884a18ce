"""Who leads how many partitions, before and after an election. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.text.formatting import many

if TYPE_CHECKING:
    from kshunt.tui.facts.snapshot_facts import Facts

BAR: Final = 10
"""Cells of the longest bar."""
SHOWN_MOST: Final = 6


@dataclass(frozen=True, slots=True)
class Skew:
    """Partitions that each broker leads, by its id."""

    before: dict[int, int]
    after: dict[int, int]

    @property
    def spreads(self) -> tuple[int, int]:
        """The most less the fewest, before and after."""
        return _spread(self.before), _spread(self.after)


def _spread(leads: dict[int, int]) -> int:
    return max(leads.values(), default=0) - min(leads.values(), default=0)


def leader_skew(facts: Facts, partitions: Collection[TopicPartition] | None) -> Skew:
    """What a preferred election of these partitions, or of all, would change.

    A preferred replica that is not in sync cannot be elected.
    """
    rows, starts = facts.rows, facts.starts
    brokers = sorted(facts.snapshot.brokers)
    leaders = rows.leader[starts]
    electable = rows.in_isr[starts] & (rows.position[starts] == 0)
    chosen = np.ones(len(starts), np.bool_)
    if partitions is not None:
        first = [facts.rows_of(*partition) for partition in partitions]
        chosen = np.isin(starts, [span.start for span in first if span])
    after = np.where(electable & chosen, rows.broker[starts], leaders)
    return Skew(*({id: int((found == id).sum()) for id in brokers} for found in (leaders, after)))


def skew_lines(skew: Skew) -> list[str]:
    """The spread in words, then the brokers whose number changes, each with a bar."""
    before, after = skew.spreads
    words = f"Leaders per broker: {_range(skew.before)} before, {_range(skew.after)} after"
    lines = [f"{words}; spread {before} -> {after}."]
    changed = [id for id in skew.before if skew.before[id] != skew.after[id]]
    most = max((*skew.before.values(), *skew.after.values()), default=0)
    wide = len(str(most))
    for id in sorted(changed, key=lambda id: (-abs(skew.after[id] - skew.before[id]), id))[
        :SHOWN_MOST
    ]:
        was, then = skew.before[id], skew.after[id]
        lines.append(
            f"broker {id:<4} {was:>{wide}} {_bar(was, most)} -> {then:>{wide}} {_bar(then, most)}"
        )
    if len(changed) > SHOWN_MOST:
        lines.append(f"and {many(len(changed) - SHOWN_MOST, 'other broker')}")
    if not changed:
        lines.append("Every broker leads the same number as before.")
    return lines


def _range(leads: dict[int, int]) -> str:
    low, high = min(leads.values(), default=0), max(leads.values(), default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _bar(value: int, most: int) -> str:
    """ASCII, so that it can be told on every terminal."""
    return ("#" * round(BAR * value / max(most, 1))).ljust(BAR, ".")
