"""`kshunt demo`: its command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kshunt.backend.cli.dashboard import NO_MOUSE
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.commandline.values import whole_number

if TYPE_CHECKING:
    from kshunt.tui.shell.contexts import Contexts

_DASHBOARD: Final = (
    "kshunt.tui.app",
    "kshunt.tui.views.partitions.table",
    "kshunt.backend.api.client.backend_client",
    "kshunt.backend.api.schema.frames.snapshot_writer",
)
COMMAND: Final = Command(
    ("demo",),
    "Show the dashboard on a cluster in this machine's memory.",
    (
        Flag("scenario", "What happens; see --list.", "NAME|FILE", default="expand"),
        Flag("seed", "Another number gives other data.", "N", value=whole_number, default=0),
        Flag("list", "List the scenarios and exit."),
        NO_MOUSE,
    ),
)


def main(argv: Sequence[str], contexts: Contexts | None = None) -> int:
    """Run a scenario until the dashboard is closed; the exit code.

    `contexts`: other clusters, one of which may be wanted afterwards.

    Raises:
        KshuntError: there is no terminal, or the cluster or the backend cannot be started.
    """
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    if options.list:
        from kshunt.backend.embedded.command import main as cluster

        return cluster(["--list"])
    from kshunt.backend.cli.demo import run_demo
    from kshunt.tui.__main__ import require_terminal, run
    from kshunt.tui.settings import load_settings

    require_terminal()
    # A mistake in the file is said before anything is started.
    settings = load_settings(os.environ)
    sys.stderr.write("Starting a cluster in memory, and a backend for it ...\n")

    def prepare() -> None:
        # All that the first rows need is loaded while the cluster and the backend start.
        for module in _DASHBOARD:
            import_module(module)

    mouse = not options.no_mouse

    def show(address: str, revive: Callable[[], object]) -> int:
        return run(
            address, revive=revive, mouse=mouse, name="demo", contexts=contexts, settings=settings
        )

    return run_demo(options.scenario, options.seed, prepare, show)
