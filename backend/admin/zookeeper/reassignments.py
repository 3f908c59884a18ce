"""Reassignments by `/admin/reassign_partitions`, as Kafka 2's tool asked for them (KIP-179).

A controller looks at the znode when it is made, and at no other moment: nothing can be added to a
reassignment, nothing taken from it, and none be cancelled. It removes the znode when all is done.
Where the znode is there already, those partitions are refused of which it does not say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kshunt.backend.admin.kips.reassignment.checks import (
    check_plan,
    fit_part,
    meant_options,
    with_refused,
)
from kshunt.backend.admin.kips.reassignment.emulated import EmulatedReassignment
from kshunt.backend.admin.port.capabilities import Verb
from kshunt.backend.admin.port.described_cluster import DescribedCluster
from kshunt.backend.admin.port.item_result import OK, ItemResult, PartitionResults
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.admin.rpc.throttle_configs import ThrottleConfigs
from kshunt.backend.admin.zookeeper import cluster_state, znode_layout
from kshunt.backend.admin.zookeeper.not_offered import refused
from kshunt.backend.admin.zookeeper.session import Create, Outdated, Session
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.error_codes import (
    REASSIGNMENT_IN_PROGRESS,
    UNSUPPORTED_VERSION,
)

ATTEMPTS: Final = 3
"""Somebody else's znode would have to be there and gone as often."""


class ZooKeeperReassignments:
    """See `ReassignmentAdmin`, and the module's text."""

    def __init__(
        self,
        cluster: DescribedCluster,
        throttle_configs: ThrottleConfigs,
        logs: LogAdmin,
        session: Session,
        guard: Callable[[], None],
    ) -> None:
        """`guard` is asked right before anything is written."""
        self._session = session
        self._guard = guard
        self._emulated = EmulatedReassignment(cluster, throttle_configs, self, logs)

    async def ongoing(self, *, timeout_s: float) -> Mapping[TopicPartition, OngoingReassignment]:
        """See `ReassignmentAdmin.ongoing`."""
        return await cluster_state.ongoing(self._session, timeout_s=timeout_s)

    async def accepts_moves(self, *, timeout_s: float) -> str:
        """See `ReassignmentAdmin.accepts_moves`."""
        znode = await self._session.read(znode_layout.REASSIGN, timeout_s=timeout_s)
        return "" if znode is None else _BUSY

    async def reassign(
        self,
        assignments: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        log_dirs: Mapping[tuple[TopicPartition, int], str],
    ) -> ReassignOutcome:
        """See `ReassignmentAdmin.reassign`.

        Raises:
            NotSupported: a log directory is named, or a rate for moves between them.
            BadInput: the plan is larger than a znode may be.
        """
        if log_dirs or options.log_dirs_throttle_bytes_per_s is not None:
            raise refused(Verb.LOG_DIRS)
        self._session.check_size([_made(assignments)])
        options, timeout_s = meant_options(options), options.timeout_s
        situation = await self._emulated.situation(assignments, log_dirs, timeout_s)
        checked = check_plan(assignments, log_dirs, options, situation)
        fit, _ = fit_part(assignments, log_dirs, checked)
        if not fit:
            return ReassignOutcome(checked, {}, {}, {})
        asked = await cluster_state.reassignment(self._session, timeout_s=timeout_s)
        if asked is not None and not all(r.ok for r in _among(fit, asked).values()):
            busy = ReassignOutcome(dict.fromkeys(fit, _in_progress()), {}, {}, {})
            return with_refused(busy, checked)
        if options.validate_only:
            return ReassignOutcome(checked, {}, {}, {})
        started = await self._emulated.start(situation, checked, fit, options, log_dirs)
        return with_refused(started, checked)

    async def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        """Make `/admin/reassign_partitions`; a partition that is to be cancelled is refused.

        Where it is there, a partition of which it says the same is accepted, as brokers do it.
        """
        cannot = item_result(UNSUPPORTED_VERSION, str(refused(Verb.CANCEL)))
        results = dict.fromkeys(targets, cannot)
        wanted = {p: target for p, target in targets.items() if target is not None}
        if not wanted:
            return results
        for _ in range(ATTEMPTS):
            self._guard()
            try:
                await self._session.commit([_made(wanted)], timeout_s=timeout_s)
            except Outdated:
                asked = await cluster_state.reassignment(self._session, timeout_s=timeout_s)
                if asked is not None:
                    return results | _among(wanted, asked)
                continue
            return results | dict.fromkeys(wanted, OK)
        return results | dict.fromkeys(wanted, _in_progress())


_BUSY: Final = (
    f"a reassignment is running: {znode_layout.REASSIGN} exists. ZooKeeper accepts another one "
    "when that znode is gone"
)


def _among(
    wanted: Mapping[TopicPartition, Sequence[int]], asked: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, ItemResult]:
    """Accepted is what was asked for already, in just the same way."""
    return {p: OK if asked.get(p) == tuple(to) else _in_progress() for p, to in wanted.items()}


def _in_progress() -> ItemResult:
    return item_result(REASSIGNMENT_IN_PROGRESS, _BUSY)


def _made(targets: Mapping[TopicPartition, Sequence[int]]) -> Create:
    return Create(znode_layout.REASSIGN, znode_layout.reassignment_text(targets))
