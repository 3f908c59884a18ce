"""Asks where to write a plan; the plan that leads back is written next to it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kshunt.backend.domain.planning.requests import PlanAnswer
from kshunt.backend.domain.reassignment.plan import rollback_path
from kshunt.tui.data.files import PLAN_FORMATS, complete_path, new_plan_file, save_pair
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.dialogs.save_file import SaveFileScreen
from kshunt.tui.terminal.downloads import Downloads, download_name


def save_plan_screen(
    answer: PlanAnswer, proposed: str, downloads: Downloads | None = None
) -> SaveFileScreen:
    """Asks where both plans go; `proposed` is the name that is offered."""
    if downloads is not None:
        hint = "a name that ends in .json; the browser downloads both files"
        field = FormField("Download", proposed, hint, partial(download_name, endings=PLAN_FORMATS))
        keys = "Enter downloads both, Esc downloads nothing"
    else:
        hint = "a new file that ends in .json; no file is replaced"
        field = FormField("File", proposed, hint, new_plan_file, complete_path, reads=True)
        keys = "Enter writes both, Tab completes, Esc writes nothing"
    lines = ("Kafka's JSON; its rollback goes to NAME.rollback.json in the same folder.",)
    return SaveFileScreen(
        "Save the plan", lines, field, partial(_save, answer, downloads), keys=keys
    )


def _save(answer: PlanAnswer, downloads: Downloads | None, path: Path) -> None:
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
