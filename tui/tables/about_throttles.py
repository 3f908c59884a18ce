"""What is wrong with the throttles, for the pane below their table, and which key mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from backend.domain.steering import ShownDrift, ShownOrphan
from tui.actions import key_of
from tui.tables.mending import drift_words, orphan_words, owner_words
from tui.tables.owners import owned_lines
from tui.tables.pending import Foresight, change_lines, tight_text, what_if_text
from tui.tables.throttles import ThrottleRow
from tui.text import plural
from tui.widgets.pane import PaneLine

SHOWN_MOST: Final = 3
"""More orphans than this are counted by where they are from."""
DRIFT_MOST: Final = 2
ROOM_MOST: Final = 3
"""Brokers whose head-room is said, the fullest first."""


def about(
    row: ThrottleRow | None,
    drift: Sequence[ShownDrift],
    orphans: Sequence[ShownOrphan],
    foreign: int,
) -> tuple[str, list[PaneLine]]:
    """A title and lines: whose the row is, and what is wrong about it, else about all rows."""
    every = len(orphans)
    owners = [] if row is None else [PaneLine(*line, "", 2) for line in owned_lines(row.owned)]
    if row is not None and (row.drift or row.orphans):
        drift, orphans, title = row.drift, row.orphans, row.what
    elif row is not None and owners:
        title = row.what
    else:
        title = "All brokers and topics"
    lines = [*owners, *_drift_lines(drift), *_orphan_lines(orphans, every)]
    if foreign:
        lines += _foreign_lines(foreign)
    return title, lines


def foreseen(seen: Foresight) -> tuple[str, list[PaneLine]]:
    """What the rates would do that an operator is about to set, and which keys go on."""
    room = tight_text(seen.then, ROOM_MOST)
    lines = [
        *(
            PaneLine("" if n else "Change", line, "warn")
            for n, line in enumerate(change_lines(seen))
        ),
        PaneLine("What if", what_if_text(seen, brokers=0), "strong", 3),
        *([PaneLine("Would use", room, "", 2)] if room else []),
        PaneLine("Press", _pending_keys(), "strong"),
    ]
    return "Not set yet", lines


def _pending_keys() -> str:
    enter, drop = key_of("details"), key_of("back")
    steps = f"{key_of('faster')} {key_of('slower')}"
    return f"{enter} goes on to the preview   {steps} 10 %   {drop} drops it"


def _drift_lines(drift: Sequence[ShownDrift]) -> list[PaneLine]:
    lines = []
    for one in drift[:DRIFT_MOST]:
        owners = owner_words(one.operations)
        lines.append(PaneLine("Drift", f"{drift_words(one)}, needed by {owners}", "bad", 2))
    if len(drift) > DRIFT_MOST:
        lines.append(PaneLine("", f"and {len(drift) - DRIFT_MOST} more", "bad"))
    if drift:
        what = "it" if len(drift) == 1 else "all of them"
        lines.append(PaneLine("Press", f"d puts {what} back   D keeps what they set", "strong"))
    return lines


def _orphan_lines(orphans: Sequence[ShownOrphan], every: int) -> list[PaneLine]:
    if len(orphans) > SHOWN_MOST:
        lines = _origins(orphans)
    else:
        lines = [PaneLine("Orphan", orphan_words(one), "warn", 2) for one in orphans]
    if orphans:
        here = "it" if len(orphans) == 1 else "these" if len(orphans) < every else "all of them"
        more = f"   X removes all {every:,}" if len(orphans) < every else ""
        lines.append(PaneLine("Press", f"x removes {here}{more}", "strong"))
    return lines


def _origins(orphans: Sequence[ShownOrphan]) -> list[PaneLine]:
    """How many there are of each likely origin; each row says its own."""
    counts = Counter(one.origin for one in orphans).most_common(SHOWN_MOST)
    lines = [PaneLine("", f"{count:,} {origin}", "warn", 2) for origin, count in counts]
    return [lines[0]._replace(label="Orphans"), *lines[1:]]


def _foreign_lines(foreign: int) -> list[PaneLine]:
    moves = plural(foreign, "partition")
    verb = "moves" if foreign == 1 else "move"
    return [
        PaneLine(
            "Others",
            f"{moves} {verb} that no operation here owns, while throttles stand: nobody here "
            "takes them off in the end",
            "warn",
            2,
        ),
        PaneLine("Press", "t shows what they are and takes them over", "strong"),
    ]
