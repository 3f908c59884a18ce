"""Plots in plain characters, for Markdown: they survive a mail, a ticket and a pager."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

WIDTH: Final = 64
HEIGHT: Final = 9
LABEL: Final = 11


def text_plot(
    times_ms: Sequence[int],
    values: Sequence[float],
    label: Callable[[float], str],
    limits: Sequence[float] = (),
) -> list[str]:
    """Values over time, as lines of `#`, from nought up; unknown values leave a gap.

    Args:
        times_ms: ascending, since the epoch.
        values: as many.
        label: how a value is written.
        limits: what each value may be at most, drawn as `-`; NaN where nothing limits it.
    """
    columns = _columns(times_ms, values)
    bounds = _columns(times_ms, limits) if limits else [math.nan] * WIDTH
    top = max((value for value in (*columns, *bounds) if not math.isnan(value)), default=math.nan)
    if math.isnan(top):
        return ["(nothing is known)"]
    top = top or 1.0
    lines = []
    for row in range(HEIGHT, 0, -1):
        text = label(top * row / HEIGHT) if row % 4 == 1 else ""
        cells = zip(columns, bounds, strict=True)
        drawn = "".join(_cell(value, bound, row, top) for value, bound in cells)
        lines.append(f"{text:>{LABEL}} |{drawn}".rstrip())
    lines.append(f"{label(0.0):>{LABEL}} +{'-' * WIDTH}")
    first, last = _clock(times_ms[0]), _clock(times_ms[-1])
    lines.append(" " * (LABEL + 2) + first + last.rjust(WIDTH - len(first)))
    return lines


def _cell(value: float, bound: float, row: int, top: float) -> str:
    if not math.isnan(value) and math.ceil(value / top * HEIGHT) >= row:
        return "#"
    at_bound = not math.isnan(bound) and max(math.ceil(bound / top * HEIGHT), 1) == row
    return "-" if at_bound else " "


def _columns(times_ms: Sequence[int], values: Sequence[float]) -> list[float]:
    """The mean of the values that fall into each column; NaN where none is known.

    Few values are drawn as wide as many; half as many columns as values leave no gaps by chance.
    """
    count = max(min(WIDTH, len(times_ms) // 2), 1)
    span = max(times_ms[-1] - times_ms[0], 1)
    sums, counts = [0.0] * count, [0] * count
    for at_ms, value in zip(times_ms, values, strict=True):
        if not math.isnan(value):
            place = min((at_ms - times_ms[0]) * count // span, count - 1)
            sums[place] += value
            counts[place] += 1
    means = [total / n if n else math.nan for total, n in zip(sums, counts, strict=True)]
    return [means[column * count // WIDTH] for column in range(WIDTH)]


def _clock(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}Z"
