"""What the command lines of the tools share: how flags are read, and those that several have.

A tool's own module has the table of its flags, and checks what goes with what, in the words of
Kafka's tool.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kshunt.backend.addresses import ZK_CONFIG_HELP, without_secrets, zookeeper_address
from kshunt.backend.config_file import CLIENT_HELP
from kshunt.backend.domain.audit.requester_limits import REASON_MAX
from kshunt.backend.errors import BadInput

REASON_HELP: Final = (
    f"The reason, for the audit (kshunt audit shows it); at most {REASON_MAX} characters."
)
DEFAULT_TIMEOUT_MS: Final = 10_000
TIMEOUT_MS_MAX: Final = 600_000
"""How long a change may take to begin."""
ANSWER_MARGIN_S: Final = 20.0
"""A backend may take this much longer than the --timeout that it hands to the cluster."""


class UsageError(BadInput):
    """The command line cannot be meant; nothing was done."""

    title = "Wrong usage"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of a tool."""

    name: str
    help: str
    metavar: str = ""
    """Empty for a switch."""
    actions: frozenset[str] | None = None
    """The actions that it may go with; None: with every one."""
    required: bool = False
    """True where those actions cannot do without it."""

    def goes_with(self, action: str) -> bool:
        """Whether it may be given with an action."""
        return self.actions is None or action in self.actions


JSON: Final = Flag("json", "Print JSON, errors too.")
ZK_CONFIG: Final = Flag("zk-tls-config-file", f"For --zookeeper: {ZK_CONFIG_HELP}.", "FILE")
ABOUT: Final = (
    Flag("help", "Print this and exit."),
    Flag("version", "Print the version and exit."),
)
"""What every tool tells of itself."""


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


def parser_of(
    prog: str, usage: str, description: str, epilog: str, flags: Collection[Flag]
) -> argparse.ArgumentParser:
    """A tool's parser; `read_arguments` is the way to use it.

    `usage` is what comes after the program's name.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} {usage}",
        description=description,
        epilog=f"{epilog}\n{CLIENT_HELP}" if any(f.name == "backend" for f in flags) else epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
        exit_on_error=False,
    )
    for flag in flags:
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


def read_arguments(argv: Sequence[str], parser: argparse.ArgumentParser) -> dict[str, str]:
    """What was given by flag, in the order of the command line; a switch has an empty value.

    Raises:
        UsageError: a flag is unknown, lacks its argument, or comes twice.
    """
    namespace = argparse.Namespace(given={})
    try:
        _, unknown = parser.parse_known_args(list(argv), namespace)
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


def cluster_address(given: Mapping[str, str]) -> str:
    """The brokers that are named, or what takes their place where ZooKeeper is; or empty."""
    if "zookeeper" in given:
        return zookeeper_address(given["zookeeper"])
    return given.get("bootstrap-server", "")


def check_zk_config(given: Mapping[str, str], instead: str = "") -> None:
    """Whether `ZK_CONFIG` goes with the other flags; it takes the place of the flag `instead`.

    Raises:
        UsageError: it does not.
    """
    if ZK_CONFIG.name not in given:
        return
    if "zookeeper" not in given:
        raise UsageError(f"--{ZK_CONFIG.name} needs --zookeeper")
    if instead in given:
        raise UsageError(f"--{ZK_CONFIG.name} replaces --{instead}")


def backend_address(given: Mapping[str, str]) -> str:
    """The address of a shared backend, or empty.

    Raises:
        UsageError: it is no such address.
    """
    address = given.get("backend", "")
    if "@" in address and "://" in address:
        raise UsageError(
            f"--backend {without_secrets(address)} holds a password; give a token by --token-file"
        )
    if address and not address.startswith(("unix:/", "http://", "https://")):
        raise UsageError(
            f"'{address}' is not the address of a backend; write unix:/path/to.sock or "
            "http://host:port"
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
            f"The argument of option reason has {len(text)} characters; the maximum is {REASON_MAX}"
        )
    return text


def _sound(text: str) -> str:
    """The text without what UTF-8 cannot write: bytes of the command line that were no text."""
    return text.encode("utf-8", "replace").decode("utf-8")


def path_of(given: Mapping[str, str], name: str) -> Path | None:
    """The absolute path that a flag names, or None."""
    text = given.get(name)
    return None if text is None else Path(text).absolute()


def whole(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    """A whole number of at most sixteen digits, or None where the flag was not given.

    Raises:
        UsageError: it is no such number, or not within `least` and `most`.
    """
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 17 and least <= int(text) <= most):
        raise UsageError(
            f"Cannot parse argument '{text}' of option {name}: a whole number from {least} to "
            f"{most} is needed"
        )
    return int(text)
