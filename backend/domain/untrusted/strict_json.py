"""JSON of strangers: read whole, within bounds, or refused with one sentence.

Goals
    A file or an answer that somebody made to do harm costs a bounded amount of memory and time. It
    ends in one kind of error with words for an operator.
Constraints
    RFC 8259 leaves open what a name that comes twice means, how long a number is and how deep
    values are nested. It also leaves open whether a half of a surrogate pair may stand alone.
    Readers differ, so what is checked by one may be another thing to the next: all of these are
    refused.
Algorithm
    Size and the number of values are bounded before anything is parsed: there is a comma or a
    bracket for each value. Numbers have at most `DIGITS_MAX` digits: the time that Python takes for
    one grows with the square of its length. So Python refuses more than 4,300 digits with an error
    of its own.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

DIGITS_MAX: Final = 400
"""A double has at most 309 digits before its point."""
VALUES_MAX: Final = 6_000_000
"""Values of one document: a plan of 200,000 partitions has some 2 million."""
DEPTH_MAX: Final = 100
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class UnreadableJson(ValueError):
    """A document is not valid JSON, or beyond a bound; the text says which."""

    def __init__(self, text: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(text)
        self.line, self.column = line, column
        """Where, as far as that is known; from 1."""


def read_json(document: str | bytes, *, bytes_max: int, values_max: int = VALUES_MAX) -> Any:
    """The value of a document.

    Args:
        document: UTF-8, or a text.
        bytes_max: A document that is longer is refused; of a text, characters.
        values_max: And one of more values.

    Raises:
        UnreadableJson: it cannot be read.
    """
    if len(document) > bytes_max:
        raise UnreadableJson(f"it is longer than {bytes_max:,} bytes")
    try:
        text = document if isinstance(document, str) else document.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableJson(f"it is not UTF-8 from byte {error.start}") from None
    if sum(map(text.count, ",[{")) > values_max:
        raise UnreadableJson(f"it has more than {values_max:,} values")
    try:
        found = json.loads(
            text, object_pairs_hook=_object, parse_int=_whole, parse_constant=_no_number
        )
    except json.JSONDecodeError as error:
        raise UnreadableJson(f"not JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise UnreadableJson("its values are nested too deeply") from None
    _check_depth(found)
    if _SURROGATE.search(text):
        _check_text(found)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise UnreadableJson(f"it has the name {twice[:40]!r} twice in one object")
    return found


def _whole(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise UnreadableJson(f"it has a number of {len(digits):,} digits")
    return int(digits)


def _no_number(name: str) -> NoReturn:
    raise UnreadableJson(f"{name} is not a JSON number")


def _check_depth(value: Any) -> None:
    """Refuse what later readers, which call themselves for each level, could not read."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return
    raise UnreadableJson("its values are nested too deeply")


def _check_text(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableJson(
            r"a text has half a character (an unpaired \ud800 to \udfff)"
        ) from None
