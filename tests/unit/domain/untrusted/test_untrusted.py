"""Values that strangers wrote: JSON within bounds, and fields of the types that are declared."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
import pytest

from kshunt.backend.domain.untrusted.field_types import (
    DEPTH_CHECKED,
    MEMBERS_CHECKED,
    fits,
    wrong_field,
    wrong_within,
)
from kshunt.backend.domain.untrusted.json_codec import (
    UnreadableValue,
    from_document,
    is_same,
    read_exactly,
    to_document,
    to_json,
)
from kshunt.backend.domain.untrusted.strict_json import (
    DEPTH_MAX,
    DIGITS_MAX,
    UnreadableJson,
    read_json,
)

# JSON


def unread(document: str | bytes, **bounds: int) -> str:
    """Why a document cannot be read."""
    with pytest.raises(UnreadableJson) as refused:
        read_json(document, **{"bytes_max": 10**6, **bounds})
    return str(refused.value)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("document", [b"\xef\xbb\xbf[1]", "[1]"])
def test_a_document_is_read_whole(document: str | bytes) -> None:
    assert read_json(document, bytes_max=len(document)) == [1]


def test_a_document_is_refused_from_its_bounds_on() -> None:
    assert unread("[12]", bytes_max=3) == "it is longer than 3 bytes"
    # A value more than there are commas, and one for each list and object.
    assert read_json("[1,2,3]", bytes_max=9, values_max=3) == [1, 2, 3]
    assert unread("[1,2,3]", values_max=2) == "it has more than 2 values"
    assert unread('{"a":{}}', values_max=1) == "it has more than 1 values"
    digits = "9" * DIGITS_MAX
    assert read_json(digits, bytes_max=10**6) == int(digits)
    assert unread(digits + "9") == f"it has a number of {DIGITS_MAX + 1:,} digits"
    assert read_json(nested(DEPTH_MAX), bytes_max=10**6)
    assert unread(nested(DEPTH_MAX + 1)) == "its values are nested too deeply"
    assert unread('{"a":' * DEPTH_MAX + nested(1) + "}" * DEPTH_MAX) == (
        "its values are nested too deeply"
    )


def test_what_is_no_json_is_refused_with_the_place() -> None:
    with pytest.raises(UnreadableJson) as refused:
        read_json('{"a": 1,\n "b" 2}', bytes_max=99)
    assert (refused.value.line, refused.value.column) == (2, 6)
    assert str(refused.value).startswith("not JSON: ")
    assert unread(b"[\xff]") == "it is not UTF-8 from byte 1"
    assert unread("[NaN]") == "NaN is not a JSON number"
    assert unread('{"a":1,"b":2,"a":3}') == "it has the name 'a' twice in one object"
    assert unread(r'["\ud800"]').startswith("a text has half a character")
    assert read_json(r'["\ud83d\ude00"]', bytes_max=99) == ["\U0001f600"]


# Types


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (int, [0, -1], [True, 1.0, "1", None]),
        (float, [1, 1.5], [False, "1", None]),
        (bool, [True], [1, None]),
        (str, ["", "x"], [b"x", None]),
        (Any, [None, 1, object()], []),
        (int | None, [1, None], ["x", 1.5]),
        (Literal["a", "b"], ["a"], ["c", None]),
        (Colour, [Colour.RED], ["red"]),
        (tuple[int, str], [(1, "a")], [(1,), (1, "a", "b"), ("a", 1), [1, "a"]]),
        (tuple[int, ...], [(), (1, 2)], [(1, "a"), [1]]),
        (list[int], [[], [1]], [["a"], (1,)]),
        (frozenset[str], [frozenset({"a"})], [frozenset({1}), {"a"}]),
        (Mapping[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}, []]),
        (Mapping[str, tuple[int, ...]], [{"a": (1,)}], [{"a": (1, "b")}, {"a": 1}]),
    ],
)
def test_a_value_fits_a_type_or_does_not(hint: Any, right: list[Any], wrong: list[Any]) -> None:
    assert [one for one in right if not fits(one, hint)] == []
    assert [one for one in wrong if fits(one, hint)] == []


def test_members_beyond_the_first_many_are_taken_as_they_are() -> None:
    numbers: list[Any] = [0] * MEMBERS_CHECKED
    assert not fits([*numbers[1:], "x"], list[int])
    assert fits([*numbers, "x"], list[int])
    names: dict[Any, Any] = dict.fromkeys(range(MEMBERS_CHECKED), 0)
    assert fits({**names, "x": "x"}, Mapping[int, int])
    del names[0]
    assert not fits({**names, "x": "x"}, Mapping[int, int])


@dataclass
class Inner:
    number: int = 0


@dataclass
class Outer:
    name: str = ""
    inner: Inner = field(default_factory=Inner)
    more: Any = ()


class Packed(msgspec.Struct):
    count: int = 0


def test_the_field_that_is_wrong_is_named() -> None:
    wrong: Any = "x"
    assert wrong_field(Outer()) == wrong_within(Outer()) == ""
    assert wrong_field(Outer(name=wrong and None)) == "Outer.name"  # type: ignore[arg-type]
    assert wrong_field(Outer(inner=Inner(wrong))) == ""
    assert wrong_within(Outer(inner=Inner(wrong))) == "Inner.number"
    assert wrong_field(Packed(wrong)) == "Packed.count"
    for within in ([Inner(wrong)], {"k": Inner(wrong)}, {("k", 1): (Inner(wrong),)}):
        assert wrong_within(Outer(more=within)) == "Inner.number"
    assert wrong_within({Colour.RED: 1, b"x": 1.5}) == ""


def test_what_lies_too_deep_is_taken_as_it_is() -> None:
    deep: Any = Inner("x")  # type: ignore[arg-type]
    for _ in range(DEPTH_CHECKED):
        deep = [deep]
    assert wrong_within(deep) == "Inner.number"
    assert wrong_within([deep]) == ""


# The codec


@dataclass(frozen=True)
class Place:
    topic: str
    replicas: tuple[int, ...] = ()
    sizes: Mapping[int, float] = field(default_factory=dict)


def test_numbers_of_numpy_are_written_as_numbers_and_others_not_at_all() -> None:
    place = Place("a", (np.int32(3),))  # type: ignore[arg-type]
    assert json.loads(to_json(place)) == {"topic": "a", "replicas": [3], "sizes": {}}
    assert to_document(place)["replicas"] == (3,)
    with pytest.raises(NotImplementedError, match="object is not a JSON value"):
        to_json(Place("a", (object(),)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((1, 2), [1, 2], True),
        ((1, 2), [1, 2, 3], False),
        ((1, 2), [1], False),
        ((1, 2), [1, 3], False),
        ({"a": (1,)}, {"a": [1]}, True),
        ({"a": (1,)}, {"a": [2]}, False),
        ({"a": (1,)}, {"b": [1]}, False),
        ({"a": (1,)}, {"a": [1], "b": 2}, False),
        ({"a": (1,)}, [1], False),
        ((1,), {"a": 1}, False),
        ((1,), "1", False),
        ([(1,), [2]], ([1], (2,)), True),
    ],
)
def test_documents_are_the_same_where_their_json_is(one: Any, other: Any, same: bool) -> None:
    assert is_same(one, other) is same
    assert is_same(other, one) is same


def test_what_is_not_as_declared_is_said_with_its_place() -> None:
    assert read_exactly(Place, {"topic": "a", "replicas": [1], "sizes": {"1": 2.5}}) == Place(
        "a", (1,), {1: 2.5}
    )
    assert from_document(Place, {"topic": "a", "other": 1}) == Place("a")
    for document, words in (
        ({"topic": 1}, "topic: expected `str`, got `int`".replace("`", "")),
        ({"topic": "a", "replicas": ["x"]}, "replicas[0]: expected int, got str"),
        ({}, "Object missing required field topic"),
        (5, "Expected object, got int"),
    ):
        with pytest.raises(UnreadableValue) as refused:
            from_document(Place, document)
        assert str(refused.value) == words
    with pytest.raises(UnreadableValue, match="missing, unknown, or has another form"):
        read_exactly(Place, {"topic": "a"})
