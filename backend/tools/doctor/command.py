"""The command line of `kshunt doctor`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    CLUSTER_FLAGS,
    JSON,
    check_one_cluster,
    take_zookeeper,
)
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.tools.shared.console import run_tool, show_report

if TYPE_CHECKING:
    from kshunt.backend.tools.doctor.findings import Finding

COMMAND: Final = Command(
    ("doctor",),
    "Check whether this machine and a cluster have what kshunt needs.",
    (
        *CLUSTER_FLAGS,
        *BACKEND_FLAGS,
        Flag("samples", "Check the folder of kshunt serve --samples.", "DIR", value=Path),
        JSON,
    ),
    epilog="It reads only: it changes neither this machine nor the cluster.",
    codes={
        ExitCode.DONE: "no problem; warnings are possible",
        ExitCode.FAILED: "a problem: kshunt cannot do a part of its work",
    },
)
Checks: TypeAlias = "Callable[[], Iterable[Finding]]"
"""Checks of a part that the tools do not import."""


def main(argv: Sequence[str], more: Checks) -> int:
    """Run the checks, and `more`; returns the exit code."""

    def tool(arguments: Sequence[str]) -> int:
        options = read(COMMAND, arguments)
        if options is None:
            return ExitCode.DONE
        _check(options)
        from kshunt.backend.tools.doctor.findings import report
        from kshunt.backend.tools.doctor.installation import installation

        findings = [*installation(), *more(), *_asked(options)]
        return show_report(report(findings), as_json=options.json)

    return run_tool(COMMAND, tool, argv, interrupted="Interrupted. Nothing was changed.")


def _asked(options: Namespace) -> Iterator[Finding]:
    """What depends on the flags."""
    from kshunt.backend.tools.doctor.findings import Finding

    if options.samples is not None:
        from kshunt.backend.tools.doctor.installation import samples_folder

        yield samples_folder(options.samples)
    if options.backend is not None:
        from kshunt.backend.tools.doctor.backend_checks import check_backend

        yield from check_backend(options.backend)
    elif options.bootstrap_server is not None:
        from kshunt.backend.settings import Settings
        from kshunt.backend.tools.doctor.cluster_checks import check_cluster

        yield from check_cluster(Settings(options.bootstrap_server, options.command_config))
    else:
        yield Finding(
            "cluster",
            "unknown",
            "No cluster is named, so none was checked.",
            "Name one: --bootstrap-server HOST:PORT, --backend URL or --context NAME.",
        )


def _check(options: Namespace) -> None:
    if take_zookeeper(options):
        raise UsageError("the checks need brokers: give --bootstrap-server")
    check_one_cluster(options.given, may_lack=True)
