"""Samples to topics of the cluster instead of files, for installations of many readers.

Goals
    The same rows, in a form that Spark's Kafka source decodes by SQL functions alone, that
    `kafka-console-consumer` shows, and that costs no Python loop to make.
Constraints
    Rows are handed to a client that delivers by itself. What it cannot deliver is counted and
    said; what a crash takes with it is what was not delivered.
Algorithm
    One record a row, to `TOPIC-replicas`, `TOPIC-brokers` or `TOPIC-forecasts`: the value is a
    JSON object of the table's columns (`kshunt.backend.telemetry.recording.json_rows`). The key is
    the row's `rid`, its broker or its operation, so that these rows stay in order. The record's
    timestamp is the row's
    `at`. A piece that was handed over in part and is tried again is there twice: `rid` and `at` are
    the key of a row. There is no state on a disk, so a crash is not said at the next start: it
    shows as a time without rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from kshunt.backend.errors import ClusterUnreachable
from kshunt.backend.telemetry.recording.gaps import Gap, GapReason
from kshunt.backend.telemetry.recording.json_rows import json_rows
from kshunt.backend.telemetry.recording.layout import SampleTable

PIECE_ROWS: Final = 5_000
FULL_POLLS: Final = 100
"""So often a full queue is looked at before a piece is given back."""
FLUSH_S: Final = 5.0

KEYS: Final = {
    SampleTable.REPLICAS: "rid",
    SampleTable.BROKERS: "broker",
    SampleTable.FORECASTS: "operation_id",
}


class LostRows(Protocol):
    """Rows that were not delivered; `kshunt.backend.admin.kafka.sample_producer.Lost` is one."""

    @property
    def rows(self) -> int:
        """How many."""

    @property
    def from_ms(self) -> int:
        """Of the oldest."""

    @property
    def to_ms(self) -> int:
        """Of the newest."""

    @property
    def why(self) -> str:
        """In the client's words."""


class Producing(Protocol):
    """What carries records; `kshunt.backend.admin.kafka.sample_producer.SampleProducer` is one."""

    def ensure(self, topics: Sequence[str], keep_days: int) -> None:
        """Make the topics that are not there.

        Raises:
            KshuntError: it cannot be done now.
        """

    def send(
        self, topic: str, keys: Sequence[bytes], values: Sequence[bytes], at_ms: Sequence[int]
    ) -> int:
        """Hand over records; how many were taken, from the first on."""
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for the delivery; how many rows are not delivered yet."""
        ...

    def take_lost(self) -> LostRows | None:
        """What was lost since this was last asked."""

    def close(self) -> None:
        """Let the client go."""


class TopicSink:
    """A recording in topics, one a table; see the module's text."""

    def __init__(self, topic: str, producer: Producing, keep_days: int) -> None:
        self._topics = {table: f"{topic}-{table}" for table in SampleTable}
        self._producer = producer
        self._keep_days = keep_days

    def open(self, cluster_id: str, now_ms: int) -> Sequence[Gap]:
        """Make the topics, where they are not there. See `Sink.open`."""
        self._producer.ensure(list(self._topics.values()), self._keep_days)
        return ()

    def pieces(self, table: SampleTable, rows: Any) -> list[Any]:
        """Small ones: of what is handed over in part only, little is sent twice."""
        return [rows.slice(place, PIECE_ROWS) for place in range(0, len(rows), PIECE_ROWS)]

    def write(self, table: SampleTable, piece: Any) -> None:
        """Hand a piece over.

        Raises:
            ClusterUnreachable: the client's queue is full, since the cluster takes nothing.
        """
        keys = [str(key).encode() for key in piece[KEYS[table]].to_pylist()]
        values, times = json_rows(piece), piece["at"].cast(pa.int64()).to_pylist()
        done = 0
        for _ in range(FULL_POLLS):
            done += self._producer.send(
                self._topics[table], keys[done:], values[done:], times[done:]
            )
            if done == len(keys):
                return
        raise ClusterUnreachable(
            f"The cluster does not accept samples into {self._topics[table]} fast enough.",
            advice="Check that its partitions have leaders, and enough replicas in sync.",
        )

    def note_written(self, gaps: Sequence[Gap], written_ms: int) -> None:
        """Wait for the delivery for a while. Gaps have been said in the log.

        Raises:
            ClusterUnreachable: rows are on their way still.
        """
        left = self._producer.flush(FLUSH_S)
        if left:
            raise ClusterUnreachable(
                f"{left} samples wait for the cluster to accept them.",
                advice="Check that their topics have leaders, and enough replicas in sync.",
            )

    def lost(self) -> Sequence[Gap]:
        """See `Sink.lost`."""
        lost = self._producer.take_lost()
        if lost is None:
            return ()
        text = f"Rows that the cluster did not accept: {lost.rows} ({lost.why})."
        return [Gap(lost.from_ms, lost.to_ms, GapReason.LOST, text, rows=lost.rows)]

    def end(self) -> None:
        """Everything was delivered at the last flush."""

    def close(self) -> None:
        """See `Sink.close`."""
        self._producer.close()
