"""The throttle of one composed reassignment: written before it, and taken back where it fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kshunt.backend.admin.port.item_result import ItemResult, PartitionResults
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.admin.rpc.configs import (
    REPLICA_KEYS,
    Changes,
    Values,
    log_dir_rate_changes,
    rate_changes,
    replica_changes,
    restoring,
    throttled_replicas,
)
from kshunt.backend.admin.rpc.error_mapping import item_error, item_result
from kshunt.backend.admin.rpc.throttle_configs import ThrottleConfigs
from kshunt.backend.domain.cluster.metadata import (
    TopicPartition,
)
from kshunt.backend.domain.throttles.configs import (
    Move,
    ThrottledRate,
    ThrottledReplicas,
    brokers_of,
    throttled_replicas_of,
)
from kshunt.backend.error_codes import BROKER_NOT_AVAILABLE
from kshunt.backend.errors import KshuntError

Name = TypeVar("Name", str, int)


@dataclass(slots=True)
class MoveThrottle:
    """The throttle of one reassignment, and what was there before it."""

    configs: ThrottleConfigs
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
        configs: ThrottleConfigs,
        moves: Sequence[Move],
        log_dirs: Mapping[tuple[TopicPartition, int], str],
        options: ReassignOptions,
    ) -> MoveThrottle:
        """Read what is there, and decide what to write."""
        rate = options.throttle_bytes_per_s
        topics = sorted({move.partition.topic for move in moves}) if rate is not None else []
        changes = _broker_changes(moves, log_dirs, options)
        prior_topics = await configs.read_topics(topics, timeout_s=options.timeout_s)
        prior_brokers = await configs.read_brokers(list(changes), timeout_s=options.timeout_s)
        return cls(
            configs=configs,
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
        moving = set(accepted)
        moves = [move for move in self.moves if move.partition in moving]
        needed = topic_changes(moves, self.prior_topics)
        smaller = {
            topic: change
            for topic, change in needed.items()
            if change != self.topic_changes.get(topic)
        }
        if smaller:
            await self.configs.write_topics(smaller, validate_only=False, timeout_s=self.timeout_s)
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
            return await self.configs.write_topics(
                changes, validate_only=False, timeout_s=self.timeout_s
            )
        except KshuntError as error:
            return dict.fromkeys(changes, item_error(error))

    async def _write_brokers(self, changes: Mapping[int, Changes]) -> Mapping[int, ItemResult]:
        if not changes:
            return {}
        try:
            return await self.configs.write_brokers(
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
        name: item_result(result.error_code, f"its throttle was not removed: {result.message}")
        for name, result in results.items()
        if not result.ok
    }


def topic_changes(moves: Iterable[Move], prior: Mapping[str, Values]) -> Mapping[str, Changes]:
    """What to write on the topics so that the moves' replicas are throttled too.

    What others listed stays listed, and `*` stays `*`.
    """
    return {
        topic: replica_changes(_union(throttled_replicas(prior.get(topic, {})), ours))
        for topic, ours in throttled_replicas_of(moves).items()
    }


def _union(there: ThrottledReplicas, ours: ThrottledReplicas) -> ThrottledReplicas:
    return ThrottledReplicas(there.leaders | ours.leaders, there.followers | ours.followers)


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


def unthrottled(
    topics: Mapping[str, ItemResult], brokers: Mapping[int, ItemResult]
) -> tuple[str, ...]:
    """Whose throttle could not be written, so that the move would run without it.

    A broker that is down has no traffic to throttle; it does not hold up the move.
    """
    return (
        *(f"topic {topic}" for topic, result in topics.items() if not result.ok),
        *(
            f"broker {broker}"
            for broker, result in brokers.items()
            if not result.ok and result.error_code != BROKER_NOT_AVAILABLE
        ),
    )
