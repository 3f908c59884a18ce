"""What the data pipeline delivered, in lines of the history: each part with its age and source."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from kshunt.backend.domain.pipeline.delivered import (
    BottleneckRow,
    EtaRow,
    LoadRow,
    PairRow,
    PipelinePast,
    PipelineState,
    PipelineStatus,
    QualityRow,
    Rows,
    RunsAs,
    StallRow,
    TableStatus,
    TransferHistory,
)
from kshunt.backend.domain.pipeline.file_faults import fault_text
from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS, Cause
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    count_text,
    duration_text,
    many,
    rate_text,
)
from kshunt.tui.actions.view_names import BROKERS, OPERATIONS, PARTITIONS
from kshunt.tui.facts.forecast import PipelineForecast, age_text, end_text, of_operation
from kshunt.tui.facts.row_keys import ReplicaKey
from kshunt.tui.tables.lines import Line, LinePart, fitted, labelled, wrapped
from kshunt.tui.tables.model import Cell
from kshunt.tui.tables.targets import ScreenTarget
from kshunt.tui.text.bars import sparkline
from kshunt.tui.text.fitting import fit, printable
from kshunt.tui.text.glyphs import Glyphs

ROWS_MOST: Final = 5
"""Of a table; what matters most comes first."""
PAIRS_MOST: Final = 3
FULL_SOON_S: Final = 7 * 86_400.0
FULL_NOW_S: Final = 86_400.0

_TONES: Final = {
    PipelineState.RUNNING: "good",
    PipelineState.UNATTENDED: "",
    PipelineState.FAILED: "bad",
    PipelineState.LATE: "bad",
}
_SECTIONS: Final = {
    "eta": "forecasts",
    "rates": "lag and throughput",
    "stalls": "stalls",
    "broker_load": "broker load",
    "move_pairs": "pairs",
    "quality": "quality",
}

Section = tuple[str, list[Line]]


def sections(
    pipeline_status: PipelineStatus | None,
    past: PipelinePast | None,
    now_ms: int,
    width: int,
    glyphs: Glyphs,
    *,
    unknown: str = "",
) -> list[Section]:
    """Label and lines of each part; how the pipeline stands comes first.

    `unknown` is why nobody will say anything of it, where nobody has.
    """
    found = [("Pipeline", _pipeline_state(pipeline_status, past, width, glyphs, unknown))]
    if pipeline_status is None or past is None:
        return found
    parts: tuple[tuple[str, str, Callable[[], list[Line]]], ...] = (
        ("eta", "Forecast", lambda: _etas(past, now_ms, width, glyphs)),
        ("eta", "Limits", lambda: _limits(past.bottlenecks, now_ms, width, glyphs)),
        ("rates", "Copies", lambda: _transfer_lines(past, now_ms, width, glyphs)),
        ("stalls", "Stalls", lambda: _stalls(past, now_ms, width, glyphs)),
        ("broker_load", "Load", lambda: _loads(past.loads, now_ms, width, glyphs)),
        ("move_pairs", "Pairs", lambda: _pairs(past.pairs, now_ms, width, glyphs)),
        ("quality", "Samples", lambda: _quality(past.quality, now_ms, width, glyphs)),
        ("quarantine_files", "Files", lambda: _files(pipeline_status, now_ms, width, glyphs)),
    )
    for table, label, lines in parts:
        if any(one.table == table for one in pipeline_status.tables):
            found.append((label, [_chosen(line, label, n) for n, line in enumerate(lines())]))
    return found


def section_lines(found: Sequence[Section], label_width: int) -> list[Line]:
    """All of them, one below the other."""
    return [line for label, lines in found for line in labelled(label, lines, label_width)]


def _chosen(line: Line, label: str, number: int) -> Line:
    """A line that the cursor stops at, so that it can be scrolled to."""
    return line if line.key is not None else line._replace(key=(label, number))


# How it stands


def _pipeline_state(
    pipeline_status: PipelineStatus | None,
    past: PipelinePast | None,
    width: int,
    glyphs: Glyphs,
    unknown: str,
) -> list[Line]:
    if pipeline_status is None:
        why = "kshunt does not know yet whether one runs."
        return _words(f"{unknown.capitalize()}." if unknown else why, width, glyphs, "dim")
    state = Cell(f"{_state_words(pipeline_status)}:", _TONES.get(pipeline_status.state, "warn"))
    words = [Cell(word) for word in printable(_about(pipeline_status)).split()]
    lines = wrapped([state, *words], width, 3, glyphs)
    if pipeline_status.command:
        command = Cell(printable(pipeline_status.command), "strong")
        lines.append(Line((Cell("run  ", "dim"), command)))
    there = {one.table for one in pipeline_status.tables}
    missing = [title for name, title in _SECTIONS.items() if name not in there]
    if pipeline_status.newest_ms is not None and missing:
        lines += _words(f"Not here: {', '.join(missing)}.", width, glyphs, "dim")
    problems = [printable(one.problem) for one in pipeline_status.tables if one.problem]
    for problem in problems[:2]:
        lines += _words(problem, width, glyphs, "warn")
    if pipeline_status.newest_ms is not None and past is None:
        why = f"Its results are {unknown}." if unknown else "kshunt is asking for its results."
        lines += _words(why, width, glyphs, "dim")
    return [_chosen(line, "Pipeline", number) for number, line in enumerate(lines)]


def _about(pipeline_status: PipelineStatus) -> str:
    """How far behind the samples, why, and how often its process had to be started again."""
    said = []
    if pipeline_status.behind_s is not None:
        said.append(f"results {age_text(pipeline_status.behind_s * 1000)} behind the samples.")
    if pipeline_status.reason:
        said.append(pipeline_status.reason)
    process = pipeline_status.process
    if process is not None and process.restarts:
        last = f", last: {process.last_error.rstrip('.')}" if process.last_error else ""
        again = "Failed" if process.runs_as is RunsAs.THREAD else "Started again"
        said.append(f"{again} {many(process.restarts, 'time')}{last}.")
    return " ".join(said)


def _state_words(pipeline_status: PipelineStatus) -> str:
    """A thread of the backend does not start again: it tries again."""
    process = pipeline_status.process
    thread = process is not None and process.runs_as is RunsAs.THREAD
    tries = thread and pipeline_status.state is PipelineState.RESTARTING
    return "trying again" if tries else pipeline_status.state.value


def _words(text: str, width: int, glyphs: Glyphs, tone: str) -> list[Line]:
    return wrapped([Cell(word, tone) for word in text.split()], width, 2, glyphs)


def source_text(of: TableStatus, now_ms: int) -> str:
    """`(stream, <10s old)`."""
    if of.newest_ms is None:
        return "(nothing yet)"
    age = age_text(now_ms - of.newest_ms)
    return f"({of.source or '?'}, {age} old)"


def _head(text: str, of: TableStatus, now_ms: int, tone: str = "") -> Line:
    return Line((Cell(text + " ", tone), Cell(source_text(of, now_ms), "dim")))


# Its tables


def _etas(past: PipelinePast, now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = []
    for row in past.etas.rows[:ROWS_MOST]:
        id = row.operation_id or ""
        forecast = of_operation([row], id, now_ms)
        if id and forecast is not None:
            lines += _eta(id, row, forecast, source_text(past.etas.of, now_ms), width, glyphs)
    words = "none is fresh" if past.etas.rows else "no running operation has a forecast"
    return lines or [_head(words, past.etas.of, now_ms, "dim")]


def _eta(
    id: str, row: EtaRow, forecast: PipelineForecast, source: str, width: int, glyphs: Glyphs
) -> list[Line]:
    """Its end, how old that is, and what it waits for; one below the other where room is short."""
    room = min(max(len(id), 6), 12)
    left = "" if row.remaining_bytes is None else f"{bytes_text(row.remaining_bytes)} left"
    rate = "" if row.rate_bytes_per_s is None else f"at {rate_text(row.rate_bytes_per_s)}"
    about = (f"{left} {rate}".strip(), printable(forecast.bound))
    cells = [
        Cell(end_text(forecast), "bad" if forecast.never else ""),
        *(Cell(words, "dim") for words in (source, *about) if words),
    ]
    target = ScreenTarget(OPERATIONS, id)
    return [
        Line((Cell(fit("" if number else id, room + 1, glyphs), "strong"), *line.spans))._replace(
            key=("forecast", id, number), target=target
        )
        for number, line in enumerate(wrapped(cells, max(width - room - 1, 1), 3, glyphs))
    ]


def _limits(
    bottlenecks: Rows[BottleneckRow], now_ms: int, width: int, glyphs: Glyphs
) -> list[Line]:
    """What held operations up in a day, and for how long."""
    if not bottlenecks.rows:
        return [_head("nothing was held up in a day", bottlenecks.of, now_ms, "dim")]
    lines = [_head("what held operations up in a day", bottlenecks.of, now_ms)]
    all_s = sum(one.seconds for one in bottlenecks.rows)
    for one in bottlenecks.rows[:ROWS_MOST]:
        parts = [
            LinePart(Cell(printable(one.bound), "strong"), 32),
            LinePart(Cell(duration_text(one.seconds)), 7, right=True),
            LinePart(Cell(f"{one.seconds / all_s:.0%}"), 5, 1, right=True),
            LinePart(Cell(f"  {many(one.operations, 'operation')}", "dim"), 0, 2),
        ]
        lines.append(Line(fitted(parts, width, glyphs), ("limit", one.bound)))
    return lines


def _transfer_lines(past: PipelinePast, now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    history, of = past.course.course, past.course.of
    if not history.points:
        nothing = "nothing was copied" if history.since_ms is None else "being read"
        return [_head(nothing, of, now_ms, "dim")]
    times, copied, lag = even(history)
    span = duration_text((now_ms - times[0]) / 1000)
    older = "" if history.since_ms is None else ", more being read"
    each = duration_text(history.bucket_s).removesuffix("00s").removesuffix("00m")
    head = _head(f"last {span}, a point each {each}{older}", of, now_ms)
    # The newest point is of the present as far as the results are.
    lately = (of.newest_ms or 0) - times[-1] < 2_000 * history.bucket_s
    room = min(max(width - 44, 8), 60)
    lines = [head]
    plotted: tuple[tuple[str, list[float], Callable[[float], str]], ...] = (
        ("throughput", copied, rate_text),
        ("lag", lag, bytes_text),
    )
    for title, values, words in plotted:
        most = words(max(value for value in values if not math.isnan(value)))
        parts = [
            LinePart(Cell(title, "dim"), 10),
            LinePart(Cell(sparkline(values, room, glyphs), "good"), room, 1),
            LinePart(Cell(words(values[-1]) if lately else "-", "strong"), 11, right=True),
            LinePart(Cell(f"most {most}", "dim"), 0, 2),
        ]
        lines.append(Line(fitted(parts, width, glyphs)))
    return lines


def even(history: TransferHistory) -> tuple[list[int], list[float], list[float]]:
    """Times at equal steps, throughput and lag at each; NaN where nothing was copied."""
    step_ms = max(round(history.bucket_s * 1000), 1)
    known = {point.at_ms: point for point in history.points}
    times = list(range(history.points[0].at_ms, history.points[-1].at_ms + 1, step_ms))
    copied = [known[at].copied_bytes_per_s if at in known else math.nan for at in times]
    lag = [known[at].lag_bytes if at in known else math.nan for at in times]
    return times, copied, lag


def cause_text(key: str) -> str:
    """A cause in two or three words, from its key."""
    try:
        return CAUSE_TEXTS[Cause[key.upper()]].short
    except KeyError:
        return "cause not known" if key == "unknown" else printable(key)


def _stalls(past: PipelinePast, now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    causes = past.causes.rows
    count, open_count = sum(one.stalls for one in causes), sum(one.open for one in causes)
    if not count:
        return [_head("none in a day", past.stalls.of, now_ms, "dim")]
    why = ", ".join(f"{cause_text(one.cause)} {one.stalls:,}" for one in causes[:3])
    words = f"{open_count:,} still open, {count:,} in a day: {why}"
    lines = wrapped(
        [
            Cell(words, "warn" if open_count else ""),
            Cell(source_text(past.stalls.of, now_ms), "dim"),
        ],
        width,
        2,
        glyphs,
    )
    return lines + [_stall(one, now_ms, width, glyphs) for one in past.stalls.rows[:ROWS_MOST]]


def _stall(one: StallRow, now_ms: int, width: int, glyphs: Glyphs) -> Line:
    key = ReplicaKey(one.topic, one.partition, one.broker)
    ended = "continues" if one.open else f"{age_text(now_ms - one.end_ms)} ago"
    parts = [
        LinePart(Cell(f"{one.topic}-{one.partition}"), 44 if width >= 100 else 0, names=True),
        LinePart(Cell(f"on {one.broker}"), 6, 1),
        LinePart(Cell(duration_text(one.seconds)), 6, right=True),
        LinePart(Cell(ended, "warn" if one.open else "dim"), 10),
        LinePart(Cell(cause_text(one.cause)), 0 if width >= 100 else 22, 2),
    ]
    target = ScreenTarget(PARTITIONS, key)
    return Line(fitted(parts, width, glyphs), ("stall", key, one.start_ms), target)


def _loads(loads: Rows[LoadRow], now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    rows = sorted(loads.rows, key=lambda one: one.broker)
    if not rows:
        return [_head("no broker yet", loads.of, now_ms, "dim")]
    first = min(rows, key=lambda one: _full_s(one, now_ms))
    soonest = _full_s(first, now_ms)
    words = "no disk will be full"
    if not math.isinf(soonest):
        words = f"broker {first.broker} is full first, in {duration_text(soonest)}"
    elif all(one.disk_used_bytes is None for one in rows):
        words = "no broker reports its disks"
    listed = rows
    if len(rows) > ROWS_MOST:
        listed = sorted(rows, key=lambda one: (_full_s(one, now_ms), one.broker))[:ROWS_MOST]
    lines = [_head(words, loads.of, now_ms, _full_tone(soonest))]
    lines += [_load(one, now_ms, width, glyphs) for one in listed]
    if len(rows) > len(listed):
        more = f"and {many(len(rows) - len(listed), 'more broker', 'more brokers')}"
        lines.append(Line((Cell(more, "dim"),)))
    return lines


def _full_s(one: LoadRow, now_ms: int) -> float:
    """From now until its disk is full; infinite where it does not grow or is not known."""
    if one.full_in_s is None:
        return math.inf
    return max(one.full_in_s - max(now_ms - one.newest_ms, 0) / 1000, 0.0)


def _full_tone(seconds: float) -> str:
    return "bad" if seconds < FULL_NOW_S else "warn" if seconds < FULL_SOON_S else ""


def _load(one: LoadRow, now_ms: int, width: int, glyphs: Glyphs) -> Line:
    full_s = _full_s(one, now_ms)
    full = "does not fill" if math.isinf(full_s) else f"full in {duration_text(full_s)}"
    if one.full_in_s is None and one.growth_bytes_per_s is None:
        full = "growth ?"
    used = "disk ?"
    if one.disk_used_bytes is not None and one.disk_total_bytes:
        used = f"{one.disk_used_bytes / one.disk_total_bytes:.0%} used"
    growth = _rate(one.growth_bytes_per_s)
    growth = growth if growth in ("?", "-") or growth.startswith("-") else f"+{growth}"
    leads = "?" if one.leader_share is None else f"{one.leader_share:.0%}"
    parts = [
        LinePart(Cell(f"broker {one.broker}", "strong"), 11),
        LinePart(Cell(used), 9, 1),
        LinePart(Cell(full, _full_tone(full_s)), 14),
        LinePart(Cell(growth, "dim"), 9, 2, right=True),
        LinePart(Cell(f"in {_rate(one.in_bytes_per_s)}"), 11, 3),
        LinePart(Cell(f"out {_rate(one.out_bytes_per_s)}"), 12, 4),
        LinePart(Cell(f"leads {leads}", "dim"), 10, 5),
    ]
    target = ScreenTarget(BROKERS, one.broker)
    return Line(fitted(parts, width, glyphs), ("load", one.broker), target)


def _rate(bytes_per_s: float | None) -> str:
    if bytes_per_s is None:
        return "?"
    return "-" if not round(bytes_per_s) else f"{rate_text(bytes_per_s, tight=True)}/s"


def _pairs(pairs: Rows[PairRow], now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    if not pairs.rows:
        return [_head("nothing was copied in a day", pairs.of, now_ms, "dim")]
    lines = [_head("rate of one copy in a day: 10 %, half, 90 % below", pairs.of, now_ms)]
    return lines + [_pair(one, width, glyphs) for one in pairs.rows[:PAIRS_MOST]]


def _pair(one: PairRow, width: int, glyphs: Glyphs) -> Line:
    rates = (one.p10_bytes_per_s, one.p50_bytes_per_s, one.p90_bytes_per_s)
    parts = [
        LinePart(Cell(f"{one.source} {glyphs.arrow} {one.destination}", "strong"), 11),
        LinePart(Cell("throttled" if one.throttled else "free", "dim"), 9, 1),
        *(LinePart(Cell(_rate(rate)), 9, right=True) for rate in rates),
        LinePart(Cell(f"{bytes_text(one.bytes)} copied", "dim"), 0, 2),
    ]
    return Line(fitted(parts, width, glyphs), ("pair", one.source, one.destination, one.throttled))


def _quality(quality: Rows[QualityRow], now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    if not quality.rows:
        return [_head("none were checked in a day", quality.of, now_ms, "dim")]
    # Files have lines of their own.
    rows = [one for one in quality.rows if one.of != "files"]
    looked_at = {one.of: max(r.rows for r in rows if r.of == one.of) for one in rows}
    broken = [one for one in rows if one.violations]
    count = f"{count_text(sum(looked_at.values()))} in a day"
    if not broken:
        return [_head(f"{count}, all as expected", quality.of, now_ms)]
    lines = [_head(f"{count}; not as expected:", quality.of, now_ms, "warn")]
    for one in broken[:PAIRS_MOST]:
        words = f"{one.violations:,} {one.outcome}: {printable(one.meaning)}"
        parts = [LinePart(Cell(words), 0)]
        lines.append(Line(fitted(parts, width, glyphs), ("quality", one.of, one.expectation)))
    return lines


def _files(status: PipelineStatus, now_ms: int, width: int, glyphs: Glyphs) -> list[Line]:
    """Files of samples that no result has rows of, and why."""
    of = status.of("quarantine_files")
    if not status.files_aside:
        return [_head("none was set aside in a day", of, now_ms, "dim")]
    lines = [_head(f"{many(status.files_aside, 'file')} set aside in a day", of, now_ms, "warn")]
    for one in status.aside:
        words = f"{printable(one.file)}: {printable(fault_text(one.fault))}"
        lines.append(Line(fitted([LinePart(Cell(words), 0)], width, glyphs), ("file", one.file)))
    return lines
