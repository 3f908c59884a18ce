"""The documents are in plain English: short sentences, and none of the words docs/style.md bans."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean

import pytest

from tests.support.documents.prose import Kind, sentences
from tests.support.documents.style import STYLE, sentence_faults
from tests.support.paths import ROOT

CHECKED = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *ROOT.glob("docs/**/*.md")]
)
MEAN_WORDS_MAX = 16
LINES_MAX = {"README.md": 200, "docs/style.md": 120}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def faults(text: str) -> list[str]:
    """What the style forbids in a document, with the line of each."""
    all_sentences = sentences(text)
    found = [fault for one in all_sentences for fault in sentence_faults(one)]
    lengths = [one.words for one in all_sentences if one.kind is Kind.TEXT]
    if lengths and mean(lengths) > MEAN_WORDS_MAX:
        found.append(f"{mean(lengths):.1f} words a sentence in the mean")
    return found


@pytest.mark.parametrize("document", CHECKED, ids=named)
def test_a_document_is_in_plain_english(document: Path) -> None:
    text = document.read_text()
    if document == STYLE:
        # Its tables are lists of what not to write.
        text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    found = faults(text)
    assert not found, "\n".join(["docs/style.md says otherwise:", *found])


@pytest.mark.parametrize(("name", "lines_max"), LINES_MAX.items())
def test_a_short_document_stays_short(name: str, lines_max: int) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= lines_max


@pytest.mark.parametrize(
    "text",
    [
        "Whoever asks is answered.",
        "- The throttle comes\n  off with the move.",
        "| cause |\n|---|\n| Of all backends one acts. |",
        "# Who only looks",
        f"{'word ' * 31}.",
        f"{'word ' * 17}. {'Word ' * 17}.",
    ],
)
def test_a_fault_is_found(text: str) -> None:
    assert faults(text)


def test_code_is_no_prose() -> None:
    text = """\
One `whoever at once`, and [a link](https://example.org/at-once).

~~~sh
echo whoever
~~~
<!-- whoever -->
"""
    assert faults(text) == []
    assert [one.text for one in sentences(text)] == ["One CODE, and a link."]


def test_sentences_are_told_apart() -> None:
    text = """\
## A heading

One sentence. **Two** sentences, e.g. this one
over two lines! And a third:

1. An item.
   It has two.
2. `code` is one word

| a | b |
|---|---|
| c \\| d | e. F. |
"""
    found = [(one.kind, one.line, one.text) for one in sentences(text)]
    assert found == [
        (Kind.HEADING, 1, "A heading"),
        (Kind.TEXT, 3, "One sentence."),
        (Kind.TEXT, 3, "Two sentences, e.g. this one over two lines!"),
        (Kind.TEXT, 3, "And a third:"),
        (Kind.TEXT, 6, "An item."),
        (Kind.TEXT, 6, "It has two."),
        (Kind.TEXT, 8, "CODE is one word"),
        (Kind.CELL, 10, "a"),
        (Kind.CELL, 10, "b"),
        (Kind.CELL, 12, "c \\| d"),
        (Kind.CELL, 12, "e."),
        (Kind.CELL, 12, "F."),
    ]
