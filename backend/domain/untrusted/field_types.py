"""Whether values are of the types that their classes declare: for values that strangers wrote.

Annotations are not looked at when a dataclass is made. Where its members come from a file or from
another process, this tells whether everything that relies on them may.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

MEMBERS_CHECKED: Final = 100_000
"""Of a collection; later members of a larger one are taken as they are."""
DEPTH_CHECKED: Final = 20


def wrong_field(value: Any) -> str:
    """The first field of a dataclass or a `Struct` that is of another type, as `Class.field`.

    Empty where each is right. Fields within members are not looked at.
    """
    for name, hint in _hints_of(value).items():
        if not fits(getattr(value, name, None), hint):
            return f"{type(value).__name__}.{name}"
    return ""


def wrong_within(value: Any, depth: int = 0) -> str:
    """As `wrong_field`, also of every value within."""
    if depth > DEPTH_CHECKED or isinstance(value, str | bytes | int | float | enum.Enum):
        return ""
    members: Any = ()
    if isinstance(value, Mapping):
        members = [one for pair in islice(value.items(), MEMBERS_CHECKED) for one in pair]
    elif hints := _hints_of(value):
        if wrong := wrong_field(value):
            return wrong
        members = [getattr(value, name, None) for name in hints]
    elif isinstance(value, tuple | list | set | frozenset):
        members = islice(value, MEMBERS_CHECKED)
    return next(filter(None, (wrong_within(one, depth + 1) for one in members)), "")


def _hints_of(value: Any) -> Mapping[str, Any]:
    kind: Any = type(value)
    return field_hints(kind)


@functools.cache
def field_hints(kind: Any) -> Mapping[str, Any]:
    """The types that a dataclass or a `Struct` declares, by field."""
    names = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    names |= set(getattr(kind, "__struct_fields__", ()))
    try:
        return {name: hint for name, hint in get_type_hints(kind).items() if name in names}
    except NameError:
        # A type that is imported for type checkers alone.
        return {}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type; of types that cannot be told, any value is."""
    origin, within = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in within
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in within)
    if hint in (int, float):
        plain = isinstance(value, int) or (hint is float and isinstance(value, float))
        return plain and not isinstance(value, bool)
    kind = hint if origin is None else origin
    if kind is Any or not isinstance(kind, type):
        return True
    return isinstance(value, kind) and (not within or _fits_within(value, within))


def _fits_within(value: Any, within: tuple[Any, ...]) -> bool:
    if isinstance(value, Mapping):
        return all(
            fits(k, within[0]) and fits(v, within[-1])
            for k, v in islice(value.items(), MEMBERS_CHECKED)
        )
    if isinstance(value, tuple) and within[-1] is not Ellipsis:
        return len(value) == len(within) and all(map(fits, value, within))
    if isinstance(value, tuple | list | set | frozenset):
        return all(fits(one, within[0]) for one in islice(value, MEMBERS_CHECKED))
    return True
