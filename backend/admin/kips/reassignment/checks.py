"""What speaks against a reassignment, before it starts. No effect, no client."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kshunt.backend.admin.kips.throttles.checks import check_throttle
from kshunt.backend.admin.port.item_result import OK, ItemResult, PartitionResults
from kshunt.backend.admin.port.reassignments import ReassignOptions, ReassignOutcome
from kshunt.backend.admin.rpc.error_mapping import item_result
from kshunt.backend.domain.cluster.metadata import (
    OngoingReassignment,
    PartitionState,
    TopicPartition,
    original_replicas,
)
from kshunt.backend.domain.cluster.partition_modes import PartitionMode, leaving_words
from kshunt.backend.domain.throttles.configs import (
    Move,
    rate_or_none,
)
from kshunt.backend.error_codes import (
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    LOG_DIR_NOT_FOUND,
    OPERATION_NOT_ATTEMPTED,
    UNKNOWN_TOPIC_OR_PARTITION,
)


@dataclass(frozen=True, slots=True)
class ReassignmentFacts:
    """What the cluster says before a reassignment."""

    states: Mapping[TopicPartition, PartitionState]
    ongoing: Mapping[TopicPartition, OngoingReassignment]
    live: Collection[int]
    """Brokers that are registered and not fenced."""
    log_dirs: Mapping[int, Collection[str]]
    """Directories of each broker that was asked and answered."""

    def present(self, partition: TopicPartition) -> tuple[int, ...]:
        """Where a partition is: its original replicas if it moves already."""
        return original_replicas(self.states[partition], self.ongoing.get(partition))


def meant_options(options: ReassignOptions) -> ReassignOptions:
    """The options, with None for the rate by which KIP-179 says that there is no throttle."""
    return replace(
        options,
        throttle_bytes_per_s=rate_or_none(options.throttle_bytes_per_s),
        log_dirs_throttle_bytes_per_s=rate_or_none(options.log_dirs_throttle_bytes_per_s),
    )


def check_plan(
    assignments: Mapping[TopicPartition, Sequence[int]],
    log_dirs: Mapping[tuple[TopicPartition, int], str],
    options: ReassignOptions,
    situation: ReassignmentFacts,
) -> PartitionResults:
    """What is to be said of each partition before anything is written.

    KIP-179 answers each partition for itself. With `all_or_nothing` it is as in Kafka's
    `ReassignPartitionsCommand`: nothing starts if anything is unknown, and partitions without a
    fault of their own then say so. A rate that the wire refuses refuses all of them. A success may
    carry a note, for a broker that is down and stays in the replica list.
    """
    rates = (options.throttle_bytes_per_s, options.log_dirs_throttle_bytes_per_s)
    if not (rate := check_throttle(*rates)).ok:
        return dict.fromkeys(assignments, rate)
    found = {
        partition: _check(partition, tuple(target), options, situation)
        for partition, target in assignments.items()
    }
    for (partition, broker), path in log_dirs.items():
        if found.get(partition, OK).ok:
            found[partition] = _check_log_dir(
                broker, path, assignments.get(partition, ()), situation, found.get(partition, OK)
            )
    refused = [partition for partition, result in found.items() if not result.ok]
    if not refused or not options.all_or_nothing:
        return found
    why = f"nothing was submitted because {refused[0]} cannot be reassigned"
    if len(refused) > 1:
        why += f", nor {len(refused) - 1} more"
    spared = item_result(OPERATION_NOT_ATTEMPTED, why)
    return {partition: spared if result.ok else result for partition, result in found.items()}


def fit_part(
    assignments: Mapping[TopicPartition, Sequence[int]],
    log_dirs: Mapping[tuple[TopicPartition, int], str],
    checked: PartitionResults,
) -> tuple[dict[TopicPartition, Sequence[int]], dict[tuple[TopicPartition, int], str]]:
    """The part of a plan that `check_plan` finds nothing against."""
    return (
        {p: target for p, target in assignments.items() if checked[p].ok},
        {key: path for key, path in log_dirs.items() if checked.get(key[0], OK).ok},
    )


def with_refused(outcome: ReassignOutcome, checked: PartitionResults) -> ReassignOutcome:
    """The outcome of the part of a plan that is fit, with what was refused before."""
    return replace(outcome, results={p: outcome.results.get(p, checked[p]) for p in checked})


def _check(
    partition: TopicPartition,
    target: tuple[int, ...],
    options: ReassignOptions,
    situation: ReassignmentFacts,
) -> ItemResult:
    if partition not in situation.states:
        return item_result(UNKNOWN_TOPIC_OR_PARTITION, "the cluster does not have this partition")
    state = situation.states[partition]
    if not state.stays:
        gone = state.mode is PartitionMode.NONE
        code = UNKNOWN_TOPIC_OR_PARTITION if gone else OPERATION_NOT_ATTEMPTED
        return item_result(code, leaving_words(state.mode))
    present = situation.present(partition)
    hosts = {*present, *situation.states[partition].replicas}
    if not target or len(set(target)) < len(target):
        return item_result(
            INVALID_REPLICA_ASSIGNMENT, f"{list(target)} is not a valid replica list"
        )
    down = [broker for broker in target if broker not in situation.live]
    if strangers := [broker for broker in down if broker not in hosts]:
        names = ", ".join(map(str, strangers))
        return item_result(INVALID_REPLICA_ASSIGNMENT, f"no live broker has the id {names}")
    if not options.allow_replication_factor_change and len(target) != len(present):
        return item_result(
            INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {len(present)} to {len(target)}",
        )
    return ItemResult(message="; ".join(_notes(partition, target, down, situation)))


def _notes(
    partition: TopicPartition,
    target: tuple[int, ...],
    down: list[int],
    situation: ReassignmentFacts,
) -> Iterator[str]:
    if down:
        yield f"keeps broker {', '.join(map(str, down))}, which is down"
    move = situation.ongoing.get(partition)
    if move is not None and move.target != target:
        # Kafka 4.1 takes the replicas of the unfinished move for original ones from here on.
        yield (
            f"was moving to {list(move.target)}; "
            f"a cancellation would leave it on {sorted(move.replicas)}"
        )


def _check_log_dir(
    broker: int, path: str, target: Sequence[int], situation: ReassignmentFacts, so_far: ItemResult
) -> ItemResult:
    if broker not in target:
        return item_result(
            INVALID_REPLICA_ASSIGNMENT,
            f"a log directory is given for broker {broker}, which is not in the replica list",
        )
    if broker in situation.log_dirs and path not in situation.log_dirs[broker]:
        return item_result(LOG_DIR_NOT_FOUND, f"broker {broker} has no log directory {path}")
    return so_far


def moves_of(
    assignments: Mapping[TopicPartition, Sequence[int]], situation: ReassignmentFacts
) -> list[Move]:
    """Each partition's move from where it is."""
    return [
        Move(partition, situation.present(partition), tuple(target))
        for partition, target in assignments.items()
    ]


def with_notes(results: PartitionResults, checked: PartitionResults) -> PartitionResults:
    """The cluster's results, each success with the note of its check."""
    return {
        partition: checked.get(partition, result) if result.ok else result
        for partition, result in results.items()
    }
