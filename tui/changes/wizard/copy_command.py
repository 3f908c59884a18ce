"""Copies the command of the shell that makes a previewed change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.text.formatting import file_time_text
from kshunt.backend.errors import BadInput
from kshunt.tui.changes.wizard.command_line import NO_COMMAND
from kshunt.tui.data.files import deliver

if TYPE_CHECKING:
    from kshunt.tui.changes.wizard.intent import Intent
    from kshunt.tui.shell.dashboard import Dashboard
    from kshunt.tui.terminal.downloads import Downloads

COPY_MOST: Final = 70_000
"""Characters. Terminals drop an OSC 52 sequence of more than 100,000, and it is in base 64."""
SHOWN_MOST: Final = 200
_OPENS: Final = ("--context", "--bootstrap-server", "--backend")


def cluster_words(app: Dashboard) -> tuple[str, ...]:
    """The flags that name the cluster that is shown: those that opened it, else its backend's.

    A backend can do everything. A tool that reaches a cluster through ZooKeeper cannot.
    """
    present = None if app.contexts is None else app.contexts.present
    if present and any(word.partition("=")[0] in _OPENS for word in present):
        return present
    return ("--backend", app.address)


def _written(document: str, name: str, downloads: Downloads | None) -> str:
    """Where the file is.

    Raises:
        BadInput: it cannot be written.
    """
    path = Path(name).absolute()
    deliver(document, path, downloads)
    return name if downloads is not None else str(path)


async def copy_command(app: Dashboard, intent: Intent, reason: str) -> str:
    """Copy it; what to say of that.

    A plan that no terminal would take is written to a file in the working directory, or offered to
    the browser, and the command names the file.
    """
    command = intent.command
    if command is None:
        return NO_COMMAND
    cluster = cluster_words(app)
    text, file, wrote = command.text(cluster, reason), "", ""
    if len(text) > COPY_MOST:
        name = f"kshunt-plan-{file_time_text(app.store.now_ms)}.json"
        try:
            file = await asyncio.to_thread(_written, command.document, name, app.downloads)
        except BadInput as error:
            return str(error)
        text = command.text(cluster, reason, file)
        wrote = f"Its plan is in {file}. "
    app.copy_to_clipboard(text)
    # What comes through the pipe is in the preview already.
    shown = command.without_document(cluster, reason, file)
    shown = shown if len(shown) <= SHOWN_MOST else f"{shown[:SHOWN_MOST]}..."
    plan = ", with its partitions" if command.document and not file else ""
    return f"{wrote}Copied{plan}, if your terminal takes it (OSC 52): {shown}"
