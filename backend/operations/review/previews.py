"""Previews: what an action would touch, by the cluster at this moment, and whether that holds.

`kshunt.backend.operations.review.blast_radius` decides; this reads the cluster for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas
from kshunt.backend.errors import BadInput
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.core.throttle_writes import shares_held
from kshunt.backend.operations.moves.cluster_view import ClusterView
from kshunt.backend.operations.moves.schedule import Queue
from kshunt.backend.operations.moves.undo_plans import undo_plan
from kshunt.backend.operations.reassignment.pausing import follower_share
from kshunt.backend.operations.review.blast_radius import (
    BlastRadius,
    CancelRequest,
    ElectRequest,
    PauseRequest,
    Request,
    StartRequest,
    ThrottleRequest,
    blast_radius,
    check_fresh,
)
from kshunt.backend.operations.review.preview_facts import ShownPreviews
from kshunt.backend.operations.state.reassignment_work import ReassignmentWork


class Previews:
    """See the module's text."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._registry = context.registry
        self._shown = ShownPreviews()

    async def radius(self, request: Request) -> BlastRadius:
        """What the request would touch.

        Raises:
            ClusterUnreachable: the cluster did not answer.
        """
        view = await self._view(request)
        radius = await offload(len(view.partitions), blast_radius, request, view)
        self._shown.remember(radius.facts)
        return radius

    async def check(self, preview: str, request: Request) -> Request:
        """Stop an action whose preview was made from another state of the cluster.

        Returns:
            What was agreed to, of what is asked for: see `check_fresh`.

        Raises:
            Conflict: what it was made from has changed.
        """
        if not preview:
            return request
        view = await self._view(request)
        shown = self._shown.facts_of(preview)
        return await offload(len(view.partitions), check_fresh, preview, request, view, shown)

    async def _view(self, request: Request) -> ClusterView:
        return await self._context.view(_topics(request), throttles=True)

    def start(self, plan: ReassignmentPlan, throttle_bytes_per_s: int | None) -> Request:
        """Of starting a plan."""
        return StartRequest(plan.replicas, throttle_bytes_per_s, plan.log_dirs)

    def elect(self, partitions: Collection[TopicPartition] | None) -> Request:
        """Of electing preferred leaders."""
        return ElectRequest(None if partitions is None else tuple(partitions))

    def throttle(
        self, rates: Mapping[int, ThrottledRate], replicas: Mapping[str, ThrottledReplicas]
    ) -> Request:
        """Of changing throttles."""
        return ThrottleRequest(rates, replicas)

    async def cancel(self, partitions: Collection[TopicPartition]) -> Request:
        """Of cancelling partitions, of our operations or of anybody's."""
        ongoing = await self._context.ongoing()
        wanted = tuple(dict.fromkeys(partitions))
        queue = self._queue_of(wanted, ongoing)
        return CancelRequest(wanted, queue, self._freed(wanted))

    def _queue_of(
        self,
        wanted: Collection[TopicPartition],
        ongoing: Mapping[TopicPartition, OngoingReassignment],
    ) -> Queue:
        """The partitions as one operation, those that move for somebody else included."""
        plan = {p: ongoing[p].target for p in wanted if p in ongoing}
        started, unanswered = set(plan), set()
        for operation_id in self._registry.unfinished:
            work = self._registry.work(operation_id)
            mine = {} if work is None else {p: work.moves[p] for p in wanted if p in work.moves}
            if work is None or not mine:
                continue
            plan |= {p: move.target for p, move in mine.items() if p not in ongoing}
            started |= mine.keys() & work.started
            unanswered |= mine.keys() & work.unanswered
        return Queue(plan, started=frozenset(started), unanswered=frozenset(unanswered))

    def _freed(self, wanted: Collection[TopicPartition]) -> tuple[str, ...]:
        """Brokers and topics that would lose a throttle, where a whole operation is cancelled."""
        freed: list[str] = []
        for operation_id in self._registry.unfinished:
            work = self._registry.work(operation_id)
            if work is None or not work.moves.keys() <= set(wanted) | work.cancelled | work.refused:
                continue
            held = shares_held(self._registry.ownership, operation_id)
            freed += [f"broker {b}" for b in sorted({b for b, _ in held.rates})]
            freed += [f"topic {t}" for t in sorted({t for t, _ in held.lists})]
        return tuple(dict.fromkeys(freed))

    def pause(self, operation_id: str) -> Request:
        """Of pausing an operation.

        Raises:
            BadInput: there is no such operation, or it moves nothing.
        """
        work = self._work(operation_id)
        held = shares_held(self._registry.ownership, operation_id)
        return PauseRequest(tuple(sorted(work.live)), follower_share(held))

    async def undo(self, operation_id: str) -> Request:
        """Of moving back what an operation moved.

        Raises:
            BadInput: there is no such operation, or it moved nothing.
        """
        work = self._work(operation_id)
        view = await self._context.view(work.topics)
        plan = undo_plan((work.moves[partition] for partition in work.started), view)
        return StartRequest(plan.plan.replicas, work.throttle_bytes_per_s)

    def partitions_of(self, operation_id: str) -> tuple[TopicPartition, ...]:
        """Every partition of an operation.

        Raises:
            BadInput: there is no such operation, or it moves nothing.
        """
        return tuple(self._work(operation_id).moves)

    def _work(self, operation_id: str) -> ReassignmentWork:
        work = self._registry.work(operation_id)
        if work is None:
            raise BadInput(f"No operation {operation_id} moves partitions; nothing was changed.")
        return work


def _topics(request: Request) -> Collection[str] | None:
    match request:
        case StartRequest():
            return {partition.topic for partition in request.plan}
        case CancelRequest() | PauseRequest():
            return {partition.topic for partition in request.partitions}
        case ElectRequest():
            wanted = request.partitions
            return None if wanted is None else {partition.topic for partition in wanted}
        case ThrottleRequest():
            return set(request.replicas)
