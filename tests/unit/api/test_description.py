"""What OpenAPI says of the API."""

from __future__ import annotations

from tests.support.access.forward import real_app


def test_a_models_name_says_nothing_of_the_module_that_it_is_in() -> None:
    """Two models of one name would: FastAPI puts their modules before it."""
    names = real_app().openapi()["components"]["schemas"]
    assert len(names) > 100
    assert [name for name in names if "__" in name] == []
