"""AlterTopics (KIP-179's early draft), composed from the calls that every Kafka since 2.4 has.

Goals
    Each topic is altered wholly or not at all; a success says that the alteration has begun.
Constraints
    - CreatePartitions gives new partitions the same number of replicas as the topic has, and
      the partitions that it has created cannot be removed again. A reassignment can be led back.
    - Each call can fail by itself, and for some topics only; one that times out may have taken
      hold.
Algorithm
    1. Read the topics, and decide what each comes to (`checks`); where this backend has a
       placer (KIP-660), it says where replicas go that the request does not place.
    2. CreatePartitions, with the lists that are given or chosen, or else placed by the cluster.
       Nothing of a topic has changed if it is refused here, where most of what we cannot know
       shows: quotas, policies, partitions that are being deleted.
    3. AlterPartitionReassignments of the partitions that were there, and of new ones that must
       get another number of replicas. If the cluster refuses one, the others of its topic are led
       back to where they were; added partitions stay, and the result says so.
    Only to validate, step 2 asks the cluster to validate, and step 3 rests on our own checks.
    If an answer is lost, the cluster is read to see whether the alteration began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from kshunt.backend.admin.kips.alter_topics.checks import (
    Alteration,
    ReplicaChooser,
    Replicas,
    TopicToAlter,
    decided,
    scenes_of,
    to_place,
)
from kshunt.backend.admin.kips.native_calls import LOST
from kshunt.backend.admin.port.item_result import OK, ItemResult, PartitionResults
from kshunt.backend.admin.port.reassignments import ReassignmentAdmin
from kshunt.backend.admin.rpc import requests
from kshunt.backend.admin.rpc.broker_calls import BrokerCalls
from kshunt.backend.admin.rpc.connections import lane_of
from kshunt.backend.admin.rpc.error_mapping import item_error, item_result
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_TOPIC_EXCEPTION,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kshunt.backend.errors import KshuntError

if TYPE_CHECKING:
    from kshunt.backend.admin.kips.backend_placer import BackendPlacer, PlacementView

T = TypeVar("T")

TopicResults: TypeAlias = Mapping[str, ItemResult]

_IN_THE_DRAFT: Final = {
    UNKNOWN_TOPIC_OR_PARTITION: INVALID_TOPIC_EXCEPTION,
    TOPIC_AUTHORIZATION_FAILED: CLUSTER_AUTHORIZATION_FAILED,
}
"""What other calls say where the draft has a code of its own."""


class EmulatedAlteration:
    """See the module's text."""

    def __init__(self, calls: BrokerCalls, reassignments: ReassignmentAdmin) -> None:
        self._calls = calls
        self._reassignments = reassignments

    async def prepared(
        self,
        topics: Mapping[str, AlteredTopic],
        random: Random,
        timeout_s: float,
        placing: BackendPlacer | None = None,
    ) -> tuple[dict[str, ItemResult], dict[str, Alteration]]:
        """What cannot be done, and why; and what is to be done.

        Where there is a placer (`placing`), it says where replicas go that the request leaves open.

        Raises:
            ClusterUnreachable: it did not answer; nothing was changed.
        """
        scenes = await self._scenes(list(topics), timeout_s)
        if placing is None or not any(
            to_place(one, scenes[topic]) for topic, one in topics.items()
        ):
            found = _all_decided(topics, scenes, random, None)
        else:
            chooser = _chooser(await placing.view(timeout_s=timeout_s), placing.ignores_racks)
            found = await asyncio.to_thread(_all_decided, topics, scenes, random, chooser)
        results = {topic: one for topic, one in found.items() if isinstance(one, ItemResult)}
        plans = {topic: one for topic, one in found.items() if isinstance(one, Alteration)}
        results.update({topic: OK for topic, plan in plans.items() if not plan.changes})
        return results, {topic: plan for topic, plan in plans.items() if plan.changes}

    async def _scenes(self, topics: Sequence[str], timeout_s: float) -> Mapping[str, TopicToAlter]:
        state = await self._calls.describe(topics, timeout_s=timeout_s)
        return scenes_of(topics, state, await self._reassignments.ongoing(timeout_s=timeout_s))

    async def validated(self, plans: Mapping[str, Alteration], timeout_s: float) -> TopicResults:
        """What the cluster says of partitions to be added; OK for everything else."""
        try:
            found = await self._create(plans, validate_only=True, timeout_s=timeout_s)
        except KshuntError as refused:
            found = {topic: item_error(refused) for topic, plan in plans.items() if plan.added}
        return {topic: found.get(topic, OK) for topic in plans}

    async def carried_out(self, plans: Mapping[str, Alteration], timeout_s: float) -> TopicResults:
        """Create, then reassign; see the module's text."""
        try:
            created = await self._create(plans, validate_only=False, timeout_s=timeout_s)
        except LOST as lost:
            growing = {topic: _creation(plan) for topic, plan in plans.items() if plan.added}
            created, _ = await self.read_back(growing, lost, timeout_s)
        except KshuntError as refused:
            created = {topic: item_error(refused) for topic, plan in plans.items() if plan.added}
        created_plans = {t: plan for t, plan in plans.items() if created.get(t, OK).ok}
        return {**dict.fromkeys(plans, OK), **created, **await self._move(created_plans, timeout_s)}

    async def _create(
        self, plans: Mapping[str, Alteration], *, validate_only: bool, timeout_s: float
    ) -> TopicResults:
        """What became of the topics that are to have more partitions."""
        growing = {topic: (p.count, p.created) for topic, p in plans.items() if p.added}
        if not growing:
            return {}
        answer = await self._calls.ask_controller(
            lambda: requests.create_partitions_request(
                growing, validate_only=validate_only, timeout_s=timeout_s
            ),
            timeout_s=timeout_s,
            lane=lane_of(validate_only=validate_only),
        )
        found = requests.partitions_created(answer, growing)
        return {topic: _as_in_the_draft(result) for topic, result in found.items()}

    async def _move(
        self, plans: Mapping[str, Alteration], timeout_s: float
    ) -> dict[str, ItemResult]:
        """What became of the topics that have partitions to reassign."""
        moving = {topic: plan for topic, plan in plans.items() if plan.targets}
        targets = _by_partition(moving, lambda plan: plan.targets)
        if not targets:
            return {}
        try:
            results = await self._reassignments.alter(targets, timeout_s=timeout_s)
        except LOST as lost:
            begun, _ = await self.read_back(moving, lost, timeout_s)
            return {topic: _stopped(begun[topic], plan) for topic, plan in moving.items()}
        except KshuntError as refused:
            return {topic: _stopped(item_error(refused), plan) for topic, plan in moving.items()}
        failed: dict[str, ItemResult] = {}
        for partition, result in results.items():
            if not result.ok and partition.topic not in failed:
                failed[partition.topic] = _stopped(result, moving[partition.topic])
        left = await self._lead_back({t: moving[t] for t in failed}, results, timeout_s)
        for topic, partitions in left.items():
            why = f"{failed[topic].message}; still moving: {', '.join(map(str, partitions))}"
            failed[topic] = replace(failed[topic], message=why)
        return {topic: failed.get(topic, OK) for topic in moving}

    async def _lead_back(
        self,
        plans: Mapping[str, Alteration],
        results: PartitionResults,
        timeout_s: float,
    ) -> Mapping[str, list[TopicPartition]]:
        """Return the partitions that were accepted; which were not, by topic, for these topics.

        A cancellation would not do: a move that copies nothing is over by now.
        """
        original = _by_partition(plans, lambda plan: plan.original)
        back = {p: replicas for p, replicas in original.items() if results[p].ok}
        left: dict[str, list[TopicPartition]] = {}
        if not back:
            return left
        try:
            found = await self._reassignments.alter(back, timeout_s=timeout_s)
        except KshuntError as error:
            found = dict.fromkeys(back, item_error(error))
        for partition, result in found.items():
            if not result.ok:
                left.setdefault(partition.topic, []).append(partition)
        return left

    async def read_back(
        self,
        plans: Mapping[str, Alteration],
        lost: KshuntError,
        timeout_s: float,
        *,
        chosen_here: bool = True,
    ) -> tuple[TopicResults, bool]:
        """What became of alterations whose answer was lost: OK for those that are seen.

        And whether that is known: False where the cluster could not be asked. `chosen_here` is
        False where the cluster has chosen the brokers that the request did not name.
        """
        refused = item_error(lost)
        try:
            scenes = await self._scenes(list(plans), timeout_s)
        except KshuntError:
            why = f"whether it began is unknown; check before you ask again: {refused.message}"
            return dict.fromkeys(plans, replace(refused, message=why)), False
        return {
            topic: OK if _begun(plan, scenes[topic], chosen_here or plan.named) else refused
            for topic, plan in plans.items()
        }, True


def _all_decided(
    topics: Mapping[str, AlteredTopic],
    scenes: Mapping[str, TopicToAlter],
    random: Random,
    chooser: ReplicaChooser | None,
) -> dict[str, Alteration | ItemResult]:
    """What each topic comes to; one that the placer refuses is answered for itself."""
    found: dict[str, Alteration | ItemResult] = {}
    for topic, wanted in topics.items():
        try:
            found[topic] = decided(wanted, scenes[topic], random, chooser)
        except KshuntError as refused:
            found[topic] = item_error(refused)
    return found


def _chooser(view: PlacementView, ignores_racks: bool) -> ReplicaChooser:
    """A placer that is asked in one question for numbers that follow each other."""

    def lists(scene: TopicToAlter, numbers: Sequence[int], replicas: int) -> Mapping[int, Replicas]:
        existing = [scene.present(number) for number in sorted(scene.states)]
        found: dict[int, Replicas] = {}
        for run in _runs(numbers):
            placed = view.place(scene.name, run, replicas, existing)
            found.update(zip(run, placed, strict=True))
        return found

    return ReplicaChooser(lists, ignores_racks)


def _runs(numbers: Sequence[int]) -> list[range]:
    """Ascending numbers as ranges, each as long as it can be."""
    starts = [n for at, n in enumerate(numbers) if at == 0 or numbers[at - 1] != n - 1]
    ends = [n + 1 for at, n in enumerate(numbers, 1) if at == len(numbers) or numbers[at] != n + 1]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _creation(plan: Alteration) -> Alteration:
    """The part of an alteration that CreatePartitions does."""
    return replace(plan, targets={}, original={})


def _stopped(result: ItemResult, plan: Alteration) -> ItemResult:
    """Why a topic's partitions are not reassigned, and what was done all the same."""
    result = _as_in_the_draft(result)
    if result.ok or not plan.added:
        return result
    stays = f"the {plan.added} partitions that were added remain"
    return replace(result, message=f"{result.message}; {stays}".removeprefix("; "))


def _by_partition(
    plans: Mapping[str, Alteration], of: Callable[[Alteration], Mapping[int, T]]
) -> dict[TopicPartition, T]:
    return {
        TopicPartition(topic, number): value
        for topic, plan in plans.items()
        for number, value in of(plan).items()
    }


def _begun(plan: Alteration, scene: TopicToAlter, exact: bool) -> bool:
    """True where a topic is, or is on its way to, what the plan makes of it."""
    if len(scene.states) < plan.count or not plan.targets.keys() <= scene.states.keys():
        return False
    return all(
        scene.present(number) == target if exact else len(scene.present(number)) == len(target)
        for number, target in plan.targets.items()
    )


def _as_in_the_draft(result: ItemResult) -> ItemResult:
    code = _IN_THE_DRAFT.get(result.error_code)
    if code is None:
        return result
    return item_result(code, result.message or f"the cluster answers {result.error_name}")
