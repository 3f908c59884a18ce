"""Whether the terminal reports its mouse; while it does, most select text only with Shift."""

from __future__ import annotations

from textual.driver import Driver


def report_mouse(driver: Driver | None, *, on: bool) -> None:
    """Ask the terminal for reports of its mouse, or for none; also after the next Ctrl-Z.

    Textual decides that at the start alone. A driver without a terminal has nothing to ask.
    """
    if driver is None or driver._mouse == on:
        return
    # Each of the two does nothing while the driver takes the mouse to be off.
    driver._mouse = True
    name = "_enable_mouse_support" if on else "_disable_mouse_support"
    if (tell := getattr(driver, name, None)) is not None:
        tell()
    driver._mouse = on
