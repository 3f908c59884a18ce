"""The command line of `kafka-topics`: Kafka 4's flags, KIP-694's, and kshunt's own.

The table `FLAGS` says which flag belongs to which action. The checks run in the order of Kafka's
tool and speak its words. So a script that reads Kafka's messages reads ours.

What reads the value of a flag is imported where that flag is given.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    COMMAND_CONFIG,
    JSON,
    backend_address,
    check_command_config,
)
from kshunt.backend.commandline.exit_codes import KafkaExitCode
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.table import Command, Flag, not_supported
from kshunt.backend.commandline.values import (
    DEFAULT_TIMEOUT_MS,
    REASON_HELP,
    TIMEOUT_MS_MAX,
    path_of,
    reason,
    whole,
)

if TYPE_CHECKING:
    from kshunt.backend.domain.topics.partitioners import Partitioner

PARTITIONS_MAX: Final = 2**31 - 1

DESCRIPTION: Final = "List and describe topics, and change how many partitions they have."

EPILOG: Final = """\
With fewer partitions than the topic has, the cluster deletes the last ones (KIP-694). They accept
no more records, and can be read until the delay is over. Then their data is deleted. Until then,
--alter with a higher number keeps them. This needs a cluster that supports KIP-694, with
delete.topic.partition.enable=true.

Apache Kafka does not support KIP-694. There, kshunt starts an operation that loses no record. It
waits until the last partitions had no new records for the delay. It copies the topic into one
with fewer partitions, and compares them. It asks for the topic's name in the dashboard before it
replaces the topic with the copy.
"""


class TopicsAction(enum.StrEnum):
    """What the tool is asked to do."""

    LIST = "list"
    DESCRIBE = "describe"
    ALTER = "alter"


class TopicOptions(NamedTuple):
    """A command line that has passed every check which needs no cluster."""

    action: TopicsAction
    bootstrap_servers: str = ""
    backend: str = ""
    """Address of a shared backend: unix:/path or http://host:port."""
    zookeeper: str = ""
    command_config: Path | None = None
    """Absolute."""
    topic: str = ""
    """A regular expression, but for `ALTER`; empty for all topics."""
    partitions: int = 0
    """For `ALTER`, how many the topic will have."""
    assignment: tuple[tuple[int, ...], ...] | None = None
    """Brokers of all partitions, those that are there included."""
    delay_ms: int | None = None
    partitioner: Partitioner | None = None
    """By which a copy of the topic places keys; None: by the one that they follow."""
    if_exists: bool = False
    exclude_internal: bool = False
    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    with_overrides: bool = False
    validate_only: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    who: str = ""
    """Who asks, for the audit."""
    reason: str = ""
    """Why, for the audit."""
    json: bool = False

    @property
    def reports(self) -> bool:
        """True where only partitions in trouble are asked for."""
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr


def _with(*actions: TopicsAction) -> frozenset[TopicsAction]:
    return frozenset(actions)


_DESCRIBE: Final = _with(TopicsAction.DESCRIBE)
_ALTER: Final = _with(TopicsAction.ALTER)

FLAGS: Final = (
    Flag("list", "List the topics."),
    Flag("describe", "Describe topics: partitions, leaders, replicas, configurations."),
    Flag("alter", "Change how many partitions a topic has; needs --topic and --partitions."),
    Flag(
        "bootstrap-server",
        "Brokers to connect to first. REQUIRED unless --backend is given.",
        "HOST:PORT[,...]",
    ),
    *BACKEND_FLAGS,
    Flag("zookeeper", "DEPRECATED, and not supported; use --bootstrap-server.", "HOST:PORT[,...]"),
    COMMAND_CONFIG,
    Flag(
        "topic",
        "The topic. For --list and --describe a regular expression, as in Kafka's tool; for "
        "--alter the exact name.",
        "TOPIC",
    ),
    Flag("partitions", "How many partitions the topic should have.", "N", _ALTER),
    Flag(
        "replica-assignment",
        "Brokers of all its partitions, including the existing ones, to add partitions: 1:2,2:3 "
        "is partition 0 on brokers 1 and 2, partition 1 on brokers 2 and 3.",
        "B1:B2,B3:B4,...",
        _ALTER,
    ),
    Flag(
        "delete-partitions-delay",
        "How long the partitions to delete can still be read (default: "
        "immediately, and those that are leaving already keep their delay).",
        "MS",
        _ALTER,
    ),
    Flag(
        "partitioner",
        "For fewer partitions by a copy: how producers choose the partition of a key, if kshunt "
        "cannot tell: murmur2 (Java), crc32 (librdkafka's default), fnv1a (Sarama).",
        "murmur2|crc32|fnv1a",
        _ALTER,
    ),
    Flag(
        "validate-only", "Show what would happen to each partition, and change nothing.", "", _ALTER
    ),
    Flag(
        "if-exists",
        "Do nothing, instead of failing, if there is no such topic.",
        "",
        _with(TopicsAction.ALTER, TopicsAction.DESCRIBE),
    ),
    Flag(
        "exclude-internal",
        "Leave out Kafka's own topics.",
        "",
        _with(TopicsAction.LIST, TopicsAction.DESCRIBE),
    ),
    Flag("under-replicated-partitions", "Only partitions that lack a replica.", "", _DESCRIBE),
    Flag("unavailable-partitions", "Only partitions without a leader.", "", _DESCRIBE),
    Flag(
        "under-min-isr-partitions",
        "Only partitions with fewer replicas in sync than min.insync.replicas.",
        "",
        _DESCRIBE,
    ),
    Flag(
        "at-min-isr-partitions",
        "Only partitions with exactly min.insync.replicas in sync.",
        "",
        _DESCRIBE,
    ),
    Flag(
        "topics-with-overrides",
        "Only topics that differ from Kafka's default configuration, without partitions.",
        "",
        _DESCRIBE,
    ),
    Flag(
        "timeout",
        f"How long to wait for the change to begin (default {DEFAULT_TIMEOUT_MS}).",
        "MS",
        _ALTER,
    ),
    Flag("reason", REASON_HELP, "TEXT", _ALTER),
    JSON,
    not_supported("create", "Use Kafka's own kafka-topics.sh --create."),
    not_supported("delete", "Use Kafka's own kafka-topics.sh --delete."),
    not_supported(
        "replication-factor",
        "Use `kshunt plan replication-factor` for a topic that exists, and Kafka's own "
        "kafka-topics.sh for a new one.",
        "N",
    ),
    not_supported("config", "Use Kafka's own kafka-configs.sh --alter --add-config.", "NAME=VALUE"),
    not_supported(
        "delete-config", "Use Kafka's own kafka-configs.sh --alter --delete-config.", "NAME"
    ),
    not_supported("if-not-exists", "It belongs to --create of Kafka's own kafka-topics.sh."),
    not_supported("topic-id", "Name the topic with --topic.", "ID"),
    not_supported(
        "partition-size-limit-per-response",
        "Leave it out: it changes nothing of what --describe prints.",
        "N",
    ),
)
"""Those that are not supported are last: the first one of them that is given is named."""


COMMAND: Final = Command(
    ("kafka-topics",),
    DESCRIPTION,
    FLAGS,
    epilog=EPILOG,
    codes={
        KafkaExitCode.DONE: "done, or started in the cluster",
        KafkaExitCode.FAILED: "an error or wrong usage; the message names what was changed",
    },
    kafka=True,
)


def parse_options(given: Mapping[str, str]) -> TopicOptions:
    """Check what was given, as Kafka's tool checks it.

    Raises:
        UsageError: flags are missing, do not go together, or have a value that cannot be meant.
    """
    from kshunt.backend.operator_identity import who_am_i

    action = _action(given)
    _check_source(given)
    _check_flags(given, action)
    return TopicOptions(
        action=action,
        bootstrap_servers=given.get("bootstrap-server", ""),
        backend=backend_address(given),
        zookeeper=given.get("zookeeper", ""),
        command_config=path_of(given, "command-config"),
        topic=_topic(given, action),
        partitions=_partitions(given),
        assignment=_assignment(given),
        delay_ms=_delay_ms(given),
        partitioner=_partitioner(given),
        if_exists="if-exists" in given,
        exclude_internal="exclude-internal" in given,
        under_replicated="under-replicated-partitions" in given,
        unavailable="unavailable-partitions" in given,
        under_min_isr="under-min-isr-partitions" in given,
        at_min_isr="at-min-isr-partitions" in given,
        with_overrides="topics-with-overrides" in given,
        validate_only="validate-only" in given,
        timeout_ms=whole(given, "timeout", 1, TIMEOUT_MS_MAX) or DEFAULT_TIMEOUT_MS,
        who=who_am_i(),
        reason=reason(given),
        json="json" in given,
    )


def _action(given: Mapping[str, str]) -> TopicsAction:
    asked = [action for action in TopicsAction if action in given]
    if len(asked) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or "
            "--delete"
        )
    return asked[0]


def _check_source(given: Mapping[str, str]) -> None:
    """Exactly one of the three ways to name a cluster."""
    ways = [way for way in ("bootstrap-server", "backend", "zookeeper") if way in given]
    if not ways:
        raise UsageError('Missing required argument "[bootstrap-server]", or "[backend]"')
    if len(ways) > 1:
        raise UsageError(f"Please don't specify both --{ways[0]} and --{ways[1]}")
    if not given[ways[0]].strip():
        raise UsageError(f"Option {ways[0]} requires an argument")
    check_command_config(given)


def _check_flags(given: Mapping[str, str], action: TopicsAction) -> None:
    needed = ("topic", "partitions") if action is TopicsAction.ALTER else ()
    for name in needed:
        if name not in given:
            raise UsageError(f'Missing required argument "[{name}]"')
    if action is TopicsAction.DESCRIBE and "if-exists" in given and "topic" not in given:
        raise UsageError("--topic is required to describe a topic with --if-exists")
    flags = {flag.name: flag for flag in FLAGS}
    for name in given:
        if not flags[name].goes_with(action):
            raise UsageError(f'Option "[{name}]" can\'t be used with option "[{action}]"')
    if "topics-with-overrides" in given:
        for name in given:
            if name.endswith("-partitions"):
                raise UsageError(
                    f'Option "[{name}]" can\'t be used with option "[topics-with-overrides]"'
                )


def _topic(given: Mapping[str, str], action: TopicsAction) -> str:
    """The topic's name, or Kafka's regular expression for several.

    Raises:
        UsageError: it is empty, or no regular expression.
    """
    if "topic" not in given:
        return ""
    text = given["topic"].strip()
    if action is not TopicsAction.ALTER:
        # As in Kafka's IncludeList.
        text = text.replace(",", "|").replace(" ", "").strip("\"'")
        try:
            re.compile(text)
        except (re.error, RecursionError, OverflowError):
            raise UsageError(f"{text} is an invalid regex.") from None
    if not text:
        raise UsageError("Option topic requires an argument")
    return text


def _partitions(given: Mapping[str, str]) -> int:
    text = given.get("partitions", "")
    if re.fullmatch(r"0+|-[0-9]{1,10}", text):
        raise UsageError("The partitions must be greater than 0")
    return whole(given, "partitions", 1, PARTITIONS_MAX) or 0


def _delay_ms(given: Mapping[str, str]) -> int | None:
    if "delete-partitions-delay" not in given:
        return None
    from kshunt.backend.domain.shrink.delete_partitions import DELAY_MS_MAX

    return whole(given, "delete-partitions-delay", 0, DELAY_MS_MAX)


def _partitioner(given: Mapping[str, str]) -> Partitioner | None:
    if "partitioner" not in given:
        return None
    from kshunt.backend.domain.topics.partitioners import Partitioner

    text = given["partitioner"]
    if text not in tuple(Partitioner):
        raise UsageError(f"Option partitioner must be one of {', '.join(Partitioner)}")
    return Partitioner(text)


def _assignment(given: Mapping[str, str]) -> tuple[tuple[int, ...], ...] | None:
    text = given.get("replica-assignment")
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}([:,][0-9]{1,9})*", re.sub(r"\s", "", text), re.ASCII):
        raise UsageError(f"Cannot parse argument '{text}' of option replica-assignment")
    lists = tuple(
        tuple(int(broker) for broker in one.split(":"))
        for one in re.sub(r"\s", "", text).split(",")
    )
    for number, brokers in enumerate(lists):
        if twice := sorted({broker for broker in brokers if brokers.count(broker) > 1}):
            names = ",".join(map(str, twice))
            raise UsageError(f"Partition replica lists may not contain duplicate entries: {names}")
        if len(brokers) != len(lists[0]):
            raise UsageError(f"Partition {number} has different replication factor: {brokers}")
    return lists
