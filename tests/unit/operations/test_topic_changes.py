"""Topics that are altered, and partitions that a cluster deletes itself: what is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kshunt.backend.admin.port.capabilities import Verb
from kshunt.backend.admin.port.item_result import OK, ItemResult
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import OperationKind, OperationState
from kshunt.backend.domain.shrink.delete_partitions import (
    KEYED,
    UNDER_CHANGES,
    DeletedPartition,
    DeletePartitions,
)
from kshunt.backend.domain.topics.alteration import AlteredTopic
from kshunt.backend.domain.topics.descriptions import (
    DescribedPartition,
    TopicDescription,
    TopicsDescribed,
)
from kshunt.backend.errors import (
    BadInput,
    ClusterUnreachable,
    Conflict,
    NotActive,
    NotSupported,
)
from kshunt.backend.operations.core.context import Context
from kshunt.backend.operations.topics.alteration import Alterations
from kshunt.backend.operations.topics.partition_deletion import PartitionDeletions, shrink_words
from tests.support.operations.approvals import Side, side

DRY, REAL = Change(validate_only=True), Change(who="ada", reason="too many")
GOES = {
    TopicPartition("orders", 2): DeletedPartition(PartitionMode.NONE),
    TopicPartition("orders", 1): DeletedPartition(
        PartitionMode.READ_WRITE, 42, "INVALID_REQUEST", "no"
    ),
}


@dataclass(eq=False)
class PaperTopics:
    """A cluster that takes every change of topics as it is told to."""

    deleted: Mapping[TopicPartition, DeletedPartition] = field(default_factory=lambda: dict(GOES))
    altered: Mapping[str, ItemResult] = field(default_factory=lambda: {"orders": OK})
    moving: bool = False
    error: Exception | None = None
    asked: list[tuple[str, bool]] = field(default_factory=list)
    """What was asked, and whether it was only looked at."""
    not_offered: Mapping[Verb, str] = field(default_factory=dict)

    @property
    def partition_deletions(self) -> Any:
        async def delete(topics: object, *, validate_only: bool, timeout_s: float) -> Any:
            self.asked.append(("delete", validate_only))
            if self.error is not None and not validate_only:
                raise self.error
            return self.deleted

        return SimpleNamespace(delete=delete)

    @property
    def alterations(self) -> Any:
        async def alter(topics: object, *, validate_only: bool, timeout_s: float) -> Any:
            self.asked.append(("alter", validate_only))
            return self.altered

        return SimpleNamespace(alter=alter)

    @property
    def topics(self) -> Any:
        async def describe(names: object, **_: object) -> TopicsDescribed:
            adding = (3,) if self.moving else ()
            one = DescribedPartition(0, 1, (1, 2), (1, 2), adding=adding)
            return TopicsDescribed((TopicDescription("orders", "", (one,)),), frozenset({1}))

        return SimpleNamespace(describe=describe)


def context(here: Side, cluster: PaperTopics) -> Context:
    return Context(cast(Any, cluster), here.registry, here.clock, 1.0)


WANTED = {"orders": DeletePartitions(2, 60_000)}


async def test_partitions_that_go_are_written_down_with_what_came_of_each() -> None:
    here, cluster = side(), PaperTopics()
    deletions = PartitionDeletions(context(here, cluster))
    seen = await deletions.delete(WANTED, DRY, timeout_s=1.0)
    assert (seen.validate_only, seen.operation_id) == (True, None)
    assert [*here.registry] == []
    assert cluster.asked == [("delete", True)]
    answer = await deletions.delete(WANTED, REAL, timeout_s=1.0)
    assert cluster.asked[1:] == [("delete", True), ("delete", False)]
    assert not answer.validate_only
    (operation,) = here.registry
    assert answer.operation_id == operation.id
    assert operation.kind is OperationKind.DELETE_PARTITIONS
    assert (
        operation.summary
        == "shrink orders: keeps 2 partitions; the others are deleted after 60000 ms"
    )
    assert operation.partitions == (TopicPartition("orders", 2),)
    assert operation.state is OperationState.DONE
    assert operation.outcome.startswith("1 of 2 failed: orders-1")
    assert (operation.who, operation.reason) == ("ada", "too many")
    assert operation.details.requested == {
        "orders": "keeps 2 partitions; the others are deleted after 60000 ms"
    }


async def test_a_deletion_that_is_taken_back_is_not_called_a_shrink() -> None:
    stays = {TopicPartition("orders", 2): DeletedPartition(PartitionMode.READ_WRITE)}
    here = side()
    deletions = PartitionDeletions(context(here, PaperTopics(stays)))
    await deletions.delete({"orders": DeletePartitions(3)}, REAL, timeout_s=1.0)
    (operation,) = here.registry
    assert (
        operation.summary == "stop shrinking orders: keeps 3 partitions; the deletion is cancelled"
    )
    assert operation.details.requested == {
        "orders": "keeps 3 partitions; the deletion is cancelled"
    }


async def test_several_topics_are_named_in_one_line() -> None:
    here = side()
    deletions = PartitionDeletions(context(here, PaperTopics()))
    wanted = {name: DeletePartitions(1) for name in "dcba"}
    await deletions.delete(wanted, REAL, timeout_s=1.0)
    (operation,) = here.registry
    assert operation.summary == "shrink 4 topics: a, b, c and 1 more"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            DeletePartitions(1),
            "keeps 1 partition; the others are deleted immediately, or when the delay that was "
            "set before is over",
        ),
        (DeletePartitions(1, 1), "keeps 1 partition; the others are deleted after 1 ms"),
    ],
)
def test_when_partitions_go_is_said(wanted: DeletePartitions, words: str) -> None:
    assert shrink_words(wanted) == words


@pytest.mark.parametrize("moving", [False, True])
async def test_whoever_loses_partitions_is_warned(moving: bool) -> None:
    deletions = PartitionDeletions(context(side(), PaperTopics(moving=moving)))
    seen = await deletions.delete(WANTED, DRY, timeout_s=1.0)
    assert seen.notes == ((KEYED, UNDER_CHANGES) if moving else (KEYED,))


async def test_whoever_takes_a_deletion_back_is_not_warned() -> None:
    stays = {TopicPartition("orders", 2): DeletedPartition(PartitionMode.READ_WRITE)}
    deletions = PartitionDeletions(context(side(), PaperTopics(stays, moving=True)))
    assert (await deletions.delete(WANTED, DRY, timeout_s=1.0)).notes == ()


async def test_what_cannot_be_done_is_not_written_down() -> None:
    here, cluster = side(), PaperTopics()
    with pytest.raises(BadInput, match="No topic is named"):
        await PartitionDeletions(context(here, cluster)).delete({}, REAL, timeout_s=1.0)
    with pytest.raises(BadInput, match="No topic is named"):
        await Alterations(context(here, cluster)).alter({}, REAL, timeout_s=1.0)

    class Without(PaperTopics):
        @property
        def partition_deletions(self) -> Any:
            raise NotSupported("It deletes none.", advice="Copy it.")

    with pytest.raises(Conflict, match="It deletes none") as refused:
        await PartitionDeletions(context(here, Without())).delete(WANTED, REAL, timeout_s=1.0)
    assert refused.value.advice == "Copy it."
    assert [*here.registry] == []


async def test_a_cluster_that_does_not_answer_fails_the_operation() -> None:
    here = side()
    cluster = PaperTopics(error=ClusterUnreachable("Nobody answered."))
    with pytest.raises(ClusterUnreachable):
        await PartitionDeletions(context(here, cluster)).delete(WANTED, REAL, timeout_s=1.0)
    (operation,) = here.registry
    assert operation.state is OperationState.FAILED
    assert "Nobody answered" in operation.outcome


# Alterations

ALTERED = {"orders": AlteredTopic(4, 2, {0: (1, 2)})}


async def test_an_altered_topic_is_written_down_before_and_after() -> None:
    here, cluster = side(), PaperTopics()
    alterations = Alterations(context(here, cluster))
    seen = await alterations.alter(ALTERED, DRY, timeout_s=1.0)
    assert (seen.validate_only, seen.operation_id) == (True, None)
    assert [*here.registry] == []
    answer = await alterations.alter(ALTERED, REAL, timeout_s=1.0)
    assert cluster.asked == [("alter", True), ("alter", False)]
    (operation,) = here.registry
    assert (answer.validate_only, answer.operation_id) == (False, operation.id)
    assert operation.kind is OperationKind.ALTER_TOPICS
    assert operation.summary == "alter 1 topic: orders"
    assert (operation.state, operation.outcome) == (OperationState.DONE, "")
    assert operation.details.requested == {
        "orders": "partitions 4, replication factor 2, assignment of 1 partition"
    }


async def test_a_backend_that_stops_after_its_intent_says_that_the_intent_is_there() -> None:
    """The backend that acts next may carry the intent out."""
    here, cluster = side(), PaperTopics()
    alterations = Alterations(context(here, cluster))
    here.book.fault = "stopped"

    async def request() -> None:
        await alterations.alter(ALTERED, REAL, timeout_s=1.0)

    with pytest.raises(NotActive) as stopped:
        await asyncio.create_task(request())
    (operation,) = here.registry
    assert cluster.asked == []
    assert f"after it wrote operation {operation.id} into the journal" in str(stopped.value)
    assert "Nothing was changed" not in str(stopped.value)
    assert operation.id in stopped.value.advice
    with pytest.raises(NotActive, match=r"Nothing was changed\.$"):
        await asyncio.create_task(request())


async def test_many_altered_topics_are_named_in_one_line() -> None:
    here = side()
    altered = {name: AlteredTopic(1, 1, {}) for name in "dcba"}
    await Alterations(context(here, PaperTopics())).alter(altered, REAL, timeout_s=1.0)
    (operation,) = here.registry
    assert operation.summary == "alter 4 topics: a, b, c and 1 more"


async def test_a_way_that_does_not_offer_it_alters_nothing() -> None:
    here = side()
    cluster = PaperTopics(not_offered={Verb.ALTER_TOPICS: "it is too old"})
    with pytest.raises(NotSupported, match="it is too old"):
        await Alterations(context(here, cluster)).alter(ALTERED, REAL, timeout_s=1.0)
    assert cluster.asked == []
