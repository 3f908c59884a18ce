"""The command line of `kshunt doctor`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from kshunt import __version__
from kshunt.backend.addresses import cluster_options, take_zookeeper
from kshunt.backend.config_file import CLIENT_HELP
from kshunt.backend.settings import Settings
from kshunt.backend.tools.doctor.findings import Finding, report
from kshunt.backend.tools.doctor.installation import installation, samples_folder
from kshunt.backend.tools.shared.console import run_tool, show_report

PROG: Final = "kshunt doctor"
EPILOG: Final = """\
It reads only: it changes neither this machine nor the cluster.

exit codes:
  0   no problem; warnings are possible
  1   a problem: kshunt cannot do a part of its work
  2   wrong usage
"""
Checks: TypeAlias = Callable[[], Iterable[Finding]]
"""Checks of a part that the tools do not import."""


def main(argv: Sequence[str], more: Checks) -> int:
    """Run the checks, and `more`; returns the exit code."""

    def tool(arguments: Sequence[str]) -> int:
        options = _options(arguments)
        findings = [*installation(), *more(), *_asked(options)]
        return show_report(report(findings), as_json=options.json)

    return run_tool(PROG, tool, argv, interrupted="Interrupted. Nothing was changed.")


def _asked(options: argparse.Namespace) -> Iterator[Finding]:
    """What depends on the flags."""
    if options.samples is not None:
        yield samples_folder(options.samples)
    if options.backend is not None:
        from kshunt.backend.tools.doctor.backend_checks import check_backend

        yield from check_backend(options.backend)
    elif options.bootstrap_server is not None:
        from kshunt.backend.tools.doctor.cluster_checks import check_cluster

        yield from check_cluster(Settings(options.bootstrap_server, options.command_config))
    else:
        yield Finding(
            "cluster",
            "unknown",
            "No cluster is named, so none was checked.",
            "Name one: --bootstrap-server HOST:PORT, --backend URL or --context NAME.",
        )


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = build_parser()
    options = parser.parse_args(list(arguments))
    if take_zookeeper(parser, options):
        parser.error("the checks need brokers: give --bootstrap-server")
    if options.backend is not None and options.bootstrap_server is not None:
        parser.error("give either --bootstrap-server or --backend")
    return options


def build_parser() -> argparse.ArgumentParser:
    """What can be typed."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Check whether this machine and a cluster have what kshunt needs.",
        epilog=f"{EPILOG}\n{CLIENT_HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    cluster_options(parser, required=False)
    parser.add_argument("--backend", metavar="URL", help="check a running backend")
    parser.add_argument(
        "--samples", metavar="DIR", type=Path, help="check the folder of kshunt serve --samples"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--version", action="version", version=f"kshunt {__version__}")
    return parser
