"""What OpenAPI says of the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi.routing import APIRoute

from tests.support.access.forward import real_app
from tests.support.documents.prose import sentences
from tests.support.documents.style import sentence_faults


def test_a_models_name_says_nothing_of_the_module_that_it_is_in() -> None:
    """Two models of one name would: FastAPI puts their modules before it."""
    names = real_app().openapi()["components"]["schemas"]
    assert len(names) > 100
    assert [name for name in names if "__" in name] == []


def test_schemas_are_made_when_somebody_asks_for_the_description() -> None:
    """To make them takes longer than the rest of the application: a backend starts without."""
    app = real_app.__wrapped__()
    found = [
        content["schema"]
        for route in app.routes
        if isinstance(route, APIRoute)
        for content in route.responses.get(200, {}).get("content", {}).values()
        if "schema" in content
    ]
    assert len(found) > 50
    assert not any(found)
    app.openapi()
    assert all(found)


def descriptions(part: Any) -> Iterator[str]:
    """Every text of an OpenAPI description."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "description" and isinstance(value, str):
                yield value
            else:
                yield from descriptions(value)
    elif isinstance(part, list):
        for value in part:
            yield from descriptions(value)


def test_what_it_says_is_plain_english() -> None:
    found = set(descriptions(real_app().openapi()))
    assert len(found) > 300
    faults = [fault for text in found for one in sentences(text) for fault in sentence_faults(one)]
    assert faults == []
