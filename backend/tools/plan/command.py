"""`kshunt plan`: from a goal to a plan that can be read, rehearsed and started.

The cluster is looked at through a backend, or a saved picture of it is; planning and rehearsing
happen in this process, for as long as they take. Nothing is changed in the cluster.

What plans and rehearses is imported once the command line is known to ask for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kshunt.backend.clock import SystemClock
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.tools.plan.options import COMMAND, parse_options
from kshunt.backend.tools.shared.console import check_client_config, run_tool, show_report


def main(argv: Sequence[str]) -> int:
    """Run the tool; its exit code is described in --help."""
    return run_tool(COMMAND, _main, argv, interrupted="Interrupted. Nothing was changed.")


def _main(argv: Sequence[str]) -> int:
    words = read(COMMAND, argv)
    if words is None:
        return ExitCode.DONE
    clock = SystemClock()
    options = parse_options(words, clock)
    check_client_config(options.command_config)
    from kshunt.backend.tools.plan.actions import report_of

    return show_report(report_of(options, clock), as_json=options.json)
