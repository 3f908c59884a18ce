"""What tests of the dashboard begin with; a module that needs another one has its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.tui.app import Shown, dashboard
from tests.support.tui.cluster import incident, running_move
from tests.support.tui.replay import Recorded, recorded, scripted


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """The dashboard during a throttled move that an operation here owns, at 80x24."""
    cluster = incident()
    running_move(cluster)
    async with dashboard(tmp_path / "s", cluster) as running:
        yield running


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Recorded]:
    """A recorded dashboard, some moments into an incident."""
    async with recorded(tmp_path, scripted()) as shown:
        await shown.later(10)
        shown.backend.cluster.down = {3: "connection refused"}
        await shown.later(10)
        await shown.later(10)
        yield shown
