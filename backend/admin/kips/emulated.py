"""The seeds' verbs, composed from the calls that every Kafka since 2.4 has.

Reassignment (KIP-179, "Algorithm")
    Goals: the move never runs without its throttle; a refusal leaves nothing behind.
    Constraints: each call can fail by itself; a call that times out may have taken hold.
    Algorithm: `native` checks everything; then write the topics' throttled replicas; write the
    brokers' rates, all at once; tell the brokers which directory a new replica belongs in; start
    the move; move replicas between directories. When no partition was taken, or a throttle could
    not be written, what was read before the first write is written back. When some were refused,
    the throttle shrinks to the others. Whether a move that timed out runs is read from the
    cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from backend.admin.kips.reassignment_checks import (
    NOT_THERE_YET,
    ReassignmentFacts,
    columns_of,
    hosted_by,
    lags,
    moves_of,
    rows_of,
    topic_changes,
    unthrottled,
    with_notes,
)
from backend.admin.port.cluster_admin import (
    OK,
    ItemResult,
    PartitionResults,
    ReassignOptions,
    ReassignOutcome,
    ReplicaLag,
)
from backend.admin.port.item_result import OPERATION_NOT_ATTEMPTED
from backend.admin.rpc.broker_calls import KafkaCalls
from backend.admin.rpc.concurrency import together
from backend.admin.rpc.configs import (
    REPLICA_KEYS,
    Changes,
    Values,
    log_dir_rate_changes,
    rate_changes,
    replica_changes,
    restoring,
)
from backend.admin.rpc.error_mapping import BROKER_NOT_AVAILABLE, item_error, item_result
from backend.clock import Clock
from backend.domain.cluster.assignment import Assignment, partition_states
from backend.domain.cluster.columns import OffsetColumns, PartitionColumns
from backend.domain.cluster.metadata import OngoingReassignment, PartitionState, TopicPartition
from backend.domain.throttles.configs import Move, ThrottledRate, ThrottledReplicas, brokers_of
from backend.errors import BrokerUnreachable, ClusterUnreachable, KshuntError
from backend.offload import offload

Name = TypeVar("Name", str, int)

LOG_DIR_RETRY_S: Final = 0.1
"""Pause between attempts to move a replica that its broker does not have yet."""


async def alter_rates(
    cluster: KafkaCalls,
    rates: Mapping[int, ThrottledRate],
    log_dir_rates: Mapping[int, int | None],
    *,
    validate_only: bool,
    timeout_s: float,
) -> Mapping[int, ItemResult]:
    """See `ClusterAdmin.alter_interbroker_throttled_rates`."""
    changes: dict[int, dict[str, str | None]] = {}
    for broker, rate in rates.items():
        changes.setdefault(broker, {}).update(rate_changes(rate))
    for broker, log_dir_rate in log_dir_rates.items():
        changes.setdefault(broker, {}).update(log_dir_rate_changes(log_dir_rate))
    return await cluster.write_brokers(changes, validate_only=validate_only, timeout_s=timeout_s)


async def alter_replicas(
    cluster: KafkaCalls,
    replicas: Mapping[str, ThrottledReplicas],
    *,
    validate_only: bool,
    timeout_s: float,
) -> Mapping[str, ItemResult]:
    """See `ClusterAdmin.alter_interbroker_throttled_replicas`."""
    changes = {topic: replica_changes(lists) for topic, lists in replicas.items()}
    return await cluster.write_topics(changes, validate_only=validate_only, timeout_s=timeout_s)


async def measured_lags(
    cluster: KafkaCalls, clock: Clock, assignment: Assignment, timeout_s: float
) -> list[ReplicaLag]:
    """The lag of every replica, from the log end offset of each on its own broker."""
    brokers = sorted(set(assignment.broker.tolist()))

    async def ask(broker: int) -> tuple[OffsetColumns | ItemResult, int]:
        return await _offsets(cluster, broker, assignment, timeout_s), clock.now_ms()

    answers = dict(zip(brokers, await together(map(ask, brokers)), strict=True))
    return lags(
        assignment,
        {broker: offsets for broker, (offsets, _) in answers.items()},
        {broker: answered_ms for broker, (_, answered_ms) in answers.items()},
    )


async def _offsets(
    cluster: KafkaCalls, broker: int, assignment: Assignment, timeout_s: float
) -> OffsetColumns | ItemResult:
    rows = hosted_by(assignment, broker)
    columns = PartitionColumns(
        assignment.topics, assignment.topic_index[rows], assignment.partition[rows]
    )
    try:
        return await cluster.log_end_offsets(broker, columns, timeout_s=timeout_s)
    except KshuntError as error:
        return item_error(error)


async def start_checked(
    cluster: KafkaCalls,
    situation: ReassignmentFacts,
    checked: PartitionResults,
    assignments: Mapping[TopicPartition, Sequence[int]],
    options: ReassignOptions,
    log_dirs: Mapping[tuple[TopicPartition, int], str],
) -> ReassignOutcome:
    """Start what `check_plan` found nothing against; see the module's text."""
    moves = moves_of(assignments, situation)
    throttle = await _Throttle.prepare(cluster, moves, log_dirs, options)
    await throttle.write()
    if holding_up := unthrottled(throttle.topics, throttle.brokers):
        why = f"the throttle of {', '.join(holding_up[:5])} could not be written"
        refused = item_result(OPERATION_NOT_ATTEMPTED, why)
        undone = await throttle.undo()
        return throttle.outcome(dict.fromkeys(assignments, refused), {}, undone=undone)
    return await _start(cluster, situation, checked, throttle, log_dirs, options.timeout_s)


async def read_situation(
    cluster: KafkaCalls,
    assignments: Mapping[TopicPartition, Sequence[int]],
    log_dirs: Mapping[tuple[TopicPartition, int], str],
    timeout_s: float,
) -> ReassignmentFacts:
    """What `check_plan` wants to know."""
    topics = sorted({partition.topic for partition in assignments})
    state = await cluster.describe(topics, timeout_s=timeout_s)
    ongoing = await cluster.list_reassignments(timeout_s=timeout_s)
    known_dirs: dict[int, Sequence[str]] = {}
    for broker in sorted({broker for _, broker in log_dirs} & state.brokers.keys()):
        try:
            columns = await cluster.log_dirs(broker, columns_of(()), timeout_s=timeout_s)
        except BrokerUnreachable:
            continue
        known_dirs[broker] = [log_dir.path for log_dir in columns.dirs]
    size = len(state.assignment)
    rows = await offload(size, rows_of, state.assignment, assignments)
    states = await offload(len(rows), partition_states, rows)
    return ReassignmentFacts(states, ongoing, frozenset(state.brokers), known_dirs)


@dataclass(slots=True)
class _Throttle:
    """The throttle of one reassignment, and what was there before it."""

    cluster: KafkaCalls
    moves: Sequence[Move]
    topic_changes: Mapping[str, Changes]
    broker_changes: Mapping[int, Changes]
    prior_topics: Mapping[str, Values]
    prior_brokers: Mapping[int, Values]
    timeout_s: float
    topics: Mapping[str, ItemResult] = field(default_factory=dict)
    """What became of writing each topic."""
    brokers: Mapping[int, ItemResult] = field(default_factory=dict)
    """What became of writing each broker."""

    @classmethod
    async def prepare(
        cls,
        cluster: KafkaCalls,
        moves: Sequence[Move],
        log_dirs: Mapping[tuple[TopicPartition, int], str],
        options: ReassignOptions,
    ) -> _Throttle:
        """Read what is there, and decide what to write."""
        rate = options.throttle_bytes_per_s
        topics = sorted({move.partition.topic for move in moves}) if rate is not None else []
        changes = _broker_changes(moves, log_dirs, options)
        prior_topics = await cluster.read_topics(topics, timeout_s=options.timeout_s)
        prior_brokers = await cluster.read_brokers(list(changes), timeout_s=options.timeout_s)
        return cls(
            cluster=cluster,
            moves=moves,
            topic_changes=topic_changes(moves, prior_topics) if rate is not None else {},
            broker_changes=changes,
            prior_topics=prior_topics,
            prior_brokers=prior_brokers,
            timeout_s=options.timeout_s,
        )

    async def write(self) -> None:
        """Topics first, then brokers (KIP-179, steps 3 and 5)."""
        self.topics = await self._write_topics(self.topic_changes)
        if all(result.ok for result in self.topics.values()):
            self.brokers = await self._write_brokers(self.broker_changes)

    async def undo(self) -> bool:
        """Write back what was there; True if all of it is."""
        return await self._restore(self.topic_changes, self.broker_changes)

    async def shrink(self, accepted: Iterable[TopicPartition]) -> None:
        """Leave what the accepted partitions need."""
        taken = set(accepted)
        moves = [move for move in self.moves if move.partition in taken]
        needed = topic_changes(moves, self.prior_topics)
        smaller = {
            topic: change
            for topic, change in needed.items()
            if change != self.topic_changes.get(topic)
        }
        if smaller:
            await self.cluster.write_topics(smaller, validate_only=False, timeout_s=self.timeout_s)
        brokers = brokers_of(moves)
        await self._restore(
            [topic for topic in self.topic_changes if topic not in needed],
            [broker for broker in self.broker_changes if broker not in brokers],
        )

    async def _restore(self, topics: Iterable[str], brokers: Iterable[int]) -> bool:
        """Write back what was there, wherever a write may have taken hold."""
        back_topics = {
            topic: restoring(self.prior_topics.get(topic, {}), REPLICA_KEYS) for topic in topics
        }
        back_brokers = {
            broker: restoring(self.prior_brokers.get(broker, {}), list(self.broker_changes[broker]))
            for broker in brokers
            if broker in self.brokers and self.brokers[broker].error_code != BROKER_NOT_AVAILABLE
        }
        written_topics = await self._write_topics(back_topics)
        written_brokers = await self._write_brokers(back_brokers)
        self.topics = {**self.topics, **_left_behind(written_topics)}
        self.brokers = {**self.brokers, **_left_behind(written_brokers)}
        return all(r.ok for r in (*written_topics.values(), *written_brokers.values()))

    # A call that fails as a whole fails for each of its items: what was begun must be ended.

    async def _write_topics(self, changes: Mapping[str, Changes]) -> Mapping[str, ItemResult]:
        if not changes:
            return {}
        try:
            return await self.cluster.write_topics(
                changes, validate_only=False, timeout_s=self.timeout_s
            )
        except KshuntError as error:
            return dict.fromkeys(changes, item_error(error))

    async def _write_brokers(self, changes: Mapping[int, Changes]) -> Mapping[int, ItemResult]:
        if not changes:
            return {}
        try:
            return await self.cluster.write_brokers(
                changes, validate_only=False, timeout_s=self.timeout_s
            )
        except KshuntError as error:
            return dict.fromkeys(changes, item_error(error))

    def outcome(
        self,
        results: PartitionResults,
        log_dir_results: Mapping[tuple[TopicPartition, int], ItemResult],
        *,
        undone: bool = False,
        unknown: bool = False,
    ) -> ReassignOutcome:
        """What was done, with the throttle's part in it."""
        return ReassignOutcome(results, self.topics, self.brokers, log_dir_results, undone, unknown)


def _left_behind(results: Mapping[Name, ItemResult]) -> dict[Name, ItemResult]:
    return {
        name: item_result(result.error_code, f"its throttle stays behind: {result.message}")
        for name, result in results.items()
        if not result.ok
    }


def _broker_changes(
    moves: Sequence[Move],
    log_dirs: Mapping[tuple[TopicPartition, int], str],
    options: ReassignOptions,
) -> Mapping[int, Changes]:
    changes: dict[int, dict[str, str | None]] = {}
    rate = options.throttle_bytes_per_s
    if rate is not None:
        for broker in brokers_of(moves):
            changes[broker] = dict(rate_changes(ThrottledRate(rate, rate)))
    log_dir_rate = options.log_dirs_throttle_bytes_per_s
    if log_dir_rate is not None:
        for broker in sorted({broker for _, broker in log_dirs}):
            changes.setdefault(broker, {}).update(log_dir_rate_changes(log_dir_rate))
    return changes


async def _start(
    cluster: KafkaCalls,
    situation: ReassignmentFacts,
    checked: PartitionResults,
    throttle: _Throttle,
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
    await _alter_log_dirs(cluster, new_replicas, timeout_s)
    try:
        results, settled = await _submit(cluster, targets, timeout_s)
    except KshuntError:
        await throttle.undo()
        raise
    if not settled:
        # The move may run: better a throttle too many than a move without one.
        return throttle.outcome(results, {}, unknown=True)
    accepted = [partition for partition, result in results.items() if result.ok]
    if not accepted:
        return throttle.outcome(results, {}, undone=await throttle.undo())
    if len(accepted) < len(results):
        await throttle.shrink(accepted)
    taken = set(accepted)
    wanted = {key: path for key, path in log_dirs.items() if key[0] in taken}
    log_dir_results = await _move_log_dirs(cluster, wanted, timeout_s)
    return throttle.outcome(with_notes(results, checked), log_dir_results)


async def _submit(
    cluster: KafkaCalls, targets: Mapping[TopicPartition, tuple[int, ...]], timeout_s: float
) -> tuple[PartitionResults, bool]:
    """Start the move; if the answer is lost, see whether it runs.

    Returns the results, and whether they are known: False where the cluster could not be asked.
    """
    try:
        return await cluster.alter_reassignments(targets, timeout_s=timeout_s), True
    except (BrokerUnreachable, ClusterUnreachable) as lost:
        return await read_back(cluster, targets, lost, timeout_s)


async def read_back(
    cluster: KafkaCalls,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    lost: KshuntError,
    timeout_s: float,
) -> tuple[PartitionResults, bool]:
    """What became of a move whose answer was lost, as `_submit` returns it."""
    refused = item_error(lost)
    try:
        state = await cluster.describe(sorted({p.topic for p in targets}), timeout_s=timeout_s)
        ongoing = await cluster.list_reassignments(timeout_s=timeout_s)
    except KshuntError:
        why = f"whether it started is not known, so its throttle stays on: {refused.message}"
        return dict.fromkeys(targets, item_result(refused.error_code, why)), False
    states = partition_states(rows_of(state.assignment, targets))
    return {
        partition: OK if _arriving(partition, target, states, ongoing) else refused
        for partition, target in targets.items()
    }, True


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


async def _alter_log_dirs(
    cluster: KafkaCalls, log_dirs: Mapping[tuple[TopicPartition, int], str], timeout_s: float
) -> Mapping[tuple[TopicPartition, int], ItemResult]:
    by_broker: dict[int, dict[TopicPartition, str]] = {}
    for (partition, broker), path in log_dirs.items():
        by_broker.setdefault(broker, {})[partition] = path

    async def ask(broker: int, paths: Mapping[TopicPartition, str]) -> PartitionResults:
        try:
            return await cluster.alter_log_dirs(broker, paths, timeout_s=timeout_s)
        except KshuntError as error:
            return dict.fromkeys(paths, item_error(error))

    answers = await together(ask(broker, paths) for broker, paths in by_broker.items())
    return {
        (partition, broker): result
        for broker, results in zip(by_broker, answers, strict=True)
        for partition, result in results.items()
    }


async def _move_log_dirs(
    cluster: KafkaCalls, log_dirs: Mapping[tuple[TopicPartition, int], str], timeout_s: float
) -> Mapping[tuple[TopicPartition, int], ItemResult]:
    """Move replicas to their directories, waiting for those that their broker has not got yet."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    results: dict[tuple[TopicPartition, int], ItemResult] = {}
    waiting = dict(log_dirs)
    while waiting:
        results.update(await _alter_log_dirs(cluster, waiting, timeout_s))
        waiting = {
            key: path for key, path in waiting.items() if results[key].error_code in NOT_THERE_YET
        }
        if asyncio.get_running_loop().time() > deadline:
            break
        if waiting:
            await asyncio.sleep(LOG_DIR_RETRY_S)
    return results
