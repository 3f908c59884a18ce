"""What can be asked of a reassignment: where it is, whether it is done, and what it could be.

Used by the API, and by a one-shot tool in its own process. Only `verify` may change something:
it takes off the throttles of a plan that is done, as Kafka's own tool does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.columns import LogDirColumns
from kshunt.backend.domain.cluster.metadata import (
    OngoingReassignment,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.domain.reassignment.answers import (
    GeneratedPlan,
    ProgressRow,
    VerifyAnswer,
    VerifyState,
)
from kshunt.backend.domain.reassignment.left_out import left_out_notes
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.reassignment.progress import (
    ReplicaDirs,
    log_dir_rows,
    progress_rows,
    verify_rows,
)
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.domain.text.formatting import listed
from kshunt.backend.error_codes import (
    BROKER_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    REQUEST_TIMED_OUT,
)
from kshunt.backend.errors import BadInput, BrokerUnreachable
from kshunt.backend.offload import offload
from kshunt.backend.operations.ownership.ownership import Ownership
from kshunt.backend.operations.throttles.cleanup import clear_unowned
from kshunt.backend.placement.generate import generate_assignment, usable_brokers

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer

UNANSWERED_CODES = frozenset({REQUEST_TIMED_OUT, BROKER_NOT_AVAILABLE, NETWORK_EXCEPTION})
"""The broker said nothing."""


class Queries:
    """See the module's text."""

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        owned: Callable[[], Ownership] = Ownership,
        *,
        timeout_s: float = 10.0,
        placing: BackendPlacer | None = None,
    ) -> None:
        """`placing` makes the proposals, where there is one."""
        self._admin = admin
        self._clock = clock
        self._owned = owned
        self._timeout_s = timeout_s
        self._placing = placing

    async def cluster_id(self) -> str:
        """The cluster's id, asked anew."""
        return (await self._admin.cluster.describe((), timeout_s=self._timeout_s)).cluster_id

    async def reassignments(self) -> Mapping[TopicPartition, OngoingReassignment]:
        """Every partition that moves now."""
        return await self._admin.reassignments.ongoing(timeout_s=self._timeout_s)

    async def progress(self, plan: ReassignmentPlan) -> tuple[ProgressRow, ...]:
        """How far each replica of the plan is (KIP-179, --progress)."""
        cluster = await self._admin.cluster.describe(plan.topics, timeout_s=self._timeout_s)
        states = await offload(len(cluster.assignment), partition_states, cluster.assignment)
        there = [partition for partition in plan.replicas if partition in states]
        lags = await self._admin.replicas.status(there, timeout_s=self._timeout_s) if there else ()
        return await offload(
            len(plan),
            progress_rows,
            plan,
            states,
            tuple(cluster.brokers),
            {
                (lag.partition, lag.broker): None
                if lag.lag_messages == UNKNOWN
                else lag.lag_messages
                for lag in lags
            },
            {lag.broker for lag in lags if lag.result.error_code in UNANSWERED_CODES},
        )

    async def verify(self, plan: ReassignmentPlan, *, preserve_throttles: bool) -> VerifyAnswer:
        """Whether the plan is done; if so, takes off its throttles unless they are preserved.

        Throttles of a plan that an operation of this backend still carries are removed when the
        operation ends. Nothing is taken off while the plan is not done.
        """
        cluster, ongoing = await asyncio.gather(
            self._admin.cluster.describe(plan.topics, timeout_s=self._timeout_s),
            self.reassignments(),
        )
        states = await offload(len(cluster.assignment), partition_states, cluster.assignment)
        found, silent = await self._directories(plan)
        answer, moving = await offload(len(plan), _verified, plan, states, ongoing, found, silent)
        if moving or preserve_throttles:
            return answer
        clearing, problems = await clear_unowned(
            self._admin, self._owned(), plan.replicas, timeout_s=self._timeout_s
        )
        return VerifyAnswer(
            answer.rows,
            answer.log_dirs,
            answer.active_elsewhere,
            clearing.brokers,
            tuple(clearing.topics),
            problems,
        )

    async def _directories(
        self, plan: ReassignmentPlan
    ) -> tuple[dict[tuple[TopicPartition, int], ReplicaDirs], set[int]]:
        """Where the replicas lie for which the plan names a directory, and who did not say."""
        brokers = sorted({broker for _, broker in plan.log_dirs})
        answers = await asyncio.gather(
            *(self._admin.logs.dirs(broker, timeout_s=self._timeout_s) for broker in brokers),
            return_exceptions=True,
        )
        found: dict[tuple[TopicPartition, int], ReplicaDirs] = {}
        silent = set()
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, BrokerUnreachable):
                silent.add(broker)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found |= await offload(len(answer.partition), _replica_dirs, broker, answer, plan)
        return found, silent

    async def generate(
        self, topics: Sequence[str], brokers: Sequence[int], *, rack_aware: bool
    ) -> GeneratedPlan:
        """The present plan of the topics, and one that spreads them over the brokers.

        Raises:
            BadInput: a topic or a broker is not there, the brokers are too few, or every
                partition of the topics is about to be deleted.
            InvalidReplicationFactor, ReplicaPlacementFailed: the placer does not place a topic.
        """
        cluster = await self._admin.cluster.describe(topics, timeout_s=self._timeout_s)
        states = await offload(len(cluster.assignment), partition_states, cluster.assignment)
        missing = set(topics) - {partition.topic for partition in states}
        if missing:
            raise BadInput(f"Topic {listed(sorted(missing))} not found; nothing was changed.")
        usable = usable_brokers(cluster.brokers, brokers, rack_aware=rack_aware)
        notes = left_out_notes({p: s.mode for p, s in states.items() if not s.stays})
        current = {partition: state.replicas for partition, state in states.items() if state.stays}
        if not current:
            raise BadInput(f"Nothing is left to plan. {' '.join(notes)}")
        if self._placing is None:
            proposed = await offload(
                len(current), generate_assignment, current, usable, random.Random()
            )
        else:
            proposed = await self._placing.proposal(current, usable, timeout_s=self._timeout_s)
        return GeneratedPlan(ReassignmentPlan(current), ReassignmentPlan(proposed), notes)


def _verified(
    plan: ReassignmentPlan,
    states: Mapping[TopicPartition, PartitionState],
    ongoing: Mapping[TopicPartition, OngoingReassignment],
    found: Mapping[tuple[TopicPartition, int], ReplicaDirs],
    silent: set[int],
) -> tuple[VerifyAnswer, bool]:
    """How far the cluster has carried out the plan, and whether any of it still moves."""
    rows = verify_rows(plan, states, ongoing)
    answer = VerifyAnswer(
        rows,
        log_dir_rows(plan, found, silent),
        active_elsewhere=any(partition not in plan.replicas for partition in ongoing),
    )
    moving = any(row.state is VerifyState.IN_PROGRESS for row in rows)
    return answer, moving or not all(row.done for row in answer.log_dirs)


def _replica_dirs(
    broker: int, columns: LogDirColumns, plan: ReassignmentPlan
) -> dict[tuple[TopicPartition, int], ReplicaDirs]:
    wanted = {partition for partition, named in plan.log_dirs if named == broker}
    current: dict[TopicPartition, str] = {}
    future: dict[TopicPartition, str] = {}
    for row in range(len(columns.partition)):
        topic = columns.topics[int(columns.topic_index[row])]
        partition = TopicPartition(topic, int(columns.partition[row]))
        if partition in wanted:
            path = columns.dirs[int(columns.dir_index[row])].path
            (future if columns.is_future[row] else current)[partition] = path
    return {
        (partition, broker): ReplicaDirs(path, future.get(partition))
        for partition, path in current.items()
    }
