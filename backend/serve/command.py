"""`kshunt serve`: puts the parts of a backend together, and runs it.

Every heavy import is inside the function that needs it, so that a wrong flag is answered
immediately.
"""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend import two_person
from kshunt.backend.access import options as access_options
from kshunt.backend.access.options import credentials_of, keys_of
from kshunt.backend.access.socket_mode import socket_file
from kshunt.backend.addresses import ZOOKEEPER_WARNING, host_and_port
from kshunt.backend.commandline.cluster_flags import CLUSTER_FLAGS, CONTEXT, take_zookeeper
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.result_flags import KEEP_RESULTS
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.commandline.values import days
from kshunt.backend.config_file import serve_source
from kshunt.backend.errors import KshuntError
from kshunt.backend.garbage_collection import kept
from kshunt.backend.journal_storage import options as journal_options
from kshunt.backend.notify import options as notify_options
from kshunt.backend.serve.logs import FORMATS, set_up
from kshunt.backend.serve.results import pipeline_of, results_folder, results_of

if TYPE_CHECKING:
    import asyncio

    from kshunt.backend.access.cluster_keys import ClusterKeys
    from kshunt.backend.admin.connect import Reached
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer
    from kshunt.backend.api.core.backend import Backend
    from kshunt.backend.api.server.listener import Listen
    from kshunt.backend.clock import Clock
    from kshunt.backend.journal_storage.zookeeper.parts import ZooKeeperParts
    from kshunt.backend.operations.journal.port import Journal
    from kshunt.backend.operations.journal.replay import Unproven
    from kshunt.backend.settings import Settings
    from kshunt.backend.telemetry.recording.recorder import SampleRecorder


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop; the exit code.

    Raises:
        UsageError: a flag is unknown, lacks another one, or excludes it.
    """
    try:
        options = read(COMMAND, arguments)
    except UsageError as error:
        if source := error.unknown and serve_source(error.unknown, os.environ):
            error.advice = f"{source} has it."
        raise
    if options is None:
        return ExitCode.DONE
    if take_zookeeper(options):
        sys.stderr.write(f"{ZOOKEEPER_WARNING}\n")
    _check(options)
    return _run_server(options)


def flags() -> frozenset[str]:
    """What [serve] and the environment may say: every flag, without its dashes."""
    return frozenset(flag.name for flag in COMMAND.flags if not flag.hidden)


def _address(text: str) -> str:
    host_and_port(text)
    return text


_SAMPLES: Final = (
    Flag(
        "samples",
        "Record samples as Parquet files in this folder.",
        "DIR",
        value=Path,
        either="samples",
    ),
    Flag(
        "samples-topic",
        "Record samples to TOPIC-replicas, TOPIC-brokers and TOPIC-forecasts.",
        "TOPIC",
        either="samples",
    ),
    Flag("keep-samples", "Delete older samples.", "DAYS", value=days, default=7),
    Flag(
        "results",
        "Show the results of `kshunt pipeline` in this folder (default: results, in --samples).",
        "DIR",
        value=Path,
    ),
    Flag(
        "pipeline",
        "Run `kshunt pipeline run` on --samples: results by Spark, not by this process.",
        either="results",
    ),
    Flag("record-only", "Make no results of --samples.", either="results"),
    *KEEP_RESULTS,
    Flag(
        "reports",
        "Write a page of each week, and of each operation that ended, to this folder (HTML).",
        "DIR",
        value=Path,
    ),
    Flag(
        "pipeline-master",
        "The Spark master, also to copy a topic that shrinks (default local[*]).",
        "URL",
        default="",
    ),
)
"""Flags of the recording of samples, and of their results."""

COMMAND: Final = Command(
    ("serve",),
    "Serve one cluster.",
    (
        *CLUSTER_FLAGS,
        CONTEXT,
        Flag(
            "socket",
            "A Unix-domain socket (default: CLUSTER.sock in $XDG_RUNTIME_DIR/kshunt).",
            "PATH",
            value=Path,
            either="where",
        ),
        Flag("listen", "A TCP port.", "HOST:PORT", value=_address, either="where"),
        Flag("linger", "Stop after a while without requests, if no operation runs."),
        Flag(
            "linger-seconds",
            "Seconds without requests before --linger stops the backend.",
            "N",
            value=float,
            default=60.0,
        ),
        *_SAMPLES,
        Flag(
            "replica-placer",
            "The class that chooses brokers for new partitions and plans, as "
            "replica.placer.class.name.",
            "NAME",
            default="",
        ),
        Flag(
            "replica-placer-config",
            "Properties of that class, in the format of a broker's configuration.",
            "FILE",
            value=Path,
        ),
        Flag(
            "log-format",
            "Format of the lines on standard error.",
            "FORMAT",
            choices=FORMATS,
            default="text",
        ),
        Flag(
            "calibration",
            "Ranges of forecasts, from `kshunt pipeline backtest --calibrate FILE`; it is read "
            "again when it changes (default: from the cluster's own operations).",
            "FILE",
            value=Path,
        ),
        *access_options.FLAGS,
        *journal_options.FLAGS,
        *notify_options.FLAGS,
        *two_person.FLAGS,
        # The demo's: the brokers are the first line of standard input, and its end is ours.
        Flag("from-stdin", "", hidden=True),
    ),
    epilog="Each flag can also be a key of [serve] in the configuration, or a variable such as\n"
    "KSHUNT_SERVE_LISTEN. A flag overrides the variable, and a variable overrides the file.",
)


def _check(options: Namespace) -> None:
    """Refuse flags that lack another one."""
    if options.from_stdin == (options.bootstrap_server is not None):
        raise UsageError("kshunt serve needs --bootstrap-server HOST:PORT[,...].")
    if options.pipeline and options.samples is None:
        raise UsageError("--pipeline makes results of files: name their folder by --samples")
    if options.record_only and options.samples is None:
        raise UsageError("--record-only is about files: name their folder by --samples")
    if options.reports is not None and options.samples is None:
        raise UsageError("--reports is about samples in files: name their folder by --samples")
    if options.replica_placer_config is not None and not options.replica_placer:
        raise UsageError("--replica-placer-config needs --replica-placer")


def _run_server(options: Namespace) -> int:
    import asyncio

    with kept():
        from kshunt.backend.admin.connect import reach
        from kshunt.backend.api.core.backend import Backend
        from kshunt.backend.api.forwarding.peers import peers_of
        from kshunt.backend.api.server.listener import Listen, check_reach, serve
        from kshunt.backend.arrow_without_pandas import forgo_pandas
        from kshunt.backend.clock import SystemClock
        from kshunt.backend.local_sockets import served_path
        from kshunt.backend.operations.shrink.job_process import JobSettings, ProcessJob
        from kshunt.backend.serve.webhook_events import notifying_webhooks
        from kshunt.backend.settings import PlacerSettings, RecordingSettings, Settings

    forgo_pandas()
    set_up(options.log_format)
    bootstrap = sys.stdin.readline().strip() if options.from_stdin else options.bootstrap_server
    if not bootstrap:
        return ExitCode.DONE
    recording_settings = RecordingSettings(
        options.samples, options.samples_topic or "", keep_days=options.keep_samples
    )
    placer = PlacerSettings(options.replica_placer, options.replica_placer_config)
    listen, peers = _listen(options), peers_of(options.peers)
    clock = SystemClock()
    reporting = _reports(options, clock)
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
        pipeline = pipeline_of(options, clock, lambda: backend.hub.latest)
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
            results=results_of(options, clock),
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
            contextlib.nullcontext() if reporting is None else reporting(backend),
        ):
            await serve(backend, at, credentials, linger_s=linger_s, peers=peers)

    try:
        asyncio.run(run())
    finally:
        if settings.placer.name:
            from kshunt.backend.placement.placer_calls import close_placers

            close_placers()
    return ExitCode.DONE


async def _identified(
    options: Namespace, settings: Settings, admin: Reached
) -> tuple[str, ClusterKeys]:
    """The id of the cluster that was reached, and its keys.

    Raises:
        ClusterUnreachable: it has gone away since.
        ConfigError: the key file cannot be read, made or trusted.
    """
    state = await admin.cluster.describe((), timeout_s=settings.request_timeout_s)
    return state.cluster_id, keys_of(options, state.cluster_id)


def _reports(
    options: Namespace, clock: Clock
) -> Callable[[Backend], contextlib.AbstractAsyncContextManager[None]] | None:
    """What writes reports next to a backend; None, and nothing is loaded, where none are wanted.

    Raises:
        ConfigError: the folder cannot be written to.
    """
    if options.reports is None:
        return None
    from functools import partial

    from kshunt.backend.serve.reports import ReportWriter, check_folder, writing_reports

    folder = options.reports.absolute()
    check_folder(folder)
    writer = ReportWriter(folder, options.samples.absolute(), results_folder(options), clock)
    return partial(writing_reports, writer=writer)


def _placing(settings: Settings, admin: Reached) -> BackendPlacer | None:
    """What asks the placer, which is loaded; None, and nothing is loaded, where none is named."""
    if not settings.placer.name:
        return None
    from kshunt.backend.admin.kips.backend_placer import load_backend_placer

    return load_backend_placer(settings.placer, admin.cluster, admin.logs)


def _in_zookeeper(
    settings: Settings, admin: Reached, clock: Clock, keys: ClusterKeys, unproven: Unproven
) -> ZooKeeperParts | None:
    """What a cluster in ZooKeeper needs in addition.

    None, and nothing is loaded, for another cluster.
    """
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
    from contextlib import suppress
    from functools import partial

    from kshunt.backend.files import make_folder
    from kshunt.backend.telemetry.recording.folder_sink import FolderSink
    from kshunt.backend.telemetry.recording.recorder import SampleRecorder

    if recording.folder is not None:
        # A pipeline that starts next to this backend finds the folder before the first sample.
        with suppress(OSError):  # The recorder tries again, and says why it cannot.
            make_folder(recording.folder)
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


def _stop_at_end_of_input(loop: asyncio.AbstractEventLoop) -> None:
    """Stop as on SIGTERM, when the process at the other end of standard input is gone."""
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


def _listen(options: Namespace) -> Listen | None:
    """Where to serve; None: on the socket of the cluster, once its id is known."""
    from kshunt.backend.api.connections.certificates import Tls
    from kshunt.backend.api.server.listener import Listen

    file = socket_file(options)
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError(
            "--tls-certificate and --tls-key must be given together; nothing was started."
        )
    tls = None if options.tls_key is None else Tls(options.tls_certificate, options.tls_key)
    if options.listen is None:
        if tls is not None or options.tokens is not None or options.oidc_issuer:
            raise UsageError(
                "TLS, tokens and claims are for a TCP port; the mode of its file protects a "
                "socket.",
                advice="Give --listen HOST:PORT.",
            )
        return None if options.socket is None else Listen(options.socket, file=file)
    host, port = host_and_port(options.listen)
    return Listen(None, host, port, tls)
