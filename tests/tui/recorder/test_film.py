"""`kshunt replay --cast` and `--svg`: real frames of the dashboard, without a terminal."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import re
import subprocess
import sys
from bisect import bisect_right
from pathlib import Path
from xml.etree import ElementTree

import pyte
import pytest
from rich.console import Console

from kshunt.backend.cli.main import main
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.errors import BadInput
from kshunt.tui.actions.view_names import OVERVIEW
from kshunt.tui.film.cast import Cast
from kshunt.tui.film.filming import FRAMES_PER_S, Film
from kshunt.tui.film.moving_picture import MovingPicture
from tests.support.tui.replay import recorded, replayed, scripted

SIZE = (100, 30)


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variable in ("KSHUNT_SETTINGS", "NO_COLOR", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Forty seconds of a move."""

    async def watched() -> Path:
        async with recorded(tmp_path, scripted()) as shown:
            for _ in range(4):
                await shown.later(10)
            [path] = shown.recorder.paths
            return path

    return asyncio.run(watched())


def played(path: Path) -> tuple[dict[str, object], list[tuple[float, str, str]], pyte.Screen]:
    """The header of a cast, its events, and the terminal that has shown them."""
    header, *events = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    screen = pyte.Screen(header["width"], header["height"])
    stream = pyte.Stream(screen)
    for _, _, data in events:
        stream.feed(data)
    return header, events, screen


def at_the_end(recording: Path) -> str:
    """What the dashboard shows of the last moment."""

    async def shown() -> str:
        async with replayed([recording], size=SIZE, start_view=OVERVIEW) as dashboard:
            await dashboard.go("dollar_sign")
            return dashboard.frame()

    return asyncio.run(shown())


def test_a_cast_without_a_terminal(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.cast"
    words = ["replay", str(recording), "--cast", str(out), "--speed", "20", "--size", "100x30"]
    done = subprocess.run(
        [sys.executable, "-m", "kshunt", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"Written: {out}\n")
    header, events, screen = played(out)
    assert header["version"] == 2
    assert (header["width"], header["height"]) == SIZE
    assert header["duration"] == 2.0
    times = [at_s for at_s, _, _ in events]
    assert times == sorted(times)
    assert times[0] == 0
    assert times[-1] == 2.0
    assert {kind for _, kind, _ in events} == {"o"}
    assert len([data for _, _, data in events if data]) > 3
    shown = "\n".join(line.rstrip() for line in screen.display)
    assert shown == at_the_end(recording)
    assert "38;2;" in events[0][2], "colours are exact"


def test_a_cast_says_how_fast_it_plays(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.cast"
    assert main(["replay", str(recording), "--cast", str(out), "--speed", "15"]) == 0
    _, events, _ = played(out)
    assert "playing x15" in "".join(data for _, _, data in events)


def test_a_picture_of_a_moment_loads_nothing(recording: Path, tmp_path: Path) -> None:
    end, middle = tmp_path / "end.svg", tmp_path / "middle.svg"
    assert main(["replay", str(recording), "--svg", str(end), "--size", "100x30"]) == 0
    assert main(["replay", str(recording), "--svg", str(middle), "--at", "20s"]) == 0
    texts = [path.read_text("utf-8") for path in (end, middle)]
    for text in texts:
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert loads_nothing(text)
    assert "40s&#160;of&#160;40s" in texts[0]
    assert "20s&#160;of&#160;40s" in texts[1]


def test_a_moving_picture_shows_each_moment_at_its_time(recording: Path, tmp_path: Path) -> None:
    moving, end, still = (tmp_path / f"{name}.svg" for name in ("moving", "end", "still"))
    words = ["replay", str(recording), "--size", "100x30"]
    assert main([*words, "--moving-svg", str(moving), "--speed", "20"]) == 0
    assert main([*words, "--svg", str(end)]) == 0
    assert main([*words, "--svg", str(still), "--at", "20s"]) == 0
    text = moving.read_text("utf-8")
    assert loads_nothing(text)
    film, last = ElementTree.fromstring(text), lines(ElementTree.fromstring(end.read_text("utf-8")))
    assert lines(at_time(film, 2.5)) == last, "the last frame rests"
    assert lines(at_time(film, None)) == last, "it is what a reader without movement shows"
    middle, paused = (
        lines(at_time(film, 1.1)),
        lines(ElementTree.fromstring(still.read_text("utf-8"))),
    )
    differ = [(one, other) for one, other in zip(middle, paused, strict=True) if one != other]
    assert len(differ) == 1
    assert ("playing" in differ[0][0], "playing" in differ[0][1]) == (True, False)


@pytest.mark.parametrize("shown", [[1, 1, 1], [1, 2, 3], [1, 2, 1], [1, 0, 1], [0, 2, 2]])
def test_a_line_is_visible_while_it_has_its_content(shown: list[int]) -> None:
    picture = MovingPicture()
    for number, content in enumerate(shown):
        picture.add(float(number), screen_with("=" * content))
    film = ElementTree.fromstring(picture.text(4.0))
    for at_s, content in ((0.5, shown[0]), (1.5, shown[1]), (2.5, shown[2]), (3.5, shown[2])):
        assert lines(at_time(film, at_s)) == ["first", *["=" * content][: min(content, 1)]]


def test_a_moving_picture_without_a_frame_is_none() -> None:
    with pytest.raises(ValueError, match="at least one frame"):
        MovingPicture().text(1.0)


def screen_with(second: str) -> str:
    """A picture of a terminal with two lines."""
    console = Console(record=True, width=20, height=2, file=io.StringIO(), color_system="truecolor")
    console.print("first", style="bold red", highlight=False)
    console.print(second, style="on blue", highlight=False)
    # Textual names them by the identity of the terminal.
    return console.export_svg(unique_id="terminal-7", title="kshunt")


def at_time(film: ElementTree.Element, at_s: float | None) -> ElementTree.Element:
    """The picture without what is hidden at a moment; None where nothing moves."""
    film = copy.deepcopy(film)
    for parent in list(film.iter()):
        for group in [one for one in parent if one.get("visibility")]:
            if visibility(group, at_s) == "hidden":
                parent.remove(group)
    return film


def visibility(group: ElementTree.Element, at_s: float | None) -> str:
    animation = group[0].attrib
    if at_s is None:
        return group.attrib["visibility"]
    times = [float(time) for time in animation["keyTimes"].split(";")]
    duration_s = float(animation["dur"].removesuffix("s"))
    values = animation["values"].split(";")
    assert (len(values), times[0], times) == (len(times), 0, sorted(times))
    return values[bisect_right(times, at_s / duration_s) - 1]


def lines(picture: ElementTree.Element) -> list[str]:
    """The lines of text of a picture's screen that are not blank, from the top."""
    found: dict[float, list[tuple[float, str]]] = {}
    for text in picture.iter("{http://www.w3.org/2000/svg}text"):
        if text.get("class") != "terminal-title":
            place = float(text.attrib["y"]), float(text.attrib["x"])
            found.setdefault(place[0], []).append((place[1], text.text or ""))
    every = ("".join(text for _, text in sorted(found[y])).strip() for y in sorted(found))
    return [line for line in every if line]


def loads_nothing(text: str) -> bool:
    """Whether a picture is whole by itself."""
    foreign = r"@import|@font-face|url\((?!['\"]?#)|<image|<script|href=\"(?!#)"
    return not re.search(foreign, text)


def test_a_cast_and_a_picture_at_the_same_time(recording: Path, tmp_path: Path) -> None:
    cast, svg = tmp_path / "a.cast", tmp_path / "a.svg"
    words = ["--cast", str(cast), "--svg", str(svg), "--speed", "40", "--size", "20x5"]
    assert main(["replay", str(recording), *words]) == 0
    assert cast.exists()
    assert svg.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--svg", "OUT", "--at", "41s"), "The recording ends before"),
        (("--svg", "OUT", "--at", "soon"), "--at 'soon' is not a time"),
        (("--svg", "OUT", "--size", "100"), "must be COLSxROWS"),
        (("--svg", "OUT", "--size", "10x10"), "must be from 20x5 to 500x200"),
        (("--svg", "OUT", "--size", "100x900"), "must be from 20x5 to 500x200"),
        (("--cast", "OUT", "--speed", "0"), "must be more than 0"),
        (("--cast", "OUT", "--speed", "nan"), "must be more than 0"),
        (("--cast", "OUT", "--at", "5s"), "--at needs --svg"),
        (("--svg", "OUT", "--speed", "5"), "--speed needs --cast or --moving-svg"),
        (("--size", "80x24"), "--size needs --cast or --svg or --moving-svg"),
        (("--moving-svg", "OUT", "--speed", "0.1"), "the maximum is 400"),
        (("--cast", "OUT", "--speed", "0.001"), "Give --speed 0.008 or more"),
    ],
)
def test_what_cannot_be_meant_writes_nothing(
    words: tuple[str, ...],
    said: str,
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    typed = [str(out) if word == "OUT" else word for word in words]
    assert main(["replay", str(recording), *typed]) in (ExitCode.FAILED, ExitCode.USAGE)
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_a_file_is_not_replaced(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.cast"
    out.write_text("mine")
    assert main(["replay", str(recording), "--cast", str(out)]) == ExitCode.FAILED
    assert "it is not replaced" in capsys.readouterr().err
    assert out.read_text() == "mine"


def test_the_frames_reach_from_the_beginning_to_the_end() -> None:
    film = Film(SIZE, 1_000, 11_100, 2.0)
    moments = film.moments()
    assert moments[0] == (0.0, 1_000)
    assert moments[-1] == (film.duration_s, 11_100)
    assert len(moments) == int(film.duration_s * FRAMES_PER_S) + 2
    assert Film(SIZE, 5, 5, 1.0).moments() == [(0.0, 5)]
    with pytest.raises(BadInput):
        Film(SIZE, 0, 10**9, 0.01).moments()


def test_a_frame_holds_only_lines_that_differ() -> None:
    cast = Cast((10, 2), title="a", began_s=0)
    for at_s, lines in ((0.0, ["a", "b"]), (0.25, ["a", "b"]), (0.5, ["a", "c"])):
        cast.add(at_s, lines)
    events = [json.loads(line) for line in cast.text(1.0).splitlines()[1:]]
    assert [(at_s, data) for at_s, _, data in events[1:]] == [
        (0.5, "\x1b[2;1Hc\x1b[m"),
        (1.0, ""),
    ]
