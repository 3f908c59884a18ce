"""The `kshunt` command: the one place that puts the parts together.

Every heavy import is inside its own subcommand, so that `kshunt --help` and the one-shot tools
start quickly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backend import __version__
from backend.errors import KshuntError

if TYPE_CHECKING:
    import asyncio

    from backend.admin.kafka import KafkaAdmin
    from backend.admin.placing import Placing
    from backend.api.server import Listen
    from backend.clock import Clock
    from backend.operations.journal import Journal
    from backend.settings import Settings
    from backend.telemetry.recording.recorder import Recorder
    from backend.telemetry.results import Results
    from backend.telemetry.supervised import Supervised

_DASHBOARD = ("tui.app", "tui.tables.partitions", "backend.api.client", "backend.api.frames")

TOOLS = """\
commands:
  (none)                      the dashboard
  demo                        the dashboard on a cluster of its own; nothing else is needed
  cluster                     a Kafka cluster in one process, for rehearsals and tests
  replay FILE                 a recording of the dashboard, or a note of it; see its own --help
  serve                       a backend that several dashboards and tools share
  kafka-reassign-partitions   Kafka's tool, with --progress; see its own --help
  kafka-preferred-replica-election
                              Kafka's tool: preferred replicas lead again; see its own --help
  kafka-topics                Kafka's tool: topics, with more or fewer partitions; see --help
  plan                        plan and rehearse a reassignment; see its own --help
  tokens                      who may ask a backend on a TCP port; see its own --help
  web                         the dashboard in a browser, read-only unless told otherwise
  audit                       who asked for what and why, from the journal; see its own --help
  pipeline                    results over days by Spark: rates, stalls; see its own --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        match arguments[:1]:
            case ["kafka-reassign-partitions"]:
                from backend.tools.reassign import main as reassign

                return reassign(arguments[1:])
            case ["kafka-preferred-replica-election"]:
                from backend.tools.election import main as election

                return election(arguments[1:])
            case ["kafka-topics"]:
                from backend.tools.topics import main as topics

                return topics(arguments[1:])
            case ["plan"]:
                from backend.tools.plan import main as plan

                return plan(arguments[1:])
            case ["audit"]:
                from backend.tools.audit import main as audit

                return audit(arguments[1:])
            case ["pipeline"]:
                from backend.pipeline.command import main as pipeline

                return pipeline(arguments[1:])
            case ["tokens"]:
                from backend.tools.tokens import main as tokens

                return tokens(arguments[1:])
            case ["web"]:
                return _web(arguments[1:])
            case ["replay"]:
                from backend.tools.replay import main as replay_tool
                from tui.__main__ import replay, write_notes

                return replay_tool(arguments[1:], replay, write_notes)
            case ["serve"]:
                return _serve(arguments[1:])
            case ["cluster"]:
                from backend.embedded.command import main as cluster

                return cluster(arguments[1:])
            case ["demo"]:
                return _demo(arguments[1:])
            case _:
                return _dashboard(arguments)
    except KshuntError as error:
        sys.stderr.write(f"kshunt: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _cluster_options(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        required=required,
        help="brokers of the cluster to connect to",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        type=Path,
        help="Kafka client properties (security), as Kafka's own tools take them",
    )


def _dashboard(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="kshunt",
        description="Watch and steer Kafka reassignments.",
        epilog=TOOLS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _cluster_options(parser, required=False)
    parser.add_argument("--backend", metavar="URL", help="join a backend that runs already")
    parser.add_argument("--read-only", action="store_true", help="look, and change nothing")
    recording = parser.add_mutually_exclusive_group()
    recording.add_argument(
        "--record", metavar="PATH", type=Path, help="record to this new file (default: see README)"
    )
    recording.add_argument("--no-record", action="store_true", help="keep no recording")
    parser.add_argument("--version", action="version", version=f"kshunt {__version__}")
    options = parser.parse_args(arguments)
    if (options.backend is None) == (options.bootstrap_server is None):
        parser.error("give either --bootstrap-server or --backend")
    from tui.__main__ import run

    kept = {"record": not options.no_record, "record_path": options.record}
    if options.backend is not None:
        return run(options.backend, read_only=options.read_only, **kept)
    from backend.tools.private import private_backend

    def start_backend() -> str:
        return private_backend(options.bootstrap_server, options.command_config)

    return run(start_backend(), read_only=options.read_only, revive=start_backend, **kept)


def _demo(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="kshunt demo", description="Show the dashboard on a cluster in this machine's memory."
    )
    parser.add_argument(
        "--scenario", metavar="NAME|FILE", default="expand", help="(default expand); see --list"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="another one, other data")
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    options = parser.parse_args(arguments)
    if options.list:
        from backend.embedded.command import main as cluster

        return cluster(["--list"])
    from importlib import import_module

    from backend.tools.demo import run_demo
    from tui.__main__ import run

    def prepare() -> None:
        # All that the first rows need is loaded while the cluster and the backend start.
        for module in _DASHBOARD:
            import_module(module)

    return run_demo(options.scenario, options.seed, prepare, run)


def _serve(arguments: list[str]) -> int:
    from backend.access.options import add_options

    parser = argparse.ArgumentParser(prog="kshunt serve", description="Serve one cluster.")
    _cluster_options(parser, required=False)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--socket", metavar="PATH", type=Path, help="a Unix-domain socket")
    where.add_argument("--listen", metavar="HOST:PORT", help="a TCP port (default 127.0.0.1:8095)")
    parser.add_argument(
        "--linger",
        action="store_true",
        help="stop when nobody has asked for anything for a while and no operation runs",
    )
    parser.add_argument(
        "--linger-seconds", metavar="N", type=float, default=60.0, help="that while (default 60)"
    )
    samples = parser.add_mutually_exclusive_group()
    samples.add_argument(
        "--samples", metavar="DIR", type=Path, help="record samples as Parquet files in this folder"
    )
    samples.add_argument(
        "--samples-topic", metavar="TOPIC", help="record them to TOPIC-replicas and TOPIC-brokers"
    )
    parser.add_argument(
        "--keep-samples", metavar="DAYS", type=int, default=7, help="drop older ones (default 7)"
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        type=Path,
        help="show what `kshunt pipeline` makes there (default: results, in --samples)",
    )
    parser.add_argument(
        "--pipeline", action="store_true", help="run `kshunt pipeline run` on --samples meanwhile"
    )
    parser.add_argument(
        "--pipeline-master",
        metavar="URL",
        default="",
        help="Spark's, also to copy a topic that shrinks (default local[*])",
    )
    parser.add_argument(
        "--replica-placer",
        metavar="NAME",
        default="",
        help="what chooses brokers for new partitions and plans, as replica.placer.class.name",
    )
    parser.add_argument(
        "--replica-placer-config",
        metavar="FILE",
        type=Path,
        help="properties that it is configured with, as brokers give it theirs",
    )
    add_options(parser)
    # The demo's: the brokers are the first line of standard input, and its end is ours.
    parser.add_argument("--from-stdin", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.from_stdin == (options.bootstrap_server is not None):
        parser.error("the following arguments are required: --bootstrap-server")
    if options.keep_samples < 1:
        parser.error("--keep-samples is a number of days, at least 1")
    if options.pipeline and options.samples is None:
        parser.error("--pipeline makes results of files: name their folder by --samples")
    if options.replica_placer_config is not None and not options.replica_placer:
        parser.error("--replica-placer-config is for a placer: name it by --replica-placer")
    return _run_server(options)


def _web(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="kshunt web",
        description="Show the dashboard in a browser; the address that is printed lets in.",
    )
    _cluster_options(parser, required=False)
    parser.add_argument("--backend", metavar="URL", help="join a backend that runs already")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8096", help="(default 127.0.0.1:8096)"
    )
    parser.add_argument(
        "--public-url", metavar="URL", default="", help="how a browser reaches it, if otherwise"
    )
    parser.add_argument(
        "--allow-changes", action="store_true", help="let browsers change the cluster"
    )
    options = parser.parse_args(arguments)
    if (options.backend is None) == (options.bootstrap_server is None):
        parser.error("give either --bootstrap-server or --backend")
    from importlib.util import find_spec

    from backend.errors import ConfigError

    host, port = _loopback(options.listen)
    if find_spec("textual_serve") is None:
        raise ConfigError(
            "kshunt web needs textual-serve, which is not installed.",
            advice="Install it: pip install 'kshunt[web]'.",
        )
    from tui.web.server import serve

    named = {
        "--bootstrap-server": options.bootstrap_server,
        "--command-config": options.command_config,
        "--backend": options.backend,
    }
    session = [word for flag, value in named.items() if value for word in (flag, str(value))]
    # Whoever opens a page is not the one whose recordings are kept here.
    session.append("--no-record")
    serve(
        session if options.allow_changes else [*session, "--read-only"],
        host,
        port,
        options.public_url,
    )
    return 0


def _run_server(options: argparse.Namespace) -> int:
    import asyncio
    import contextlib
    import logging

    from backend.access.options import credentials_of
    from backend.admin.kafka import KafkaAdmin
    from backend.api.backend import Backend
    from backend.api.server import check_reach, serve
    from backend.clock import SystemClock
    from backend.operations.shrink.job import JobSettings, ProcessJob
    from backend.settings import PlacerSettings, RecordingSettings, Settings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    bootstrap = sys.stdin.readline().strip() if options.from_stdin else options.bootstrap_server
    if not bootstrap:
        return 0
    kept = RecordingSettings(
        options.samples, options.samples_topic or "", keep_days=options.keep_samples
    )
    placer = PlacerSettings(options.replica_placer, options.replica_placer_config)
    settings = Settings(bootstrap, options.command_config, recording=kept, placer=placer)
    listen = _listen(options)
    clock = SystemClock()
    credentials = credentials_of(options, clock)
    check_reach(listen, credentials)

    async def run() -> None:
        if options.from_stdin:
            _stop_at_end_of_input(asyncio.get_running_loop())
        for each in credentials:
            await each.start()
        admin = KafkaAdmin(settings, owned_throttles=True)
        try:
            admin.placing = _placing(settings, admin)
            await admin.connect()
        except KshuntError:
            await admin.close()
            raise
        linger_s = options.linger_seconds if options.linger else None
        pipeline = _pipeline(options, clock)
        jobs = JobSettings(bootstrap, options.command_config, options.pipeline_master)
        backend = Backend(
            settings,
            admin,
            clock,
            _journals(settings, clock),
            record=_recorders(settings, clock, admin.placing),
            results=_results(options, clock),
            pipeline_process=lambda: None if pipeline is None else pipeline.standing(),
            repartition=lambda: ProcessJob(jobs),
            placing=admin.placing,
        )
        admin.guard = backend.seat.guard
        async with contextlib.nullcontext() if pipeline is None else pipeline.beside():
            await serve(backend, listen, credentials, linger_s=linger_s)

    try:
        asyncio.run(run())
    finally:
        if settings.placer.name:
            from backend.placement.placing import close_placers

            close_placers()
    return 0


def _placing(settings: Settings, admin: KafkaAdmin) -> Placing | None:
    """What asks the placer, which is loaded; None, and nothing is loaded, where none is named."""
    if not settings.placer.name:
        return None
    from backend.admin.placing import placing_of

    return placing_of(settings.placer, admin)


def _journals(settings: Settings, clock: Clock) -> Callable[[str, str], Journal]:
    """What reaches a cluster's journal, given the cluster's id and the backend's."""

    def open_journal(cluster_id: str, backend_id: str) -> Journal:
        from backend.admin.journal_topic import TopicJournal
        from backend.admin.properties import load_client_config

        return TopicJournal(
            settings.bootstrap_servers,
            load_client_config(settings.command_config),
            cluster_id=cluster_id,
            writer=backend_id,
            clock=clock,
        )

    return open_journal


def _recorders(
    settings: Settings, clock: Clock, placing: Placing | None
) -> Callable[..., Recorder] | None:
    """What records samples, given the hub and what says which operation moves a partition.

    Nothing of it is loaded, and None is returned, where nothing is to be recorded.
    """
    recording = settings.recording
    if recording.folder is None and not recording.topic:
        return None
    from functools import partial

    from backend.telemetry.recording.recorder import Recorder
    from backend.telemetry.recording.writer import FolderSink

    if recording.folder is not None:
        folder = FolderSink(recording.folder)
        return partial(Recorder, clock=clock, settings=recording, sink=folder)
    from backend.admin.properties import load_client_config
    from backend.admin.sample_producer import SampleProducer
    from backend.telemetry.recording.kafka_sink import TopicSink

    config = load_client_config(settings.command_config)
    place = None if placing is None else placing.from_threads(settings.request_timeout_s)
    producer = SampleProducer(settings.bootstrap_servers, config, place=place)
    topic = TopicSink(recording.topic, producer, recording.keep_days)
    return partial(Recorder, clock=clock, settings=recording, sink=topic)


def _results(options: argparse.Namespace, clock: Clock) -> Results | None:
    """What reads the data pipeline's results; None, and nothing is loaded, where there are none."""
    folder: Path | None = options.results
    if folder is None and options.samples is not None:
        from backend.domain.results import RESULTS

        folder = options.samples / RESULTS
    if folder is None:
        return None
    from backend.telemetry.results import Results

    return Results(folder.absolute(), clock)


def _pipeline(options: argparse.Namespace, clock: Clock) -> Supervised | None:
    """What looks after `kshunt pipeline run`; None, and nothing is loaded, where it is not to."""
    if not options.pipeline:
        return None
    from backend.telemetry.supervised import Supervised, pipeline_command

    command = pipeline_command(options.samples, options.results, options.pipeline_master)
    return Supervised(command, clock)


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop) -> None:
    """Stop as on SIGTERM, when whoever holds the other end of standard input is gone."""
    import os
    import signal

    def look() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            signal.raise_signal(signal.SIGTERM)

    loop.add_reader(sys.stdin.fileno(), look)


def _listen(options: argparse.Namespace) -> Listen:
    from backend.api.server import Listen, Tls
    from backend.errors import ConfigError

    if (options.tls_certificate is None) != (options.tls_key is None):
        raise ConfigError("--tls-certificate and --tls-key go together; nothing was started.")
    tls = None if options.tls_key is None else Tls(options.tls_certificate, options.tls_key)
    if options.socket is not None:
        if tls is not None or options.tokens is not None or options.oidc_issuer:
            raise ConfigError(
                "TLS, tokens and claims are for a TCP port; the mode of its file guards a socket.",
                advice="Give --listen HOST:PORT instead of --socket.",
            )
        return Listen(options.socket)
    host, port = _host_and_port(options.listen or "127.0.0.1:8095")
    return Listen(None, host, port, tls)


def _host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address.

    Raises:
        ConfigError: it is none.
    """
    from backend.errors import ConfigError

    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"'{address}' is no HOST:PORT.")
    return host.strip("[]"), int(port)


def _loopback(address: str) -> tuple[str, int]:
    """Host and port of a loopback address.

    Raises:
        ConfigError: it is no address, or one that others could reach.
    """
    from backend.errors import ConfigError

    host, port = _host_and_port(address)
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(
            f"{host} is not a loopback address, and `kshunt web` has no authentication.",
            advice="Serve on 127.0.0.1 and reach it through an SSH tunnel.",
        )
    return host, port


if __name__ == "__main__":
    sys.exit(main())
