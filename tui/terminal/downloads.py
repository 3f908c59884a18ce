"""Files for an operator whose dashboard runs on another machine: the browser downloads them.

A dashboard in a browser runs on the host of `kshunt web`, as the user who started it. Its operator
may be somebody else, so it reads, writes and lists no files there.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.errors import BadInput

if TYPE_CHECKING:
    from textual.app import App

NO_FILES: Final = (
    "A dashboard in a browser cannot read files of the host. Make a plan with {plan}, or run "
    "kshunt in a terminal to start one from a file."
)
NAME_MAX: Final = 100


class Downloads:
    """Offers files to the browser."""

    def __init__(self, app: App[None]) -> None:
        self._app = app

    def offer(self, name: str, content: str | bytes) -> None:
        """Have the browser download a text, or a file of bytes, under a name. From any thread."""
        # `call_later` posts a message, which any thread may do.
        self._app.call_later(self._deliver, name, content)

    def _deliver(self, name: str, content: str | bytes) -> None:
        if isinstance(content, bytes):
            self._app.deliver_binary(io.BytesIO(content), save_filename=name)
        else:
            text = io.StringIO(whole_lines(content))
            self._app.deliver_text(text, save_filename=name, encoding="utf-8")


def whole_lines(text: str) -> str:
    """A text as files have it: its last line ends as the others do."""
    return text if text.endswith("\n") else text + "\n"


def download_name(text: str, endings: tuple[str, ...]) -> Path:
    """The name that was typed: letters, digits and `. _ -`, in no folder.

    Raises:
        BadInput: it has other characters, is too long, or does not end as a format does.
    """
    name = text.strip()
    plain = name.replace(".", "").replace("_", "").replace("-", "")
    if not (plain.isascii() and plain.isalnum()) or name.startswith(".") or len(name) > NAME_MAX:
        raise BadInput("Type a name for the download: letters, digits, dots, _ and -.")
    if not name.endswith(endings):
        raise BadInput(f"The name must end in {' or '.join(endings)}.")
    return Path(name)
