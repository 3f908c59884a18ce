"""Throttles of a cluster: read, checked, and written as configurations where no RPC is for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kshunt.backend.admin.kips.throttles.checks import (
    by_topic,
    refused_rates,
    refused_replicas,
    without,
)
from kshunt.backend.admin.kips.throttles.native import NativeThrottles
from kshunt.backend.admin.port.described_cluster import DescribedCluster
from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.admin.rpc import configs
from kshunt.backend.admin.rpc.throttle_configs import ThrottleConfigs
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.throttles.configs import ThrottledRate, ThrottledReplicas, Throttles
from kshunt.backend.offload import offload


class KafkaThrottles:
    """See `ThrottleAdmin`."""

    def __init__(
        self,
        cluster: DescribedCluster,
        throttle_configs: ThrottleConfigs,
        native: NativeThrottles | None = None,
    ) -> None:
        """`native` None: nothing may come under the cluster's own removal of throttles."""
        self._cluster = cluster
        self._configs = throttle_configs
        self._native = native

    async def describe(
        self, brokers: Sequence[int], topics: Sequence[str], *, timeout_s: float
    ) -> Throttles:
        """See `ThrottleAdmin.describe`."""
        of_brokers, of_topics = await asyncio.gather(
            self._configs.read_brokers(brokers, timeout_s=timeout_s),
            self._configs.read_topics(topics, timeout_s=timeout_s),
        )
        rates = {b: configs.broker_throttle(b, v) for b, v in of_brokers.items()}
        lists = await offload(configs.pairs_of(of_topics), configs.replicas_by_topic, of_topics)
        return Throttles(
            rates,
            {topic: replicas for topic, replicas in lists.items() if replicas},
            tuple(broker for broker in brokers if broker not in rates),
        )

    async def alter_rates(
        self,
        rates: Mapping[int, ThrottledRate],
        *,
        log_dir_rates: Mapping[int, int | None] | None = None,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[int, ItemResult]:
        """See `ThrottleAdmin.alter_rates`."""
        of_dirs = log_dir_rates or {}
        refused = {} if as_found else refused_rates(rates, of_dirs)
        fit = {broker: rate for broker, rate in rates.items() if broker not in refused}
        of_dirs = {broker: rate for broker, rate in of_dirs.items() if broker not in refused}
        written: Mapping[int, ItemResult] | None = None if fit or of_dirs else {}
        if self._native is not None and fit and not of_dirs:
            written = await self._native.rates_altered(
                fit, validate_only=validate_only, timeout_s=timeout_s
            )
        if written is None:
            changes: dict[int, dict[str, str | None]] = {}
            for broker, rate in fit.items():
                changes.setdefault(broker, {}).update(configs.rate_changes(rate))
            for broker, log_dir_rate in of_dirs.items():
                changes.setdefault(broker, {}).update(configs.log_dir_rate_changes(log_dir_rate))
            written = await self._configs.write_brokers(
                changes, validate_only=validate_only, timeout_s=timeout_s
            )
        return {**written, **refused}

    async def alter_replicas(
        self,
        replicas: Mapping[str, ThrottledReplicas],
        *,
        validate_only: bool,
        timeout_s: float,
        as_found: bool = False,
    ) -> Mapping[str, ItemResult]:
        """See `ThrottleAdmin.alter_replicas`."""
        refused: Mapping[TopicPartition, ItemResult] = {}
        if not as_found:
            refused = await refused_replicas(self._cluster, replicas, timeout_s)
        fit = without(replicas, refused) if refused else replicas
        written: Mapping[str, ItemResult] | None = None if fit else {}
        if self._native is not None and fit:
            written = await self._native.replicas_altered(
                fit, validate_only=validate_only, timeout_s=timeout_s
            )
        if written is None:
            changes = {topic: configs.replica_changes(lists) for topic, lists in fit.items()}
            written = await self._configs.write_topics(
                changes, validate_only=validate_only, timeout_s=timeout_s
            )
        return by_topic(replicas, written, refused)
