"""What `kshunt plan` says of a plan and of its rehearsals, in words and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.end_words import (
    clock_text,
    moment_ms,
    never_text,
    when_text,
)
from kshunt.backend.domain.planning.impact import BrokerImpact, Impact
from kshunt.backend.domain.planning.proposal import Measure, note_sentences
from kshunt.backend.domain.planning.rehearsal import Deadline, PlanForecast, Rehearsal
from kshunt.backend.domain.planning.requests import PlanAnswer, RehearsalAnswer
from kshunt.backend.domain.text.formatting import (
    NEVER,
    UNKNOWN,
    bytes_text,
    duration_text,
    limit_text,
    listed,
    many,
    rate_text,
)

NOTES_SHOWN: Final = 12
EVENTS_SHOWN: Final = 6
TIMELINE_ROWS: Final = 10
RANGES: Final = "Done eight times in ten within the range, if it begins now."


def plan_lines(answer: PlanAnswer) -> Iterator[str]:
    """A proposal: what it is, how near it comes, what it does, and what it leaves undone."""
    proposal = answer.proposal
    yield proposal.sentence
    yield _measure(proposal.measure)
    if proposal.targets:
        yield ""
        yield from impact_lines(answer.impact)
    if proposal.notes:
        yield ""
        yield "Notes:"
        notes = note_sentences(proposal.notes)
        yield from (f"  {note}" for note in notes[:NOTES_SHOWN])
        if len(notes) > NOTES_SHOWN:
            yield f"  and {len(notes) - NOTES_SHOWN} more; --json has all."


def _measure(measure: Measure) -> str:
    show = bytes_text if measure.in_bytes else _plain
    name = f"{measure.name[:1].upper()}{measure.name[1:]}"
    return f"{name}: {show(measure.before)}, then {show(measure.after)}."


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def impact_lines(impact: Impact) -> Iterator[str]:
    """What a plan does: totals, what endangers, phases, and the brokers that it touches."""
    unknown = f", {impact.unknown_sizes} of unknown size" if impact.unknown_sizes else ""
    yield (
        f"{many(impact.partitions, 'partition')} change: {many(impact.added, 'replica')} copied "
        f"({bytes_text(impact.moved_bytes)}{unknown}), {impact.removed:,} dropped, "
        f"{many(impact.reordered, 'list')} only reordered."
    )
    yield (
        f"Leaders that must move: {impact.leaders_moved:,}; other preferred leaders: "
        f"{impact.preferred_moved:,}."
    )
    yield (
        f"Racks: {many(len(impact.fewer_racks), 'partition')} in fewer{_named(impact.fewer_racks)},"
        f" {impact.more_racks:,} in more."
    )
    yield (
        f"In sync: {many(len(impact.on_the_edge), 'partition')} without a spare replica during "
        f"the move{_named(impact.on_the_edge)}; {len(impact.under_min_isr):,} with fewer than "
        f"min.insync.replicas at the end{_named(impact.under_min_isr)}."
    )
    if len(impact.phases) > 1:
        yield f"{len(impact.phases)} phases: {listed(impact.phases, 12)} partitions."
    yield ""
    yield from table(_broker_rows(impact.brokers))
    if others := sum(not row.changes for row in impact.brokers):
        yield f"Brokers that do not change: {others:,}."


def _named(partitions: Sequence[TopicPartition]) -> str:
    return f" ({listed(partitions, 3)})" if partitions else ""


def _broker_rows(brokers: Iterable[BrokerImpact]) -> Iterator[Sequence[str]]:
    yield (
        *("Broker", "replicas", "after", "leaders", "after"),
        *("bytes", "peak", "after", "disk at peak", "receives", "sends"),
    )
    for row in brokers:
        if not row.changes:
            continue
        yield (
            str(row.broker),
            *(f"{row.replicas_before:,}", f"{row.replicas_after:,}"),
            *(f"{row.leaders_before:,}", f"{row.leaders_after:,}"),
            *map(bytes_text, (row.bytes_before, row.bytes_peak, row.bytes_after)),
            _percent(row),
            *map(bytes_text, (row.received_bytes, row.sent_bytes)),
        )


def _percent(row: BrokerImpact) -> str:
    return "?" if row.peak_share is None else f"{row.peak_share:.0%}"


def rehearsal_lines(named: Sequence[tuple[str, RehearsalAnswer]], now_ms: int) -> Iterator[str]:
    """Throttles side by side, and the course of each where a twin ran it.

    Args:
        named: The plan's name (empty where there is one only), and the answer about it.
        now_ms: Milliseconds since the epoch.
    """
    yield from table(_throttle_rows(named, now_ms))
    yield RANGES
    for name, answer in named:
        yield from _never_lines(name, answer)
    runs = [(name, each) for name, answer in named for each in answer.rehearsals]
    for name, each in runs:
        yield ""
        yield from _progress_lines(name, each)
    notes = dict.fromkeys(note for _, answer in named for note in answer.notes)
    if notes:
        yield ""
        yield from notes


def _throttle_rows(
    named: Sequence[tuple[str, RehearsalAnswer]], now_ms: int
) -> Iterator[Sequence[str]]:
    first = ("Plan",) if any(name for name, _ in named) else ()
    twin = any(answer.rehearsals for _, answer in named)
    heads = ("most in", "most out", "fullest disk", "ISR drops", "under min ISR")
    yield (*first, "Throttle", "takes", "done at", *(heads if twin else ()))
    for name, answer in named:
        for place, one in enumerate(answer.forecasts):
            run = answer.rehearsals[place] if twin else None
            yield (
                *((name,) if first else ()),
                limit_text(one.throttle_bytes_per_s),
                *_end_cells(one, run, now_ms),
                *(() if run is None else _twin_cells(run, answer.impact)),
            )


def _end_cells(one: PlanForecast, run: Rehearsal | None, now_ms: int) -> tuple[str, str]:
    if one.never or (run is not None and run.never):
        return NEVER, "-"
    if not one.ends or one.end.p50_s is None:
        return UNKNOWN, "-"
    return duration_text(one.end.p50_s), when_text(one.end, now_ms)


def _twin_cells(run: Rehearsal, impact: Impact) -> tuple[str, ...]:
    return (
        _most(run.peak_received_bytes_per_s()),
        _most(run.peak_sent_bytes_per_s()),
        _fullest(run, impact),
        str(run.isr_drops),
        str(int(run.timeline.under_min_isr.max())),
    )


def _never_lines(name: str, answer: RehearsalAnswer) -> Iterator[str]:
    """Why it never ends, or not soon, once for each throttle: by the twin, or else the model."""
    for place, one in enumerate(answer.forecasts):
        run = answer.rehearsals[place] if answer.rehearsals else None
        why = run.why if run is not None and run.never else ""
        if one.never and not why:
            why = f"{never_text(one.end)}."
        title = _title(name, one.throttle_bytes_per_s)
        if why:
            yield f"{title}: never done. {why}"
        elif run is not None and run.stopped:
            yield f"{title}: {run.why}"


def _most(rates: Mapping[int, float]) -> str:
    broker, rate = max(rates.items(), key=lambda one: one[1], default=(-1, 0.0))
    return f"{rate_text(rate)} ({broker})" if rate else "-"


def _fullest(rehearsal: Rehearsal, impact: Impact) -> str:
    """The broker whose disks are fullest at any time, by share where their size is known."""
    disks = {row.broker: row.disk_bytes for row in impact.brokers}
    peaks = rehearsal.peak_disk_bytes()
    shares = {
        broker: peak / total for broker, peak in peaks.items() if (total := disks.get(broker))
    }
    if shares:
        broker, share = max(shares.items(), key=lambda one: one[1])
        return f"{share:.0%} ({broker})"
    broker, peak = max(peaks.items(), key=lambda one: one[1], default=(-1, 0.0))
    return f"{bytes_text(peak)} ({broker})"


def _progress_lines(name: str, rehearsal: Rehearsal) -> Iterator[str]:
    yield f"{_title(name, rehearsal.throttle_bytes_per_s)}:"
    line = rehearsal.timeline.thinned(TIMELINE_ROWS)
    rows: list[Sequence[str]] = [("  after", "left", "into brokers", "busiest", "out of sync")]
    for point in range(len(line)):
        into = line.received_bytes_per_s[point]
        busiest = rehearsal.brokers[int(into.argmax())] if len(into) and into.max() > 0 else None
        rows.append(
            (
                f"  {duration_text(float(line.at_s[point]))}",
                bytes_text(float(line.remaining_bytes[point])),
                rate_text(float(into.sum())),
                "-" if busiest is None else f"{rate_text(float(into.max()))} ({busiest})",
                str(int(line.out_of_sync[point])),
            )
        )
    yield from table(rows)
    for event in rehearsal.isr_events[:EVENTS_SHOWN]:
        verb = "falls out of" if event.left else "is back in"
        at = duration_text(event.at_s)
        yield f"  after {at}, broker {event.broker} {verb} the ISR of {event.name}"
    if len(rehearsal.isr_events) > EVENTS_SHOWN:
        yield f"  and {len(rehearsal.isr_events) - EVENTS_SHOWN} more changes of ISRs"


def _title(name: str, limit: int | None) -> str:
    throttle = "without a throttle" if limit is None else f"at {rate_text(limit)}"
    return f"{name} {throttle}" if name else throttle[0].upper() + throttle[1:]


def deadline_lines(deadline: Deadline, forecast: PlanForecast, now_ms: int) -> Iterator[str]:
    """Which throttle a deadline takes, and what each broker has to carry for it.

    `forecast` is that of the throttle, or without one where no throttle is enough.
    """
    by, rate, end = clock_text(deadline.at_ms, now_ms), deadline.throttle_bytes_per_s, forecast.end
    sure = f"{deadline.certainty:.0%} certainty"
    if rate is not None:
        yield (
            f"To be done by {by} with {sure}, it needs a throttle of {rate_text(rate)} ({rate} "
            "bytes a second)"
        )
        yield f"on each broker that takes part; it is then done at {when_text(end, now_ms)}."
    elif forecast.never:
        yield f"Not possible by {by}: it never ends. {never_text(end)}."
    elif not forecast.ends or end.p90_s is None:
        yield f"Not possible by {by} at any throttle; its earliest end is unknown."
    else:
        earliest = clock_text(moment_ms(end, end.p90_s), now_ms)
        yield f"Not possible by {by}; with {sure} the earliest is {earliest}, without a throttle."
    rows: list[Sequence[str]] = [("Broker", "must receive", "must send")]
    for broker, (received, sent) in sorted(deadline.needs.items()):
        rows.append((str(broker), rate_text(received), rate_text(sent)))
    if len(rows) > 1:
        yield from table(rows)


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns under their heads, numbers to the right; the first column to the left."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([first, *rest]).rstrip()
