"""What OpenAPI says of the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.access.forward import real_app
from tests.support.documents.prose import sentences
from tests.support.documents.style import sentence_faults


def test_a_models_name_says_nothing_of_the_module_that_it_is_in() -> None:
    """Two models of one name would: FastAPI puts their modules before it."""
    names = real_app().openapi()["components"]["schemas"]
    assert len(names) > 100
    assert [name for name in names if "__" in name] == []


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
