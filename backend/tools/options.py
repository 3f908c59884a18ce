"""The command line of `kafka-reassign-partitions`: Kafka 4's flags, KIP-179's, and kshunt's own.

The table `FLAGS` says which flag goes with which action; the checks run in the order of Kafka's
tool and speak its words, so that a script which reads them reads ours.
"""

from __future__ import annotations

import argparse
import enum
import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backend.domain.throttle import parse_rate
from backend.errors import BadInput

PROG: Final = "kshunt kafka-reassign-partitions"
DEFAULT_TIMEOUT_MS: Final = 10_000
REASON_HELP: Final = "Why, for the audit (kshunt audit shows it); at most 2000 characters."
REASON_MAX: Final = 2_000
WHO_MAX: Final = 200
WHO_VARIABLE: Final = "KSHUNT_USER"
"""Names whoever runs the tool, where user and host do not tell: a shared account, a container."""


class UsageError(BadInput):
    """The command line cannot be meant; nothing was done."""

    title = "Wrong usage"


class Action(enum.StrEnum):
    """What the tool is asked to do; the order is that of Kafka's own message, then KIP-179's."""

    GENERATE = "generate"
    EXECUTE = "execute"
    VERIFY = "verify"
    CANCEL = "cancel"
    LIST = "list"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True)
class Options:
    """A command line that has passed every check which needs no file and no cluster."""

    action: Action
    bootstrap_servers: str = ""
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
    additional: bool = False
    preserve_throttles: bool = False
    allow_replication_factor_change: bool = True
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    who: str = ""
    """Who asks, for the audit."""
    reason: str = ""
    """Why, for the audit."""
    json: bool = False


@dataclass(frozen=True, slots=True)
class _Flag:
    name: str
    help: str
    metavar: str = ""
    """Empty for a switch."""
    actions: frozenset[Action] = frozenset(Action)
    """The actions that it may go with."""
    required: bool = False
    """True where those actions cannot do without it."""


def _with(*actions: Action) -> frozenset[Action]:
    return frozenset(actions)


_ACTION_HELP: Final[Mapping[Action, str]] = {
    Action.GENERATE: "Propose a plan that spreads the topics of --topics-to-move-json-file over "
    "the brokers of --broker-list. Changes nothing.",
    Action.EXECUTE: "Start the plan in --reassignment-json-file.",
    Action.VERIFY: "Say whether the plan is done; if it is, remove throttles that nobody owns.",
    Action.CANCEL: "Stop the plan's moves and return its partitions to where they were.",
    Action.LIST: "List the partitions that move.",
    Action.PROGRESS: "Print how far each replica of the plan is behind its leader, and exit.",
}

FLAGS: Final = (
    *(_Flag(action.value, _ACTION_HELP[action]) for action in Action),
    _Flag("bootstrap-server", "Brokers to connect to first.", "HOST:PORT[,...]"),
    _Flag(
        "bootstrap-controller",
        "Kafka's flag for asking a controller directly; not served by this version.",
        "HOST:PORT[,...]",
        _with(Action.CANCEL, Action.LIST),
    ),
    _Flag("backend", "Use this shared kshunt backend instead.", "unix:PATH|http://HOST:PORT"),
    _Flag(
        "zookeeper",
        "Deprecated; use --bootstrap-server.",
        "HOST:PORT[,...]",
        frozenset(Action) - {Action.PROGRESS},
    ),
    _Flag("command-config", "Java properties file of an admin client.", "FILE"),
    _Flag(
        "reassignment-json-file",
        'The plan: {"version": 1, "partitions": [{"topic": "foo", "partition": 1, '
        '"replicas": [1,2,3], "log_dirs": ["any", "/data/a", "any"]}]}. "log_dirs" may be left '
        "out; it has one entry a replica, an absolute path on that broker or any.",
        "FILE",
        _with(Action.VERIFY, Action.PROGRESS, Action.EXECUTE, Action.CANCEL),
        required=True,
    ),
    _Flag(
        "topics-to-move-json-file",
        'Topics to spread: {"version": 1, "topics": [{"topic": "foo"}]}.',
        "FILE",
        _with(Action.GENERATE),
        required=True,
    ),
    _Flag(
        "broker-list",
        "Brokers to spread them over, as in 0,1,2.",
        "IDS",
        _with(Action.GENERATE),
        required=True,
    ),
    _Flag("disable-rack-aware", "Ignore the brokers' racks.", "", _with(Action.GENERATE)),
    _Flag(
        "throttle",
        "Most bytes a second that the move may take between brokers: 10485760, 50MB/s, 4MiB/s; "
        "at least 1 KB/s, -1 for no throttle (default). It is removed when the move ends. To "
        "change it, start the same plan again with --additional.",
        "RATE",
        _with(Action.EXECUTE),
    ),
    _Flag(
        "replica-alter-log-dirs-throttle",
        "The same for moves between the log directories of one broker.",
        "RATE",
        _with(Action.EXECUTE),
    ),
    _Flag(
        "timeout",
        f"How long to wait for the change to begin (default {DEFAULT_TIMEOUT_MS}).",
        "MS",
        _with(Action.EXECUTE, Action.CANCEL),
    ),
    _Flag("additional", "Start the plan although others are moving.", "", _with(Action.EXECUTE)),
    _Flag(
        "preserve-throttles",
        "Leave every throttle as it is.",
        "",
        _with(Action.VERIFY, Action.CANCEL),
    ),
    _Flag(
        "disallow-replication-factor-change",
        "Refuse a plan that changes the number of a partition's replicas.",
        "",
        _with(Action.EXECUTE),
    ),
    _Flag("reason", REASON_HELP, "TEXT", _with(Action.EXECUTE, Action.CANCEL)),
    _Flag("json", "Print JSON, errors too."),
    _Flag("help", "Print this and exit."),
    _Flag("version", "Print the version and exit."),
)

EPILOG: Final = """\
exit codes:
  0   done: every partition is where the plan wants it, or the change was made
  1   an error, or some partition failed, is missing, or is not where the plan wants it and
      nothing moves it there
  2   still in progress (--verify, --progress)
  64  wrong usage; nothing was done
"""


class Given(argparse.Action):
    """Keeps what was given, in the order of the command line, and takes nothing twice."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        name = self.option_strings[0].removeprefix("--")
        given: dict[str, str] = namespace.given
        if name in given and self.nargs != 0:
            raise UsageError(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        given[name] = values if isinstance(values, str) else ""


def build_parser() -> argparse.ArgumentParser:
    """The parser, for its help; `read_arguments` is the way to use it."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        usage=f"{PROG} ACTION [OPTION ...]",
        description="Move partitions between brokers, watch them arrive, and stop them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
        exit_on_error=False,
    )
    for flag in FLAGS:
        parser.add_argument(
            f"--{flag.name}",
            action=Given,
            nargs=None if flag.metavar else 0,
            metavar=flag.metavar or None,
            help=flag.help,
            dest="given",
            default=argparse.SUPPRESS,
        )
    return parser


def read_arguments(
    argv: Sequence[str], parser: argparse.ArgumentParser | None = None
) -> dict[str, str]:
    """What was given by flag, in the order of the command line; a switch has an empty value.

    `parser` is that of another tool, whose flags have `Given` as their action.

    Raises:
        UsageError: a flag is unknown, lacks its argument, or comes twice.
    """
    namespace = argparse.Namespace(given={})
    try:
        _, unknown = (parser or build_parser()).parse_known_args(list(argv), namespace)
    except argparse.ArgumentError as error:
        name = (error.argument_name or "").removeprefix("--")
        if "expected one argument" in error.message:
            raise UsageError(f"Option {name} requires an argument") from None
        raise UsageError(f"Option {name}: {error.message}") from None
    for word in unknown:
        if word.startswith("-"):
            raise UsageError(f"{word.lstrip('-')} is not a recognized option")
        raise UsageError(f"Unexpected argument '{word}'")
    given: dict[str, str] = namespace.given
    return given


def parse_options(given: Mapping[str, str]) -> Options:
    """Check what was given, as Kafka's tool checks it.

    Raises:
        UsageError: flags are missing, do not go together, or have a value that cannot be meant.
    """
    action = _action(given)
    _check_source(given)
    _check_flags(given, action)
    return Options(
        action=action,
        bootstrap_servers=given.get("bootstrap-server", ""),
        backend=backend_address(given),
        zookeeper=given.get("zookeeper", ""),
        command_config=_command_config(given),
        plan_file=given.get("reassignment-json-file", ""),
        topics_file=given.get("topics-to-move-json-file", ""),
        brokers=_broker_ids(given.get("broker-list")),
        rack_aware="disable-rack-aware" not in given,
        throttle_bytes_per_s=_rate(given, "throttle"),
        log_dirs_throttle_bytes_per_s=_rate(given, "replica-alter-log-dirs-throttle"),
        additional="additional" in given,
        preserve_throttles="preserve-throttles" in given,
        allow_replication_factor_change="disallow-replication-factor-change" not in given,
        timeout_ms=_timeout_ms(given),
        who=who(),
        reason=reason(given),
        json="json" in given,
    )


def _action(given: Mapping[str, str]) -> Action:
    asked = [action for action in Action if action in given]
    if len(asked) != 1:
        names = ", ".join(f"--{action}" for action in Action)
        raise UsageError(f"Command must include exactly one action: {names}")
    return asked[0]


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
    if way == "backend" and "command-config" in given:
        raise UsageError(
            "--command-config goes with --bootstrap-server; a backend has its own configuration"
        )


def _check_flags(given: Mapping[str, str], action: Action) -> None:
    flags = {flag.name: flag for flag in FLAGS}
    for flag in FLAGS:
        if flag.required and action in flag.actions and flag.name not in given:
            raise UsageError(f'Missing required argument "[{flag.name}]"')
    for name in given:
        if action not in flags[name].actions:
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def backend_address(given: Mapping[str, str]) -> str:
    """The address of a shared backend, or empty.

    Raises:
        UsageError: it is no such address.
    """
    address = given.get("backend", "")
    if address and not address.startswith(("unix:/", "http://", "https://")):
        raise UsageError(
            f"'{address}' is no address of a backend; write unix:/path/to.sock or http://host:port"
        )
    return address


def reason(given: Mapping[str, str]) -> str:
    """Why a change is made, or empty where nothing was given.

    Raises:
        UsageError: it is empty or too long.
    """
    if "reason" not in given:
        return ""
    text = _sound(given["reason"]).strip()
    if not text:
        raise UsageError("Option reason requires an argument")
    if len(text) > REASON_MAX:
        raise UsageError(
            f"The argument of option reason has {len(text)} characters; {REASON_MAX} are the most"
        )
    return text


def who() -> str:
    """Who runs this, as the audit will name them: `ada@bastion`, or what `KSHUNT_USER` says."""
    named = os.environ.get(WHO_VARIABLE, "").strip()
    return _sound(named or f"{_user()}@{socket.gethostname()}")[:WHO_MAX]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return f"uid-{os.getuid()}"


def _sound(text: str) -> str:
    """The text without what UTF-8 cannot write: bytes of the command line that were no text."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _command_config(given: Mapping[str, str]) -> Path | None:
    name = given.get("command-config")
    return None if name is None else Path(name).absolute()


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
    """Bytes a second; None where there shall be no throttle, which Kafka writes as -1."""
    text = given.get(name, "-1")
    if text == "-1":
        return None
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
