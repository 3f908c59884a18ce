"""Sections of the report of a week: operations, stalls, the ISR, throttles, brokers, topics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent
from kshunt.backend.domain.pipeline.result_columns import BROKER_LOAD, STALLS
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.domain.pipeline.weeks import DAYS, day_text
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    duration_text,
    many,
    moment_text,
    percent_text,
    rate_text,
)
from kshunt.backend.pipeline.reports.document import (
    Bar,
    Bars,
    Block,
    Bullets,
    Heading,
    Paragraph,
    TableBlock,
)
from kshunt.backend.pipeline.reports.table_sections import about_cause, ms, short_cause
from kshunt.backend.pipeline.reports.week_operations import WeekOperation
from kshunt.backend.pipeline.reports.week_rates import WeekRates
from kshunt.backend.pipeline.reports.week_results import WeekMaterial

OPERATIONS_MOST: Final = 60
TOPICS_MOST: Final = 12
BROKERS_MOST: Final = 30
DRIFTS_MOST: Final = 12
DROPS_MOST: Final = 8

Row = dict[str, Any]
Loads = Mapping[int, list[Row]]
"""Hours of the week by broker, in the order of time."""


def no_table(name: str) -> str:
    """A table has files once it has rows."""
    return f"The results have no table {name}."


# Operations


def operations_table(material: WeekMaterial, found: Sequence[WeekOperation]) -> list[Block]:
    """Those that copied in the week, their first forecast and how that turned out."""
    head = Heading("Operations")
    if not found:
        return [head, Paragraph("No operation of kshunt copied anything in these hours.")]
    newest_ms = material.rates.newest_ms
    rows = [
        (
            one.id,
            "?" if one.recorded is None else one.recorded.kind.value,
            moment_text(one.began_ms).removesuffix(" UTC"),
            _state(one, material, newest_ms),
            bytes_text(one.copied_bytes) if one.copies else "-",
            f"{one.arrived} of {one.copies}" if one.copies else "-",
            _forecast(one),
            duration_text(one.true_s),
            _held(one),
            "-" if one.bound is None else f"{one.bound} ({duration_text(one.bound_s)})",
        )
        for one in found[:OPERATIONS_MOST]
    ]
    names = (
        "operation", "kind", "began (UTC)", "end", "copied", "in the ISR", "first forecast",
        "true", "in range", "held up most by",
    )  # fmt: skip
    more = len(found) - OPERATIONS_MOST
    return [
        head,
        TableBlock(names, rows, frozenset({"copied", "in the ISR", "true"})),
        *([Paragraph(f"And {many(more, 'operation')} after these.")] if more > 0 else []),
        Paragraph(_judged(found)),
        *_reasons(found),
    ]


def _state(one: WeekOperation, material: WeekMaterial, newest_ms: int | None) -> str:
    recorded = one.recorded
    if recorded is not None and recorded.ended_ms is not None:
        if recorded.ended_ms >= material.week.to_ms:
            return "after the week"
        return f"{recorded.state.words}, {moment_text(recorded.ended_ms).removesuffix(' UTC')}"
    if recorded is not None:
        return f"none yet: {recorded.state.words}"
    if one.ended_ms is not None:
        return f"all copies in the ISR, {moment_text(one.ended_ms).removesuffix(' UTC')}"
    if one.left_unfinished(newest_ms):
        last = moment_text(one.last_ms).removesuffix(" UTC")
        return f"not completed, or no longer recorded; last seen {last}"
    return "none yet"


def _forecast(one: WeekOperation) -> str:
    if one.forecast is None:
        return "none"
    low, middle, high = (
        duration_text(seconds)
        for seconds in (one.forecast.p10_s, one.forecast.p50_s, one.forecast.p90_s)
    )
    return f"{middle} ({low} to {high})"


def _held(one: WeekOperation) -> str:
    if one.held is None:
        return "?"
    if one.held:
        return "yes"
    assert one.forecast is not None
    return "earlier" if (one.true_s or 0) < one.forecast.p10_s else "later"


def _judged(found: Sequence[WeekOperation]) -> str:
    judged = [one.held for one in found if one.held is not None]
    if not judged:
        return "No first forecast can be judged: no operation both began and completed here."
    right = sum(judged)
    return (
        f"The first forecast was right {right} of {many(len(judged), 'time')}. Right means that "
        "the end was in its range, and the target is 8 in 10. Of an operation that began before "
        "the week, it is the first forecast in the week."
    )


def _reasons(found: Sequence[WeekOperation]) -> list[Block]:
    """Who asked for each and why, as far as the journal says."""
    lines = []
    for one in found[:OPERATIONS_MOST]:
        recorded = one.recorded
        if recorded is None or not (recorded.who or recorded.reason):
            continue
        reason = f", because: {recorded.reason}" if recorded.reason else ""
        lines.append(f"{one.id}: {recorded.who or 'somebody'}{reason}")
    return [Paragraph("Who asked for them:"), Bullets(lines)] if lines else []


# Stalls


@dataclass(frozen=True, slots=True)
class StallsOfWeek:
    """Stalls that ended in the week, or were open at the end of its samples."""

    causes: Mapping[str, tuple[float, int]]
    """By cause in words: seconds, and how many; the longest first."""
    meanings: Mapping[str, str]
    by_day: Mapping[int, float]
    seconds: float
    count: int


def stalls_of(material: WeekMaterial) -> StallsOfWeek | None:
    """Each stall once, as far as it lies in the week; None where the table was not made."""
    if STALLS.name not in material.tables:
        return None
    week = material.week
    last: dict[tuple[int, float], Row] = {}
    for row in material.tables[STALLS.name].to_pylist():
        key = (row["rid"], ms(row["start"]))
        if key not in last or row["end"] >= last[key]["end"]:
            last[key] = row
    seconds: dict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    by_day: dict[int, float] = defaultdict(float)
    meanings: dict[str, str] = {}
    for row in last.values():
        start, end = max(ms(row["start"]), week.from_ms), min(ms(row["end"]), week.to_ms)
        if end <= start:
            continue
        cause = short_cause(row["cause"])
        seconds[cause] += (end - start) / 1000
        counts[cause] += 1
        meanings[cause] = about_cause(row["cause"])
        for day_ms in week.days_ms:
            part = min(end, day_ms + DAY_MS) - max(start, day_ms)
            by_day[day_ms] += max(part, 0) / 1000
    ordered = sorted(seconds.items(), key=lambda one: (-one[1], one[0]))
    causes = {cause: (lasted, counts[cause]) for cause, lasted in ordered}
    return StallsOfWeek(causes, meanings, by_day, sum(seconds.values()), counts.total())


def stalls(found: StallsOfWeek | None) -> list[Block]:
    """By cause, with what to do."""
    head = Heading("Stalls")
    if found is None:
        return [head, Paragraph(f"{no_table(STALLS.name)} Whether a copy stood still is unknown.")]
    if not found.causes:
        return [head, Paragraph("No copy stood still for 10 s or longer.")]
    bars = [Bar(cause, s, duration_text(s)) for cause, (s, _) in found.causes.items()]
    rows = [
        (cause, f"{count:,}", f"{seconds / 3600:.1f} h", found.meanings[cause])
        for cause, (seconds, count) in found.causes.items()
    ]
    names = ("cause", "stalls", "in all", "meaning")
    words = "Times are added up over copies."
    return [
        head,
        Bars("How long copies stood still, by cause", bars),
        TableBlock(names, rows, frozenset({"stalls", "in all"})),
        Paragraph(words),
    ]


# The ISR


def isr_drops(material: WeekMaterial) -> list[Block]:
    """Replicas that nothing moved, and that left the ISR."""
    head = Heading("Replicas that left the ISR")
    drops = material.rates.drops
    if not drops:
        return [head, Paragraph("None that nothing moved, as far as samples saw.")]
    by_broker = Counter(drop.broker for drop in drops).most_common(BROKERS_MOST)
    partitions = Counter(f"{drop.topic}-{drop.partition}" for drop in drops)
    most = [f"{name}: {many(count, 'time')}" for name, count in partitions.most_common(DROPS_MOST)]
    bars = [Bar(f"broker {broker}", count, f"{count:,}") for broker, count in by_broker]
    words = f"{many(len(partitions), 'partition')} had this, most often these:"
    seen = "Replicas at rest are sampled each minute: shorter times outside are not seen."
    return [head, Bars("How often, by broker", bars), Paragraph(words), Bullets(most),
            Paragraph(seen)]  # fmt: skip


# Throttles


def throttles(material: WeekMaterial) -> list[Block]:
    """How long they were in force, and what somebody else changed about them."""
    rates = material.rates
    blocks: list[Block] = [Heading("Throttles")]
    minutes = sum(rates.throttled_minutes.values())
    if rates.hours:
        blocks.append(Paragraph(_in_force(rates, minutes)))
    if material.journal is None:
        text = "Drift is in the audit, and this report was made without it."
        return [*blocks, Paragraph(text)]
    drifts = [
        row
        for row in material.journal.audit
        if isinstance(row, AuditEntry) and row.event is AuditEvent.DRIFT_FOUND
    ]
    if not drifts:
        return [*blocks, Paragraph("The audit has no drift in this week.")]
    lines = [
        f"{moment_text(row.time_ms)}, {row.operation_id or 'no operation'}: "
        f"{'; '.join(row.touched.throttles) or row.outcome}"
        for row in drifts[:DRIFTS_MOST]
    ]
    more = len(drifts) - DRIFTS_MOST
    lines += [f"and {many(more, 'more line')}"] if more > 0 else []
    return [*blocks, Paragraph("Somebody else changed throttles of kshunt:"), Bullets(lines)]


def _in_force(rates: WeekRates, minutes: int) -> str:
    if not minutes:
        return "No sample was under a throttle."
    idle = sum(rates.idle_minutes.values())
    words = f"Samples were under a throttle for {duration_text(minutes * 60)}, in whole minutes."
    if not idle:
        return f"{words} Something was copied all that time."
    worst = max(rates.idle_minutes.items(), key=lambda one: (one[1], one[0]))
    return (
        f"{words} For {duration_text(idle * 60)} of it nothing was copied, most of that on "
        f"{day_text(worst[0])}. A throttle that stays after a move slows down replicas that fall "
        "behind. The throttles view of the dashboard has those that no move needs."
    )


# Brokers


def loads_of(material: WeekMaterial) -> Loads | None:
    """What brokers carried; None where the table was not made."""
    if BROKER_LOAD.name not in material.tables:
        return None
    last: dict[tuple[int, float], Row] = {}
    for row in material.tables[BROKER_LOAD.name].to_pylist():
        start = ms(row["start"])
        if not material.week.has(start):
            continue
        key = (row["broker"], start)
        if key not in last or row["newest"] >= last[key]["newest"]:
            last[key] = row
    found: dict[int, list[Row]] = defaultdict(list)
    for (broker, _), row in sorted(last.items()):
        found[broker].append(row)
    return found


def _mean(rows: Sequence[Row], name: str) -> float | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) / len(known) if known else None


def _total(row: Row) -> float:
    names = ("in_bytes_per_s", "out_bytes_per_s", "produced_bytes_per_s", "replicated_bytes_per_s")
    return float(sum(row[name] or 0.0 for name in names))


def brokers(loads: Loads | None) -> list[Block]:
    """How much each carried, and its busiest hour."""
    head = Heading("Load of brokers")
    if loads is None:
        words = f"{no_table(BROKER_LOAD.name)} It has a row once an hour is over."
        return [head, Paragraph(words)]
    if not loads:
        return [head, Paragraph("It has nothing of this week.")]
    rows = []
    hottest = [(max(hours, key=_total), broker, hours) for broker, hours in loads.items()]
    hottest.sort(key=lambda one: (-_total(one[0]), one[1]))
    for busiest, broker, hours in hottest[:BROKERS_MOST]:
        rows.append(
            (
                str(broker),
                f"{len(hours)} h",
                percent_text(_mean(hours, "answering")),
                rate_text(_mean(hours, "produced_bytes_per_s")),
                rate_text(_mean(hours, "in_bytes_per_s")),
                rate_text(_mean(hours, "out_bytes_per_s")),
                percent_text(_mean(hours, "leader_share")),
                _hour(busiest),
                rate_text(_total(busiest)),
            )
        )
    names = (
        "broker", "known", "answered", "produced", "moved in", "moved out", "leads",
        "busiest hour", "then",
    )  # fmt: skip
    more = len(loads) - len(rows)
    words = (
        "Rates are means of hours. The last column adds up what was produced, replicated and moved "
        "in the busiest hour."
    )
    words += f" {many(more, 'broker')} left out." if more > 0 else ""
    numbers = frozenset(names) - {"busiest hour"}
    return [head, TableBlock(names, rows, numbers), Paragraph(words)]


def _hour(row: Row) -> str:
    at = row["start"]
    return f"{DAYS[at.weekday()]} {at:%H}:00"


# Disks


def _full_s(rows: Sequence[Row]) -> float | None:
    full: float | None = rows[-1]["full_in_s"]
    return full


def first_full(loads: Loads) -> str:
    """Which disk is full first; empty where none fills, or it is not known."""
    soon = [(full, broker) for broker, rows in loads.items() if (full := _full_s(rows)) is not None]
    if not soon:
        return ""
    full, broker = min(soon)
    at = moment_text(ms(loads[broker][-1]["newest"]))
    return f"The disks of broker {broker} are full first: in {duration_text(full)}, as of {at}."


def disks(loads: Loads | None) -> list[Block]:
    """How full the disks are at the end of the week, those that are full first at the top."""
    head = Heading("Disks")
    if not loads:
        return [head, Paragraph("Nothing is known of them.")]
    known = {
        broker: rows for broker, rows in loads.items() if rows[-1]["disk_used_bytes"] is not None
    }
    if not known:
        return [head, Paragraph("No broker reported its disks.")]
    ordered = sorted(
        known.items(),
        key=lambda one: (full if (full := _full_s(one[1])) is not None else float("inf"), one[0]),
    )
    rows = [_disk(broker, hours) for broker, hours in ordered[:BROKERS_MOST]]
    names = ("broker", "used", "change", "free", "full in", "as of")
    words = "The change is from the first to the last hour that is known."
    return [head, TableBlock(names, rows, frozenset(names[:-1])), Paragraph(words)]


def _disk(broker: int, hours: Sequence[Row]) -> tuple[str, ...]:
    used = [row["disk_used_bytes"] for row in hours if row["disk_used_bytes"] is not None]
    change, full = used[-1] - used[0], _full_s(hours)
    return (
        str(broker),
        bytes_text(used[-1]),
        ("+" if change > 0 else "") + bytes_text(change),
        bytes_text(hours[-1]["disk_free_bytes"]),
        "-" if full is None else duration_text(full),
        moment_text(ms(hours[-1]["newest"])),
    )


# Topics


def topics(material: WeekMaterial) -> list[Block]:
    """Topics that were written most."""
    head = Heading("Topics that were written most")
    written = material.rates.written
    found = [(name, size) for name, size in written.most_common(TOPICS_MOST) if size > 0]
    if not found:
        return [head, Paragraph("No sample saw a log grow.")]
    total = sum(size for size in written.values() if size > 0)
    seconds = len(material.rates.hours) * 3600
    rows = [
        (name, bytes_text(size), rate_text(size / seconds), percent_text(size / total))
        for name, size in found
    ]
    names = ("topic", "written", "mean", "share")
    words = "Bytes in the leaders' logs, before retention, in the hours with results."
    more = sum(size > 0 for size in written.values()) - len(found)
    words += f" {many(more, 'topic')} left out." if more > 0 else ""
    return [head, TableBlock(names, rows, frozenset(names[1:])), Paragraph(words)]
