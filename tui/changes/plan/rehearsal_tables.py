"""Rehearsals side by side: a column a throttle, and what a deadline takes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from kshunt.backend.domain.forecast.deadlines import holds
from kshunt.backend.domain.forecast.end_words import never_text
from kshunt.backend.domain.planning.impact import Impact
from kshunt.backend.domain.planning.rehearsal import IsrEvent, PlanForecast, Rehearsal
from kshunt.backend.domain.planning.requests import RehearsalAnswer
from kshunt.backend.domain.text.formatting import (
    NEVER,
    UNKNOWN,
    bytes_text,
    duration_text,
    limit_text,
    listed,
    rate_text,
)
from kshunt.tui.changes.plan.proposal_tables import line_table
from kshunt.tui.changes.plan.proposal_words import TonedLine, clock_after
from kshunt.tui.facts.brokers.disks import peak_tone
from kshunt.tui.tables.list_table import ListColumn, ListTable
from kshunt.tui.tables.model import Cell, Column, RowKey

NOBODY_LEAVES: Final = "No replica that is in sync falls behind."
EVENTS_MOST: Final = 2_000
"""Changes of an ISR that are listed one by one."""


@dataclass(frozen=True, eq=False)
class RehearsedThrottle:
    """A throttle that could be taken: when the moves are done, and how they go."""

    forecast: PlanForecast
    rehearsal: Rehearsal

    @property
    def throttle_bytes_per_s(self) -> int | None:
        """The throttle; None without one."""
        return self.forecast.throttle_bytes_per_s

    @property
    def title(self) -> str:
        """The throttle, in words."""
        return limit_text(self.throttle_bytes_per_s)

    @property
    def why(self) -> str:
        """Why it would not end, as the twin says, or else the forecast; empty where it does."""
        if self.rehearsal.never:
            return self.rehearsal.why
        return f"{never_text(self.forecast.end)}." if self.forecast.never else ""

    @property
    def remark(self) -> str:
        """That it would not end, and why; or that the rehearsal was stopped; else empty."""
        if self.why:
            return f"It would not end: {self.why}"
        return self.rehearsal.why if self.rehearsal.stopped else ""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is compared: a cell for each candidate."""

    label: str
    cells: tuple[Cell, ...]


def candidates(answer: RehearsalAnswer) -> tuple[RehearsedThrottle, ...]:
    """What was rehearsed, in the order of the answer."""
    return tuple(map(RehearsedThrottle, answer.forecasts, answer.rehearsals))


def rows_of(answer: RehearsalAnswer, asked: Sequence[RehearsedThrottle]) -> list[Row]:
    """Everything that is compared, the most wanted first."""
    impact = answer.impact

    def row(label: str, cells: Iterable[Cell]) -> Row:
        return Row(label, tuple(cells))

    runs = [one.rehearsal for one in asked]
    found = [
        row("Done at (UTC)", map(_done_at, asked)),
        row("8 times in 10", map(_range, asked)),
        row("Takes", map(_takes, asked)),
        row("Busiest in", (_busiest(run.peak_received_bytes_per_s()) for run in runs)),
        row("Busiest out", (_busiest(run.peak_sent_bytes_per_s()) for run in runs)),
        row("Fullest disk", (_fullest(impact, run) for run in runs)),
        row("ISR drops", (_count(run.isr_drops, "warn") for run in runs)),
        row(
            "Under min ISR", (_count(int(run.timeline.under_min_isr.max()), "bad") for run in runs)
        ),
    ]
    if answer.deadline is not None:
        at_ms = answer.deadline.at_ms
        found.insert(3, row("In time", (_in_time(one, at_ms) for one in asked)))
    return found


def _done_at(one: RehearsedThrottle) -> Cell:
    if one.why:
        return Cell(NEVER, "bad")
    end = one.forecast.end
    if not one.forecast.ends or end.p50_s is None:
        return Cell(UNKNOWN)
    return Cell(clock_after(end.at_ms, end.p50_s), "strong")


def _range(one: RehearsedThrottle) -> Cell:
    end = one.forecast.end
    if one.why or not one.forecast.ends or end.p10_s is None or end.p90_s is None:
        return Cell("-", "dim")
    low, high = (clock_after(end.at_ms, seconds) for seconds in (end.p10_s, end.p90_s))
    return Cell(f"{low}-{high}", "dim")


def _takes(one: RehearsedThrottle) -> Cell:
    end = one.forecast.end
    known = one.forecast.ends and not one.why
    return Cell(duration_text(end.p50_s) if known and end.p50_s is not None else "-")


def _in_time(one: RehearsedThrottle, deadline_ms: int) -> Cell:
    """Whether the deadline holds with the certainty that is asked for."""
    if holds(one.forecast.end, deadline_ms) and not one.why:
        return Cell("yes", "good")
    return Cell("no", "bad")


def _busiest(peaks: Mapping[int, float]) -> Cell:
    if not peaks:
        return Cell("-")
    broker = max(peaks, key=lambda one: peaks[one])
    return Cell(f"{broker}: {rate_text(peaks[broker], tight=True)}")


def _fullest(impact: Impact, run: Rehearsal) -> Cell:
    """The broker whose disks become fullest; the one with most on it where no size is known."""
    peaks = run.peak_disk_bytes()
    sizes = {row.broker: row.disk_bytes for row in impact.brokers if row.disk_bytes}
    shares = {broker: peak / sizes[broker] for broker, peak in peaks.items() if broker in sizes}
    if shares:
        broker = max(shares, key=lambda one: shares[one])
        return Cell(f"{broker}: {shares[broker]:.0%}", peak_tone(shares[broker]))
    if not peaks:
        return Cell("-")
    broker = max(peaks, key=lambda one: peaks[one])
    return Cell(f"{broker}: {bytes_text(peaks[broker], tight=True)}")


def _count(count: int, tone: str) -> Cell:
    return Cell(f"{count:,}", tone if count else "")


# The deadline


def deadline_words(answer: RehearsalAnswer) -> TonedLine | None:
    """The throttle that it takes, or the earliest that it can be done; None where none is set."""
    deadline = answer.deadline
    if deadline is None:
        return None
    forecast = answer.forecast_of(deadline.throttle_bytes_per_s)
    end = forecast.end
    left_s = (deadline.at_ms - end.at_ms) / 1000
    until = f"by {clock_after(end.at_ms, left_s)} UTC, in {duration_text(left_s)}"
    sure = f"{deadline.certainty:.0%} certain"
    if deadline.possible:
        rate = limit_text(deadline.throttle_bytes_per_s)
        return TonedLine(f"Done {until}, {sure}: {rate} for each broker, in and out.", "good")
    if forecast.never:
        return TonedLine(f"Not possible {until}: {never_text(end)}.", "bad")
    if not forecast.ends or end.p90_s is None:
        return TonedLine(f"Not possible {until} at any throttle.", "bad")
    earliest = f"{clock_after(end.at_ms, end.p90_s)} ({sure})"
    return TonedLine(f"Not possible {until}; earliest is {earliest}, without a throttle.", "bad")


# What stands below


def broker_table(answer: RehearsalAnswer, chosen: RehearsedThrottle) -> ListTable[BrokerRehearsal]:
    """By broker: the most that it receives, sends and holds, and what a deadline needs of it."""
    run = chosen.rehearsal
    peaks_in, peaks_out = run.peak_received_bytes_per_s(), run.peak_sent_bytes_per_s()
    disks = run.peak_disk_bytes()
    sizes = {row.broker: row.disk_bytes for row in answer.impact.brokers}
    needs = answer.deadline.needs if answer.deadline is not None else {}
    rows: dict[RowKey, BrokerRehearsal] = {
        broker: BrokerRehearsal(
            broker,
            peaks_in[broker],
            peaks_out[broker],
            disks[broker],
            sizes.get(broker),
            *needs.get(broker, (None, None)),
        )
        for broker in run.brokers
    }
    return ListTable(_REHEARSED if needs else _REHEARSED[:5], rows)


@dataclass(frozen=True, slots=True)
class BrokerRehearsal:
    """One broker in a rehearsal."""

    broker: int
    received_bytes_per_s: float
    sent_bytes_per_s: float
    disk_bytes: float
    """The most that lies on it."""
    size_bytes: int | None
    needs_in_bytes_per_s: float | None
    """On average until the deadline; None where there is none, or it takes no part."""
    needs_out_bytes_per_s: float | None


def _rated(
    key: str, title: str, value_of: Callable[[BrokerRehearsal], float | None]
) -> ListColumn[BrokerRehearsal]:
    def cell(row: BrokerRehearsal, _: int) -> Cell:
        value = value_of(row)
        return Cell("-", "dim") if value is None else Cell(rate_text(value))

    column = Column(key, title, 12, right=True)
    return ListColumn(column, cell, lambda row: value_of(row) or 0.0)


def _disk_share(row: BrokerRehearsal) -> Cell:
    if not row.size_bytes:
        return Cell(UNKNOWN, "dim")
    share = row.disk_bytes / row.size_bytes
    return Cell(f"{share:.0%}", peak_tone(share))


_REHEARSED: Final[Sequence[ListColumn[BrokerRehearsal]]] = (
    ListColumn(
        Column("broker", "Broker", 6, right=True),
        lambda row, _: Cell(str(row.broker), "strong"),
        lambda row: row.broker,
    ),
    _rated("in", "Most in", lambda row: row.received_bytes_per_s),
    _rated("out", "Most out", lambda row: row.sent_bytes_per_s),
    ListColumn(
        Column("disk", "Peak disk", 9, right=True),
        lambda row, _: Cell(bytes_text(row.disk_bytes)),
        lambda row: row.disk_bytes,
    ),
    ListColumn(
        Column("share", "Full", 5, right=True),
        lambda row, _: _disk_share(row),
        lambda row: row.disk_bytes,
    ),
    _rated("needs-in", "Needs in", lambda row: row.needs_in_bytes_per_s),
    _rated("needs-out", "Needs out", lambda row: row.needs_out_bytes_per_s),
)


def event_table(chosen: RehearsedThrottle, notes: Sequence[str], width: int) -> ListTable[str]:
    """Why it would not end; who left an ISR and who came back, in their order; what was not known.

    Sentences are wrapped to the width.
    """
    run = chosen.rehearsal
    events = run.isr_events[:EVENTS_MOST]
    lines = [_event_words(event) for event in events] or [NOBODY_LEAVES]
    if len(run.isr_events) > EVENTS_MOST:
        lines.append(f"... and {len(run.isr_events) - EVENTS_MOST:,} more")
    remark = [chosen.remark] if chosen.remark else []
    room = max(width, 20)
    return line_table("Rehearsed", [*_wrapped(remark, room), *lines, *_wrapped(notes, room)])


def _wrapped(sentences: Iterable[str], width: int) -> Iterable[str]:
    return (line for sentence in sentences for line in wrap(sentence, width))


def _event_words(event: IsrEvent) -> str:
    verb = "leaves" if event.left else "is back in"
    at = duration_text(event.at_s)
    return f"{at:>6}  broker {event.broker} {verb} the ISR of {event.name}"


# The plot

PLOTTED_MOST: Final = 3
"""Brokers that are drawn; more lines nobody tells apart."""
MARKS: Final = "abc"


def plotted(run: Rehearsal) -> tuple[str, list[tuple[str, list[float]]]]:
    """A title that says which letter is which broker, and each letter's line: what the busiest
    brokers receive."""
    peaks = run.peak_received_bytes_per_s()
    busiest = sorted(peaks, key=lambda broker: (-peaks[broker], broker))[:PLOTTED_MOST]
    columns = {broker: place for place, broker in enumerate(run.brokers)}
    received = run.timeline.received_bytes_per_s
    lines = [
        (mark, received[:, columns[broker]].tolist())
        for mark, broker in zip(MARKS, busiest, strict=False)
    ]
    named = listed(f"{mark} = {broker}" for mark, broker in zip(MARKS, busiest, strict=False))
    return f"Replication into the busiest brokers ({named})", lines
