"""The `kshunt` command: the one place that puts the parts together.

Every heavy import is inside its own subcommand, so that `kshunt --help` and the one-shot tools
start quickly.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from kshunt import __version__
from kshunt.backend.addresses import ZOOKEEPER_WARNING, cluster_options, loopback, take_zookeeper
from kshunt.backend.config_file import CLIENT_HELP, expanded
from kshunt.backend.errors import KshuntError

_DASHBOARD = (
    "kshunt.tui.app",
    "kshunt.tui.views.partitions.table",
    "kshunt.backend.api.client.backend_client",
    "kshunt.backend.api.schema.frames.snapshot_writer",
)

TOOLS = """\
commands:
  (none)                      the dashboard
  demo                        the dashboard on a cluster in memory; needs nothing else
  cluster                     a Kafka cluster in one process, for rehearsals and tests
  replay FILE                 a recording of the dashboard, or a note of it; see its own --help
  serve                       a backend that several dashboards and tools share
  kafka-reassign-partitions   Kafka's tool, with --progress; see its own --help
  kafka-preferred-replica-election
                              Kafka's tool: preferred replicas lead again; see its own --help
  kafka-topics                Kafka's tool: topics, with more or fewer partitions; see --help
  plan                        plan and rehearse a reassignment; see its own --help
  config                      the settings in force, and where each comes from
  tokens                      the tokens of a backend on a TCP port; see its own --help
  keys                        keys that the backends of a cluster share; see its own --help
  proposals                   changes that need a second person: approve or reject; see its --help
  webhooks                    messages that no webhook accepted; sends them again
  web                         the dashboard in a browser, read-only by default
  audit                       who changed what and why, from the journal; see its own --help
  pipeline                    results over days by Spark: rates, stalls; see its own --help
  doctor                      whether this machine and a cluster have what kshunt needs
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    try:
        arguments = expanded(sys.argv[1:] if argv is None else argv, os.environ)
        match arguments[:1]:
            case ["kafka-reassign-partitions"]:
                from kshunt.backend.tools.reassign.command import main as reassign

                return reassign(arguments[1:])
            case ["kafka-preferred-replica-election"]:
                from kshunt.backend.tools.election import main as election

                return election(arguments[1:])
            case ["kafka-topics"]:
                from kshunt.backend.tools.topics.command import main as topics

                return topics(arguments[1:])
            case ["plan"]:
                from kshunt.backend.tools.plan.command import main as plan

                return plan(arguments[1:])
            case ["audit"]:
                from kshunt.backend.tools.audit import main as audit

                return audit(arguments[1:])
            case ["pipeline"]:
                from kshunt.backend.pipeline.command import main as pipeline

                return pipeline(arguments[1:])
            case ["config"]:
                from kshunt.backend.tools.config import main as config

                return config(arguments[1:])
            case ["tokens" | "keys" | "proposals" | "webhooks" as name]:
                tool: Callable[[Sequence[str]], int] = import_module(
                    f"kshunt.backend.tools.{name}"
                ).main
                return tool(arguments[1:])
            case ["doctor"]:
                from kshunt.backend.cli.doctor import checks
                from kshunt.backend.tools.doctor.command import main as doctor

                return doctor(arguments[1:], checks)
            case ["web"]:
                return _web(arguments[1:])
            case ["replay"]:
                from kshunt.backend.cli.replay import main as replay_tool
                from kshunt.tui.__main__ import replay, write_notes

                return replay_tool(arguments[1:], replay, write_notes)
            case ["serve"]:
                from kshunt.backend.serve.command import main as serve

                return serve(arguments[1:])
            case ["cluster"]:
                from kshunt.backend.embedded.command import main as cluster

                return cluster(arguments[1:])
            case ["demo"]:
                return _demo(arguments[1:])
            case _:
                return _dashboard(arguments)
    except KshuntError as error:
        sys.stderr.write(f"kshunt: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _dashboard(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="kshunt",
        description="Watch and steer Kafka reassignments.",
        epilog=f"{TOOLS}\n{CLIENT_HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # What a context says would go before a flag that is not written out.
        allow_abbrev=False,
    )
    cluster_options(parser, required=False)
    parser.add_argument("--backend", metavar="URL", help="join a running backend")
    parser.add_argument(
        "--read-only", action="store_true", help="show everything, but change nothing"
    )
    recording = parser.add_mutually_exclusive_group()
    recording.add_argument(
        "--record",
        metavar="PATH",
        type=Path,
        help="record to this new file (default: below $XDG_STATE_HOME)",
    )
    recording.add_argument("--no-record", action="store_true", help="keep no recording")
    # What `kshunt web` starts for a browser.
    parser.add_argument("--in-browser", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--context",
        metavar="NAME",
        help="a cluster that the configuration names; see kshunt config",
    )
    parser.add_argument("--version", action="version", version=f"kshunt {__version__}")
    options = parser.parse_args(arguments)
    in_zookeeper = take_zookeeper(parser, options)
    if (options.backend is None) == (options.bootstrap_server is None):
        parser.error("give either --bootstrap-server, --backend or --context")
    if in_zookeeper:
        sys.stderr.write(f"{ZOOKEEPER_WARNING}\n")
    from kshunt.tui.__main__ import require_terminal, run

    if not options.in_browser:
        require_terminal()
    run_options = {
        "record": not options.no_record,
        "record_path": options.record,
        "in_browser": options.in_browser,
    }
    if options.backend is not None:
        return run(options.backend, read_only=options.read_only, **run_options)
    from kshunt.backend.tools.shared.private_backend import private_backend

    def start_backend() -> str:
        return private_backend(options.bootstrap_server, options.command_config)

    return run(start_backend(), read_only=options.read_only, revive=start_backend, **run_options)


def _demo(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="kshunt demo", description="Show the dashboard on a cluster in this machine's memory."
    )
    parser.add_argument(
        "--scenario", metavar="NAME|FILE", default="expand", help="(default expand); see --list"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="another seed gives other data"
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    options = parser.parse_args(arguments)
    if options.list:
        from kshunt.backend.embedded.command import main as cluster

        return cluster(["--list"])
    from importlib import import_module

    from kshunt.backend.cli.demo import run_demo
    from kshunt.tui.__main__ import require_terminal, run

    require_terminal()
    sys.stderr.write("Starting a cluster in memory, and a backend for it ...\n")

    def prepare() -> None:
        # All that the first rows need is loaded while the cluster and the backend start.
        for module in _DASHBOARD:
            import_module(module)

    def show(address: str, revive: Callable[[], object]) -> int:
        return run(address, revive=revive)

    return run_demo(options.scenario, options.seed, prepare, show)


def _web(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="kshunt web",
        description="Show the dashboard in a browser. The printed address includes the secret to "
        "open it.",
        epilog=CLIENT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    cluster_options(parser, required=False)
    parser.add_argument("--backend", metavar="URL", help="join a running backend")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8096", help="(default 127.0.0.1:8096)"
    )
    parser.add_argument(
        "--public-url",
        metavar="URL",
        default="",
        help="the address that browsers use, if it differs",
    )
    parser.add_argument(
        "--allow-changes", action="store_true", help="let browsers change the cluster"
    )
    options = parser.parse_args(arguments)
    if options.zookeeper is not None or options.zk_tls_config_file is not None:
        parser.error("the browser gets its cluster from --bootstrap-server or --backend")
    if (options.backend is None) == (options.bootstrap_server is None):
        parser.error("give either --bootstrap-server or --backend")
    from importlib.util import find_spec

    from kshunt.backend.errors import ConfigError

    host, port = loopback(options.listen)
    if find_spec("textual_serve") is None:
        raise ConfigError(
            "kshunt web needs textual-serve, which is not installed.",
            advice="Install it: pip install 'kshunt[web]'.",
        )
    from kshunt.tui.web.server import serve

    named = {
        "--bootstrap-server": options.bootstrap_server,
        "--command-config": options.command_config,
        "--backend": options.backend,
    }
    session = [word for flag, value in named.items() if value for word in (flag, str(value))]
    # Whoever opens a page is not the one whose recordings are kept here.
    session += ["--no-record", "--in-browser"]
    serve(
        session if options.allow_changes else [*session, "--read-only"],
        host,
        port,
        options.public_url,
    )
    return 0
