"""How routes are declared: each with the role that it takes.

A route without one is an error of the program: `needed` finds none, and nobody is let in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Match

from backend.access.roles import Role

ROLE: Final = "x-kshunt-role"
"""In OpenAPI, of each operation; `none` is open to everybody."""
OPEN: Final = "none"
STREAM: Final = "x-kshunt-stream"
"""In OpenAPI, of an answer that does not end."""
SECURITY: Final = {"bearer": {"type": "http", "scheme": "bearer"}}
_REFUSED: Final = {"401": "Nobody who may come in", "429": "Too much at once"}
"""What a credential may be answered, beside what the route itself answers."""


class Routes:
    """Declares routes of an application that take one role."""

    def __init__(self, app: FastAPI, role: Role | None) -> None:
        self._app = app
        self._extra = {ROLE: OPEN if role is None else role.value}

    def get(self, path: str, *, stream: bool = False, **options: Any) -> Callable[[Any], Any]:
        """As FastAPI's; `stream` where the answer does not end."""
        extra = {**self._extra, STREAM: True} if stream else self._extra
        return self._app.get(path, openapi_extra=extra, **options)

    def post(self, path: str, **options: Any) -> Callable[[Any], Any]:
        """As FastAPI's."""
        return self._app.post(path, openapi_extra=self._extra, **options)


class Declared:
    """What the routes of an application declare."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def of(self, scope: Any) -> tuple[str, bool]:
        """The role that a request takes (`OPEN`: none), and whether its answer is a stream.

        What no route answers takes a viewer's, so that a stranger does not learn what there is, and
        so does the description of the routes. A route that declares none takes an admin's.
        """
        for route in self._app.routes:
            # A path may have one route to look and another one to change.
            match, _ = route.matches(scope)
            if match is Match.FULL and isinstance(route, APIRoute):
                extra = route.openapi_extra or {}
                return extra.get(ROLE, Role.ADMIN.value), bool(extra.get(STREAM))
        return Role.VIEWER.value, False


def describe_access(app: FastAPI) -> None:
    """Say in OpenAPI that a bearer token is asked for, wherever it is."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        document = plain()
        document.setdefault("components", {})["securitySchemes"] = SECURITY
        for methods in document["paths"].values():
            for operation in methods.values():
                if operation.get(ROLE, Role.ADMIN.value) != OPEN:
                    operation["security"] = [{"bearer": []}]
                    answers = operation["responses"]
                    for status, words in _REFUSED.items():
                        answers.setdefault(status, {**answers["403"], "description": words})
        return document

    app.openapi = described  # type: ignore[method-assign]
