"""The one reader of command lines.

Goals
    Every command understands the same words in the same way: `--flag VALUE`, `--flag=VALUE`, flags
    before and after arguments and actions, `--` before an argument that begins with a dash. `-h`,
    `--help` and `--version` work everywhere. A wrong word is answered with the nearest right one.
Constraints
    Commands that replace a tool of Kafka say what is wrong in Kafka's words, because scripts read
    them. No message repeats a value that was typed to an unknown flag: it may be a secret.
Algorithm
    1. The action is the first word that is neither a flag nor the value of one.
    2. argparse reads the flags of that action, and leaves the words that it does not know.
    3. Of these, a word with a dash is an unknown flag. The others are the arguments, in order.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from kshunt import __version__
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.nearest import nearest
from kshunt.backend.commandline.table import Argument, Command, Flag
from kshunt.backend.errors import BadInput

_NUMBER: Final = re.compile(r"-\d+|-\d*\.\d+")
HELP_WORDS: Final = frozenset({"-h", "--help"})
WIDTH: Final = 80
"""Of help that is never printed."""


class UsageError(BadInput):
    """The command line cannot be meant; nothing was done."""

    title = "Wrong usage"
    exit_code = ExitCode.USAGE
    prog = ""
    """The command whose help says more; empty where only its caller knows."""
    unknown = ""
    """The name of a flag that nobody knows."""


def read(command: Command, argv: Sequence[str]) -> argparse.Namespace | None:
    """What was typed, or None where it was a question that is answered: the help, or the version.

    The values of flags and arguments are attributes. `given` has the text of each flag that was
    typed, in the order of the command line; that of a switch is empty. `action` is the last word
    of the action, or empty.

    Raises:
        UsageError: a word is unknown or missing, comes twice, or has a value that cannot be meant.
    """
    before, after = _at_dashes(argv)
    chosen, rest = _chosen(command, before)
    if HELP_WORDS & set(rest):
        from kshunt.backend.commandline.help_text import help_of

        sys.stdout.write(help_of(chosen))
        sys.stdout.flush()
        return None
    if "--version" in rest:
        sys.stdout.write(f"kshunt {__version__}\n")
        return None
    try:
        return _read(command, chosen, rest, after)
    except UsageError as error:
        error.prog = chosen.prog
        raise


def _read(
    command: Command, chosen: Command, before: Sequence[str], after: Sequence[str]
) -> argparse.Namespace:
    found = argparse.Namespace(
        given={}, action=chosen.words[-1] if chosen is not command else "", command=chosen
    )
    for flag in chosen.flags:
        setattr(found, flag.attribute, flag.initial)
    words = _take_flags(command, chosen, before, found)
    if chosen.actions:
        raise UsageError(f"{chosen.prog} needs an action: {_names(chosen)}.")
    _take_arguments(chosen, [*words, *after], found)
    _check(chosen, found.given)
    return found


def usage_lines(error: UsageError, prog: str) -> str:
    """What is said of a wrong command line: the message has its line, as in Kafka's tools."""
    hint = f"Run '{error.prog or prog} --help' for every option."
    return "\n".join(filter(None, [error.message, error.advice, hint]))


def _at_dashes(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(argv)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _chosen(command: Command, argv: Sequence[str]) -> tuple[Command, list[str]]:
    """The action that is named, and the words without its name.

    Raises:
        UsageError: there is no such action.
    """
    if not command.actions:
        return command, list(argv)
    valued = {
        option for one in command.every() for flag in one.flags if flag.metavar
        for option in flag.options
    }  # fmt: skip
    at = 0
    while at < len(argv):
        word = argv[at]
        if not _is_flag(word):
            for action in command.actions:
                if action.words[-1] == word:
                    return _chosen(action, [*argv[:at], *argv[at + 1 :]])
            hint = nearest(word, [one.words[-1] for one in command.actions])
            raise UsageError(
                f"'{word}' is not an action of {command.prog}.{_meant(hint)}",
                advice=f"The actions are: {_names(command)}.",
            )
        at += 2 if word in valued else 1
    return command, list(argv)


def _is_flag(word: str) -> bool:
    """As argparse sees it: a negative number is a value, and so is a dash alone."""
    return len(word) > 1 and word[0] == "-" and not _NUMBER.fullmatch(word) and " " not in word


def _names(command: Command) -> str:
    return ", ".join(one.words[-1] for one in command.actions)


def _meant(hint: str) -> str:
    return f" Did you mean '{hint}'?" if hint else ""


# Flags


class _NeverShown(argparse.HelpFormatter):
    """argparse makes a formatter for each flag; this one does not ask how wide the terminal is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH)


class _Take(argparse.Action):
    """Keeps what was given, and rejects a second value of a flag that is not repeatable."""

    flag: Flag
    wanted: Command

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        flag, given = self.flag, namespace.given
        if not flag.metavar:
            given[flag.name] = ""
            setattr(namespace, flag.attribute, option_string != f"--no-{flag.name}")
            return
        text = values if isinstance(values, str) else ""
        if flag.name in given and not flag.repeatable:
            raise UsageError(
                f"Found multiple arguments for option {flag.name}, but you asked for only one"
                if self.wanted.kafka
                else f"--{flag.name} is given twice; give it once."
            )
        given[flag.name] = text
        value = _value(flag, text)
        if flag.repeatable:
            getattr(namespace, flag.attribute).append(value)
        else:
            setattr(namespace, flag.attribute, value)


def _value(one: Flag | Argument, text: str) -> Any:
    shown = f"--{one.name}" if isinstance(one, Flag) else one.metavar
    if one.choices and text not in one.choices:
        raise UsageError(
            f"{shown} '{text}' must be one of {', '.join(one.choices)}."
            f"{_meant(nearest(text, one.choices))}"
        )
    try:
        return one.value(text)
    except BadInput as error:
        raise UsageError(f"{shown}: {error.message}", advice=error.advice) from None
    except ValueError as error:
        raise UsageError(f"{shown}: {error}") from None


def _take_flags(
    family: Command, command: Command, argv: Sequence[str], found: argparse.Namespace
) -> list[str]:
    """Put the values of the flags into `found`; the words that are left.

    Raises:
        UsageError: a flag is unknown or not supported, lacks its value, or comes twice.
    """
    parser = argparse.ArgumentParser(
        formatter_class=_NeverShown, add_help=False, allow_abbrev=False, exit_on_error=False
    )
    for flag in command.flags:
        action = parser.add_argument(
            *flag.options,
            action=_Take,
            nargs=None if flag.metavar else 0,
            dest=flag.attribute,
            default=argparse.SUPPRESS,
        )
        assert isinstance(action, _Take)
        action.flag, action.wanted = flag, command
    try:
        _, rest = parser.parse_known_args(list(argv), found)
    except argparse.ArgumentError as error:
        options = (error.argument_name or "").split("/")
        name = next(one.removeprefix("--") for one in options if one.startswith("--"))
        raise UsageError(_wrong(command, name, error.message)) from None
    for flag in command.flags:
        if not flag.is_supported and flag.name in found.given:
            raise UsageError(f"--{flag.name} is not supported. Nothing was done.", advice=flag.help)
    for word in rest:
        if _is_flag(word):
            raise _unknown(family, command, word.partition("=")[0])
    return rest


def _wrong(command: Command, name: str, message: str) -> str:
    lacks = "expected one argument" in message
    if command.kafka:
        return f"Option {name} requires an argument" if lacks else f"Option {name}: {message}"
    return f"--{name} needs a value." if lacks else f"--{name} takes no value."


def _unknown(family: Command, command: Command, word: str) -> UsageError:
    name = word.lstrip("-")
    known = {flag.name for flag in command.flags if flag.is_offered}
    hint = nearest(name, known)
    if command.kafka:
        advice = f"Did you mean --{hint}?" if hint else ""
        return UsageError(f"{name} is not a recognized option", advice=advice)
    if any(word in flag.options for one in family.every() for flag in one.flags):
        return UsageError(f"{word} cannot be used with {command.prog}.")
    error = UsageError(f"unknown option {word}.{_meant(f'--{hint}' if hint else '')}")
    error.unknown = name
    return error


# Arguments


def _take_arguments(command: Command, words: Sequence[str], found: argparse.Namespace) -> None:
    rest = list(words)
    for one in command.arguments:
        if one.many:
            taken, rest = rest, []
        else:
            taken, rest = rest[:1], rest[1:]
        if not taken and not one.optional:
            raise UsageError(f"{command.prog} needs {one.metavar}.")
        values = [_value(one, word) for word in taken]
        setattr(found, one.name, values if one.many else values[0] if values else None)
    if rest:
        raise UsageError(
            f"Unexpected argument '{rest[0]}'" if command.kafka else f"unexpected word '{rest[0]}'."
        )


def _check(command: Command, given: Mapping[str, str]) -> None:
    """Refuse flags that exclude each other, and the lack of one that is required."""
    if command.kafka:
        # The tools check that themselves, in the order of Kafka's.
        return
    for first, second in _excluding(command.own_flags, given):
        raise UsageError(f"--{first} and --{second} cannot be used together.")
    for flag in command.own_flags:
        if flag.required and flag.name not in given:
            raise UsageError(f"{command.prog} needs --{flag.name} {flag.metavar}.")


def _excluding(flags: Collection[Flag], given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    chosen: dict[str, str] = {}
    for flag in flags:
        if flag.either and flag.name in given:
            if flag.either in chosen:
                yield chosen[flag.either], flag.name
            chosen[flag.either] = flag.name
