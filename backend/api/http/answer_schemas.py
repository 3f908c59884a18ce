"""JSON Schemas of the values that routes answer with, for OpenAPI: from their classes alone."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec


def reference_to(kind: Any, reference: str) -> dict[str, Any]:
    """How a schema refers to that of a class; see `schemas`."""
    found: dict[str, Any] = msgspec.json.schema_components([kind], ref_template=reference)[0][0]
    return found


def schemas(
    kinds: Iterable[type[Any]], reference: str
) -> tuple[Sequence[dict[str, Any]], dict[str, Any]]:
    """JSON Schemas of classes: how one refers to each, and those of all that they hold, by name.

    Args:
        kinds: The classes.
        reference: How one schema refers to another, with `{name}` for its name.
    """
    references, held = msgspec.json.schema_components(list(kinds), ref_template=reference)
    classes = _classes_within(kinds)
    for name, schema in held.items():
        described = _descriptions(classes[name]) if name in classes else {}
        for member, member_schema in schema.get("properties", {}).items():
            if member in described:
                # A reference next to other words is only allowed within a list.
                if "$ref" in member_schema:
                    member_schema["allOf"] = [{"$ref": member_schema.pop("$ref")}]
                member_schema["description"] = described[member]
    return references, held


def _classes_within(kinds: Iterable[type[Any]]) -> dict[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    for one in msgspec.inspect.multi_type_info(list(kinds)):
        _collect(one, found)
    return found


def _collect(info: Any, found: dict[str, type[Any]]) -> None:
    if isinstance(info, msgspec.inspect.DataclassType | msgspec.inspect.StructType):
        if info.cls.__name__ in found:
            return
        found[info.cls.__name__] = info.cls
        for member in info.fields:
            _collect(member.type, found)
    elif isinstance(info, msgspec.inspect.UnionType):
        for one in info.types:
            _collect(one, found)
    elif isinstance(info, msgspec.inspect.TupleType):
        for one in info.item_types:
            _collect(one, found)
    elif isinstance(info, msgspec.inspect.CollectionType):
        _collect(info.item_type, found)
    elif isinstance(info, msgspec.inspect.DictType):
        _collect(info.value_type, found)


def _descriptions(kind: Any) -> Mapping[str, str]:
    """What the source says below each field of a class, those of its bases too."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        if not one.__module__.startswith("kshunt."):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
        members = body.body if isinstance(body, ast.ClassDef) else []
        for member, following in pairwise(members):
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                words = _words_of(following)
                if words:
                    found[member.target.id] = words
    return found


def _words_of(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        words = statement.value.value
        return " ".join(words.split()) if isinstance(words, str) else ""
    return ""
