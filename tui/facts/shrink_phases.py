"""How a shrink stands, in lines: its phases, what it waits for, its groups. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.shrink.phases import (
    POINT_OF_NO_RETURN,
    CutOver,
    GroupShown,
    PhaseShown,
    ShrinkProgress,
)
from kshunt.backend.domain.text.formatting import (
    UNKNOWN,
    clock_text,
    count_text,
    duration_text,
    listed,
    many,
    percent_done_text,
)
from kshunt.tui.actions import key_of
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.text.bars import bar
from kshunt.tui.text.glyphs import Glyphs

BAR_CELLS: Final = 10
NAME_CELLS: Final = 12
ONE_LINE: Final = 58
"""Characters that fit next to a label in the narrowest dialogue."""
GROUPS_LEAST: Final = 3
"""Fewer lines than that say nothing of groups one by one."""

_TONES: Final[Mapping[str, str]] = {"done": "dim", "now": "strong", "ahead": "", "failed": "bad"}


def phase_now(progress: ShrinkProgress) -> PhaseShown | None:
    """The phase that it is in."""
    return next((one for one in progress.phases if one.phase is progress.phase), None)


def share_of(phase: PhaseShown | None) -> float:
    """How much of a phase is done, 0 to 1; NaN where that is not known."""
    if phase is None or phase.done is None or not phase.total:
        return math.nan
    return min(max(phase.done / phase.total, 0.0), 1.0)


def eta_range(phase: PhaseShown | None, to: str = " to ") -> str:
    """`3m00s to 5m00s`; empty where it is not known."""
    if phase is None or phase.eta_ms is None:
        return ""
    first, last = (duration_text(one / 1000) for one in phase.eta_ms)
    return first if first == last else f"{first}{to}{last}"


def needs_words(progress: ShrinkProgress) -> str:
    """What the shrink waits for, and what helps; empty while it continues without help."""
    match progress.needs:
        case "confirm":
            keys = f"for you: {key_of('confirm_shrink')}, then type {progress.topic}."
            # Past the point of no return it asks because of a difference, which its words tell.
            return f"{keys} {progress.words}" if progress.past_no_return else keys
        case "groups":
            names = [one.name for one in progress.groups if one.members]
            return f"for groups to stop: {listed(names, 3) or UNKNOWN}."
        case "producers":
            return f"for the producers of {progress.topic} to stop."
        case "":
            return ""
        case _:
            return f"for you: {progress.words}"


def _for_whom(progress: ShrinkProgress) -> str:
    others = {"groups": "for groups to stop", "producers": "for producers to stop"}
    return others.get(progress.needs, "for you")


def brief(progress: ShrinkProgress) -> str:
    """The phase that it is in, how far, and how long yet: `copy 45%, ETA 3m00s to 5m00s`."""
    phase = phase_now(progress)
    if progress.needs:
        return f"{progress.phase.value}: waits {_for_whom(progress)}"
    share, eta = share_of(phase), eta_range(phase)
    known = "" if math.isnan(share) else f" {percent_done_text(share)}"
    return f"{progress.phase.value}{known}{f', ETA {eta}' if eta else ''}"


def phase_lines(progress: ShrinkProgress, glyphs: Glyphs, room: int) -> list[PaneLine]:
    """What there is to say in `room` lines, at least one.

    Where room is short, only what it waits for, and one line of what is done, are before the phase
    that it is in.
    """
    waits = list(_waits(progress))
    point = 1 if progress.cut_over is CutOver.SAME_NAME else 0
    worded = sum(map(_measured, progress.phases))
    asked = sum(one.lines for one in waits)
    if room >= asked + len(progress.phases) + point + worded:
        lines = [*waits, *_phases(progress, glyphs)]
    else:
        lines = _roomy([*waits, *_short(progress, glyphs)], room)
    left = room - sum(one.lines for one in lines)
    if progress.groups and left >= 1:
        lines += _groups(progress, left)
    return lines[: max(room, 1)]


def _roomy(lines: list[PaneLine], room: int) -> list[PaneLine]:
    """What happens and what is to come may take two lines, where there is room for both."""
    spare = room - sum(one.lines for one in lines)
    long = [line.label in ("Now", "Failed", "Then") for line in lines]
    if spare < sum(long):
        return lines
    return [line._replace(lines=2) if two else line for line, two in zip(lines, long, strict=True)]


def _waits(progress: ShrinkProgress) -> Iterable[PaneLine]:
    words = needs_words(progress)
    if words:
        yield PaneLine("Waits", words, "warn", 1 if len(words) <= ONE_LINE else 3)
    elif progress.halted and progress.words:
        yield PaneLine("Does", progress.words)


def _phases(progress: ShrinkProgress, glyphs: Glyphs) -> Iterable[PaneLine]:
    """Each phase on a line of its own, and where the way back ends."""
    label = "Phases"
    for one in progress.phases:
        if one.phase is POINT_OF_NO_RETURN:
            yield PaneLine(
                "", _point(progress, glyphs), "bad" if progress.past_no_return else "warn"
            )
        name = f"{_mark(one, glyphs)} {one.phase.value:<{NAME_CELLS}}"
        words = _progress(one, glyphs) if _measured(one) else one.words
        yield PaneLine(label, f"{name} {words}".rstrip(), _tone(one, progress))
        label = ""
        if _measured(one):
            yield PaneLine("", f"{' ' * (NAME_CELLS + 3)}{_amount(one)}", _tone(one, progress))


def _tone(one: PhaseShown, progress: ShrinkProgress) -> str:
    return "warn" if one.state == "now" and progress.needs else _TONES.get(one.state, "")


def _point(progress: ShrinkProgress, glyphs: Glyphs) -> str:
    rule = glyphs.rule * 2
    what = (
        f"{progress.topic} does not exist any more"
        if progress.past_no_return
        else f"{progress.topic} is deleted"
    )
    return f"{rule} point of no return: {what} {rule}"


def _mark(one: PhaseShown, glyphs: Glyphs) -> str:
    return {"done": glyphs.mark, "now": ">", "failed": glyphs.alert}.get(one.state, " ")


def _progress(one: PhaseShown, glyphs: Glyphs) -> str:
    """`━━━━── 45%, ETA 3m00s to 5m00s`."""
    share, eta = share_of(one), eta_range(one)
    done = f"{bar(share, BAR_CELLS, glyphs)} {percent_done_text(share)}"
    parts = [] if math.isnan(share) else [done]
    parts += [f"ETA {eta}"] if eta else []
    return ", ".join(parts)


def _measured(one: PhaseShown) -> bool:
    return one.state == "now" and one.done is not None


def _amount(one: PhaseShown) -> str:
    """`900k of 2.00M records`, and what it does; of a wait its own words, which tell the time."""
    if one.unit == "ms":
        return one.words or f"{_span(one.done)} of {_span(one.total)}"
    done, total = (count_text(count, tight=True) for count in (one.done, one.total))
    amount = f"{done} of {total} {one.unit}".rstrip()
    return f"{amount}; {one.words}" if one.words else amount


def _span(ms: int | None) -> str:
    return duration_text(None if ms is None else ms / 1000)


def _short(progress: ShrinkProgress, glyphs: Glyphs) -> Iterable[PaneLine]:
    """What is done, the phase that it is in, and what is to come: a line each."""
    done = [one.phase.value for one in progress.phases if one.state == "done"]
    if done:
        yield PaneLine("Done", ", ".join(done), "dim")
    now = phase_now(progress)
    if now is not None and now.state != "done":
        label = "Failed" if now.state == "failed" else "Now"
        words = now.words
        if _measured(now):
            words = ", ".join(filter(None, (_progress(now, glyphs), _amount(now))))
        yield PaneLine(label, f"{now.phase.value} {words}".rstrip(), _tone(now, progress))
    ahead = [one for one in progress.phases if one.state == "ahead"]
    if ahead:
        yield PaneLine("Then", _ahead(progress, ahead))


def _ahead(progress: ShrinkProgress, ahead: Sequence[PhaseShown]) -> str:
    """`seal, [no return] delete, create, ...`."""
    named = []
    for one in ahead:
        point = one.phase is POINT_OF_NO_RETURN and not progress.past_no_return
        named.append(f"NO RETURN: {one.phase.value}" if point else one.phase.value)
    return ", ".join(named)


def _groups(progress: ShrinkProgress, room: int) -> list[PaneLine]:
    """Each group with its members and what it will read again, those that hold it up first."""
    groups = sorted(
        progress.groups, key=lambda one: (-one.members, -(one.read_twice or 0), one.name)
    )
    if room < min(len(groups), GROUPS_LEAST):
        words = [f"{many(len(groups), 'consumer group')}"]
        active = sum(1 for one in groups if one.members)
        words += [f"{active:,} with members"] if active else ["none with members"]
        return [PaneLine("Groups", ", ".join(words), "warn" if active else "")]
    shown = groups if len(groups) <= room else groups[: room - 1]
    lines = [PaneLine("", *group_words(one, progress)) for one in shown]
    if len(shown) < len(groups):
        lines.append(PaneLine("", f"and {len(groups) - len(shown):,} more", "dim"))
    return [lines[0]._replace(label="Groups"), *lines[1:]]


def group_words(group: GroupShown, progress: ShrinkProgress) -> tuple[str, str]:
    """What there is to know of a group, and its tone."""
    members = "no members" if not group.members else many(group.members, "member")
    if group.committed:
        return f"{group.name}: has its offsets in the smaller topic", "good"
    twice = ", reads nothing twice"
    if group.read_twice != 0:
        # Before the copy was verified nobody can know it.
        known = group.read_twice is not None or progress.verified_ms is not None
        twice = f", reads {count_text(group.read_twice)} twice" if known else ""
    return f"{group.name}: {members}{twice}", "warn" if group.members else ""


def waits_for_name(operation: Operation) -> bool:
    """True while a shrink would continue if the operator typed the name of its topic."""
    progress = operation.details.shrink
    return progress is not None and progress.needs == "confirm" and "confirm" in operation.actions


def cut_over_lines(progress: ShrinkProgress, cluster_id: str, room: int) -> list[PaneLine]:
    """What an operator must know who types the name: what goes, where it is, who reads it."""
    records = "" if progress.records is None else f"{progress.records:,} "
    equal = "NOT verified yet"
    if progress.verified_ms is not None:
        equal = f"verified equal at {clock_text(progress.verified_ms)} UTC"
    copy = PaneLine(
        "Its copy",
        f"Its {records}records are in {progress.copy}, {equal}.",
        "good" if progress.verified_ms is not None else "bad",
        2,
    )
    rest = "kshunt copies and verifies new records until then."
    head = [_deletes(progress), copy, PaneLine("", rest, "", 2)]
    if progress.past_no_return:
        # It is asked once more where what was copied back is not what the copy holds.
        head = [PaneLine("Differs", progress.words, "bad", 6), copy]
    tail = [PaneLine("Cluster", cluster_id)]
    left = room - sum(one.lines for one in head) - len(tail)
    groups = _groups(progress, left) if progress.groups and left > 0 else []
    if not progress.groups:
        groups = [PaneLine("Groups", "no consumer group has read it")]
    return [*head, *groups, *tail]


def _deletes(progress: ShrinkProgress) -> PaneLine:
    if progress.cut_over is CutOver.NEW_NAME:
        words = f"{progress.topic} becomes read-only, and {progress.copy} takes its place."
        return PaneLine("Seals", words, "warn", 2)
    anew = many(progress.wanted, "partition")
    words = f"This deletes topic {progress.topic}; it is recreated with {anew} and copied back."
    return PaneLine("Deletes", words, "bad", 2)
