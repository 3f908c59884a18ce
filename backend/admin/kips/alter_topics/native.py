"""Topics altered by AlterTopics (KIP-179's early draft).

The checks are those of the composed way (`checks`), so that both answer alike; then the RPC,
if the cluster has it. It has no way to only validate, which is always emulated. Which brokers take
the replicas that the request does not place is then the cluster's choice; where the alteration is
composed, it is that of this backend's placer, if it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

from kshunt.backend.admin.kips import seed_requests
from kshunt.backend.admin.kips.alter_topics import emulated
from kshunt.backend.admin.kips.alter_topics.checks import Alteration
from kshunt.backend.admin.port.cluster_admin import ItemResult
from kshunt.backend.admin.rpc.broker_calls import (
    LOST,
    BrokerCalls,
    RpcNotServed,
    answered,
    has,
    log_fallback,
    timed_out,
)
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.errors import KshuntError
from kshunt.backend.wire import seeds

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer


async def alter_topics(
    cluster: BrokerCalls,
    topics: Mapping[str, AlteredTopic],
    *,
    validate_only: bool,
    timeout_s: float,
    random: Random,
    placing: BackendPlacer | None = None,
) -> Mapping[str, ItemResult]:
    """See `ClusterAdmin.alter_topics`, and the module's text."""
    if not topics:
        return {}
    native = placing is not None and await has(cluster, seeds.ALTER_TOPICS_KEY, timeout_s)
    chosen = None if native else placing
    results, plans = await emulated.prepared(cluster, topics, random, timeout_s, chosen)
    if validate_only:
        results.update(await emulated.validated(cluster, plans, timeout_s))
    elif plans:
        wanted = {topic: topics[topic] for topic in plans}
        answer = await _natively(cluster, wanted, plans, timeout_s)
        if answer is None and native:
            again, plans = await emulated.prepared(cluster, wanted, random, timeout_s, placing)
            results.update(again)
        if answer is None:
            answer = await emulated.carried_out(cluster, plans, timeout_s)
        results.update(answer)
    return {topic: results[topic] for topic in topics}


async def _natively(
    cluster: BrokerCalls,
    wanted: Mapping[str, AlteredTopic],
    plans: Mapping[str, Alteration],
    timeout_s: float,
) -> Mapping[str, ItemResult] | None:
    """The cluster's own answer; None where it gives none and nothing was done."""
    if not await has(cluster, seeds.ALTER_TOPICS_KEY, timeout_s):
        return None
    why: KshuntError | RpcNotServed
    try:
        return await answered(
            cluster,
            lambda: seed_requests.alter_topics_request(wanted),
            lambda answer: seed_requests.topics_altered(answer, wanted),
            timeout_s=timeout_s,
            lane="write",
        )
    except LOST as lost:
        found, known = await emulated.read_back(cluster, plans, lost, timeout_s, chosen_here=False)
        if not known or timed_out(lost) or any(result.ok for result in found.values()):
            return found
        why = lost
    except RpcNotServed as refused:
        why = refused
    log_fallback("AlterTopics", why)
    return None
