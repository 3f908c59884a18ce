"""Where a plan is to be written, with the plan that leads back beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from textual import on
from textual.widget import Widget

from kshunt.backend.domain.planning.requests import PlanAnswer
from kshunt.backend.domain.reassignment.plan import rollback_path
from kshunt.backend.errors import BadInput
from kshunt.tui.data.files import PLAN_FORMATS, complete_path, new_plan_file, save_pair
from kshunt.tui.dialogs.dialog import Dialog, Lines
from kshunt.tui.dialogs.form import FormField, FormPart
from kshunt.tui.terminal.downloads import Downloads, download_name


class SavePlanScreen(Dialog[Path]):
    """Asks for a file; answers with its path once both are written, or None."""

    def __init__(
        self, answer: PlanAnswer, proposed: str, downloads: Downloads | None = None
    ) -> None:
        """`proposed` is the name that is offered."""
        super().__init__("Save the plan")
        self._answer, self._proposed, self._downloads = answer, proposed, downloads
        self._writing = False

    def compose_body(self) -> Iterable[Widget]:
        """One field."""
        lines = ("Kafka's JSON; its rollback goes to NAME.rollback.json in the same folder.",)
        if self._downloads is not None:
            hint = "a name that ends in .json; the browser downloads both files"
            field = FormField("Download", self._proposed, hint, _plan_download)
            keys = "Enter downloads both, Esc downloads nothing"
        else:
            hint = "a new file that ends in .json; no file is replaced"
            field = FormField(
                "File", self._proposed, hint, new_plan_file, complete_path, reads=True
            )
            keys = "Enter writes both, Tab completes, Esc writes nothing"
        yield FormPart(lines, (field,))
        yield Lines(keys, classes="hint")

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(FormPart).begin()

    @on(FormPart.Filled)
    def _filled(self, message: FormPart.Filled) -> None:
        if not self._writing:
            self._writing = True
            self.run_worker(self._write(message.values[0]))

    async def _write(self, path: Path) -> None:
        try:
            await asyncio.to_thread(_save, self._answer, path, self._downloads)
        except BadInput as error:
            hint = self.query_one(FormPart).hint(0)
            hint.say(str(error))
            hint.add_class("-bad")
        else:
            self.dismiss(path)
        finally:
            self._writing = False


def _plan_download(text: str) -> Path:
    return download_name(text, PLAN_FORMATS)


def _save(answer: PlanAnswer, path: Path, downloads: Downloads | None) -> None:
    """Both name their cluster, so that no other one starts them.

    Raises:
        BadInput: one of the files is there already, or cannot be written.
    """
    pair = (path, answer.plan_json), (rollback_path(path), answer.rollback_json)
    if downloads is None:
        save_pair(*pair)
        return
    for to, text in pair:
        downloads.offer(to.name, text)
