"""What held operations up on each day of a week, and how operations ended, in lines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kshunt.backend.domain.forecast.scoring.kept_forecasts import record_of
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.pipeline.delivered import BottleneckRow, Rows
from kshunt.backend.domain.pipeline.weeks import Week, day_text
from kshunt.backend.domain.text.formatting import duration_text, many
from kshunt.tui.text.bars import bar
from kshunt.tui.text.fitting import printable
from kshunt.tui.text.glyphs import Glyphs

BAR: Final = 10
ALL_MOST: Final = 3

Days = Mapping[int, Rows[BottleneckRow]]
"""What held operations up on a day, by its begin; the longest first."""
Facts = Sequence[tuple[str, str]]


def week_facts(
    week: Week, days: Days, operations: Iterable[Operation], now_ms: int, glyphs: Glyphs
) -> Facts:
    """Label and value of each line."""
    most_s = max((row.seconds for rows in days.values() for row in rows.rows), default=0.0)
    lines = [
        (day_text(day_ms), _day(days.get(day_ms), most_s, glyphs))
        if day_ms <= now_ms
        else (day_text(day_ms), "not yet")
        for day_ms in week.days_ms
    ]
    return [*lines, ("", ""), ("All week", _all(days)), *_ended(week, operations)]


def _day(rows: Rows[BottleneckRow] | None, most_s: float, glyphs: Glyphs) -> str:
    """What held operations up longest on a day, with a bar to compare it with other days."""
    if rows is None or rows.of.newest_ms is None:
        return "no results"
    if not rows.rows:
        return "nothing, or no results"
    first, others = rows.rows[0], len(rows.rows) - 1
    drawn = bar(first.seconds / most_s if most_s else 0.0, BAR, glyphs)
    more = f", {others} more" if others else ""
    return f"{drawn} {duration_text(first.seconds):>6}  {printable(first.bound)}{more}"


def _all(days: Days) -> str:
    if all(rows.of.newest_ms is None for rows in days.values()):
        return "This backend has no results. Start it with kshunt serve --samples DIR."
    sums: Counter[str] = Counter()
    for rows in days.values():
        for row in rows.rows:
            sums[row.bound] += round(row.seconds)
    total_s = sums.total()
    if not total_s:
        return "Nothing held operations up, as far as results are there."
    return ", ".join(
        f"{printable(bound)} {duration_text(seconds)} ({seconds / total_s:.0%})"
        for bound, seconds in sums.most_common(ALL_MOST)
    )


def _ended(week: Week, operations: Iterable[Operation]) -> Facts:
    """How operations ended that are listed, and how often their forecasts were right."""
    ended = [one for one in operations if one.ended_ms is not None and week.has(one.ended_ms)]
    if not ended:
        return [("Operations", "None that is still listed ended in this week.")]
    states = Counter(one.state for one in ended).most_common()
    words = ", ".join(f"{count} {state.words}" for state, count in states)
    record = record_of("", (kept for one in ended for kept in one.forecasts))
    facts = [("Operations", f"{many(len(ended), 'operation')} ended: {words}")]
    if record.counted:
        facts.append(("Forecasts", f"right {record.right} of {record.counted}"))
    return facts


def is_whole(days: Days) -> bool:
    """Whether all results of these days were read."""
    return all(rows.since_ms is None or rows.since_ms <= day for day, rows in days.items())
