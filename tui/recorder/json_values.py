"""Domain values as JSON and back, exactly: what a recording holds in addition to columns.

Goals
    Whatever a feed tells can be recorded without a line of code here, and a later version with
    more fields reads what an earlier one wrote.
Constraints
    A file is not trusted: it can only name plain values of `kshunt.backend.domain`.
Algorithm
    A dataclass, a `Struct` or an enumeration is written under its name, which no other of the
    domain has, so that modules may move. A reader ignores fields that it does not know; fields
    that are missing take their defaults. Earlier versions wrote the module before the name,
    and texts where there are enumerations now.
"""

from __future__ import annotations

import enum
import importlib
import math
import pkgutil
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, get_args

from msgspec import Struct

import kshunt.backend.domain
from kshunt.backend.domain.operations.operation import OperationDetails, details_of_0_1
from kshunt.backend.domain.untrusted.field_types import field_hints, wrong_field
from kshunt.backend.domain.untrusted.json_codec import from_document
from kshunt.backend.errors import KshuntError

JSON_BYTES_MAX: Final = 1 << 26
"""Of what a record holds in addition to columns: a plan of 200,000 partitions is about 12 MB."""
_DOMAIN: Final = "kshunt.backend.domain."
EARLIER_NAMES: Final[Mapping[str, str]] = {
    "domain.approval:Foreseen": "ProposalEffect",
    "domain.election:SeenEnd": "LastSeenEnd",
    "domain.hook:HookStanding": "WebhookStatus",
    "domain.lifecycle:Step": "OperationStep",
    "domain.operation:Asker": "Requester",
    "domain.pipeline:Course": "TransferHistory",
    "domain.pipeline:CourseAnswer": "TransferAnswer",
    "domain.pipeline:CoursePoint": "TransferPoint",
    "domain.pipeline:Delivered": "TableStatus",
    "domain.pipeline:Missed": "SampleGap",
    "domain.pipeline:PipelineStanding": "PipelineStatus",
    "domain.pipeline:SamplesStanding": "SamplesStatus",
    "domain.proposal:Note": "PlanNote",
    "domain.shrink_phases:ShrinkCourse": "ShrinkProgress",
    "domain.shrink_room:Room": "CopySpace",
    "domain.operation_control:Standing": "BackendStatus",
    "domain.stuck:About": "CauseText",
    "domain.team:Present": "ConnectedSession",
}
"""Values as recordings of version 0.1 name them, and what they are called now."""


class UnreadableRecordedValue(ValueError):
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
    if isinstance(value, Struct):
        members = {name: encode(getattr(value, name)) for name in value.__struct_fields__}
        return {"o": _tag(type(value)), "v": members}
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
        UnreadableRecordedValue: it was written by a version that knows more, or is damaged.
    """
    if isinstance(document, list):
        return tuple(decode(one) for one in document)
    if not isinstance(document, dict):
        return document
    try:
        return _decode_tagged(document)
    except UnreadableRecordedValue:
        raise
    # Values check themselves, each in its own way.
    except (
        *(LookupError, TypeError, ValueError, AttributeError, ImportError, ArithmeticError),
        *(AssertionError, RecursionError, KshuntError),
    ) as error:
        raise UnreadableRecordedValue(f"a recorded value cannot be read: {error}") from None


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
            raise UnreadableRecordedValue(f"'{unknown}' is not a kind of value")


def _object(kind: Any, members: Mapping[str, Any]) -> Any:
    if is_dataclass(kind):
        known = {field.name for field in fields(kind) if field.init}
    else:
        known = set(getattr(kind, "__struct_fields__", ()))
    hints = field_hints(kind)
    made = kind(
        **{
            name: _as_declared(decode(one), hints.get(name))
            for name, one in members.items()
            if name in known
        }
    )
    check_fields(made)
    return made


def _as_declared(value: Any, hint: Any) -> Any:
    """A member; version 0.1 wrote a text for some enumerations, and a dict for details."""
    kinds = (hint, *get_args(hint))
    if type(value) is str and str not in kinds:
        named = (one for one in kinds if isinstance(one, type) and issubclass(one, enum.Enum))
        return next((one(value) for one in named), value)
    if isinstance(value, Mapping) and OperationDetails in kinds:
        return from_document(OperationDetails, details_of_0_1(value))
    return value


def check_fields(value: Any) -> None:
    """See that the fields of a value are of the types that it declares.

    The code that shows a value relies on them. Values within it were checked when they were made.

    Raises:
        UnreadableRecordedValue: one is not.
    """
    if wrong := wrong_field(value):
        raise UnreadableRecordedValue(f"{wrong} does not have the expected value")


def _tag(kind: type[Any]) -> str:
    if kind.__module__.startswith(_DOMAIN):
        return kind.__qualname__
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be recorded")


def _named(tag: str) -> type[Any]:
    """The class of a tag: a plain value of the domain."""
    kind = values_by_name().get(EARLIER_NAMES.get(tag) or tag.rpartition(":")[2])
    if kind is None:
        raise UnreadableRecordedValue(f"'{tag}' is not recorded by kshunt")
    return kind


@cache
def values_by_name() -> Mapping[str, type[Any]]:
    """The classes that a recording may name: every plain value of `kshunt.backend.domain`.

    Raises:
        ValueError: two have the same name, which is a defect.
    """
    found: dict[str, type[Any]] = {}
    for module in pkgutil.walk_packages(kshunt.backend.domain.__path__, _DOMAIN):
        for name, kind in vars(importlib.import_module(module.name)).items():
            if not isinstance(kind, type) or kind.__module__ != module.name:
                continue
            if not (is_dataclass(kind) or issubclass(kind, enum.Enum) or issubclass(kind, Struct)):
                continue
            if name in found:
                raise ValueError(f"{name} is a value of {found[name].__module__} and {module.name}")
            found[name] = kind
    return found
