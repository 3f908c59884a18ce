"""What requests of the API mean: their models as values of the domain."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from typing import Final

from kshunt.backend.access.request_context import CURRENT_CALLER
from kshunt.backend.api.core.backend import Backend
from kshunt.backend.api.request_models.base import PartitionModel, PlanModel, Strict
from kshunt.backend.api.request_models.reassignments import CapsModel
from kshunt.backend.api.request_models.throttles import BrokerRateModel, TopicReplicasModel
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, check_plan
from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate, ThrottledReplicas
from kshunt.backend.errors import BadInput
from kshunt.backend.operations.moves.schedule import Caps, MoveOrder

TIMEOUT_S_MIN: Final = 1.0
INLINE_MAX: Final = 500
"""Entries that are read on the event loop: it takes two milliseconds."""


_SAID: Final = {one.name for one in fields(Change)}


def change_of(body: Strict) -> Change:
    """How a change is asked for. Whom credentials name is not asked for a name."""
    said = Change(**body.model_dump(include=_SAID))
    return replace(said, who=CURRENT_CALLER.get().name or said.who)


async def plan_of(model: PlanModel) -> ReassignmentPlan:
    """The plan of a request, held to the same rules as a plan file; a large one on a thread.

    Raises:
        PlanError: it breaks one.
    """
    if len(model.partitions) <= INLINE_MAX:
        return _plan_of(model)
    return await asyncio.to_thread(_plan_of, model)


def _plan_of(model: PlanModel) -> ReassignmentPlan:
    document = model.model_copy(update={"partitions": []}).model_dump(exclude_none=True)
    # One by one: a single call for all of them would keep the interpreter's lock.
    document["partitions"] = [one.model_dump(exclude_none=True) for one in model.partitions]
    return check_plan(document)


def caps_of(model: CapsModel | None) -> Caps | None:
    """Moves in flight; None: all at the same time."""
    return None if model is None else Caps(model.per_broker, model.in_cluster)


def order_of(model: CapsModel | None) -> MoveOrder:
    """Which moves come first."""
    small = model is not None and model.smallest_first
    return MoveOrder.SMALLEST_FIRST if small else MoveOrder.LARGEST_FIRST


def partitions_of(entries: Iterable[PartitionModel]) -> list[TopicPartition]:
    """Partitions, in the order in which they were given."""
    return [TopicPartition(entry.topic, entry.partition) for entry in entries]


def rates_of(entries: Sequence[BrokerRateModel]) -> dict[int, ThrottledRate]:
    """Rates by broker.

    Raises:
        BadInput: a broker is named twice.
    """
    wanted = {
        entry.broker: ThrottledRate(entry.leader_bytes_per_s, entry.follower_bytes_per_s)
        for entry in entries
    }
    once(len(wanted), len(entries), "broker")
    return wanted


async def replicas_of(
    backend: Backend, entries: Sequence[TopicReplicasModel]
) -> dict[str, ThrottledReplicas]:
    """Lists by topic; `partition:*` is all brokers that the cluster has now.

    Raises:
        BadInput: a topic is named twice, or an entry is neither partition:broker nor partition:*.
        ClusterUnreachable: the cluster could not be asked for its brokers.
    """
    brokers: Collection[int] = ()
    if any(":*" in side for entry in entries for side in (entry.leaders, entry.followers)):
        state = await backend.admin.cluster.describe(timeout_s=backend.settings.request_timeout_s)
        brokers = {*state.brokers, *state.assignment.broker.tolist()}
    wanted = {
        entry.topic: ThrottledReplicas(
            ReplicaSet.parse(entry.leaders, brokers), ReplicaSet.parse(entry.followers, brokers)
        )
        for entry in entries
    }
    once(len(wanted), len(entries), "topic")
    return wanted


def timeout_s_of(timeout_ms: int) -> float:
    """Seconds to wait; at least `TIMEOUT_S_MIN`, because a shorter time fails by itself."""
    return max(timeout_ms / 1000, TIMEOUT_S_MIN)


def once(distinct: int, given: int, what: str) -> None:
    """Stop a request that names something twice.

    Raises:
        BadInput: it does.
    """
    if distinct != given:
        raise BadInput(f"A {what} is named twice; nothing was changed.")
