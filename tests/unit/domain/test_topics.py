"""Topics as an operator asks for them: counted, described, and what becomes of their partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kshunt.backend.domain.cluster.metadata import NO_BROKER, TopicPartition
from kshunt.backend.domain.cluster.partition_modes import PartitionMode, mode_counts
from kshunt.backend.domain.reassignment.answers import Result
from kshunt.backend.domain.shrink.delete_partitions import (
    COPIED,
    KEYED,
    NOT_ENABLED,
    UNDER_CHANGES,
    DeletedPartition,
    ShrinkAnswer,
    ShrinkSupport,
    deletions_of,
    shrink_warnings,
)
from kshunt.backend.domain.topics.descriptions import (
    DescribedPartition,
    TopicDescription,
    TopicSummary,
)
from kshunt.backend.domain.topics.summaries import summaries
from tests.support.operations.engine import at, columns

WHOLE = DescribedPartition(0, 1, (1, 2), (1, 2))


def test_topics_are_counted_by_partitions_and_by_the_replicas_of_the_first() -> None:
    found = summaries(
        columns(
            at("__consumer_offsets-0", (1,)),
            at("b-0", (1, 2, 3)),
            at("b-1", (2,)),
            at("b-2", (3, 1)),
        )
    )
    assert tuple(found) == (
        TopicSummary("__consumer_offsets", 1, 1, True),
        TopicSummary("b", 3, 3, False),
    )


@pytest.mark.parametrize(
    ("partition", "factor", "under", "changing"),
    [
        (WHOLE, 2, False, False),
        (replace(WHOLE, isr=(1,)), 2, True, False),
        (replace(WHOLE, replicas=(1, 2, 3), adding=(3,)), 2, False, True),
        (replace(WHOLE, replicas=(1, 2, 3), removing=(3,)), 3, True, True),
        (replace(WHOLE, mode=PartitionMode.READ_ONLY), 2, False, True),
        (replace(WHOLE, mode=PartitionMode.NONE), 2, False, True),
    ],
)
def test_a_partition_that_moves_counts_without_what_is_added(
    partition: DescribedPartition, factor: int, under: bool, changing: bool
) -> None:
    topic = TopicDescription("orders", "", (WHOLE, partition))
    assert partition.replication_factor == factor
    assert (partition.under_replicated, partition.changing) == (under, changing)
    assert topic.changing is changing


@pytest.mark.parametrize(
    ("leader", "unavailable"), [(1, False), (2, True), (NO_BROKER, True), (0, False)]
)
def test_a_partition_whose_leader_is_down_is_unavailable(leader: int, unavailable: bool) -> None:
    assert replace(WHOLE, leader=leader).unavailable({0, 1, NO_BROKER}) is unavailable


def test_a_topic_is_as_its_first_partition_is() -> None:
    gone = replace(WHOLE, mode=PartitionMode.NONE, replicas=(1,))
    read_only = replace(WHOLE, mode=PartitionMode.READ_ONLY)
    topic = TopicDescription("orders", "", (WHOLE, read_only, gone))
    assert (topic.replication_factor, topic.open_count, topic.internal) == (2, 2, False)
    empty = TopicDescription("__transaction_state", "", ())
    assert (empty.replication_factor, empty.open_count, empty.internal) == (0, 0, True)


# What becomes of partitions


@pytest.mark.parametrize(
    ("support", "changing", "warnings"),
    [
        (ShrinkSupport.ENABLED, False, [KEYED]),
        (ShrinkSupport.ENABLED, True, [KEYED, UNDER_CHANGES]),
        (ShrinkSupport.DISABLED, False, [KEYED, NOT_ENABLED]),
        (ShrinkSupport.UNSUPPORTED, True, [KEYED, COPIED, UNDER_CHANGES]),
    ],
)
def test_who_shrinks_a_topic_is_warned_of_what_applies(
    support: ShrinkSupport, changing: bool, warnings: list[str]
) -> None:
    assert list(shrink_warnings(support, changing=changing)) == warnings


def test_what_did_not_succeed_is_told_apart() -> None:
    goes = DeletedPartition(PartitionMode.READ_ONLY)
    refused = DeletedPartition(PartitionMode.READ_WRITE, 42, "INVALID_REQUEST", "no")
    found = deletions_of({TopicPartition("a", 1): goes, TopicPartition("a", 0): refused})
    answer = ShrinkAnswer(False, "op", found, ("note",))
    assert [(one.topic, one.partition) for one in answer.failures] == [("a", 0)]
    change = answer.as_change()
    assert (change.validate_only, change.operation_id, change.notes) == (False, "op", ("note",))
    assert [one.ok for one in change.results] == [True, False]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (Result("a-0", 0, "NONE", ""), "a-0: done"),
        (Result("a-0", 0, "NONE", "at once"), "a-0: done (at once)"),
        (Result("a-0", 7, "REQUEST_TIMED_OUT", ""), "a-0: REQUEST_TIMED_OUT"),
        (Result("a-0", 7, "REQUEST_TIMED_OUT", "late"), "a-0: REQUEST_TIMED_OUT: late"),
    ],
)
def test_a_result_is_one_line(result: Result, words: str) -> None:
    assert str(result) == words
    assert result.ok is (result.error_code == 0)


def test_partitions_are_counted_by_their_mode() -> None:
    modes = np.array([int(PartitionMode.READ_ONLY)] * 2 + [int(PartitionMode.READ_WRITE)], np.int8)
    counts = mode_counts(modes)
    assert counts[PartitionMode.READ_ONLY.key] == 2
    assert counts[PartitionMode.READ_WRITE.key] == 1
    assert counts[PartitionMode.NONE.key] == 0
