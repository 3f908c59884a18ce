"""What docs/style.md forbids in a sentence, of a document or of the product."""

from __future__ import annotations

import re
from typing import Final

from tests.support.documents.prose import Sentence
from tests.support.paths import ROOT

STYLE: Final = ROOT / "docs" / "style.md"
WORDS_MAX: Final = 30
_GAP: Final = r"(?:\s+\S+){0,5}?\s+"
_ROW: Final = re.compile(r"^\| (.+?) \| .+ \|$", re.MULTILINE)


def sentence_faults(sentence: Sentence) -> list[str]:
    """What is wrong with a sentence, with the line of each fault."""
    found = []
    if sentence.words > WORDS_MAX:
        found.append(f"line {sentence.line}: {sentence.words} words: {sentence.text}")
    for pattern in BANNED:
        if word := pattern.search(sentence.text):
            found.append(f"line {sentence.line}: “{word[0]}”: {sentence.text}")
    return found


def _banned() -> list[re.Pattern[str]]:
    """Patterns for the words of the style's table; `…` is a gap of at most five words."""
    table = STYLE.read_text().split("\n## Words that we do not use\n")[1]
    _, *rows = _ROW.findall(table)
    return [_pattern(phrase.strip()) for row in rows for phrase in row.split(",")]


def _pattern(phrase: str) -> re.Pattern[str]:
    parts = [r"\s+".join(map(re.escape, part.split())) for part in phrase.split("…")]
    return re.compile(rf"\b{_GAP.join(parts)}\b", re.IGNORECASE)


BANNED: Final = _banned()
