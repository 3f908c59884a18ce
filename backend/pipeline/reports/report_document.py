"""What a report says of an operation, as a document.

It is for the next operator, and for a person who asks afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt import __version__
from kshunt.backend.domain.pipeline.result_columns import GAP_S, WINDOWS
from kshunt.backend.domain.text.axes import Unit
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    clock_text,
    duration_text,
    limit_text,
    listed,
    many,
    moment_text,
    percent_text,
    rate_text,
)
from kshunt.backend.pipeline.reports.document import (
    Block,
    Document,
    FactList,
    Heading,
    Paragraph,
    Plot,
    PlotLine,
    TableBlock,
)
from kshunt.backend.pipeline.reports.forecasts import MOMENTS, forecasts
from kshunt.backend.pipeline.reports.operation_history import (
    HistoryEvent,
    OperationCopies,
    OperationHistory,
    OperationRows,
    RateChange,
    copies_of,
    elections,
    history_of,
    isr_losses,
    pairs_of,
    rows_of,
    throttle_changes,
)
from kshunt.backend.pipeline.reports.operation_results import Material
from kshunt.backend.pipeline.reports.table_sections import (
    disks,
    next_steps,
    quality,
    stalls,
    throttles,
)

EVENTS_MOST: Final = 40
PAIRS_MOST: Final = 10
BROKERS_MOST: Final = 12
_LAST_MOST: Final = 5


@dataclass(frozen=True, eq=False)
class OperationFigures:
    """An operation, worked out."""

    material: Material
    rows: OperationRows
    copies: OperationCopies
    history: OperationHistory
    began_ms: float
    ended_ms: float | None
    """When its last copy came into the ISR; None where one has not."""
    lost: int
    """Copies that are not in the ISR, and no longer seen while others are."""

    @classmethod
    def of(cls, material: Material) -> OperationFigures:
        """Worked out from its material, which has at least one row of rates."""
        rows = rows_of(material.rates)
        copies = copies_of(rows)
        began = float(rows.at_ms[copies.row].min()) if len(copies) else float(rows.at_ms.min())
        done = len(copies) > 0 and bool(np.isfinite(copies.arrived_ms).all())
        ended = float(copies.arrived_ms.max()) if done else None
        newest = material.results_newest_ms or began
        unseen = ~np.isfinite(copies.arrived_ms) & (copies.last_ms < newest - GAP_S * 1000)
        lost = int(unseen.sum())
        return cls(material, rows, copies, history_of(rows, copies), began, ended, lost)

    @property
    def seen_ms(self) -> float:
        """The last moment that anything is known of."""
        return float(self.rows.at_ms.max())

    @property
    def over(self) -> bool:
        """No copy of it is under way."""
        return int(np.isfinite(self.copies.arrived_ms).sum()) + self.lost == len(self.copies)

    @property
    def sources(self) -> list[int]:
        """Brokers that copies were fetched from."""
        leaders = np.unique(self.rows.leader[self.rows.copied])
        return [int(one) for one in leaders if one >= 0]

    @property
    def destinations(self) -> list[int]:
        """Brokers that copies were made on."""
        return [int(one) for one in np.unique(self.rows.broker[self.copies.row])]


def report(material: Material, now_ms: float) -> Document:
    """The document; `now_ms` is when it is written."""
    figures = OperationFigures.of(material)
    tables, span = material.tables, (figures.began_ms, figures.ended_ms or figures.seen_ms)
    brokers = {"leader": set(figures.sources), "follower": set(figures.destinations)}
    if not len(figures.copies):
        lacks = quality(tables, material.missed, span)
        return _titled(material, [*_summary(figures, now_ms), *lacks, *_source(figures, now_ms)])
    blocks: list[Block] = [
        *_summary(figures, now_ms),
        *next_steps(tables, material.operation, brokers, span, over=figures.over),
        *_progress(figures),
        *_speed(figures),
        *_events(figures),
        *stalls(tables, material.operation, span),
        *forecasts(tables, material.operation, figures.ended_ms),
        *throttles(tables, brokers, span),
        *_pairs(figures),
        *disks(tables, figures.destinations),
        *quality(tables, material.missed, span),
        *_source(figures, now_ms),
    ]
    return _titled(material, blocks)


def _titled(material: Material, blocks: Sequence[Block]) -> Document:
    return Document(f"Operation {material.operation}", blocks)


# What was moved


def _summary(figures: OperationFigures, now_ms: float) -> list[Block]:
    rows, copies = figures.rows, figures.copies
    if not len(copies):
        text = "None of its replicas needed a copy: its partitions were in sync all the time."
        return [Paragraph(text), FactList([("Cluster", figures.material.cluster)])]
    moved = float(copies.bytes.sum())
    end = figures.ended_ms or figures.seen_ms
    took_s = max((end - figures.began_ms) / 1000, 0.0)
    names = {(rows.topic[i], rows.partition[i]) for i in copies.row.tolist()}
    topics = sorted({rows.topics[topic] for topic, _ in names})
    leaving = np.unique(rows.broker[rows.removing]).tolist()
    facts = [
        ("Cluster", figures.material.cluster),
        ("State", _state(figures, now_ms)),
        ("First copy seen", moment_text(figures.began_ms)),
        (
            "Last arrival" if figures.ended_ms else "Last sample",
            f"{moment_text(end)}, {_after(took_s)}",
        ),
        (
            "Copied",
            f"{bytes_text(moved)} into {many(len(copies), 'replica')} of "
            f"{many(len(names), 'partition')} of {_topics(topics)}",
        ),
        ("From brokers", _brokers(figures.sources)),
        ("To brokers", _brokers(figures.destinations)),
        ("Removed from brokers", _brokers(leaving)),
        ("Mean rate", rate_text(moved / took_s if took_s else None)),
        ("Throttles", _held(figures)),
    ]
    return [FactList(facts)]


def _brokers(ids: Sequence[int]) -> str:
    return listed(ids, BROKERS_MOST) or "none"


def _after(seconds: float) -> str:
    return f"{duration_text(seconds)} after the first"


def _topics(names: Sequence[str]) -> str:
    some = ", ".join(names[:3])
    return some if len(names) <= 3 else f"{some} and {many(len(names) - 3, 'topic')} more"


def _state(figures: OperationFigures, now_ms: float) -> str:
    copies = figures.copies
    arrived = int(np.isfinite(copies.arrived_ms).sum())
    if figures.ended_ms is not None:
        return f"done: {_all(len(copies))} in the ISR"
    if figures.over:
        return (
            f"over: {arrived} of {many(len(copies), 'copy', 'copies')} in the ISR; the others "
            f"were last seen at {moment_text(float(copies.last_ms.max()))}, so they were "
            "cancelled, or are not recorded any more"
        )
    left = bytes_text(float(np.nansum(copies.remaining_bytes)))
    age = duration_text((now_ms - figures.seen_ms) / 1000)
    return (
        f"{arrived} of {many(len(copies), 'copy', 'copies')} in the ISR, {left} left, "
        f"as of {moment_text(figures.seen_ms)} ({age} before this report)"
    )


def _all(count: int) -> str:
    return "the one copy is" if count == 1 else f"all {count:,} copies are"


def _held(figures: OperationFigures) -> str:
    permitted = figures.history.permitted_bytes_per_s
    held = np.isfinite(permitted)
    if not held.any():
        return "no throttle held all of it"
    changes = len({change.at_ms for change in throttle_changes(figures.rows)})
    low, high = float(permitted[held].min()), float(permitted[held].max())
    rates = rate_text(low) if low == high else f"{rate_text(low)} to {rate_text(high)}"
    changed = f", changed {many(changes, 'time')}" if changes else ""
    return f"{rates} in total, in force for {percent_text(float(held.mean()))} of the time{changed}"


# Over time


def _progress(figures: OperationFigures) -> list[Block]:
    history = figures.history
    if not len(history.at_ms):
        return []
    plot = Plot(
        "Bytes that remain",
        history.at_ms,
        Unit.BYTES,
        [PlotLine("remaining", history.remaining_bytes)],
    )
    places = np.unique(np.linspace(0, len(history.at_ms) - 1, MOMENTS).round().astype(int))
    rows = []
    for since, place in zip([0, *places[:-1].tolist()], places.tolist(), strict=True):
        part = slice(since, place + 1) if place else slice(0, 1)
        rows.append(
            (
                clock_text(float(history.at_ms[place]), seconds=True),
                duration_text((float(history.at_ms[place]) - figures.began_ms) / 1000),
                bytes_text(float(history.remaining_bytes[place])),
                rate_text(float(history.rate_bytes_per_s[part].mean())),
                limit_text(_or_none(float(history.permitted_bytes_per_s[place]))),
                f"{int(history.arrived[place])} of {len(figures.copies)}",
            )
        )
    names = ("UTC", "after", "remaining", "rate since", "permitted", "in the ISR")
    return [Heading("Progress"), plot, TableBlock(names, rows, frozenset(names[1:]))]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value


def _speed(figures: OperationFigures) -> list[Block]:
    history = figures.history
    if not len(history.at_ms):
        return []
    lines = [PlotLine("copied", history.rate_bytes_per_s)]
    words = "The bytes that all copies together fetched."
    if np.isfinite(history.permitted_bytes_per_s).any():
        lines.append(PlotLine("permitted", history.permitted_bytes_per_s, limit=True))
        words += (
            " The limit is the lower one of what the leaders may send and the followers may fetch"
        )
        words += "; gaps in its line mean that something was not throttled."
    plot = Plot("Rate and throttle", history.at_ms, Unit.BYTES_PER_S, lines)
    return [Heading("Rate and throttle"), plot, Paragraph(words)]


def _events(figures: OperationFigures) -> list[Block]:
    found = [
        HistoryEvent(change.at_ms, _change(change)) for change in throttle_changes(figures.rows)
    ]
    found += elections(figures.rows) + isr_losses(figures.rows) + _arrivals(figures)
    found += [
        HistoryEvent(gap.from_ms, f"not recorded until {moment_text(gap.to_ms)}: {gap.text}")
        for gap in figures.material.missed
    ]
    end = figures.ended_ms or figures.seen_ms
    found = sorted((e for e in found if e.at_ms <= end + GAP_S * 1000), key=lambda e: e.at_ms)
    if not found:
        return [Heading("What happened"), Paragraph("Only copying.")]
    rows = [
        (
            moment_text(event.at_ms),
            duration_text(max(event.at_ms - figures.began_ms, 0) / 1000),
            event.text,
        )
        for event in found[:EVENTS_MOST]
    ]
    table = TableBlock(("UTC", "after", "what"), rows, frozenset({"after"}))
    more = len(found) - EVENTS_MOST
    rest = [Paragraph(f"And {many(more, 'event')} after these.")] if more > 0 else []
    return [Heading("What happened"), table, *rest]


def _change(change: RateChange) -> str:
    several = len(change.brokers) > 1
    who = f"broker{'s' if several else ''} {_brokers(change.brokers)}"
    what = "may send" if change.direction == "leader" else "may fetch"
    each = " each" if several else ""
    if change.after is None:
        return f"throttle: {who} {what} without a limit (before: {rate_text(change.before)}{each})"
    before = limit_text(change.before)
    return f"throttle: {who} {what} {rate_text(change.after)}{each} (before: {before})"


def _arrivals(figures: OperationFigures) -> list[HistoryEvent]:
    """When a quarter, half, three quarters and all of the copies had arrived; the last by name."""
    copies, rows = figures.copies, figures.rows
    arrived = np.flatnonzero(np.isfinite(copies.arrived_ms))
    order = arrived[np.argsort(copies.arrived_ms[arrived], kind="stable")]
    # Of those that arrive at one moment the last is told.
    shares: dict[float, str] = {}
    for quarter, name in ((1, "a quarter"), (2, "half"), (3, "three quarters"), (4, "all")):
        place = -(-len(copies) * quarter // 4) - 1
        if 0 <= place < len(order):
            at_ms = float(copies.arrived_ms[order[place]])
            shares[at_ms] = f"{name} of the copies in the ISR ({place + 1:,} of {len(copies):,})"
    events = [HistoryEvent(at_ms, text) for at_ms, text in shares.items()]
    for place in order[len(copies) - _LAST_MOST :] if len(copies) > _LAST_MOST else ():
        row = int(copies.row[place])
        who = f"{rows.partition_text(row)} on broker {rows.broker[row]}"
        events.append(
            HistoryEvent(float(copies.arrived_ms[place]), f"among the last in the ISR: {who}")
        )
    return events


# Pairs


def _pairs(figures: OperationFigures) -> list[Block]:
    found = pairs_of(figures.rows)
    if not found:
        return []
    rows = [
        (
            f"{pair.source} → {pair.destination}",
            str(pair.copies),
            bytes_text(pair.bytes),
            rate_text(pair.mean_bytes_per_s),
            *(rate_text(one) for one in pair.quantiles or (None, None, None)),
        )
        for pair in found[:PAIRS_MOST]
    ]
    names = ("brokers", "copies", "copied", "mean", "p10", "p50", "p90")
    text = (
        "Each rate is of one copy, and the slowest pair is first. The quantiles are of rates "
        f"over {WINDOWS[0].name}."
    )
    if len(found) > PAIRS_MOST:
        text += f" {many(len(found) - PAIRS_MOST, 'faster pair')} left out."
    table = TableBlock(names, rows, frozenset(names[1:]))
    return [Heading("Slowest pairs of brokers"), table, Paragraph(text)]


# Where it is from


def _source(figures: OperationFigures, now_ms: float) -> list[Block]:
    material = figures.material
    results, samples = material.results_newest_ms, material.samples_newest_ms
    facts = [
        (
            "Written",
            f"{moment_text(now_ms)} by kshunt {__version__}, from results of recorded samples",
        ),
        ("Newest result", f"{moment_text(results)}, {_age(now_ms, results)}"),
        (
            "Newest sample",
            f"{moment_text(samples)}, {_age(now_ms, samples)}" if samples else "gone",
        ),
    ]
    facts += [
        (made.table, f"{many(made.rows, 'row')}{f', from {made.by}' if made.by else ''}")
        for made in material.made
    ]
    text = (
        "Samples know an operation only by its id. The audit has its kind, who asked for it, and "
        f"why: kshunt audit --operation {material.operation}."
    )
    notes = [text]
    if samples and results and samples - results > GAP_S * 1000:
        notes.append(
            f"Samples continue for {duration_text((samples - results) / 1000)} after the newest "
            "result. Make results again before you use this as the whole picture."
        )
    return [Heading("Source of this report"), FactList(facts), *map(Paragraph, notes)]


def _age(now_ms: float, at_ms: float | None) -> str:
    return "?" if at_ms is None else f"{duration_text(max(now_ms - at_ms, 0) / 1000)} old"
