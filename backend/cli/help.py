"""`kshunt help`: the help of a command, and of topics that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kshunt.backend.cli.commands import COMMANDS, table_of, whole_table
from kshunt.backend.cli.man_page import man_page
from kshunt.backend.commandline.exit_codes import KAFKA_MEANINGS, MEANINGS, ExitCode
from kshunt.backend.commandline.help_text import help_of, listing
from kshunt.backend.commandline.nearest import nearest
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Argument, Command, Flag

VARIABLES: Final[Mapping[str, str]] = {
    "KSHUNT_CONFIG": "the configuration file",
    "KSHUNT_SETTINGS": "the dashboard's settings file",
    "KSHUNT_SERVE_...": "a flag of kshunt serve, such as KSHUNT_SERVE_LISTEN",
    "KSHUNT_TOKEN": "the token of a client",
    "KSHUNT_USER": "your name in the audit, if you have no credential",
    "KSHUNT_WEBHOOK_SECRET": "the key that signs webhook messages",
    "KSHUNT_REPLICA_PLACER": "the placer of private backends",
    "KSHUNT_REPLICA_PLACER_CONFIG": "the properties file of that placer",
    "KSHUNT_JAVA_HOME": "the Java that Spark runs on",
    "XDG_CONFIG_HOME": "the folder for configuration",
    "XDG_STATE_HOME": "the folder for state",
    "XDG_CACHE_HOME": "the folder for caches",
    "XDG_RUNTIME_DIR": "the folder for sockets of private backends",
    "NO_COLOR": "set: the dashboard uses no colours",
}
"""Variables of the environment that are not those of a flag."""

_CONFIGURATION: Final = """\
kshunt reads ~/.config/kshunt/config.toml, or the file that KSHUNT_CONFIG names. It is TOML:

  context = "prod"

  [contexts.prod]
  bootstrap-server = "broker1:9092,broker2:9092"
  command-config = "/etc/kshunt/prod.properties"

  [contexts.shared]
  backend = "https://kshunt.example.org:8095"
  token-file = "/run/secrets/kshunt"

  [serve]
  listen = "0.0.0.0:8095"
  tokens = "/etc/kshunt/tokens.json"

A context names a cluster or a backend. Keys of [serve] are flags of kshunt serve, without dashes.
A flag overrides a variable of the environment, and a variable overrides the file.
`kshunt config` shows each value with its source.
"""


def exit_codes_topic() -> str:
    """The exit codes of all commands."""
    kafkas = [name for name, listed in COMMANDS.items() if listed.kafka]
    ours = listing("commands of kshunt", {str(int(c)): text for c, text in MEANINGS.items()})
    theirs = listing("tools of Kafka", {str(int(c)): text for c, text in KAFKA_MEANINGS.items()})
    return f"{ours}\n\n{theirs}\n\nTools of Kafka are {', '.join(kafkas)}."


def environment_topic() -> str:
    """The variables of the environment."""
    return listing("variables", variables())


def variables() -> dict[str, str]:
    """What each variable of the environment is for."""
    found = dict(VARIABLES)
    for command in whole_table().every():
        for flag in command.flags:
            if flag.variable:
                found.setdefault(flag.variable, f"--{flag.name}: {flag.help}")
    return dict(sorted(found.items()))


TOPICS: Final[Mapping[str, Callable[[], str]]] = {
    "exit-codes": exit_codes_topic,
    "configuration": _CONFIGURATION.strip,
    "environment": environment_topic,
}
COMMAND: Final = Command(
    ("help",),
    "Print the help of a command or of one of its actions, or of a topic.\n\n"
    f"topics: {', '.join(TOPICS)}",
    (Flag("man", "Print a manual page instead, for `man -l -`."),),
    (
        Argument(
            "topic", "TOPIC", "A command and its action, or a topic.", many=True, optional=True
        ),
    ),
)


def main(argv: Sequence[str]) -> int:
    """Print it; the exit code.

    Raises:
        UsageError: there is no such command and no such topic.
    """
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    words: list[str] = options.topic
    if len(words) == 1 and words[0] in TOPICS and not options.man:
        sys.stdout.write(f"{TOPICS[words[0]]()}\n")
        return ExitCode.DONE
    command = named(words)
    sys.stdout.write(f"{man_page(command)}\n" if options.man else help_of(command))
    return ExitCode.DONE


def named(words: Sequence[str]) -> Command:
    """The command, or the action of one, of these words; of none the dashboard.

    Raises:
        UsageError: kshunt has no such command or action.
    """
    if not words:
        return table_of("")
    if words[0] not in COMMANDS:
        raise _unknown(words[0], (*COMMANDS, *TOPICS))
    found = table_of(words[0])
    for word in words[1:]:
        actions = {one.words[-1]: one for one in found.actions}
        if word not in actions:
            raise _unknown(" ".join((*found.words, word)), actions)
        found = actions[word]
    return found


def _unknown(word: str, known: Sequence[str] | Mapping[str, Command]) -> UsageError:
    hint = nearest(word.rpartition(" ")[2], list(known))
    said = f" Did you mean '{hint}'?" if hint else ""
    error = UsageError(
        f"There is no command and no topic '{word}'.{said}",
        advice=f"There are: {', '.join(known)}." if known else "",
    )
    error.prog = "kshunt"  # its help lists the commands; that of `kshunt help` does not
    return error
