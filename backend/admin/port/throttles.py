"""Throttles of replication: rates of brokers, and throttled replicas of topics (KIP-179)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas, Throttles


class ThrottleAdmin(Protocol):
    """See the module's text."""

    async def describe(
        self, brokers: Sequence[int], topics: Sequence[str], *, timeout_s: float
    ) -> Throttles:
        """Rates of the brokers and throttled replicas of the topics, as configured now.

        A broker that does not answer in time is in `unknown_brokers`.

        Raises:
            ClusterUnreachable: the topics' configurations could not be read.
        """
        ...

    async def alter_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        *,
        log_dir_rates: Mapping[int, int | None] | None = None,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[int, ItemResult]:
        """KIP-179, alterInterbrokerThrottledRates; None in a rate removes it.

        `log_dir_rates` sets the rate of moves between log directories likewise. Brokers are
        written in parallel, and one that is down fails alone. INVALID_REQUEST for a rate under
        1 KB/s, but where `as_found` says that it goes back to where it was read.
        """
        ...

    async def alter_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        *,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[str, ItemResult]:
        """KIP-179, alterInterbrokerThrottledReplicas; an empty side is removed.

        UNKNOWN_TOPIC_OR_PARTITION and BROKER_NOT_AVAILABLE refuse a partition of a topic: its
        error is the topic's, and the other partitions are written. Nothing is checked where
        `as_found` says that the lists go back to where they were read.

        Raises:
            ClusterUnreachable: the cluster could not be asked what it has.
        """
        ...
