"""What can be typed next in the filter line, and what it means. Pure; nothing is looked up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kshunt.backend.domain.cluster.partition_modes import MODES_BY_KEY
from kshunt.tui.facts.filter_terms import ABOUT_FIELDS, ABOUT_WORDS, EXAMPLES, FIELDS, WORDS

OFFERED_MOST: Final = 12
"""Names of topics or operations that are offered at most."""


class Hint(NamedTuple):
    """What the line below the filter says."""

    words: str
    completions: tuple[str, ...] = ()
    """What the word being typed can become, the likeliest first."""


WORDS_HINT: Final = Hint("Esc closes the line, and once more shows all rows")
"""Where words narrow the rows."""


def hint_for(text: str, operations: Sequence[str] = (), topics: Sequence[str] = ()) -> Hint:
    """What fits the last word of a filter line.

    Args:
        text: what has been typed so far.
        operations: ids that can stand behind `op:`.
        topics: names that can stand behind `topic:`.
    """
    word = "" if not text or text[-1].isspace() else text.split()[-1]
    sign, body = ("-", word[1:]) if word.startswith("-") else ("", word)
    name, colon, value = body.partition(":")
    if colon:
        return _in_field(sign, name.lower(), value, operations, topics)
    if not body:
        return Hint("  ".join((*EXAMPLES.values(), *WORDS)))
    found = [f"{field}:" for field in FIELDS if field.startswith(body.lower())]
    found += [one for one in WORDS if one.startswith(body.lower())]
    said = "  ".join(map(_shown, found)) if len(found) > 1 else "".join(map(_about, found))
    return Hint(said or f"topics with '{body}' in their name", _with(sign, found))


def _shown(completion: str) -> str:
    return EXAMPLES[completion[:-1]] if completion.endswith(":") else completion


def _about(completion: str) -> str:
    if completion.endswith(":"):
        field = completion[:-1]
        return f"{EXAMPLES[field]}  {ABOUT_FIELDS[field]}"
    return f"{completion}: {ABOUT_WORDS[completion]}"


def _in_field(
    sign: str, field: str, value: str, operations: Sequence[str], topics: Sequence[str]
) -> Hint:
    if field not in FIELDS:
        return Hint(f"no such field; the fields are {', '.join(FIELDS)}")
    offered = {"op": operations, "topic": topics, "mode": tuple(MODES_BY_KEY)}.get(field, ())
    found = [f"{field}:{one}" for one in offered if one.lower().startswith(value.lower())]
    found = found[:OFFERED_MOST]
    words = f"{EXAMPLES[field]}  {ABOUT_FIELDS[field]}"
    if found and value:
        words = "  ".join(found)
    return Hint(words, _with(sign, found))


def _with(sign: str, completions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sign + one for one in completions)


def completed(text: str, hint: Hint) -> str:
    """The line with its last word made longer; unchanged where nothing fits.

    It becomes the only thing that fits, else what all that fits begins with.
    """
    if not hint.completions:
        return text
    word = text.split()[-1] if text and not text[-1].isspace() else ""
    chosen = _common(hint.completions)
    if len(chosen) <= len(word):
        chosen = hint.completions[0]
    end = "" if chosen.endswith(":") or len(hint.completions) > 1 else " "
    return text[: len(text) - len(word)] + chosen + end


def _common(words: Sequence[str]) -> str:
    first, last = min(words), max(words)
    length = next(
        (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
        min(len(first), len(last)),
    )
    return first[:length]
