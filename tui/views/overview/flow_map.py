"""Who feeds whom: a line for each pair of brokers, or a heat map where there are too many pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from kshunt.backend.domain.text.formatting import bytes_text, many, rate_text
from kshunt.tui.facts.brokers.flows import ALL, NOBODY, CopyFlow, Sent
from kshunt.tui.tables.gauges import heat, heat_cell
from kshunt.tui.tables.lines import Line, more_line
from kshunt.tui.tables.model import Cell, RowKey
from kshunt.tui.text.bars import FULL, REST
from kshunt.tui.text.fitting import fit
from kshunt.tui.text.glyphs import Glyphs

PATH_LEAST: Final = 8
PATH_MOST: Final = 60
"""Cells of the line from a broker to another one."""
_RATE, _LEFT, _COPIES = 10, 9, 6
"""Cells of the columns at the right of it."""


class Pair(NamedTuple):
    """Copies from one broker to another."""

    source: int
    target: int
    flow: CopyFlow


def flow_lines(
    flows: Mapping[RowKey, Sent], width: int, height: int, glyphs: Glyphs, more: str
) -> list[Line]:
    """All pairs line by line where they fit, else a heat map, else the heaviest pairs.

    `more` says how to see what does not fit.
    """
    pairs = heaviest(flows)
    if not pairs:
        return [Line((Cell("Nothing is copied.", "dim"),))]
    fits = len(pairs) + 1 <= height
    return (
        _pair_lines(pairs, width, height, glyphs, more)
        if fits
        else (
            _heat_map(flows, width, height, glyphs)
            or _pair_lines(pairs, width, height, glyphs, more)
        )
    )


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
    columns = _RATE + 1 + _LEFT + 1 + _COPIES
    path = min(max(width - 2 * (ids + 1) - 1 - columns, PATH_LEAST), PATH_MOST)
    top = max(_known(pairs[0].flow.rate_bytes_per_s), 1.0)
    head = fit("From", ids + 1 + path, glyphs) + " " + fit("To", ids, glyphs, right=True)
    titles = (("Rate", _RATE), ("Left", _LEFT), ("Copies", _COPIES))
    head += "".join(" " + fit(title, cells, glyphs, right=True) for title, cells in titles)
    shown = pairs if len(pairs) + 1 <= height else pairs[: max(height - 2, 0)]
    lines = [Line((Cell(head, "dim"),))]
    lines += [_pair_line(pair, ids, path, top, glyphs) for pair in shown]
    if len(shown) < len(pairs):
        lines.append(more_line(len(pairs) - len(shown), "pair", more))
    return lines


def _pair_line(pair: Pair, ids: int, path: int, top: float, glyphs: Glyphs) -> Line:
    flow, share = pair.flow, _known(pair.flow.rate_bytes_per_s) / top
    stuck = bool(flow.stuck)
    drawn = round(share * (path - 1)) if share else 0
    drawn = max(drawn, 1) if share else 0
    full, rest = (FULL, REST) if glyphs.spark else ("=", "-")
    source = "none" if pair.source == NOBODY else str(pair.source)
    numbers = fit(rate_text(flow.rate_bytes_per_s), _RATE, glyphs, right=True)
    left = fit(bytes_text(flow.lag_bytes), _LEFT, glyphs, right=True)
    copies = fit(f"{flow.copies:,}", _COPIES, glyphs, right=True)
    cells = [
        Cell(fit(source, ids, glyphs, right=True) + " ", "bad" if pair.source == NOBODY else ""),
        Cell(full * drawn, "bad" if stuck else heat(share)),
        Cell(rest * (path - 1 - drawn), "heat1"),
        Cell(glyphs.flow, "bad" if stuck else heat(share)),
        Cell(" " + fit(str(pair.target), ids, glyphs, right=True)),
        Cell(" " + numbers, "strong" if share else "dim"),
        Cell(f" {left} {copies}", "dim"),
        *([Cell(f" {glyphs.alert} {flow.stuck:,} stuck", "bad")] if stuck else []),
    ]
    return Line(tuple(cells))


def _heat_map(flows: Mapping[RowKey, Sent], width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """A row a broker that sends, a column a broker that receives; empty where they do not fit."""
    sources = [key for key in flows if isinstance(key, int)]
    targets = sorted(flows[ALL].to)
    cell = max(2, *(len(str(target)) for target in targets))
    label, total = max(6, *(len(str(one)) + 1 for one in sources)), _RATE
    if label + len(targets) * (cell + 1) + 1 + total > width or len(sources) + 3 > height:
        return []
    top = max((_known(one.flow.rate_bytes_per_s) for one in heaviest(flows)), default=0.0)
    head = fit("From", label, glyphs)
    head += "".join(fit(str(target), cell, glyphs, right=True) + " " for target in targets)
    lines = [Line((Cell(head + fit("Sends", total + 1, glyphs, right=True), "dim"),))]
    for source in sorted(sources):
        name = "none" if source == NOBODY else str(source)
        cells = [Cell(fit(name, label - 1, glyphs, right=True) + " ")]
        for target in targets:
            flow = flows[source].to.get(target, CopyFlow())
            cells += [_heat(flow, source == target, cell, top, glyphs), Cell(" ")]
        rate = rate_text(flows[source].total.rate_bytes_per_s)
        lines.append(Line((*cells, Cell(fit(rate, total + 1, glyphs, right=True), "strong"))))
    return [*lines, *_legend(flows, label, cell, top, width, height - len(lines), glyphs)]


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


def _legend(
    flows: Mapping[RowKey, Sent],
    label: int,
    cell: int,
    top: float,
    width: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    """What each receives, what the heights mean, and the heaviest pairs."""
    most = max(_known(flow.rate_bytes_per_s) for flow in flows[ALL].to.values()) or 1.0
    gets = [Cell(fit("gets", label - 1, glyphs, right=True) + " ", "dim")]
    for target in sorted(flows[ALL].to):
        share = _known(flows[ALL].to[target].rate_bytes_per_s) / most
        gets += [heat_cell(share, cell, glyphs), Cell(" ")]
    total = rate_text(flows[ALL].total.rate_bytes_per_s)
    found = [Line((*gets, Cell(fit(total, _RATE + 1, glyphs, right=True), "strong")))]
    scale = [Cell("Scale ", "dim")]
    for number in range(1, 6):
        scale += [heat_cell(number / 5, 2, glyphs), Cell(" ")]
    words = f"to {rate_text(top)} for one pair, {many(flows[ALL].total.copies, 'copy', 'copies')}"
    found.append(Line((*scale, Cell(words, "dim"))))
    heavy = [
        f"{one.source} {glyphs.flow} {one.target}  {rate_text(one.flow.rate_bytes_per_s)}"
        for one in heaviest(flows)[:8]
    ]
    if height > len(found) + 1:
        text = "Heaviest  " + "   ".join(heavy)
        found.append(Line((Cell(fit(text, width, glyphs).rstrip(), "dim"),)))
    return found[: max(height, 0)]
