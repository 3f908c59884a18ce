"""Elections of leaders: preferred ones by ElectPreferredLeaders (KIP-183), or else by ElectLeaders.

KIP-183 answers NONE too where the preferred replica leads already; the leaders that are read right
before tell those apart. If they are out of date by then, an election that took place may be
ELECTION_NOT_NEEDED, or the reverse: the preferred replica leads anyway. A refusal of the RPC itself
is logged, and ElectLeaders is asked; so it is where the connection was lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kshunt.backend.admin.kips import kip_calls
from kshunt.backend.admin.kips.native_calls import (
    LOST,
    RpcNotServed,
    answered,
    log_fallback,
    timed_out,
)
from kshunt.backend.admin.port.item_result import PartitionResults
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.admin.rpc.leader_elections import elect_leaders
from kshunt.backend.domain.cluster.assignment import Assignment
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.error_codes import ELECTION_NOT_NEEDED
from kshunt.backend.errors import BrokerUnreachable, ClusterUnreachable
from kshunt.backend.wire import kip_requests


class KafkaElections:
    """See `ElectionAdmin`."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls

    async def elect_preferred(
        self, partitions: Sequence[TopicPartition] | None, *, timeout_s: float
    ) -> PartitionResults:
        """See `ElectionAdmin.elect_preferred`, and the module's text."""
        if not await self._calls.has(kip_requests.ELECT_PREFERRED_LEADERS_KEY, timeout_s=timeout_s):
            return await elect_leaders(self._calls, partitions, timeout_s=timeout_s)
        asked = None if partitions is None else list(dict.fromkeys(partitions))
        topics = None if asked is None else sorted({partition.topic for partition in asked})
        state = await self._calls.describe(topics, timeout_s=timeout_s)
        led = _led_by_preferred(state.assignment)
        try:
            results = await answered(
                self._calls,
                lambda: kip_calls.election_request(asked, timeout_s),
                lambda answer: kip_calls.elected(answer, asked),
                timeout_s=timeout_s,
                lane="write",
            )
        except (*LOST, RpcNotServed) as why:
            if isinstance(why, BrokerUnreachable) and timed_out(why):
                raise ClusterUnreachable(
                    f"The election was not answered. {why.message}",
                    advice="It may still take place; check the leaders before you ask again.",
                ) from why
            log_fallback("ElectPreferredLeaders", why)
            return await elect_leaders(self._calls, partitions, timeout_s=timeout_s)
        not_needed = item_result(ELECTION_NOT_NEEDED, "Leader election not needed.")
        return {
            partition: not_needed if result.ok and partition in led else result
            for partition, result in results.items()
            # Of all partitions, ElectLeaders lists those where there was something to do.
            if asked is not None or not (result.ok and partition in led)
        }

    async def elect_unclean(
        self, partitions: Sequence[TopicPartition], *, timeout_s: float
    ) -> PartitionResults:
        """See `ElectionAdmin.elect_unclean`."""
        return await elect_leaders(self._calls, partitions, unclean=True, timeout_s=timeout_s)


def _led_by_preferred(assignment: Assignment) -> set[TopicPartition]:
    preferred = (assignment.position == 0) & (assignment.broker == assignment.leader)
    return {
        TopicPartition(
            assignment.topics[int(assignment.topic_index[row])], int(assignment.partition[row])
        )
        for row in np.flatnonzero(preferred).tolist()
    }
