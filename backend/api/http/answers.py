"""Answers of routes: written as JSON by the codec, and described in OpenAPI by their classes.

Answers with many entries are written on a thread, a piece at a time. One call into C would hold up
the event loop until it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, Final, get_origin

from fastapi import FastAPI
from fastapi.responses import Response
from msgspec import Struct, structs

from kshunt.backend.api.http.answer_schemas import schemas
from kshunt.backend.domain.untrusted.json_codec import to_json

MEDIA_TYPE: Final = "application/json"
PIECE: Final = 2_000
"""Entries that are written in one piece: some hundred microseconds."""
LARGE: Final = 1_000
"""Entries from which an answer is written on a thread."""
REFERENCE: Final = "#/components/schemas/{name}"

Answering = Callable[..., Awaitable[Any]]


def answered(function: Answering, kind: type[Any]) -> Answering:
    """A route's function that returns a value of a class, as one that returns its JSON.

    Responses, such as problem documents, pass as they are.
    """

    promised: type[Any] = get_origin(kind) or kind

    @wraps(function)
    async def respond(*args: Any, **kwargs: Any) -> Response:
        value = await function(*args, **kwargs)
        if isinstance(value, Response):
            return value
        if not isinstance(value, promised):
            raise TypeError(
                f"{promised.__name__} is promised, but {type(value).__name__} was returned"
            )
        if entries_of(value) < LARGE:
            return Response(to_json(value), media_type=MEDIA_TYPE)
        content = await asyncio.to_thread(lambda: b"".join(pieces_of(value)))
        return Response(content, media_type=MEDIA_TYPE)

    return respond


def entries_of(value: Any, depth: int = 4) -> int:
    """How many entries the collections of a value have, as far as they lie near its root."""
    if isinstance(value, Mapping):
        inner: Any = value.values()
    elif isinstance(value, tuple | list | frozenset):
        inner = value
    elif _has_members(value):
        return sum(entries_of(one, depth - 1) for one in _members(value).values()) if depth else 0
    else:
        return 0
    within = sum(entries_of(one, depth - 1) for one in inner) if depth and len(inner) < LARGE else 0
    return len(inner) + within


def pieces_of(value: Any) -> Iterator[bytes]:
    """A value's JSON, in pieces of at most about `PIECE` entries."""
    if entries_of(value) <= PIECE:
        yield to_json(value)
    elif _has_members(value):
        yield from _object(_members(value))
    elif isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        yield from _object(value)
    elif isinstance(value, tuple | list):
        yield from _array(value)
    else:
        yield to_json(value)


def _has_members(value: Any) -> bool:
    return is_dataclass(value) or isinstance(value, Struct)


def _members(value: Any) -> dict[str, Any]:
    if not isinstance(value, Struct):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    members = structs.asdict(value)
    if not value.__struct_config__.omit_defaults:
        return members
    plain = value.__struct_defaults__
    omitted = dict(zip(reversed(members), reversed(plain), strict=False))
    return {n: one for n, one in members.items() if n not in omitted or one != omitted[n]}


def _object(members: Mapping[str, Any]) -> Iterator[bytes]:
    for number, (name, member) in enumerate(members.items()):
        yield (b"," if number else b"{") + to_json(name) + b":"
        yield from pieces_of(member)
    yield b"}"


def _array(entries: tuple[Any, ...] | list[Any]) -> Iterator[bytes]:
    yield b"["
    at = 0
    while at < len(entries):
        yield b"," if at else b""
        if entries_of(entries[at]) > PIECE:
            yield from pieces_of(entries[at])
            at += 1
            continue
        size, until = 0, at
        while until < len(entries) and size <= PIECE:
            size += 1 + entries_of(entries[until])
            until += 1
        yield to_json(entries[at:until])[1:-1]
        at = until
    yield b"]"


# --- OpenAPI


def documented(app: FastAPI, kinds: Mapping[int, type[Any]]) -> dict[int | str, dict[str, Any]]:
    """What a route says of its answers, by status; `describe_answers` adds their schemas."""
    found: dict[int | str, dict[str, Any]] = {}
    for status, kind in kinds.items():
        schema = _schemas_by_kind(app).setdefault(kind, {})
        words = (kind.__doc__ or "").partition("\n")[0]
        found[status] = {"description": words, "content": {MEDIA_TYPE: {"schema": schema}}}
    return found


def describe_answers(app: FastAPI, *others: type[Any]) -> None:
    """Add the schemas of all answers to OpenAPI, and of other classes that it refers to.

    They are made when somebody asks for the description. To make them takes longer than all else
    that declares the routes, and a backend that starts has no use for them.
    """
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return plain()
        by_kind = _schemas_by_kind(app)
        references, held = schemas([*by_kind, *others], REFERENCE)
        for schema, reference in zip(by_kind.values(), references, strict=False):
            schema.update(reference)
        document = plain()
        document.setdefault("components", {}).setdefault("schemas", {}).update(held)
        return document

    app.openapi = described  # type: ignore[method-assign]


def _schemas_by_kind(app: FastAPI) -> dict[type[Any], dict[str, Any]]:
    """Of each class that a route answers with, the schema that all such routes hold."""
    if not hasattr(app.state, "answers"):
        app.state.answers = {}
    found: dict[type[Any], dict[str, Any]] = app.state.answers
    return found
