"""The moves: how many stand where, a lane for each copy, and how what is left went down.

While nothing moves, the operations that ended last stand there, and what is produced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS, Cause
from kshunt.backend.domain.text.formatting import bytes_text, duration_text, eta_text, rate_text
from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.facts.cockpit.moves import CopyLine, MoveCounts, Moves
from kshunt.tui.facts.cockpit.traffic import Traffic
from kshunt.tui.facts.overview import Overview
from kshunt.tui.facts.transfer_history import SeenTransfer
from kshunt.tui.tables.gauges import curve, gauge, parts_gauge
from kshunt.tui.tables.lines import BLANK, Line, beside, more_line
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.fitting import fit, fit_middle, printable
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.overview.sections import ended_operations
from kshunt.tui.views.overview.traffic_lines import topic_lines

BURNDOWN_FROM: Final = 104
"""Cells from which on there is room for the burndown."""
BURNDOWN: Final = 30
ENDED_MOST: Final = 5
"""Operations that have ended, while nothing moves."""
BURNDOWN_LEAST: Final = 5
"""A lower one tells nothing."""
GAP: Final = 3
NAME_LEAST, NAME_MOST = 16, 60
_NAMES: Final = "Partition"
_BROKERS, _SHARE, _LEFT, _RATE, _ETA = 11, 4, 8, 10, 7
_GAUGE: Final = 20
"""A longer one tells no more."""
_FIXED: Final = _BROKERS + _SHARE + _LEFT + 3
"""Cells of what is always there, with the blanks between."""


def move_lines(
    moves: Moves,
    traffic: Traffic,
    overview: Overview,
    history: Sequence[SeenTransfer],
    width: int,
    height: int,
    glyphs: Glyphs,
    more: str,
) -> list[Line]:
    """Counts, lanes, burndown; `more` says how to see what does not fit."""
    if not moves.copies_all and not moves.counts.queued:
        return _still(overview, traffic, width, height, glyphs, more)
    head = _counts(moves.counts, width, glyphs)
    rest = height - len(head)
    aside = _burndown(history, rest, glyphs) if width >= BURNDOWN_FROM else []
    lanes = width - (BURNDOWN + GAP if aside else 0)
    listed = _lanes(moves, lanes, rest, glyphs, more)
    return [*head, *(beside(listed, aside, lanes, GAP, glyphs) if aside else listed)]


def _still(
    overview: Overview, traffic: Traffic, width: int, height: int, glyphs: Glyphs, more: str
) -> list[Line]:
    """The last operations, and what is produced."""
    ended = ended_operations(overview, width, min(ENDED_MOST, height // 3), glyphs)
    said = "The last operations:" if ended else "No operation is known yet."
    lines = [Line((Cell(f"Nothing moves. {said}", "dim"),)), *ended, BLANK]
    return [*lines, *topic_lines(traffic, width, height - len(lines), glyphs, more)]


# How many stand where


def _counts(counts: MoveCounts, width: int, glyphs: Glyphs) -> list[Line]:
    """Words, and a line on which each state has its share."""
    said = [
        ("queued", counts.queued, ""),
        ("copying", counts.copying, "strong"),
        ("paused", counts.paused, "warn"),
        ("stuck", counts.stuck, "bad"),
        ("done", counts.done, "good"),
    ]
    words: list[Cell] = []
    for name, count, tone in said:
        words.append(Cell(f"{name} ", "dim"))
        words.append(Cell(f"{count:,}", tone if count else "dim"))
        words.append(Cell("   "))
    parts = [
        (counts.done, "good"),
        (counts.copying, "strong"),
        (counts.paused, "warn"),
        (counts.stuck, "bad"),
        (counts.queued, "heat1"),
    ]
    return [Line(tuple(words[:-1])), Line(parts_gauge(parts, width, glyphs))]


# A lane each


class _Room(NamedTuple):
    """Cells of the parts of a lane; 0 for one that is left out."""

    name: int
    gauge: int
    rate: int
    eta: int
    state: int


def _room(copies: Sequence[CopyLine], width: int) -> _Room:
    """The name in full and a long gauge where there is room; else the rate goes first."""
    words = [_state(one)[0] for one in copies]
    state = max((cell_len(word) + 1 for word in words if word), default=0)
    longest = max((cell_len(_name(one)) for one in copies), default=0)
    name = max(min(longest, NAME_MOST), NAME_LEAST)
    gauge_cells = 4
    # Where every copy is held, nobody knows an end.
    eta = 0 if copies and all(map(_held, copies)) else _ETA + 1
    # Short names leave room for the cause in full.
    least = max(min(longest, NAME_LEAST), cell_len(_NAMES))
    forms = ((_RATE + 1, state, name), (0, state, name), (0, state, least), (0, 14, NAME_LEAST))
    for rate, told, needed in forms:
        told = min(told, state)
        left = width - _FIXED - eta - rate - gauge_cells - told
        if left >= needed:
            break
    name = max(min(name, left), min(needed, NAME_LEAST))
    more = min(max(left - name, 0), _GAUGE - gauge_cells)
    return _Room(name, gauge_cells + more, rate, eta, told)


def _lanes(moves: Moves, width: int, height: int, glyphs: Glyphs, more: str) -> list[Line]:
    copies = moves.copies
    fits = moves.copies_all + 1 <= height
    shown = copies[: max(height - 1 if fits else height - 2, 0)]
    room = _room(shown, width)
    lines = [_titles(room, glyphs)]
    lines += [_lane(one, room, glyphs) for one in shown]
    if len(shown) < moves.copies_all:
        count = moves.copies_all - len(shown)
        lines.append(more_line(count, "copy", more, "copies"))
    return lines


def _titles(room: _Room, glyphs: Glyphs) -> Line:
    titles = fit(_NAMES, room.name, glyphs) + " " + fit("from to", _BROKERS, glyphs)
    titles += " " + fit("Copied", room.gauge + _SHARE, glyphs)
    for title, cells in (("Left", _LEFT), ("Rate", room.rate - 1), ("Done in", room.eta - 1)):
        if cells < 0:
            continue
        titles += " " + fit(title, cells, glyphs, right=True)
    return Line((Cell(titles, "dim"),))


def _name(one: CopyLine) -> str:
    return printable(f"{one.key.topic}-{one.key.partition}")


def _lane(one: CopyLine, room: _Room, glyphs: Glyphs) -> Line:
    word, tone = _state(one)
    share = _share(one)
    percent = "?" if math.isnan(share) else f"{min(int(share * 100), 99)}%"
    source = "none" if one.source < 0 else str(one.source)
    way = f"{source:>4} {glyphs.flow} {one.key.broker}"
    numbers = fit(percent, _SHARE, glyphs, right=True)
    numbers += " " + fit(bytes_text(one.lag_bytes), _LEFT, glyphs, right=True)
    if room.rate:
        numbers += " " + fit(rate_text(one.rate_bytes_per_s), room.rate - 1, glyphs, right=True)
    held = _held(one)
    eta = "-" if held else eta_text(one.eta_s, _ETA)
    cells = (
        Cell(fit_middle(_name(one), room.name, glyphs) + " "),
        Cell(fit(way, _BROKERS, glyphs) + " ", "dim"),
        *gauge(share, room.gauge, glyphs, tone or "heat3"),
        Cell(numbers),
        *(
            [Cell(" " + fit(eta, _ETA, glyphs, right=True), "dim" if held else tone)]
            * bool(room.eta)
        ),
        *([Cell(" " + fit(word, room.state - 1, glyphs), tone)] if room.state else []),
    )
    return Line(cells, one.key, ScreenTarget(PARTITIONS, one.key))


def _held(one: CopyLine) -> bool:
    """Whether it stands still, so that nobody knows when it will be done."""
    return one.stuck or one.cause is Cause.PAUSED


def _share(one: CopyLine) -> float:
    if one.size_bytes < 0 or one.lag_bytes < 0:
        return math.nan
    whole = one.size_bytes + one.lag_bytes
    return one.size_bytes / whole if whole else 1.0


def _state(one: CopyLine) -> tuple[str, str]:
    """Why it does not come nearer, and the tone of it; empty where it does."""
    if one.cause is Cause.PAUSED:
        return "paused", "warn"
    if one.stuck:
        return CAUSE_TEXTS[one.cause].short, "bad"
    if math.isinf(one.eta_s):
        return "too slow", "bad"
    return "", ""


# What is left


def _burndown(history: Sequence[SeenTransfer], height: int, glyphs: Glyphs) -> list[Line]:
    """What was left since nothing moved last; nothing where there is no room."""
    moments = _batch(history)
    values = [float(one.point.remaining_bytes) for one in moments]
    if height < BURNDOWN_LEAST or len(values) < 2 or max(values) <= 0:
        return []
    rows, top = curve(values, [], BURNDOWN, height - 2, glyphs)
    span = duration_text((moments[-1].at_ms - moments[0].at_ms) / 1000)
    left = f"{bytes_text(values[-1])} left"
    title = fit(left, BURNDOWN - len(bytes_text(top)) - 4, glyphs) + f"top {bytes_text(top)}"
    return [
        Line((Cell(title, "dim"),)),
        *(Line(row) for row in rows),
        Line((Cell(fit(f"{span} ago", BURNDOWN - 3, glyphs) + "now", "dim"),)),
    ]


def _batch(history: Sequence[SeenTransfer]) -> list[SeenTransfer]:
    """The moments since nothing moved last, as far as it is known what was left."""
    still = [place for place, one in enumerate(history) if not one.point.moving_replicas]
    since = history[still[-1] + 1 :] if still else history
    return [one for one in since if one.point.remaining_bytes >= 0]
