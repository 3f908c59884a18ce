"""`kshunt cluster`: an embedded cluster in the foreground, with or without a scenario.

The cluster is imported once the command line is known to ask for one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kshunt.backend.addresses import PORT_MAX
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import read
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.commandline.values import whole_number
from kshunt.backend.domain.cluster.config_names import PLACER_CLASS

BROKERS: Final = 3
NO_CONTROL: Final = "none"


def main(arguments: Sequence[str]) -> int:
    """Run a cluster until a signal ends it; returns the exit code.

    Raises:
        KshuntError: it cannot be had as it was asked for.
    """
    options = read(COMMAND, arguments)
    if options is None:
        return ExitCode.DONE
    from kshunt.backend.embedded.foreground import run, scenario_list

    if options.list:
        sys.stdout.write(scenario_list())
    else:
        run(options)
    return ExitCode.DONE


def _port(text: str) -> int:
    port = whole_number(text)
    if port > PORT_MAX:
        raise ValueError(f"{text} is not a port")
    return port


def _control_port(text: str) -> int | None:
    return None if text == NO_CONTROL else _port(text)


COMMAND: Final = Command(
    ("cluster",),
    "Run a Kafka cluster in one process, for rehearsals and tests.",
    (
        Flag("scenario", "Topics, traffic and events; see --list.", "NAME|FILE"),
        Flag("list", "List the scenarios and exit."),
        Flag("brokers", "How many brokers.", "N", value=whole_number, default=BROKERS),
        Flag("seed", "Another number gives other data.", "N", value=whole_number, default=0),
        Flag(
            "port-base",
            "Use ports for the brokers from this one on (default: free ones).",
            "PORT",
            value=_port,
            default=0,
        ),
        Flag(
            "native",
            "Serve the calls of KIP-179, KIP-183 and KIP-694 next to Kafka's own, which is the "
            "default.",
            negatable=True,
            default=True,
        ),
        Flag(
            "replica-placer",
            f"The class that chooses brokers for new partitions, as {PLACER_CLASS} (default: "
            "striped).",
            "NAME|MODULE:CLASS",
        ),
        Flag(
            "sasl-user",
            "Clients authenticate by SASL/PLAIN, as one of these users.",
            "NAME:PASSWORD-FILE",
            repeatable=True,
        ),
        Flag(
            "authorizer",
            "ACLs decide who may do what; without it every client may do everything.",
        ),
        Flag("super-user", "May do everything, with --authorizer.", "NAME", repeatable=True),
        Flag("data", "Keep all data in this folder for the next start.", "DIR", value=Path),
        Flag(
            "clock",
            "The clock of the cluster: the one of this machine, or a simulated one.",
            "CLOCK",
            choices=("wall", "simulated"),
            default="wall",
        ),
        Flag(
            "control-port",
            f"Port of the control API on loopback (default: a free one); {NO_CONTROL} turns the "
            "API off.",
            "PORT",
            value=_control_port,
            default=0,
        ),
        Flag("hand-over", "", hidden=True),
    ),
)
