"""What is wrong with the throttles, for the pane below their table, and which key repairs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.pipeline.delivered import EffectRow, TableStatus
from kshunt.backend.domain.text.formatting import many, rate_text
from kshunt.backend.domain.throttles.owners import ShownDrift, ShownOrphan
from kshunt.tui.actions import key_of
from kshunt.tui.facts.drift_words import ORIGINS, drift_words, orphan_words, owner_words
from kshunt.tui.facts.forecast import age_text
from kshunt.tui.facts.foreign_throttles import Left, left_words
from kshunt.tui.facts.pending_rates import Foresight, change_lines, tight_text, what_if_text
from kshunt.tui.facts.progress import throttled
from kshunt.tui.feed.polled_facts import DRIFT, EFFECTS, ORPHANS, OWNED
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.text.fitting import printable
from kshunt.tui.views.throttles.owners import owned_lines
from kshunt.tui.views.throttles.table import ThrottleRow

if TYPE_CHECKING:
    from kshunt.tui.data.store import Store

EFFECT_FRESH_MS: Final = 900_000
"""Advice that is older is not given: the rate may be another one."""
ADVICE_MOST: Final = 2
RAISE: Final = "raise"
LOWER: Final = "lower"
KEEP: Final = "keep"
SHOWN_MOST: Final = 3
"""More orphans than this are counted by where they are from."""
DRIFT_MOST: Final = 2
_NOBODY: Final = Left()
ROOM_MOST: Final = 3
"""Brokers whose head-room is said, the fullest first."""


def about(
    row: ThrottleRow | None,
    drift: Sequence[ShownDrift],
    orphans: Sequence[ShownOrphan],
    foreign: int,
    left: Left = _NOBODY,
    advice: Sequence[PaneLine] = (),
) -> tuple[str, list[PaneLine]]:
    """A title and lines: whose the row is, and what is wrong about it, else about all rows.

    `left` is what stays of the throttles of the `foreign` partitions that others move; `advice`
    is what the data pipeline recommends (`advice_lines`).
    """
    every = len(orphans)
    owners = [] if row is None else [PaneLine(*line, "", 2) for line in owned_lines(row.owned)]
    if row is not None and (row.drift or row.orphans):
        drift, orphans, title = row.drift, row.orphans, row.what
    elif row is not None and owners:
        title = row.what
    else:
        title = "All brokers and topics"
    lines = [*owners, *_drift_lines(drift), *_orphan_lines(orphans, every), *advice]
    if foreign:
        lines += _foreign_lines(foreign, left)
    return title, lines


def advice_lines(row: ThrottleRow | None, store: Store) -> list[PaneLine]:
    """Which rate the data pipeline recommends and why: of the row, else where it should change."""
    effects = store.scene.answer(EFFECTS)
    if effects is None:
        return []
    now_ms = store.now_ms
    lately = [one for one in effects.rows if now_ms - one.end_ms < EFFECT_FRESH_MS]
    broker = None if row is None or row.rank[0] else row.rank[1]
    mine = [one for one in lately if one.broker == broker]
    shown = mine or [one for one in lately if one.advice in (RAISE, LOWER)]
    lines = [_advice(one, effects.of, now_ms) for one in shown[:ADVICE_MOST]]
    if len(shown) > ADVICE_MOST:
        lines.append(PaneLine("", f"and {len(shown) - ADVICE_MOST} more", "dim"))
    return [line._replace(label="" if n else "Advice") for n, line in enumerate(lines)]


def _advice(one: EffectRow, of: TableStatus, now_ms: int) -> PaneLine:
    """`broker 3 leader: raise to 75 MB/s: … (stream, 2m old)`."""
    what = one.advice
    if what in (RAISE, LOWER):
        what = f"{what} to {rate_text(one.recommended_bytes_per_s)}"
    else:
        what = f"{what} {rate_text(one.permitted_bytes_per_s)}" if what == KEEP else what
    age = f"({of.source}, {age_text(now_ms - one.end_ms)} old)"
    words = f"broker {one.broker} {one.direction}: {what}: {printable(one.reason)} {age}"
    return PaneLine("", words, "warn" if one.advice in (RAISE, LOWER) else "", 2)


def unrecorded_lines(store: Store, why: str) -> list[PaneLine]:
    """What nobody will say any more of throttles that stand; `why` empty: somebody may yet."""
    if not why or store.facts is None or not throttled(store.facts):
        return []
    scene = store.scene
    missing = [
        name
        for name, answered in (
            ("owners", scene.answered(OWNED)),
            ("orphans", scene.answered(ORPHANS)),
            ("drift", scene.answered(DRIFT) or not scene.running),
        )
        if not answered
    ]
    return [PaneLine("Unknown", f"{', '.join(missing)}: {why}", "dim", 2)] if missing else []


def foreseen(seen: Foresight) -> tuple[str, list[PaneLine]]:
    """What the rates would do that an operator is about to set, and which keys set or drop them."""
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
    return f"{enter} opens the preview   {steps} 10 %   {drop} drops it"


def _drift_lines(drift: Sequence[ShownDrift]) -> list[PaneLine]:
    lines = []
    for one in drift[:DRIFT_MOST]:
        owners = owner_words(one.operations)
        lines.append(PaneLine("Drift", f"{drift_words(one)}, needed by {owners}", "bad", 2))
    if len(drift) > DRIFT_MOST:
        lines.append(PaneLine("", f"and {len(drift) - DRIFT_MOST} more", "bad"))
    if drift:
        what = "it" if len(drift) == 1 else "all of them"
        ours, theirs = key_of("reapply"), key_of("accept")
        words = f"{ours} restores {what}   {theirs} keeps their value"
        lines.append(PaneLine("Press", words, "strong"))
    return lines


def _orphan_lines(orphans: Sequence[ShownOrphan], every: int) -> list[PaneLine]:
    if len(orphans) > SHOWN_MOST:
        lines = _origins(orphans)
    else:
        lines = [PaneLine("Orphan", orphan_words(one), "warn", 2) for one in orphans]
    if orphans:
        here = "it" if len(orphans) == 1 else "these" if len(orphans) < every else "all of them"
        all_of_them = f"   {key_of('remove_all_orphans')} removes all {every:,}"
        more = all_of_them if len(orphans) < every else ""
        lines.append(
            PaneLine("Press", f"{key_of('remove_orphans')} removes {here}{more}", "strong")
        )
    return lines


def _origins(orphans: Sequence[ShownOrphan]) -> list[PaneLine]:
    """How many there are of each likely origin; each row says its own."""
    counts = Counter(one.origin for one in orphans).most_common(SHOWN_MOST)
    lines = [PaneLine("", f"{count:,} {ORIGINS[origin]}", "warn", 2) for origin, count in counts]
    return [lines[0]._replace(label="Orphans"), *lines[1:]]


def _foreign_lines(foreign: int, left: Left) -> list[PaneLine]:
    moves = many(foreign, "partition")
    verb = "moves" if foreign == 1 else "move"
    owns = f"{moves} {verb} that no operation of kshunt owns"
    if left.nothing:
        return [PaneLine("Others", f"{owns}: {left_words(left)}", "", 2)]
    words = f"{owns}, but throttles are set: nobody here will remove them"
    if left.operations:
        words = f"{owns}: {left_words(left)}"
    return [
        PaneLine("Others", words, "warn", 2),
        PaneLine("Press", f"{key_of('adopt')} shows what they are and takes them over", "strong"),
    ]
