"""Where something is to be written: the name of a file, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from textual import on
from textual.widget import Widget

from kshunt.backend.errors import BadInput
from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.form import FormField, FormPart


class SaveFileScreen(Dialog[Path]):
    """Asks for a file; answers with its path once it is written, or None."""

    def __init__(
        self,
        title: str,
        lines: tuple[str, ...],
        field: FormField,
        write: Callable[[Path], None],
        *,
        keys: str,
    ) -> None:
        """`write` is called in a thread; it raises `BadInput` where it cannot write."""
        super().__init__(title)
        self._lines, self._field, self._write_to, self._keys = lines, field, write, keys
        self._writing = False

    def compose_body(self) -> Iterable[Widget]:
        """One field."""
        yield FormPart(self._lines, (self._field,))
        yield Lines(self._keys, classes="hint")

    def on_mount(self) -> None:
        """The operator can type immediately."""
        self.query_one(FormPart).begin()

    @on(FormPart.Filled)
    def _filled(self, message: FormPart.Filled) -> None:
        if not self._writing:
            self._writing = True
            self.run_worker(self._write(message.values[0]))

    async def _write(self, path: Path) -> None:
        try:
            await asyncio.to_thread(self._write_to, path)
        except BadInput as error:
            hint = self.query_one(FormPart).hint(0)
            hint.say(str(error))
            hint.add_class("-bad")
        else:
            self.dismiss(path)
        finally:
            self._writing = False
