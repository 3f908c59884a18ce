"""The texts that the manual shows as rewritten are in the sources, and the former ones are not."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.documents.style import STYLE
from tests.support.documents.texts import FIELD, texts_below
from tests.support.paths import ROOT

REWRITES: Final = ROOT / "docs" / "style-rewrites.md"
COUNT: Final = 40
FOLDERS: Final = (ROOT / "backend", ROOT / "tui")
_ROW: Final = re.compile(r"^\| (?P<ticks>`+) ?(.+?) ?(?P=ticks) \| (.+) \| (.+) \|$", re.MULTILINE)


class Rewrite(NamedTuple):
    """A row of the page."""

    before: str
    after: str
    why: str


def rewrites(page: str) -> list[Rewrite]:
    """Each row of a page whose first cell is one piece of code."""
    return [Rewrite(*(found[2], found[3], found[4])) for found in _ROW.finditer(page)]


def normalised(text: str) -> str:
    """A text with one space between words, and with each value as `texts` marks it."""
    return " ".join(text.replace("{…}", FIELD).split())


@cache
def shown() -> tuple[str, ...]:
    """Each text of the product."""
    return tuple(normalised(text.text) for _, text in texts_below(*FOLDERS))


def is_shown(text: str, among: tuple[str, ...]) -> bool:
    """Whether one of these texts is this one, or has it as a part that ends with a word."""
    wanted = re.compile(rf"(?<![\w-]){re.escape(normalised(text))}(?![\w-])")
    return any(wanted.search(one) for one in among)


def rows() -> list[Rewrite]:
    return rewrites(REWRITES.read_text("utf-8"))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.before[:30])
def test_the_product_says_the_new_text_and_not_the_former_one(row: Rewrite) -> None:
    assert is_shown(row.after, shown()), f"no text of the product has: {row.after}"
    assert not is_shown(row.before, shown()), f"a text of the product still has: {row.before}"


def examples() -> list[tuple[str, str]]:
    """The rows below "Examples" in the style."""
    section = STYLE.read_text("utf-8").split("\n## Examples\n")[1].split("\n## ")[0]
    _, *found = re.findall(r"^\| ([^-].*?) \| (.+) \|$", section, re.MULTILINE)
    return found


@pytest.mark.parametrize(("former", "present"), examples())
def test_an_example_of_the_style_is_a_text_of_the_product(former: str, present: str) -> None:
    assert is_shown(present, shown()), f"no text of the product has: {present}"
    assert not is_shown(former, shown()), f"a text of the product still has: {former}"


def test_the_page_has_as_many_rows_as_its_title_says() -> None:
    page = REWRITES.read_text("utf-8")
    lines = re.findall(r"^\| (?!Before )", page, re.MULTILINE)
    assert len(rows()) == len(lines) == COUNT
    assert page.startswith("# Forty rewrites\n")
    assert len({row.before for row in rows()} | {row.after for row in rows()}) == 2 * COUNT


def test_a_text_is_found_over_lines_and_values(tmp_path: Path) -> None:
    code = '''\
said = (
    f"Topic {name} is deleted; {count:,} records "
    "are copied."
)
EPILOG = """
The group holds
the progress.
"""
'''
    (tmp_path / "module.py").write_text(code)
    found = tuple(normalised(text.text) for _, text in texts_below(tmp_path))
    assert is_shown("Topic {…} is deleted; {…} records are copied.", found)
    assert is_shown("The group holds the progress.", found)
    assert not is_shown("Topic {…} is deleted; {…} records are cop", found)
    assert not is_shown("Topic orders is deleted", found)


def test_a_row_is_read() -> None:
    page = "| Before | After | Why |\n|---|---|---|\n| `` `a` b `` | {…} c `d` | `b`: old |\n"
    assert rewrites(page) == [Rewrite("`a` b", "{…} c `d`", "`b`: old")]
