"""Rates of brokers: by AlterInterbrokerThrottledRates (KIP-179), or else by their configurations.

Constraints
    The RPC replaces: whatever the cluster will remove and the request does not name loses its
    throttle at once. The port changes what is named and nothing else.
Algorithm
    The RPC is used only if the request names every rate there is, and only brokers that take part
    in a reassignment in progress, with which the throttle then goes. It cannot remove rates, nor
    write what it would refuse (`checks`). IncrementalAlterConfigs leaves the removal as it is, so
    the throttle still goes. A refusal of the RPC itself is logged, and the verb composed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kshunt.backend.admin.kips import seed_requests
from kshunt.backend.admin.port.cluster_admin import (
    ItemResult,
)
from kshunt.backend.admin.rpc.broker_calls import (
    BrokerCalls,
    KafkaCalls,
    answered_or_none,
    has,
)
from kshunt.backend.admin.rpc.configs import (
    INTERBROKER_RATE_KEYS,
    log_dir_rate_changes,
    owners,
    rate_changes,
)
from kshunt.backend.domain.throttles.configs import (
    RATE_MIN_BYTES_PER_S,
    ThrottledRate,
)
from kshunt.backend.errors import (
    ClusterError,
)
from kshunt.backend.wire import seeds


async def alter_rates(
    cluster: BrokerCalls,
    rates: Mapping[int, ThrottledRate],
    log_dir_rates: Mapping[int, int | None],
    *,
    validate_only: bool,
    timeout_s: float,
) -> Mapping[int, ItemResult]:
    """See `ClusterAdmin.alter_interbroker_throttled_rates`, and the module's text."""
    results = None
    if not log_dir_rates and await _names_every_rate(cluster, rates, timeout_s):
        results = await answered_or_none(
            cluster,
            lambda: seed_requests.rates_request(
                rates, validate_only=validate_only, timeout_s=timeout_s
            ),
            lambda answer: seed_requests.rates_altered(answer, rates),
            timeout_s=timeout_s,
            lane="read" if validate_only else "write",
        )
    if results is None:
        return await alter_rates_by_configs(
            cluster, rates, log_dir_rates, validate_only=validate_only, timeout_s=timeout_s
        )
    if not validate_only:
        written = {b: rate_changes(rates[b]) for b in rates if results[b].ok}
        await cluster.brokers_show(written, timeout_s=timeout_s)
    return results


async def _names_every_rate(
    cluster: BrokerCalls, rates: Mapping[int, ThrottledRate], timeout_s: float
) -> bool:
    """True if replacing every broker's rates with these changes those of no other broker."""
    given = [
        r for one in rates.values() for r in (one.leader_bytes_per_s, one.follower_bytes_per_s)
    ]
    if not given or any(rate is None or rate < RATE_MIN_BYTES_PER_S for rate in given):
        return False
    if not await has(cluster, seeds.ALTER_INTERBROKER_THROTTLED_RATES_KEY, timeout_s):
        return False
    try:
        ongoing = await cluster.list_reassignments(timeout_s=timeout_s)
        state = await cluster.describe((), timeout_s=timeout_s)
        hosts = {broker for move in ongoing.values() for broker in move.replicas}
        if not rates.keys() <= hosts <= state.brokers.keys():
            return False
        values = await cluster.read_brokers(sorted(state.brokers), timeout_s=timeout_s)
    except ClusterError:
        return False
    return (
        values.keys() == state.brokers.keys()
        and owners(values, INTERBROKER_RATE_KEYS) <= rates.keys()
    )


async def alter_rates_by_configs(
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
