"""An API's answer when the whole request fails, as Kafka's `getErrorResponse` makes it.

Kafka has this by hand for each request. Here the schemas give it. An answer with an error code
of its own says it there. Any other answer has a code for each thing asked about. So it takes the
shape of the request, entry by entry, with the code in each.
"""

from __future__ import annotations

from typing import Any, Final

_CODES: Final = frozenset({"error_code", "error", "partition_error_code"})
_MESSAGES: Final = frozenset({"error_message", "detail"})
_UNKNOWN: Final = frozenset(
    {"base_offset", "committed_offset", "high_watermark", "low_watermark", "timestamp"}
)
"""Numbers that an entry with an error does not know: -1, where the schema's default is 0."""
_SAME: Final = (
    frozenset({"partition_index", "partition", "partition_id", "index"}),
    frozenset({"name", "topic", "topic_name"}),
)
"""Names that requests and answers have for one thing."""


def error_answer(request: Any, response_class: Any, version: int, code: int, why: str) -> Any:
    """The answer to `request` that says the error wherever the API has a place for it."""
    answer = response_class(version=version)
    fields = _fields(response_class._struct, version)
    if not _says(answer, fields, code, why):
        places = (name for name, field in fields.items() if _has_place(field, version))
        if (name := next(places, None)) is not None:
            setattr(answer, name, _mirrored(request, fields[name], version, code, why))
    return answer


def item_errors(
    request: Any, response_class: Any, version: int, code: int, why: str
) -> tuple[str, list[Any]]:
    """The error for each thing that `request` asks about, and the answer's array for them.

    Raises:
        ValueError: the answer has no such array.
    """
    fields = _fields(response_class._struct, version)
    for name, field in fields.items():
        if _has_place(field, version):
            return name, _mirrored(request, field, version, code, why)
    raise ValueError(f"{response_class.__name__} v{version} has no place for an item's error")


def _has_place(field: Any, version: int) -> bool:
    """Whether the entries of an array have error codes, at any depth."""
    if not field.is_struct_array():
        return False
    inside = _fields(field.array_of, version)
    return bool(inside.keys() & _CODES) or any(_has_place(f, version) for f in inside.values())


def _fields(struct: Any, version: int) -> dict[str, Any]:
    return {field.name: field for field in struct.untagged_fields(version)}


def _says(answer: Any, fields: dict[str, Any], code: int, why: str) -> bool:
    """Put the error into the fields for it; whether there are any."""
    for name in fields.keys() & _MESSAGES:
        setattr(answer, name, why)
    for name in fields.keys() & _CODES:
        setattr(answer, name, code)
    return bool(fields.keys() & _CODES)


def _mirrored(asked: Any, field: Any, version: int, code: int, why: str) -> list[Any]:
    """The entries of an answer's array for those of the first array of the request."""
    return [_entry(item, field, version, code, why) for item in _first_array(asked)]


def _first_array(asked: Any) -> list[Any]:
    """The first array that is not empty: versions differ in which one names the things."""
    for field in asked._struct.untagged_fields(asked.version):
        if hasattr(field, "array_of"):
            found: list[Any] | None = getattr(asked, field.name)
            if found:
                return found
    return []


def _entry(item: Any, field: Any, version: int, code: int, why: str) -> Any:
    entry = field.data_class(version=version)
    fields = _fields(field.array_of, version)
    says = _says(entry, fields, code, why)
    for name in fields.keys() & _UNKNOWN:
        setattr(entry, name, -1)
    for name in fields.keys() - _CODES - _MESSAGES:
        if fields[name].is_struct_array():
            if not says and hasattr(item, "_struct"):
                setattr(entry, name, _mirrored(item, fields[name], version, code, why))
        elif hasattr(item, "_struct"):
            _copy(item, entry, name)
    if not hasattr(item, "_struct"):
        setattr(entry, _key_of(fields), item)
    return entry


def _copy(item: Any, entry: Any, name: str) -> None:
    """The value that the request has under this name, or under another for the same thing."""
    names = next((same for same in _SAME if name in same), {name})
    for field in item._struct.untagged_fields(item.version):
        if field.name in names:
            setattr(entry, name, getattr(item, field.name))


def _key_of(fields: dict[str, Any]) -> str:
    """What identifies an entry whose request names it by a bare number or text."""
    return next(name for name in fields if name not in _CODES | _MESSAGES)
