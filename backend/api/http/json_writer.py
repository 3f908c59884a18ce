"""Writes large answers as JSON on a thread, a piece at a time.

FastAPI checks an answer against its model and writes it on the event loop, in two calls that keep
the interpreter's lock for as long as they take: a tenth of a second for some ten thousand rows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import cache, wraps
from typing import Any, Final

from fastapi.responses import Response
from pydantic import BaseModel, TypeAdapter

PIECE: Final = 250
"""Entries that are written at once."""
LARGE: Final = 1_000
"""Entries from which an answer is written here."""


def written(
    function: Callable[..., Awaitable[Any]], model: type[BaseModel]
) -> Callable[..., Awaitable[Any]]:
    """A route's function, whose answer is written already where it is large."""

    @wraps(function)
    async def answered(*args: Any, **kwargs: Any) -> Any:
        document = await function(*args, **kwargs)
        if not isinstance(document, dict) or entries_of(document) < LARGE:
            return document
        content = await asyncio.to_thread(lambda: b"".join(json_of(model, document)))
        return Response(content, media_type="application/json")

    return answered


def entries_of(value: Any, depth: int = 4) -> int:
    """How many entries the lists of a document have, as far as they lie near its root."""
    if isinstance(value, dict):
        return sum(entries_of(one, depth - 1) for one in value.values()) if depth else 0
    if not isinstance(value, list | tuple):
        return 0
    inner = sum(entries_of(one, depth - 1) for one in value) if depth and len(value) < LARGE else 0
    return len(value) + inner


def json_of(model: type[BaseModel], document: dict[str, Any]) -> Iterator[bytes]:
    """A document as its model writes it, in pieces.

    Raises:
        ValidationError: it does not fit the model, which is a defect.
    """
    long = {
        name: value
        for name, value in document.items()
        if name in model.model_fields and _is_long(value)
    }
    lists_left_out = {name: _emptied(value) for name, value in long.items()}
    rest = _adapter(model).validate_python({**document, **lists_left_out})
    short = _adapter(model).dump_python(rest, mode="json", by_alias=True)
    for number, name in enumerate(model.model_fields):
        yield b"," if number else b"{"
        yield _plain(name) + b":"
        if name in long:
            yield from _pieces(model.model_fields[name].annotation, long[name])
        else:
            yield _plain(short[name])
    yield b"}"


def _emptied(value: Any) -> Any:
    """A long value with its lists left out."""
    if isinstance(value, dict):
        return {name: _emptied(one) if _is_long(one) else one for name, one in value.items()}
    return []


def _is_long(value: Any) -> bool:
    return entries_of(value) > PIECE


def _pieces(annotation: Any, value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        inner = _model_of(annotation)
        if inner is None:
            yield from _free(value)
        else:
            yield from json_of(inner, value)
        return
    inner = _model_of(annotation)
    yield b"["
    at = 0
    while at < len(value):
        yield b"," if at else b""
        if inner is not None and isinstance(value[at], dict) and _is_long(value[at]):
            yield from json_of(inner, value[at])
            at += 1
            continue
        piece = [value[at]]
        while at + len(piece) < len(value) and len(piece) < PIECE:
            following = value[at + len(piece)]
            if _is_long(following):
                break
            piece.append(following)
        yield _dumped(annotation, piece)[1:-1]
        at += len(piece)
    yield b"]"


def _free(value: Any) -> Iterator[bytes]:
    """A value without a model; long lists in pieces."""
    if isinstance(value, dict):
        for number, (name, one) in enumerate(value.items()):
            yield b"," if number else b"{"
            yield _plain(name) + b":"
            yield from _free(one)
        yield b"}" if value else b"{}"
    elif isinstance(value, list | tuple) and len(value) > PIECE:
        yield b"["
        for at in range(0, len(value), PIECE):
            yield b"," if at else b""
            yield _plain(value[at : at + PIECE])[1:-1]
        yield b"]"
    else:
        yield _plain(value)


def _plain(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _dumped(annotation: Any, value: Any) -> bytes:
    kind = _adapter(annotation)
    return kind.dump_json(kind.validate_python(value), by_alias=True)


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model of a field that holds one, or a list of them, or one or nothing."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for one in getattr(annotation, "__args__", ()):
        if (found := _model_of(one)) is not None:
            return found
    return None
