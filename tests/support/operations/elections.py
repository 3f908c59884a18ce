"""Elections of an admin's cluster, held with a registry of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kshunt.backend.admin.connect import Reached
from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.election import (
    ElectionAnswer,
    UncleanAnswer,
)
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.elections.preferred import Elections
from kshunt.backend.operations.elections.unclean import Ends, UncleanElections
from tests.support.admin import (
    TIMEOUT_S,
)


class PauseClock(SystemClock):
    """The machine's clock; pauses between batches are noted, and take no time."""

    def __init__(self) -> None:
        self.pauses_s: list[float] = []

    async def wait_s(self, seconds: float) -> None:
        if seconds < 5:
            await super().wait_s(seconds)
        else:
            self.pauses_s.append(seconds)


class Held:
    """An admin's elections, with the operations that they left."""

    def __init__(self, admin: Reached) -> None:
        self.clock = PauseClock()
        self.seen: list[Operation] = []
        self.registry = Registry(self.clock, self.seen.append)
        self.elections = Elections(admin, self.registry, TIMEOUT_S, self.clock)
        self.unclean = UncleanElections(admin, self.registry, self.clock, TIMEOUT_S)

    async def elect(
        self,
        partitions: Sequence[TopicPartition] | None,
        *,
        validate_only: bool = False,
        **more: Any,
    ) -> ElectionAnswer:
        return await self.elections.elect(partitions, validate_only=validate_only, **more)

    async def elect_unclean(
        self,
        partitions: Sequence[TopicPartition],
        confirm: Sequence[str] = (),
        last_seen: Ends | None = None,
        **more: Any,
    ) -> UncleanAnswer:
        settings = {"validate_only": False, **more}
        return await self.unclean.elect(
            partitions, confirm=confirm, last_seen=last_seen or {}, **settings
        )


def codes(answer: ElectionAnswer | UncleanAnswer) -> dict[str, str]:
    """Error names by item."""
    return {result.item: result.error_name for result in answer.results}


def words(answer: ElectionAnswer | UncleanAnswer) -> dict[str, str]:
    """Messages by item."""
    return {result.item: result.message for result in answer.results}
