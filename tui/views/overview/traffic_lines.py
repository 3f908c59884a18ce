"""What is produced while nothing moves, and how evenly the brokers share it."""

from __future__ import annotations

import math
from typing import Final

from rich.cells import cell_len

from kshunt.backend.domain.text.formatting import bytes_text, duration_text, many, rate_text
from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.facts.brokers.row import BrokerRow
from kshunt.tui.facts.cockpit.traffic import BrokerTraffic, TopicTraffic, Traffic
from kshunt.tui.facts.health import Health
from kshunt.tui.tables.gauges import curve, gauge
from kshunt.tui.tables.lines import BLANK, Line, more_line
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.fitting import fit, fit_middle, printable
from kshunt.tui.text.glyphs import Glyphs

_LABEL: Final = 12
_NAME_LEAST: Final = 12
_RATE, _SIZE = 10, 9
_DISKS: Final = 3
"""So many of the fullest disks are named."""
COURSE_LEAST, COURSE_MOST = 3, 10
"""Lines of the course of what is produced."""
_UNEVEN: Final = 1.5
"""So many times the mean is worth a look."""


def traffic_lines(
    traffic: Traffic,
    health: Health,
    brokers: tuple[BrokerRow, ...],
    width: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    """Sums and skew, then how the rate went."""
    facts = [
        _fact("Produced", f"{rate_text(traffic.rate_bytes_per_s)} to {_topics(traffic)}"),
        *_skews(traffic),
        *_disks(brokers),
        _fact("Replication", *_replication(health)),
    ]
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


def _topics(traffic: Traffic) -> str:
    return many(traffic.topics_written, "topic")


def _fact(label: str, text: str, tone: str = "") -> Line:
    return Line((Cell(f"{label:<{_LABEL}} ", "dim"), Cell(text, tone)))


def _skews(traffic: Traffic) -> list[Line]:
    brokers = traffic.brokers
    if len(brokers) < 2:
        return []
    most = max(brokers, key=lambda one: one.leaders)
    least = min(brokers, key=lambda one: one.leaders)
    words = f"{least.leaders:,} (broker {least.id}) to {most.leaders:,} (broker {most.id})"
    lines = [_fact("Leaders", words + _times(traffic.leader_skew), _tone(traffic.leader_skew))]
    largest: BrokerTraffic = max(brokers, key=lambda one: one.size_bytes)
    small = min(brokers, key=lambda one: one.size_bytes)
    words = f"{bytes_text(small.size_bytes)} (broker {small.id}) to "
    words += f"{bytes_text(largest.size_bytes)} (broker {largest.id})"
    return [*lines, _fact("Data", words + _times(traffic.size_skew), _tone(traffic.size_skew))]


def _times(skew: float) -> str:
    return "" if math.isnan(skew) else f", {skew:.2f}x the mean"


def _tone(skew: float) -> str:
    return "warn" if skew > _UNEVEN else ""


def _disks(brokers: tuple[BrokerRow, ...]) -> list[Line]:
    known = [(row.disk.share, row.id) for row in brokers if row.disk.share is not None]
    if not known:
        return []
    fullest = sorted(known, key=lambda one: (-one[0], one[1]))[:_DISKS]
    words = ", ".join(f"{share:.0%} (broker {id})" for share, id in fullest)
    tone = "bad" if fullest[0][0] >= 0.95 else "warn" if fullest[0][0] >= 0.85 else ""
    return [_fact("Disks", f"at most {words}", tone)]


def _replication(health: Health) -> tuple[str, str]:
    words = health.under_replicated_words
    if not health.min_isr_known:
        return f"{words}, min-ISR unknown", "warn" if health.under_replicated else ""
    words += f", {health.under_min_isr:,} under min-ISR, {health.at_min_isr:,} at it"
    if health.under_min_isr:
        return words, "bad"
    return words, "warn" if health.under_replicated else ""


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
    return Line(cells, ("topic", one.topic), ScreenTarget(PARTITIONS, filter_text=one.topic))
