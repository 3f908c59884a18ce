"""`kshunt serve`: puts the parts of a backend together, and runs it.

Every heavy import is inside the function that needs it, so that a wrong flag is answered at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend import two_person
from kshunt.backend.access.options import add_options, credentials_of, keys_of
from kshunt.backend.access.socket_mode import socket_file
from kshunt.backend.addresses import (
    ZOOKEEPER_WARNING,
    cluster_options,
    host_and_port,
    take_zookeeper,
)
from kshunt.backend.config_file import near, serve_source
from kshunt.backend.errors import ConfigError, KshuntError
from kshunt.backend.files import make_folder
from kshunt.backend.journal_storage import options as journal_options
from kshunt.backend.notify import options as notify_options
from kshunt.backend.serve.logs import FORMATS, set_up

if TYPE_CHECKING:
    import asyncio

    from kshunt.backend.access.cluster_keys import ClusterKeys
    from kshunt.backend.admin.connect import Reached
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer
    from kshunt.backend.api.server.listener import Listen
    from kshunt.backend.clock import Clock
    from kshunt.backend.journal_storage.zookeeper.parts import ZooKeeperParts
    from kshunt.backend.operations.journal.port import Journal
    from kshunt.backend.operations.journal.replay import Unproven
    from kshunt.backend.settings import Settings
    from kshunt.backend.telemetry.recording.recorder import SampleRecorder
    from kshunt.backend.telemetry.results.pipeline_supervisor import PipelineSupervisor
    from kshunt.backend.telemetry.results.results_reader import Results


_HELP: Final = "See kshunt serve --help."


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop; the exit code."""
    parser = _parser()
    options = _parsed(parser, arguments)
    if take_zookeeper(parser, options):
        sys.stderr.write(f"{ZOOKEEPER_WARNING}\n")
    _check(parser, options)
    return _run_server(options)


def flags() -> frozenset[str]:
    """What [serve] and the environment may say: every flag, without its dashes."""
    found = _parser()._option_string_actions
    return frozenset(flag.removeprefix("--") for flag in found if flag.startswith("--"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kshunt serve",
        description="Serve one cluster.",
        # What the configuration says would go before a flag that is not written out.
        allow_abbrev=False,
    )
    cluster_options(parser, required=False)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--socket",
        metavar="PATH",
        type=Path,
        help="a Unix-domain socket (default: CLUSTER.sock in $XDG_RUNTIME_DIR/kshunt)",
    )
    where.add_argument("--listen", metavar="HOST:PORT", help="a TCP port")
    parser.add_argument(
        "--linger",
        action="store_true",
        help="stop after a while without requests, if no operation runs",
    )
    parser.add_argument(
        "--linger-seconds",
        metavar="N",
        type=float,
        default=60.0,
        help="length of that while (default 60)",
    )
    _add_samples(parser)
    parser.add_argument(
        "--replica-placer",
        metavar="NAME",
        default="",
        help="the class that chooses brokers for new partitions and plans, as "
        "replica.placer.class.name",
    )
    parser.add_argument(
        "--replica-placer-config",
        metavar="FILE",
        type=Path,
        help="properties of that class, in the format of a broker's configuration",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="format of the lines on standard error (default text)",
    )
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        type=Path,
        help="ranges of forecasts, from `kshunt pipeline backtest --calibrate FILE`; it is read "
        "again when it changes (default: from the cluster's own operations)",
    )
    for add in (add_options, journal_options.add_options, notify_options.add_options):
        add(parser)
    two_person.add_options(parser)
    # The demo's: the brokers are the first line of standard input, and its end is ours.
    parser.add_argument("--from-stdin", action="store_true", help=argparse.SUPPRESS)
    return parser


def _add_samples(parser: argparse.ArgumentParser) -> None:
    """Flags of the recording of samples, and of their results."""
    samples = parser.add_mutually_exclusive_group()
    samples.add_argument(
        "--samples", metavar="DIR", type=Path, help="record samples as Parquet files in this folder"
    )
    samples.add_argument(
        "--samples-topic",
        metavar="TOPIC",
        help="record samples to TOPIC-replicas, TOPIC-brokers and TOPIC-forecasts",
    )
    parser.add_argument(
        "--keep-samples",
        metavar="DAYS",
        type=int,
        default=7,
        help="delete older samples (default 7)",
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        type=Path,
        help="show the results of `kshunt pipeline` in this folder (default: results, in "
        "--samples)",
    )
    parser.add_argument(
        "--pipeline", action="store_true", help="also run `kshunt pipeline run` on --samples"
    )
    parser.add_argument(
        "--pipeline-master",
        metavar="URL",
        default="",
        help="the Spark master, also to copy a topic that shrinks (default local[*])",
    )


def _parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The options; ends the program where a flag is none, and says where it stands."""
    options, unknown = parser.parse_known_args(list(arguments))
    odd = [word.partition("=")[0] for word in unknown if word.startswith("--")]
    if odd:
        # Not with what follows it, which may be a secret of the configuration.
        name = odd[0].removeprefix("--")
        source = serve_source(name, os.environ)
        said = f", which {source} has" if source else ""
        parser.error(f"unknown option {odd[0]}{said}. {near(name, flags(), _HELP)}")
    if unknown:
        parser.error(f"unknown option {' '.join(unknown)}")
    return options


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse flags that lack another one."""
    if options.from_stdin == (options.bootstrap_server is not None):
        parser.error("the following arguments are required: --bootstrap-server")
    if options.keep_samples < 1:
        parser.error("--keep-samples is a number of days, at least 1")
    if options.pipeline and options.samples is None:
        parser.error("--pipeline makes results of files: name their folder by --samples")
    if options.replica_placer_config is not None and not options.replica_placer:
        parser.error("--replica-placer-config needs --replica-placer")


def _run_server(options: argparse.Namespace) -> int:
    import asyncio
    import contextlib

    from kshunt.backend.admin.connect import reach
    from kshunt.backend.api.forwarding.peers import peers_of
    from kshunt.backend.api.server.listener import Listen, check_reach, serve
    from kshunt.backend.api.service.backend import Backend
    from kshunt.backend.clock import SystemClock
    from kshunt.backend.local_sockets import served_path
    from kshunt.backend.operations.shrink.job_process import JobSettings, ProcessJob
    from kshunt.backend.serve.webhook_events import notifying_webhooks
    from kshunt.backend.settings import PlacerSettings, RecordingSettings, Settings

    set_up(options.log_format)
    bootstrap = sys.stdin.readline().strip() if options.from_stdin else options.bootstrap_server
    if not bootstrap:
        return 0
    recording_settings = RecordingSettings(
        options.samples, options.samples_topic or "", keep_days=options.keep_samples
    )
    placer = PlacerSettings(options.replica_placer, options.replica_placer_config)
    listen, peers = _listen(options), peers_of(options.peers)
    clock = SystemClock()
    credentials = credentials_of(options, clock)
    identified = listen is not None and listen.path is None and bool(credentials)
    if listen is not None:
        check_reach(listen, credentials)
        _warn(listen, identified=identified)
    settings = Settings(
        *(bootstrap, options.command_config),
        recording=recording_settings,
        placer=placer,
        calibration=None if options.calibration is None else options.calibration.absolute(),
        two_person=two_person.rule_of(options, identified=identified),
    )

    async def run() -> None:
        if options.from_stdin:
            _stop_at_end_of_input(asyncio.get_running_loop())
        for each in credentials:
            await each.start()
        notifier = notify_options.notifier_of(options, clock)
        admin = await reach(settings, clock, owned_throttles=True)
        try:
            admin.placing = _placing(settings, admin)
            await admin.connect()
            cluster_id, keys = await _identified(options, settings, admin)
            at = listen or Listen(served_path(cluster_id))
        except KshuntError:
            await admin.close()
            raise
        linger_s = options.linger_seconds if options.linger else None
        pipeline = _pipeline(options, clock)
        unproven = journal_options.unproven_of(options)
        parts = _in_zookeeper(settings, admin, clock, keys, unproven)
        reached = replace(settings, bootstrap_servers=admin.cluster.bootstrap_servers)
        jobs = JobSettings(bootstrap, options.command_config, options.pipeline_master)
        backend = Backend(
            settings,
            admin,
            clock,
            _journals(settings, clock, keys, unproven) if parts is None else parts.open_journal,
            record=_recorders(reached, clock, admin.placing),
            results=_results(options, clock),
            pipeline_process=lambda: None if pipeline is None else pipeline.status(),
            repartition=lambda: ProcessJob(jobs),
            placing=admin.placing,
            keys=keys,
        )
        admin.guard = backend.membership.guard
        async with (
            contextlib.nullcontext() if pipeline is None else pipeline.beside(),
            contextlib.nullcontext() if parts is None else parts.recovering(backend.membership),
            contextlib.nullcontext() if notifier is None else notifying_webhooks(backend, notifier),
        ):
            await serve(backend, at, credentials, linger_s=linger_s, peers=peers)

    try:
        asyncio.run(run())
    finally:
        if settings.placer.name:
            from kshunt.backend.placement.placer_calls import close_placers

            close_placers()
    return 0


async def _identified(
    options: argparse.Namespace, settings: Settings, admin: Reached
) -> tuple[str, ClusterKeys]:
    """The id of the cluster that was reached, and its keys.

    Raises:
        ClusterUnreachable: it has gone away since.
        ConfigError: the key file cannot be read, made or trusted.
    """
    state = await admin.cluster.describe((), timeout_s=settings.request_timeout_s)
    return state.cluster_id, keys_of(options, state.cluster_id)


def _placing(settings: Settings, admin: Reached) -> BackendPlacer | None:
    """What asks the placer, which is loaded; None, and nothing is loaded, where none is named."""
    if not settings.placer.name:
        return None
    from kshunt.backend.admin.kips.backend_placer import load_backend_placer

    return load_backend_placer(settings.placer, admin.cluster, admin.logs)


def _in_zookeeper(
    settings: Settings, admin: Reached, clock: Clock, keys: ClusterKeys, unproven: Unproven
) -> ZooKeeperParts | None:
    """What a cluster in ZooKeeper needs besides; None, and nothing is loaded, for another one."""
    if not settings.zookeeper:
        return None
    from kshunt.backend.admin.zookeeper.zookeeper_admin import ZooKeeperAdmin
    from kshunt.backend.journal_storage.zookeeper.parts import ZooKeeperParts

    if not isinstance(admin, ZooKeeperAdmin):
        return None
    return ZooKeeperParts(admin.session, clock, keys, unproven)


def _journals(
    settings: Settings, clock: Clock, keys: ClusterKeys, unproven: Unproven
) -> Callable[[str, str], Journal]:
    """What reaches a cluster's journal, given the cluster's id and the backend's."""

    def open_journal(cluster_id: str, backend_id: str) -> Journal:
        from kshunt.backend.admin.security.client_properties import load_client_config
        from kshunt.backend.journal_storage.topic.topic_journal import TopicJournal

        return TopicJournal(
            settings.bootstrap_servers,
            load_client_config(settings.command_config),
            cluster_id=cluster_id,
            writer=backend_id,
            clock=clock,
            keys=keys,
            unproven=unproven,
        )

    return open_journal


def _recorders(
    settings: Settings, clock: Clock, placing: BackendPlacer | None
) -> Callable[..., SampleRecorder] | None:
    """What records samples, given the hub and what says which operation moves a partition.

    Nothing of it is loaded, and None is returned, where nothing is to be recorded.
    """
    recording = settings.recording
    if recording.folder is None and not recording.topic:
        return None
    from functools import partial

    from kshunt.backend.telemetry.recording.folder_sink import FolderSink
    from kshunt.backend.telemetry.recording.recorder import SampleRecorder

    if recording.folder is not None:
        folder = FolderSink(recording.folder)
        return partial(SampleRecorder, clock=clock, settings=recording, sink=folder)
    from kshunt.backend.admin.kafka.sample_producer import SampleProducer
    from kshunt.backend.admin.security.client_properties import load_client_config
    from kshunt.backend.telemetry.recording.kafka_sink import TopicSink

    config = load_client_config(settings.command_config)
    place = None if placing is None else placing.from_threads(settings.request_timeout_s)
    producer = SampleProducer(settings.bootstrap_servers, config, place=place)
    topic = TopicSink(recording.topic, producer, recording.keep_days)
    return partial(SampleRecorder, clock=clock, settings=recording, sink=topic)


def _results(options: argparse.Namespace, clock: Clock) -> Results | None:
    """What reads the data pipeline's results; None, and nothing is loaded, where there are none."""
    folder: Path | None = options.results
    if folder is None and options.samples is not None:
        from kshunt.backend.domain.pipeline.result_columns import RESULTS

        folder = options.samples / RESULTS
    if folder is None:
        return None
    from kshunt.backend.telemetry.results.results_reader import Results

    return Results(folder.absolute(), clock)


def _pipeline(options: argparse.Namespace, clock: Clock) -> PipelineSupervisor | None:
    """What looks after `kshunt pipeline run`; None, and nothing is loaded, where it is not to."""
    if not options.pipeline:
        return None
    from kshunt.backend.telemetry.results.pipeline_supervisor import (
        PipelineSupervisor,
        pipeline_command,
    )

    # The recorder makes the folder when it knows the cluster, and the process may be there first.
    with contextlib.suppress(OSError):
        make_folder(options.samples)
    command = pipeline_command(options.samples, options.results, options.pipeline_master)
    return PipelineSupervisor(command, clock)


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop) -> None:
    """Stop as on SIGTERM, when whoever holds the other end of standard input is gone."""
    import os
    import signal

    def look() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            signal.raise_signal(signal.SIGTERM)

    loop.add_reader(sys.stdin.fileno(), look)


def _warn(listen: Listen, *, identified: bool) -> None:
    """Say in one line what a port without credentials means."""
    if listen.path is None and not identified:
        sys.stderr.write(
            "Warning: every user of this host is an admin of the cluster through "
            f"{listen.address}. Give --tokens, or serve on a socket.\n"
        )


def _listen(options: argparse.Namespace) -> Listen | None:
    """Where to serve; None: on the socket of the cluster, once its id is known."""
    from kshunt.backend.api.connections.certificates import Tls
    from kshunt.backend.api.server.listener import Listen

    file = socket_file(options)
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise ConfigError(
            "--tls-certificate and --tls-key must be given together; nothing was started."
        )
    tls = None if options.tls_key is None else Tls(options.tls_certificate, options.tls_key)
    if options.listen is None:
        if tls is not None or options.tokens is not None or options.oidc_issuer:
            raise ConfigError(
                "TLS, tokens and claims are for a TCP port; the mode of its file protects a "
                "socket.",
                advice="Give --listen HOST:PORT.",
            )
        return None if options.socket is None else Listen(options.socket, file=file)
    host, port = host_and_port(options.listen)
    return Listen(None, host, port, tls)
