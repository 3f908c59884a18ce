"""The way back: undoing an operation that has ended, and cancelling chosen partitions.

Pure. Both touch only what is still as the operation left it. A partition that somebody else has
moved since is left out and named, because its present place is somebody's decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.text.formatting import listed, many
from kshunt.backend.domain.throttles.configs import Move
from kshunt.backend.operations.moves.cluster_view import ClusterView
from kshunt.backend.operations.moves.schedule import Queue


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The plan that leads back, and what it leaves out. Each recorded move is in one of three."""

    plan: ReassignmentPlan
    left_out: Mapping[TopicPartition, str]
    """Partitions that cannot or should not go back, each with the reason."""
    already: tuple[TopicPartition, ...]
    """Partitions that are where they were."""
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line for an operator."""
        words = [f"{many(len(self.plan), 'partition')} to move back"]
        if self.already:
            words.append(f"{len(self.already)} already there")
        if self.left_out:
            words.append(f"{len(self.left_out)} left out: {listed(self.left_out, 3)}")
        return ", ".join(words)


def undo_plan(moves: Iterable[Move], view: ClusterView) -> UndoPlan:
    """Plan the way back of an operation that ended.

    Args:
        moves: What the operation recorded, whether a move was done, cancelled or never started.
            Each has the partition's original replicas (`current`) and its target.
        view: The cluster now, with the topics of the moves.
    """
    back: dict[TopicPartition, tuple[int, ...]] = {}
    left_out: dict[TopicPartition, str] = {}
    already = []
    down: dict[int, list[TopicPartition]] = {}
    for move in moves:
        state = view.partitions.get(move.partition)
        if state is not None and state.replicas == move.current and not _moves(move, view):
            already.append(move.partition)
        elif reason := _cannot_go_back(move, view):
            left_out[move.partition] = reason
        else:
            back[move.partition] = move.current
            for broker in set(move.current) - view.live:
                down.setdefault(broker, []).append(move.partition)
    warnings = tuple(
        f"Broker {broker} is down; it keeps its place in {listed(sorted(partitions), 3)}."
        for broker, partitions in sorted(down.items())
    )
    return UndoPlan(
        ReassignmentPlan(back, cluster_id=view.cluster_id), left_out, tuple(already), warnings
    )


def _moves(move: Move, view: ClusterView) -> bool:
    return move.partition in view.ongoing


def _cannot_go_back(move: Move, view: ClusterView) -> str:
    """Why a partition stays where it is, or nothing."""
    state = view.partitions.get(move.partition)
    if state is None:
        return "it was deleted since then"
    ongoing = view.ongoing.get(move.partition)
    if ongoing is not None:
        return f"it is now being moved to {list(ongoing.target)}"
    if state.replicas != move.target and not _came_back(state.replicas, move):
        if set(state.replicas) == set(move.target):
            return f"its replicas were reordered to {list(state.replicas)} since then"
        return f"somebody else moved it to {list(state.replicas)} since then"
    gone = [b for b in move.current if b not in view.live and b not in state.replicas]
    if gone:
        return f"its former broker {listed(gone)} does not exist any more"
    return ""


def _came_back(replicas: tuple[int, ...], move: Move) -> bool:
    """True where a cancellation returned it: Kafka then puts replicas of the target first."""
    return set(replicas) == set(move.current) != set(move.target)


@dataclass(frozen=True, slots=True)
class CancelPlan:
    """What cancelling chosen partitions means for each of them; each is in one of three."""

    returns: Mapping[TopicPartition, tuple[int, ...]]
    """Partitions to send a null target for, and the replicas to which they return."""
    dropped: frozenset[TopicPartition]
    """Partitions that have not started; they leave the queue, and the cluster is not asked."""
    refused: Mapping[TopicPartition, str]
    """Partitions that are not cancelled, each with the reason."""


def cancel_plan(chosen: Iterable[TopicPartition], queue: Queue, view: ClusterView) -> CancelPlan:
    """What to do so that the chosen partitions of an operation go back to where they were.

    A move that leads elsewhere than the operation's is somebody else's and is not cancelled.
    """
    returns: dict[TopicPartition, tuple[int, ...]] = {}
    dropped: set[TopicPartition] = set()
    refused: dict[TopicPartition, str] = {}
    waiting = set(queue.waiting)
    for partition in dict.fromkeys(chosen):
        if partition in waiting:
            dropped.add(partition)
        elif partition in queue.unanswered and partition not in view.ongoing:
            # It may start yet; a null target for what does not move does no harm.
            state = view.partitions.get(partition)
            returns[partition] = () if state is None else state.replicas
        elif reason := _cannot_cancel(partition, queue, view):
            refused[partition] = reason
        else:
            returns[partition] = view.ongoing[partition].original
    return CancelPlan(returns, frozenset(dropped), refused)


def _cannot_cancel(partition: TopicPartition, queue: Queue, view: ClusterView) -> str:
    """Why a partition of the operation is not cancelled, or nothing."""
    if partition not in queue.plan:
        return "this operation does not include it"
    move = view.ongoing.get(partition)
    if move is None:
        return "no longer moving; undo the operation to bring back what has moved"
    if move.target != queue.plan[partition]:
        return f"somebody else is moving it to {list(move.target)}"
    state = view.partitions.get(partition)
    if state is not None and not set(state.isr) & set(move.original):
        return (
            f"none of its original replicas ({listed(move.original)}) is in sync; the cluster "
            "would have to elect one of them and lose messages"
        )
    return ""
