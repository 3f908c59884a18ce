"""`kshunt kafka-preferred-replica-election`: Kafka's tool, as KIP-183 wants it.

The flags, the words and the exit codes are those of Kafka 2.x; a partition that comes twice in
the file is no error, as KIP-183 says. Its start-up time counts, so what elects is imported once
the command line asks for it, and needs no data library, Kafka client or web framework.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    JSON,
    ZK_CONFIG,
    ZOOKEEPER,
    alias_of_command_config,
    backend_address,
    check_zk_config,
    cluster_address,
)
from kshunt.backend.commandline.exit_codes import ExitCode, KafkaExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Command, Flag, not_supported
from kshunt.backend.commandline.values import (
    ANSWER_MARGIN_S,
    REASON_HELP,
    TIMEOUT_MS_MAX,
    path_of,
    reason,
    whole,
)
from kshunt.backend.errors import BadInput
from kshunt.backend.tools.shared.console import (
    check_client_config,
    parsed_file,
    run_tool,
    show_report,
    warn_of_zookeeper,
)
from kshunt.backend.tools.shared.output import ToolReport

if TYPE_CHECKING:
    from kshunt.backend.domain.cluster.metadata import TopicPartition
    from kshunt.backend.domain.operations.change import Change
    from kshunt.backend.domain.operations.election import ElectionAnswer, LeaderCount
    from kshunt.backend.domain.reassignment.answers import Result

DEFAULT_TIMEOUT_MS: Final = 30_000
PAUSE_MS_MAX: Final = 60_000
BATCH_SIZE_MAX: Final = 200_000
PATIENCE_S: Final = 86_400.0
"""How long an election in batches may take: nobody knows how many batches there will be."""

DESCRIPTION: Final = """\
Give the leadership of partitions back to their preferred replicas.

The preferred replica of a partition is the first broker in its list of replicas: for a partition
with replicas 3,1,2 it is broker 3. Kafka spreads preferred replicas over the brokers when a topic
is created, so the load is spread while each of them leads. When a broker stops, other brokers
become leaders of its partitions. When it is back, it is a follower until an election.

This command is not necessary if the brokers run with auto.leader.rebalance.enable=true, which is
Kafka's default: then the controller elects preferred replicas. It checks every
leader.imbalance.check.interval.seconds (300). It elects for a broker if other brokers lead more
than leader.imbalance.per.broker.percentage (10) of the partitions that prefer it. Use the command
if that is switched off, or if you do not want to wait.
"""

EPILOG: Final = """\
A preferred replica can lead only while it is in the ISR. An election loses no records. Clients of
a partition need a moment to find its new leader.
"""

FLAGS: Final = (
    Flag(
        "bootstrap-server",
        "Brokers to connect to first. REQUIRED unless --backend or --zookeeper is given.",
        "HOST:PORT[,...]",
    ),
    Flag(
        "path-to-json-file",
        "The partitions whose preferred replicas are to lead, as in "
        '{"partitions": [{"topic": "foo", "partition": 1}, {"topic": "foobar", "partition": 2}]}. '
        "Without it: all partitions.",
        "FILE",
    ),
    alias_of_command_config("admin.config"),
    ZOOKEEPER,
    ZK_CONFIG,
    *BACKEND_FLAGS,
    Flag("batch-size", "Elect at most this many in one batch, and wait until they lead.", "N"),
    Flag("batch-pause", "Wait this long between two batches (default 0).", "MS"),
    Flag(
        "timeout",
        f"How long to wait until they lead, for each batch (default {DEFAULT_TIMEOUT_MS}).",
        "MS",
    ),
    Flag("reason", f"{REASON_HELP} Needs a backend, and starts one if none runs.", "TEXT"),
    Flag("validate-only", "Show what would happen, and how it would spread the leaders."),
    JSON,
    not_supported(
        "election-type",
        "Leave it out to elect preferred replicas; use Kafka's own kafka-leader-election.sh for "
        "an unclean election.",
        "TYPE",
    ),
    not_supported("all-topic-partitions", "Leave out --path-to-json-file to elect for all."),
    not_supported("topic", "Name the topic in the file of --path-to-json-file.", "TOPIC"),
    not_supported("partition", "Name the partition in the file of --path-to-json-file.", "N"),
)
COMMAND: Final = Command(
    ("kafka-preferred-replica-election",),
    DESCRIPTION,
    FLAGS,
    epilog=EPILOG,
    codes={
        KafkaExitCode.DONE: "done: every partition of the list is led by its preferred replica",
        KafkaExitCode.FAILED: "an error, wrong usage, or some preferred replica could not be "
        "elected",
    },
    kafka=True,
)


class ElectionOptions(NamedTuple):
    """A command line that has passed every check which needs no file and no cluster."""

    bootstrap_servers: str = ""
    """Or what `Settings.bootstrap_servers` has for ZooKeeper."""
    backend: str = ""
    """Address of a shared backend: unix:/path or http://host:port."""
    zookeeper: str = ""
    admin_config: Path | None = None
    """Absolute; with --zookeeper, what --zk-tls-config-file names."""
    partitions_file: str | None = None
    """None is for all partitions."""
    batch_size: int | None = None
    pause_ms: int = 0
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    validate_only: bool = False
    who: str = ""
    """Who asks, for the audit."""
    reason: str = ""
    """Why, for the audit."""
    json: bool = False


class Elect(Protocol):
    """Holds the election, as `ElectionsClient.elect_preferred_leaders` does."""

    def __call__(
        self,
        partitions: Sequence[TopicPartition] | None,
        change: Change,
        *,
        batch_size: int | None,
        pause_ms: int,
        timeout_ms: int,
    ) -> ElectionAnswer:
        """Elect preferred replicas as leaders, of every partition if None."""
        ...


def main(argv: Sequence[str]) -> int:
    """Run the tool; its exit code is described in --help."""
    left = "Interrupted. Elections that were requested may still take place; check the leaders."
    return run_tool(COMMAND, _main, argv, interrupted=left)


def _main(argv: Sequence[str]) -> int:
    words = read(COMMAND, argv)
    if words is None:
        return ExitCode.DONE
    options = parse_options(words.given)
    if options.zookeeper:
        warn_of_zookeeper()
    check_client_config(options.admin_config)
    from kshunt.backend.domain.operations.change import Change

    partitions = _partitions(options.partitions_file)
    with _open(options) as elect:
        answer = elect(
            partitions,
            Change(options.validate_only, who=options.who, reason=options.reason),
            batch_size=options.batch_size,
            pause_ms=options.pause_ms,
            timeout_ms=options.timeout_ms,
        )
    report = preview_report(answer) if options.validate_only else election_report(answer)
    return show_report(report, as_json=options.json)


def _partitions(name: str | None) -> tuple[TopicPartition, ...] | None:
    if name is None:
        return None
    from kshunt.backend.domain.reassignment.plan import parse_partitions

    partitions = parsed_file(name, parse_partitions)
    if not partitions:
        # An empty list must not be taken for "all".
        raise BadInput(f"{name}: Preferred replica election data is empty")
    return partitions


# Flags


def parse_options(given: Mapping[str, str]) -> ElectionOptions:
    """Check what was given, as Kafka's tool checks it.

    Raises:
        UsageError: flags are missing, do not go together, or have a value that cannot be meant.
    """
    from kshunt.backend.operator_identity import who_am_i

    _check_source(given)
    if "batch-pause" in given and "batch-size" not in given:
        raise UsageError("--batch-pause needs --batch-size")
    batch_size = whole(given, "batch-size", 1, BATCH_SIZE_MAX)
    timeout_ms = whole(given, "timeout", 1, TIMEOUT_MS_MAX)
    return ElectionOptions(
        bootstrap_servers=cluster_address(given),
        backend=backend_address(given),
        zookeeper=given.get("zookeeper", ""),
        admin_config=path_of(given, "admin.config") or path_of(given, ZK_CONFIG.name),
        partitions_file=given.get("path-to-json-file"),
        batch_size=batch_size,
        pause_ms=whole(given, "batch-pause", 0, PAUSE_MS_MAX) or 0,
        timeout_ms=DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
        validate_only="validate-only" in given,
        who=who_am_i(),
        reason=reason(given),
        json="json" in given,
    )


def _check_source(given: Mapping[str, str]) -> None:
    """Exactly one of the three ways to name a cluster."""
    ways = [way for way in ("bootstrap-server", "zookeeper", "backend") if way in given]
    if len(ways) != 1:
        raise UsageError(
            "Exactly one of '[bootstrap-server]' or '[zookeeper]' must be provided, or '[backend]'"
        )
    if not given[ways[0]].strip():
        raise UsageError(f"Option {ways[0]} requires an argument")
    if "admin.config" in given and ways != ["bootstrap-server"]:
        raise UsageError("--admin.config needs --bootstrap-server")
    check_zk_config(given)


# The way to a cluster


@contextmanager
def _open(options: ElectionOptions) -> Iterator[Elect]:
    """The backend that the options name, or the private one; a preview can do without.

    An election goes into the audit, which a backend keeps: one is started where none runs.

    Raises:
        BackendUnreachable: the backend that the options name does not answer.
        ClusterUnreachable: no backend runs, and no broker answers this process.
    """
    address = _address(options)
    if address:
        from kshunt.backend.api.client.elections import ElectionsClient
        from kshunt.backend.tools.shared.senders import quick_sender

        paced = options.batch_size is not None
        patience_s = PATIENCE_S if paced else options.timeout_ms / 1000 + ANSWER_MARGIN_S
        with quick_sender(address, timeout_s=patience_s) as sender:
            yield ElectionsClient(sender).elect_preferred_leaders
        return
    from kshunt.backend.settings import Settings
    from kshunt.backend.tools.local.cluster import LocalCluster
    from kshunt.backend.tools.local.elections import LocalElections

    settings = Settings(options.bootstrap_servers, options.admin_config)
    with closing(LocalCluster(settings)) as cluster:
        yield LocalElections(cluster).elect_preferred_leaders


def _address(options: ElectionOptions) -> str:
    """Of the backend, or empty where this process does it."""
    if not options.backend and not options.validate_only:
        from kshunt.backend.tools.shared.private_backend import private_backend

        return private_backend(options.bootstrap_servers, options.admin_config)
    from kshunt.backend.local_sockets import running_backend

    return running_backend(options.backend, options.bootstrap_servers, options.admin_config)


# Words


def election_report(answer: ElectionAnswer) -> ToolReport:
    """What became of the elections, in the words of Kafka 2.x."""
    done = [result.item for result in answer.results if result.ok]
    lines = []
    if done:
        lines.append(
            "Successfully completed preferred replica election for partitions " + ", ".join(done)
        )
    lines += [
        f"Error completing preferred replica election for partition {_failure(result)}"
        for result in answer.failures
    ]
    if not answer.results:
        lines.append("No partition needed a preferred replica election.")
    return _report(lines, answer)


def preview_report(answer: ElectionAnswer) -> ToolReport:
    """What the elections would do, and how the leaders would be spread then."""
    lines = [
        f"{result.item}: {result.message}" if result.ok else _failure(result)
        for result in answer.results
    ]
    if not answer.results:
        lines.append("No partition needs a preferred replica election.")
    return _report([*lines, *_leader_lines(answer.leaders)], answer)


def _report(lines: Sequence[str], answer: ElectionAnswer) -> ToolReport:
    from kshunt.backend.domain.untrusted.json_codec import to_document

    failed = len(answer.failures)
    text = "\n".join([*lines, *answer.notes])
    problems = (f"{failed} preferred replica(s) could not be elected",) if failed else ()
    code = ExitCode.FAILED if failed else ExitCode.DONE
    return ToolReport(text, to_document(answer), code, problems)


def _failure(result: Result) -> str:
    why = f": {result.message}" if result.message else ""
    return f"{result.item}: {result.error_name}{why}"


def _leader_lines(leaders: Sequence[LeaderCount]) -> list[str]:
    """A table; the skew is how far a broker is from an even share of the leaders."""
    if not leaders:
        return []
    row = "{:>6}  {:>8}  {:>8}  {:>9}  {:>11}  {:>10}".format
    lines = [row("Broker", "Leads", "Then", "Preferred", "Skew before", "Skew after")]
    lines += [
        row(
            count.broker,
            count.leaders_before,
            count.leaders_after,
            count.leaders_preferred,
            f"{count.skew_before:+.0%}",
            f"{count.skew_after:+.0%}",
        )
        for count in leaders
    ]
    return lines
