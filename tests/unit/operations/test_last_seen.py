"""What replicas last said of their logs, for an election that may lose records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.replicas.snapshot import UNKNOWN
from kshunt.backend.operations.elections.unclean import last_seen_ends
from tests.support.tui.cluster import incident

SNAPSHOT = incident().snapshot()
NAMED = [SNAPSHOT.partition_of(row) for row in (0, len(SNAPSHOT.replicas) - 1)]


def test_each_replica_of_the_partitions_says_where_it_ended_and_when() -> None:
    rows = SNAPSHOT.replicas
    ends = np.arange(len(rows), dtype=rows.log_end_offset.dtype)
    seen = replace(SNAPSHOT, replicas=replace(rows, log_end_offset=ends))
    found = last_seen_ends(seen, [*NAMED, TopicPartition("no-such-topic", 0)])
    assert set(found) == set(NAMED)
    for row in range(len(rows)):
        partition, broker = SNAPSHOT.partition_of(row), int(rows.broker[row])
        if partition in found:
            end = found[partition][broker]
            assert (end.offset, end.at_ms) == (row, int(rows.sampled_ms[row]))


def test_what_was_never_said_is_absent() -> None:
    rows = SNAPSHOT.replicas
    unknown = np.full(len(rows), UNKNOWN, rows.log_end_offset.dtype)
    silent = replace(SNAPSHOT, replicas=replace(rows, log_end_offset=unknown))
    assert last_seen_ends(silent, NAMED) == {}
    assert last_seen_ends(None, NAMED) == {}
    assert last_seen_ends(SNAPSHOT, []) == {}
