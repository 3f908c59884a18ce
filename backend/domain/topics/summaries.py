"""The topics of a cluster, counted in its columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kshunt.backend.domain.cluster.assignment import Assignment
from kshunt.backend.domain.topics.descriptions import INTERNAL_TOPICS, TopicSummary


def summaries(assignment: Assignment) -> Iterator[TopicSummary]:
    """Every topic, by name."""
    count = len(assignment.topics)
    firsts = assignment.position == 0
    partitions = np.bincount(assignment.topic_index[firsts], minlength=count)
    # A topic's first partition is the one with the number 0.
    of_first = assignment.partition == 0
    factors = np.bincount(assignment.topic_index[of_first], minlength=count)
    for name, size, factor in zip(assignment.topics, partitions, factors, strict=True):
        yield TopicSummary(name, int(size), int(factor), name in INTERNAL_TOPICS)
