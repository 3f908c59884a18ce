"""What stories of the engine begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.operations.story import Story


@pytest.fixture
def story() -> Iterator[Story]:
    """Five brokers, a topic, and one backend; nothing has been asked of it."""
    made = Story()
    yield made
    made.world.close()
