"""The audit in words: for an incident document and for a terminal.

Goals
    What is written shows all of a text and nothing else. A reason is anything that somebody
    typed: it may hold what Markdown or a terminal acts upon, or characters that hide others.
Algorithm
    Characters that cannot be seen (controls, direction marks, joiners, tags) become their
    numbers, `[U+202E]`; kinds of blanks become blanks, and a line break becomes `⏎`. For Markdown,
    what has a meaning there is then written as an entity or behind a backslash. A long text is
    cut in its table cell, and stands in full below, under the number that the cell names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from kshunt.backend.domain.audit.lines import AuditEntry, AuditRow, UnreadableAudit

CELL_CHARACTERS_MAX: Final = 100
"""A longer text is cut in its cell, and folded out below the table."""
WHO_CELLS_MAX: Final = 24
NO_TIME: Final = "unknown time"

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK_LETTERS: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]"
)
"""Drawn as nothing, or as a blank, although their category says otherwise."""
_SELECTORS: Final = re.compile("[\ufe00-\ufe0d\U000e0100-\U000e01ef]")
"""Variation selectors; all but the two that tell an emoji from a text can carry hidden bytes."""
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\v\f\x85\u2028\u2029]")
_ESCAPES: Final = str.maketrans(
    # A backslash before one of these would be taken for something else in a table.
    {"\\": "&#92;", "`": "&#96;", "|": "&#124;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
    | {character: f"\\{character}" for character in "*_[]~$#"}
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def one_line(text: str) -> str:
    """The text on one line, with every character visible."""
    whole = _LINE_BREAK.sub(" ⏎ ", text)
    return whole if whole.isascii() and whole.isprintable() else "".join(map(_visible, whole))


@lru_cache(maxsize=4096)
def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Zs" or character == "\t":
        return " "
    hidden = category in _UNSEEN or _BLANK_LETTERS.match(character) or _SELECTORS.match(character)
    return f"[U+{ord(character):04X}]" if hidden else character


def width_cells(text: str) -> int:
    """How many cells of a terminal the text takes, near enough for cutting a line."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fitted(text: str, cells: int) -> str:
    """The text in at most `cells` cells; a text that is cut is marked as cut."""
    if width_cells(text) <= cells:
        return text
    fitting, left = [], cells - 1
    for character in text:
        left -= _cells(character)
        if left < 0:
            break
        fitting.append(character)
    return "".join(fitting) + "…" if cells > 0 else ""


def local_time(time_ms: int, zone: tzinfo | None = None) -> str:
    """`2026-11-21 20:50:15+01:00` in a time zone, or in that of this machine."""
    when = _when(time_ms).astimezone(zone)
    return when.isoformat(sep=" ", timespec="seconds")


def utc_time(time_ms: int) -> str:
    """`2026-11-21T20:50:15.123Z`."""
    return _when(time_ms).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _when(time_ms: int) -> datetime:
    # Without a float between: the last digit is right.
    return _EPOCH + timedelta(milliseconds=time_ms)


# --- a terminal


def as_text(
    rows: Sequence[AuditRow], *, width: int | None = None, zone: tzinfo | None = None
) -> str:
    """One line an entry, newest last; cut to `width` cells, or not at all.

    Args:
        rows: the lines.
        width: cells of the terminal; None shows everything.
        zone: of the times; None is this machine's.
    """
    entries = [row for row in rows if isinstance(row, AuditEntry)]
    widths = (
        max((width_cells(_time(row, zone)) for row in rows), default=0),
        max((len(row.event) for row in entries), default=0),
        max((width_cells(_who(row)) for row in entries), default=0),
    )
    lines = (_line(row, widths, zone) for row in rows)
    return "\n".join(line if width is None else fitted(line, width) for line in lines)


def _line(row: AuditRow, widths: tuple[int, int, int], zone: tzinfo | None) -> str:
    time = _padded(_time(row, zone), widths[0])
    if isinstance(row, UnreadableAudit):
        return f"{time}  unreadable entry {one_line(row.key)}: {row.why}: {one_line(row.detail)}"
    subject = " ".join(filter(None, [one_line(row.kind), one_line(row.operation_id)]))
    reason = f"“{one_line(row.reason)}”" if row.reason else ""
    rest = [subject, str(row.touched), reason, one_line(row.outcome)]
    columns = (time, _padded(row.event, widths[1]), _padded(_who(row), widths[2]))
    return "  ".join([*columns, " · ".join(filter(None, rest))]).rstrip()


def _time(row: AuditRow, zone: tzinfo | None) -> str:
    return NO_TIME if row.time_ms is None else local_time(row.time_ms, zone)


def _who(row: AuditEntry) -> str:
    return fitted(one_line(row.who), WHO_CELLS_MAX) if row.who else "-"


def _padded(text: str, cells: int) -> str:
    return text + " " * (cells - width_cells(text))


# --- Markdown


def as_markdown(rows: Sequence[AuditRow], cluster_id: str) -> str:
    """A report to paste: what it is of, a row an entry, and the long texts in full."""
    entries = [row for row in rows if isinstance(row, AuditEntry)]
    broken = [row for row in rows if isinstance(row, UnreadableAudit)]
    folded: list[str] = []
    table = [_table_row(row, folded) for row in entries]
    parts = [
        "# Audit of Kafka reassignments",
        f"- Cluster: {escaped(cluster_id)}\n- Span: {_span(rows)}\n"
        f"- Entries: {len(entries)}, and {len(broken)} that cannot be read",
        _table(table) if table else "No entries.",
    ]
    if folded:
        parts += ["## Long texts", "\n".join(folded)]
    if broken:
        parts += ["## Unreadable entries", "\n".join(map(_unreadable_line, broken))]
    return "\n\n".join(parts) + "\n"


def _span(rows: Sequence[AuditRow]) -> str:
    times = [row.time_ms for row in rows if row.time_ms is not None]
    return f"{utc_time(min(times))} to {utc_time(max(times))}" if times else "none"


_COLUMNS: Final = ("Time (UTC)", "Event", "Operation", "Who", "Why", "Touched", "Outcome")


def _table(lines: Sequence[str]) -> str:
    head = f"| {' | '.join(_COLUMNS)} |"
    return "\n".join([head, "|" + " --- |" * len(_COLUMNS), *lines])


def _table_row(row: AuditEntry, folded: list[str]) -> str:
    subject = " ".join(filter(None, [row.kind, row.operation_id]))
    cells = [
        utc_time(row.time_ms),
        str(row.event),
        *(_cell(text, folded) for text in (subject, row.who, row.reason)),
        _cell("; ".join(row.touched.details()), folded, brief=str(row.touched)),
        _cell(_outcome(row), folded),
    ]
    return f"| {' | '.join(cells)} |"


def _outcome(row: AuditEntry) -> str:
    by = f"(backend {row.backend})" if row.backend else ""
    return " ".join(filter(None, [row.outcome, by]))


def _cell(text: str, folded: list[str], *, brief: str = "") -> str:
    """A text that may stand in a table; a long one goes to `folded`, under the next number.

    Its cell then has what is brief, or its beginning.
    """
    line = one_line(text).strip()
    if len(line) <= CELL_CHARACTERS_MAX:
        return escaped(line) or "-"
    number = len(folded) + 1
    folded.append(f"- **Text {number}**: {escaped(line)}")
    return f"{escaped(brief or line[:CELL_CHARACTERS_MAX] + '…')} (text {number})"


def _unreadable_line(row: UnreadableAudit) -> str:
    when = NO_TIME if row.time_ms is None else utc_time(row.time_ms)
    return f"- {when}, {escaped(row.key)}, {row.why}: {escaped(row.detail)}"


def escaped(text: str) -> str:
    """The text on one line of Markdown, without any effect on it."""
    return one_line(text).translate(_ESCAPES)
