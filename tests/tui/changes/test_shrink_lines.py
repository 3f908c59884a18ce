"""A shrink in lines, to the word: in much room, in little, and for the user who types the name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshunt.backend.domain.shrink.phases import (
    CutOver,
    GroupShown,
    PhaseShown,
    ShrinkPhase,
    ShrinkProgress,
)
from kshunt.tui.actions import key_of
from kshunt.tui.facts.shrink_phases import (
    brief,
    cut_over_lines,
    eta_range,
    group_words,
    needs_words,
    phase_lines,
    share_of,
)
from kshunt.tui.tables.lines import PaneLine
from kshunt.tui.text.glyphs import ASCII
from tests.support.tui.shrinks import progress_in

Phase = ShrinkPhase
COPYING = progress_in(Phase.COPY)
WAITING = progress_in(Phase.QUIESCE)


def said(progress: ShrinkProgress, room: int) -> list[tuple[str, str]]:
    return [(line.label, line.text) for line in phase_lines(progress, ASCII, room)]


@pytest.mark.parametrize(
    ("phase", "share"),
    [
        (None, None),
        (PhaseShown(Phase.COPY, "now"), None),
        (PhaseShown(Phase.COPY, "now", done=1, total=0), None),
        (PhaseShown(Phase.COPY, "now", done=0, total=4), 0.0),
        (PhaseShown(Phase.COPY, "now", done=1, total=4), 0.25),
        (PhaseShown(Phase.COPY, "now", done=9, total=4), 1.0),
    ],
)
def test_a_share_lies_between_nothing_and_all(
    phase: PhaseShown | None, share: float | None
) -> None:
    found = share_of(phase)
    assert (found != found) if share is None else found == share


@pytest.mark.parametrize(
    ("eta_ms", "words"),
    [(None, ""), ((60_000, 60_000), "1m00s"), ((60_000, 90_000), "1m00s to 1m30s")],
)
def test_an_eta_is_a_range_where_its_ends_differ(
    eta_ms: tuple[int, int] | None, words: str
) -> None:
    assert eta_range(PhaseShown(Phase.COPY, "now", eta_ms=eta_ms)) == words
    assert eta_range(None) == ""


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (COPYING, "copy 45%, ETA 3m00s to 5m00s"),
        (WAITING, "quiesce 2%"),
        (progress_in(Phase.VERIFY), "verify"),
        (replace(COPYING, needs="groups"), "copy: waits for groups to stop"),
        (replace(COPYING, needs="producers"), "copy: waits for producers to stop"),
        (replace(COPYING, needs="confirm"), "copy: waits for you"),
    ],
)
def test_a_shrink_in_a_few_words(progress: ShrinkProgress, words: str) -> None:
    assert brief(progress) == words


GROUPS = tuple(GroupShown(name, count, 0, False) for name, count in (("a", 1), ("b", 0), ("c", 2)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"needs": "confirm"}, f"for you: {key_of('confirm_shrink')}, then type orders."),
        (
            {"needs": "confirm", "past_no_return": True, "words": "It differs."},
            f"for you: {key_of('confirm_shrink')}, then type orders. It differs.",
        ),
        ({"needs": "groups", "groups": GROUPS}, "for groups to stop: a, c."),
        ({"needs": "groups", "groups": ()}, "for groups to stop: ?."),
        ({"needs": "producers"}, "for the producers of orders to stop."),
        ({"needs": "operator", "words": "no Java"}, "for you: no Java"),
    ],
)
def test_whom_it_waits_for_is_said(changes: dict[str, object], words: str) -> None:
    assert needs_words(replace(COPYING, **changes)) == words  # type: ignore[arg-type]


def test_in_much_room_each_phase_has_a_line() -> None:
    lines = said(COPYING, 40)
    assert lines[:5] == [
        ("Phases", f"{ASCII.mark} check        nothing refuses it"),
        ("", f"{ASCII.mark} quiesce      no write for 5m00s"),
        ("", "> copy         [####----] 45%, ETA 3m00s to 5m00s"),
        ("", "               900k of 2.00M records"),
        ("", "  verify"),
    ]
    rule = ASCII.rule * 2
    assert ("", f"{rule} point of no return: orders is deleted {rule}") in lines
    assert lines[-2:] == [
        ("Groups", "billing: no members, reads 1,204 twice"),
        ("", "search: no members, reads nothing twice"),
    ]
    # So much is needed, and one line less is too little.
    whole = len(Phase) + 2
    assert len(said(COPYING, whole)) == whole
    assert said(COPYING, whole - 1)[0] == ("Done", "check, quiesce")


def test_past_the_point_it_is_gone() -> None:
    rule = ASCII.rule * 2
    gone = f"{rule} point of no return: orders does not exist any more {rule}"
    lines = phase_lines(progress_in(Phase.CREATE), ASCII, 40)
    assert [line.tone for line in lines if line.text == gone] == ["bad"]
    new = phase_lines(progress_in(Phase.SEAL, cut_over=CutOver.NEW_NAME), ASCII, 40)
    assert not any("point of no return" in line.text for line in new)


def test_in_little_room_it_is_what_is_done_what_happens_and_what_comes() -> None:
    then = (
        "verify, confirm, seal, copy rest, verify rest, NO RETURN: delete, create, copy back, "
        "verify back, translate, clean up"
    )
    now = "copy [####----] 45%, ETA 3m00s to 5m00s, 900k of 2.00M records"
    short = [("Done", "check, quiesce"), ("Now", now), ("Then", then)]
    assert said(COPYING, 3) == short
    assert [line.lines for line in phase_lines(COPYING, ASCII, 4)][:3] == [1, 1, 1]
    assert [line.lines for line in phase_lines(COPYING, ASCII, 5)] == [1, 2, 2]
    assert said(COPYING, 4)[3] == ("Groups", "2 consumer groups, none with members")
    assert said(progress_in(Phase.CHECK), 3)[0] == ("Now", "check")
    after = dict(said(progress_in(Phase.CREATE), 3))
    assert after["Then"] == "copy back, verify back, translate, clean up"


def test_what_failed_is_said_to_have() -> None:
    phases = tuple(
        replace(one, state="failed", words="no Java", done=None) if one.state == "now" else one
        for one in COPYING.phases
    )
    failed = replace(COPYING, phases=phases)
    assert ("Failed", "copy no Java") in said(failed, 3)
    assert any(line.tone == "bad" for line in phase_lines(failed, ASCII, 3))


def test_a_wait_comes_first_and_a_halt_says_what_it_does() -> None:
    waits = replace(COPYING, needs="producers")
    assert phase_lines(waits, ASCII, 20)[0] == PaneLine(
        "Waits", "for the producers of orders to stop.", "warn"
    )
    long = replace(COPYING, needs="operator", words="w" * 60)
    assert phase_lines(long, ASCII, 20)[0].lines == 3
    halted = replace(COPYING, halted=True, words="paused")
    assert said(halted, 20)[0] == ("Does", "paused")
    assert said(replace(halted, words=""), 20)[0][0] != "Does"


def test_a_delay_says_its_own_words_or_its_times() -> None:
    assert said(WAITING, 40)[2] == ("", f"{' ' * 15}2 producers still write, the last 8 s ago")
    silent = tuple(replace(one, words="") for one in WAITING.phases)
    assert said(replace(WAITING, phases=silent), 40)[2] == ("", f"{' ' * 15}8s of 5m00s")


MANY = tuple(GroupShown(f"g{n}", n % 2, n, False) for n in range(5))


def test_groups_with_members_come_first_and_the_rest_is_counted() -> None:
    progress = replace(progress_in(Phase.CHECK), groups=MANY, verified_ms=1)
    whole = len(Phase) + 1
    shown = [text for _, text in said(progress, whole + 4)[whole:]]
    assert shown == [
        "g3: 1 member, reads 3 twice",
        "g1: 1 member, reads 1 twice",
        "g4: no members, reads 4 twice",
        "and 2 more",
    ]
    assert len(said(progress, whole + 5)) == whole + 5
    assert said(progress, whole + 2)[-1] == ("Groups", "5 consumer groups, 2 with members")


@pytest.mark.parametrize(
    ("group", "verified", "words"),
    [
        (GroupShown("g", 2, 0, True), True, ("g: has its offsets in the smaller topic", "good")),
        (GroupShown("g", 2, 0, False), False, ("g: 2 members, reads nothing twice", "warn")),
        (GroupShown("g", 0, None, False), False, ("g: no members", "")),
        (GroupShown("g", 0, None, False), True, ("g: no members, reads ? twice", "")),
    ],
)
def test_what_is_known_of_a_group(
    group: GroupShown, verified: bool, words: tuple[str, str]
) -> None:
    progress = replace(COPYING, verified_ms=1 if verified else None)
    assert group_words(group, progress) == words


def test_who_types_the_name_is_told_what_goes() -> None:
    progress = replace(progress_in(Phase.CONFIRM), verified_ms=60_000, groups=())
    lines = [(line.label, line.text, line.lines) for line in cut_over_lines(progress, "c1", 20)]
    assert lines == [
        (
            "Deletes",
            "This deletes topic orders; it is recreated with 3 partitions and copied back.",
            2,
        ),
        (
            "Its copy",
            "Its 2,000,000 records are in orders.kshunt-op-1, verified equal at 00:01 UTC.",
            2,
        ),
        ("", "kshunt copies and verifies new records until then.", 2),
        ("Groups", "no consumer group has read it", 1),
        ("Cluster", "c1", 1),
    ]
    unverified = replace(progress, verified_ms=None, records=None)
    assert cut_over_lines(unverified, "c1", 20)[1] == PaneLine(
        "Its copy", "Its records are in orders.kshunt-op-1, NOT verified yet.", "bad", 2
    )
    new = replace(progress, cut_over=CutOver.NEW_NAME)
    assert cut_over_lines(new, "c1", 20)[0].label == "Seals"
    differs = replace(progress, past_no_return=True, words="one more")
    assert cut_over_lines(differs, "c1", 20)[0] == PaneLine("Differs", "one more", "bad", 6)


def test_groups_have_the_lines_that_are_left() -> None:
    progress = replace(progress_in(Phase.CONFIRM), groups=MANY)
    fixed = 2 + 2 + 2 + 1
    for room, labels in ((fixed, 0), (fixed + 1, 1), (fixed + 3, 3), (fixed + 5, 5)):
        lines = cut_over_lines(progress, "c", room)
        assert len(lines) - 4 == labels
