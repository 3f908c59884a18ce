"""Brokers as tiles where there is room for all, else a line each; what does not fit is counted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from rich.cells import cell_len

from kshunt.backend.domain.text.formatting import bytes_text, rate_text, terse_rate_text
from kshunt.tui.facts.brokers.disks import disk_tone, peak_tone
from kshunt.tui.facts.brokers.row import BrokerRow
from kshunt.tui.facts.cockpit.traffic import BrokerTraffic
from kshunt.tui.tables.gauges import gauge
from kshunt.tui.tables.lines import BLANK, Line, more_line, padded
from kshunt.tui.tables.model import Cell
from kshunt.tui.text.fitting import fit
from kshunt.tui.text.glyphs import Glyphs

TILE_WIDTH: Final = 36
TILE_MOST: Final = 52
TILE_LINES: Final = 4
TALL_LINES: Final = 6
TILE_LABEL: Final = 5
"""Cells at the left of a tile's lines."""
LOW_LINES: Final = 2
LINE_WIDTH: Final = 42
"""The least cells of a broker that has a line alone."""
GAP: Final = 3


@dataclass(frozen=True, slots=True)
class Scale:
    """What is said of brokers, and the most of each, so that what is compared looks alike."""

    traffic: Mapping[int, BrokerTraffic]
    moving: bool
    """What copies need is shown, in place of what is produced."""
    produced_most: float
    leaders_most: int
    ids: int
    """Cells of the longest id."""
    rate_most: float
    """The highest rate of copies to or from one of them, where no throttle is a measure."""


def tile_lines(
    rows: Sequence[BrokerRow],
    traffic: Sequence[BrokerTraffic],
    width: int,
    height: int,
    glyphs: Glyphs,
    more: str,
) -> list[Line]:
    """The brokers, by id; `more` says how to see those that do not fit."""
    if not rows:
        return [Line((Cell("No broker is known.", "dim"),))]
    scale = _scale(rows, traffic)
    forms = [(_tile, TILE_LINES), (_low_tile, LOW_LINES)]
    if scale.moving:
        forms.insert(0, (_tall_tile, TALL_LINES))
    for tile, lines in forms:
        columns = min(max((width + GAP) // (TILE_WIDTH + GAP), 1), len(rows))
        tall = math.ceil(len(rows) / columns)
        gap = int(tall * (lines + 1) - 1 <= height)
        # A low tile is told from the next one without a blank line, too.
        if gap or (lines == LOW_LINES and tall * lines <= height):
            cells = min((width - GAP * (columns - 1)) // columns, TILE_MOST)
            tiles = [tile(row, scale, cells, glyphs) for row in rows]
            return _grid(tiles, columns, gap)
    return _line_form(rows, scale, width, height, glyphs, more)


def _scale(rows: Sequence[BrokerRow], traffic: Sequence[BrokerTraffic]) -> Scale:
    rates = [rate for row in rows for rate in (row.rate_in_bytes_per_s, row.rate_out_bytes_per_s)]
    return Scale(
        {one.id: one for one in traffic},
        any(row.moving_in or row.moving_out for row in rows),
        max((_known(one.rate_bytes_per_s) for one in traffic), default=0.0),
        max((row.leaders for row in rows), default=0),
        max(len(str(row.id)) for row in rows),
        max(map(_known, rates), default=0.0),
    )


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _grid(tiles: Sequence[list[tuple[Cell, ...]]], columns: int, gap: int) -> list[Line]:
    """Tiles side by side, with `gap` blank lines between those one below the other."""
    lines: list[Line] = []
    for first in range(0, len(tiles), columns):
        together = tiles[first : first + columns]
        lines += [BLANK] * gap if lines else []
        for parts in zip(*together, strict=True):
            spans = [cell for part in parts for cell in (*part, Cell(" " * GAP))]
            lines.append(Line(tuple(spans[:-1])))
    return lines


# A tile


def _tall_tile(row: BrokerRow, scale: Scale, width: int, glyphs: Glyphs) -> list[tuple[Cell, ...]]:
    """What a tile says while something moves, and what it says while nothing does."""
    _, *lines = _tile(row, scale, width, glyphs)
    head, room = (_name(row, TILE_LABEL), *_state(row)), _gauge_room(width)
    more: list[tuple[Cell, ...]] = [(), ()]
    if row.state == "up":
        more = [
            _measure("write", *_produced(row, scale), room, glyphs),
            _measure("leads", *_leads(row, scale), room, glyphs),
        ]
    padding = (padded(line, width, glyphs) for line in (head, *lines, *more))
    return list(padding)


def _tile(row: BrokerRow, scale: Scale, width: int, glyphs: Glyphs) -> list[tuple[Cell, ...]]:
    """Four lines of one width."""
    first = [_name(row, scale.ids), *_state(row)]
    if row.state != "up":
        reason = wrap(row.reason, max(width - 6, 8))[: TILE_LINES - 1]
        told = [[Cell(" " * (scale.ids + 1)), Cell(text, "dim")] for text in reason]
        lines = [first, *told, *[[] for _ in range(TILE_LINES - 1 - len(told))]]
        return [padded(line, width, glyphs) for line in lines]
    led = _led(row) if scale.moving else Cell("")
    used = sum(cell_len(cell.text) for cell in first)
    first.append(Cell(" " * max(width - used - cell_len(led.text), 1)))
    drawn = ((*first, led), *_measures(row, scale, width, glyphs))
    return [padded(line, width, glyphs) for line in drawn]


def _name(row: BrokerRow, cells: int) -> Cell:
    return Cell(f"{row.id:>{cells}} ", "bad" if row.state == "down" else "strong")


def _state(row: BrokerRow) -> list[Cell]:
    """Only what is not as it should be, and which one is the controller."""
    if row.state != "up":
        return [Cell(row.state, "bad" if row.state == "down" else "warn")]
    return [Cell("controller", "dim")] if row.controller else []


def _led(row: BrokerRow) -> Cell:
    """Leaders, and for how many it is preferred where those are not the same."""
    both = f"/{row.preferred:,}" if row.preferred != row.leaders else ""
    return Cell(f"leads {row.leaders:,}{both}", "dim")


def _measures(row: BrokerRow, scale: Scale, width: int, glyphs: Glyphs) -> list[tuple[Cell, ...]]:
    room = max(width - 6 - 19, 6)
    if scale.moving:
        return [
            _measure("in", *_copied(row, False, scale), room, glyphs),
            _measure("out", *_copied(row, True, scale), room, glyphs),
            _measure("disk", *_disk(row), room, glyphs),
        ]
    return [
        _measure("write", *_produced(row, scale), room, glyphs),
        _measure("leads", *_leads(row, scale), room, glyphs),
        _measure("disk", *_disk(row), room, glyphs),
    ]


def _gauge_room(width: int) -> int:
    """Cells of a gauge: what a label and the longest words leave."""
    return max(width - TILE_LABEL - 1 - 19, 6)


def _measure(
    name: str, share: float, words: str, tone: str, room: int, glyphs: Glyphs
) -> tuple[Cell, ...]:
    quiet = tone or ("" if share > 0 else "dim")
    return (
        Cell(f"{name:>5} ", "dim"),
        *gauge(share, room, glyphs, tone),
        Cell(f" {words}", quiet),
    )


def _copied(row: BrokerRow, leader: bool, scale: Scale) -> tuple[float, str, str]:
    """Share of the throttle or of the fastest broker, words, tone."""
    rate = row.rate_out_bytes_per_s if leader else row.rate_in_bytes_per_s
    moving = row.moving_out if leader else row.moving_in
    if not moving:
        return 0.0, "-", ""
    share, limit = row.used_share(leader), row.limit(leader)
    if share is None or limit is None:
        share = _known(rate) / scale.rate_most if scale.rate_most else 0.0
        return share, rate_text(rate), ""
    return min(share, 1.0), f"{rate_text(rate, tight=True)} of {rate_text(limit, tight=True)}/s", ""


def _disk(row: BrokerRow) -> tuple[float, str, str]:
    disk = row.disk
    if disk.share is None:
        return 0.0, "? full", "warn" if row.offline_dirs else ""
    tone = "bad" if row.offline_dirs else disk_tone(disk.share)
    words = f"{disk.share:.0%}"
    if disk.receives and disk.peak_share is not None and disk.peak_share > disk.share:
        words += f", peak {disk.peak_share:.0%}"
        tone = peak_tone(disk.peak_share) or tone
    else:
        words += f" of {bytes_text(disk.total_bytes)}"
    return disk.share, words, tone


def _produced(row: BrokerRow, scale: Scale) -> tuple[float, str, str]:
    one = scale.traffic.get(row.id)
    rate = math.nan if one is None else one.rate_bytes_per_s
    return _known(rate) / scale.produced_most if scale.produced_most else 0.0, rate_text(rate), ""


def _leads(row: BrokerRow, scale: Scale) -> tuple[float, str, str]:
    share = row.leaders / scale.leaders_most if scale.leaders_most else 0.0
    wanted = f", preferred {row.preferred:,}" if row.preferred != row.leaders else ""
    return share, f"{row.leaders:,}{wanted}", ""


# A low tile


def _low_tile(row: BrokerRow, scale: Scale, width: int, glyphs: Glyphs) -> list[tuple[Cell, ...]]:
    """Two lines of one width: what comes and the disk, what goes and the leaders."""
    label = max(map(len, _low_names(scale))) + 1
    room = max(width - scale.ids - label - _LOW_WORDS, 4)
    if row.state != "up":
        reason = Cell(fit(row.reason, max(width - scale.ids - 1, 1), glyphs), "dim")
        lines = [[_name(row, scale.ids), *_state(row)], [Cell(" " * (scale.ids + 1)), reason]]
        return [padded(line, width, glyphs) for line in lines]
    tone = _disk(row)[2]
    percent = "?" if row.disk.share is None else f"{row.disk.share:.0%}"
    (one, first), (two, second) = _pair(row, scale)
    names = [f"{name:<{label}}" for name in _low_names(scale)]
    lines = [
        [
            _name(row, scale.ids),
            *_low(names[0], one, first, room, glyphs),
            Cell(f" disk{percent:>4}", tone),
        ],
        [
            Cell(" " * (scale.ids + 1)),
            *_low(names[1], two, second, room, glyphs),
            Cell(f" led{row.leaders:>5,}" if scale.moving else "", "dim"),
        ],
    ]
    return [padded(line, width, glyphs) for line in lines]


_LOW_WORDS: Final = 1 + 1 + 9 + 9
"""Cells of everything but the id, the label and the gauge."""


def _low_names(scale: Scale) -> tuple[str, str]:
    return ("in", "out") if scale.moving else ("write", "leads")


def _low(name: str, share: float, words: str, room: int, glyphs: Glyphs) -> tuple[Cell, ...]:
    tone = "dim" if words == "-" else ""
    return (Cell(name, "dim"), *gauge(share, room, glyphs), Cell(f" {words:<9}", tone))


def _pair(row: BrokerRow, scale: Scale) -> tuple[tuple[float, str], tuple[float, str]]:
    """Shares and terse words: of copies in and out, else of what is produced and led."""
    if scale.moving:
        return (
            (_copied(row, False, scale)[0], _terse(row, False)),
            (_copied(row, True, scale)[0], _terse(row, True)),
        )
    produced, leads = _produced(row, scale), _leads(row, scale)
    rate = scale.traffic[row.id].rate_bytes_per_s if row.id in scale.traffic else math.nan
    return (produced[0], terse_rate_text(rate)), (leads[0], f"{row.leaders:,}")


def _terse(row: BrokerRow, leader: bool) -> str:
    """`13M/38M`: what is copied, and the throttle."""
    if not (row.moving_out if leader else row.moving_in):
        return "-"
    rate, limit = row.rate_out_bytes_per_s if leader else row.rate_in_bytes_per_s, row.limit(leader)
    words = terse_rate_text(rate)
    return words if limit is None else f"{words}/{terse_rate_text(limit)}"


# A line


def _line_form(
    rows: Sequence[BrokerRow], scale: Scale, width: int, height: int, glyphs: Glyphs, more: str
) -> list[Line]:
    columns = max((width + GAP) // (LINE_WIDTH + GAP), 1)
    tiles = min((width - GAP * (columns - 1)) // columns, 80)
    lines = height - 1
    if len(rows) > columns * lines:
        lines -= 1
    shown = _chosen(rows, max(columns * lines, 0))
    per_column = math.ceil(len(shown) / columns) if shown else 0
    head = padded([Cell(_titles(scale, tiles, glyphs), "dim")], tiles, glyphs)
    found = [_joined([head] * min(columns, math.ceil(len(shown) / max(per_column, 1))))]
    drawn = [padded(_one_line(row, scale, tiles, glyphs), tiles, glyphs) for row in shown]
    found += [_joined(drawn[place::per_column]) for place in range(per_column)]
    if len(shown) < len(rows):
        found.append(more_line(len(rows) - len(shown), "broker", more))
    return found


def _chosen(rows: Sequence[BrokerRow], most: int) -> list[BrokerRow]:
    """Those in trouble and those that do most, by id."""
    if len(rows) <= most:
        return list(rows)

    def rank(row: BrokerRow) -> tuple[bool, float]:
        return row.state == "up", -_known(row.rate_in_bytes_per_s) - _known(
            row.rate_out_bytes_per_s
        )

    return sorted(sorted(rows, key=rank)[:most], key=lambda row: row.id)


def _joined(parts: Sequence[tuple[Cell, ...]]) -> Line:
    spans = [cell for part in parts for cell in (*part, Cell(" " * GAP))]
    return Line(tuple(spans[:-1]))


_LINE_WORDS: Final = 1 + 2 * (1 + 5 + 1) + 1 + 4 + 5
"""Cells of everything but the id and the three gauges of a line."""


def _titles(scale: Scale, width: int, glyphs: Glyphs) -> str:
    room = max((width - scale.ids - _LINE_WORDS) // 3, 3)
    first, second = (fit(name, room + 6, glyphs) for name in _low_names(scale))
    last = "leads" if scale.moving else ""
    return f"{'':{scale.ids + 1}}{first} {second} {fit('disk', room + 5, glyphs)}{last}"


def _one_line(row: BrokerRow, scale: Scale, width: int, glyphs: Glyphs) -> list[Cell]:
    room = max((width - scale.ids - _LINE_WORDS) // 3, 3)
    if row.state != "up":
        state = _state(row)
        fits = 8 + len(row.state) + cell_len(row.reason) <= width
        return [_name(row, scale.ids), *state, *([Cell(f"  {row.reason}", "dim")] if fits else [])]
    cells = [_name(row, scale.ids)]
    for share, said in _pair(row, scale):
        # How long the gauge is says what part of the throttle it is.
        words = said.partition("/")[0]
        tone = "dim" if words == "-" else ""
        cells += [*_short_gauge(share, room, glyphs), Cell(f" {words:<5} ", tone)]
    share, _, tone = _disk(row)
    percent = "?" if row.disk.share is None else f"{row.disk.share:.0%}"
    cells += [*_short_gauge(share, room, glyphs, tone), Cell(f" {percent:<4}", tone)]
    return [*cells, Cell(f"{row.leaders:>5,}", "dim")] if scale.moving else cells


def _short_gauge(share: float, width: int, glyphs: Glyphs, tone: str = "") -> tuple[Cell, ...]:
    return gauge(share, width, glyphs, tone) or (Cell(" " * width),)
