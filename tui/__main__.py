"""Start the dashboard: decide how the terminal can be spoken to, before the app exists."""

from __future__ import annotations

import locale
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

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
    theme: str = "",
    revive: Callable[[], object] | None = None,
) -> int:
    """Show the dashboard of the backend at `address` until the operator leaves.

    `revive` starts a private backend again that has gone.

    Returns:
        The exit code for the shell.
    """
    terminal = terminal_of(os.environ, locale.getpreferredencoding(False))
    # Textual reads these once, when it is imported.
    os.environ["TEXTUAL_COLOR_SYSTEM"] = terminal.colour_system
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    from tui.app import KshuntApp
    from tui.text import ASCII, UNICODE

    app = KshuntApp(
        address,
        read_only=read_only,
        plain=terminal.plain,
        theme=theme,
        revive=revive,
        glyphs=ASCII if terminal.ascii_only else UNICODE,
    )
    app.run()
    return app.return_code or 0
