"""A reassignment by the cluster's own ReassignPartitions (KIP-179), or else composed (`emulated`).

Goals
    A caller cannot tell which way was taken: results, errors and guarantees are the port's. But
    the cluster removes a throttle that it knows to remove when its move ends, even if kshunt is
    dead by then.
Constraints
    - ApiVersions of the controller says whether it has the RPC; it may refuse it even so, and an
      answer may be lost.
    - The cluster removes a throttle by deleting whole keys, and nobody can read from it which
      ones it will delete. So what is not ours alone must not come under its removal.
Algorithm
    The same checks either way (`check_plan`). What is fit goes by the RPC, if
    - no log directory and no rate for them is given, which the RPC cannot express;
    - no partition of it moves already: the port replaces such a move, the RPC refuses it;
    - no broker that takes part has a rate of its own and no topic a list, and all brokers
      say so. Otherwise the composed way keeps what an operator had set, and the operation's
      ledger restores it.
    What the controller refuses gets no throttle, and nothing is left to take back: it writes the
    throttle of what it takes, together with the moves.
    If the answer is lost, this backend reads back what moves. A partition that does not move has
    no throttle: the controller that succeeds a dead one removes it (KIP-179, "On Controller
    Failover").
    A refusal of the RPC itself is no answer: it is logged, and the move composed. So is a lost
    connection, but only when it is seen that nothing moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kshunt.backend.admin.kips import kip_calls
from kshunt.backend.admin.kips.native_calls import (
    LOST,
    RpcNotServed,
    answered,
    log_fallback,
    timed_out,
)
from kshunt.backend.admin.kips.reassignment.checks import (
    ReassignmentFacts,
    check_plan,
    fit_part,
    meant_options,
    moves_of,
    with_notes,
    with_refused,
)
from kshunt.backend.admin.kips.reassignment.emulated import EmulatedReassignment
from kshunt.backend.admin.port.item_result import OK, PartitionResults
from kshunt.backend.admin.port.logs import LogAdmin
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.admin.rpc import requests
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls, decoded
from kshunt.backend.admin.rpc.configs import (
    INTERBROKER_RATE_KEYS,
    REPLICA_KEYS,
    owners,
)
from kshunt.backend.admin.rpc.connections import Lane
from kshunt.backend.admin.rpc.throttle_configs import ThrottleConfigs
from kshunt.backend.domain.cluster.metadata import OngoingReassignment, TopicPartition
from kshunt.backend.domain.throttles.configs import (
    Move,
    brokers_of,
    throttled_replicas_of,
)
from kshunt.backend.offload import offload
from kshunt.backend.wire import kip_requests


class KafkaReassignments:
    """See `ReassignmentAdmin`."""

    def __init__(
        self, calls: BrokerCalls, throttle_configs: ThrottleConfigs, logs: LogAdmin
    ) -> None:
        self._calls = calls
        self._configs = throttle_configs
        self._emulated = EmulatedReassignment(calls, throttle_configs, self, logs)

    async def ongoing(self, *, timeout_s: float) -> Mapping[TopicPartition, OngoingReassignment]:
        """See `ReassignmentAdmin.ongoing`."""
        answer = await self._calls.ask_controller(
            lambda: requests.list_request(timeout_s), timeout_s=timeout_s
        )
        return await decoded(answer, lambda: requests.listed(answer))

    async def accepts_moves(self, *, timeout_s: float) -> str:
        """See `ReassignmentAdmin.accepts_moves`: brokers take moves at any time (KIP-455)."""
        return ""

    async def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float
    ) -> PartitionResults:
        """See `ReassignmentAdmin.alter`."""
        if not targets:
            return {}
        answer = await self._calls.ask_controller(
            lambda: requests.reassignment_request(targets, timeout_s),
            timeout_s=timeout_s,
            lane="write",
        )
        return requests.reassigned(answer, targets)

    async def reassign(
        self,
        assignments: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        log_dirs: Mapping[tuple[TopicPartition, int], str],
    ) -> ReassignOutcome:
        """See `ReassignmentAdmin.reassign`, and the module's text."""
        options = meant_options(options)
        situation = await self._emulated.situation(assignments, log_dirs, options.timeout_s)
        checked = await offload(
            len(assignments), check_plan, assignments, log_dirs, options, situation
        )
        fit, dirs = fit_part(assignments, log_dirs, checked)
        if not fit:
            return ReassignOutcome(checked, {}, {}, {})
        native = _expressible(fit, options, dirs, situation) and await self._calls.has(
            kip_requests.REASSIGN_PARTITIONS_KEY, timeout_s=options.timeout_s
        )
        if options.validate_only:
            found = await self._validated(fit, options, checked) if native else checked
            return with_refused(ReassignOutcome(found, {}, {}, {}), checked)
        outcome = None
        moves = moves_of(fit, situation)
        if native and await self._nobody_throttles(moves, options):
            try:
                outcome = await self._start(moves, options, checked)
            except RpcNotServed as why:
                log_fallback("ReassignPartitions", why)
        if outcome is None:
            outcome = await self._emulated.start(situation, checked, fit, options, dirs)
        return with_refused(outcome, checked)

    async def _nobody_throttles(self, moves: Sequence[Move], options: ReassignOptions) -> bool:
        """True if the throttle's keys are surely free on every topic and broker that takes part."""
        if options.throttle_bytes_per_s is None:
            return True
        topics = sorted({move.partition.topic for move in moves})
        brokers = brokers_of(moves)
        of_topics = await self._configs.read_topics(topics, timeout_s=options.timeout_s)
        of_brokers = await self._configs.read_brokers(brokers, timeout_s=options.timeout_s)
        return (
            of_brokers.keys() == set(brokers)
            and not owners(of_topics, REPLICA_KEYS)
            and not owners(of_brokers, INTERBROKER_RATE_KEYS)
        )

    async def _validated(
        self,
        assignments: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        checked: PartitionResults,
    ) -> PartitionResults:
        """What the controller says in addition to our own checks, where it says anything."""
        try:
            return with_notes(await self._reassigned(assignments, options, "read"), checked)
        except (*LOST, RpcNotServed) as why:
            log_fallback("ReassignPartitions", why)
            return checked

    async def _start(
        self,
        moves: Sequence[Move],
        options: ReassignOptions,
        checked: PartitionResults,
    ) -> ReassignOutcome:
        """Start the moves.

        Raises:
            RpcNotServed: nothing moves, because the cluster does not serve the call.
        """
        targets = {move.partition: move.target for move in moves}
        known = True
        try:
            results = await self._reassigned(targets, options, "write")
        except LOST as lost:
            results, known = await self._emulated.read_back(targets, lost, options.timeout_s)
            if known and not timed_out(lost) and not any(result.ok for result in results.values()):
                raise RpcNotServed(str(lost)) from None
        accepted = [move for move in moves if results[move.partition].ok or not known]
        throttled = accepted if options.throttle_bytes_per_s is not None else []
        return ReassignOutcome(
            with_notes(results, checked),
            dict.fromkeys(throttled_replicas_of(throttled), OK),
            dict.fromkeys(brokers_of(throttled), OK),
            {},
            undone=not accepted,
            unknown=not known,
        )

    async def _reassigned(
        self,
        targets: Mapping[TopicPartition, Sequence[int]],
        options: ReassignOptions,
        lane: Lane,
    ) -> PartitionResults:
        return await answered(
            self._calls,
            lambda: kip_calls.reassign_request(targets, options),
            lambda answer: kip_calls.reassigned(answer, targets),
            timeout_s=options.timeout_s,
            lane=lane,
        )


def _expressible(
    assignments: Mapping[TopicPartition, Sequence[int]],
    options: ReassignOptions,
    log_dirs: Mapping[tuple[TopicPartition, int], str],
    situation: ReassignmentFacts,
) -> bool:
    """True where ReassignPartitions can mean what the port means."""
    return (
        bool(assignments)
        and not log_dirs
        and options.log_dirs_throttle_bytes_per_s is None
        and not any(partition in situation.ongoing for partition in assignments)
    )
