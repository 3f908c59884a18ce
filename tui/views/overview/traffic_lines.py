"""What is produced while nothing moves, and how evenly the brokers share it."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from rich.cells import cell_len

from kshunt.backend.domain.text.formatting import bytes_text, duration_text, many, rate_text
from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.facts.brokers.disks import disk_tone
from kshunt.tui.facts.brokers.row import BrokerRow
from kshunt.tui.facts.cockpit.traffic import TopicTraffic, Traffic
from kshunt.tui.facts.health import Health
from kshunt.tui.tables.gauges import curve, gauge
from kshunt.tui.tables.lines import BLANK, Line, labelled, more_line, wrapped
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.fitting import fit, fit_middle, printable
from kshunt.tui.text.glyphs import Glyphs

LABEL_WIDTH: Final = 13
_NAME_LEAST: Final = 12
_RATE, _SIZE = 10, 9
_DISKS: Final = 3
"""How many of the fullest disks the line names."""
COURSE_LEAST, COURSE_MOST = 3, 10
"""Lines of the course of what is produced."""
_UNEVEN: Final = 1.5
"""More than this, in times the mean, is worth a look."""


def traffic_lines(
    traffic: Traffic,
    health: Health,
    brokers: tuple[BrokerRow, ...],
    width: int,
    height: int,
    glyphs: Glyphs,
    label_width: int = LABEL_WIDTH,
) -> list[Line]:
    """Sums and skew, then how the rate went; without labels where they have no width."""
    said = [
        ("Produced", [Cell(_produced(traffic))]),
        *_skews(traffic),
        *_disks(brokers),
        ("In sync", _replication(health)),
    ]
    room = max(width - label_width, 12)
    facts: list[Line] = []
    for label, cells in said:
        most = min(height - len(facts), 2)
        if most > 0:
            lines = wrapped(cells, room, most, glyphs)
            facts += labelled(label, lines, label_width) if label_width else lines
    return [*facts, *_course(traffic, width, height - len(facts), glyphs)][:height]


def _course(traffic: Traffic, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """What was produced, from when the overview had room for it until now."""
    values = [rate for _, rate in traffic.course]
    if height < COURSE_LEAST + 2 or len(values) < 2 or not any(value > 0 for value in values):
        return []
    room = max(width - _RATE - 1, 8)
    rows, top = curve(values, [], room, min(height - 2, COURSE_MOST), glyphs)
    said = [""] * len(rows)
    said[0], said[-1] = rate_text(top), "0 B/s"
    span = duration_text((traffic.course[-1][0] - traffic.course[0][0]) / 1000)
    return [
        BLANK,
        *(
            Line((*row, Cell(" " + fit(words, _RATE, glyphs, right=True), "dim")))
            for row, words in zip(rows, said, strict=True)
        ),
        Line((Cell(fit(f"{span} ago", room - 3, glyphs) + "now", "dim"),)),
    ]


def topic_lines(traffic: Traffic, width: int, height: int, glyphs: Glyphs, more: str) -> list[Line]:
    """The topics that are written to most; `more` says how to see the rest."""
    return _listed(traffic, width, height, glyphs, more) if traffic.topics and height > 1 else []


_Said: TypeAlias = tuple[str, list[Cell]]
"""A label, and phrases that are not broken up."""


def _produced(traffic: Traffic) -> str:
    if math.isnan(traffic.rate_bytes_per_s):
        return "unknown"
    return f"{rate_text(traffic.rate_bytes_per_s)} to {many(traffic.topics_written, 'topic')}"


def _skews(traffic: Traffic) -> list[_Said]:
    """The least and the most of leaders and of data."""
    if len(traffic.brokers) < 2:
        return []
    leaders = [(one.leaders, one.id, f"{one.leaders:,}") for one in traffic.brokers]
    sizes = [(one.size_bytes, one.id, bytes_text(one.size_bytes)) for one in traffic.brokers]
    return [
        ("Leaders", _skew(leaders, traffic.leader_skew)),
        ("Data", _skew(sizes, traffic.size_skew)),
    ]


def _skew(amounts: list[tuple[int, int, str]], skew: float) -> list[Cell]:
    (lowest, low, least), (highest, high, most) = min(amounts), max(amounts)
    if lowest == highest:
        return [Cell(f"{most} on each broker")]
    tone = "warn" if skew > _UNEVEN else ""
    times = [] if math.isnan(skew) else [Cell(f"{skew:.2f}x the mean", tone)]
    comma = "," if times else ""
    return [
        Cell(f"{least} (broker {low})"),
        Cell(f"to {most}", tone),
        Cell(f"(broker {high}){comma}", tone),
        *times,
    ]


def _disks(brokers: tuple[BrokerRow, ...]) -> list[_Said]:
    known = [(row.disk.share, row.id) for row in brokers if row.disk.share is not None]
    fullest = sorted(known, key=lambda one: (-one[0], one[1]))[:_DISKS]
    cells = [
        Cell(f"{share:.0%} (broker {id}){',' if place < len(fullest) else ''}", disk_tone(share))
        for place, (share, id) in enumerate(fullest, 1)
    ]
    return [("Fullest", cells)] if cells else []


def _replication(health: Health) -> list[Cell]:
    tone = "warn" if health.under_replicated else ""
    if health.min_isr_known and not health.under_replicated and not health.under_min_isr:
        return [Cell("all partitions,"), Cell(f"{health.at_min_isr:,} at min-ISR")]
    cells = [Cell(f"{health.under_replicated_words},", tone)]
    if not health.min_isr_known:
        return [*cells, Cell("min-ISR unknown")]
    under = Cell(f"{health.under_min_isr:,} under min-ISR,", "bad" if health.under_min_isr else "")
    return [*cells, under, Cell(f"{health.at_min_isr:,} at min-ISR")]


def _listed(traffic: Traffic, width: int, height: int, glyphs: Glyphs, more: str) -> list[Line]:
    shown = traffic.topics
    if traffic.topics_written + 1 > height:
        shown = shown[: max(height - 2, 0)]
    longest = max((cell_len(printable(one.topic)) for one in shown), default=_NAME_LEAST)
    name = min(max(longest, _NAME_LEAST), max(width - _RATE - _SIZE - 8, _NAME_LEAST))
    room = min(max(width - name - _RATE - _SIZE - 3, 0), 60)
    top = traffic.topics[0].rate_bytes_per_s
    head = fit("Topic", name, glyphs) + " " * (room + 1) + fit("Rate", _RATE, glyphs, right=True)
    lines = [Line((Cell(head + " " + fit("Size", _SIZE, glyphs, right=True), "dim"),))]
    lines += [_topic(one, name, room, top, glyphs) for one in shown]
    if len(shown) < traffic.topics_written:
        lines.append(more_line(traffic.topics_written - len(shown), "topic", more))
    return lines


def _topic(one: TopicTraffic, name: int, room: int, top: float, glyphs: Glyphs) -> Line:
    rate = fit(rate_text(one.rate_bytes_per_s), _RATE, glyphs, right=True)
    size = fit(bytes_text(one.size_bytes), _SIZE, glyphs, right=True)
    cells = (
        Cell(fit_middle(printable(one.topic), name, glyphs) + " "),
        *gauge(one.rate_bytes_per_s / top if top else 0.0, room, glyphs),
        Cell(rate),
        Cell(f" {size}", "dim"),
    )
    return Line(
        cells, ("topic", one.topic), ScreenTarget(PARTITIONS, filter_text=f"topic:{one.topic}")
    )
