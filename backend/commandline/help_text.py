"""The help of a command, from its table."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kshunt.backend.commandline.table import Argument, Command, Flag

NAME_MAX: Final = 18
"""A longer name has a line of its own."""
MEANING_MIN: Final = 30


def help_of(command: Command) -> str:
    """What `--help` prints."""
    parser = argparse.ArgumentParser(
        prog=command.prog,
        usage=command.usage,
        description=beginning(command),
        epilog=ending(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    add_arguments(parser, command.arguments)
    groups: dict[str, Any] = {"": parser}
    for flag in command.flags:
        if flag.hidden:
            continue
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(flag.group)
        groups[flag.group].add_argument(*flag.options, **shape(flag), help=about(flag))
    return parser.format_help()


def add_arguments(parser: argparse.ArgumentParser, arguments: Iterable[Argument]) -> None:
    """Add words that are no flags."""
    for one in arguments:
        nargs = "*" if one.many and one.optional else "+" if one.many else None
        parser.add_argument(
            one.name,
            metavar=one.metavar,
            nargs="?" if one.optional and not one.many else nargs,
            help=_escaped(one.help),
        )


def shape(flag: Flag) -> Mapping[str, Any]:
    """How a flag is written, for argparse."""
    if flag.metavar:
        return {"metavar": flag.metavar, "dest": flag.attribute}
    return {"action": "store_true", "dest": flag.attribute}


def about(flag: Flag) -> str:
    """Its help, with what it may be and what is used where it is not given."""
    text = default_of(flag)
    notes = [f"one of {', '.join(flag.choices)}"] if flag.choices else []
    notes += [f"default {text}"] if text else []
    said = flag.help
    if notes:
        said = f"{said.removesuffix('.')} ({'; '.join(notes)})."
    if flag.variable:
        said += f" [{flag.variable}]"
    return _escaped(said)


def default_of(flag: Flag) -> str:
    """The default as it would be typed; empty if the help shows no default."""
    shown = isinstance(flag.default, str | int | float) and not isinstance(flag.default, bool)
    if not shown or not flag.metavar or flag.default == "" or "(default" in flag.help:
        return ""
    return f"{flag.default:g}" if isinstance(flag.default, float) else str(flag.default)


def beginning(command: Command) -> str:
    """What comes before the flags: what it is for, and its actions."""
    parts = [command.description.strip("\n")]
    if command.actions:
        parts.append(listing("actions", {one.words[-1]: one.summary for one in command.actions}))
    return "\n\n".join(parts)


def ending(command: Command) -> str:
    """What comes after the flags: remarks, and exit codes."""
    parts = [command.epilog.strip("\n")] if command.epilog else []
    codes = {str(code): text for code, text in command.exit_codes().items()}
    parts.append(listing("exit codes", codes))
    return "\n\n".join(parts)


def listing(title: str, rows: Mapping[str, str]) -> str:
    """Names with their meanings, below each other and as wide as the terminal."""
    width = max((len(name) for name in rows if len(name) <= NAME_MAX), default=NAME_MAX)
    room = max(shutil.get_terminal_size().columns - width - 4, MEANING_MIN)
    lines = [f"{title}:"]
    for name, text in rows.items():
        first, *rest = textwrap.wrap(text, room) or [""]
        if len(name) > width:
            lines.append(f"  {name}")
            name = ""
        lines += [f"  {name:{width}}  {first}", *(f"  {'':{width}}  {line}" for line in rest)]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
