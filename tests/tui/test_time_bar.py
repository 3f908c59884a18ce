"""The bar that is shown while the dashboard shows the past."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshunt.tui.facts.cockpit.marks import Kind, Mark, Sign
from kshunt.tui.grid.time_bar import TimeBarState, bar_text, rounded_text
from kshunt.tui.recorder.reader import Stop
from kshunt.tui.text.glyphs import ASCII

AT = TimeBarState(
    replay=False,
    wall_ms=1_763_780_645_000,
    ago_s=133.0,
    position_ms=30_000,
    first_ms=10_000,
    last_ms=50_000,
    playing=False,
    speed=4,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (9.9, "9s"),
        (10, "10s"),
        (14.9, "10s"),
        (59, "55s"),
        (60, "1m00s"),
        (69, "1m00s"),
        (3_599, "59m50s"),
        (3_600, "1h00m"),
        (3_719, "1h01m"),
    ],
)
def test_a_long_time_ago_does_not_change_every_second(seconds: float, text: str) -> None:
    assert rounded_text(seconds) == text


def shown(state: TimeBarState, width: int) -> str:
    text = bar_text(state, width, ASCII)
    assert len(text) == width
    return text.rstrip()


def test_the_bar_says_when_how_and_how_far() -> None:
    words = " BACK IN TIME | 2m10s ago | 2025-11-22 03:04:05Z | held, x4 | 20s of 40s"
    dot = ASCII.dot
    assert shown(AT, 120).startswith(words.replace("|", dot))
    replay = replace(AT, replay=True, playing=True)
    assert shown(replay, 120).startswith(
        " REPLAY | 2025-11-22 03:04:05Z | playing x4 | 20s of 40s".replace("|", dot)
    )


@pytest.mark.parametrize(
    ("position_ms", "words", "place"),
    [
        (10_000, "0s of 40s", 0.0),
        (30_000, "20s of 40s", 0.5),
        (50_000, "40s of 40s", 1.0),
        (5_000, "0s of 40s", 0.0),
        (99_000, "40s of 40s", 1.0),
    ],
)
def test_the_mark_lies_where_the_moment_does(position_ms: int, words: str, place: float) -> None:
    text = shown(replace(AT, position_ms=position_ms), 160)
    assert words in text
    line = text[text.index("[") + 1 : text.rindex("]")]
    assert line.index("|") == round(place * (len(line) - 1))
    assert set(line[: line.index("|")]) <= {"="}
    assert set(line[line.index("|") + 1 :]) <= {"-"}


def test_a_recording_of_one_moment_is_at_its_end() -> None:
    text = shown(replace(AT, first_ms=50_000, last_ms=50_000), 160)
    assert "0s of 0s" in text
    assert text.endswith("|]")


def stop(time_ms: int, kind: Kind, sign: Sign = "") -> Stop:
    return Stop(time_ms, time_ms, Mark(kind, "words", sign))


def test_what_happened_is_marked_on_the_line() -> None:
    stops = (
        stop(10_000, "change", "start"),
        stop(20_000, "change", "throttle"),
        stop(20_010, "change"),
        stop(40_000, "incident", "isr"),
        stop(40_010, "change", "end"),
        stop(45_000, "incident"),
        stop(50_000, "change", "end"),
        stop(90_000, "incident"),
    )
    text = shown(replace(AT, stops=stops), 160)
    line = text[text.index("[") + 1 : text.rindex("]")]
    found = {place: sign for place, sign in enumerate(line) if sign not in "=-|"}
    last = len(line) - 1
    assert found == {
        0: "s",
        round(last / 4): "t",
        round(last * 3 / 4): "i",
        round(last * 7 / 8): "!",
        last: "e",
    }


def test_the_moment_that_is_shown_hides_what_happened_then() -> None:
    text = shown(replace(AT, stops=(stop(30_000, "incident"),)), 160)
    assert "!" not in text
