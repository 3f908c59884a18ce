"""Every route of the HTTP API, from its own OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kshunt.backend.api.http.route_roles import BODY_BYTES, OPEN, ROLE, STREAM
from tests.support.access.forward import real_app
from tests.support.documents.code_tables import table

Route = tuple[str, str, Mapping[str, Any]]


def routes() -> Iterator[Route]:
    """Path, method and description of each route, by path."""
    for path, methods in sorted(real_app().openapi()["paths"].items()):
        for method, about in methods.items():
            yield path, method.upper(), about


def routes_table() -> str:
    """The routes in a table, each with the role that it takes."""
    rows = (_row(*route) for route in routes())
    return table(("Route", "Role", "Query parameters", "Body, at most", "Meaning"), rows)


def _row(path: str, method: str, about: Mapping[str, Any]) -> tuple[str, ...]:
    asked = [p["name"] for p in about.get("parameters", ()) if p["in"] == "query"]
    role = about[ROLE]
    meaning = " ".join(about["description"].split())
    return (
        f"`{method} {path}`",
        "no credential" if role == OPEN else role,
        ", ".join(f"`{name}`" for name in asked),
        _size(about.get(BODY_BYTES, 0)),
        f"{meaning} It does not end." if about.get(STREAM) else meaning,
    )


def _size(body_bytes: int) -> str:
    kibibytes = body_bytes // 1024
    if not kibibytes:
        return ""
    return f"{kibibytes // 1024} MiB" if kibibytes >= 1024 else f"{kibibytes} KiB"
