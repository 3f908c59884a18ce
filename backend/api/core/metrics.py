"""A backend and its cluster in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from kshunt import __version__
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.domain.cluster.partition_modes import mode_counts
from kshunt.backend.domain.forecast.end_words import moment_ms
from kshunt.backend.domain.operations.lifecycle import OperationState
from kshunt.backend.domain.replicas.snapshot import ReplicaStatus, Snapshot, stuck_rows
from kshunt.backend.operations.lease.lease import LeaseState

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_HOOK_LABELS: Final = ("hook", "result")


def exposition(backend: Backend, checks: Mapping[str, bool]) -> bytes:
    """Everything, at this moment."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gauges(backend, checks))
    return generate_latest(registry)


class _Gauges(Collector):
    """What is asked of the backend when somebody looks."""

    def __init__(self, backend: Backend, checks: Mapping[str, bool]) -> None:
        self._backend = backend
        self._checks = checks

    def collect(self) -> Iterator[Metric]:
        """Every metric."""
        yield _by("kshunt_build_info", "The version of kshunt.", "version", {__version__: 1})
        yield _by(
            "kshunt_ready",
            "Whether a check of /readyz or /readyz/changes passes.",
            "check",
            self._checks,
        )
        duties = {duty.value: duty is self._backend.membership.duty for duty in LeaseState}
        yield _by("kshunt_duty", "The duty of this backend.", "duty", duties)
        states = Counter(operation.state for operation in self._backend.registry)
        counts = {state.value: states[state] for state in OperationState}
        yield _by("kshunt_operations", "Operations that are listed.", "state", counts)
        stall_s = self._backend.loop_delay.longest_s
        yield _one(
            "kshunt_event_loop_stall_seconds", "The longest one in the last minutes.", stall_s
        )
        yield from self._connections()
        yield from self._hooks()
        if self._backend.hub.latest is not None:
            yield from self._cluster(self._backend.hub.latest)

    def _connections(self) -> Iterator[Metric]:
        found = self._backend.connections
        yield _one("kshunt_connections", "Clients' connections that are open.", len(found))
        turned = CounterMetricFamily(
            "kshunt_connections_turned_away", "Connections over a limit.", None, ("how",)
        )
        turned.add_metric(["refused"], found.refused)
        turned.add_metric(["given_up"], found.given_up)
        yield turned

    def _hooks(self) -> Iterator[Metric]:
        hooks = self._backend.hooks()
        if not hooks:
            return
        messages = CounterMetricFamily(
            "kshunt_webhook_messages", "Messages and attempts by their result.", None, _HOOK_LABELS
        )
        for hook in hooks:
            messages.add_metric([hook.name, "delivered"], hook.delivered)
            messages.add_metric([hook.name, "given_up"], hook.given_up)
            messages.add_metric([hook.name, "failed_attempt"], hook.failed)
        yield messages
        waiting = {hook.name: hook.waiting for hook in hooks}
        yield _by("kshunt_webhook_waiting", "Messages that wait.", "hook", waiting)
        stopped = {hook.name: hook.stopped for hook in hooks}
        yield _by(
            "kshunt_webhook_stopped",
            "Whether the receiver accepts no more messages (410).",
            "hook",
            stopped,
        )

    def _cluster(self, snapshot: Snapshot) -> Iterator[Metric]:
        age_s = (self._backend.clock.now_ms() - snapshot.taken_ms) / 1000
        yield _one("kshunt_sample_age_seconds", "Age of the newest snapshot of the cluster.", age_s)
        answer = {str(id): not status.stale for id, status in snapshot.brokers.items()}
        yield _by("kshunt_broker_answers", "Whether a broker answers.", "broker", answer)
        rows = snapshot.replicas
        counts = np.bincount(rows.status, minlength=len(ReplicaStatus))
        named = {status.name.lower(): int(counts[status]) for status in ReplicaStatus}
        yield _by("kshunt_replicas", "Replicas by their state.", "status", named)
        modes = mode_counts(rows.mode[rows.position == 0])
        yield _by("kshunt_partitions", "Partitions by mode (KIP-694).", "mode", modes)
        moving = int((rows.adding | rows.removing).sum())
        yield _one("kshunt_moving_replicas", "Replicas that are being added or removed.", moving)
        stuck = int(stuck_rows(rows).sum())
        yield _one("kshunt_stuck_replicas", "Stuck replicas, which need help to arrive.", stuck)
        yield _ends(snapshot)
        if snapshot.history:
            last = snapshot.history[-1]
            left = max(last.remaining_bytes, 0)
            yield _one("kshunt_remaining_bytes", "What all moves still have to copy.", left)
            yield _one(
                "kshunt_copy_bytes_per_second",
                "What moving replicas fetch.",
                last.rate_bytes_per_s,
            )


def _ends(snapshot: Snapshot) -> Metric:
    family = GaugeMetricFamily(
        "kshunt_done_timestamp_seconds",
        "When an operation, or all that moves (no id), will be done.",
        labels=["operation", "quantile"],
    )
    for id, end in snapshot.expected_ends.items():
        for quantile, seconds in (("0.1", end.p10_s), ("0.5", end.p50_s), ("0.9", end.p90_s)):
            if seconds is not None:
                family.add_metric([id, quantile], moment_ms(end, seconds) / 1000)
    return family


def _one(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=float(value))


def _by(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family
