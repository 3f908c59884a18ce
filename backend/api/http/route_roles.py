"""How routes are declared: each with the role that it takes.

A route without one is an error of the program: `needed` finds none, and nobody is let in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Match

from kshunt.backend.access.roles import Role
from kshunt.backend.api.http.answers import answered, documented
from kshunt.backend.api.http.paths import rebuilt_path
from kshunt.backend.limits import LIMITS

ROLE: Final = "x-kshunt-role"
"""In OpenAPI, of each operation; `none` is open to everybody."""
OPEN: Final = "none"
STREAM: Final = "x-kshunt-stream"
"""In OpenAPI, of an answer that does not end."""
BODY_BYTES: Final = "x-kshunt-body-bytes"
"""In OpenAPI, of a request: how large its body may be."""
SECURITY: Final = {"bearer": {"type": "http", "scheme": "bearer"}}
_REFUSED: Final = {"401": "Unauthorized", "429": "Too many requests"}
"""What a credential may be answered, in addition to what the route itself answers."""


class Routes:
    """Declares routes of an application that take one role."""

    def __init__(self, app: FastAPI, role: Role | None) -> None:
        self._app = app
        self._extra = {ROLE: OPEN if role is None else role.value}
        changes = role in (Role.OPERATOR, Role.ADMIN)
        self._body_bytes = LIMITS.change_body_bytes if changes else LIMITS.question_body_bytes

    def get(
        self,
        path: str,
        answer: type[Any] | None = None,
        *,
        also: Mapping[int, type[Any]] | None = None,
        also_as: str = "",
        stream: bool = False,
        **options: Any,
    ) -> Callable[[Any], Any]:
        """As FastAPI's, for a function that returns a value of the class `answer`.

        Args:
            path: As FastAPI has it.
            answer: The class. None: the function makes the response.
            also: What responses with another status hold, by status. None: there are none.
            also_as: A media type that its responses may have instead of JSON.
            stream: Whether the answer does not end.
            options: FastAPI's.
        """
        extra = {**self._extra, STREAM: True} if stream else self._extra
        return self._declared(self._app.get, path, answer, extra, options, also, also_as)

    def post(
        self,
        path: str,
        answer: type[Any] | None = None,
        *,
        also: Mapping[int, type[Any]] | None = None,
        body_bytes: int | None = None,
        **options: Any,
    ) -> Callable[[Any], Any]:
        """As `get`; `body_bytes` where the body may be larger than those of its role are."""
        extra = {**self._extra, BODY_BYTES: body_bytes or self._body_bytes}
        return self._declared(self._app.post, path, answer, extra, options, also)

    def _declared(
        self,
        method: Callable[..., Any],
        path: str,
        answer: type[Any] | None,
        extra: Mapping[str, Any],
        options: dict[str, Any],
        also: Mapping[int, type[Any]] | None = None,
        also_as: str = "",
    ) -> Callable[[Any], Any]:
        if answer is None:
            plain: Callable[[Any], Any] = method(path, openapi_extra=extra, **options)
            return plain
        responses = documented(self._app, {200: answer, **(also or {})})
        if also_as:
            responses[200]["content"][also_as] = {}
        declare = method(
            path, openapi_extra=extra, response_model=None, responses=responses, **options
        )
        return lambda function: declare(answered(function, answer))


@dataclass(frozen=True, slots=True)
class Declaration:
    """What the route of a request declares, and how the request fills it in."""

    method: str
    template: str
    """As `/v1/topics/{topic}/shrink`."""
    parameters: Mapping[str, str]
    """What the request has in the place of the names, without escapes."""
    role: str
    """The role that it takes; `OPEN`: none."""
    stream: bool
    """Whether the answer does not end."""

    @property
    def changes(self) -> bool:
        """Whether it may change the cluster. What a viewer may do does not."""
        return self.method not in _LOOKS and self.role not in (Role.VIEWER, OPEN)

    @property
    def path(self) -> str:
        """The path, made anew from the route."""
        return rebuilt_path(self.template, self.parameters)


_LOOKS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Declared:
    """What the routes of an application declare."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def of(self, scope: Any) -> Declaration | None:
        """What the route declares that answers a request; None: no route of ours does.

        A route that declares no role takes an admin's.
        """
        for route in self._app.routes:
            # A path may have one route to look and another one to change.
            match, filled = route.matches(scope)
            if match is Match.FULL and isinstance(route, APIRoute):
                extra = route.openapi_extra or {}
                return Declaration(
                    scope["method"],
                    route.path_format,
                    {name: str(value) for name, value in filled["path_params"].items()},
                    extra.get(ROLE, Role.ADMIN.value),
                    bool(extra.get(STREAM)),
                )
        return None

    def body_bytes(self, scope: Any) -> int:
        """How large the body of a request may be; 0 where no route reads one."""
        for route in self._app.routes:
            match, _ = route.matches(scope)
            if match is Match.FULL and isinstance(route, APIRoute):
                return int((route.openapi_extra or {}).get(BODY_BYTES, 0))
        return 0


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
