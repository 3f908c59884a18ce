"""Unclean leader elections (KIP-460): the last resort, apart from everything else.

Goals
    Nobody loses messages by accident: who asks names every partition twice, and is told before
    how many messages each of them may lose.
Constraints
    - What the elected replica has not copied is lost for good, also if the others come back.
    - How far a replica that is down was is known only from what it said when it was up.
Algorithm
    1. Refuse unless `confirm` holds exactly the names of the partitions. There is no "all".
    2. Read who leads and who is up. Refuse each partition that has a leader, or a member of the
       ISR that is up (it can lead without loss), or no replica that is up. If one is refused
       none is elected: the confirmation was for all of them.
    3. Ask every broker that is up for its log end offsets, and add what the others said last;
       `unclean_loss` says what that makes.
    4. ElectLeaders with type UNCLEAN, then read the metadata until each partition has a leader.
       The loss is stated again for whom the controller has taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from kshunt.backend.admin.port.capabilities import Verb, require
from kshunt.backend.admin.port.cluster_admin import ClusterAdmin
from kshunt.backend.admin.port.item_result import ItemResult, not_attempted
from kshunt.backend.clock import Clock
from kshunt.backend.domain.cluster.assignment import ClusterState, partition_states
from kshunt.backend.domain.cluster.columns import PartitionColumns, partition_keys
from kshunt.backend.domain.cluster.metadata import (
    NO_BROKER,
    PartitionState,
    TopicPartition,
    is_being_deleted,
)
from kshunt.backend.domain.cluster.partition_modes import leaving_words
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.election import (
    LastSeenEnd,
    UncleanAnswer,
    UncleanLoss,
    able_to_lead,
    names,
    unclean_loss,
)
from kshunt.backend.domain.operations.operation import OperationKind
from kshunt.backend.domain.replicas.snapshot import UNKNOWN, Snapshot
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.error_codes import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
)
from kshunt.backend.errors import BadInput, BrokerUnreachable, ClusterUnreachable, KshuntError
from kshunt.backend.operations.core.registry import Registry
from kshunt.backend.operations.core.results import results
from kshunt.backend.operations.elections.preferred import (
    POLL_S,
    POLL_S_MAX,
    READ_S_MIN,
    end_with_answer,
    failing_on_error,
    timed_out,
    unknown_partition,
)

ENDS_TIMEOUT_S: Final = 3.0
"""A broker that has not said its log end offsets by then has unknown ones."""

Ends: TypeAlias = Mapping[TopicPartition, Mapping[int, LastSeenEnd]]
"""The last known log end offset of each replica, by broker."""


def last_seen_ends(snapshot: Snapshot | None, partitions: Sequence[TopicPartition]) -> Ends:
    """What the replicas of the partitions last said, those that are down among them."""
    if snapshot is None:
        return {}
    rows = snapshot.replicas
    index = {topic: place for place, topic in enumerate(snapshot.topics)}
    named = [(index[p.topic], p.partition) for p in partitions if p.topic in index]
    pairs = np.array(named, np.int64).reshape(-1, 2)
    ours = np.isin(
        partition_keys(rows.topic_index, rows.partition),
        partition_keys(pairs[:, 0], pairs[:, 1]),
    )
    found: dict[TopicPartition, dict[int, LastSeenEnd]] = {}
    for row in np.flatnonzero(ours & (rows.log_end_offset != UNKNOWN)).tolist():
        end = LastSeenEnd(int(rows.log_end_offset[row]), int(rows.sampled_ms[row]))
        found.setdefault(snapshot.partition_of(row), {})[int(rows.broker[row])] = end
    return found


def refusal(state: PartitionState | None, live: Mapping[int, object]) -> ItemResult | None:
    """Why a partition must not have an unclean election, or None if it may."""
    if state is None:
        return unknown_partition()
    if is_being_deleted(state):
        return ItemResult(
            UNKNOWN_TOPIC_OR_PARTITION,
            error_name(UNKNOWN_TOPIC_OR_PARTITION),
            leaving_words(state.mode),
        )
    if state.leader != NO_BROKER:
        why = (
            f"broker {state.leader} is the leader; an unclean election is for partitions "
            "without a leader"
        )
        return ItemResult(ELECTION_NOT_NEEDED, error_name(ELECTION_NOT_NEEDED), why)
    able = able_to_lead(state, live)
    clean = [broker for broker in state.isr if broker in able]
    if clean:
        return not_attempted(f"broker {clean[0]} is in the ISR and up: it can lead without loss")
    if not able:
        why = f"none of its replicas ({listed(state.replicas, 10)}) is up; start one of them"
        return ItemResult(
            ELIGIBLE_LEADERS_NOT_AVAILABLE, error_name(ELIGIBLE_LEADERS_NOT_AVAILABLE), why
        )
    return None


def check_confirmation(partitions: Sequence[TopicPartition], confirm: Sequence[str]) -> None:
    """Stop what was not confirmed word for word; the order does not matter.

    Raises:
        BadInput: no partition is named, or `confirm` does not name the same ones.
    """
    if not partitions:
        raise BadInput("No partition is named, and an unclean election must name its partitions.")
    if sorted(confirm) != names(partitions):
        raise BadInput(
            "An unclean election loses messages for good. To confirm it, `confirm` must be exactly "
            f"{', '.join(names(partitions))}. Nothing was changed.",
            advice="validate_only reports how many messages may be lost.",
        )


@dataclass(frozen=True, slots=True)
class _FoundBefore:
    """What was found before the election."""

    cluster: ClusterState
    states: Mapping[TopicPartition, PartitionState]
    refused: Mapping[TopicPartition, ItemResult]
    ends: Ends

    def loss(self, partition: TopicPartition, leader: int | None = None) -> UncleanLoss:
        """What the partition loses under the leader that is expected, or under this one."""
        ends = self.ends.get(partition, {})
        return unclean_loss(self.states[partition], self.cluster.brokers, ends, leader)


class UncleanElections:
    """Elects leaders that may lack messages, or says how many these are."""

    def __init__(
        self, admin: ClusterAdmin, registry: Registry, clock: Clock, timeout_s: float
    ) -> None:
        self._admin = admin
        self._registry = registry
        self._clock = clock
        self._timeout_s = timeout_s

    async def elect(
        self,
        partitions: Sequence[TopicPartition],
        change: Change,
        *,
        confirm: Sequence[str],
        last_seen: Ends,
        timeout_s: float | None = None,
    ) -> UncleanAnswer:
        """Elect any replica that is up as leader of these partitions; see the module's text.

        A preview needs no confirmation. `last_seen` is what the replicas said when they were up.

        Raises:
            BadInput: no partition is named, or it is not confirmed.
            ClusterUnreachable: nobody said who leads, so nothing was begun.
            ClusterError: the cluster refused the request as a whole.
            NotSupported: this way to the cluster does not offer it.
        """
        require(Verb.UNCLEAN_ELECTION, self._admin)
        time_s = self._timeout_s if timeout_s is None else timeout_s
        wanted = sorted(set(partitions))
        check_confirmation(wanted, names(wanted) if change.validate_only else confirm)
        look = await self._look(wanted, last_seen, time_s)
        losses = tuple(look.loss(p) for p in wanted if p in look.states and not _led(look, p))
        foreseen = _foreseen(wanted, look, losses)
        if change.validate_only:
            return UncleanAnswer(True, None, results(foreseen), losses=losses)
        summary = f"UNCLEAN election of {many(len(wanted), 'partition')}: {listed(wanted, 3)}"
        requested = {str(loss.name): str(loss) for loss in losses}
        operation = await self._registry.begin(
            OperationKind.ELECTION, summary, requester=change.requester, requested=requested
        )
        async with failing_on_error(self._registry, operation):
            outcomes = dict(foreseen)
            if look.refused:
                others = "another partition of the list was rejected; nothing was changed"
                outcomes = {p: look.refused.get(p, not_attempted(others)) for p in wanted}
            else:
                outcomes = await self._elected(wanted, look, time_s)
            answer = UncleanAnswer(False, operation.id, results(outcomes), losses=losses)
        await end_with_answer(self._registry, operation, answer)
        return answer

    async def _look(
        self, wanted: Sequence[TopicPartition], last_seen: Ends, timeout_s: float
    ) -> _FoundBefore:
        topics = sorted({partition.topic for partition in wanted})
        cluster = await self._admin.cluster.describe(topics, timeout_s=timeout_s)
        found = partition_states(cluster.assignment)
        states = {p: found[p] for p in wanted if p in found}
        refusals = {p: refusal(states.get(p), cluster.brokers) for p in wanted}
        refused = {p: why for p, why in refusals.items() if why is not None}
        fresh = await self._ends(states, cluster, min(timeout_s, ENDS_TIMEOUT_S))
        ends = {p: {**last_seen.get(p, {}), **fresh.get(p, {})} for p in states}
        # A replica that is up and does not say its end has none that could be relied on.
        for partition, state in states.items():
            for broker in able_to_lead(state, cluster.brokers):
                if broker not in fresh.get(partition, {}):
                    ends[partition].pop(broker, None)
        return _FoundBefore(cluster, states, refused, ends)

    async def _ends(
        self,
        states: Mapping[TopicPartition, PartitionState],
        cluster: ClusterState,
        timeout_s: float,
    ) -> dict[TopicPartition, dict[int, LastSeenEnd]]:
        """The log end offsets of the replicas that are up, each from its own broker."""
        hosted: dict[int, list[TopicPartition]] = {}
        for partition, state in states.items():
            for broker in able_to_lead(state, cluster.brokers):
                hosted.setdefault(broker, []).append(partition)
        answers = await asyncio.gather(
            *(self._ends_on(broker, asked, timeout_s) for broker, asked in hosted.items())
        )
        found: dict[TopicPartition, dict[int, LastSeenEnd]] = {}
        for broker, answer in zip(hosted, answers, strict=True):
            for partition, offset in answer.items():
                found.setdefault(partition, {})[broker] = LastSeenEnd(offset, self._clock.now_ms())
        return found

    async def _ends_on(
        self, broker: int, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, int]:
        asked = sorted(partitions)
        topics = tuple(dict.fromkeys(partition.topic for partition in asked))
        columns = PartitionColumns(
            topics,
            np.array([topics.index(partition.topic) for partition in asked], np.int32),
            np.array([partition.partition for partition in asked], np.int32),
        )
        try:
            answer = await self._admin.logs.end_offsets(broker, columns, timeout_s=timeout_s)
        except KshuntError:
            # What nobody says is unknown.
            return {}
        rows = zip(asked, answer.log_end_offset.tolist(), answer.error_code.tolist(), strict=True)
        return {p: offset for p, offset, code in rows if code == 0 and offset >= 0}

    async def _elected(
        self, wanted: Sequence[TopicPartition], look: _FoundBefore, timeout_s: float
    ) -> dict[TopicPartition, ItemResult]:
        deadline_s = self._clock.monotonic_s() + timeout_s
        try:
            outcomes = dict(await self._admin.elections.elect_unclean(wanted, timeout_s=timeout_s))
        except (ClusterUnreachable, BrokerUnreachable) as lost:
            outcomes = dict.fromkeys(wanted, timed_out(f"the election was not answered: {lost}"))
        waiting = {
            p
            for p, o in outcomes.items()
            if o.error_code in (0, ELECTION_NOT_NEEDED, REQUEST_TIMED_OUT)
        }
        leaders = await self._leaders(waiting, timeout_s, deadline_s)
        for partition in waiting:
            leader = leaders.get(partition)
            if leader is not None:
                loss = look.loss(partition, leader)
                outcomes[partition] = ItemResult(message=f"broker {leader} leads; {loss}")
            elif outcomes[partition].error_code != REQUEST_TIMED_OUT:
                why = f"accepted, but after {timeout_s:g} s the brokers report no leader"
                outcomes[partition] = timed_out(why)
        return outcomes

    async def _leaders(
        self, partitions: set[TopicPartition], timeout_s: float, deadline_s: float
    ) -> dict[TopicPartition, int]:
        """Who leads each partition, once somebody does; without those where nobody did in time."""
        leaders: dict[TopicPartition, int] = {}
        topics = sorted({partition.topic for partition in partitions})
        pause_s = POLL_S
        while leaders.keys() < partitions:
            late = self._clock.monotonic_s() >= deadline_s
            left_s = max(deadline_s - self._clock.monotonic_s(), READ_S_MIN)
            try:
                cluster = await self._admin.cluster.describe(topics, timeout_s=left_s)
            except KshuntError:
                # Asked again until the time is up.
                states: Mapping[TopicPartition, PartitionState] = {}
            else:
                states = partition_states(cluster.assignment)
            for partition in partitions & states.keys():
                if states[partition].leader != NO_BROKER:
                    leaders[partition] = states[partition].leader
            if late:
                break
            if leaders.keys() < partitions:
                await self._clock.wait_s(pause_s)
                pause_s = min(2 * pause_s, POLL_S_MAX)
        return leaders


def _led(look: _FoundBefore, partition: TopicPartition) -> bool:
    return look.states[partition].leader != NO_BROKER


def _foreseen(
    wanted: Sequence[TopicPartition], look: _FoundBefore, losses: Sequence[UncleanLoss]
) -> dict[TopicPartition, ItemResult]:
    words = {loss.name: ItemResult(message=str(loss)) for loss in losses}
    return {p: look.refused.get(p) or words[p] for p in wanted}
