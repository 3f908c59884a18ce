"""The sections of the home screen, each for a width and a number of lines. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from kshunt.backend.domain.audit.past_drift import PastDrift
from kshunt.backend.domain.forecast.end_words import HELD, end_text
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.text.axes import CHANGE_MARKS, Tick, Unit, axis_top, value_ticks
from kshunt.backend.domain.text.formatting import (
    NEVER,
    NOT_AT_THIS_RATE,
    bytes_text,
    duration_text,
    eta_text,
    listed,
    many,
    rate_text,
)
from kshunt.tui.actions.view_names import OPERATIONS, PARTITIONS
from kshunt.tui.facts.done_words import HELD_TEXT, done_cells, joined
from kshunt.tui.facts.moves.bounds import Bound
from kshunt.tui.facts.overview import Home, OperationLine, Overview, Total, WorstReplica, share_text
from kshunt.tui.facts.progress import held
from kshunt.tui.facts.shrink_phases import brief, phase_now, share_of
from kshunt.tui.facts.transfer_history import (
    SeenTransfer,
    evenly,
    permitted,
    rates,
    steady,
    within,
)
from kshunt.tui.tables.gauges import gauge, toned
from kshunt.tui.tables.lines import Line, LinePart, fitted, wrapped
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import Item, ScreenTarget
from kshunt.tui.text.bars import LIMIT_MARKS, area, bar
from kshunt.tui.text.fitting import printable
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.attention import OUT_OF_SYNC
from kshunt.tui.views.operations.table import TONES

WANTED: Final = 1_000
"""The screen asks a section for this many lines, to learn how many lines it could fill."""
PLOT_SPAN_S: Final = 900.0
PLOT_MOST: Final = 16
PLOT_WIDTH_LEAST: Final = 30
LABELLED_FROM: Final = 8
"""Lower plots have room for the value of their top, and for no other."""


class ThrottleCounts(NamedTuple):
    """What the health line says in addition to the snapshot."""

    drift: int | None
    orphans: int | None
    data_age: Cell


# Health


def health(
    overview: Overview, counts: ThrottleCounts, width: int, most: int, glyphs: Glyphs
) -> list[Line]:
    """Sentences, those with something bad in them first; what is fine stays quiet."""
    groups = [
        _brokers(overview),
        _replication(overview),
        _moves(overview),
        _throttles(counts, overview),
    ]
    groups = [_sentence(group) for group in groups if group]
    ranked = sorted(groups, key=lambda group: -max(_RANKS.get(tone, 0) for _, tone in group))
    age = [counts.data_age] if counts.data_age.text else []
    first, last = (age, []) if age and age[0].tone == "bad" else ([], age)
    return wrapped(
        [*first, *(cell for group in ranked for cell in group), *last], width, most, glyphs
    )


_RANKS: Final = {"bad": 2, "warn": 1}


def _sentence(cells: Sequence[Cell]) -> list[Cell]:
    """Commas between, and a full stop."""
    marks = [","] * (len(cells) - 1) + ["."]
    return [Cell(text + mark, tone) for (text, tone), mark in zip(cells, marks, strict=True)]


def _brokers(overview: Overview) -> list[Cell]:
    health = overview.health
    missing = [
        (health.down, "down", "bad"),
        (health.silent, "not answering", "bad"),
    ]
    found = [
        Cell(f"{len(ids)} of {many(health.brokers, 'broker')} {word} ({listed(ids)})", tone)
        for ids, word, tone in missing
        if ids
    ]
    return found or [Cell(f"All {many(health.brokers, 'broker')} up", "dim")]


def _replication(overview: Overview) -> list[Cell]:
    health = overview.health
    offline = Cell(f"{health.leaderless:,} offline", "bad" if health.leaderless else "dim")
    few = Cell(f"{health.under_min_isr:,} under min-ISR", "bad" if health.under_min_isr else "dim")
    if not health.min_isr_known:
        few = Cell("min-ISR ?", "dim")
    under = Cell(health.under_replicated_words, "warn" if health.under_replicated else "dim")
    cells = [under, few, offline]
    return sorted(cells, key=lambda cell: -_RANKS.get(cell.tone, 0))


def _moves(overview: Overview) -> list[Cell]:
    summary = overview.summary
    moving = summary.moving_partitions
    cells = [Cell(f"{moving:,} moving", "" if moving else "dim")]
    if moving or summary.stuck_replicas:
        stuck = summary.stuck_replicas
        cells.append(Cell(f"{stuck:,} stuck", "bad" if stuck else "dim"))
    return sorted(cells, key=lambda cell: -_RANKS.get(cell.tone, 0))


def _throttles(counts: ThrottleCounts, overview: Overview) -> list[Cell]:
    noun = "orphan throttle" if counts.orphans == 1 else "orphan throttles"
    # While moves run, lists name what has arrived already until somebody verifies.
    tone = "" if overview.summary.moving_partitions else "warn"
    return [_count("drift", counts.drift, "warn"), _count(noun, counts.orphans, tone)]


def _count(noun: str, count: int | None, tone: str) -> Cell:
    if count is None:
        return Cell(f"{noun} ?", "dim")
    return Cell(f"{count:,} {noun}", tone if count else "dim")


# Progress


def progress(
    home: Home, width: int, most: int, glyphs: Glyphs, past: PastDrift | None = None
) -> list[Line]:
    """How far everything is: a bar with amounts, then when it will be done and how fast it goes.

    While nothing moves, it says what drifted in the last day.
    """
    overview = home.overview
    assert overview is not None
    if overview.idle:
        drifted = (
            [_drifted(past, overview.now_ms, width, glyphs)] if past and past.throttles else []
        )
        return [_idle(overview), *drifted][:most]
    summary = overview.summary
    cells = done_cells(summary.end, overview.now_ms, glyphs, summary.stuck)
    if home.held:
        cells = [Cell(HELD_TEXT, "warn")]
    bar_line = _bar_line(overview.total, width, glyphs)
    return [bar_line, _end_line(overview, joined(cells), width, glyphs)][:most]


def _idle(overview: Overview) -> Line:
    throttles = "Throttles are set." if overview.throttled else "No throttle is set."
    return Line((Cell("Nothing moves. "), Cell(throttles, "warn" if overview.throttled else "dim")))


def _drifted(past: PastDrift, now_ms: int, width: int, glyphs: Glyphs) -> Line:
    """`2 throttles drifted in the last 24 h, the last one 3h12m ago (op-7).`"""
    said = f"{many(past.throttles, 'throttle')} drifted in the last 24 h"
    if past.newest_ms is not None:
        last = "the last one " if past.throttles > 1 else ""
        said += f", {last}{duration_text(max(now_ms - past.newest_ms, 0) / 1000)} ago"
    names = f" ({listed(past.operations, 2)})" if past.operations else ""
    text = next((text for text in (said + names, said) if len(text) < width), said)
    return Line((Cell(f"{text}.", "warn"),))


def _bar_line(total: Total, width: int, glyphs: Glyphs) -> Line:
    share = share_text(total)
    more = ">" if total.left_unknown else ""
    words = f"{share}, {more}{bytes_text(total.left_bytes)} left"
    if width >= 50 and total.known:
        words = f"{share} of {more}{bytes_text(total.whole_bytes)}"
        words += f", {more}{bytes_text(total.left_bytes)} left"
    if total.waiting and width >= 66:
        words += f", {total.waiting:,} wait"
    drawn = gauge(total.share, min(width - cell_len(words) - 1, 60), glyphs, "strong")
    return Line((*drawn, *([Cell(" ")] if drawn else []), Cell(words)))


_LIMITS: Final = {Bound.NONE: (", no limit",), Bound.UNKNOWN: (", limit ?",)}


def _end_line(overview: Overview, ends: list[Cell], width: int, glyphs: Glyphs) -> Line:
    summary = overview.summary
    speed = rate_text(summary.rate_bytes_per_s)
    bound = overview.permitted_bytes_per_s
    limit = f" of {rate_text(bound)}" if bound is not None else ""
    said = (f"{limit} allowed", limit) if limit else _LIMITS.get(overview.bound, ())
    used = sum(cell_len(cell.text) + 1 for cell in ends)
    if used > width:
        ends = [Cell(text.replace(NOT_AT_THIS_RATE, NEVER), tone) for text, tone in ends]
    speeds = [f"{glyphs.dot} {speed}{form}" for form in (*said, "")]
    fits = next((text for text in speeds if used + cell_len(text) <= width), "")
    return wrapped([*ends, *([Cell(fits)] if fits else [])], width, 1, glyphs)[0]


def plot(
    history: Sequence[SeenTransfer], span_s: float, width: int, most: int, glyphs: Glyphs
) -> list[Line]:
    """What was moved in the last `span_s` seconds, under what was allowed; nothing for 0 s."""
    moments = within(steady(history), span_s)
    values = rates(moments)
    if (
        not span_s
        or width < PLOT_WIDTH_LEAST
        or len(moments) < 2
        or not any(value > 0 for value in values)
    ):
        return []
    if most == WANTED:
        return [Line(())] * PLOT_MOST
    room = max(width - 20, 8)
    columns = room * (2 if glyphs.spark else 1)
    drawn, limits = (evenly(moments, v, columns) for v in (values, permitted(moments)))
    ticks = value_ticks(axis_top(drawn, limits), Unit.BYTES_PER_S, 4)
    top = ticks[-1][0]
    limits = [math.nan if limit > top else limit for limit in limits]
    rows, _ = area([min(value, top) for value in drawn], limits, room, most, glyphs, top)
    changed = _change_columns(moments, room)
    mark, change = LIMIT_MARKS[glyphs.spark], CHANGE_MARKS[glyphs.spark]
    words = _legend(ticks, most, has_limit=not all(map(math.isnan, limits)), glyphs=glyphs)
    if changed and most > 3:
        words[-2] = words[-2] or f"{change} throttles changed"
    words[-1] = f"last {duration_text((moments[-1].at_ms - moments[0].at_ms) / 1000)}"
    return [
        Line(
            (
                *toned(_marked(row, changed, change, mark), 1 - place / len(rows), glyphs),
                Cell(f" {said}", "dim"),
            )
        )
        for place, (row, said) in enumerate(zip(rows, words, strict=True))
    ]


def _legend(ticks: Sequence[Tick], height: int, *, has_limit: bool, glyphs: Glyphs) -> list[str]:
    """What stands at the right of each row: round values, and what the line is."""
    said = ["" for _ in range(height)]
    top = ticks[-1][0]
    for value, text in ticks[1:] if height >= LABELLED_FROM else ticks[-1:]:
        said[min(round((1 - value / top) * height), height - 1)] = text
    free = next((row for row in range(1, height - 1) if not said[row]), None)
    if has_limit and free is not None:
        said[free] = f"{LIMIT_MARKS[glyphs.spark]} allowed"
    return said


def _change_columns(moments: Sequence[SeenTransfer], width: int) -> frozenset[int]:
    """Where rates changed."""
    first, last = moments[0].at_ms, moments[-1].at_ms
    share = [(m.at_ms - first) / max(last - first, 1) for m in moments if m.point.rates_changed]
    return frozenset(round(place * (width - 1)) for place in share)


def _marked(row: str, columns: frozenset[int], mark: str, limit: str) -> str:
    """Marks from top to bottom, behind the line of the limit."""
    return "".join(
        mark if place in columns and cell != limit else cell for place, cell in enumerate(row)
    )


# Operations


def operations(overview: Overview, width: int, most: int, glyphs: Glyphs) -> list[Line]:
    """Those that run, else the last ones that ended."""
    if overview.running:
        now_ms = overview.now_ms
        longest = max(cell_len(one.operation.who or "?") for one in overview.running)
        who = min(longest, 13 if width < 90 else 20)
        lines = [_running(one, now_ms, who, width, glyphs) for one in overview.running]
        return _cut(lines, most, overview.running_more, "operation", ScreenTarget(OPERATIONS))
    return ended_operations(overview, width, min(most, 3), glyphs)


def ended_operations(overview: Overview, width: int, most: int, glyphs: Glyphs) -> list[Line]:
    """Those that have ended, the newest first."""
    return [_ended(one, overview.now_ms, width, glyphs) for one in overview.ended[:most]]


def _cut(
    lines: list[Line], most: int, more: int, noun: str, target: ScreenTarget | None
) -> list[Line]:
    """At most `most` lines; where some are left out, the last of two or more counts the rest.

    `more`: how many there are that `lines` lack.
    """
    if len(lines) <= most and more <= 0:
        return lines
    if most < 2:
        return lines[:most]
    shown = lines[: most - 1]
    left = len(lines) - len(shown) + more
    said = Cell(f"and {many(left, f'more {noun}', f'more {noun}s')}", "dim")
    key = ("more", noun) if target is not None else None
    return [*shown, Line((said,), key, target)]


def _running(one: OperationLine, now_ms: int, who: int, width: int, glyphs: Glyphs) -> Line:
    operation, progress = one.operation, one.progress
    parts = [
        LinePart(Cell(operation.id, "strong"), _id_width(operation)),
        LinePart(Cell(operation.who or "?", "dim"), who, 4),
        LinePart(Cell(operation.state.brief, TONES.get(operation.state, "strong")), 9),
    ]
    if progress is not None:
        total = one.total
        room = 24 if width > 60 else 10
        end = HELD if held(operation) else f"done {end_text(progress.end, now_ms, room - 5)}"
        never = progress.end is not None and progress.end.never > 0
        parts += [
            LinePart(Cell(bar(total.share, 8, glyphs), "strong"), 8, 3),
            LinePart(Cell(share_text(total)), 4, right=True),
            LinePart(Cell(end, "bad" if never else ""), room, 1),
        ]
    history = operation.details.shrink
    if history is not None:
        share, tone = share_of(phase_now(history)), "warn" if history.needs else ""
        words = brief(history)
        if not math.isnan(share):
            parts.append(LinePart(Cell(bar(share, 8, glyphs), "strong"), 8, 3))
        parts.append(LinePart(Cell(words, tone), min(len(words), 40 if width > 60 else 12), 1))
    parts.append(LinePart(Cell(operation.summary, "dim"), 0, 5))
    return _operation_line(operation, parts, width, glyphs)


def _ended(operation: Operation, now_ms: int, width: int, glyphs: Glyphs) -> Line:
    ago = duration_text(max(now_ms - (operation.ended_ms or now_ms), 0) / 1000)
    parts = [
        LinePart(Cell(operation.id, "strong"), _id_width(operation)),
        LinePart(Cell(operation.state.brief, TONES.get(operation.state, "")), 10),
        LinePart(Cell(f"{ago} ago", "dim"), 10, 2),
        LinePart(Cell(operation.who or "?", "dim"), 16, 3),
        LinePart(Cell(operation.summary, "dim"), 0, 4),
    ]
    return _operation_line(operation, parts, width, glyphs)


def _id_width(operation: Operation) -> int:
    return min(max(cell_len(operation.id), 6), 12)


def _operation_line(
    operation: Operation, parts: Sequence[LinePart], width: int, glyphs: Glyphs
) -> Line:
    target = ScreenTarget(OPERATIONS, operation.id)
    return Line(fitted(parts, width, glyphs), ("operation", operation.id), target)


# Replicas


def worst(overview: Overview, width: int, most: int, glyphs: Glyphs) -> list[Line]:
    """Stuck ones first, then the furthest from done."""
    state = max((cell_len(_state_words(one)) for one in overview.worst), default=0)
    state = min(state, 18)
    longest = max((cell_len(_name(one)) for one in overview.worst), default=0)
    # As wide as the longest name, where that leaves room for the rest.
    name = longest if longest + _NUMBERS + state + bool(state) <= width else 0
    lines = [_replica(one, name, state, width, glyphs) for one in overview.worst]
    more = overview.behind - len(lines)
    target = ScreenTarget(
        PARTITIONS, filter_text=OUT_OF_SYNC if not overview.summary.moving_partitions else "-insync"
    )
    return _cut(lines, most, more, "replica", target) if most < 5 else lines[:most]


_NUMBERS: Final = sum((6, 7, 8, 6)) + 4
"""Cells of what stands behind a name, with the blanks between."""


def _name(one: WorstReplica) -> str:
    return printable(f"{one.key.topic}-{one.key.partition}")


def _replica(one: WorstReplica, name: int, state: int, width: int, glyphs: Glyphs) -> Line:
    # A stuck replica never arrives; that it is stuck, or held on purpose, says more.
    eta = {"stuck": "stuck", "paused": "held"}.get(one.status) or eta_text(one.eta_s, 6)
    parts = [
        LinePart(Cell(_name(one)), name, names=True),
        LinePart(Cell(f"on {one.key.broker}"), 6, 1),
        LinePart(Cell(bytes_text(one.lag_bytes, tight=True)), 7, 2, right=True),
        LinePart(Cell(rate_text(one.rate_bytes_per_s, tight=True) + "/s"), 8, 5, right=True),
        LinePart(Cell(eta, one.tone), 6, 4, right=True),
    ]
    if state:
        part = LinePart(Cell(_state_words(one), one.tone or "dim"), 0 if name else state, 3)
        parts.append(part)
    return Line(fitted(parts, width, glyphs), one.key, ScreenTarget(PARTITIONS, one.key))


def _state_words(one: WorstReplica) -> str:
    """Why it does not come nearer, or how it is; that it is behind goes without saying."""
    quiet = one.status == "behind" and math.isfinite(one.eta_s)
    return one.cause or ("" if quiet else one.status)


# What needs attention


def items(found: Sequence[Item], width: int, most: int, glyphs: Glyphs) -> list[Line]:
    """One line for each thing, with the keys that lead to it and repair it."""
    if not found:
        return [Line((Cell("Nothing needs attention.", "dim"),))][:most]
    return _cut([_item(one, width, glyphs) for one in found], most, 0, "thing", None)


def _item(item: Item, width: int, glyphs: Glyphs) -> Line:
    keys = item.target.keys if item.target is not None else ""
    parts = [
        LinePart(Cell(glyphs.alert, item.tone or "dim"), 1),
        LinePart(Cell(item.text, item.tone), 0),
        LinePart(Cell(keys, "strong"), 3, 1, right=True),
    ]
    return Line(fitted(parts, width, glyphs), ("item", item.key), item.target)
