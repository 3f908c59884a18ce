"""Whether bytes hold the message that a schema says, before anything is made of them.

kafka-python's decoders trust their input. A text that is cut short comes out shorter. A null
where the schema forbids one comes out as None. A length may be of any size. A broker may trust
nobody. This walks the bytes by the same schema and makes no objects; what passes, those decoders
read to the end within `Costs`.

Bytes after the message are ignored, as Kafka's brokers ignore them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from kshunt.backend.wire.reader import Reader, WireError

ENTRIES_MAX: Final = 1_000_000
"""Array entries and tagged fields of one request; each costs a Python object or more."""
TAG_COPIES_BYTES_MAX: Final = 1 << 28
"""kafka-python copies the rest of the request for each section that holds tagged fields."""

_SIZES: Final = {
    "int8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "bitfield": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
_NULL_STRUCT: Final = 0xFF


class BadFrame(Exception):
    """What a client sent is no request; Kafka closes the connection and so do we."""


@dataclass(slots=True)
class Costs:
    """What the decoding of one request may still cost."""

    entries: int = ENTRIES_MAX
    tag_copies_bytes: int = TAG_COPIES_BYTES_MAX

    def spend_entries(self, reader: Reader, count: int) -> None:
        """Raises WireError where there are too many."""
        self.entries -= count
        if self.entries < 0:
            raise reader.error(f"it has more than {ENTRIES_MAX} entries")

    def spend_tags(self, reader: Reader) -> None:
        """Raises WireError where reading the tagged fields costs too much."""
        self.tag_copies_bytes -= len(reader.data) - reader.at
        if self.tag_copies_bytes < 0:
            raise reader.error("it has too many tagged fields for its size")


Check: TypeAlias = Callable[[Reader, Costs], None]
"""Reads past one thing, or raises WireError."""


def check_message(message: Any, version: int, body: bytes) -> None:
    """Check the body of a request.

    `message` is one of kafka-python's message classes, or one declared like them.

    Raises:
        BadFrame: the body is not such a message, or it would cost too much to decode.
    """
    flexible = message.flexible_version_q(version)
    reader = Reader(body, flexible=flexible, what=f"{message.name} v{version}")
    try:
        _message_check(message, version)(reader, Costs())
    except WireError as malformed:
        raise BadFrame(f"{reader.what}: {malformed.message}") from None


@cache
def _message_check(message: Any, version: int) -> Check:
    tagged = message.flexible_version_q(version)
    # The schema that a message class decodes by has no public name.
    return _struct_check(message._struct, version, nested_tags=tagged)


def _struct_check(struct: Any, version: int, *, nested_tags: bool | None) -> Check:
    """`nested_tags` is None inside a tagged field, where kafka-python takes only an empty section.

    The check skips fields of a fixed size next to each other in one step.
    """
    steps: list[int | Check] = []
    for field in struct.untagged_fields(version):
        step = _field_check(field, version, nested_tags=nested_tags)
        if isinstance(step, int) and steps and isinstance(steps[-1], int):
            step += steps.pop()  # type: ignore[operator]
        steps.append(step)
    if nested_tags:
        known = struct.tagged_fields(version)._tags
        steps.append(_tags_check({tag: _tagged_check(f, version) for tag, f in known.items()}))
    elif nested_tags is None:
        steps.append(_no_tags)
    return _sequence(steps)


def _sequence(steps: Sequence[int | Check]) -> Check:
    def check(reader: Reader, costs: Costs) -> None:
        for step in steps:
            if isinstance(step, int):
                reader.skip(step)
            else:
                step(reader, costs)

    return check


def _field_check(field: Any, version: int, *, nested_tags: bool | None) -> int | Check:
    """One field; its size where that is fixed."""
    nullable = field.nullable_for_version_q(version)
    if field.is_struct():
        inside = _struct_check(field, version, nested_tags=nested_tags)
        return _nullable_struct(inside) if nullable else inside
    if hasattr(field, "array_of"):
        element = field.array_of
        if element.is_struct():
            entry: int | Check = _struct_check(element, version, nested_tags=nested_tags)
        else:
            entry = _simple_check(element.type_str, nullable=False)
        return _array_check(entry, nullable=nullable)
    return _simple_check(field.type_str, nullable=nullable)


def _simple_check(kind: str, *, nullable: bool) -> int | Check:
    if kind in _SIZES:
        return _SIZES[kind]
    return _string_check(nullable=nullable) if kind == "string" else _bytes_check(nullable=nullable)


def _tagged_check(field: Any, version: int) -> Check:
    """A field that its own tag precedes."""
    return _sequence([_field_check(field, version, nested_tags=None)])


def _nullable_struct(inside: Check) -> Check:
    """A struct after the byte that says whether there is one (KIP-893)."""

    def check(reader: Reader, costs: Costs) -> None:
        if reader.data[reader.skip(1)] != _NULL_STRUCT:
            inside(reader, costs)

    return check


def _array_check(entry: int | Check, *, nullable: bool) -> Check:
    def check(reader: Reader, costs: Costs) -> None:
        count = reader.uvarint() - 1 if reader.flexible else reader.int32()
        if count == -1 and nullable:
            return
        # No entry takes less than one byte.
        if count < 0 or count > len(reader.data) - reader.at:
            raise reader.error(f"an array of {count} entries does not fit")
        costs.spend_entries(reader, count)
        if isinstance(entry, int):
            reader.skip(count * entry)
            return
        for _ in range(count):
            entry(reader, costs)

    return check


def _string_check(*, nullable: bool) -> Check:
    def check(reader: Reader, costs: Costs) -> None:
        length = reader.uvarint() - 1 if reader.flexible else reader.int16()
        _skip_text(reader, length, nullable=nullable)

    return check


def _bytes_check(*, nullable: bool) -> Check:
    def check(reader: Reader, costs: Costs) -> None:
        length = reader.uvarint() - 1 if reader.flexible else reader.int32()
        _skip_text(reader, length, nullable=nullable)

    return check


def _skip_text(reader: Reader, length: int, *, nullable: bool) -> None:
    if length == -1 and nullable:
        return
    if length < 0:
        raise reader.error(f"a length of {length} where a value is required")
    reader.skip(length)


def _tags_check(known: dict[int, Check]) -> Check:
    """A section of tagged fields; those of the schema must fill exactly the size they give."""

    def check(reader: Reader, costs: Costs) -> None:
        count = reader.uvarint()
        if not count:
            return
        costs.spend_tags(reader)
        costs.spend_entries(reader, count)
        for _ in range(count):
            tag, size = reader.uvarint(), reader.uvarint()
            end = reader.at + size
            inside = known.get(tag)
            if inside is None:
                reader.skip(size)
            else:
                inside(reader, costs)
            if reader.at != end:
                raise reader.error(f"the field of tag {tag} does not have its size")

    return check


def _no_tags(reader: Reader, costs: Costs) -> None:
    if reader.uvarint():
        raise reader.error("there are tagged fields within a tagged field")
