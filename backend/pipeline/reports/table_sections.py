"""Sections of a report that are made from tables other than `rates`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kshunt.backend.domain.pipeline.file_faults import fault_text
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    QUALITY,
    QUARANTINE_FILES,
    STALLS,
    THROTTLE_EFFECT,
    UNKNOWN_CAUSE,
)
from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS, Cause
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    duration_text,
    limit_text,
    many,
    moment_text,
    percent_text,
    rate_text,
)
from kshunt.backend.pipeline.reports.document import (
    Block,
    Bullets,
    FactList,
    Heading,
    Paragraph,
    TableBlock,
)
from kshunt.backend.pipeline.reports.report_files import Missed

LONGEST: Final = 10
THROTTLES_MOST: Final = 24
FILES_MOST: Final = 10
BRIEF_S: Final = 30
"""Of a rate that was seen for less there is no advice."""
_OF_SIDE: Final = {"leader": "sends", "follower": "fetches"}

Row = dict[str, Any]
Tables = Mapping[str, Any]
Span = tuple[float, float]
Brokers = Mapping[str, set[int]]
"""By direction: those whose throttle could hold the operation."""


def ms(at: datetime) -> float:
    """A time of a row in milliseconds."""
    return at.timestamp() * 1000


def _during(tables: Tables, name: str, span: Span) -> list[Row] | None:
    """Rows with `start` and `end` that touch the operation's time; None without the table."""
    if name not in tables:
        return None
    return [
        row
        for row in tables[name].to_pylist()
        if ms(row["end"]) >= span[0] and ms(row["start"]) <= span[1]
    ]


# What to do


def next_steps(
    tables: Tables, operation: str, brokers: Brokers, span: Span, *, over: bool
) -> list[Block]:
    """What is open: stalls that have not ended, and better rates for what still runs."""
    if over:
        text = "Nothing, according to the samples. Check that its throttles are removed."
        return [Heading("What is left to do"), Paragraph(text)]
    steps = []
    by_cause: dict[str, list[Row]] = defaultdict(list)
    for row in _stalls(tables, operation, span) or []:
        if row["open"]:
            by_cause[row["cause"]].append(row)
    for cause, rows in sorted(by_cause.items(), key=lambda item: -len(item[1])):
        longest = max(rows, key=lambda row: row["seconds"])
        steps.append(
            f"{many(len(rows), 'copy', 'copies')} at a standstill, {_replica(longest)} for "
            f"{duration_text(longest['seconds'])}: {about_cause(cause)}"
        )
    latest = _latest(_effects(tables, brokers, span) or [])
    steps += [
        f"Broker {row['broker']}, what it {_OF_SIDE[row['direction']]}: {_advice(row)}."
        for row in latest
        if row["advice"] in ("raise", "lower")
    ]
    nothing = "No copy is at a standstill, and no throttle needs a change: let it run."
    return [Heading("What is left to do"), Bullets(steps) if steps else Paragraph(nothing)]


def about_cause(cause: str) -> str:
    """What a cause means and what to do, from its key."""
    about = CAUSE_TEXTS.get(Cause[cause.upper()]) if cause.upper() in Cause.__members__ else None
    if about is None:
        return "no cause was diagnosed."
    return " ".join(filter(None, [about.reason, about.action]))


# Stalls


def stalls(tables: Tables, operation: str, span: Span) -> list[Block]:
    """Which copies did not advance, for how long, and why."""
    head = Heading("Stalls")
    rows = _stalls(tables, operation, span)
    if rows is None:
        return [head, Paragraph("The table of stalls was not made.")]
    if not rows:
        return [head, Paragraph("No copy of it stood still for 10 s or longer.")]
    by_cause: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_cause[row["cause"]].append(row)
    causes = [
        (
            short_cause(cause),
            str(len(some)),
            str(len({row["rid"] for row in some})),
            duration_text(sum(row["seconds"] for row in some)),
            duration_text(max(row["seconds"] for row in some)),
            about_cause(cause),
        )
        for cause, some in sorted(by_cause.items(), key=lambda item: -_seconds(item[1]))
    ]
    names = ("cause", "stalls", "copies", "in all", "longest", "meaning")
    longest = sorted(rows, key=lambda row: -row["seconds"])[:LONGEST]
    each = [
        (
            moment_text(ms(row["start"])),
            duration_text(row["seconds"]) + (", and on" if row["open"] else ""),
            _replica(row),
            "?" if row["leader"] is None else str(row["leader"]),
            bytes_text(row["lag_end_bytes"]),
            short_cause(row["cause"]),
        )
        for row in longest
    ]
    columns = ("UTC", "for", "copy", "leader", "behind", "cause")
    return [
        head,
        TableBlock(names, causes, frozenset(names[1:5])),
        Paragraph("The longest:"),
        TableBlock(columns, each, frozenset({"for", "leader", "behind"})),
    ]


def _stalls(tables: Tables, operation: str, span: Span) -> list[Row] | None:
    rows = _during(tables, STALLS.name, span)
    return None if rows is None else [row for row in rows if row["operation_id"] == operation]


def _seconds(rows: Sequence[Row]) -> float:
    return float(sum(row["seconds"] for row in rows))


def _replica(row: Row) -> str:
    return f"{row['topic']}-{row['partition']} on broker {row['broker']}"


def short_cause(cause: str) -> str:
    """A cause in two or three words, from its key."""
    known = CAUSE_TEXTS.get(Cause[cause.upper()]) if cause.upper() in Cause.__members__ else None
    return "not diagnosed" if cause == UNKNOWN_CAUSE else known.short if known else cause


# Throttles


def throttles(tables: Tables, brokers: Brokers, span: Span) -> list[Block]:
    """What each rate achieved, what steady followers did meanwhile, and what would be better."""
    head = Heading("Effect of the throttles")
    rows = _effects(tables, brokers, span)
    if rows is None:
        return [head, Paragraph("The table of effects was not made.")]
    if not rows:
        return [head, Paragraph("No throttle held copies of these brokers in that time.")]
    by_rate: dict[tuple[int, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        by_rate[row["broker"], row["direction"], row["permitted_bytes_per_s"]].append(row)
    lines = [_effect(some) for _, some in sorted(by_rate.items(), key=lambda i: _first(i[1]))]
    names = (
        "broker", "side", "permitted", "for", "copied", "share used", "copies", "left the ISR",
        "steady lag p95",
    )  # fmt: skip
    text = (
        "This covers every copy under these brokers' throttles in that time, also of other "
        "operations. The share counts copies and listed replicas in sync. Steady lag is the "
        "highest lag of followers that no move touches."
    )
    advice = [
        f"Broker {row['broker']}, the bytes that it {_OF_SIDE[row['direction']]}, as of "
        f"{moment_text(ms(row['end']))}: {_advice(row)}."
        for row in _latest(rows)
    ]
    more = len(lines) - THROTTLES_MOST
    return [
        head,
        TableBlock(names, lines[:THROTTLES_MOST], frozenset(names) - {"side"}),
        *([Paragraph(f"And {many(more, 'rate')} more.")] if more > 0 else []),
        Paragraph(text),
        Bullets(advice[:THROTTLES_MOST]),
    ]


def _effects(tables: Tables, brokers: Brokers, span: Span) -> list[Row] | None:
    rows = _during(tables, THROTTLE_EFFECT.name, span)
    if rows is None:
        return None
    return [row for row in rows if row["broker"] in brokers.get(row["direction"], ())]


def _first(rows: Sequence[Row]) -> tuple[datetime, str, int]:
    row = min(rows, key=lambda row: row["start"])
    return row["start"], row["direction"], row["broker"]


def _effect(rows: Sequence[Row]) -> tuple[str, ...]:
    """Of pieces of time under one rate, one line."""
    row = rows[0]
    lags = [r["steady_lag_p95_s"] for r in rows if r["steady_lag_p95_s"] is not None]
    achieved = _mean(rows, "achieved_bytes_per_s")
    return (
        str(row["broker"]),
        _OF_SIDE[row["direction"]],
        limit_text(row["permitted_bytes_per_s"]),
        duration_text(_seconds(rows)),
        rate_text(achieved),
        percent_text(_mean(rows, "share_used")),
        str(max(r["copies"] for r in rows)),
        str(sum(r["left_isr"] for r in rows)),
        f"{max(lags):.1f} s" if lags else "?",
    )


def _mean(rows: Sequence[Row], name: str) -> float | None:
    """Weighted by time."""
    known = [row for row in rows if row[name] is not None and row["seconds"] > 0]
    weights = _seconds(known)
    return sum(row[name] * row["seconds"] for row in known) / weights if weights else None


def _latest(rows: Sequence[Row]) -> list[Row]:
    """Of each broker and side the last piece of time, or the one before it that says more of the
    same rate."""
    last: dict[tuple[int, str], Row] = {}
    for row in sorted(rows, key=lambda row: row["start"]):
        before = last.get((row["broker"], row["direction"]))
        brief = before is not None and row["seconds"] < BRIEF_S <= before["seconds"]
        if before is None or not brief or _rate(row) != _rate(before):
            last[row["broker"], row["direction"]] = row
    return [last[key] for key in sorted(last)]


def _rate(row: Row) -> int:
    return int(row["permitted_bytes_per_s"])


def _advice(row: Row) -> str:
    """`raise to 30.0 MB/s: the throttle binds and steady followers keep up`."""
    to = ""
    if row["advice"] in ("raise", "lower"):
        to = f" from {rate_text(row['permitted_bytes_per_s'])}"
        to += f" to {rate_text(row['recommended_bytes_per_s'])}"
    return f"{row['advice']}{to}: {row['reason']}"


# Disks


def disks(tables: Tables, brokers: Sequence[int]) -> list[Block]:
    """How full the disks are that were written to, by the last hour that is known."""
    if BROKER_LOAD.name not in tables:
        return []
    last: dict[int, Row] = {}
    for row in sorted(tables[BROKER_LOAD.name].to_pylist(), key=lambda row: row["start"]):
        if row["broker"] in brokers:
            last[row["broker"]] = row
    if not last:
        return []
    lines = [
        (
            str(broker),
            bytes_text(row["disk_used_bytes"]),
            bytes_text(row["disk_free_bytes"]),
            rate_text(row["growth_bytes_per_s"]) if (row["growth_bytes_per_s"] or 0) > 0 else "no",
            "-" if row["full_in_s"] is None else duration_text(row["full_in_s"]),
            moment_text(ms(row["newest"])),
        )
        for broker, row in sorted(last.items())
    ]
    names = ("broker", "used", "free", "grows by", "full in", "as of")
    return [
        Heading("Disks of the brokers that it moved to"),
        TableBlock(names, lines, frozenset(names[:-1])),
        Paragraph("Growth is over up to 24 h before, and includes what this operation moved."),
    ]


# What lacks


def quality(tables: Tables, missed: Sequence[Missed], span: Span) -> list[Block]:
    """What was not recorded, and which samples were not as expected."""
    head = Heading("Gaps and data quality")
    gaps = [
        f"{moment_text(gap.from_ms)} to {moment_text(gap.to_ms)}, "
        f"{duration_text((gap.to_ms - gap.from_ms) / 1000)}: {gap.text}"
        for gap in missed
    ]
    blocks: list[Block] = [head]
    blocks.append(Bullets(gaps) if gaps else Paragraph("The recorder noted no gap in that time."))
    blocks += _files_aside(tables)
    if QUALITY.name not in tables:
        return blocks
    rows = [
        row
        for row in tables[QUALITY.name].to_pylist()
        if ms(row["period_end"]) > span[0] and ms(row["period_start"]) <= span[1]
        if row["of"] != "files"
    ]
    broken = [row for row in rows if row["violations"]]
    if not broken:
        seen = (
            "All samples of its hours passed the checks."
            if rows
            else ("No results of these checks are stored.")
        )
        return [*blocks, Paragraph(seen)]
    sums: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for row in broken:
        key = (row["of"], row["expectation"], row["outcome"], row["meaning"])
        sums[key] += row["violations"]
    facts = [
        (f"{table}, {name}", f"{many(count, 'sample')} {outcome}; expected: {meaning}")
        for (table, name, outcome, meaning), count in sorted(sums.items())
    ]
    return [
        *blocks,
        Paragraph("Samples of its hours, of any partition, that failed a check:"),
        FactList(facts),
    ]


def _files_aside(tables: Tables) -> list[Block]:
    """Files of samples of that time whose rows are missing everywhere."""
    if QUARANTINE_FILES.name not in tables:
        return []
    found = {
        (row["of"], row["file"]): row["fault"]
        for row in sorted(tables[QUARANTINE_FILES.name].to_pylist(), key=lambda r: ms(r["found"]))
    }
    if not found:
        return []
    lines = [f"{file}: {fault_text(fault)}" for (_, file), fault in sorted(found.items())]
    more = [f"and {many(len(lines) - FILES_MOST, 'more file')}"] if len(lines) > FILES_MOST else []
    return [
        Paragraph(f"{many(len(lines), 'file')} of samples set aside; all results lack their rows:"),
        Bullets([*lines[:FILES_MOST], *more]),
    ]
