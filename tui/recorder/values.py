"""Domain values as JSON and back, exactly: what a recording holds besides columns.

Goals
    Whatever a feed tells can be recorded without a line of code here, and a later version with
    more fields reads what an earlier one wrote.
Constraints
    A file is not trusted: it can only name plain values of `backend.domain` (and `ClusterInfo`).
Algorithm
    A dataclass, a named tuple or an enumeration is written under its module and name. Fields that
    are not known are passed over when reading; fields that are missing take their defaults.
"""

from __future__ import annotations

import enum
import importlib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from backend.domain.typed import wrong_field
from backend.errors import KshuntError

JSON_BYTES_MAX: Final = 1 << 26
"""Of what a record holds besides columns: a plan of 200,000 partitions is about 12 MB."""
_DOMAIN: Final = "backend.domain."
_CLIENT: Final = "backend.api.client"
_CLIENT_NAMES: Final = frozenset({"ClusterInfo"})


class UnreadableValue(ValueError):
    """A recorded value names something that this version does not have."""


def encode(value: Any) -> Any:
    """The value as JSON.

    Raises:
        TypeError: it is none that can be recorded.
    """
    if isinstance(value, enum.Enum):
        return {"e": _tag(type(value)), "v": encode(value.value)}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"f": str(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        members = zip(value._fields, value, strict=True)
        return {"o": _tag(type(value)), "v": {name: encode(one) for name, one in members}}
    if is_dataclass(value) and not isinstance(value, type):
        named = {f.name: encode(getattr(value, f.name)) for f in fields(value) if f.init}
        return {"o": _tag(type(value)), "v": named}
    return _encode_many(value)


def _encode_many(value: Any) -> Any:
    if isinstance(value, tuple):
        return [encode(one) for one in value]
    if isinstance(value, list):
        return {"l": [encode(one) for one in value]}
    if isinstance(value, Mapping):
        return {"d": [[encode(key), encode(one)] for key, one in value.items()]}
    if isinstance(value, set | frozenset):
        return {"s": sorted((encode(one) for one in value), key=repr)}
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def decode(document: Any) -> Any:
    """The opposite of `encode`.

    Raises:
        UnreadableValue: it was written by a version that knows more, or is damaged.
    """
    if isinstance(document, list):
        return tuple(decode(one) for one in document)
    if not isinstance(document, dict):
        return document
    try:
        return _decode_tagged(document)
    except UnreadableValue:
        raise
    # Values check themselves, each in its own way.
    except (
        *(LookupError, TypeError, ValueError, AttributeError, ImportError, ArithmeticError),
        *(AssertionError, RecursionError, KshuntError),
    ) as error:
        raise UnreadableValue(f"a recorded value cannot be read: {error}") from None


def _decode_tagged(document: Mapping[str, Any]) -> Any:
    match next(iter(document), ""):
        case "f":
            return float(document["f"])
        case "e":
            return _named(document["e"])(decode(document["v"]))
        case "o":
            return _object(_named(document["o"]), document["v"])
        case "l":
            return [decode(one) for one in document["l"]]
        case "d":
            return {decode(key): decode(one) for key, one in document["d"]}
        case "s":
            return frozenset(decode(one) for one in document["s"])
        case unknown:
            raise UnreadableValue(f"'{unknown}' is no kind of value")


def _object(kind: type[Any], members: Mapping[str, Any]) -> Any:
    if is_dataclass(kind):
        known = {field.name for field in fields(kind) if field.init}
    else:
        known = set(getattr(kind, "_fields", ()))
    made = kind(**{name: decode(one) for name, one in members.items() if name in known})
    check_fields(made)
    return made


def check_fields(value: Any) -> None:
    """See that the fields of a value are of the types that it declares.

    Whoever shows a value relies on them. Values within it were checked when they were made.

    Raises:
        UnreadableValue: one is not.
    """
    if wrong := wrong_field(value):
        raise UnreadableValue(f"{wrong} is not what it has to be")


def _tag(kind: type[Any]) -> str:
    module, name = kind.__module__, kind.__qualname__
    if module.startswith(_DOMAIN) or (module == _CLIENT and name in _CLIENT_NAMES):
        return f"{module.removeprefix('backend.')}:{name}"
    raise TypeError(f"{module}.{name} cannot be recorded")


def _named(tag: str) -> type[Any]:
    """The class of a tag: a plain value, and of no other module than `_tag` writes."""
    module, _, name = tag.partition(":")
    path = f"backend.{module}"
    if not (path.startswith(_DOMAIN) or (path == _CLIENT and name in _CLIENT_NAMES)):
        raise UnreadableValue(f"'{tag}' is nothing that is recorded")
    kind = getattr(importlib.import_module(path), name)
    plain = isinstance(kind, type) and (
        is_dataclass(kind) or issubclass(kind, enum.Enum) or hasattr(kind, "_fields")
    )
    if not plain:
        raise UnreadableValue(f"'{tag}' is no value")
    return kind  # type: ignore[no-any-return]
