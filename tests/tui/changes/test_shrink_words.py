"""A topic that shrinks: its screens as plain text, and the words of its lines."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.domain.shrink.phases import (
    CutOver,
    GroupShown,
    ShrinkPhase,
    ShrinkRequest,
    phases_of,
)
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.wizard.pages import Step
from kshunt.tui.changes.wizard.parsing import a_delay, a_new_name, codes, fewer_than, yes_or_no
from kshunt.tui.changes.wizard.shrink_findings import ROWS_MOST, safety_lines
from kshunt.tui.facts.shrink_phases import brief, cut_over_lines, phase_lines
from kshunt.tui.text.glyphs import ASCII, UNICODE
from kshunt.tui.views.operations.operation_dialog import WatchScreen
from tests.support.tui.app import SIZES, Shown, at_step, check_frame, dashboard, go_through, named
from tests.support.tui.cluster import incident
from tests.support.tui.shrinks import (
    ACTIVE,
    SHORT,
    TOPIC,
    UNREAD,
    WRITING,
    Shrinking,
    check_of,
    choose,
    choose_orders,
    fill,
    progress_in,
    shrink_of,
    to_the_name,
    until,
    waiting,
)

# Frames


@pytest.fixture(params=SIZES)
async def framed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard at each size."""
    async with dashboard(tmp_path / "s", incident(), size=SIZES[request.param]) as running:
        await choose_orders(running)
        if request.param == "160x50":
            # Without its plot, which follows the time.
            await running.press("p")
        yield running


async def test_frame_of_the_safety_view(framed: Shown) -> None:
    shrinking = Shrinking(framed.backend, check_of((SHORT, WRITING, ACTIVE, UNREAD)))
    wizard = await fill(framed)
    await check_frame(named("shrink-safety", framed), framed)
    await framed.pilot.press("escape")
    await at_step(framed, Step.CHOICES)
    await check_frame(named("shrink-choices", framed), framed)
    await choose(framed, wizard, "5m", "no", "found", "retention-short")
    await framed.pilot.press("pagedown", "pagedown")
    await until(framed, "that is everything")
    await check_frame(named("shrink-safety-below", framed), framed)
    await go_through(framed)
    shrinking.show(shrink_of(progress_in(ShrinkPhase.COPY)))
    await framed.publish()
    await until(framed, "45%")
    await check_frame(named("shrink-watch", framed), framed)


async def test_frame_of_the_name(framed: Shown) -> None:
    shrinking = Shrinking(framed.backend)
    await to_the_name(framed, shrinking)
    await check_frame(named("shrink-name", framed), framed)
    await framed.pilot.press("escape")
    await framed.closed()
    await framed.press("enter")
    await framed.dialog(WatchScreen)
    await until(framed, "2,000,000 records, equal")
    await check_frame(named("shrink-operation", framed), framed)


async def test_frame_of_the_lists(framed: Shown) -> None:
    shrinking = Shrinking(framed.backend)
    shrinking.show(waiting())
    await framed.press("5")
    await until(framed, "O confirm")
    await check_frame(named("shrink-operations", framed), framed)
    await framed.press("1")
    await until(framed, "its name: 5")
    await check_frame(named("shrink-overview", framed), framed)


# Words


PHASES = st.sampled_from(list(ShrinkPhase))


@given(
    PHASES,
    st.integers(1, 60),
    st.sampled_from(["", "confirm", "groups", "producers", "operator"]),
    st.integers(0, 30),
)
def test_a_course_never_takes_more_room_than_it_has(
    phase: ShrinkPhase, room: int, needs: str, groups: int
) -> None:
    named = tuple(GroupShown(f"g{n}", n % 3, None, False) for n in range(groups))
    progress = progress_in(phase, needs=needs, groups=named, words="w" * 90)
    for glyphs in (UNICODE, ASCII):
        lines = phase_lines(progress, glyphs, room)
        assert 1 <= len(lines) <= room
        if room > 8:
            assert any(phase.value in line.text for line in lines)
    assert cut_over_lines(progress, "c", room)
    assert phase.value in brief(progress)


@pytest.mark.parametrize("cut_over", list(CutOver))
def test_every_phase_is_told(cut_over: CutOver) -> None:
    progress = progress_in(phases_of(cut_over)[-1], cut_over=cut_over)
    text = "\n".join(line.text for line in phase_lines(progress, ASCII, 40))
    assert all(phase.value in text for phase in phases_of(cut_over))
    assert ("no return" in text) == (cut_over is CutOver.SAME_NAME)


def test_hundreds_of_partitions_are_counted_beyond_the_first() -> None:
    check = check_of()
    many = tuple(replace(check.partitions[0], number=n) for n in range(3, 203))
    lines = safety_lines(replace(check, partitions=many), ShrinkRequest(TOPIC, 3, 0), ASCII)
    assert any(line.text == f"and {200 - ROWS_MOST + 1} more partitions" for line in lines)


def test_what_is_not_known_is_a_question_mark() -> None:
    check = check_of()
    unknown = replace(
        check.partitions[0],
        size_bytes=None,
        records=None,
        expires_in_ms=None,
        written_meanwhile=None,
        producers=None,
    )
    found = replace(check, partitions=(unknown,), copy_bytes=None, total_bytes=None)
    lines = safety_lines(found, ShrinkRequest(TOPIC, 3, 0), ASCII)
    rows = [line.text.split() for line in lines]
    assert ["3", "?", "?", "?", "?", "?"] in rows


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [("0", 0), ("30s", 30_000), ("5m", 300_000), ("1h30m", 5_400_000), ("2d", 172_800_000)],
)
def test_delays_are_read(text: str, delay_ms: int) -> None:
    assert a_delay(text) == delay_ms


@pytest.mark.parametrize("text", ["", "-1", "5", "5 m", "1.5h", "366d", "9" * 30 + "d", "m"])
def test_delays_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        a_delay(text)


@pytest.mark.parametrize("text", ["orders", "taken", "a b", "", "..", "x" * 250, "é"])
def test_names_that_cannot_be_given_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        a_new_name(text, "orders", {"taken"})


def test_choices_are_read() -> None:
    assert a_new_name("same", "orders", ()) == ""
    assert (yes_or_no("Yes"), yes_or_no("n")) == (True, False)
    assert codes("none") == codes("") == ()
    assert codes("no-room, compacted no-room") == ("no-room", "compacted")
    assert fewer_than(" 3 ", 6) == 3
    for wrong in ("maybe", ""):
        with pytest.raises(BadInput):
            yes_or_no(wrong)
    with pytest.raises(BadInput):
        codes("No Room!")
