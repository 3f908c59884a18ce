"""Leaders are elected on request: ElectLeaders (KIP-460) and the seed's own verb (KIP-183)."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import replace

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.decision import (
    DecidedItem,
    Decision,
    ItemRefused,
    KafkaError,
)
from kshunt.backend.embedded.controller.partition_change_builder import (
    Election,
    PartitionChangeBuilder,
    records_of,
)
from kshunt.backend.embedded.controller.reassign import partition_draft
from kshunt.backend.embedded.controller.throttle_removal import with_removal
from kshunt.backend.embedded.metadata.image import ClusterImage
from kshunt.backend.embedded.metadata.records import NO_LEADER


class ElectionType(enum.IntEnum):
    """ElectLeaders' election types."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage,
    partitions: Iterable[TopicPartition] | None,
    election: ElectionType = ElectionType.PREFERRED,
) -> Decision[TopicPartition]:
    """Elect leaders of these partitions; with None, of all that need it.

    The errors are UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE
    and ELIGIBLE_LEADERS_NOT_AVAILABLE. ELECTION_NOT_NEEDED is for a leader that is the preferred
    one, or for an unclean election where there is a leader. The answer leaves it out if the
    request asked for all partitions.
    """
    drafts: list[PartitionChangeBuilder] = []
    results: list[DecidedItem[TopicPartition]] = []
    for item in _asked(image, partitions):
        try:
            drafts.append(_elected(image, item, election))
            results.append(DecidedItem(item))
        except ItemRefused as refusal:
            if partitions is None and refusal.error is KafkaError.ELECTION_NOT_NEEDED:
                continue
            results.append(DecidedItem.refused(item, refusal))
    return Decision.of(with_removal(image, records_of(drafts)), results)


def elect_preferred_leaders(
    image: ClusterImage, partitions: Iterable[TopicPartition] | None
) -> Decision[TopicPartition]:
    """KIP-183's ElectPreferredLeaders: like a preferred election, with the seed's answers.

    A leader that is the preferred one already is a success (NONE), and is part of the answer to
    None. A partition that occurs twice is no error and is answered once. The election is
    complete once the records are replayed; the answer must not be sent before.
    """
    asked = _asked(image, partitions)
    decision = elect_leaders(image, asked)
    results = (
        replace(result, error=KafkaError.NONE, message=None)
        if result.error is KafkaError.ELECTION_NOT_NEEDED
        else result
        for result in decision.results
    )
    return Decision.of(decision.records, results)


def _asked(
    image: ClusterImage, partitions: Iterable[TopicPartition] | None
) -> list[TopicPartition]:
    if partitions is not None:
        return list(dict.fromkeys(partitions))
    topics = image.topics
    return [
        TopicPartition(name, number)
        for name in sorted(topics)
        for number in sorted(topics[name].partitions)
    ]


def _elected(
    image: ClusterImage, item: TopicPartition, election: ElectionType
) -> PartitionChangeBuilder:
    change = partition_draft(image, item)
    if election is ElectionType.PREFERRED:
        _elect_preferred(change)
    else:
        _elect_unclean(change)
    return change


def _elect_preferred(change: PartitionChangeBuilder) -> None:
    preferred = change.old.replicas[0]
    if change.old.leader == preferred:
        message = "Leader election not needed for topic partition."
        raise ItemRefused(KafkaError.ELECTION_NOT_NEEDED, message)
    change.complete(Election.PREFERRED)
    if change.leader != preferred:
        raise ItemRefused(
            KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
            "The preferred leader was not available: it is offline or not in the ISR.",
        )


def _elect_unclean(change: PartitionChangeBuilder) -> None:
    if change.old.leader != NO_LEADER:
        message = "Leader election not needed for topic partition."
        raise ItemRefused(KafkaError.ELECTION_NOT_NEEDED, message)
    change.complete(Election.UNCLEAN)
    if change.leader == NO_LEADER:
        raise ItemRefused(
            KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
