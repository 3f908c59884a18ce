"""Start the dashboard: decide how the terminal can be spoken to, before the app exists."""

from __future__ import annotations

import locale
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.errors import ConfigError, NoTerminal
from kshunt.backend.operator_identity import who_am_i
from kshunt.tui.recorder.retention import recordings_folder
from kshunt.tui.settings import (
    DashboardSettings,
    SettingValue,
    config_folder,
    keep_setting,
    load_settings,
    naming,
    settings_path,
)
from kshunt.tui.shell.own_settings import Held, OwnSettings
from kshunt.tui.terminal.notices import WITHOUT_TITLE, Notices

if TYPE_CHECKING:
    from kshunt.tui.recorder.reader import RecordingReader
    from kshunt.tui.shell.contexts import Contexts

NO_MOUSE: Final = Held(False, "--no-mouse")
SIXTEEN_COLOURS: Final = ("linux", "vt100", "vt220", "screen", "xterm", "ansi", "")
"""Terminals that show sixteen colours unless they say more in COLORTERM."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """How the terminal is spoken to."""

    plain: bool
    """Only the terminal's own colours, and none under NO_COLOR."""
    ascii_only: bool
    colour_system: str
    """Textual's name of a colour system, or `auto`."""


def terminal_of(environ: Mapping[str, str], encoding: str) -> Terminal:
    """What the environment says of the terminal."""
    term = environ.get("TERM", "").lower()
    no_color = "NO_COLOR" in environ
    deep = environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    sixteen = (term in SIXTEEN_COLOURS and not deep) or term == "dumb"
    forced = environ.get("TEXTUAL_COLOR_SYSTEM", "auto").lower()
    known = forced if forced in ("auto", "standard", "256", "truecolor") else "auto"
    # A dumb terminal is taken for one of 16 million colours otherwise.
    system = "standard" if term == "dumb" or (sixteen and known == "auto") else known
    return Terminal(
        plain=no_color or (sixteen and known in ("auto", "standard")) or known == "standard",
        ascii_only=_ascii_only(environ, encoding) or term in ("linux", "vt100", "dumb"),
        colour_system=system,
    )


def _ascii_only(environ: Mapping[str, str], encoding: str) -> bool:
    """Whether the locale has no more than ASCII.

    Python turns the C locale into C.UTF-8 and says so in LC_CTYPE, so that one is not believed
    where LANG says C.
    """
    ctype = environ.get("LC_CTYPE", "")
    coerced = ctype.upper().replace("-", "") == "C.UTF8"
    chosen = environ.get("LC_ALL") or ("" if coerced else ctype) or environ.get("LANG", "")
    if chosen in ("C", "POSIX"):
        return True
    return encoding.lower().replace("-", "") not in ("utf8", "utf16", "utf32")


def run(
    address: str,
    *,
    read_only: bool = False,
    revive: Callable[[], object] | None = None,
    record: bool = True,
    record_path: Path | None = None,
    in_browser: bool = False,
    mouse: bool = True,
    name: str = "",
    contexts: Contexts | None = None,
    settings: DashboardSettings | None = None,
) -> int:
    """Show the dashboard of the backend at `address` until the operator leaves.

    `revive` starts a private backend again that has gone. What is seen is recorded, unless
    `record` is false: to `record_path`, or where recordings are kept. `in_browser` shows it to
    somebody on another machine, who may not use the files of this one. Without `mouse` the terminal
    keeps its mouse, whatever the settings say. `name` is what the operator calls the cluster.
    `contexts` are others that can be opened; the wish for one is noted there. `settings` are what
    the settings file said, where the caller has read it.

    Returns:
        The exit code for the shell.

    Raises:
        ConfigError: the settings file, a key in it or the theme cannot be used.
    """
    from kshunt.tui.recorder.recorder import Recorder

    settings = load_settings(os.environ) if settings is None else settings
    recorder = None
    wanted = record_path is not None or settings.record
    if record and wanted and not in_browser:
        if record_path is not None and record_path.exists():
            raise ConfigError(f"{record_path} already exists; kshunt does not replace a recording.")
        about = {"who": who_am_i(), "read_only": read_only}
        recorder = Recorder(recordings_folder(os.environ), path=record_path, about=about)
    feed: dict[str, Any] = {"revive": revive, "recorder": recorder, "in_browser": in_browser}
    feed |= {"name": name, "contexts": contexts}
    flags = {
        "read_only": Held(True, "--read-only") if read_only else None,
        "mouse": None if mouse else NO_MOUSE,
        "record": Held(False, "--no-record") if not record else None,
    }
    if record_path is not None:
        flags["record"] = Held(True, "--record")
    held = {name: one for name, one in flags.items() if one is not None}
    return _run(settings, address, held, **feed)


def choose(contexts: Contexts, *, mouse: bool = True) -> int:
    """Ask which cluster to open; `contexts` notes the answer.

    Returns:
        The exit code for the shell, for an operator who leaves instead.

    Raises:
        ConfigError: the settings file, a key in it or the theme cannot be used.
    """
    settings = load_settings(os.environ)
    terminal = _prepared_terminal()
    from kshunt.tui.chooser import ChooserApp
    from kshunt.tui.shell.theme_files import ThemeFolder
    from kshunt.tui.terminal import signals
    from kshunt.tui.text.glyphs import ASCII, UNICODE

    app = ChooserApp(
        contexts,
        plain=terminal.plain,
        theme=settings.theme,
        themes=ThemeFolder(config_folder(os.environ) / "themes"),
        glyphs=ASCII if terminal.ascii_only else UNICODE,
    )
    signals.leave_when_ended(lambda code: app.exit(return_code=code))
    app.run(mouse=mouse and settings.mouse)
    return app.return_code or 0


def replay(paths: Sequence[Path], *, mouse: bool = True) -> int:
    """Show recordings of one session until the operator leaves.

    Returns:
        The exit code for the shell.

    Raises:
        KshuntError: a file is no recording, or cannot be read; or there is no terminal.
    """
    from kshunt.tui.recorder.reader import RecordingReader

    settings = load_settings(os.environ)
    reel = _reel(RecordingReader(paths), paths)
    try:
        require_terminal()
    except NoTerminal:
        reel.close()
        raise
    return _run(settings, str(paths[0]), {} if mouse else {"mouse": NO_MOUSE}, reel=reel)


def write_notes(paths: Sequence[Path], handover: Path | None, timeline: Path | None) -> int:
    """Write notes of recordings, each to a new file where it has a path.

    Returns:
        The exit code for the shell.

    Raises:
        KshuntError: a file is no recording, or a note cannot be written.
    """
    from kshunt.tui.handover_notes.writer import write_handover, write_timeline
    from kshunt.tui.recorder.reader import RecordingReader

    with closing(RecordingReader(paths)) as reel:
        if handover is not None:
            write_handover(reel, reel.last_ms, handover)
        if timeline is not None:
            write_timeline(reel, reel.last_ms, timeline)
    return 0


def write_film(
    paths: Sequence[Path],
    *,
    cast: Path | None,
    svg: Path | None,
    moving_svg: Path | None,
    size: tuple[int, int],
    speed: float,
    at: str | None,
) -> int:
    """Write films or a picture of recordings, each to a new file where it has a path.

    No terminal is needed.

    Returns:
        The exit code for the shell.

    Raises:
        KshuntError: a file is no recording, a time is not in it, or a file cannot be written.
    """
    from kshunt.tui.recorder.reader import RecordingReader

    settings = load_settings(os.environ)
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    from kshunt.tui.app import KshuntApp
    from kshunt.tui.data.files import check_new, save_text
    from kshunt.tui.film.filming import (
        Film,
        film_cast,
        film_moving_picture,
        film_picture,
        moment_of,
    )
    from kshunt.tui.shell.theme_files import ThemeFolder

    def app() -> KshuntApp:
        return KshuntApp(
            paths[0].name,
            plain="NO_COLOR" in os.environ,
            theme=settings.theme,
            themes=ThemeFolder(config_folder(os.environ) / "themes"),
            start_view=settings.start_view,
            opens_on_all=settings.all_partitions,
            orders=settings.sort,
            columns=settings.columns,
            reel=_reel(RecordingReader(paths), paths),
        )

    for path in filter(None, (cast, svg, moving_svg)):
        check_new(path)
    with closing(_reel(RecordingReader(paths), paths)) as reel:
        moment_ms = reel.last_ms if at is None else moment_of(at, reel)
        film = Film(size, reel.first_ms, reel.last_ms, speed)
        began_s = reel.wall_ms(reel.first_ms) // 1000
    if cast is not None:
        title = f"kshunt {paths[0].name}"
        save_text(film_cast(app, film, title=title, began_s=began_s), cast)
    if svg is not None:
        save_text(film_picture(app(), size, moment_ms), svg)
    if moving_svg is not None:
        save_text(film_moving_picture(app, film), moving_svg)
    return 0


def _reel(reel: RecordingReader, paths: Sequence[Path]) -> RecordingReader:
    """The recording, unless it is empty.

    Raises:
        ConfigError: it is.
    """
    if not reel.first_ms:
        reel.close()
        raise ConfigError(f"{paths[0]} holds nothing that can be shown.")
    return reel


def require_terminal() -> None:
    """Refuse to draw a dashboard into a file or a pipe.

    Raises:
        NoTerminal: a standard stream is no terminal.
    """
    from kshunt.tui.terminal.signals import not_terminals

    if missing := not_terminals():
        raise NoTerminal(
            f"The dashboard needs a terminal; this is none: {', '.join(missing)}. "
            "Nothing was started.",
            advice="In a script, use `kshunt kafka-reassign-partitions --list` or `--progress`.",
        )


def _held_by_terminal(terminal: Terminal, environ: Mapping[str, str]) -> dict[str, Held]:
    """What the terminal decides, whatever the settings say."""
    term = environ.get("TERM", "")
    held = {}
    if terminal.plain:
        held["theme"] = Held("ansi", "NO_COLOR" if "NO_COLOR" in environ else f"TERM={term}")
    if term.lower() in WITHOUT_TITLE:
        held |= {"title": Held(False, f"TERM={term}"), "notification": Held("", f"TERM={term}")}
    return held


def _held_by_browser() -> dict[str, Held]:
    """A browser has no bell, no notification and no title of a terminal."""
    off = dict.fromkeys(("bell", "title", "record"), Held(False, "a browser"))
    return off | {"notification": Held("", "a browser")}


def _prepared_terminal() -> Terminal:
    """How the terminal is spoken to; the process is made ready to show a dashboard in it."""
    terminal = terminal_of(os.environ, locale.getpreferredencoding(False))
    # Textual reads these once, when it is imported.
    os.environ["TEXTUAL_COLOR_SYSTEM"] = terminal.colour_system
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    # A process that only shows a dashboard; one that runs many of them must not do this.
    from kshunt.tui import memory
    from kshunt.tui.terminal import signals

    memory.prepare()
    signals.end_with_terminal()
    return terminal


def _run(settings: DashboardSettings, address: str, held: Mapping[str, Held], **feed: Any) -> int:
    """Show the dashboard; `held` is what flags decide, and `feed` is passed on to `KshuntApp`."""
    terminal = _prepared_terminal()
    from kshunt.tui import memory
    from kshunt.tui.actions import ACTIONS, use_keys
    from kshunt.tui.app import KshuntApp
    from kshunt.tui.shell.theme_files import ThemeFolder
    from kshunt.tui.terminal import signals
    from kshunt.tui.text.glyphs import ASCII, UNICODE

    file = settings_path(os.environ)
    with naming(file):
        use_keys(ACTIONS, settings.keys)

    def keep(name: str, value: SettingValue | None) -> None:
        keep_setting(file, name, value)

    in_browser = bool(feed.get("in_browser"))
    by_others = _held_by_browser() if in_browser else _held_by_terminal(terminal, os.environ)
    own = OwnSettings(settings, "" if in_browser else str(file), {**held, **by_others})
    with naming(file):
        app = KshuntApp(
            address,
            read_only=bool(own.named("read_only").now),
            plain=terminal.plain,
            theme=settings.theme,
            themes=ThemeFolder(config_folder(os.environ) / "themes"),
            start_view=settings.start_view,
            opens_on_all=settings.all_partitions,
            orders=settings.sort,
            columns=settings.columns,
            keep=None if in_browser else keep,
            freeze=memory.freeze,
            notices=Notices(
                bell=bool(own.named("bell").now),
                notification=str(own.named("notification").now),
                title=bool(own.named("title").now),
                in_tmux="TMUX" in os.environ,
            ),
            own_settings=own,
            glyphs=ASCII if terminal.ascii_only else UNICODE,
            **feed,
        )
    if not in_browser:
        signals.leave_when_ended(lambda code: app.exit(return_code=code))
    app.run(mouse=bool(own.named("mouse").now))
    return app.return_code or 0
