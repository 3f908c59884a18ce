"""The seeds' verbs: by the cluster's own RPCs where it has them, else composed (`emulated`).

Goals
    A caller cannot tell which way was taken: results, errors and guarantees are the port's. But
    a throttle that the cluster knows to remove goes with its move even if kshunt is dead by then.
Constraints
    - ApiVersions of the broker that is asked says whether it has an RPC.
    - The cluster removes a throttle by deleting whole keys, and nobody can read from it which
      ones it will delete. So what is not ours alone must not come under its removal.
    - A call may be advertised and yet be refused, or its answer be lost.
Algorithm, by verb; where a condition does not hold, `emulated` does it:
    reassign_partitions
        The same checks as composed (`check_plan`); for what is fit ReassignPartitions, if
        - no log directory and no rate for them is given, which the RPC cannot express;
        - no partition of it moves already: the port replaces such a move, the RPC refuses it;
        - no broker that takes part has a rate of its own and no topic a list, and all brokers
          say so: what an operator had set is kept, and restored by the operation's ledger.
        What the controller refuses gets no throttle, and nothing is left to take back: it
        writes the throttle of what it takes, together with the moves.
        If the answer is lost, it is read back what moves; what does not move has no throttle,
        as the controller that succeeds a dead one removes it (KIP-179, "On Controller Failover").
    alter_interbroker_throttled_rates, alter_interbroker_throttled_replicas
        The RPC replaces: whatever the cluster will remove and the request does not name loses
        its throttle at once. The port changes what is named and nothing else. So the RPC is used
        only if the request names everything that is throttled, and only brokers and topics that
        take part in a reassignment in progress, with which the throttle then goes. It cannot
        remove rates or lists, nor write `*` or what it would refuse (`throttle_checks`).
        IncrementalAlterConfigs leaves the removal as it is, so the throttle still goes.
    elect_preferred_leaders
        KIP-183 answers NONE too where the preferred replica leads already; the leaders that
        are read right before tell those apart. If they are out of date by then, an election that
        took place may be ELECTION_NOT_NEEDED, or the reverse: the preferred replica leads anyway.
    replica_status
        Each leader is asked for its followers, all leaders at once. A partition with a replica
        that is not told about this way (its broker does not run, its leader has just changed or
        does not have the RPC, it has no follower) is measured as a whole, as composed.
    A refusal of the RPC itself is no answer: it is logged, and the verb composed. So is a lost
    connection, but for a reassignment only when it is seen that nothing moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np

from backend.admin.kips import emulated, seed_requests
from backend.admin.kips.reassignment_checks import (
    ReassignmentFacts,
    check_plan,
    fit_part,
    meant_options,
    missing_lags,
    moves_of,
    rows_of,
    with_notes,
    with_refused,
)
from backend.admin.port.cluster_admin import (
    OK,
    ItemResult,
    PartitionResults,
    ReassignOptions,
    ReassignOutcome,
    ReplicaLag,
)
from backend.admin.rpc.broker_calls import (
    LOST,
    REFUSALS,
    BrokerCalls,
    RpcNotServed,
    answered,
    answered_or_none,
    has,
    log_fallback,
    timed_out,
)
from backend.admin.rpc.concurrency import together
from backend.admin.rpc.configs import REPLICA_KEYS, Values, rate_changes, replica_changes
from backend.admin.rpc.connections import Lane
from backend.admin.rpc.error_mapping import item_result
from backend.clock import Clock
from backend.domain.cluster.assignment import Assignment, partition_states
from backend.domain.cluster.metadata import PartitionState, TopicPartition
from backend.domain.throttles.configs import (
    FOLLOWER_RATE,
    LEADER_RATE,
    RATE_MIN_BYTES_PER_S,
    Move,
    ThrottledRate,
    ThrottledReplicas,
    brokers_of,
    throttled_replicas_of,
)
from backend.errors import (
    BrokerUnreachable,
    ClusterError,
    ClusterUnreachable,
    NotSupported,
)
from backend.offload import offload
from backend.wire import seeds

Name = TypeVar("Name")

ELECTION_NOT_NEEDED: Final = 84
_RATES: Final = (LEADER_RATE, FOLLOWER_RATE)


async def reassign_partitions(
    cluster: BrokerCalls,
    assignments: Mapping[TopicPartition, Sequence[int]],
    options: ReassignOptions,
    log_dirs: Mapping[tuple[TopicPartition, int], str],
) -> ReassignOutcome:
    """See `ClusterAdmin.reassign_partitions`, and the module's text."""
    options = meant_options(options)
    situation = await emulated.read_situation(cluster, assignments, log_dirs, options.timeout_s)
    checked = await offload(len(assignments), check_plan, assignments, log_dirs, options, situation)
    fit, dirs = fit_part(assignments, log_dirs, checked)
    if not fit:
        return ReassignOutcome(checked, {}, {}, {})
    native = _expressible(fit, options, dirs, situation) and await has(
        cluster, seeds.REASSIGN_PARTITIONS_KEY, options.timeout_s
    )
    if options.validate_only:
        found = await _validated(cluster, fit, options, checked) if native else checked
        return with_refused(ReassignOutcome(found, {}, {}, {}), checked)
    outcome = None
    moves = moves_of(fit, situation)
    if native and await _nobody_throttles(cluster, moves, options):
        try:
            outcome = await _start(cluster, moves, options, checked)
        except RpcNotServed as why:
            log_fallback("ReassignPartitions", why)
    if outcome is None:
        outcome = await emulated.start_checked(cluster, situation, checked, fit, options, dirs)
    return with_refused(outcome, checked)


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


async def _nobody_throttles(
    cluster: BrokerCalls, moves: Sequence[Move], options: ReassignOptions
) -> bool:
    """True if the throttle's keys are surely free on every topic and broker that takes part."""
    if options.throttle_bytes_per_s is None:
        return True
    topics = sorted({move.partition.topic for move in moves})
    brokers = brokers_of(moves)
    of_topics = await cluster.read_topics(topics, timeout_s=options.timeout_s)
    of_brokers = await cluster.read_brokers(brokers, timeout_s=options.timeout_s)
    return (
        of_brokers.keys() == set(brokers)
        and not _owners(of_topics, REPLICA_KEYS)
        and not _owners(of_brokers, _RATES)
    )


def _owners(values: Mapping[Name, Values], keys: Iterable[str]) -> set[Name]:
    """The topics or brokers on which one of the keys is set, and not inherited."""
    wanted = set(keys)
    return {
        name
        for name, found in values.items()
        if any(key in wanted and value.is_own for key, value in found.items())
    }


async def _validated(
    cluster: BrokerCalls,
    assignments: Mapping[TopicPartition, Sequence[int]],
    options: ReassignOptions,
    checked: PartitionResults,
) -> PartitionResults:
    """What the controller says besides our own checks, where it says anything."""
    try:
        return with_notes(await _reassigned(cluster, assignments, options, "read"), checked)
    except (*LOST, RpcNotServed) as why:
        log_fallback("ReassignPartitions", why)
        return checked


async def _start(
    cluster: BrokerCalls,
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
        results = await _reassigned(cluster, targets, options, "write")
    except LOST as lost:
        results, known = await emulated.read_back(cluster, targets, lost, options.timeout_s)
        if known and not timed_out(lost) and not any(result.ok for result in results.values()):
            raise RpcNotServed(str(lost)) from None
    taken = [move for move in moves if results[move.partition].ok or not known]
    throttled = taken if options.throttle_bytes_per_s is not None else []
    return ReassignOutcome(
        with_notes(results, checked),
        dict.fromkeys(throttled_replicas_of(throttled), OK),
        dict.fromkeys(brokers_of(throttled), OK),
        {},
        undone=not taken,
        unknown=not known,
    )


async def _reassigned(
    cluster: BrokerCalls,
    targets: Mapping[TopicPartition, Sequence[int]],
    options: ReassignOptions,
    lane: Lane,
) -> PartitionResults:
    return await answered(
        cluster,
        lambda: seed_requests.reassign_request(targets, options),
        lambda answer: seed_requests.reassigned(answer, targets),
        timeout_s=options.timeout_s,
        lane=lane,
    )


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
        return await emulated.alter_rates(
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
    return values.keys() == state.brokers.keys() and _owners(values, _RATES) <= rates.keys()


async def alter_replicas(
    cluster: BrokerCalls,
    replicas: Mapping[str, ThrottledReplicas],
    *,
    validate_only: bool,
    timeout_s: float,
) -> Mapping[str, ItemResult]:
    """See `ClusterAdmin.alter_interbroker_throttled_replicas`, and the module's text."""
    results = None
    if await _names_every_list(cluster, replicas, timeout_s):
        results = await answered_or_none(
            cluster,
            lambda: seed_requests.replicas_request(
                replicas, validate_only=validate_only, timeout_s=timeout_s
            ),
            lambda answer: seed_requests.replicas_altered(answer, replicas),
            timeout_s=timeout_s,
            lane="read" if validate_only else "write",
        )
    if results is None:
        return await emulated.alter_replicas(
            cluster, replicas, validate_only=validate_only, timeout_s=timeout_s
        )
    if not validate_only:
        written = {t: replica_changes(replicas[t]) for t in replicas if results[t].ok}
        await cluster.topics_show(written, timeout_s=timeout_s)
    return results


async def _names_every_list(
    cluster: BrokerCalls, replicas: Mapping[str, ThrottledReplicas], timeout_s: float
) -> bool:
    """True if replacing every topic's lists with these changes those of no other topic."""
    sides = [side for lists in replicas.values() for side in (lists.leaders, lists.followers)]
    if not sides or not all(replicas.values()) or any(side.everything for side in sides):
        return False
    key = seeds.ALTER_INTERBROKER_THROTTLED_REPLICAS_KEY
    if not await has(cluster, key, timeout_s, seed_requests.ROLES_VERSION):
        return False
    try:
        ongoing = await cluster.list_reassignments(timeout_s=timeout_s)
        if not replicas.keys() <= {partition.topic for partition in ongoing}:
            return False
        state = await cluster.describe(timeout_s=timeout_s)
        if not _all_there(replicas, state.assignment, state.brokers):
            return False
        values = await cluster.read_topics(state.assignment.topics, timeout_s=timeout_s)
    except ClusterError:
        return False
    return _owners(values, REPLICA_KEYS) <= replicas.keys()


def _all_there(
    replicas: Mapping[str, ThrottledReplicas], assignment: Assignment, live: Collection[int]
) -> bool:
    """True if the cluster has every partition and every broker of these lists."""
    pairs = {
        (topic, pair)
        for topic, lists in replicas.items()
        for pair in lists.leaders.pairs | lists.followers.pairs
    }
    named = {TopicPartition(topic, number) for topic, (number, _) in pairs}
    present = partition_states(rows_of(assignment, named))
    return named <= present.keys() and all(broker in live for _, (_, broker) in pairs)


async def elect_preferred_leaders(
    cluster: BrokerCalls, partitions: Sequence[TopicPartition] | None, *, timeout_s: float
) -> PartitionResults:
    """See `ClusterAdmin.elect_preferred_leaders`, and the module's text.

    Raises:
        ClusterUnreachable: it did not answer in time.
    """
    if not await has(cluster, seeds.ELECT_PREFERRED_LEADERS_KEY, timeout_s):
        return await cluster.elect_leaders(partitions, timeout_s=timeout_s)
    asked = None if partitions is None else list(dict.fromkeys(partitions))
    topics = None if asked is None else sorted({partition.topic for partition in asked})
    state = await cluster.describe(topics, timeout_s=timeout_s)
    led = _led_by_preferred(state.assignment)
    try:
        results = await answered(
            cluster,
            lambda: seed_requests.election_request(asked, timeout_s),
            lambda answer: seed_requests.elected(answer, asked),
            timeout_s=timeout_s,
            lane="write",
        )
    except (*LOST, RpcNotServed) as why:
        if isinstance(why, BrokerUnreachable) and timed_out(why):
            raise ClusterUnreachable(
                f"The election was not answered. {why.message}",
                advice="It may still take place; look at the leaders before asking again.",
            ) from why
        log_fallback("ElectPreferredLeaders", why)
        return await cluster.elect_leaders(partitions, timeout_s=timeout_s)
    not_needed = item_result(ELECTION_NOT_NEEDED, "Leader election not needed.")
    return {
        partition: not_needed if result.ok and partition in led else result
        for partition, result in results.items()
        # Of all partitions, ElectLeaders lists those where there was something to do.
        if asked is not None or not (result.ok and partition in led)
    }


def _led_by_preferred(assignment: Assignment) -> set[TopicPartition]:
    preferred = (assignment.position == 0) & (assignment.broker == assignment.leader)
    return {
        TopicPartition(
            assignment.topics[int(assignment.topic_index[row])], int(assignment.partition[row])
        )
        for row in np.flatnonzero(preferred).tolist()
    }


async def replica_status(
    cluster: BrokerCalls, clock: Clock, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> Sequence[ReplicaLag]:
    """See `ClusterAdmin.replica_status`, and the module's text."""
    wanted = dict.fromkeys(partitions)
    topics = sorted({partition.topic for partition in wanted})
    state = await cluster.describe(topics, timeout_s=timeout_s)
    assignment = await offload(len(state.assignment), rows_of, state.assignment, wanted)
    states = await offload(len(assignment), partition_states, assignment)
    # A leader that hangs must leave time to ask the others in the other way.
    share_s = timeout_s / 2
    deadline_s = clock.monotonic_s() + timeout_s
    told = await _told(cluster, states, state.brokers, share_s)
    rest = rows_of(assignment, states.keys() - told.keys())
    left_s = max(deadline_s - clock.monotonic_s(), share_s)
    lags = {partition: list(of_one) for partition, of_one in told.items()}
    for lag in await emulated.measured_lags(cluster, clock, rest, left_s):
        lags.setdefault(lag.partition, []).append(lag)
    found = [lag for partition in states for lag in lags[partition]]
    missing = missing_lags(wanted, states.keys(), state.topic_errors)
    return [*found, *missing]


async def _told(
    cluster: BrokerCalls,
    states: Mapping[TopicPartition, PartitionState],
    live: Collection[int],
    timeout_s: float,
) -> Mapping[TopicPartition, Sequence[ReplicaLag]]:
    """The lags of the partitions whose leaders tell all of them."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition, state in states.items():
        if len(state.replicas) > 1 and all(b in live for b in (state.leader, *state.replicas)):
            by_leader.setdefault(state.leader, []).append(partition)
    answers = await together(
        _ask_leader(cluster, leader, [states[p] for p in led], timeout_s)
        for leader, led in by_leader.items()
    )
    known = {replica: status for answer in answers for replica, status in answer.items()}
    asked = [partition for led in by_leader.values() for partition in led]

    def whole() -> Mapping[TopicPartition, Sequence[ReplicaLag]]:
        lags = {partition: tuple(_lags(states[partition], known)) for partition in asked}
        return {
            p: found for p, found in lags.items() if all(one.lag_messages >= 0 for one in found)
        }

    return await offload(len(asked), whole)


async def _ask_leader(
    cluster: BrokerCalls, leader: int, led: Iterable[PartitionState], timeout_s: float
) -> Mapping[tuple[TopicPartition, int], seed_requests.Status]:
    """What a leader says of the followers of these partitions; nothing if it cannot say."""
    followers = [(s.partition, broker) for s in led for broker in s.replicas if broker != leader]
    if not await has(cluster, seeds.REPLICA_STATUS_KEY, timeout_s, broker=leader):
        return {}
    request = seed_requests.status_request(followers)
    try:
        answer = await cluster.call(leader, request, timeout_s=timeout_s)
        # Off the event loop: a plan may have very many replicas.
        found = await asyncio.to_thread(seed_requests.statuses, answer)
    except (ClusterError, NotSupported) as why:
        log_fallback(f"ReplicaStatus of broker {leader}", why)
        return {}
    if any(status.error_code in REFUSALS for status in found.values()):
        log_fallback(f"ReplicaStatus of broker {leader}", "it refuses the call")
    return found


def _lags(
    state: PartitionState, known: Mapping[tuple[TopicPartition, int], seed_requests.Status]
) -> Iterator[ReplicaLag]:
    """The lag of each replica, -1 for one that its leader did not tell about."""
    told = [known.get((state.partition, broker)) for broker in state.replicas]
    as_of_ms = max((status.status_ms for status in told if status is not None), default=-1)
    for broker, status in zip(state.replicas, told, strict=True):
        lag = -1 if status is None or status.error_code else status.lag_messages
        status_ms = as_of_ms if status is None else status.status_ms
        # The leader is level with itself, and is not among its followers.
        lag = 0 if broker == state.leader else lag
        yield ReplicaLag(state.partition, broker, status_ms, lag, broker in state.isr)
