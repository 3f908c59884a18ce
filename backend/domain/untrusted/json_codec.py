"""Values as JSON and back, by their annotations: the one codec of answers, journal and recordings.

Goals
    A field of a value is described once, in its class. A later version may add fields: an earlier
    reader skips them, and a later reader gives a missing one its default.
Constraints
    What is read may come from anybody. Types are strict: a text is no number, and no float is an
    integer. Bounds on size, depth and names are those of `strict_json`, which reads the text.
Algorithm
    msgspec writes and reads dataclasses and `Struct`s in C, by their annotations. The record of
    decision 13 has what was measured. Its first look at a class must be over before another thread
    reads one: 0.22 ends the process otherwise.
"""

from __future__ import annotations

import re
from threading import Lock
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
ID_MAX: Final = 2**31 - 1
"""Of brokers and partitions, as Kafka has them."""
NUMBER_MAX: Final = 2**63 - 1
TIME_MS_MAX: Final = 253_402_300_799_999
"""The last moment of the year 9999."""
Id: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=ID_MAX)]
"""A broker or a partition, or how many of them there are."""
Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
TimeMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)]
"""Milliseconds since the epoch."""

_looked_at: Final[set[Any]] = set()
"""Kinds whose annotations msgspec knows, with those of all that they hold."""
_looking: Final = Lock()

_PLACE: Final = r"(?s)^(?P<what>.*?)(?: - at `\$\.?(?P<place>.*)`)?$"


class UnreadableValue(ValueError):
    """A document is not what a value of its class is written as; the text says where."""


def to_json(value: Any) -> bytes:
    """A value as JSON in UTF-8."""
    return msgspec.json.encode(value, enc_hook=_plain)


def to_document(value: Any) -> dict[str, Any]:
    """A dataclass or `Struct` as what `json.dumps` takes: dicts, lists, texts, numbers."""
    document: dict[str, Any] = msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
    return document


def _plain(value: Any) -> Any:
    """A number of numpy as Python's.

    Raises:
        NotImplementedError: it is something else, which no JSON has.
    """
    if hasattr(value, "item"):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} is not a JSON value")


def from_document(kind: type[T], document: Any) -> T:
    """The value that a document describes. Fields that its class does not have are skipped.

    Raises:
        UnreadableValue: a field is missing that has no default, or is of another type.
    """
    if kind not in _looked_at:
        _look_at(kind)
    try:
        return msgspec.convert(document, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise UnreadableValue(_in_words(str(error))) from None
    except RecursionError:
        raise UnreadableValue("its values are nested too deeply") from None


def _look_at(kind: type[Any]) -> None:
    """Let msgspec read the annotations of a class and of what it holds, in one thread."""
    with _looking:
        msgspec.json.Decoder(kind)
        _looked_at.add(kind)


def read_exactly(kind: type[T], document: Any) -> T:
    """As `from_document`, of a document that has all fields of its class, and no others.

    Raises:
        UnreadableValue: it has not, or a field is of another type.
    """
    value = from_document(kind, document)
    if not is_same(to_document(value), document):
        raise UnreadableValue("a field is missing, unknown, or has another form")
    return value


def is_same(written: Any, document: Any) -> bool:
    """Whether two documents have the same JSON; a tuple is written as a list is."""
    if written == document:
        return True
    if isinstance(written, dict) and isinstance(document, dict):
        same_names = written.keys() == document.keys()
        return same_names and all(is_same(one, document[name]) for name, one in written.items())
    if isinstance(written, tuple | list) and isinstance(document, tuple | list):
        return len(written) == len(document) and all(map(is_same, written, document))
    return False


def _in_words(text: str) -> str:
    """As `partitions[0].topic: expected text, got a number`, without marks of code."""
    match = re.match(_PLACE, text)
    what, place = (match["what"], match["place"]) if match else (text, "")
    plain = what.replace("`", "").rstrip(".")
    return f"{place}: {plain[0].lower()}{plain[1:]}" if place else plain
