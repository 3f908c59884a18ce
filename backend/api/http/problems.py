"""Errors as problem documents (RFC 9457).

400 is a request that does not fit the schema; 422 is one that fits and cannot be meant.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from kshunt.backend.domain.untrusted.json_codec import to_json
from kshunt.backend.errors import KshuntError

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error (RFC 9457, problem details)."""

    type: str
    title: str
    status: int
    detail: str
    advice: str = ""
    kafka_code: int = -1
    """Kafka's code of the error; -1 where Kafka has none for it."""
    retriable: bool = False


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    advice: str = "",
    kafka_code: int = -1,
    retriable: bool = False,
) -> Response:
    """One problem document."""
    document = Problem("about:blank", title, status, detail, advice, kafka_code, retriable)
    return Response(to_json(document), status, media_type=MEDIA_TYPE)


def _methods(app: FastAPI, request: Request) -> set[str]:
    """What the path of a request can be asked with."""
    methods: set[str] = set()
    for route in app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return methods


def install(app: FastAPI) -> None:
    """Answer every error of the routes with a problem document."""

    @app.exception_handler(KshuntError)
    async def known(_: Request, error: KshuntError) -> Response:
        return problem(
            error.http_status,
            error.title,
            error.message,
            advice=error.advice,
            kafka_code=error.kafka_code,
            retriable=error.retriable,
        )

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        faults = [
            f"{'.'.join(str(step) for step in fault['loc'])}: {fault['msg']}"
            for fault in error.errors()[:5]
        ]
        return problem(400, "Bad request", "; ".join(faults), advice="Nothing was changed.")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        answer = problem(error.status_code, str(error.detail), str(error.detail))
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            # Starlette names the methods of the first route with that path only.
            answer.headers["allow"] = ", ".join(sorted(_methods(app, request)))
        return answer

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem(
            500,
            "Internal error",
            f"kshunt failed on this request ({type(error).__name__}).",
            advice="Changes that it may have made are in the list of operations; see also the "
            "backend's log.",
        )
