"""Themes and terminals: enough contrast, every role, a clear error, the right mode to start in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from kshunt.backend.errors import ConfigError
from kshunt.tui.__main__ import terminal_of
from kshunt.tui.shell.theme_files import ANSI, DEFAULT, TONE_DEFAULTS, builtin_themes, parse_theme
from kshunt.tui.stylesheet import CachedStylesheet
from kshunt.tui.views.status_bar import StatusBar
from tests.support.paths import ROOT
from tests.support.tui.app import dashboard
from tests.support.tui.cluster import incident

THEMES = {theme.name: theme for theme in builtin_themes()}
TONES = ("tone-good", "tone-warn", "tone-bad", "tone-strong", "tone-dim")
CONTRAST_LEAST = 4.5
"""WCAG AA for text of normal size."""


def test_the_themes_that_are_promised_are_there() -> None:
    assert {DEFAULT, ANSI, "daylight"} <= set(THEMES)
    assert THEMES[ANSI].ansi


@pytest.mark.parametrize("name", sorted(THEMES))
def test_a_theme_names_every_role(name: str) -> None:
    assert set(TONE_DEFAULTS) <= set(THEMES[name].variables)


def test_the_ansi_theme_has_every_variable_of_textuals_own() -> None:
    assert set(BUILTIN_THEMES["ansi-dark"].variables) <= set(THEMES[ANSI].variables)


@pytest.mark.parametrize("name", sorted(set(THEMES) - {ANSI}))
@pytest.mark.parametrize("tone", [*TONES, "foreground"])
def test_every_text_is_readable_on_every_ground(name: str, tone: str) -> None:
    theme = THEMES[name]
    colours = {**theme.to_color_system().generate(), **theme.variables}
    grounds = ("background", "surface", "panel", "bar-background", "cursor-background")
    for ground in grounds:
        ratio = contrast(Color.parse(colours[tone]), Color.parse(colours[ground]))
        assert ratio >= CONTRAST_LEAST, f"{name}: {tone} on {ground} is {ratio:.2f}"


@pytest.mark.parametrize("name", sorted(set(THEMES) - {ANSI}))
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("cursor-foreground", "cursor-background"),
        ("bar-foreground", "bar-background"),
        ("background", "tone-bad"),
    ],
)
def test_reversed_texts_are_readable_too(name: str, text: str, ground: str) -> None:
    theme = THEMES[name]
    colours = {**theme.to_color_system().generate(), **theme.variables}
    assert contrast(Color.parse(colours[text]), Color.parse(colours[ground])) >= CONTRAST_LEAST


def contrast(one: Color, other: Color) -> float:
    """The contrast ratio of WCAG 2, from 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: Color) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    channels = (channel / 255 for channel in colour.rgb)
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "Theme x.toml cannot be used"),
        ('name = "x"', "primary"),
        ('name = "x"\nprimary = "#nothex"', "nothex"),
        ('name = "x"\nprimary = "#fff"\ncolour = "red"', "colour"),
    ],
)
def test_a_theme_that_cannot_be_used_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_theme(text, "x.toml")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sorted(THEMES), "nord"])
async def test_every_theme_can_be_shown(tmp_path: Path, name: str) -> None:
    async with dashboard(tmp_path / "s", incident(), theme=name, plain=name == ANSI) as shown:
        assert shown.app.theme == name
        await shown.press("f", "c")
        await shown.until(lambda: "Do nothing" in shown.frame(), "the question is asked")


def test_a_theme_that_comes_back_has_its_own_colours() -> None:
    sheet = CachedStylesheet(variables={"ground": "#ff0000"})
    sheet.add_source("Screen { background: $ground; }")
    seen = []
    for ground in ("#ff0000", "#0000ff", "#ff0000"):
        sheet.set_variables({"ground": ground})
        sheet.reparse()
        seen.append(sheet.rules[0].styles.background.hex)
    assert seen == ["#FF0000", "#0000FF", "#FF0000"]


def test_two_dashboards_share_what_was_read_with_the_same_colours() -> None:
    sheets = [CachedStylesheet(variables={"ground": "#00ff00"}) for _ in range(2)]
    for sheet in sheets:
        sheet.add_source("Screen { background: $ground; }")
        sheet.parse()
    assert sheets[0].rules[0] is sheets[1].rules[0]


async def test_the_head_changes_its_colours_with_the_rest(tmp_path: Path) -> None:
    async with dashboard(tmp_path / "s", incident()) as shown:
        status = shown.app.screen.query_one(StatusBar)
        # It looks again each second; that must not be what repairs it.
        for timer in list(status._timers):
            timer.stop()
        shown.app.themes.wear("mono")
        await shown.until(lambda: _is_grey(status.render().spans[0].style), "a name without colour")


def _is_grey(style: Style | str) -> bool:
    color = style.color if isinstance(style, Style) else None
    return color is not None and len({*color.get_truecolor()}) == 1


@pytest.mark.parametrize(
    ("environ", "encoding", "plain", "ascii_only", "system"),
    [
        ({"TERM": "xterm-256color"}, "UTF-8", False, False, "auto"),
        ({"TERM": "tmux-256color", "COLORTERM": "truecolor"}, "UTF-8", False, False, "auto"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "utf8", False, False, "auto"),
        ({"TERM": "xterm"}, "UTF-8", True, False, "standard"),
        ({"TERM": "screen"}, "UTF-8", True, False, "standard"),
        ({"TERM": "linux"}, "UTF-8", True, True, "standard"),
        ({"TERM": "vt100"}, "UTF-8", True, True, "standard"),
        ({"TERM": "dumb"}, "UTF-8", True, True, "standard"),
        ({}, "ANSI_X3.4-1968", True, True, "standard"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "UTF-8", True, False, "auto"),
        ({"TERM": "xterm-256color", "TEXTUAL_COLOR_SYSTEM": "none"}, "UTF-8", False, False, "auto"),
        ({"TERM": "xterm", "TEXTUAL_COLOR_SYSTEM": "256"}, "UTF-8", False, False, "256"),
        ({"TERM": "xterm-256color"}, "ISO-8859-1", False, True, "auto"),
        ({"TERM": "xterm-256color", "LC_ALL": "C"}, "UTF-8", False, True, "auto"),
        (
            {"TERM": "xterm-256color", "LANG": "C", "LC_CTYPE": "C.UTF-8"},
            "UTF-8",
            False,
            True,
            "auto",
        ),
        ({"TERM": "xterm-256color", "LANG": "C.UTF-8"}, "UTF-8", False, False, "auto"),
        ({"TERM": "xterm-256color", "LC_CTYPE": "C.UTF-8"}, "UTF-8", False, False, "auto"),
    ],
)
def test_the_terminal_is_judged_by_its_environment(
    environ: dict[str, str], encoding: str, plain: bool, ascii_only: bool, system: str
) -> None:
    terminal = terminal_of(environ, encoding)
    assert (terminal.plain, terminal.ascii_only) == (plain, ascii_only)
    assert terminal.colour_system == system


HEAVY = """
import sys, kshunt.tui.app, kshunt.tui.__main__
from kshunt.tui.actions.view_names import VIEWS

HEAVY = {"numpy", "pyarrow", "plotext", "httpx", "fastapi", "confluent_kafka", "kafka",
    "kshunt.backend.api.client.backend_client", "kshunt.backend.domain.replicas.snapshot"}

def found(where):
    if HEAVY & set(sys.modules):
        sys.exit(f"{where}: {', '.join(sorted(HEAVY & set(sys.modules)))}")

def connect(app):
    found(app.current_mode)
    app.exit(0)

found("the import")
kshunt.tui.app.KshuntApp._connect = connect
for view in VIEWS:
    app = kshunt.tui.app.KshuntApp("unix:/nowhere", start_view=view)
    app.run(headless=True)
    assert app.return_value == 0, view
"""


def test_the_first_frame_needs_no_data_library_and_no_network() -> None:
    """Neither the import nor the first frame of a view loads one: threads do, once it is shown."""
    ran = subprocess.run(
        [sys.executable, "-c", HEAVY],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
