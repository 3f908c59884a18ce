"""What brokers have told so far of one cluster; the sampler owns it, nothing else imports it.

Goals
    One place for how an answer changes what is known. Rows keep their facts by key while
    partitions come and go. What a broker reported before a change is not believed after it.
Constraints
    No request and no clock: the time is passed in. Not safe across threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, TypeVar

import numpy as np

from kshunt.backend.domain.cluster.assignment import ClusterState, merge, with_returned
from kshunt.backend.domain.cluster.columns import LogDirColumns, OffsetColumns, PartitionColumns
from kshunt.backend.domain.cluster.failed_requests import FailedRequest
from kshunt.backend.domain.cluster.metadata import (
    Broker,
    LogDir,
    OngoingReassignment,
    TopicPartition,
)
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, BrokerStatus, HistoryPoint
from kshunt.backend.domain.replicas.stuck_causes import Replica
from kshunt.backend.domain.throttles.configs import Throttles
from kshunt.backend.errors import BrokerUnreachable, KshuntError
from kshunt.backend.telemetry.sampling import replica_lags
from kshunt.backend.telemetry.sampling.request_timeouts import Key
from kshunt.backend.telemetry.stuck.diagnosis import dir_moves_of

K = TypeVar("K")
V = TypeVar("V")

WATCHED_AFTER_S: Final = 5.0
"""A partition is watched for this long after its move. A description that was under way when the
move ended is of before, and brokers hear of the end one after the other."""


class AskSooner(IntEnum):
    """What has to be asked sooner than it is due, from the least to the most."""

    NOTHING = 0
    WATCHED = 1
    """What is watched, immediately."""
    DESCRIPTION = 2
    """The whole cluster's description, immediately."""
    EVERYTHING = 3
    """That, and everything of each broker."""


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer, and what was asked."""

    key: Key
    asked: Any
    answer: Any
    at_ms: int


@dataclass(eq=False)
class ObservedState:
    """What is known so far; see the module's text."""

    state: ClusterState | None = None
    index: replica_lags.RowIndex | None = None
    observed: replica_lags.Observed | None = None
    ongoing: dict[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    watched: frozenset[TopicPartition] = frozenset()
    """Partitions that move, or moved a moment ago."""
    ended_lately: dict[TopicPartition, float] = field(default_factory=dict)
    """Until when a partition whose move has ended is still watched, by the monotonic clock."""
    grew: bool = False
    """Whether a description has brought replicas that no list of moves has been asked for since."""
    throttles: Throttles = field(default_factory=lambda: Throttles({}, {}))
    log_dirs: dict[int, tuple[LogDir, ...]] = field(default_factory=dict)
    dir_moves: dict[int, frozenset[Replica]] = field(default_factory=dict)
    """By broker: replicas that it copies to another of its directories."""
    paths: dict[str, int] = field(default_factory=dict)
    """Each directory's index in `Snapshot.log_dir_paths`."""
    answered_ms: dict[int, int] = field(default_factory=dict)
    failures: dict[Key, FailedRequest] = field(default_factory=dict)
    """The last one of each kind of request to each broker, until it succeeds."""
    sweep_ms: int = UNKNOWN
    history: tuple[HistoryPoint, ...] = ()
    min_isr: dict[str, int] = field(default_factory=dict)

    def merge(self, answer: Answer, now_s: float) -> AskSooner:
        """Take in one answer; what has to be asked again because of it."""
        self.failures.pop(answer.key, None)
        match answer.key[0]:
            case "reassignments":
                return self._merge_reassignments(answer.answer, now_s)
            case "describe":
                return self._merge_description(answer)
            case "throttles":
                self._merge_throttles(answer)
            case "min isr":
                self._merge_min_isr(answer.answer)
            case "offsets":
                self._merge_offsets(answer)
            case "log dirs":
                self._merge_log_dirs(answer)
        return AskSooner.NOTHING

    def _merge_min_isr(self, answer: Mapping[str, int]) -> None:
        """Those of some topics; what is known of topics that are gone is dropped."""
        there = self.state.assignment.topics if self.state is not None else ()
        known = {**self.min_isr, **answer}
        self.min_isr = {topic: known[topic] for topic in there if topic in known}

    def failed(self, key: Key, error: KshuntError) -> None:
        """A request came to nothing: what was told before stays, and is old."""
        waited_s = error.waited_s if isinstance(error, BrokerUnreachable) else None
        broker = key[1] if key[1] >= 0 else error.broker
        self.failures[key] = FailedRequest(str(error), broker, waited_s)

    def failed_requests(self) -> tuple[FailedRequest, ...]:
        """Everything that could not be read, each once."""
        return tuple(sorted(set(self.failures.values()), key=lambda one: one.message))

    def silent(self) -> frozenset[int]:
        """Brokers whose offsets could not be asked."""
        return frozenset(b for kind, b in self.failures if kind == "offsets" and b >= 0)

    def failed_dirs(self) -> list[tuple[int, int]]:
        """Log directories that are offline: the broker, and the index of the path."""
        return [
            (broker, self.paths[one.path])
            for broker, dirs in self.log_dirs.items()
            for one in dirs
            if one.error is not None
        ]

    def min_isr_of(self, topics: tuple[str, ...]) -> tuple[int, ...]:
        """min.insync.replicas in the order of the topics; none at all before it was read."""
        known = self.min_isr
        return tuple(known.get(topic, UNKNOWN) for topic in topics) if known else ()

    def broker_statuses(self, state: ClusterState) -> dict[int, BrokerStatus]:
        """Of each broker that is registered, or hosts a replica."""
        silent = self.silent()
        hosting = {int(broker) for broker in np.unique(state.assignment.broker)}
        statuses = {}
        for broker in sorted(hosting | set(state.brokers)):
            kinds = ("offsets", "log dirs")
            failed = [one for kind in kinds if (one := self.failures.get((kind, broker)))]
            statuses[broker] = BrokerStatus(
                broker=state.brokers.get(broker, Broker(broker, "", 0)),
                answered_ms=self.answered_ms.get(broker),
                stale=broker in silent or broker not in state.brokers,
                failed=failed[0] if failed else None,
            )
        return statuses

    # One kind of answer each

    def _merge_reassignments(
        self, ongoing: Mapping[TopicPartition, OngoingReassignment], now_s: float
    ) -> AskSooner:
        before = self.ongoing.keys()
        # What has just begun or ended must be described anew before it is believed: the next
        # tick describes what is watched.
        again = AskSooner.NOTHING if ongoing.keys() == before else AskSooner.WATCHED
        ended_lately = self.ended_lately | dict.fromkeys(
            before - ongoing.keys(), now_s + WATCHED_AFTER_S
        )
        self.ended_lately = {
            p: s for p, s in ended_lately.items() if s > now_s and p not in ongoing
        }
        self.watched = frozenset(ongoing.keys() | self.ended_lately.keys())
        self.ongoing = dict(ongoing)
        return again

    def _merge_description(self, answer: Answer) -> AskSooner:
        state, again = answer.answer, AskSooner.NOTHING
        if answer.asked is None:
            self.sweep_ms = answer.at_ms
        elif self.state is not None:
            known, whole = self.state.brokers, self.state.assignment
            if state.brokers.keys() != known.keys():
                # What is not watched was described before a broker came or went.
                whole = with_returned(whole, state.brokers.keys() - known.keys())
                again = AskSooner.DESCRIPTION
            state = replace(
                state,
                cluster_id=state.cluster_id or self.state.cluster_id,
                assignment=merge(whole, state.assignment, answer.asked),
            )
        index = replica_lags.RowIndex(state.assignment)
        if self.index is None or self.observed is None:
            self.observed = replica_lags.nothing_observed(len(state.assignment))
            again = AskSooner.EVERYTHING
        else:
            self.grew |= len(state.assignment) > len(self.index.assignment)
            self.observed = replica_lags.carry(self.index, self.observed, index)
        self.state, self.index = state, index
        # A broker that left cannot be asked, so its last failure would never be cleared.
        for key in [k for k in self.failures if k[1] >= 0 and k[1] not in state.brokers]:
            del self.failures[key]
        return again

    def _merge_throttles(self, answer: Answer) -> None:
        _, topics = answer.asked
        known, fresh = self.throttles, answer.answer
        # A topic that was deleted is not asked for: what it listed has gone with it.
        there = () if self.state is None else self.state.assignment.topics
        unasked = frozenset(there) - frozenset(topics)
        known_still = {
            t: r for t, r in known.replicas.items() if t in unasked or t in fresh.replicas
        }
        self.throttles = Throttles(
            with_known(known.rates, fresh.rates),
            with_known(known.replicas, {**known_still, **fresh.replicas}),
            fresh.unknown_brokers,
        )

    def _merge_offsets(self, answer: Answer) -> None:
        broker, partitions = answer.asked
        columns: OffsetColumns = answer.answer
        if self.index is not None and self.observed is not None:
            replica_lags.observe_offsets(
                self.index, self.observed, broker, partitions, columns, answer.at_ms
            )
            self.answered_ms[broker] = answer.at_ms

    def _merge_log_dirs(self, answer: Answer) -> None:
        broker, columns = answer.key[1], answer.answer
        self.log_dirs[broker] = with_last_room(columns.dirs, self.log_dirs.get(broker, ()))
        self._number_paths(columns)
        _, partitions, everything = answer.asked
        moves = frozenset(dir_moves_of(broker, columns))
        if not everything:
            moves |= not_asked(self.dir_moves.get(broker, frozenset()), partitions)
        self.dir_moves[broker] = moves
        if self.index is not None and self.observed is not None:
            replica_lags.observe_log_dirs(
                self.index, self.observed, broker, columns, self.paths, answer.at_ms
            )
            self.answered_ms[broker] = answer.at_ms

    def _number_paths(self, columns: LogDirColumns) -> None:
        """Keep the numbers of known paths, so that old rows stay right; append new ones."""
        for directory in columns.dirs:
            self.paths.setdefault(directory.path, len(self.paths))


def with_last_room(dirs: tuple[LogDir, ...], before: tuple[LogDir, ...]) -> tuple[LogDir, ...]:
    """Directories, where one that is offline keeps what it last said of its room.

    It tells a disk that is full from one that failed: a broker takes both offline alike.
    """
    last = {one.path: one for one in before}
    return tuple(
        replace(one, total_bytes=old.total_bytes, usable_bytes=old.usable_bytes)
        if one.error is not None and (old := last.get(one.path)) is not None
        else one
        for one in dirs
    )


def with_known(known: Mapping[K, V], fresh: Mapping[K, V]) -> Mapping[K, V]:
    """`fresh`, with the known object where an equal one was told again; `known` if all were.

    What is the same object need not be compared again, for each frame that is sent.
    """
    found = {
        key: was if (was := known.get(key)) is not None and was == value else value
        for key, value in fresh.items()
    }
    same = len(found) == len(known) and all(known.get(key) is one for key, one in found.items())
    return known if same else found


def not_asked(moves: frozenset[Replica], asked: PartitionColumns) -> frozenset[Replica]:
    """Those of some replicas that a broker was not asked for."""
    if not moves:
        return moves
    numbers = zip(asked.topic_index.tolist(), asked.partition.tolist(), strict=True)
    known = {(asked.topics[topic], partition) for topic, partition in numbers}
    return frozenset(one for one in moves if tuple(one[0]) not in known)
