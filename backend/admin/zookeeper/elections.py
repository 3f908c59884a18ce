"""Preferred elections through ZooKeeper, as Kafka 2's tool held them (KIP-183, `--zookeeper`).

The controller removes the znode when it is done with all of its partitions and says nothing of
any: the leaders tell, as they stand then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kshunt.backend.admin.port.capabilities import Verb
from kshunt.backend.admin.port.described_cluster import DescribedCluster
from kshunt.backend.admin.port.item_result import OK, ItemResult, PartitionResults
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.admin.zookeeper import znode_layout
from kshunt.backend.admin.zookeeper.not_offered import refused
from kshunt.backend.admin.zookeeper.session import Create, Outdated, Session
from kshunt.backend.domain.cluster.assignment import partition_states
from kshunt.backend.domain.cluster.metadata import PartitionState, TopicPartition
from kshunt.backend.error_codes import (
    ELECTION_NOT_NEEDED,
    PREFERRED_LEADER_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.errors import Conflict

POLL_S: Final = 0.05


class ZooKeeperElections:
    """See `ElectionAdmin`."""

    def __init__(
        self, cluster: DescribedCluster, session: Session, guard: Callable[[], None]
    ) -> None:
        """`guard` is asked right before anything is written."""
        self._cluster = cluster
        self._session = session
        self._guard = guard

    async def elect_preferred(
        self, partitions: Sequence[TopicPartition] | None, *, timeout_s: float
    ) -> PartitionResults:
        """See `ElectionAdmin.elect_preferred`, and the module's text.

        Raises:
            Conflict: an election is held already; nothing was changed.
            BadInput: the list is larger than a znode may be; nothing was changed.
            ClusterUnreachable: ZooKeeper did not answer; it may still take place.
        """
        asked = None if partitions is None else list(dict.fromkeys(partitions))
        topics = None if asked is None else sorted({partition.topic for partition in asked})
        state = await self._cluster.describe(topics, timeout_s=timeout_s)
        states = partition_states(state.assignment)
        results = {p: _foreseen(states.get(p)) for p in (states if asked is None else asked)}
        needed = [partition for partition, result in results.items() if result.ok]
        if needed:
            self._guard()
            results |= await self._held(needed, timeout_s)
        if asked is None:
            return {p: one for p, one in results.items() if one.error_code != ELECTION_NOT_NEEDED}
        return results

    async def _held(
        self, needed: Sequence[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, ItemResult]:
        try:
            text = znode_layout.election_text(needed)
            await self._session.commit([Create(znode_layout.ELECTION, text)], timeout_s=timeout_s)
        except Outdated:
            raise Conflict(
                f"An election is already running: {znode_layout.ELECTION} exists. Nothing was "
                "changed.",
                advice="Try again when it is over. If the znode remains, check that there is a "
                "controller.",
            ) from None
        until = asyncio.get_running_loop().time() + timeout_s
        while await self._session.read(znode_layout.ELECTION, timeout_s=timeout_s) is not None:
            if asyncio.get_running_loop().time() > until:
                why = (
                    f"the controller has not processed {znode_layout.ELECTION} yet; it may do so "
                    "later"
                )
                return dict.fromkeys(needed, item_result(REQUEST_TIMED_OUT, why))
            await asyncio.sleep(POLL_S)
        topics = sorted({partition.topic for partition in needed})
        state = await self._cluster.describe(topics, timeout_s=timeout_s)
        states = partition_states(state.assignment)
        return {partition: _outcome(states.get(partition)) for partition in needed}

    async def elect_unclean(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> PartitionResults:
        """Not offered: see `NOT_OFFERED`."""
        raise refused(Verb.UNCLEAN_ELECTION)


def _foreseen(state: PartitionState | None) -> ItemResult:
    if state is None or not state.replicas:
        return item_result(UNKNOWN_TOPIC_OR_PARTITION, "the cluster has no such partition")
    preferred = state.replicas[0]
    if state.leader == preferred:
        return item_result(ELECTION_NOT_NEEDED, "Leader election not needed.")
    if preferred in state.offline or preferred not in state.isr:
        return _not_available(preferred)
    return OK


def _not_available(preferred: int) -> ItemResult:
    return item_result(
        PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} is down, or not in the ISR"
    )


def _outcome(state: PartitionState | None) -> ItemResult:
    if state is None or not state.replicas:
        return _foreseen(None)
    return OK if state.leader == state.replicas[0] else _not_available(state.replicas[0])
