"""What every verb that changes the cluster needs: the cluster, what is remembered, and one lock.

Owned by the backend; used by the modules of `kshunt.backend.operations` that act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationState
from kshunt.backend.domain.replicas.snapshot import Snapshot
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.core.throttle_writes import ThrottleWriter
from kshunt.backend.operations.moves.cluster_view import (
    NO_THROTTLES,
    ClusterView,
    leader_sizes,
    view_of,
)

MIN_ISR_KEPT_S: Final = 10.0
"""min.insync.replicas is read anew after that."""


@dataclass(eq=False, slots=True)
class Context:
    """See the module's text."""

    admin: ClusterAdmin
    registry: Registry
    clock: Clock
    timeout_s: float
    latest: Callable[[], Snapshot | None] = lambda: None
    """The newest sample, for the sizes of partitions."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A caller holds it while it decides on what it read and acts upon it."""
    throttling: ThrottleWriter = field(init=False)
    _min_isr: Mapping[str, int] = field(init=False, default_factory=dict)
    _min_isr_read_s: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        self.throttling = ThrottleWriter(self.admin, self.registry, self.timeout_s)

    async def ongoing(self) -> Mapping[TopicPartition, OngoingReassignment]:
        """Every partition that moves now."""
        return await self.admin.reassignments.ongoing(timeout_s=self.timeout_s)

    def foreign(
        self, ongoing: Mapping[TopicPartition, OngoingReassignment]
    ) -> dict[TopicPartition, Move]:
        """What moves and is of no operation of ours that has not ended."""
        ours: set[TopicPartition] = set()
        for operation_id in self.registry.unfinished:
            work = self.registry.work(operation_id)
            ours |= set() if work is None else work.moves.keys()
        return {
            partition: Move(partition, move.original, move.target)
            for partition, move in ongoing.items()
            if partition not in ours
        }

    def to(
        self,
        operation: Operation,
        state: OperationState,
        outcome: str = "",
        *,
        is_progress: bool = False,
    ) -> Operation:
        """The operation in a state, which may be its own; `is_progress` as in `with_outcome`.

        Raises:
            Conflict: the step is not legal.
        """
        if operation.state is not state:
            now_ms = self.clock.now_ms()
            return operation.to(state, at_ms=now_ms, outcome=outcome, is_progress=is_progress)
        return operation.with_outcome(outcome, is_progress=is_progress) if outcome else operation

    async def view(self, topics: Collection[str] | None, *, throttles: bool = False) -> ClusterView:
        """The cluster at this moment, with the partitions of these topics.

        With `throttles` also the rates of every broker and the lists of every topic, and the
        partitions of those that list something.

        Raises:
            ClusterUnreachable: the cluster did not answer.
        """
        state, ongoing = await asyncio.gather(
            self.admin.cluster.describe(timeout_s=self.timeout_s), self.ongoing()
        )
        names = state.assignment.topics
        found = NO_THROTTLES
        if throttles:
            found = await self.admin.throttles.describe(
                sorted(state.brokers), names, timeout_s=self.timeout_s
            )
        wanted = None if topics is None else {*topics, *found.replicas}
        snapshot = self.latest()
        sizes = None
        if snapshot is not None:
            size = len(snapshot.replicas)
            sizes = await offload(size, leader_sizes, snapshot, wanted or names)
        return await offload(
            len(state.assignment),
            view_of,
            state,
            ongoing,
            min_isr=await self._needed_in_sync(names),
            topics=wanted,
            size_bytes=sizes,
            throttles=found,
            log_dirs=() if snapshot is None else snapshot.log_dirs,
        )

    async def _needed_in_sync(self, topics: Collection[str]) -> Mapping[str, int]:
        now_s = self.clock.monotonic_s()
        old = now_s - self._min_isr_read_s > MIN_ISR_KEPT_S
        if old or not self._min_isr.keys() >= set(topics):
            self._min_isr = await self.admin.configs.min_isr(None, timeout_s=self.timeout_s)
            self._min_isr_read_s = now_s
        return self._min_isr
