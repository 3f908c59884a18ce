"""Who feeds whom: a line for each pair of brokers, or a heat map where there are too many pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from rich.cells import cell_len

from kshunt.backend.domain.text.formatting import bytes_text, rate_text
from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.facts.brokers.flows import ALL, NOBODY, CopyFlow, Sent
from kshunt.tui.facts.cockpit.moves import Moves, TopicCopies
from kshunt.tui.tables.gauges import gauge, heat, heat_cell
from kshunt.tui.tables.lines import BLANK, Line, beside, more_line
from kshunt.tui.tables.model import Cell, RowKey
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.bars import FULL, REST
from kshunt.tui.text.fitting import fit, fit_middle, join_fitting, printable
from kshunt.tui.text.glyphs import Glyphs

PATH_LEAST: Final = 8
PATH_MOST: Final = 60
"""Cells of the line from a broker to another one."""
ROWS_LEAST: Final = 12
"""Lines from which on a heat map says more than the heaviest pairs do."""
GAP: Final = 4
TOPICS_LEAST: Final = 4
"""Lines below the pairs from which on topics stand there."""
PAIRS_FROM: Final = 50
"""Cells at the right of a heat map from which on the heaviest pairs stand there."""
MORE: Final = "brokers that send"
_RATE, _LEFT, _COPIES = 10, 8, 6
"""Cells of the columns at the right of it."""


class Pair(NamedTuple):
    """Copies from one broker to another."""

    source: int
    target: int
    flow: CopyFlow


def flow_lines(
    flows: Mapping[RowKey, Sent],
    width: int,
    height: int,
    glyphs: Glyphs,
    more: str,
    moves: Moves | None = None,
) -> list[Line]:
    """All pairs line by line where they fit, else a heat map and the heaviest pairs.

    `more` says how to see what does not fit. Where few pairs leave room, the topics that move
    stand below them.
    """
    pairs = heaviest(flows)
    if not pairs:
        return [Line((Cell("Nothing is copied.", "dim"),))]
    if len(pairs) + 1 <= height:
        lines = _pair_lines(pairs, width, height, glyphs, more)
        room = height - len(lines) - 1
        if moves is None or room < TOPICS_LEAST:
            return lines
        return [*lines, BLANK, *_topic_lines(moves, width, room, glyphs, more)]
    found = _map_within(flows, width)
    if found is None or height < ROWS_LEAST:
        return _pair_lines(pairs, width, height, glyphs, more)
    room = width - found.width - GAP
    if room < PAIRS_FROM:
        return _heat_map(found, width, height, glyphs, more)
    left = _heat_map(found, found.width, height, glyphs, more)
    right = _pair_lines(pairs, room, height, glyphs, more)
    return beside(left, right, found.width, GAP, glyphs)


def _topic_lines(moves: Moves, width: int, height: int, glyphs: Glyphs, more: str) -> list[Line]:
    """The topics of which something is copied, the one that lacks most first."""
    fits = moves.topics_all + 1 <= height
    shown = moves.topics[: height - 1 if fits else height - 2]
    longest = max((cell_len(printable(one.topic)) for one in shown), default=0)
    titles = (("Rate", _RATE), ("Left", _LEFT), ("Copies", _COPIES))
    numbers = sum(cells + 1 for _, cells in titles)
    name = max(min(longest, width - numbers - PATH_LEAST - 1), PATH_LEAST)
    path = min(max(width - numbers - name - 1, 0), PATH_MOST)
    head = fit("Topic", name + 1 + path, glyphs)
    head += "".join(" " + fit(title, cells, glyphs, right=True) for title, cells in titles)
    lines = [Line((Cell(head, "dim"),))]
    top = max((one.lag_bytes for one in shown), default=0)
    lines += [_topic_line(one, name, path, top, glyphs) for one in shown]
    if len(shown) < moves.topics_all:
        lines.append(more_line(moves.topics_all - len(shown), "topic", more))
    return lines


def _topic_line(one: TopicCopies, name: int, path: int, top: int, glyphs: Glyphs) -> Line:
    rate = fit(rate_text(one.rate_bytes_per_s), _RATE, glyphs, right=True)
    left = fit(bytes_text(one.lag_bytes), _LEFT, glyphs, right=True)
    cells = (
        Cell(fit_middle(printable(one.topic), name, glyphs) + " "),
        *(gauge(one.lag_bytes / top if top else 0.0, path, glyphs) or (Cell(" " * path),)),
        Cell(f" {rate} {left}"),
        Cell(" " + fit(f"{one.copies:,}", _COPIES, glyphs, right=True), "dim"),
    )
    target = ScreenTarget(PARTITIONS, filter_text=f"topic:{one.topic} moving")
    return Line(cells, ("topic", one.topic), target)


def heaviest(flows: Mapping[RowKey, Sent]) -> list[Pair]:
    """Every pair, the one with the highest rate first."""
    pairs = [
        Pair(int(source), target, flow)
        for source, sent in flows.items()
        if isinstance(source, int)
        for target, flow in sent.to.items()
    ]
    return sorted(pairs, key=lambda pair: (-_known(pair.flow.rate_bytes_per_s), pair[:2]))


def _known(rate: float) -> float:
    return 0.0 if math.isnan(rate) else rate


def _id_width(flows: list[Pair]) -> int:
    return max(4, *(len(str(max(pair.source, pair.target))) for pair in flows))


def _pair_lines(
    pairs: list[Pair], width: int, height: int, glyphs: Glyphs, more: str
) -> list[Line]:
    ids = _id_width(pairs)
    titles = [("Rate", _RATE), ("Left", _LEFT), ("Copies", _COPIES)]
    path = _path(width, ids, titles)
    while path < PATH_LEAST and len(titles) > 1:
        titles.pop()
        path = _path(width, ids, titles)
    path = min(max(path, 2), PATH_MOST)
    top = max(_known(pairs[0].flow.rate_bytes_per_s), 1.0)
    head = fit("From", ids + 1 + path, glyphs) + " " + fit("To", ids, glyphs, right=True)
    head += "".join(" " + fit(title, cells, glyphs, right=True) for title, cells in titles)
    shown = pairs if len(pairs) + 1 <= height else pairs[: max(height - 2, 0)]
    lines = [Line((Cell(head, "dim"),))]
    lines += [_pair_line(pair, ids, path, top, len(titles), glyphs) for pair in shown]
    if len(shown) < len(pairs):
        lines.append(more_line(len(pairs) - len(shown), "pair", more))
    return lines


def _path(width: int, ids: int, titles: list[tuple[str, int]]) -> int:
    """Cells that are left for the line from one broker to the other."""
    return width - 2 * (ids + 1) - sum(cells + 1 for _, cells in titles)


def _pair_line(pair: Pair, ids: int, path: int, top: float, columns: int, glyphs: Glyphs) -> Line:
    flow, share = pair.flow, _known(pair.flow.rate_bytes_per_s) / top
    stuck = bool(flow.stuck)
    drawn = round(share * (path - 1)) if share else 0
    drawn = max(drawn, 1) if share else 0
    full, rest = (FULL, REST) if glyphs.spark else ("=", "-")
    source = "none" if pair.source == NOBODY else str(pair.source)
    numbers = fit(rate_text(flow.rate_bytes_per_s), _RATE, glyphs, right=True)
    left = " " + fit(bytes_text(flow.lag_bytes), _LEFT, glyphs, right=True)
    copies = " " + fit(f"{flow.copies:,}", _COPIES, glyphs, right=True)
    others = "".join((left, copies)[: columns - 1])
    cells = [
        Cell(fit(source, ids, glyphs, right=True) + " ", "bad" if pair.source == NOBODY else ""),
        Cell(full * drawn, "bad" if stuck else heat(share)),
        Cell(rest * (path - 1 - drawn), "heat1"),
        Cell(glyphs.flow, "bad" if stuck else heat(share)),
        Cell(" " + fit(str(pair.target), ids, glyphs, right=True)),
        Cell(" " + numbers, "" if share else "dim"),
        Cell(others, "dim"),
        *([Cell(f" {glyphs.alert} {flow.stuck:,} stuck", "bad")] if stuck else []),
    ]
    return Line(tuple(cells))


class _Map(NamedTuple):
    """A heat map that fits."""

    flows: Mapping[RowKey, Sent]
    sources: list[int]
    """In the order of their ids; some may have no place."""
    targets: list[int]
    label: int
    """Cells of a broker's id at the left."""
    cell: int
    """Cells of a pair, a blank after it left out."""
    top: float
    """The highest rate of a pair."""

    @property
    def width(self) -> int:
        """Cells of a line."""
        return self.label + len(self.targets) * (self.cell + 1) + _RATE


def _heat_map(found: _Map, width: int, height: int, glyphs: Glyphs, more: str) -> list[Line]:
    """A row a broker that sends, a column a broker that receives."""
    heads = _map_heads(found, glyphs)
    room = height - len(heads) - 1
    rows = found.sources
    if len(rows) > room:
        # Those that send most, where they would stand.
        rates = {one: _known(found.flows[one].total.rate_bytes_per_s) for one in rows}
        rows = sorted(sorted(rows, key=lambda one: -rates[one])[: room - 1])
    lines = [*heads, *(_map_row(found, one, glyphs) for one in rows), _map_sums(found, glyphs)]
    if len(rows) < len(found.sources):
        return [*lines, more_line(len(found.sources) - len(rows), "broker that sends", more, MORE)]
    return [*lines, *_legend(found, width, height - len(lines), glyphs)]


def _map_within(flows: Mapping[RowKey, Sent], width: int) -> _Map | None:
    """With cells as wide as ids where they fit, else as narrow as can be."""
    sources = sorted(key for key in flows if isinstance(key, int))
    targets = sorted(flows[ALL].to)
    top = max((_known(one.flow.rate_bytes_per_s) for one in heaviest(flows)), default=0.0)
    label = max(5, *(len(str(one)) + 1 for one in sources))
    digits = max(len(str(target)) for target in targets)
    maps = [_Map(flows, sources, targets, label, cell, top) for cell in (max(digits, 2), 1)]
    return next((one for one in maps if one.width <= width), None)


def _map_heads(found: _Map, glyphs: Glyphs) -> list[Line]:
    """The ids of the brokers that receive, digit below digit where cells are narrow."""
    names = [str(target) for target in found.targets]
    sends = fit("sends", _RATE, glyphs, right=True)
    digits = max(map(len, names))
    if found.cell >= digits:
        head = "".join(fit(name, found.cell, glyphs, right=True) + " " for name in names)
        return [Line((Cell(fit("From", found.label, glyphs) + head + sends, "dim"),))]
    rows = ["".join(name.rjust(digits)[place] + " " for name in names) for place in range(digits)]
    lines = [" " * found.label + row for row in rows[:-1]]
    lines.append(fit("From", found.label, glyphs) + rows[-1] + sends)
    return [Line((Cell(line, "dim"),)) for line in lines]


def _map_row(found: _Map, source: int, glyphs: Glyphs) -> Line:
    name = "none" if source == NOBODY else str(source)
    cells = [Cell(fit(name, found.label - 1, glyphs, right=True) + " ")]
    sent = found.flows[source]
    for target in found.targets:
        flow = sent.to.get(target, CopyFlow())
        cells += [_heat(flow, source == target, found.cell, found.top, glyphs), Cell(" ")]
    rate = rate_text(sent.total.rate_bytes_per_s)
    return Line((*cells, Cell(fit(rate, _RATE, glyphs, right=True))))


def _heat(flow: CopyFlow, same: bool, width: int, top: float, glyphs: Glyphs) -> Cell:
    if not flow.copies:
        sign = " " if same else glyphs.dot if glyphs.spark else "."
        return Cell(fit(sign, width, glyphs, right=True), "heat1")
    if flow.stuck:
        return Cell(glyphs.alert * width, "bad")
    rate = _known(flow.rate_bytes_per_s)
    if not rate or not top:
        return Cell(fit("0", width, glyphs, right=True), "dim")
    return heat_cell(rate / top, width, glyphs)


def _map_sums(found: _Map, glyphs: Glyphs) -> Line:
    """What each receives, as a share of the one that receives most."""
    to = found.flows[ALL].to
    most = max(_known(flow.rate_bytes_per_s) for flow in to.values()) or 1.0
    cells = [Cell(fit("gets", found.label - 1, glyphs, right=True) + " ", "dim")]
    for target in found.targets:
        share = _known(to[target].rate_bytes_per_s) / most
        cells += [heat_cell(share, found.cell, glyphs), Cell(" ")]
    total = rate_text(found.flows[ALL].total.rate_bytes_per_s)
    return Line((*cells, Cell(fit(total, _RATE, glyphs, right=True), "strong")))


def _legend(found: _Map, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """What the heights mean, and the heaviest pairs, as far as there is room."""
    scale = [Cell(fit("", found.label, glyphs))]
    for number in range(1, 6):
        scale += [heat_cell(number / 5, 1, glyphs), Cell(" ")]
    words = f"to {rate_text(found.top)} for a pair; rows send, columns receive"
    scale.append(Cell(words, "dim"))
    lines = [BLANK, Line(tuple(scale))] if height > 1 else [Line(tuple(scale))]
    if height > 3:
        heavy = [
            f"{one.source} {glyphs.flow} {one.target} {rate_text(one.flow.rate_bytes_per_s)}"
            for one in heaviest(found.flows)[:8]
        ]
        words = join_fitting(heavy, width - found.label, "   ")
        lines.append(Line((Cell(fit("Most", found.label, glyphs), "dim"), Cell(words))))
    return lines[: max(height, 0)]
