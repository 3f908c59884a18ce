"""What a report says of a week, as a document: for people who were not there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kshunt import __version__
from kshunt.backend.domain.operations.operation import OperationState
from kshunt.backend.domain.pipeline.result_columns import ETA
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS, HOUR_MS
from kshunt.backend.domain.pipeline.weeks import day_text
from kshunt.backend.domain.text.axes import Unit
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    clock_text,
    duration_text,
    listed,
    many,
    moment_text,
    percent_text,
)
from kshunt.backend.pipeline.reports.document import (
    Bar,
    Bars,
    Block,
    Bullets,
    Document,
    FactList,
    Heading,
    Paragraph,
    Plot,
    PlotLine,
    TableBlock,
)
from kshunt.backend.pipeline.reports.table_sections import quality
from kshunt.backend.pipeline.reports.week_operations import (
    WeekOperation,
    ended_in_week,
    week_operations,
)
from kshunt.backend.pipeline.reports.week_results import WeekMaterial, missing_hours
from kshunt.backend.pipeline.reports.week_sections import (
    Loads,
    StallsOfWeek,
    brokers,
    disks,
    first_full,
    isr_drops,
    loads_of,
    no_table,
    operations_table,
    stalls,
    stalls_of,
    throttles,
    topics,
)

BOUNDS_MOST: Final = 8
STRETCHES_MOST: Final = 6
_FAILED: Final = frozenset(state for state in OperationState if state.went_wrong)


@dataclass(frozen=True, eq=False)
class WeekFigures:
    """A week, worked out."""

    material: WeekMaterial
    until_ms: int
    """The end of the week, or now while it runs."""
    operations: Sequence[WeekOperation]
    held_s: Mapping[str, float]
    """By bottleneck: for how long it held operations up, summed over them; the longest first."""
    held_by_day: Mapping[int, Mapping[str, float]]
    stalls: StallsOfWeek | None
    """None where the table was not made."""
    loads: Loads | None
    """None where the table was not made."""

    @classmethod
    def of(cls, material: WeekMaterial, now_ms: float) -> WeekFigures:
        """Worked out from its material; `now_ms` is when the report is written."""
        by_bound: dict[str, float] = defaultdict(float)
        by_day: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for (day_ms, bound, _), seconds in material.forecasts.held_s.items():
            by_bound[bound] += seconds
            by_day[day_ms][bound] += seconds
        ordered = dict(sorted(by_bound.items(), key=lambda one: (-one[1], one[0])))
        until_ms = min(material.week.to_ms, int(now_ms))
        operations = week_operations(material)
        tables = stalls_of(material), loads_of(material)
        return cls(material, until_ms, operations, ordered, by_day, *tables)

    @property
    def copied_bytes(self) -> float:
        """By operations of kshunt."""
        return sum(self.material.rates.copied_by_hour.values())

    def of_day(self, by_hour: Mapping[int, float], day_ms: int) -> float:
        """What was copied on a day."""
        return sum(size for hour, size in by_hour.items() if day_ms <= hour < day_ms + DAY_MS)

    def known_hours(self, day_ms: int) -> int:
        """Hours of a day that have results."""
        return sum(day_ms <= hour < day_ms + DAY_MS for hour in self.material.rates.hours)

    def longest_of(self, day_ms: int) -> tuple[str, float] | None:
        """What held operations up longest on a day; None where nothing did."""
        held = self.held_by_day.get(day_ms)
        return max(held.items(), key=lambda one: (one[1], one[0])) if held else None


def week_report(material: WeekMaterial, now_ms: float) -> Document:
    """The document; `now_ms` is when it is written."""
    figures = WeekFigures.of(material, now_ms)
    week = material.week
    span = (float(week.from_ms), float(week.to_ms - 1))
    blocks: list[Block] = [
        FactList(_facts(figures, now_ms)),
        Heading("In short"),
        Bullets(_headline(figures)),
        *_days(figures),
        *_bottlenecks(figures),
        *operations_table(material, figures.operations),
        *stalls(figures.stalls),
        *isr_drops(material),
        *throttles(material),
        *brokers(figures.loads),
        *disks(figures.loads),
        *topics(material),
        *_gaps(figures),
        *quality(material.tables, material.missed, span)[1:],
        *_source(figures, now_ms),
    ]
    return Document(f"Week {week}", blocks)


# In short


def _facts(figures: WeekFigures, now_ms: float) -> list[tuple[str, str]]:
    material, week = figures.material, figures.material.week
    runs = "" if now_ms >= week.to_ms else "; the week has not ended"
    hours = (figures.until_ms - week.from_ms + HOUR_MS - 1) // HOUR_MS
    known = f"{len(material.rates.hours)} of {many(hours, 'hour')} have results"
    return [
        ("Cluster", material.cluster),
        ("From", f"Monday {moment_text(week.from_ms)}"),
        ("To", f"Monday {moment_text(week.to_ms)}{runs}"),
        ("Known", known),
    ]


def _headline(figures: WeekFigures) -> list[str]:
    material = figures.material
    rates = material.rates
    if not rates.hours:
        return [*_ends(figures), "Results have nothing of this week: see the gaps below."]
    lines = [_copied(figures), *_ends(figures)]
    minutes = sum(rates.throttled_minutes.values())
    idle = sum(rates.idle_minutes.values())
    if minutes:
        rest = (
            f"nothing was copied for {duration_text(idle * 60)} of it"
            if idle
            else ("something was copied all that time")
        )
        lines.append(f"A throttle was in force for {duration_text(minutes * 60)}: {rest}.")
    else:
        lines.append("No replica was under a throttle.")
    lines += _held_most(figures)
    if figures.stalls is not None and figures.stalls.seconds:
        cause, (seconds, _) = next(iter(figures.stalls.causes.items()))
        words = f"Copies stood still for {duration_text(figures.stalls.seconds)} in total"
        lines.append(f"{words}, longest because of: {cause} ({duration_text(seconds)}).")
    lines.append(_dropped(figures))
    full = first_full(figures.loads or {})
    lines += [full] if full else []
    return lines


def _copied(figures: WeekFigures) -> str:
    rates = figures.material.rates
    moved = [one for one in figures.operations if one.copies]
    own = f"Operations of kshunt copied {bytes_text(figures.copied_bytes)}"
    own += f" in {many(len(moved), 'operation')}" if moved else ""
    others = sum(rates.others_by_hour.values())
    return f"{own}; other tools copied {bytes_text(others)}." if others else f"{own}."


def _ends(figures: WeekFigures) -> list[str]:
    """How operations ended, by the journal."""
    journal = figures.material.journal
    if journal is None:
        return [
            "How operations ended is in the journal, and this report was made without it. To have "
            "it, name a running backend: kshunt report --backend."
        ]
    ended = ended_in_week(figures.material)
    if not ended:
        return ["The journal lists no operation that ended in this week."]
    counts = Counter(one.state for one in ended)
    words = ", ".join(
        f"{count} {state.words}" for state, count in sorted(counts.items(), key=lambda o: -o[1])
    )
    lines = [f"{many(len(ended), 'operation')} of any kind ended: {words}."]
    failed = [one for one in ended if one.state in _FAILED]
    if failed:
        lines.append(f"Look at: {listed([f'{o.id} ({o.kind.value})' for o in failed])}.")
    if not journal.whole:
        lines.append("The journal no longer lists all operations of this week.")
    return lines


def _held_most(figures: WeekFigures) -> list[str]:
    if not figures.held_s:
        return []
    bound, seconds = next(iter(figures.held_s.items()))
    lines = [f"What held operations up most was {bound}, for {duration_text(seconds)}."]
    worst: tuple[int, str, float] | None = None
    for day_ms in figures.material.week.days_ms:
        longest = figures.longest_of(day_ms)
        if longest and (worst is None or longest[1] > worst[2]):
            worst = (day_ms, *longest)
    if worst is not None:
        day, name, lasted = worst
        lines.append(f"The worst day was {day_text(day)}: {name}, for {duration_text(lasted)}.")
    return lines


def _dropped(figures: WeekFigures) -> str:
    drops = figures.material.rates.drops
    if not drops:
        return "No replica that nothing moved left the ISR."
    broker, count = Counter(drop.broker for drop in drops).most_common(1)[0]
    words = f"Replicas that nothing moved left the ISR {many(len(drops), 'time')}"
    return f"{words}, most often on broker {broker} ({count:,})."


# Day by day


def _days(figures: WeekFigures) -> list[Block]:
    days = figures.material.week.days_ms
    names = (
        "day (UTC)", "known", "copied by kshunt", "by others", "throttled", "held up most by",
        "for", "stalled", "left the ISR",
    )  # fmt: skip
    numbers = frozenset(names) - {"day (UTC)", "held up most by"}
    return [
        Heading("Day by day"),
        Bars("Bytes copied a day", [_day_bar(figures, day_ms) for day_ms in days]),
        TableBlock(names, [_day_row(figures, day_ms) for day_ms in days], numbers),
        *_course(figures),
    ]


def _day_bar(figures: WeekFigures, day_ms: int) -> Bar:
    rates = figures.material.rates
    copied = sum(figures.of_day(o, day_ms) for o in (rates.copied_by_hour, rates.others_by_hour))
    unknown = "unknown" if day_ms < figures.until_ms else "not yet"
    text = bytes_text(copied) if figures.known_hours(day_ms) else unknown
    return Bar(day_text(day_ms), copied, text)


def _day_row(figures: WeekFigures, day_ms: int) -> tuple[str, ...]:
    rates, stalled = figures.material.rates, figures.stalls
    known = figures.known_hours(day_ms)
    if day_ms >= figures.until_ms:
        return (day_text(day_ms), *("-",) * 8)
    stalled_s = None if stalled is None else stalled.by_day.get(day_ms, 0.0)
    if not known:
        rest = duration_text(stalled_s) if stalled_s else "?"
        return (day_text(day_ms), "0 h", "?", "?", "?", "?", "?", rest, "?")
    longest = figures.longest_of(day_ms)
    bound, lasted = ("-", "-") if longest is None else (longest[0], duration_text(longest[1]))
    return (
        day_text(day_ms),
        f"{known} h",
        bytes_text(figures.of_day(rates.copied_by_hour, day_ms)),
        bytes_text(figures.of_day(rates.others_by_hour, day_ms)),
        duration_text(rates.throttled_minutes.get(day_ms, 0) * 60),
        bound,
        lasted,
        duration_text(stalled_s),
        str(sum(day_ms <= drop.at_ms < day_ms + DAY_MS for drop in rates.drops)),
    )


def _course(figures: WeekFigures) -> list[Block]:
    """Hour by hour."""
    rates, week = figures.material.rates, figures.material.week
    if not rates.hours:
        return []
    hours = range(week.from_ms, week.to_ms, HOUR_MS)

    def line(name: str, by_hour: Mapping[int, float]) -> PlotLine:
        values = [by_hour.get(h, 0.0) / 3600 if h in rates.hours else np.nan for h in hours]
        return PlotLine(name, np.array([*values, np.nan], np.float64))

    lines = [line("by kshunt", rates.copied_by_hour)]
    if any(rates.others_by_hour.values()):
        lines.append(line("by others", rates.others_by_hour))
    lines.append(line("back into the ISR", rates.behind_by_hour))
    times = np.array([*hours, week.to_ms], np.float64)
    words = "Each point is the mean over the hour that begins there. "
    words += "Gaps in a line are hours without results."
    return [Plot("Copied, hour by hour", times, Unit.BYTES_PER_S, lines), Paragraph(words)]


def _bottlenecks(figures: WeekFigures) -> list[Block]:
    head = Heading("What held operations up")
    if not figures.material.forecasts.there:
        return [head, Paragraph(f"{no_table(ETA.name)} Whether anything was held up is unknown.")]
    if not figures.held_s:
        return [head, Paragraph("Nothing: no operation of kshunt was held up in these hours.")]
    total = sum(figures.held_s.values())
    some = list(figures.held_s.items())[:BOUNDS_MOST]
    bars = [
        Bar(bound, seconds, f"{duration_text(seconds)}, {percent_text(seconds / total)}")
        for bound, seconds in some
    ]
    words = "Times are added up over operations: two that wait for an hour are two hours."
    more = len(figures.held_s) - len(some)
    words += f" {many(more, 'shorter one')} left out." if more else ""
    return [head, Bars("How long each was the bottleneck", bars), Paragraph(words)]


# What is missing, and where it is from


def _gaps(figures: WeekFigures) -> list[Block]:
    """Hours without results, and what makes them."""
    material, week = figures.material, figures.material.week
    lines = []
    for hours in missing_hours(material.rates.hours, week.from_ms, figures.until_ms):
        sampled = sum(hour in material.sampled_hours for hour in hours[::HOUR_MS])
        count = len(hours) // HOUR_MS
        why = (
            f"samples are there for {many(sampled, 'hour')} of it: kshunt pipeline backfill makes "
            "results"
            if sampled
            else "nothing was recorded, or the samples are deleted"
        )
        when = f"{_hour_text(hours.start)} to {_hour_text(hours.stop)}"
        lines.append(f"{when} ({many(count, 'hour')}): {why}")
    head = Heading("Gaps and data quality")
    more = len(lines) - STRETCHES_MOST
    lines = [*lines[:STRETCHES_MOST], *([f"and {many(more, 'more gap')}"] if more > 0 else [])]
    lines += [f"Not read: {problem}" for problem in material.problems]
    if not lines:
        return [head, Paragraph("Every hour of the week has results.")]
    return [head, Paragraph("Hours without results:"), Bullets(lines)]


def _hour_text(at_ms: int) -> str:
    return f"{day_text(at_ms)} {clock_text(at_ms)}"


def _source(figures: WeekFigures, now_ms: float) -> list[Block]:
    material = figures.material
    models = sorted(material.forecasts.models)
    facts = [
        ("Written", f"{moment_text(now_ms)} by kshunt {__version__}"),
        ("Newest result", moment_text(material.rates.newest_ms)),
        (
            "Journal",
            "not asked"
            if material.journal is None
            else f"{many(len(material.journal.operations), 'operation')} listed",
        ),
    ]
    if models:
        facts.append(("Forecasts", f"by version {listed(models)} of the model"))
    facts += [
        (made.table, f"{many(made.rows, 'row')}{f', from {made.by}' if made.by else ''}")
        for made in material.made
    ]
    text = "Days and hours are UTC. A week begins on Monday at 00:00, and is named as in ISO 8601."
    return [Heading("Source of this report"), FactList(facts), Paragraph(text)]
