"""What tests of recordings begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.tui.replay import Recorded, recorded, scripted


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Recorded]:
    """A recorded dashboard, some moments into an incident."""
    async with recorded(tmp_path, scripted()) as shown:
        await shown.later(10)
        shown.backend.cluster.down = {3: "connection refused"}
        await shown.later(10)
        await shown.later(10)
        yield shown
