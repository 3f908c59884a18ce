"""The command line of `kafka-reassign-partitions`: Kafka 4's flags, KIP-179's, and kshunt's own.

The table `FLAGS` says which flag belongs to which action. The checks run in the order of Kafka's
tool and speak its words. So a script that reads Kafka's messages reads ours.

What reads the value of a flag is imported where that flag is given.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    JSON,
    ZK_CONFIG,
    ZOOKEEPER_HELP,
    backend_address,
    check_command_config,
    check_zk_config,
    cluster_address,
)
from kshunt.backend.commandline.exit_codes import KafkaExitCode
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.commandline.values import (
    DEFAULT_TIMEOUT_MS,
    REASON_HELP,
    path_of,
    reason,
)
from kshunt.backend.domain.reassignment.move_caps import CAPS_HINT, MoveCaps, parse_caps
from kshunt.backend.errors import BadInput


class ReassignAction(enum.StrEnum):
    """What the tool is asked to do; the order is that of Kafka's own message, then KIP-179's."""

    GENERATE = "generate"
    EXECUTE = "execute"
    VERIFY = "verify"
    CANCEL = "cancel"
    LIST = "list"
    PROGRESS = "progress"


class ReassignCommandLine(NamedTuple):
    """A command line that has passed every check which needs no file and no cluster."""

    action: ReassignAction
    bootstrap_servers: str = ""
    """Or what `Settings.bootstrap_servers` has for ZooKeeper."""
    backend: str = ""
    """Address of a shared backend: unix:/path or http://host:port."""
    zookeeper: str = ""
    command_config: Path | None = None
    """Absolute."""
    plan_file: str = ""
    topics_file: str = ""
    brokers: tuple[int, ...] = ()
    rack_aware: bool = True
    throttle_bytes_per_s: int | None = None
    log_dirs_throttle_bytes_per_s: int | None = None
    caps: MoveCaps | None = None
    """None: all moves at the same time."""
    deadline_ms: int | None = None
    """Milliseconds since the epoch."""
    additional: bool = False
    preserve_throttles: bool = False
    allow_replication_factor_change: bool = True
    partial: bool = False
    """Move what can be moved although parts of the plan are refused."""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    who: str = ""
    """Who asks, for the audit."""
    reason: str = ""
    """Why, for the audit."""
    json: bool = False


def _with(*actions: ReassignAction) -> frozenset[ReassignAction]:
    return frozenset(actions)


_ACTION_HELP: Final[Mapping[ReassignAction, str]] = {
    ReassignAction.GENERATE: "Propose a plan that spreads the topics of "
    "--topics-to-move-json-file over the brokers of --broker-list. "
    "Changes nothing.",
    ReassignAction.EXECUTE: "Start the plan in --reassignment-json-file.",
    ReassignAction.VERIFY: "Report whether the plan is done; if it is, remove throttles that "
    "have no owner.",
    ReassignAction.CANCEL: "Stop the plan's moves and return its partitions to their former "
    "brokers.",
    ReassignAction.LIST: "List the moving partitions.",
    ReassignAction.PROGRESS: "Print how far each replica of the plan is behind its leader, and "
    "exit.",
}

FLAGS: Final = (
    *(Flag(action.value, _ACTION_HELP[action]) for action in ReassignAction),
    BOOTSTRAP_SERVER,
    Flag(
        "bootstrap-controller",
        "Kafka's flag for direct contact with a controller; not supported by this version.",
        "HOST:PORT[,...]",
        _with(ReassignAction.CANCEL, ReassignAction.LIST),
    ),
    *BACKEND_FLAGS,
    Flag(
        "zookeeper",
        ZOOKEEPER_HELP,
        "HOST:PORT[,...]",
        frozenset(ReassignAction) - {ReassignAction.PROGRESS, ReassignAction.CANCEL},
    ),
    ZK_CONFIG,
    COMMAND_CONFIG,
    Flag(
        "reassignment-json-file",
        'The plan: {"version": 1, "partitions": [{"topic": "foo", "partition": 1, '
        '"replicas": [1,2,3], "log_dirs": ["any", "/data/a", "any"]}]}. "log_dirs" may be left '
        "out; it has one entry a replica, an absolute path on that broker or any.",
        "FILE",
        _with(
            ReassignAction.VERIFY,
            ReassignAction.PROGRESS,
            ReassignAction.EXECUTE,
            ReassignAction.CANCEL,
        ),
        required=True,
    ),
    Flag(
        "topics-to-move-json-file",
        'Topics to spread: {"version": 1, "topics": [{"topic": "foo"}]}.',
        "FILE",
        _with(ReassignAction.GENERATE),
        required=True,
    ),
    Flag(
        "broker-list",
        "Brokers to spread them over, as in 0,1,2.",
        "IDS",
        _with(ReassignAction.GENERATE),
        required=True,
    ),
    Flag("disable-rack-aware", "Ignore the brokers' racks.", "", _with(ReassignAction.GENERATE)),
    Flag(
        "throttle",
        "Maximum rate of the move between brokers, in bytes a second: 10485760, 50MB/s, 4MiB/s; "
        "at least 1 KB/s, -1 for no throttle (default). kshunt removes it when the move ends. To "
        "change it, start the same plan again with another rate.",
        "RATE",
        _with(ReassignAction.EXECUTE),
    ),
    Flag(
        "parallel-moves",
        f"How many moves are in flight: {CAPS_HINT} (default all).",
        "CAPS",
        _with(ReassignAction.EXECUTE),
    ),
    Flag(
        "deadline",
        "The time by which the move is to be done: 06:00, 8h, 2026-11-23T06:00. kshunt reports "
        "when it no longer holds, and the throttle that would do. See `kshunt plan --deadline`.",
        "TIME",
        _with(ReassignAction.EXECUTE),
    ),
    Flag(
        "replica-alter-log-dirs-throttle",
        "The same for moves between the log directories of one broker.",
        "RATE",
        _with(ReassignAction.EXECUTE),
    ),
    Flag(
        "timeout",
        f"How long to wait for the change to begin (default {DEFAULT_TIMEOUT_MS}).",
        "MS",
        _with(ReassignAction.EXECUTE, ReassignAction.CANCEL),
    ),
    Flag(
        "additional",
        "Start the plan although other partitions are moving.",
        "",
        _with(ReassignAction.EXECUTE),
    ),
    Flag(
        "preserve-throttles",
        "Do not change any throttle.",
        "",
        _with(ReassignAction.VERIFY, ReassignAction.CANCEL),
    ),
    Flag(
        "disallow-replication-factor-change",
        "Reject a plan that changes the number of replicas of a partition.",
        "",
        _with(ReassignAction.EXECUTE),
    ),
    Flag(
        "allow-partial",
        "Start the partitions that can move, even if others of the plan are rejected. Without "
        "it, one mistake in the plan stops all of it, as in Kafka's tool.",
        "",
        _with(ReassignAction.EXECUTE),
    ),
    Flag("reason", REASON_HELP, "TEXT", _with(ReassignAction.EXECUTE, ReassignAction.CANCEL)),
    JSON,
)

COMMAND: Final = Command(
    ("kafka-reassign-partitions",),
    "Move partitions between brokers, watch them arrive, and stop them.",
    FLAGS,
    codes={
        KafkaExitCode.DONE: "done: every partition is where the plan wants it, or the change was "
        "made",
        KafkaExitCode.FAILED: "an error or wrong usage, or some partition failed, is missing, or "
        "is not where the plan wants it and nothing moves it there",
        KafkaExitCode.IN_PROGRESS: "still in progress (--verify, --progress)",
    },
    kafka=True,
)


def parse_options(given: Mapping[str, str]) -> ReassignCommandLine:
    """Check what was given, as Kafka's tool checks it.

    Raises:
        UsageError: flags are missing, do not go together, or have a value that cannot be meant.
    """
    from kshunt.backend.operator_identity import who_am_i

    action = _action(given)
    _check_source(given)
    _check_flags(given, action)
    return ReassignCommandLine(
        action=action,
        bootstrap_servers=cluster_address(given),
        backend=backend_address(given),
        zookeeper=given.get("zookeeper", ""),
        command_config=path_of(given, "command-config") or path_of(given, ZK_CONFIG.name),
        plan_file=given.get("reassignment-json-file", ""),
        topics_file=given.get("topics-to-move-json-file", ""),
        brokers=_broker_ids(given.get("broker-list")),
        rack_aware="disable-rack-aware" not in given,
        throttle_bytes_per_s=_rate(given, "throttle"),
        log_dirs_throttle_bytes_per_s=_rate(given, "replica-alter-log-dirs-throttle"),
        caps=_caps(given),
        deadline_ms=_deadline_ms(given),
        additional="additional" in given,
        preserve_throttles="preserve-throttles" in given,
        allow_replication_factor_change="disallow-replication-factor-change" not in given,
        partial="allow-partial" in given,
        timeout_ms=_timeout_ms(given),
        who=who_am_i(),
        reason=reason(given),
        json="json" in given,
    )


def _action(given: Mapping[str, str]) -> ReassignAction:
    asked = [action for action in ReassignAction if action in given]
    if len(asked) != 1:
        names = ", ".join(f"--{action}" for action in ReassignAction)
        raise UsageError(f"Command must include exactly one action: {names}")
    return asked[0]


def _caps(given: Mapping[str, str]) -> MoveCaps | None:
    try:
        return parse_caps(given.get("parallel-moves", "all"))
    except BadInput as error:
        raise UsageError(f"Option parallel-moves: {error}") from None


def _deadline_ms(given: Mapping[str, str]) -> int | None:
    if "deadline" not in given:
        return None
    from kshunt.backend.clock import SystemClock
    from kshunt.backend.domain.text.deadlines import deadline_ms

    try:
        return deadline_ms(given["deadline"], SystemClock().now_ms(), None)
    except BadInput as error:
        raise UsageError(f"Option deadline: {error}") from None


def _check_source(given: Mapping[str, str]) -> None:
    """Exactly one of the four ways to name a cluster."""
    ways = ("zookeeper", "bootstrap-server", "bootstrap-controller", "backend")
    named = [f"--{way}" for way in ways if way in given]
    if len(named) > 1:
        raise UsageError(f"Please don't specify both {named[0]} and {named[1]}")
    if not named:
        raise UsageError(
            "Please specify either --bootstrap-server or --bootstrap-controller, or --backend"
        )
    way = named[0].removeprefix("--")
    if not given[way].strip():
        raise UsageError(f"Option {way} requires an argument")
    check_command_config(given)
    check_zk_config(given, "command-config")


def _check_flags(given: Mapping[str, str], action: ReassignAction) -> None:
    flags = {flag.name: flag for flag in FLAGS}
    for flag in FLAGS:
        if flag.required and flag.goes_with(action) and flag.name not in given:
            raise UsageError(f'Missing required argument "[{flag.name}]"')
    for name in given:
        if not flags[name].goes_with(action):
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def _broker_ids(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    ids = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in ids):
        raise UsageError(f"Broker list '{text}' is not a list of broker ids such as 0,1,2")
    duplicates = sorted({int(word) for word in ids if ids.count(word) > 1})
    if duplicates:
        raise UsageError(f"Broker list contains duplicate entries: {duplicates}")
    return tuple(map(int, ids))


def _rate(given: Mapping[str, str], name: str) -> int | None:
    """Bytes a second; None where the operator wants no throttle, which Kafka writes as -1."""
    text = given.get(name, "-1")
    if text == "-1":
        return None
    from kshunt.backend.domain.throttles.configs import parse_rate

    try:
        return parse_rate(text)
    except BadInput as error:
        raise UsageError(
            f"Cannot parse argument '{text}' of option {name}: {error.message}",
            advice=error.advice,
        ) from None


def _timeout_ms(given: Mapping[str, str]) -> int:
    text = given.get("timeout")
    if text is None:
        return DEFAULT_TIMEOUT_MS
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise UsageError(f"Cannot parse argument '{text}' of option timeout")
    return int(text)
