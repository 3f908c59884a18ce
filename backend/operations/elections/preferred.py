"""Preferred leader elections (KIP-183).

Goals
    An election counts as done when the brokers say that the preferred replica leads, not when
    the controller has taken the request. Every partition has a result of its own, and one that
    was not elected says why.
Constraints
    - When many leaders move at the same time, all their clients reconnect at the same time. So an
      election can run in batches with pauses between them.
    - The controller acknowledges before the brokers know; an answer may be lost altogether.
    - The controller elects only a broker that is in the ISR. Three places say why a broker is not
      there: the brokers that are up, the state of their log directories, and their lag.
Algorithm
    1. Read who leads. What is led by its preferred replica needs nothing and is no error.
    2. For each batch (`in_batches`: the preferred leaders in turn): ElectLeaders, then read the
       metadata until every accepted partition is led by its preferred replica or the time is up.
       REQUEST_TIMED_OUT is the result of those that are not by then. If the answer is lost, the
       metadata alone decide, and no further batch is begun.
    3. Where the preferred replica was not available, find out why.
    A partition that is being deleted (KIP-694) has no leader and gets none. An election of every
    partition leaves it out, and an election that names it refuses it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.admin.port.item_result import ItemResult, not_attempted
from kshunt.backend.admin.port.replicas import ReplicaLag
from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.domain.cluster.assignment import (
    ASSIGNMENT_COLUMNS,
    Assignment,
    ClusterState,
    partition_states,
)
from kshunt.backend.domain.cluster.columns import partition_keys
from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    PartitionState,
    TopicPartition,
    is_being_deleted,
)
from kshunt.backend.domain.cluster.partition_modes import PartitionMode, leaving_words
from kshunt.backend.domain.operations.change import Change, Requester
from kshunt.backend.domain.operations.election import (
    ElectionAnswer,
    LeaderCount,
    in_batches,
    leader_counts,
)
from kshunt.backend.domain.operations.operation import (
    NO_DETAILS,
    Operation,
    OperationDetails,
    OperationKind,
    OperationState,
)
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.error_codes import (
    ELECTION_NOT_NEEDED,
    PREFERRED_LEADER_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
)
from kshunt.backend.errors import BrokerUnreachable, ClusterUnreachable, KshuntError
from kshunt.backend.limits import LIMITS
from kshunt.backend.offload import offload
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.core.results import results

_NO_SUCH: Final = error_name(UNKNOWN_TOPIC_OR_PARTITION)

POLL_S: Final = 0.02
POLL_S_MAX: Final = 0.5
READ_S_MIN: Final = 1.0
"""The last look at the metadata may take this long although the time is up."""


@dataclass(frozen=True, slots=True)
class Pacing:
    """How many elections run at the same time, and how long to wait before the next ones."""

    batch_size: int | None = None
    """None is all in one batch, or the most that the controller takes in one request."""
    pause_s: float = 0.0


AT_ONCE: Final = Pacing()


def foreseen(state: PartitionState) -> ItemResult:
    """What electing the preferred leader of a partition would give, by what is known now."""
    preferred = state.replicas[0]
    if is_being_deleted(state):
        return ItemResult(UNKNOWN_TOPIC_OR_PARTITION, _NO_SUCH, leaving_words(state.mode))
    if state.leader == preferred:
        return ItemResult(
            ELECTION_NOT_NEEDED,
            error_name(ELECTION_NOT_NEEDED),
            f"broker {preferred} already leads",
        )
    if preferred not in state.isr or preferred in state.offline:
        return _not_available(_not_in_isr(state))
    if state.leader == NO_BROKER:
        return ItemResult(message=f"broker {preferred} would become leader; there is none now")
    return ItemResult(message=f"leadership would move from {state.leader} to {preferred}")


def unavailable(
    state: PartitionState,
    live: Mapping[int, object],
    lag: ReplicaLag | None,
    offline_dirs: Sequence[str],
) -> str | None:
    """Why the preferred replica cannot lead, or None where nothing speaks against it.

    Args:
        state: The partition as the brokers describe it.
        live: The brokers that are up.
        lag: How far the preferred replica is behind. None where nobody asked for it.
        offline_dirs: The log directories that its broker says are offline.
    """
    preferred = state.replicas[0]
    if preferred not in live:
        return f"broker {preferred} is offline; start it, or reassign the partition"
    if preferred in state.offline:
        where = f" ({listed(offline_dirs, 3)})" if offline_dirs else ""
        return f"the log directory of the replica on broker {preferred} is offline{where}"
    if preferred in state.isr:
        return None
    if lag is None or lag.lag_messages < 0:
        why = "" if lag is None or not lag.result.message else f": {lag.result.message}"
        return f"{_not_in_isr(state)}; how far it is behind is not known{why}"
    return f"{_not_in_isr(state)}; it is {many(lag.lag_messages, 'message')} behind the leader"


def _not_in_isr(state: PartitionState) -> str:
    return f"broker {state.replicas[0]} is not in the ISR ({listed(state.isr, 10) or 'empty'})"


def _not_available(why: str) -> ItemResult:
    return ItemResult(
        PREFERRED_LEADER_NOT_AVAILABLE, error_name(PREFERRED_LEADER_NOT_AVAILABLE), why
    )


def unknown_partition() -> ItemResult:
    """The result of a partition that the cluster does not have."""
    return ItemResult(UNKNOWN_TOPIC_OR_PARTITION, _NO_SUCH, "the cluster has no such partition")


class Elections:
    """Elects preferred leaders, or says what an election would do."""

    def __init__(
        self,
        admin: ClusterAdmin,
        registry: Registry,
        timeout_s: float,
        clock: Clock | None = None,
    ) -> None:
        self._admin = admin
        self._registry = registry
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()

    async def elect(
        self,
        partitions: Sequence[TopicPartition] | None,
        change: Change,
        *,
        pacing: Pacing = AT_ONCE,
        timeout_s: float | None = None,
    ) -> ElectionAnswer:
        """Elect the preferred leader of the partitions, or of every partition if None.

        Duplicates are no error, and neither is a partition that its preferred leader leads
        already; of all partitions, only those where there was something to do are listed.
        `timeout_s` is for each batch. A preview tells the leaders by broker before and after.

        Raises:
            ClusterUnreachable: nobody said who leads, so nothing was begun.
            ClusterError: the cluster refused the first batch as a whole.
        """
        time_s = self._timeout_s if timeout_s is None else timeout_s
        wanted = None if partitions is None else tuple(dict.fromkeys(partitions))
        topics = None if wanted is None or change.validate_only else _topics(wanted)
        cluster = await self._admin.cluster.describe(topics, timeout_s=time_s)
        size = len(cluster.assignment)
        there = await offload(size, _prospects, cluster.assignment, wanted)
        outcomes = there.outcomes
        if change.validate_only:
            await self._explain(outcomes, cluster, time_s)
            return await offload(len(outcomes), _previewed, cluster, there)
        if not outcomes:
            return ElectionAnswer(False, None, (), there.notes)
        operation = await self._begin(outcomes, pacing, change.requester)
        async with failing_on_error(self._registry, operation):
            outcomes |= await self._elected(there.asked, pacing, time_s, operation)
            found = await offload(len(outcomes), _results_of, outcomes)
            answer = ElectionAnswer(False, operation.id, found, there.notes)
        await end_with_answer(self._registry, operation, answer)
        return answer

    async def _begin(
        self, outcomes: Mapping[TopicPartition, ItemResult], pacing: Pacing, requester: Requester
    ) -> Operation:
        """The intent, noted before the first effect."""
        paced = pacing.batch_size is not None
        return await self._registry.begin(
            OperationKind.ELECTION,
            f"preferred election of {many(len(outcomes), 'partition')}: {listed(outcomes, 3)}",
            requester=requester,
            details=OperationDetails(batch_size=pacing.batch_size, pause_s=pacing.pause_s)
            if paced
            else NO_DETAILS,
        )

    async def _elected(
        self,
        asked: Mapping[TopicPartition, int],
        pacing: Pacing,
        timeout_s: float,
        operation: Operation,
    ) -> dict[TopicPartition, ItemResult]:
        """What became of each partition, batch after batch; see the module's text."""
        outcomes: dict[TopicPartition, ItemResult] = {}
        most = LIMITS.partitions_per_reassignment
        batches = in_batches(asked, min(pacing.batch_size or most, most))
        for number, batch in enumerate(batches):
            if number:
                words = f"{number} of {len(batches)} batches done"
                self._registry.set_outcome(operation.id, words, is_progress=True)
                await self._clock.wait_s(pacing.pause_s)
            found, failed = await self._batch(batch, timeout_s, first=not number)
            outcomes |= found
            if failed:
                left = [p for later in batches[number + 1 :] for p in later]
                why = f"no answer to the previous batch: {failed}"
                not_begun = not_attempted(why)
                outcomes |= dict.fromkeys(left, not_begun)
                break
        await self._explain(outcomes, None, timeout_s)
        return outcomes

    async def _batch(
        self, batch: Sequence[TopicPartition], timeout_s: float, *, first: bool
    ) -> tuple[dict[TopicPartition, ItemResult], str]:
        """What became of one batch, and why the call failed, or an empty text."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        failed = ""
        try:
            outcomes = dict(await self._admin.elections.elect_preferred(batch, timeout_s=timeout_s))
        except (ClusterUnreachable, BrokerUnreachable) as lost:
            failed = str(lost)
            outcomes = dict.fromkeys(batch, timed_out(failed))
        except KshuntError as refused:
            if first:
                raise
            failed = str(refused)
            left = ItemResult(refused.kafka_code, error_name(UNKNOWN_SERVER_ERROR), failed)
            return dict.fromkeys(batch, left), failed
        await self._wait_for_leaders(outcomes, timeout_s, deadline_s)
        return outcomes, failed

    async def _wait_for_leaders(
        self, outcomes: dict[TopicPartition, ItemResult], timeout_s: float, deadline_s: float
    ) -> None:
        """Wait until the brokers name the preferred replicas as leaders, and say who does not."""
        waiting = {
            p
            for p, o in outcomes.items()
            if o.error_code in (0, ELECTION_NOT_NEEDED, REQUEST_TIMED_OUT)
        }
        pause_s = POLL_S
        while waiting:
            late = self._clock.monotonic_s() >= deadline_s
            left_s = max(deadline_s - self._clock.monotonic_s(), READ_S_MIN)
            try:
                cluster = await self._admin.cluster.describe(_topics(waiting), timeout_s=left_s)
            except KshuntError as error:
                behind = dict.fromkeys(waiting, f"the leaders are unknown: {error}")
            else:
                size = len(cluster.assignment)
                behind = await offload(size, _still_behind, cluster, waiting, outcomes)
            if late:
                for partition, why in behind.items():
                    outcomes[partition] = _overdue(outcomes[partition], why, timeout_s)
                return
            waiting = set(behind)
            if waiting:
                await self._clock.wait_s(pause_s)
                pause_s = min(2 * pause_s, POLL_S_MAX)

    async def _explain(
        self,
        outcomes: dict[TopicPartition, ItemResult],
        cluster: ClusterState | None,
        timeout_s: float,
    ) -> None:
        """Put the reason into the result of each partition whose preferred replica is not there."""
        refused = [p for p, o in outcomes.items() if o.error_code == PREFERRED_LEADER_NOT_AVAILABLE]
        if not refused:
            return
        try:
            cluster = cluster or await self._admin.cluster.describe(
                _topics(refused), timeout_s=timeout_s
            )
        except KshuntError:
            # The cluster's own words stand.
            return
        relevant, _ = await offload(len(cluster.assignment), _relevant, cluster.assignment, refused)
        states = [state for state in relevant.values() if state.replicas]
        up = [s for s in states if s.replicas[0] in cluster.brokers]
        asked = [s.partition for s in up if s.replicas[0] not in {*s.isr, *s.offline}]
        holders = sorted({s.replicas[0] for s in up if s.replicas[0] in s.offline})
        lags, dirs = await asyncio.gather(
            self._lags(asked, timeout_s), self._offline_dirs(holders, timeout_s)
        )
        for state in states:
            preferred = state.replicas[0]
            lag = lags.get((state.partition, preferred))
            why = unavailable(state, cluster.brokers, lag, dirs.get(preferred, ()))
            if why is not None:
                outcomes[state.partition] = _not_available(why)

    async def _lags(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[tuple[TopicPartition, int], ReplicaLag]:
        if not partitions:
            return {}
        try:
            found = await self._admin.replicas.status(partitions, timeout_s=timeout_s)
        except KshuntError:
            # A lag that nobody tells is unknown.
            return {}
        return {(lag.partition, lag.broker): lag for lag in found}

    async def _offline_dirs(
        self, brokers: Sequence[int], timeout_s: float
    ) -> dict[int, tuple[str, ...]]:
        """The directories that each broker says are offline; nothing of one that says nothing."""
        found = {}
        for broker in brokers:
            try:
                columns = await self._admin.logs.dirs(broker, timeout_s=timeout_s)
            except KshuntError:
                continue
            found[broker] = tuple(one.path for one in columns.dirs if one.error)
        return found


# The operation of an election; unclean ones use these too.


@asynccontextmanager
async def failing_on_error(registry: Registry, operation: Operation) -> AsyncIterator[None]:
    """An operation that ends as FAILED if the block raises."""
    try:
        yield
    except BaseException as error:
        await registry.move(operation.id, OperationState.FAILED, str(error) or type(error).__name__)
        raise


async def end_with_answer(registry: Registry, operation: Operation, answer: ChangeAnswer) -> None:
    """End an operation as its answer says."""
    failed = answer.failures
    all_failed = bool(failed) and len(failed) == len(answer.results)
    words = f"{len(failed)} of {len(answer.results)} failed: {listed(failed, 3)}"
    state = OperationState.FAILED if all_failed else OperationState.DONE
    await registry.move(operation.id, state, words if failed else "")


def _topics(partitions: Iterable[TopicPartition]) -> list[str]:
    return sorted({partition.topic for partition in partitions})


def _results_of(outcomes: Mapping[TopicPartition, ItemResult]) -> tuple[Result, ...]:
    """ELECTION_NOT_NEEDED is success: the partition is led as it should be."""
    return results(
        {
            partition: ItemResult(message=outcome.message)
            if outcome.error_code == ELECTION_NOT_NEEDED
            else outcome
            for partition, outcome in outcomes.items()
        }
    )


def timed_out(why: str) -> ItemResult:
    """The result of a partition whose election did not end in time."""
    return ItemResult(REQUEST_TIMED_OUT, error_name(REQUEST_TIMED_OUT), why, retriable=True)


def _overdue(outcome: ItemResult, why: str, timeout_s: float) -> ItemResult:
    if outcome.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return outcome
    begun = (
        outcome.message if outcome.error_code == REQUEST_TIMED_OUT else "The election was accepted."
    )
    return timed_out(
        f"{begun.rstrip('.')}. After {timeout_s:g} s {why}. Check the leaders before you ask again"
    )


def _still_behind(
    cluster: ClusterState,
    waiting: set[TopicPartition],
    outcomes: dict[TopicPartition, ItemResult],
) -> dict[TopicPartition, str]:
    """The partitions that are led by another than the preferred replica, with whom.

    The outcomes of the others are settled in place: led as they should be, or gone.
    """
    states, _ = _relevant(cluster.assignment, waiting)
    behind = {}
    for partition in waiting:
        state = states.get(partition)
        if state is None and cluster.topic_errors.get(partition.topic) == _NO_SUCH:
            outcomes[partition] = unknown_partition()
        elif state is None:
            behind[partition] = "the brokers do not describe it"
        elif state.leader != state.replicas[0]:
            leader = "no broker" if state.leader == NO_BROKER else f"broker {state.leader}"
            behind[partition] = f"{leader} is still the leader, and not broker {state.replicas[0]}"
        elif outcomes[partition].error_code == REQUEST_TIMED_OUT:
            outcomes[partition] = ItemResult(message=f"broker {state.leader} leads")
    return behind


# Arrays: a cluster may have very many partitions, and few of them concern an election.


@dataclass(frozen=True, slots=True)
class _Prospects:
    """What an election would give, by what is known before it."""

    states: Mapping[TopicPartition, PartitionState]
    """Those that are wanted and there."""
    outcomes: dict[TopicPartition, ItemResult]
    asked: Mapping[TopicPartition, int]
    """Those to elect, with the preferred replica of each."""
    notes: tuple[str, ...]


def _prospects(assignment: Assignment, wanted: Sequence[TopicPartition] | None) -> _Prospects:
    states, led_count = _relevant(assignment, wanted)
    being_deleted = sorted(p for p, state in states.items() if is_being_deleted(state))
    if wanted is None:
        states = {p: state for p, state in states.items() if not is_being_deleted(state)}
    outcomes = {partition: foreseen(state) for partition, state in states.items()}
    outcomes |= {p: unknown_partition() for p in wanted or () if p not in states}
    asked = {
        p: states[p].replicas[0]
        for p, outcome in outcomes.items()
        if outcome.error_code not in (UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED)
    }
    notes: tuple[str, ...] = (
        (f"{many(led_count, 'partition')} already led by the preferred replica.",)
        if led_count
        else ()
    )
    if being_deleted and wanted is None:
        notes += (f"Left out, because they are being deleted: {listed(being_deleted, 10)}.",)
    return _Prospects(states, outcomes, asked, notes)


def _previewed(cluster: ClusterState, there: _Prospects) -> ElectionAnswer:
    leaders = _counts(cluster, there.states, there.outcomes)
    return ElectionAnswer(True, None, _results_of(there.outcomes), there.notes, leaders=leaders)


def _relevant(
    assignment: Assignment, wanted: Iterable[TopicPartition] | None
) -> tuple[dict[TopicPartition, PartitionState], int]:
    """The partitions that are wanted, or where there is something to do; and how many are led
    by their preferred replica of those that were looked at."""
    keys = partition_keys(assignment.topic_index, assignment.partition)
    preferred = assignment.position == 0
    led = preferred & (assignment.broker == assignment.leader)
    if wanted is None:
        states = partition_states(_rows(assignment, ~np.isin(keys, keys[led])))
        return states, int(np.count_nonzero(led))
    index = {topic: place for place, topic in enumerate(assignment.topics)}
    named = [(index[p.topic], p.partition) for p in wanted if p.topic in index]
    pairs = np.array(named, np.int64).reshape(-1, 2)
    ours = np.isin(keys, partition_keys(pairs[:, 0], pairs[:, 1]))
    return partition_states(_rows(assignment, ours)), int(np.count_nonzero(led & ours))


def _rows(assignment: Assignment, rows: NDArray[np.bool_]) -> Assignment:
    columns = {name: getattr(assignment, name)[rows] for name in ASSIGNMENT_COLUMNS}
    return Assignment(assignment.topics, **columns)


def _counts(
    cluster: ClusterState,
    states: Mapping[TopicPartition, PartitionState],
    outcomes: Mapping[TopicPartition, ItemResult],
) -> tuple[LeaderCount, ...]:
    """The leaders by broker, before and after the elections that would succeed."""
    first = cluster.assignment.position == 0
    first &= cluster.assignment.mode != PartitionMode.NONE
    before = _tally(cluster.assignment.leader[first])
    after = Counter(before)
    for partition, outcome in outcomes.items():
        if outcome.ok:
            state = states[partition]
            after[state.replicas[0]] += 1
            if state.leader != NO_BROKER:
                after[state.leader] -= 1
    preferred = _tally(cluster.assignment.broker[first])
    return leader_counts(before, after, preferred, cluster.brokers.keys())


def _tally(brokers: NDArray[np.int32]) -> dict[int, int]:
    found, times = np.unique(brokers[brokers != NO_BROKER], return_counts=True)
    return dict(zip(found.tolist(), times.tolist(), strict=True))
