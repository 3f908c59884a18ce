"""`kshunt webhooks`: what a backend could not deliver, and sending it again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kshunt.backend.commandline.cluster_flags import JSON
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Argument, Command
from kshunt.backend.errors import BadInput
from kshunt.backend.notify.options import TARGET_FLAGS, targets_of
from kshunt.backend.tools.shared.console import run_tool, show_report

EPILOG: Final = """\
A dead letter names its webhook by host and hash, because the address may be a secret. So resend
needs the --webhook again, or those of [serve] in the configuration. Delivered messages are removed
from the file; the others stay. Receivers recognize by its id a message that they already have.
"""


_FLAGS: Final = (JSON, *TARGET_FLAGS)
_FILE: Final = (Argument("file", "FILE", "File of dead letters.", value=Path),)
CODES: Final[Mapping[int, str]] = {
    ExitCode.DONE: "everything in the file was delivered, or the file was empty",
    ExitCode.FAILED: "some messages were not delivered and are still in the file",
}
COMMAND: Final = Command(
    ("webhooks",),
    "List and send again the messages that a backend's webhooks did not accept.",
    _FLAGS,
    actions=(
        Command(
            ("webhooks", "list"), "List the messages.", _FLAGS, _FILE, summary="list the messages"
        ),
        Command(
            ("webhooks", "resend"),
            "Send the messages again, in order.",
            _FLAGS,
            _FILE,
            summary="send the messages again, in order",
            codes=CODES,
        ),
    ),
    epilog=EPILOG,
    codes=CODES,
)


def main(argv: Sequence[str]) -> int:
    """Run the tool."""
    words = (
        "Interrupted. Some delivered messages may still be in the file; receivers recognize "
        "them by their id."
    )
    return run_tool(COMMAND, _main, argv, interrupted=words)


def _main(argv: Sequence[str]) -> int:
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    from kshunt.backend.tools import dead_letters

    if options.action == "list":
        return show_report(dead_letters.listed_report(options.file), as_json=options.json)
    targets = targets_of(options, os.environ)
    if not targets:
        raise BadInput("No --webhook is named; nothing was sent.")
    return show_report(dead_letters.resent_report(options.file, targets), as_json=options.json)
