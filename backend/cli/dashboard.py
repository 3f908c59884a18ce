"""`kshunt` alone: the dashboard."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.addresses import ZOOKEEPER_WARNING
from kshunt.backend.cli.commands import summaries
from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    CLUSTER_FLAGS,
    check_one_cluster,
    take_zookeeper,
)
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.help_text import listing
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Command, Flag

if TYPE_CHECKING:
    from kshunt.tui.shell.contexts import Contexts

ANSWER_S: Final = 10.0
"""How long a backend may take to say which cluster it serves."""
NO_MOUSE: Final = Flag(
    "no-mouse", "Leave the mouse to your terminal, which then selects text with it."
)
COMMAND: Final = Command(
    (),
    "Watch and steer Kafka reassignments. Without a command, kshunt shows the dashboard.\n\n"
    f"{listing('commands', summaries())}",
    (
        *CLUSTER_FLAGS,
        *BACKEND_FLAGS,
        Flag("read-only", "Show everything, but change nothing."),
        Flag(
            "record",
            "Record to this new file (default: below $XDG_STATE_HOME).",
            "PATH",
            value=Path,
            either="record",
        ),
        Flag("no-record", "Keep no recording.", either="record"),
        NO_MOUSE,
        # What `kshunt web` starts for a browser.
        Flag("in-browser", "", hidden=True),
    ),
    epilog="`kshunt help COMMAND` and `kshunt COMMAND --help` say more of a command. `kshunt help "
    "TOPIC`\nexplains exit-codes, configuration and environment.",
)


def main(
    argv: Sequence[str], contexts: Contexts | None = None, name: str = "", *, checked: bool = False
) -> int:
    """Show the dashboard; the exit code.

    `contexts`: other clusters, one of which may be wanted afterwards. `name`: what the operator
    calls this one. `checked`: the backend has to answer before the dashboard is shown.

    Raises:
        KshuntError: no cluster is named, no backend can be reached, or there is no terminal.
    """
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    in_zookeeper = take_zookeeper(options)
    check_one_cluster(options.given)
    if in_zookeeper:
        sys.stderr.write(f"{ZOOKEEPER_WARNING}\n")
    from kshunt.tui.__main__ import require_terminal, run
    from kshunt.tui.settings import load_settings

    if not options.in_browser:
        require_terminal()
    run_options: dict[str, Any] = {
        "record": not options.no_record,
        "record_path": options.record,
        "mouse": not options.no_mouse,
        "in_browser": options.in_browser,
        "name": name,
        "contexts": None if options.in_browser else contexts,
        # A mistake in the file is said before a backend is started.
        "settings": load_settings(os.environ),
    }
    if options.backend is not None:
        if checked:
            _check_backend(options.backend)
        return run(options.backend, read_only=options.read_only, **run_options)
    from kshunt.backend.tools.shared.private_backend import private_backend

    def start_backend() -> str:
        return private_backend(options.bootstrap_server, options.command_config)

    return run(start_backend(), read_only=options.read_only, revive=start_backend, **run_options)


def _check_backend(address: str) -> None:
    """Ask a backend which cluster it serves.

    Raises:
        KshuntError: it does not answer, or refuses this caller.
    """
    from kshunt.backend.api.client.backend_client import BackendClient

    with BackendClient(address, timeout_s=ANSWER_S) as client:
        client.cluster()
