"""The description of what can be typed: commands, their flags and their arguments.

From these values come the reader of the command line, `--help`, the reference, the completion of
shells and the manual pages. Nothing else says what a command takes.

They are named tuples and no dataclasses: every command makes them before it can answer anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kshunt.backend.commandline.exit_codes import (
    KAFKA_MEANINGS,
    KAFKA_SHOWN,
    MEANINGS,
    SHOWN,
    ExitCode,
    KafkaExitCode,
)


class Flag(NamedTuple):
    """One flag of a command."""

    name: str
    help: str
    metavar: str = ""
    """Empty for a switch."""
    actions: frozenset[str] | None = None
    """The actions that it may go with; None: with every one."""
    required: bool = False
    """True where those actions cannot do without it."""
    value: Callable[[str], Any] = str
    """Reads its text; it raises `BadInput` or `ValueError` with what is wrong."""
    default: Any = None
    choices: tuple[str, ...] = ()
    repeatable: bool = False
    """True where each use adds a value."""
    negatable: bool = False
    """True for a switch with a `--no-` of its own."""
    hidden: bool = False
    """True for what only kshunt types."""
    short: str = ""
    """A letter that means the same."""
    also: tuple[str, ...] = ()
    """Other names."""
    either: str = ""
    """Flags with the same word here exclude each other."""
    variable: str = ""
    """The variable of the environment that is used where the flag is not given."""
    group: str = ""
    """The heading of the help that it is below."""
    dest: str = ""
    """The attribute that holds its value; empty: the name, with underscores."""
    is_supported: bool = True
    """False: a flag of Kafka's tool that is rejected; its help says what to use instead."""

    @property
    def is_offered(self) -> bool:
        """Whether it is completed, and named to somebody who mistypes it."""
        return self.is_supported and not self.hidden

    def goes_with(self, action: str) -> bool:
        """Whether it may be given with an action."""
        return self.actions is None or action in self.actions

    @property
    def attribute(self) -> str:
        """The attribute of what was read."""
        return self.dest or self.name.replace("-", "_").replace(".", "_")

    @property
    def options(self) -> tuple[str, ...]:
        """All words that mean it."""
        letter = (f"-{self.short}",) if self.short else ()
        negated = (f"--no-{self.name}",) if self.negatable else ()
        return (*letter, f"--{self.name}", *(f"--{name}" for name in self.also), *negated)

    @property
    def initial(self) -> Any:
        """Its value where it is not given."""
        if self.repeatable:
            return []
        return bool(self.default) if not self.metavar else self.default


NOT_SUPPORTED: Final = "of Kafka's tools, and not supported"
"""The heading of flags that are not `Flag.is_supported`."""


def not_supported(name: str, instead: str, metavar: str = "") -> Flag:
    """A flag of one of Kafka's tools that is read, and rejected with what to use instead."""
    return Flag(
        name, instead, metavar, repeatable=bool(metavar), group=NOT_SUPPORTED, is_supported=False
    )


class Argument(NamedTuple):
    """A word of a command line that is no flag."""

    name: str
    metavar: str
    help: str = ""
    many: bool = False
    optional: bool = False
    value: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """As in a line of usage."""
        text = f"{self.metavar}..." if self.many else self.metavar
        return f"[{text}]" if self.optional else text


ABOUT: Final = (
    Flag("help", "Print this and exit.", short="h"),
    Flag("version", "Print the version and exit."),
)
"""What every command has."""


class Command(NamedTuple):
    """A command, or an action of one."""

    words: tuple[str, ...]
    """Without `kshunt`; empty for the dashboard."""
    description: str
    own_flags: tuple[Flag, ...] = ()
    arguments: tuple[Argument, ...] = ()
    actions: tuple[Command, ...] = ()
    """Where it has some, one of them is named first, and reads the rest."""
    summary: str = ""
    """For the list of its siblings."""
    epilog: str = ""
    codes: Mapping[int, str] = MappingProxyType({})
    """Its own words for exit codes."""
    kafka: bool = False
    """True where it replaces a tool of Kafka: in Kafka's words, with Kafka's exit codes."""

    @property
    def flags(self) -> tuple[Flag, ...]:
        """All that it takes."""
        return (*self.own_flags, *ABOUT)

    @property
    def prog(self) -> str:
        """What is typed for it."""
        return " ".join(("kshunt", *self.words))

    @property
    def usage(self) -> str:
        """One line: what it needs, then what it may be given."""
        needed = [
            f"--{one.name} {one.metavar}"
            for one in self.own_flags
            if one.required and one.actions is None
        ]
        action = ["ACTION"] if self.actions else []
        words = [*action, *needed, "[OPTION ...]", *(one.shown for one in self.arguments)]
        return f"{self.prog} {' '.join(words)}"

    @property
    def usage_code(self) -> int:
        """The exit code of a wrong command line."""
        return KafkaExitCode.FAILED if self.kafka else ExitCode.USAGE

    def exit_codes(self) -> Mapping[int, str]:
        """What it ends with, and what that means."""
        if self.kafka:
            kafkas = {int(code): text for code, text in KAFKA_MEANINGS.items()}
            return {c: self.codes.get(c, kafkas[c]) for c in sorted({*KAFKA_SHOWN, *self.codes})}
        ours = {int(code): text for code, text in MEANINGS.items()}
        return {code: self.codes.get(code, ours[code]) for code in sorted({*SHOWN, *self.codes})}

    def every(self) -> Iterator[Command]:
        """It, and all of its actions."""
        yield self
        for action in self.actions:
            yield from action.every()
