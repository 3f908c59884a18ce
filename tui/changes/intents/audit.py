"""The audit that an operator writes to a file: its wizard and its intent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.text.formatting import many
from kshunt.tui.changes.wizard.intent import Intent, TargetCluster
from kshunt.tui.changes.wizard.pages import Page, Wizard, goal_page
from kshunt.tui.changes.wizard.parsing import EVERY_OPERATION, an_operation
from kshunt.tui.data.files import AUDIT_FORMATS, complete_path, deliver, new_audit_file
from kshunt.tui.dialogs.form import FormField
from kshunt.tui.terminal.downloads import Downloads, download_name

if TYPE_CHECKING:
    from kshunt.backend.api.client.backend_client import BackendClient


AUDIT_HINT: Final = ".md for Markdown, .json for JSON"


def audit_wizard(
    target: TargetCluster, known: Sequence[str], chosen: str, downloads: Downloads | None = None
) -> Wizard:
    """Write the audit to a new file, or have the browser download it.

    `chosen` is the id that is proposed, or empty.
    """
    proposed = chosen or EVERY_OPERATION
    which = FormField(
        "Operation", proposed, "its id, or all", lambda text: an_operation(text, known)
    )
    name = f"kshunt-audit-{proposed}.md"
    if downloads is not None:
        file = FormField(
            "Download", name, AUDIT_HINT, partial(download_name, endings=AUDIT_FORMATS)
        )
    else:
        hint = f"a new file: {AUDIT_HINT}"
        file = FormField("File", name, hint, new_audit_file, complete_path, reads=True)
    return Wizard(
        "Write the audit",
        lambda operation, path: audit_intent(target, operation, path, downloads),
        goal_page(target, which),
        Page(fields=(file,)),
    )


def audit_intent(
    target: TargetCluster, operation: str, path: Path, downloads: Downloads | None = None
) -> Intent:
    """Read the audit, and write it to a file: nothing in the cluster changes."""
    id = "" if operation == EVERY_OPERATION else operation

    def send(client: BackendClient, change: Change) -> ChangeAnswer:
        text = client.audit.text("json" if path.suffix == ".json" else "markdown", id)
        if not change.validate_only:
            deliver(text, path, downloads)
        lines = many(text.count("\n") + 1, "line")
        words = lines if change.validate_only else f"{lines} written"
        return ChangeAnswer(change.validate_only, None, (Result(str(path), 0, "NONE", words),))

    return Intent(
        title=f"Write the audit to {path.name}",
        button="Write it",
        target=target,
        touches=(("Operation", operation), ("File", str(path))),
        send=send,
        effect="Nothing in the cluster changes.",
        local=True,
    )
