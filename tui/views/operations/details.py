"""One operation in full, for the pane below the table: plan, progress, history, next keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kshunt.backend.domain.audit.shown_line import AuditLine
from kshunt.backend.domain.backend.forecast_record import ForecastRecord
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.forecast.end_words import (
    apart_text,
    bottleneck_texts,
    deadline_text,
    end_text,
    never_text,
)
from kshunt.backend.domain.forecast.scoring.kept_forecasts import (
    outcome_text,
    point_text,
    tally_text,
)
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.shrink.phases import ShrinkProgress
from kshunt.backend.domain.text.formatting import (
    bytes_text,
    duration_text,
    many,
    moment_text,
    rate_text,
)
from kshunt.tui.actions import ACTIONS, can, key_of
from kshunt.tui.facts.drift_words import drift_words
from kshunt.tui.facts.progress import held, moving_first, originals
from kshunt.tui.facts.shrink_phases import phase_lines
from kshunt.tui.facts.snapshot_facts import Facts
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.text.glyphs import Glyphs
from kshunt.tui.views.operations.table import TONES, OperationRow, kind_words, left_text

NOTES_SHOWN: Final = 2
"""The newest ones; the others are in the audit."""
OUTCOME_LINES: Final = 3
"""The most lines of what came of a shrink."""
SHARES: Final = (2, 1)
"""Of the lines that are left, how they are shared between moves and audit lines."""


def title_of(row: OperationRow) -> str:
    """The pane's title."""
    operation = row.operation
    return f"{kind_words(operation)} {operation.id}: {operation.state.words}"


def about(
    row: OperationRow,
    facts: Facts,
    audit: Sequence[AuditLine] | None,
    glyphs: Glyphs,
    room: int,
    *,
    record: ForecastRecord | None = None,
    unknown: str = "",
    looks: bool = True,
    shared: bool = False,
) -> list[PaneLine]:
    """What there is to say in `room` lines; what the operator can do is always among it.

    `record` says how often forecasts were right; None: nobody has said. `audit` None: likewise;
    `unknown` is why, where nobody will. `looks`: the keys that look at the audit are named;
    `shared`: somebody else is here, and so are those that they would see.
    """
    progress, keys = row.operation.details.shrink, _can(row, looks=looks, shared=shared)
    if progress is not None:
        return _shrink(row, progress, audit, glyphs, room, keys)
    head = [*_drift(row), *_facts(row, record)][: room - 1]
    left = max(room - len(head) - 1, 0)
    moves = list(_moves(row.operation, facts, glyphs, left))
    history = [_history(line) for line in audit or ()]
    if audit is None and unknown:
        history = [PaneLine("", unknown, "dim")]
    audit_room = min(len(history), max(left - len(moves), left * SHARES[1] // sum(SHARES)))
    moves = _first(moves, left - audit_room, len(row.operation.partitions))
    audit_room = min(len(history), left - len(moves))
    newest = history[len(history) - audit_room :] if audit_room else []
    return [*head, *_labelled("Moves", moves), *_labelled("Audit", newest), keys]


def _shrink(
    row: OperationRow,
    progress: ShrinkProgress,
    audit: Sequence[AuditLine] | None,
    glyphs: Glyphs,
    room: int,
    keys: PaneLine,
) -> list[PaneLine]:
    """A shrink: its phases before anything else; who asked, what happened, where there is room."""
    tail = [keys] if keys.text else []
    outcome = [one._replace(lines=OUTCOME_LINES) for one in _outcome(row.operation)]
    if row.operation.state.ended:
        # What it says then is the outcome, which stands above.
        progress = replace(progress, words="")
    said = list(_said(row.operation))
    used = OUTCOME_LINES * len(outcome) + len(tail) + len(said)
    lines = phase_lines(progress, glyphs, room - used)
    left = room - sum(one.lines for one in lines) - used
    head = list(_asked(row))[: max(left, 0)]
    history = [_history(line) for line in audit or ()][-max(left - len(head), 0) :]
    newest = history if left > len(head) else []
    return [*head, *said, *outcome, *lines, *_labelled("Audit", newest), *tail]


def _asked(row: OperationRow) -> Iterable[PaneLine]:
    operation = row.operation
    who = operation.who or "somebody"
    why = f": {operation.reason}" if operation.reason else ""
    ago = f"{moment_text(operation.started_ms)} ({duration_text(row.age_s)} ago)"
    yield PaneLine("Asked by", f"{who}{why}")
    took = f", took {duration_text(row.took_s)}" if operation.ended_ms else ""
    yield PaneLine("Began", f"{ago}{took}")


def _said(operation: Operation) -> Iterable[PaneLine]:
    """Who steers it, and the newest notes on it."""
    claim, notes = operation.claim, operation.notes
    if claim is not None:
        why = f": {claim.reason}" if claim.reason else ""
        since = f"since {moment_text(claim.since_ms)[11:]}"
        yield PaneLine("Claimed", f"by {claim.who}, {since}{why}", "strong")
    older = len(notes) - NOTES_SHOWN
    for number, note in enumerate(notes[-NOTES_SHOWN:]):
        label = "" if number else "Notes" if len(notes) > 1 else "Note"
        text = f"{moment_text(note.at_ms)[11:19]} {note.who or '?'}: {note.text}"
        yield PaneLine(label, text)
    if older > 0:
        yield PaneLine("", f"and {older} before; {key_of('audit')} shows all", "dim")


def _outcome(operation: Operation) -> Iterable[PaneLine]:
    if operation.outcome:
        asks = "" if operation.outcome_is_progress else "warn"
        tone = TONES.get(operation.state, "") if operation.state.ended else asks
        yield PaneLine("Outcome", operation.outcome, tone)


def _facts(row: OperationRow, record: ForecastRecord | None) -> Iterable[PaneLine]:
    operation = row.operation
    yield from _asked(row)
    yield from _said(operation)
    if operation.throttle_bytes_per_s is not None or operation.partitions:
        yield PaneLine("Throttle", _throttle_words(operation))
    if row.progress is not None:
        yield from _progress(row)
        if record is not None and not operation.state.ended:
            yield PaneLine("Forecasts", str(record), "dim")
    yield from _outcome(operation)
    if operation.state.ended and operation.forecasts:
        yield _turned_out(operation)


def _throttle_words(operation: Operation) -> str:
    if operation.kind is OperationKind.ADOPT:
        return "as it was found; removed when the moves end"
    if operation.throttle_bytes_per_s is None:
        return "none"
    stays = "removed when the move ends" if operation.auto_remove_throttle else "stays set"
    if operation.state.ended:
        stays = "removed when it ended" if operation.auto_remove_throttle else "kept when it ended"
    return f"{rate_text(operation.throttle_bytes_per_s)} on each broker, {stays}"


def _progress(row: OperationRow) -> Iterable[PaneLine]:
    progress = row.progress
    assert progress is not None
    of = f"{progress.arrived:,} of {many(progress.replicas, 'replica')}"
    left = f"{left_text(progress)} of {bytes_text(progress.copy_bytes)} left"
    yield PaneLine("Copied", f"{of}, {left}")
    turn = f"; {many(progress.waiting, 'partition')} waiting" if progress.waiting else ""
    if held(row.operation):
        yield PaneLine("Done", f"held by the pause{turn}", "warn")
    else:
        yield from _end(row, turn)


def _end(row: OperationRow, turn: str) -> Iterable[PaneLine]:
    """When, who is not in it, and what holds it up until then."""
    assert row.progress is not None
    end = row.progress.end
    apart = "" if end is None else apart_text(end)
    when = f"{end_text(end, row.now_ms)}{f', {apart}' if apart else ''}"
    never = end is not None and end.never > 0
    yield PaneLine("Done", f"{when}{turn}", "bad" if never else "")
    if end is None:
        return
    if words := deadline_text(end, row.now_ms):
        late = end.deadline is not None and end.deadline.holds is False
        yield PaneLine("Deadline", words, "bad" if late else "", 2)
    if never and (why := never_text(end)):
        yield PaneLine("Never", why, "bad", 2)
    elif waits := bottleneck_texts(end, row.now_ms):
        yield PaneLine("Waits for", ", then ".join(waits), "dim", 2)


def _turned_out(operation: Operation) -> PaneLine:
    """How the operation's own forecasts turned out, and those that were not right."""
    others = [
        f"at {point_text(one.point)}: {outcome_text(one)}"
        for one in operation.forecasts
        if one.right is not True
    ]
    return PaneLine("Forecasts", "; ".join([tally_text(operation.forecasts), *others]), "", 2)


def _drift(row: OperationRow) -> Iterable[PaneLine]:
    for one in row.drift[:2]:
        yield PaneLine("Drift", drift_words(one), "bad")
    if len(row.drift) > 2:
        yield PaneLine("", f"and {len(row.drift) - 2} more", "bad")


def _moves(operation: Operation, facts: Facts, glyphs: Glyphs, most: int) -> Iterable[PaneLine]:
    """From where to where each partition goes, those that still move first."""
    before = originals(operation)
    for partition in moving_first(facts, operation, most):
        yield _move(partition, before.get(partition, ()), facts, glyphs)


def _move(
    partition: TopicPartition, before: tuple[int, ...], facts: Facts, glyphs: Glyphs
) -> PaneLine:
    span = facts.rows_of(*partition)
    rows = facts.rows
    here = [(int(rows.broker[row]), row) for row in span]
    moving = any(rows.adding[row] or rows.removing[row] for _, row in here)
    was = before or tuple(b for b, row in here if not rows.adding[row])
    target = tuple(b for b, row in here if not rows.removing[row])
    name = str(partition)
    if not here:
        return PaneLine("", f"{name}  is deleted", "warn")
    if not moving and target == was:
        return PaneLine("", f"{name}  {_ids(was)}", "dim")
    words = f"{name}  {_ids(was)} {glyphs.arrow} {_ids(target)}"
    return PaneLine("", words) if moving else PaneLine("", f"{words}  there", "good")


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "?"


def _history(line: AuditLine) -> PaneLine:
    at = "unknown time" if line.time_ms is None else moment_text(line.time_ms)[11:19]
    who = f" by {line.who}" if line.who and line.event == "requested" else ""
    text = f": {line.text}" if line.text else ""
    tone = "bad" if line.event in ("unreadable", "refused") else ""
    return PaneLine("", f"{at} {line.event.replace('_', ' ')}{who}{text}", tone)


def _first(lines: list[PaneLine], room: int, total: int) -> list[PaneLine]:
    """The first `room` of them; where there are more, the last line says how many."""
    if total <= room:
        return lines[:room]
    if room < 1:
        return []
    return [*lines[: room - 1], PaneLine("", f"and {total - room + 1:,} more", "dim")]


def _labelled(label: str, lines: Sequence[PaneLine]) -> list[PaneLine]:
    return [line._replace(label="" if number else label) for number, line in enumerate(lines)]


def _can(row: OperationRow, *, looks: bool, shared: bool) -> PaneLine:
    """What can be done, each with its key; what is wrong comes first."""
    operation = row.operation
    keys = {
        condition.removeprefix("can "): key_of(action.id)
        for action in ACTIONS
        for condition in action.when
        if condition == can(condition.removeprefix("can "))
    }
    offered = [f"{keys[name]} {name}" for name in operation.actions if name in keys]
    mending = (
        [f"{key_of('reapply')} restore", f"{key_of('accept')} keep theirs"] if row.drift else []
    )
    seen = [f"{key_of('audit')} audit", f"{key_of('export')} write audit"] if looks else []
    words = "   ".join([*mending, *offered, *_together(operation, shared=shared), *seen])
    waits = operation.state is OperationState.LIFTING
    note = "   (waits for the end of its throttle)" if waits else ""
    return PaneLine("Press", f"{words}{note}", "strong")


def _together(operation: Operation, *, shared: bool) -> list[str]:
    """What others would see."""
    if operation.claim is not None:
        return [f"{key_of('claim')} release or take over"]
    if not shared or operation.state.ended:
        return []
    return [f"{key_of('claim')} claim", f"{key_of('remark')} note"]
