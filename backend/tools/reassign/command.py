"""`kshunt kafka-reassign-partitions`: Kafka's tool, with KIP-179's --progress and throttles that
go by themselves.

Its start-up time counts. So what acts is imported once the command line is known to ask for it. It
needs no data library, Kafka client or web framework itself.
`kshunt.backend.tools.reassign.sources` imports what the way to the cluster needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.errors import NotSupported
from kshunt.backend.tools.reassign.options import COMMAND, ReassignCommandLine, parse_options
from kshunt.backend.tools.shared.console import (
    check_client_config,
    run_tool,
    show_report,
    warn_of_zookeeper,
)


def main(argv: Sequence[str]) -> int:
    """Run the tool; its exit code is described in --help."""
    left = "Interrupted. Moves that were started continue in the cluster."
    return run_tool(COMMAND, _main, argv, interrupted=left)


def _main(argv: Sequence[str]) -> int:
    words = read(COMMAND, argv)
    if words is None:
        return ExitCode.DONE
    options = parse_options(words.given)
    _refuse_what_is_not_served(options, words.given)
    check_client_config(options.command_config)
    from kshunt.backend.tools.reassign.actions import report_of

    return show_report(report_of(options), as_json=options.json)


def _refuse_what_is_not_served(options: ReassignCommandLine, given: Mapping[str, str]) -> None:
    if options.zookeeper:
        warn_of_zookeeper()
    if "bootstrap-controller" in given:
        raise NotSupported(
            "This version does not contact controllers directly. Nothing was done.",
            advice="Name the cluster's brokers with --bootstrap-server.",
        )
