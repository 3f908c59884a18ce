"""Topics altered by AlterTopics (KIP-179's early draft).

The checks are those of the composed way (`checks`), so that both answer alike; then the RPC,
if the cluster has it. It has no way to only validate, which is always emulated.
The RPC leaves it to the cluster to choose brokers for the replicas that the request does not place.
Where the alteration is composed, this backend's placer chooses them, if it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from kshunt.backend.admin.kips import kip_calls
from kshunt.backend.admin.kips.alter_topics.checks import Alteration
from kshunt.backend.admin.kips.alter_topics.emulated import EmulatedAlteration
from kshunt.backend.admin.kips.native_calls import (
    LOST,
    RpcNotServed,
    answered,
    log_fallback,
    timed_out,
)
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.port.reassignments import ReassignmentAdmin
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.errors import KshuntError
from kshunt.backend.wire import kip_requests

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer


class KafkaAlterations:
    """See `AlterationAdmin`."""

    def __init__(
        self,
        calls: BrokerCalls,
        reassignments: ReassignmentAdmin,
        placing: Callable[[], BackendPlacer | None],
    ) -> None:
        """`placing` tells what says where replicas go, if anything does."""
        self._calls = calls
        self._placing = placing
        self._emulated = EmulatedAlteration(calls, reassignments)

    async def alter(
        self, topics: Mapping[str, AlteredTopic], *, validate_only: bool, timeout_s: float
    ) -> Mapping[str, ItemResult]:
        """See `AlterationAdmin.alter`, and the module's text."""
        if not topics:
            return {}
        random, placing = Random(), self._placing()
        native = placing is not None and await self._has_rpc(timeout_s)
        chosen = None if native else placing
        results, plans = await self._emulated.prepared(topics, random, timeout_s, chosen)
        if validate_only:
            results.update(await self._emulated.validated(plans, timeout_s))
        elif plans:
            wanted = {topic: topics[topic] for topic in plans}
            answer = await self._natively(wanted, plans, timeout_s)
            if answer is None and native:
                again, plans = await self._emulated.prepared(wanted, random, timeout_s, placing)
                results.update(again)
            if answer is None:
                answer = await self._emulated.carried_out(plans, timeout_s)
            results.update(answer)
        return {topic: results[topic] for topic in topics}

    async def _has_rpc(self, timeout_s: float) -> bool:
        return await self._calls.has(kip_requests.ALTER_TOPICS_KEY, timeout_s=timeout_s)

    async def _natively(
        self,
        wanted: Mapping[str, AlteredTopic],
        plans: Mapping[str, Alteration],
        timeout_s: float,
    ) -> Mapping[str, ItemResult] | None:
        """The cluster's own answer; None where it gives none and nothing was done."""
        if not await self._has_rpc(timeout_s):
            return None
        why: KshuntError | RpcNotServed
        try:
            return await answered(
                self._calls,
                lambda: kip_calls.alter_topics_request(wanted),
                lambda answer: kip_calls.topics_altered(answer, wanted),
                timeout_s=timeout_s,
                lane="write",
            )
        except LOST as lost:
            found, known = await self._emulated.read_back(plans, lost, timeout_s, chosen_here=False)
            if not known or timed_out(lost) or any(result.ok for result in found.values()):
                return found
            why = lost
        except RpcNotServed as refused:
            why = refused
        log_fallback("AlterTopics", why)
        return None
