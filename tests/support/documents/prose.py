"""Sentences of a Markdown document, without its code.

Goals
    Each sentence that a reader reads is found once, with the words that a reader counts.
Constraints
    A piece of code in a line counts as one word, and an address counts as none. Headings and cells
    of tables may be fragments: they are found too, and told apart.
Algorithm
    Lines outside of fences are put together into blocks: a paragraph, an item of a list, a heading,
    a cell. Marks of Markdown are taken out of a block, and it is cut where a sentence ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a sentence is part of."""

    TEXT = "text"
    """A paragraph, or an item of a list."""
    HEADING = "heading"
    CELL = "cell"


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, or a fragment of one."""

    line: int
    """Where its block begins, from 1."""
    kind: Kind
    text: str
    """Without marks of Markdown; each piece of code is `CODE`."""

    @property
    def words(self) -> int:
        """How many words it has."""
        return sum(any(c.isalnum() for c in word) for word in self.text.split())


@dataclass(frozen=True, slots=True)
class _Block:
    line: int
    kind: Kind
    text: str


CODE = "CODE"
"""In a sentence: a piece of code."""

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})(.*)$")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_HEADING = re.compile(r"^#{1,6}\s+")
_RULE = re.compile(r"^\s*(?:[-*_]\s*){3,}$")
_DELIMITERS = re.compile(r"^\s*\|?[\s:|-]+\|?\s*$")
_DEFINITION = re.compile(r"^\s*\[[^\]]+\]:\s")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_ENDS = re.compile(r"""(?<=[.!?])["”)]?\s+(?=["“(]?(?:[A-Z0-9]|kshunt\b))""")
_INLINE = (
    (re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL), CODE),
    (re.compile(r"!\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\[([^\]]*)\]\[[^\]]*\]"), r"\1"),
    (re.compile(r"<br\s*/?>"), ". "),
    (re.compile(r"</?[a-zA-Z][^>]*>"), ""),
    (re.compile(r"<https?://[^>]*>|https?://\S+"), ""),
    (re.compile(r"\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)"), ""),
)


def sentences(text: str) -> list[Sentence]:
    """Every sentence of a document, in its order."""
    return [sentence for block in _blocks(text) for sentence in _cut(block)]


def plain(text: str) -> str:
    """A line of Markdown without its marks."""
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _cut(block: _Block) -> Iterator[Sentence]:
    for part in _ENDS.split(plain(block.text)):
        if any(c.isalnum() for c in part):
            yield Sentence(block.line, block.kind, part.strip())


def _blocks(text: str) -> Iterator[_Block]:
    lines: list[str] = []
    start = 1
    for number, line in enumerate(_without_code(text), 1):
        begins = _HEADING.match(line) or _ITEM.match(line) or line.lstrip().startswith("|")
        if not line.strip() or begins:
            if lines:
                yield _Block(start, Kind.TEXT, " ".join(lines))
            lines = []
        if _HEADING.match(line):
            yield _Block(number, Kind.HEADING, _HEADING.sub("", line))
        elif line.lstrip().startswith("|"):
            yield from _cells(number, line)
        elif line.strip() and not _RULE.match(line) and not _DEFINITION.match(line):
            start = start if lines else number
            lines.append(_ITEM.sub("", line).lstrip("> "))
    if lines:
        yield _Block(start, Kind.TEXT, " ".join(lines))


def _cells(number: int, line: str) -> Iterator[_Block]:
    if not _DELIMITERS.match(line):
        for cell in _CELL_BORDER.split(line.strip().strip("|")):
            yield _Block(number, Kind.CELL, cell)


def _without_code(text: str) -> Iterator[str]:
    """Each line; one of code or of a comment is empty."""
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
            yield ""
        elif found:
            fence = found[1]
            yield ""
        else:
            yield line
