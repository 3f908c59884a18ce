"""The manual page of a command, from its table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kshunt import __version__
from kshunt.backend.commandline.help_text import about
from kshunt.backend.commandline.table import Command, Flag


def man_page(command: Command) -> str:
    """The page, as `man -l` reads it."""
    name = "-".join(("kshunt", *command.words))
    return "\n".join([f'.TH "{name.upper()}" "1" "" "kshunt {__version__}" ""', *_body(command)])


def _body(command: Command) -> Iterator[str]:
    first = command.description.strip().splitlines()[0]
    yield from (".SH NAME", f"{_text(command.prog)} \\- {_text(command.summary or first)}")
    yield from (".SH SYNOPSIS", f".B {_text(command.usage)}")
    yield from (".SH DESCRIPTION", *_paragraphs(command.description))
    if command.arguments:
        yield ".SH ARGUMENTS"
        for one in command.arguments:
            yield from _entry(one.metavar, one.help)
    if command.actions:
        yield ".SH ACTIONS"
        for action in command.actions:
            yield from _entry(action.words[-1], action.summary)
    for group in dict.fromkeys(flag.group for flag in command.flags):
        yield f".SH {_text(group.upper() or 'OPTIONS')}"
        for flag in command.flags:
            if flag.group == group and not flag.hidden:
                yield from _entry(_written(flag), about(flag).replace("%%", "%"))
    if command.epilog:
        yield from (".SH NOTES", *_paragraphs(command.epilog))
    yield ".SH EXIT STATUS"
    for code, meaning in command.exit_codes().items():
        yield from _entry(str(code), meaning)


def _written(flag: Flag) -> str:
    value = f" {flag.metavar}" if flag.metavar else ""
    return ", ".join(f"{option}{value}" for option in flag.options)


def _entry(term: str, meaning: str) -> Sequence[str]:
    return ".TP", f"\\fB{_text(term)}\\fR", _text(meaning)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs are filled; lists and examples keep their lines."""
    for number, paragraph in enumerate(re.split(r"\n{2,}", text.strip("\n"))):
        if number:
            yield ".PP"
        lines = paragraph.splitlines()
        as_typed = any(line.startswith(" ") for line in lines)
        if as_typed:
            yield ".nf"
        yield from map(_text, lines)
        if as_typed:
            yield ".fi"


def _text(text: str) -> str:
    r"""The text as roff takes it: dashes that can be copied, and no line that is a request."""
    said = text.replace("\\", "\\e").replace("-", "\\-")
    said = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in said)
    return f"\\&{said}" if said[:1] in (".", "'") else said
