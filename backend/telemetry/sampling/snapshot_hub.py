"""The newest snapshot, and a way to wait for the next one.

A reader that is slow is handed a newer snapshot later; nothing queues.
"""

from __future__ import annotations

import asyncio

from kshunt.backend.domain.replicas.snapshot import Snapshot


class SnapshotHub:
    """Holds one snapshot for any number of readers on one event loop."""

    def __init__(self) -> None:
        self._latest: Snapshot | None = None
        self._changed = asyncio.Condition()

    @property
    def latest(self) -> Snapshot | None:
        """The newest snapshot, or None before the first."""
        return self._latest

    async def publish(self, snapshot: Snapshot) -> None:
        """Replace the newest snapshot and wake the tasks that wait."""
        async with self._changed:
            self._latest = snapshot
            self._changed.notify_all()

    async def newer_than(self, version: int) -> Snapshot:
        """The newest snapshot, once its version is above `version`."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._latest is not None and self._latest.version > version
            )
        if self._latest is None:
            raise AssertionError("woken without a snapshot")
        return self._latest
