"""All commands of kshunt: their names, what they are for, and the modules that know the rest.

A module has `COMMAND`, what can be typed, and `main(argv)`, which runs it. It is loaded for its own
command only, so that each starts quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kshunt.backend.commandline.table import Command


class Listed(NamedTuple):
    """One command."""

    summary: str
    module: str
    """Below `kshunt.backend`."""
    kafka: bool = False
    """True where it replaces a tool of Kafka."""

    def main(self) -> Callable[[Sequence[str]], int]:
        """What runs it."""
        found: Callable[[Sequence[str]], int] = import_module(f"kshunt.backend.{self.module}").main
        return found


DASHBOARD: Final = Listed("the dashboard", "cli.dashboard")
COMMANDS: Final[Mapping[str, Listed]] = {
    "demo": Listed("the dashboard on a cluster in memory; needs nothing else", "cli.demo_command"),
    "cluster": Listed(
        "a Kafka cluster in one process, for rehearsals and tests", "embedded.command"
    ),
    "replay": Listed("a recording of the dashboard, or a note of it", "cli.replay"),
    "serve": Listed("a backend that several dashboards and tools share", "serve.command"),
    "kafka-reassign-partitions": Listed(
        "Kafka's tool, with --progress", "tools.reassign.command", kafka=True
    ),
    "kafka-preferred-replica-election": Listed(
        "Kafka's tool: preferred replicas lead again", "tools.election", kafka=True
    ),
    "kafka-topics": Listed(
        "Kafka's tool: topics, with more or fewer partitions", "tools.topics.command", kafka=True
    ),
    "plan": Listed("plan and rehearse a reassignment", "tools.plan.command"),
    "throttles": Listed("rates of brokers, throttled replicas of topics", "tools.throttles"),
    "config": Listed("the settings in force, and where each comes from", "cli.config"),
    "tokens": Listed("the tokens of a backend on a TCP port", "tools.tokens"),
    "keys": Listed("keys that the backends of a cluster share", "tools.keys"),
    "proposals": Listed("changes that need a second person: approve or reject", "tools.proposals"),
    "webhooks": Listed("messages that no webhook accepted; sends them again", "tools.webhooks"),
    "web": Listed("the dashboard in a browser, read-only by default", "cli.web"),
    "audit": Listed("who changed what and why, from the journal", "tools.audit"),
    "report": Listed("a page of an operation or a week, from recorded samples", "cli.report"),
    "pipeline": Listed("results over days by Spark: rates, stalls", "pipeline.command"),
    "doctor": Listed("whether this machine and a cluster have what kshunt needs", "cli.doctor"),
    "completion": Listed("completion of commands and flags by your shell", "cli.completion"),
    "help": Listed("the help of a command, or of another topic", "cli.help"),
}


SESSIONS: Final = ("", "demo")
"""Commands that show the dashboard of a cluster, from which another one can be opened."""


def summaries() -> dict[str, str]:
    """What each command is for, by its name."""
    return {name: listed.summary for name, listed in COMMANDS.items()}


def table_of(name: str) -> Command:
    """What a command takes; the empty name is that of the dashboard."""
    listed = COMMANDS[name] if name else DASHBOARD
    found: Command = import_module(f"kshunt.backend.{listed.module}").COMMAND
    return found._replace(summary=listed.summary)


def whole_table() -> Command:
    """The dashboard, with all commands as its actions."""
    return table_of("")._replace(actions=tuple(map(table_of, COMMANDS)))
