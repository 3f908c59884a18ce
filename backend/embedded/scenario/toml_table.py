"""Reads a TOML document strictly: every key is known, and of its type.

Each mistake is a `BadInput` that names the file and the key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from kshunt.backend.errors import BadInput

Value = TypeVar("Value")

_WORDS: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


class TomlTable:
    """One table of a document; what was taken is not there any more."""

    def __init__(self, values: Mapping[str, object], file: str, where: str = "") -> None:
        self._values = dict(values)
        self._file = file
        self._where = where

    @classmethod
    def read(cls, path: Path) -> TomlTable:
        """The document of a file.

        Raises:
            BadInput: it cannot be read, or is no TOML.
        """
        try:
            return cls(tomllib.loads(path.read_text("utf-8")), str(path))
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise BadInput(f"{path} is not UTF-8 text.") from None
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"{path} is not valid TOML: {error}.") from None

    def bad(self, key: str, problem: str) -> BadInput:
        """The error of a key, to be raised."""
        return BadInput(f"{self._file}: {self._name(key)} {problem}.")

    def done(self) -> None:
        """Every key was taken.

        Raises:
            BadInput: one was not, so it is unknown.
        """
        for key in self._values:
            raise self.bad(key, "is unknown here")

    def has(self, key: str) -> bool:
        """Whether a key is there."""
        return key in self._values

    def text(self, key: str, default: str | None = None) -> str:
        """A string that is not empty."""
        value = self._take(key, str, default)
        if not value and default is None:
            raise self.bad(key, "is empty")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        return self._take(key, bool, default)

    def whole(self, key: str, default: int | None = None, *, minimum: int = 0) -> int:
        """A whole number."""
        value = self._take(key, int, default)
        if value < minimum:
            raise self.bad(key, f"is less than {minimum}")
        return value

    def number(self, key: str, default: float | None = None, *, least: float = 0.0) -> float:
        """A finite number."""
        value = self._take(key, float, default)
        if not value >= least or (value == float("inf") and value != default):
            raise self.bad(key, f"must be a finite number of at least {least:g}")
        return value

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of some words."""
        value = self.text(key, default)
        if value not in choices:
            raise self.bad(key, f"is '{value}', but must be one of {', '.join(choices)}")
        return value

    def wholes(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers; empty if it is not there."""
        return tuple(self._items(key, int))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty if it is not there."""
        return tuple(self._items(key, str))

    def text_map(self, key: str) -> dict[str, str]:
        """A table of strings; empty if it is not there."""
        inner = self.table(key)
        return {name: inner.text(name, "") for name in list(inner._values)}

    def whole_lists(self, key: str) -> dict[str, tuple[int, ...]]:
        """A table of lists of whole numbers; empty if it is not there."""
        inner = self.table(key)
        return {name: inner.wholes(name) for name in list(inner._values)}

    def table(self, key: str) -> TomlTable:
        """A table; empty if it is not there."""
        return TomlTable(self._take(key, dict, {}), self._file, self._name(key))

    def tables(self, key: str) -> list[TomlTable]:
        """An array of tables; empty if it is not there."""
        return [
            TomlTable(one, self._file, f"{self._name(key)}[{place}]")
            for place, one in enumerate(self._items(key, dict))
        ]

    def _items(self, key: str, kind: type[Value]) -> list[Value]:
        items: list[Value] = []
        for place, item in enumerate(self._take(key, list, [])):
            items.append(self._checked(f"{key}[{place}]", item, kind))
        return items

    def _take(self, key: str, kind: type[Value], default: Value | None) -> Value:
        if key not in self._values:
            if default is None:
                raise self.bad(key, "is missing")
            return default
        return self._checked(key, self._values.pop(key), kind)

    def _checked(self, key: str, value: object, kind: type[Value]) -> Value:
        if kind is float and type(value) is int:
            value = float(value)
        # `True` is an int to Python, but not here.
        if type(value) is not kind:
            raise self.bad(key, f"is not {_WORDS[kind]}")
        return value

    def _name(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key
