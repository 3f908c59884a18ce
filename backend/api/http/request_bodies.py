"""Reads the bodies of requests: within limits, and off the event loop where they are large.

Goals
    No body that is accepted holds up the event loop: health checks, streams and the engine run on
    it. A body that is too large for its route is refused before it is read.
Constraints
    A thread helps only where it gives up the interpreter's lock: one call into C keeps it until
    the call returns. Parsing is one such call; so is checking a list against its model.
Algorithm
    Each route declares how much it takes (`routes.Routes.post`). `RequestBodies` reads up to that
    size, and only some large bodies of one caller at the same time. It refuses a body over
    `LARGE_BYTES` unparsed where that would be more values than `Limits.body_values`, which bounds
    the longest call. `BodyRoute` hands a body over `LARGE_BYTES` to a thread. The thread checks
    each long list a piece at a time, and the first piece with a fault ends it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, TypeVar, get_args

from annotated_types import MaxLen
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.api.http.body_replay import replayed
from kshunt.backend.api.http.problems import problem
from kshunt.backend.api.http.route_roles import Declared
from kshunt.backend.limits import LIMITS

LARGE_BYTES: Final = 64 * 1024
"""A body up to here is parsed where it is: it takes a millisecond."""
PIECE: Final = 250
"""Entries of a list that are checked in one piece."""

_COMPARING: Final = ("validators", "field_validators", "root_validators", "model_validators")
T = TypeVar("T")
Application = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


class RequestBodies:
    """An ASGI layer; see the module's text."""

    def __init__(self, app: Application, declared: Declared) -> None:
        self._app = app
        self._declared = declared
        self._large = Counter[str]()
        """Large bodies that are being read or used, by caller."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, with its body read."""
        most = self._declared.body_bytes(scope) if scope["type"] == "http" else 0
        if not most:
            await self._app(scope, receive, send)
            return
        announced = _announced_bytes(scope)
        if announced is not None and announced > most:
            await _too_large(most)(scope, receive, send)
            return
        caller, large = CURRENT_CALLER.get().id, announced is None or announced > LARGE_BYTES
        if large and self._large[caller] >= LIMITS.large_bodies_per_caller:
            await _too_many()(scope, receive, send)
            return
        self._large[caller] += large
        try:
            await self._read(most, scope, receive, send)
        finally:
            self._large[caller] -= large
            if not self._large[caller]:
                del self._large[caller]

    async def _read(self, most: int, scope: Any, receive: Any, send: Any) -> None:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                await _too_large(most)(scope, receive, send)
                return
            if not message.get("more_body", False):
                break
        body = b"".join(parts)
        if size > LARGE_BYTES and values_of(body) > LIMITS.body_values:
            await _too_large(most)(scope, receive, send)
            return
        await self._app(scope, replayed(body, receive), send)


def _announced_bytes(scope: Any) -> int | None:
    """The length that the header gives; 0 without a body; None where the header does not say."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else None


def values_of(body: bytes) -> int:
    """How many values a JSON text has, at most and about."""
    return sum(body.count(mark) for mark in (b",", b"[", b"{"))


def _too_large(most: int) -> Response:
    return problem(
        413,
        "Too large",
        f"This request may hold at most {most} bytes and {LIMITS.body_values} values. Nothing was "
        "changed.",
        advice="Split it: send one part, and send the next part when the first one is done.",
    )


def _too_many() -> Response:
    answer = problem(
        429,
        "Too many requests at the same time",
        f"{LIMITS.large_bodies_per_caller} large requests of this caller are already running.",
        advice="Try again when they are done.",
        retriable=True,
    )
    answer.headers["retry-after"] = "1"
    return answer


class BodyRoute(APIRoute):
    """FastAPI's, which reads large bodies on a thread."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        plain = super().get_route_handler()
        model = None if self.body_field is None else self.body_field.field_info.annotation
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return plain
        wanted: type[BaseModel] = model

        async def handler(request: Request) -> Response:
            body = await request.body()
            if len(body) > LARGE_BYTES and _is_json(request):
                # What FastAPI takes for the parsed body; a model's instance passes as it is.
                request._json = await asyncio.to_thread(read_body, wanted, body)
            return await plain(request)

        return handler


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json"


def read_body(model: type[BaseModel], body: bytes) -> BaseModel:
    """A large body as its model; on a thread.

    Raises:
        RequestValidationError: it is no JSON, or does not fit the model.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise _refused("json_invalid", (), "JSON decode error") from None
    return validated(model, document)


def _refused(kind: str, where: tuple[str, ...], words: str) -> RequestValidationError:
    return RequestValidationError([{"type": kind, "loc": ("body", *where), "msg": words}])


def validated(model: type[BaseModel], document: Any, where: tuple[str, ...] = ()) -> BaseModel:
    """A document as its model, with each long list checked in pieces.

    Raises:
        RequestValidationError: it does not fit.
    """
    if not isinstance(document, dict) or _looks_at_all(model):
        return _checked(lambda: model.model_validate(document), where)
    head, rest = dict(document), {}
    for name, value in document.items():
        field = model.model_fields.get(name)
        if field is None:
            continue
        if isinstance(value, list) and len(value) > PIECE:
            most = next((one.max_length for one in field.metadata if isinstance(one, MaxLen)), None)
            if most is not None and len(value) > most:
                raise _refused("too_long", (*where, name), f"At most {most} items are allowed")
            head[name], rest[name] = value[:PIECE], value
        elif isinstance(value, dict) and (inner := _model_of(field.annotation)) is not None:
            head[name] = validated(inner, value, (*where, name))
    found = _checked(lambda: model.model_validate(head), where)
    more = {
        name: [*getattr(found, name), *_others(model, name, value, (*where, name))]
        for name, value in rest.items()
    }
    return found.model_copy(update=more)


def _others(
    model: type[BaseModel], name: str, value: list[Any], where: tuple[str, ...]
) -> Iterator[Any]:
    """The entries of a list after its first piece."""
    annotation: Any = model.model_fields[name].annotation
    entries = TypeAdapter(annotation)
    for at in range(PIECE, len(value), PIECE):
        piece = value[at : at + PIECE]
        yield from _checked(partial(entries.validate_python, piece, strict=True), where, at)


def _checked(check: Callable[[], T], where: tuple[str, ...], offset: int = 0) -> T:
    """What a check gives; its first faults, with their places in the whole document.

    Raises:
        RequestValidationError: it does not fit.
    """
    try:
        return check()
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        found = []
        for fault in faults[:5]:
            first, *others = fault["loc"] or ("",)
            place = (first + offset if isinstance(first, int) else first, *others)
            found.append({**fault, "loc": ("body", *where, *place)})
        raise RequestValidationError(found) from None


def _looks_at_all(model: type[BaseModel]) -> bool:
    """Whether the model compares its parts: it cannot be checked in pieces."""
    return any(getattr(model.__pydantic_decorators__, kind) for kind in _COMPARING)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model of a field that holds one, or one or nothing."""
    for one in (annotation, *get_args(annotation)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None
