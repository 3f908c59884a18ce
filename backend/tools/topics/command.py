"""`kshunt kafka-topics`: Kafka's tool for what topics are and how many partitions they have, with
KIP-694's way to fewer.

Its start-up time counts. So what acts is imported once the command line is known to ask for it,
and needs no data library, Kafka client or web framework itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.tools.shared.console import (
    check_client_config,
    refuse_zookeeper,
    run_tool,
    show_report,
)
from kshunt.backend.tools.topics.options import COMMAND, TopicsAction, parse_options


def main(argv: Sequence[str]) -> int:
    """Run the tool; its exit code is described in --help."""
    left = "Interrupted. The requested change may still be made; check with --describe."
    return run_tool(COMMAND, _main, argv, interrupted=left)


def _main(argv: Sequence[str]) -> int:
    words = read(COMMAND, argv)
    if words is None:
        return ExitCode.DONE
    options = parse_options(words.given)
    if options.zookeeper:
        refuse_zookeeper()
    check_client_config(options.command_config)
    from kshunt.backend.tools.topics.actions import report_of

    report = report_of(options)
    if not (report.text or options.json or options.action is TopicsAction.LIST):
        # Kafka's tool prints an empty list as an empty line, and no topics as nothing.
        return report.code
    return show_report(report, as_json=options.json)
