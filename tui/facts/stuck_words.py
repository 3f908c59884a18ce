"""Why replicas are stuck, in the dashboard's words, and which keys lead to the remedy.

The backend tells the cause and numbers. Only the dashboard knows its own keys.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.replicas.stuck_causes import CAUSE_TEXTS, Cause, Stuck
from kshunt.backend.domain.replicas.stuck_sentences import Wording, stuck_text
from kshunt.backend.domain.text.formatting import bytes_text, listed
from kshunt.backend.domain.throttles.configs import SETTING_WORDS
from kshunt.tui.actions import key_of as _key
from kshunt.tui.actions.view_names import BROKERS, OPERATIONS, THROTTLES
from kshunt.tui.facts.moves.needed_rates import OF_MOVES
from kshunt.tui.facts.pending_rates import rate_up_text

if TYPE_CHECKING:
    from kshunt.backend.domain.replicas.snapshot import Snapshot


class Remedy(enum.Enum):
    """A change in the dashboard that helps a replica that does not advance."""

    CANCEL = enum.auto()
    RAISE_RATES = enum.auto()
    RESUME = enum.auto()
    REMOVE_ORPHANS = enum.auto()


REMEDIES: Final[Mapping[Cause, Remedy]] = {
    Cause.BROKER_DOWN: Remedy.CANCEL,
    Cause.LOG_DIR_OFFLINE: Remedy.CANCEL,
    Cause.SOURCE_UNREACHABLE: Remedy.CANCEL,
    Cause.DISK_FULL: Remedy.CANCEL,
    Cause.COPY_TOO_SLOW: Remedy.CANCEL,
    **dict.fromkeys(OF_MOVES, Remedy.RAISE_RATES),
    Cause.PAUSED: Remedy.RESUME,
    Cause.THROTTLE_ORPHAN: Remedy.REMOVE_ORPHANS,
}
"""What helps against a cause. Against the others no change of the dashboard helps."""
STUCK: Final = "Stuck"
"""The state in one word; the filter knows it too."""


def stuck_word(cause: Cause, width: int) -> str:
    """`Stuck: throttle too low`, or `Stuck` where there is no room for the cause."""
    words = f"{STUCK}: {CAUSE_TEXTS[cause].short}"
    return words if len(words) <= width else STUCK


def stuck_sentence(counts: Mapping[Cause, int]) -> str:
    """How many are stuck and why, the most frequent cause first, and how to see them."""
    if not counts:
        return ""
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    said = [
        f"{CAUSE_TEXTS[cause].short} {count:,}" if len(ordered) > 1 else CAUSE_TEXTS[cause].short
        for cause, count in ordered
    ]
    lists, tells = f"{_key('filter')}stuck", _key("details")
    total = sum(counts.values())
    return f"{total:,} stuck: {', '.join(said)}. {lists} lists, {tells} explains."


def why_lines(stuck: Stuck | None, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Label and text for the details: the cause, the reason, what to do, what to press."""
    if stuck is None:
        return []
    text = stuck_text(stuck, WORDING)
    label = STUCK if stuck.cause.is_stuck else "Not nearer"
    lines = [(label, text.short), ("Why", text.reason), ("Do next", text.action)]
    if stuck.cause in REMEDIES:
        by_hand = _PRESS[REMEDIES[stuck.cause]](stuck, snapshot)
        lines.append(("Press", f"{_key('fix')} opens the change, filled in. Or {by_hand}"))
    return [line for line in lines if line[1]]


_BROKERS, _THROTTLES, _OPERATIONS = (f"view('{view}')" for view in (BROKERS, THROTTLES, OPERATIONS))


def _rates(stuck: Stuck, snapshot: Snapshot) -> str:
    """Where rates are edited, and one rate under which every stuck replica arrives."""
    others = (one for one in snapshot.explained.values() if one.cause in OF_MOVES)
    needs = [rate.needs_bytes_per_s for one in (stuck, *others) for rate in one.rates]
    typed = f" with {typed_rate_up(max(needs))}" if needs else ""
    return (
        f"{_key(_BROKERS)}, then {_key('edit_all')}{typed} for every broker"
        f"{_rows(stuck, ', or ' + _key('edit'))}."
    )


def _rows(stuck: Stuck, keys: str) -> str:
    """`, or e on the rows of brokers 2, 5`; nothing where no broker is named."""
    brokers = sorted({rate.broker for rate in stuck.rates})
    rows = "row of broker" if len(brokers) == 1 else "rows of brokers"
    return f"{keys} on the {rows} {listed(brokers)}" if brokers else ""


def typed_rate_up(bytes_per_s: int) -> str:
    """A rate as it can be typed, in three figures, and never less than it was: `31.6MB/s`."""
    return rate_up_text(bytes_per_s).replace(" ", "")


WORDING: Final = Wording(typed_rate_up, bytes_text, lambda key: SETTING_WORDS.get(key, key))
"""Short names of settings, and rates that are never less than they are."""


def _cancel(stuck: Stuck, snapshot: Snapshot) -> str:
    return f"{_key('cancel')} on its row cancels the move of {stuck.partition}, if it moves."


def _resume(stuck: Stuck, snapshot: Snapshot) -> str:
    return f"{_key(_OPERATIONS)}, then {_key('pause')} on the operation resumes it."


def _orphan(stuck: Stuck, snapshot: Snapshot) -> str:
    return f"{_key(_THROTTLES)}, then {_key('remove_orphans')}: it removes what no move needs."


_PRESS: Final[Mapping[Remedy, Callable[[Stuck, Snapshot], str]]] = {
    Remedy.CANCEL: _cancel,
    Remedy.RAISE_RATES: _rates,
    Remedy.RESUME: _resume,
    Remedy.REMOVE_ORPHANS: _orphan,
}
