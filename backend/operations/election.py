"""Preferred leader elections (KIP-183)."""

from __future__ import annotations

from collections.abc import Sequence

from backend.admin.port import ClusterAdmin, ItemResult
from backend.domain.answers import ChangeAnswer
from backend.domain.assignment import partition_states
from backend.domain.cluster import PartitionState, TopicPartition
from backend.domain.operation import OperationKind
from backend.operations.registry import Registry
from backend.operations.results import counted, listed, results
from backend.operations.throttle import recorded


def foreseen(state: PartitionState) -> ItemResult:
    """What electing the preferred leader of a partition would give, by what is known now."""
    preferred = state.replicas[0]
    if state.leader == preferred:
        return ItemResult(84, "ELECTION_NOT_NEEDED", f"broker {preferred} leads already")
    if preferred not in state.isr:
        return ItemResult(
            80,
            "PREFERRED_LEADER_NOT_AVAILABLE",
            f"broker {preferred} is not in the ISR ({listed(state.isr, 10) or 'empty'})",
        )
    return ItemResult(message=f"leadership would move from {state.leader} to {preferred}")


class Elections:
    """Elects preferred leaders, or says what an election would do."""

    def __init__(self, admin: ClusterAdmin, registry: Registry, timeout_s: float) -> None:
        self._admin = admin
        self._registry = registry
        self._timeout_s = timeout_s

    async def elect(
        self, partitions: Sequence[TopicPartition] | None, *, validate_only: bool
    ) -> ChangeAnswer:
        """Elect the preferred leader of the partitions, or of every partition if None.

        Duplicates are no error, and neither is a partition that its preferred leader leads
        already; of all partitions, only those where there was something to do are listed.
        """
        wanted = None if partitions is None else tuple(dict.fromkeys(partitions))
        before = await self._states(wanted)
        outcomes = {p: foreseen(state) for p, state in before.items()}
        for missing in set(wanted or ()) - set(before):
            outcomes[missing] = ItemResult(
                3, "UNKNOWN_TOPIC_OR_PARTITION", "the cluster has no such partition"
            )
        if not validate_only:
            asked = [p for p, outcome in outcomes.items() if outcome.error_code not in (3, 84)]
            if asked:
                outcomes.update(
                    await self._admin.elect_preferred_leaders(asked, timeout_s=self._timeout_s)
                )
        not_needed = [p for p, outcome in outcomes.items() if outcome.error_code == 84]
        answered = {
            p: _settled(outcome)
            for p, outcome in outcomes.items()
            if wanted is not None or outcome.error_code != 84
        }
        notes = (
            (f"{counted(len(not_needed), 'partition')} already led by the preferred replica.",)
            if not_needed
            else ()
        )
        if not answered:
            return ChangeAnswer(validate_only, None, (), notes)
        return recorded(
            self._registry,
            OperationKind.ELECTION,
            f"preferred election of {counted(len(answered), 'partition')}: {listed(answered, 3)}",
            ChangeAnswer(validate_only, None, results(answered), notes),
            {},
        )

    async def _states(
        self, wanted: tuple[TopicPartition, ...] | None
    ) -> dict[TopicPartition, PartitionState]:
        topics = None if wanted is None else sorted({p.topic for p in wanted})
        cluster = await self._admin.describe(topics, timeout_s=self._timeout_s)
        states = partition_states(cluster.assignment)
        return states if wanted is None else {p: states[p] for p in wanted if p in states}


def _settled(outcome: ItemResult) -> ItemResult:
    """ELECTION_NOT_NEEDED is success: the partition is led as it should be."""
    return ItemResult(message=outcome.message) if outcome.error_code == 84 else outcome
