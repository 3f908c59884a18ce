"""The texts that the product shows are in plain English, like the documents."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.documents.prose import Kind, sentences
from tests.support.documents.style import sentence_faults
from tests.support.documents.texts import Text, docstrings, sentences_of, texts, texts_below
from tests.support.paths import ROOT

FOLDERS = (ROOT / "backend", ROOT / "tui")


def faults(text: Text) -> list[str]:
    """What the style forbids in a text, with its line."""
    return [fault for sentence in sentences_of(text) for fault in sentence_faults(sentence)]


@cache
def shown() -> tuple[tuple[Path, Text], ...]:
    return tuple(texts_below(*FOLDERS))


def test_the_product_speaks_plain_english() -> None:
    found = [
        f"{path.relative_to(ROOT)}, {fault}" for path, text in shown() for fault in faults(text)
    ]
    assert not found, "\n".join(["docs/style.md says otherwise:", *found])


def test_docstrings_are_in_plain_english() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{text.line}, {fault}"
        for folder in (*FOLDERS, ROOT / "tests")
        for path in sorted(folder.rglob("*.py"))
        for text in docstrings(path.read_text())
        for sentence in sentences(text.text)
        if sentence.kind is Kind.TEXT
        for fault in sentence_faults(sentence)
    ]
    assert not found, "\n".join(["docs/style.md says otherwise:", *found])


@pytest.mark.parametrize(
    ("docstring", "lines"),
    [
        ("Say so.\n\n    It goes on beside it.\n", 2),
        ("Args:\n    one: " + "word " * 20 + ".\n    two: " + "word " * 20 + ".\n", 0),
        ("A term holds::\n\n    a  goes on at once\n\nIt goes on at once.\n", 2),
        ("word " * 31, 1),
    ],
)
def test_a_docstring_is_judged_without_its_literal_blocks(docstring: str, lines: int) -> None:
    [text] = docstrings(f"def f():\n    {docstring!r}\n")
    assert sum(len(sentence_faults(one)) for one in sentences(text.text)) == lines


def test_texts_of_each_part_are_found() -> None:
    found = {path.relative_to(ROOT).parts[:2] for path, _ in shown()}
    assert found > {("tui", "views"), ("tui", "changes"), ("backend", "tools"), ("backend", "api")}


@pytest.mark.parametrize(
    "code",
    [
        "words = f'Moves go on in {cluster}.'",
        "log.warning('%s goes on at once', name)",
        "EPILOG = 'commands:\\n  run    it stands until its throttle comes off'",
        f"said = '{'word ' * 31}'",
    ],
)
def test_a_fault_is_found(code: str) -> None:
    assert [fault for text in texts(code) for fault in faults(text)]


def test_what_is_shown_to_nobody_is_no_text() -> None:
    code = '''\
"""Whoever reads this reads code."""
names = "acks buffer.memory check.crcs client.dns.lookup whoever client.rack retries"
label = "cluster"
def read():
    """Whoever calls it."""
    """And an attribute's."""
'''
    assert texts(code) == []


def test_fields_count_as_a_word_and_a_line_of_a_table_as_a_sentence() -> None:
    (one,) = texts("f'{count:,} partitions of {listed(names, 3)} move. Wait; then look.'")
    assert [each.text for each in sentences_of(one)] == [
        "X partitions of X move.",
        "Wait;",
        "then look.",
    ]
    (table,) = texts(
        "said = 'Plan it.\\nThen start.\\n\\ngoals:\\n  drain   empty brokers\\n  racks   repair'"
    )
    assert [each.text for each in sentences_of(table)] == [
        "Plan it.",
        "Then start.",
        "goals:",
        "drain empty brokers",
        "racks repair",
    ]
