"""A reassignment composed from the calls that every Kafka since 2.4 has (KIP-179, "Algorithm").

Goals
    The move never runs without its throttle; a refusal leaves nothing behind.
Constraints
    Each call can fail by itself; a call that times out may have taken hold.
Algorithm
    `native` checks everything; then write the throttle (`MoveThrottle`); tell the brokers which
    directory a new replica belongs in; start the move; move replicas between directories. When no
    partition was taken, or a throttle could not be written, what was read before the first write
    is written back. When some were refused, the throttle shrinks to the others. Whether a move
    that timed out runs is read from the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from kshunt.backend.admin.kips.reassignment.checks import ReassignmentFacts, moves_of, with_notes
from kshunt.backend.admin.kips.reassignment.throttle import MoveThrottle, unthrottled
from kshunt.backend.admin.port.described_cluster import DescribedCluster
from kshunt.backend.admin.port.item_result import OK, ItemResult, PartitionResults
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.port.reassignments import (
    ReassignmentAdmin,
    ReassignOptions,
    ReassignOutcome,
)
from kshunt.backend.admin.rpc.concurrency import together
from kshunt.backend.admin.rpc.error_mapping import item_error, item_result
from kshunt.backend.admin.rpc.throttle_configs import ThrottleConfigs
from kshunt.backend.domain.cluster.assignment import part_of, partition_states
from kshunt.backend.domain.cluster.columns import columns_of
from kshunt.backend.domain.cluster.metadata import (
    OngoingReassignment,
    PartitionState,
    TopicPartition,
)
from kshunt.backend.error_codes import (
    NOT_LEADER_OR_FOLLOWER,
    OPERATION_NOT_ATTEMPTED,
    REPLICA_NOT_AVAILABLE,
)
from kshunt.backend.errors import BrokerUnreachable, ClusterUnreachable, KshuntError
from kshunt.backend.offload import offload

LOG_DIR_RETRY_S: Final = 0.1
"""Pause between attempts to move a replica that its broker does not have yet."""

NOT_THERE_YET: Final = frozenset({REPLICA_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER})
"""How a broker answers AlterReplicaLogDirs for a replica that it does not have yet."""


class EmulatedReassignment:
    """See the module's text."""

    def __init__(
        self,
        cluster: DescribedCluster,
        throttle_configs: ThrottleConfigs,
        reassignments: ReassignmentAdmin,
        logs: LogAdmin,
    ) -> None:
        self._cluster = cluster
        self._configs = throttle_configs
        self._reassignments = reassignments
        self._logs = logs

    async def start(
        self,
        situation: ReassignmentFacts,
        checked: PartitionResults,
        assignments: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        log_dirs: Mapping[tuple[TopicPartition, int], str],
    ) -> ReassignOutcome:
        """Start what `check_plan` found nothing against; see the module's text."""
        moves = moves_of(assignments, situation)
        throttle = await MoveThrottle.prepare(self._configs, moves, log_dirs, options)
        await throttle.write()
        if holding_up := unthrottled(throttle.topics, throttle.brokers):
            why = f"the throttle of {', '.join(holding_up[:5])} could not be written"
            refused = item_result(OPERATION_NOT_ATTEMPTED, why)
            undone = await throttle.undo()
            return throttle.outcome(dict.fromkeys(assignments, refused), {}, undone=undone)
        return await self._with_throttle(situation, checked, throttle, log_dirs, options.timeout_s)

    async def situation(
        self,
        assignments: Mapping[TopicPartition, Sequence[int]],
        log_dirs: Mapping[tuple[TopicPartition, int], str],
        timeout_s: float,
    ) -> ReassignmentFacts:
        """What `check_plan` wants to know."""
        topics = sorted({partition.topic for partition in assignments})
        state = await self._cluster.describe(topics, timeout_s=timeout_s)
        ongoing = await self._reassignments.ongoing(timeout_s=timeout_s)
        known_dirs: dict[int, Sequence[str]] = {}
        for broker in sorted({broker for _, broker in log_dirs} & state.brokers.keys()):
            try:
                columns = await self._logs.dirs(broker, columns_of(()), timeout_s=timeout_s)
            except BrokerUnreachable:
                continue
            known_dirs[broker] = [log_dir.path for log_dir in columns.dirs]
        size = len(state.assignment)
        rows = await offload(size, part_of, state.assignment, assignments)
        states = await offload(len(rows), partition_states, rows)
        return ReassignmentFacts(states, ongoing, frozenset(state.brokers), known_dirs)

    async def _with_throttle(
        self,
        situation: ReassignmentFacts,
        checked: PartitionResults,
        throttle: MoveThrottle,
        log_dirs: Mapping[tuple[TopicPartition, int], str],
        timeout_s: float,
    ) -> ReassignOutcome:
        targets = {move.partition: move.target for move in throttle.moves}
        new_replicas = {
            key: path
            for key, path in log_dirs.items()
            if key[1] not in situation.states[key[0]].replicas
        }
        # A broker remembers the directory for a replica that it will get; its answer is that it has
        # no such replica.
        await self._alter_log_dirs(new_replicas, timeout_s)
        try:
            results, answered = await self._submit(targets, timeout_s)
        except KshuntError:
            await throttle.undo()
            raise
        if not answered:
            # The move may run: better a throttle too many than a move without one.
            return throttle.outcome(results, {}, unknown=True)
        accepted = [partition for partition, result in results.items() if result.ok]
        if not accepted:
            return throttle.outcome(results, {}, undone=await throttle.undo())
        if len(accepted) < len(results):
            await throttle.shrink(accepted)
        moving = set(accepted)
        wanted = {key: path for key, path in log_dirs.items() if key[0] in moving}
        log_dir_results = await self._move_log_dirs(wanted, timeout_s)
        return throttle.outcome(with_notes(results, checked), log_dir_results)

    async def _submit(
        self, targets: Mapping[TopicPartition, tuple[int, ...]], timeout_s: float
    ) -> tuple[PartitionResults, bool]:
        """Start the move; if the answer is lost, see whether it runs.

        Returns the results, and whether they are known: False where the cluster could not be asked.
        """
        try:
            return await self._reassignments.alter(targets, timeout_s=timeout_s), True
        except (BrokerUnreachable, ClusterUnreachable) as lost:
            return await self.read_back(targets, lost, timeout_s)

    async def read_back(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        lost: KshuntError,
        timeout_s: float,
    ) -> tuple[PartitionResults, bool]:
        """What became of a move whose answer was lost, as `_submit` returns it."""
        refused = item_error(lost)
        try:
            state = await self._cluster.describe(
                sorted({p.topic for p in targets}), timeout_s=timeout_s
            )
            ongoing = await self._reassignments.ongoing(timeout_s=timeout_s)
        except KshuntError:
            why = f"whether it started is unknown, so its throttle stays set: {refused.message}"
            return dict.fromkeys(targets, item_result(refused.error_code, why)), False
        states = partition_states(part_of(state.assignment, targets))
        return {
            partition: OK if _arriving(partition, target, states, ongoing) else refused
            for partition, target in targets.items()
        }, True

    async def _alter_log_dirs(
        self, log_dirs: Mapping[tuple[TopicPartition, int], str], timeout_s: float
    ) -> Mapping[tuple[TopicPartition, int], ItemResult]:
        by_broker: dict[int, dict[TopicPartition, str]] = {}
        for (partition, broker), path in log_dirs.items():
            by_broker.setdefault(broker, {})[partition] = path

        async def ask(broker: int, paths: Mapping[TopicPartition, str]) -> PartitionResults:
            try:
                return await self._logs.alter_dirs(broker, paths, timeout_s=timeout_s)
            except KshuntError as error:
                return dict.fromkeys(paths, item_error(error))

        answers = await together(ask(broker, paths) for broker, paths in by_broker.items())
        return {
            (partition, broker): result
            for broker, results in zip(by_broker, answers, strict=True)
            for partition, result in results.items()
        }

    async def _move_log_dirs(
        self, log_dirs: Mapping[tuple[TopicPartition, int], str], timeout_s: float
    ) -> Mapping[tuple[TopicPartition, int], ItemResult]:
        """Move replicas to their directories; those that a broker lacks as yet are waited for."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        results: dict[tuple[TopicPartition, int], ItemResult] = {}
        waiting = dict(log_dirs)
        while waiting:
            results.update(await self._alter_log_dirs(waiting, timeout_s))
            waiting = {
                key: path
                for key, path in waiting.items()
                if results[key].error_code in NOT_THERE_YET
            }
            if asyncio.get_running_loop().time() > deadline:
                break
            if waiting:
                await asyncio.sleep(LOG_DIR_RETRY_S)
        return results


def _arriving(
    partition: TopicPartition,
    target: tuple[int, ...],
    states: Mapping[TopicPartition, PartitionState],
    ongoing: Mapping[TopicPartition, OngoingReassignment],
) -> bool:
    """True where a partition moves to the target, or is there."""
    if partition in ongoing:
        return ongoing[partition].target == target
    return partition in states and states[partition].replicas == target
