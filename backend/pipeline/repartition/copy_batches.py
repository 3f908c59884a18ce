"""Copy a topic's records into a topic with another number of partitions, in batches.

Goals: exactly once and in order of each key, whatever is killed. A consumer group can be told where
to continue in the target without reading a record again.

Constraints: the target's partitions mix the source's. So a group continues exactly only if all that
it has read lies before all that it has not. So the records are copied in one global order: up to
the first cut (a group's positions), then up to the next, and at last to the end.

Algorithm: a batch is a range of offsets of each source partition. One task of Spark a partition
reads it in order. The next batch begins when all tasks have ended. What makes the copying exact is
in `kshunt.backend.pipeline.kernels.copying`: where a batch begins is only what this process
believes, and a worker continues from what is committed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.errors import BadInput, Conflict
from kshunt.backend.pipeline.kernels.copy_errors import CopyFailed, CopyFenced, from_json
from kshunt.backend.pipeline.kernels.copying import Copying, Range, work
from kshunt.backend.pipeline.repartition.topics_and_positions import Positions, TopicQuestions
from kshunt.backend.pipeline.spark.session import SparkFailed, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that hands out ranges and does nothing else: to make it fast costs more."""
SETTINGS: Final = {
    # Two attempts at one range would fence each other.
    "spark.speculation": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Of a session that copies."""
FIRST_RECORDS: Final = 20_000
"""Of the first batch where a batch has a time: how large records are is not known before."""
LEAST_RECORDS: Final = 1_000
OUTCOME: Final = "partition int, position long, records long, bytes long, failure string"


@dataclass(frozen=True, slots=True)
class CopyCuts:
    """From where over which cuts to where a topic is copied; of every source partition."""

    start: Positions
    cuts: Sequence[Positions]
    """Each is at or after the former in every partition, and at or before the end."""
    until: Positions


@dataclass(frozen=True, slots=True)
class CopyBatch:
    """Ranges that are copied at the same time."""

    cut: int
    """How many cuts lie behind all of its records."""
    ranges: Sequence[Range]


@dataclass(frozen=True, slots=True)
class CopiedBatch:
    """A batch that was copied, and how far the copy is."""

    number: int
    cut: int
    """How many cuts are reached."""
    positions: Positions
    left: int
    """Offsets up to the end; some of them may have no record."""
    records: int
    bytes: int
    seconds: float


def copy_cuts(
    start: Positions, until: Positions, ends: Positions, cuts: Sequence[Positions]
) -> CopyCuts:
    """The course of a copy.

    Args:
        start: The first offset that the source has.
        until: Where to end. A partition that is not named is copied to its end.
        ends: Up to where the source can be read.
        cuts: Positions of groups. The copy passes them in this order.

    Raises:
        BadInput: the end is not there yet, or the cuts are no chain.
    """
    for named in (until, *cuts):
        if unknown := sorted(set(named) - set(start)):
            raise BadInput(f"The source has no partition {unknown[0]}. Nothing was copied.")
    for p, end in until.items():
        if end > ends[p]:
            raise BadInput(
                f"The source's partition {p} can be read up to offset {ends[p]:,}, but the copy "
                f"is to end at {end:,}. Nothing was copied.",
                advice="A producer may have an open transaction there.",
            )
    goal = {p: max(until.get(p, ends[p]), first) for p, first in start.items()}
    chain = []
    former = dict(start)
    for cut in cuts:
        # What a group has read and the source has deleted needs no copy.
        within = {p: min(max(cut.get(p, 0), start[p]), goal[p]) for p in start}
        if any(within[p] < former[p] for p in start):
            raise BadInput(
                "The cuts are not in order: each must be at or after the previous one in every "
                "partition. Nothing was copied."
            )
        chain.append(within)
        former = within
    return CopyCuts(start, chain, goal)


def next_batch(positions: Positions, way: CopyCuts, records: int) -> CopyBatch | None:
    """What to copy next; None at the end.

    Partitions come to the next cut together, so that all of them keep workers busy until then.
    """
    for number, goal in enumerate((*way.cuts, way.until)):
        left = {p: goal[p] - at for p, at in positions.items() if goal[p] > at}
        total = sum(left.values())
        if not total:
            continue
        # No small rest is left over.
        parts = max(1, round(total / records))
        ranges = [
            Range(p, positions[p], positions[p] + -(-n // parts)) for p, n in sorted(left.items())
        ]
        return CopyBatch(number, sorted(ranges, key=lambda r: r.start - r.end))
    return None


def begun(topics: TopicQuestions, plan: Copying, way: CopyCuts) -> dict[int, int]:
    """How far the copy is; it is begun if it was not.

    Raises:
        Conflict: the target has records, and nobody knows which.
    """
    found = topics.committed(plan.group, plan.source, len(way.start))
    if not found:
        if sum(topics.ends(plan.target).values()) > sum(topics.starts(plan.target).values()):
            raise Conflict(
                f"{plan.target} has records, but the progress of operation {plan.operation} is "
                f"unknown (group {plan.group}). Nothing was copied.",
                advice="Begin a new operation with an empty topic.",
            )
        topics.commit(plan.group, plan.source, way.start)
        return dict(way.start)
    if missing := sorted(set(way.start) - set(found)):
        raise Conflict(
            f"{plan.source} has a partition {missing[0]}, which did not exist when operation "
            f"{plan.operation} began. Nothing was copied.",
            advice="Begin a new operation.",
        )
    return found


def copy(
    session: SparkSession,
    plan: Copying,
    way: CopyCuts,
    positions: Positions,
    records: int,
    stopping: threading.Event,
    seconds: float = 0.0,
) -> Iterator[CopiedBatch]:
    """Copy batch after batch, until the end or until it is to stop.

    Args:
        session: With `SETTINGS`.
        plan: What is copied.
        way: Over which cuts, and up to where.
        positions: From where. See `begun`.
        records: About this many a batch, at most.
        stopping: A signal handler or another thread sets it. The current batch runs to its end.
        seconds: A batch is to take about this long. With 0 it may take any time.

    Raises:
        CopyFailed: a range could not be copied to its end.
        SparkFailed: Spark ended a batch.
    """
    at, number = dict(positions), 0
    size = min(records, FIRST_RECORDS) if seconds else records
    while not stopping.is_set() and (batch := next_batch(at, way, size)) is not None:
        began_s = time.monotonic()
        rows = _worked(session, plan, batch.ranges)
        at |= {row["partition"]: row["position"] for row in rows}
        _refuse([from_json(row["failure"]) for row in rows if row["failure"] is not None])
        number += 1
        took_s = time.monotonic() - began_s
        if seconds:
            size = following_size(size, took_s / seconds, records)
        yield CopiedBatch(
            number=number,
            cut=_reached(at, way.cuts),
            positions=dict(at),
            left=left_of(at, way),
            records=sum(row["records"] for row in rows),
            bytes=sum(row["bytes"] for row in rows),
            seconds=took_s,
        )


def following_size(records: int, share: float, most: int) -> int:
    """How many records the next batch has, after one of `records` took this share of its time."""
    if share > 1.5:
        return max(LEAST_RECORDS, int(records / share))
    return min(records * 4, most) if share < 0.3 else records


def left_of(positions: Positions, way: CopyCuts) -> int:
    """Offsets up to the end."""
    return sum(max(0, way.until[p] - at) for p, at in positions.items())


def _reached(positions: Positions, cuts: Sequence[Positions]) -> int:
    return sum(all(positions[p] >= offset for p, offset in cut.items()) for cut in cuts)


def _worked(session: SparkSession, plan: Copying, ranges: Sequence[Range]) -> list[dict[str, Any]]:
    """A row of each range, of a task of its own."""

    def copied(batches: Any) -> Any:
        return work(batches, ranges, plan)

    numbers = session.range(0, len(ranges), 1, len(ranges))
    try:
        rows: list[dict[str, Any]] = numbers.mapInArrow(copied, OUTCOME).toArrow().to_pylist()
    except Exception as error:
        # Those of its gateway and of gRPC have no base in common.
        raise SparkFailed(
            f"Spark stopped a batch: {first_line(error)}. The source is unchanged; records that "
            "are already copied are kept, and the copy continues after them.",
            advice="See the lines above, then start it again.",
        ) from error
    return rows


def _refuse(failures: Sequence[CopyFailed]) -> None:
    """Raise the most telling of the failures: those that are fenced follow from another."""
    for failure in sorted(failures, key=lambda f: (f.retriable, isinstance(f, CopyFenced))):
        raise failure
