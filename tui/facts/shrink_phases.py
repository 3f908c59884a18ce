"""How a shrink stands, in lines: its phases, what it waits for, its groups. Pure."""

from __future__ import annotations

import math
import time
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
from kshunt.tui.actions import key_of
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.text.bars import bar
from kshunt.tui.text.formatting import (
    UNKNOWN_TEXT,
    Glyphs,
    count_text,
    duration_text,
    names_text,
    plural,
)

BAR_CELLS: Final = 10
NAME_CELLS: Final = 12
ONE_LINE: Final = 58
"""Characters that fit beside a label in the narrowest dialogue."""
GROUPS_LEAST: Final = 3
"""Fewer lines than that say nothing of groups one by one."""

_TONES: Final[Mapping[str, str]] = {"done": "dim", "now": "strong", "ahead": "", "failed": "bad"}


def shrink_progress_of(operation: Operation) -> ShrinkProgress | None:
    """How a shrink stands; None for any other operation, or where nothing can be made of it."""
    found = operation.details.get("shrink")
    if found is None:
        return None
    try:
        return ShrinkProgress.from_json(found)
    except (TypeError, ValueError, KeyError):
        # An older or newer backend says it in other words.
        return None


def phase_now(course: ShrinkProgress) -> PhaseShown | None:
    """The phase that it is in."""
    return next((one for one in course.phases if one.phase is course.phase), None)


def share_of(phase: PhaseShown | None) -> float:
    """How much of a phase is done, 0 to 1; NaN where that is not known."""
    if phase is None or phase.done is None or not phase.total:
        return math.nan
    return min(max(phase.done / phase.total, 0.0), 1.0)


def percent(share: float) -> str:
    """`45%`; full only when it is; `?` where it is not known."""
    if math.isnan(share):
        return UNKNOWN_TEXT
    return f"{100 if share >= 1 else min(math.floor(share * 100), 99)}%"


def eta_range(phase: PhaseShown | None, to: str = " to ") -> str:
    """`3m00s to 5m00s`; empty where it is not known."""
    if phase is None or phase.eta_ms is None:
        return ""
    first, last = (duration_text(one / 1000) for one in phase.eta_ms)
    return first if first == last else f"{first}{to}{last}"


def clock_text(ms: int | None) -> str:
    """`14:32 UTC`; `?` where it is not known."""
    return UNKNOWN_TEXT if ms is None else time.strftime("%H:%M UTC", time.gmtime(ms / 1000))


def needs_words(course: ShrinkProgress) -> str:
    """What it waits for, and what helps; empty while it goes on by itself."""
    match course.needs:
        case "confirm":
            keys = f"for you: {key_of('confirm_shrink')}, then type {course.topic}."
            # Past the point of no return it asks because of a difference, which its words tell.
            return f"{keys} {course.words}" if course.past_no_return else keys
        case "groups":
            names = [one.name for one in course.groups if one.members]
            return f"for groups to stop: {names_text(names, 3) or UNKNOWN_TEXT}."
        case "producers":
            return f"for what writes {course.topic} to stop."
        case "":
            return ""
        case _:
            return f"for you: {course.words}"


def _for_whom(course: ShrinkProgress) -> str:
    others = {"groups": "for groups to stop", "producers": "for producers to stop"}
    return others.get(course.needs, "for you")


def brief(course: ShrinkProgress) -> str:
    """The phase that it is in, how far, and how long yet: `copy 45%, ETA 3m00s to 5m00s`."""
    phase = phase_now(course)
    if course.needs:
        return f"{course.phase.value}: waits {_for_whom(course)}"
    share, eta = share_of(phase), eta_range(phase)
    known = "" if math.isnan(share) else f" {percent(share)}"
    return f"{course.phase.value}{known}{f', ETA {eta}' if eta else ''}"


def phase_lines(course: ShrinkProgress, glyphs: Glyphs, room: int) -> list[PaneLine]:
    """What there is to say in so many lines; the phase that it is in is always among it."""
    waits = list(_waits(course))
    point = 1 if course.cut_over is CutOver.SAME_NAME else 0
    worded = sum(map(_measured, course.phases))
    asked = sum(one.lines for one in waits)
    if room >= asked + len(course.phases) + point + worded:
        lines = [*waits, *_phases(course, glyphs)]
    else:
        lines = _roomy([*waits, *_short(course, glyphs)], room)
    left = room - sum(one.lines for one in lines)
    if course.groups and left >= 1:
        lines += _groups(course, left)
    return lines[: max(room, 1)]


def _roomy(lines: list[PaneLine], room: int) -> list[PaneLine]:
    """What happens and what is to come may take two lines, where there is room for both."""
    spare = room - sum(one.lines for one in lines)
    long = [line.label in ("Now", "Failed", "Then") for line in lines]
    if spare < sum(long):
        return lines
    return [line._replace(lines=2) if two else line for line, two in zip(lines, long, strict=True)]


def _waits(course: ShrinkProgress) -> Iterable[PaneLine]:
    words, now = needs_words(course), phase_now(course)
    if words:
        yield PaneLine("Waits", words, "warn", 1 if len(words) <= ONE_LINE else 3)
    elif course.words and (now is None or now.words != course.words):
        yield PaneLine("Does", course.words)


def _phases(course: ShrinkProgress, glyphs: Glyphs) -> Iterable[PaneLine]:
    """Each phase on a line of its own, and where the way back ends."""
    label = "Phases"
    for one in course.phases:
        if one.phase is POINT_OF_NO_RETURN:
            yield PaneLine("", _point(course, glyphs), "bad" if course.past_no_return else "warn")
        name = f"{_mark(one, glyphs)} {one.phase.value:<{NAME_CELLS}}"
        words = _progress(one, glyphs) if _measured(one) else one.words
        yield PaneLine(label, f"{name} {words}".rstrip(), _tone(one, course))
        label = ""
        if _measured(one):
            yield PaneLine("", f"{' ' * (NAME_CELLS + 3)}{_amount(one)}", _tone(one, course))


def _tone(one: PhaseShown, course: ShrinkProgress) -> str:
    return "warn" if one.state == "now" and course.needs else _TONES.get(one.state, "")


def _point(course: ShrinkProgress, glyphs: Glyphs) -> str:
    rule = glyphs.rule * 2
    what = f"{course.topic} is gone" if course.past_no_return else f"{course.topic} is deleted"
    return f"{rule} point of no return: {what} {rule}"


def _mark(one: PhaseShown, glyphs: Glyphs) -> str:
    return {"done": glyphs.mark, "now": ">", "failed": glyphs.alert}.get(one.state, " ")


def _progress(one: PhaseShown, glyphs: Glyphs) -> str:
    """`████░░ 45%, ETA 3m00s to 5m00s`."""
    share, eta = share_of(one), eta_range(one)
    parts = [] if math.isnan(share) else [f"{bar(share, BAR_CELLS, glyphs)} {percent(share)}"]
    parts += [f"ETA {eta}"] if eta else []
    return ", ".join(parts)


def _measured(one: PhaseShown) -> bool:
    return one.state == "now" and one.done is not None


def _amount(one: PhaseShown) -> str:
    """`900k of 2.00M records`, and what it does; of a wait its own words, which tell the time."""
    if one.unit == "ms":
        return one.words or f"{_span(one.done)} of {_span(one.total)}"
    amount = f"{_tight(one.done)} of {_tight(one.total)} {one.unit}".rstrip()
    return f"{amount}; {one.words}" if one.words else amount


def _tight(count: int | None) -> str:
    return UNKNOWN_TEXT if count is None else count_text(count, tight=True)


def _span(ms: int | None) -> str:
    return UNKNOWN_TEXT if ms is None else duration_text(ms / 1000)


def _count(count: int | None) -> str:
    return UNKNOWN_TEXT if count is None else count_text(count)


def _short(course: ShrinkProgress, glyphs: Glyphs) -> Iterable[PaneLine]:
    """What is done, the phase that it is in, and what is to come: a line each."""
    done = [one.phase.value for one in course.phases if one.state == "done"]
    if done:
        yield PaneLine("Done", ", ".join(done), "dim")
    now = phase_now(course)
    if now is not None and now.state != "done":
        label = "Failed" if now.state == "failed" else "Now"
        words = now.words
        if _measured(now):
            words = ", ".join(filter(None, (_progress(now, glyphs), _amount(now))))
        yield PaneLine(label, f"{now.phase.value} {words}".rstrip(), _tone(now, course))
    ahead = [one for one in course.phases if one.state == "ahead"]
    if ahead:
        yield PaneLine("Then", _ahead(course, ahead))


def _ahead(course: ShrinkProgress, ahead: Sequence[PhaseShown]) -> str:
    """`seal, [no return] delete, create, ...`."""
    named = []
    for one in ahead:
        point = one.phase is POINT_OF_NO_RETURN and not course.past_no_return
        named.append(f"NO RETURN: {one.phase.value}" if point else one.phase.value)
    return ", ".join(named)


def _groups(course: ShrinkProgress, room: int) -> list[PaneLine]:
    """Each group with its members and what it will read again, those that hold it up first."""
    groups = sorted(course.groups, key=lambda one: (-one.members, -(one.read_twice or 0), one.name))
    if room < min(len(groups), GROUPS_LEAST):
        words = [f"{plural(len(groups), 'consumer group')}"]
        active = sum(1 for one in groups if one.members)
        words += [f"{active:,} with members"] if active else ["none with members"]
        return [PaneLine("Groups", ", ".join(words), "warn" if active else "")]
    shown = groups if len(groups) <= room else groups[: room - 1]
    lines = [PaneLine("", *group_words(one, course)) for one in shown]
    if len(shown) < len(groups):
        lines.append(PaneLine("", f"and {len(groups) - len(shown):,} more", "dim"))
    return [lines[0]._replace(label="Groups"), *lines[1:]]


def group_words(group: GroupShown, course: ShrinkProgress) -> tuple[str, str]:
    """What there is to know of a group, and its tone."""
    members = "no members" if not group.members else plural(group.members, "member")
    if group.committed:
        return f"{group.name}: has its place in the smaller topic", "good"
    twice = ", reads nothing twice"
    if group.read_twice != 0:
        # Before the copy was verified nobody can know it.
        known = group.read_twice is not None or course.verified_ms is not None
        twice = f", reads {_count(group.read_twice)} twice" if known else ""
    return f"{group.name}: {members}{twice}", "warn" if group.members else ""


def waits_for_name(operation: Operation) -> bool:
    """True while the name of its topic would let a shrink go on."""
    course = shrink_progress_of(operation)
    return course is not None and course.needs == "confirm" and "confirm" in operation.actions


def cut_over_lines(course: ShrinkProgress, cluster_id: str, room: int) -> list[PaneLine]:
    """What an operator must know who types the name: what goes, where it is, who reads it."""
    records = "" if course.records is None else f"{course.records:,} "
    equal = f"verified equal at {clock_text(course.verified_ms)}"
    if course.verified_ms is None:
        equal = "NOT verified yet"
    copy = PaneLine(
        "Its copy",
        f"Its {records}records are in {course.copy}, {equal}.",
        "good" if course.verified_ms is not None else "bad",
        2,
    )
    rest = "What is written until then is copied and verified first, by itself."
    head = [_deletes(course), copy, PaneLine("", rest, "", 2)]
    if course.past_no_return:
        # It is asked once more where what was copied back is not what the copy holds.
        head = [PaneLine("Differs", course.words, "bad", 6), copy]
    tail = [PaneLine("Cluster", cluster_id)]
    left = room - sum(one.lines for one in head) - len(tail)
    groups = _groups(course, left) if course.groups and left > 0 else []
    if not course.groups:
        groups = [PaneLine("Groups", "no consumer group has read it")]
    return [*head, *groups, *tail]


def _deletes(course: ShrinkProgress) -> PaneLine:
    if course.cut_over is CutOver.NEW_NAME:
        words = f"{course.topic} becomes read-only, and {course.copy} takes its place."
        return PaneLine("Seals", words, "warn", 2)
    anew = plural(course.wanted, "partition")
    words = f"This deletes topic {course.topic}; it is made anew with {anew} and copied back."
    return PaneLine("Deletes", words, "bad", 2)
