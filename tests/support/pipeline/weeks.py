"""A week that never was, as results: what reports of a week are tested on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kshunt.backend.domain.audit.lines import AuditEntry, AuditEvent, Touched
from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.operation import Operation, OperationKind, OperationState
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    QUALITY,
    QUARANTINE_FILES,
    RATES,
    STALLS,
    ResultTable,
)
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.domain.pipeline.weeks import Week
from kshunt.backend.pipeline.reports.week_results import WeekJournal
from tests.support.pipeline.recorded import Row, time_of
from tests.support.pipeline.reported import MB, write_results

WEEK = Week(2026, 47)
HOUR_MS = 3_600_000
TOPIC = "orders|<b>eu</b>"
"""Its name would be markup, if somebody let it."""
OTHER = "clicks"
GOOD, BAD = "op-good", "op-bad"
RATE = 20 * MB


def at(day: int, hour: int, seconds: float = 0.0) -> int:
    """A moment of the week: day 0 is Monday."""
    return WEEK.from_ms + day * DAY_MS + hour * HOUR_MS + round(seconds * 1000)


def rate(at_ms: int, **others: Any) -> Row:
    """A row of `rates`, of a replica at rest."""
    return {
        "at": time_of(at_ms),
        "tick": time_of(at_ms - at_ms % 5_000),
        "rid": 1,
        "topic": TOPIC,
        "partition": 0,
        "broker": 2,
        "leader": 1,
        "samples": 1,
        "segment_start": time_of(at_ms),
        "elapsed_s": 60.0,
        "advanced_bytes": 0,
        "in_isr": True,
        "adding": False,
        "removing": False,
        **others,
    }


def copied(operation: str, start_ms: int, minutes: int, rid: int, *, arrives: bool) -> list[Row]:
    """A copy of a replica to broker 4, a row a minute, 1.2 GB each."""
    mine = {"rid": rid, "partition": rid % 10, "broker": 4, "operation_id": operation}
    rows = [
        rate(
            start_ms + minute * 60_000,
            **mine,
            advanced_bytes=60 * RATE,
            in_isr=False,
            adding=True,
            follower_throttle_bytes_per_s=RATE,
        )
        for minute in range(minutes)
    ]
    if arrives:
        rows.append(rate(start_ms + minutes * 60_000, **mine))
    return rows


def forecast(operation: str, at_ms: int, left_s: float, bound: str, **others: Any) -> Row:
    """A row of `eta` of an operation, whose range is wide."""
    return {
        "at": time_of(at_ms),
        "tick": time_of(at_ms - at_ms % 5_000),
        "operation_id": operation,
        "copies": 1,
        "throttled": True,
        "bound": bound,
        "p10_s": left_s * 0.8,
        "p50_s": left_s,
        "p90_s": left_s * 1.3,
        "model": 4,
        **others,
    }


def stall(start_ms: int, seconds: float, **others: Any) -> Row:
    """A stall of a copy on broker 4."""
    return {
        "start": time_of(start_ms),
        "end": time_of(start_ms + round(seconds * 1000)),
        "seconds": seconds,
        "open": False,
        "rid": 11,
        "topic": TOPIC,
        "partition": 1,
        "broker": 4,
        "cause": "throttle_too_low",
        "operation_id": BAD,
        **others,
    }


def load(hour_ms: int, broker: int, **others: Any) -> Row:
    """An hour of a broker whose disk grows."""
    used = 400_000 * MB + broker * 10_000 * MB + (hour_ms - WEEK.from_ms) // 1000 * MB
    return {
        "start": time_of(hour_ms),
        "hour_of_week": (hour_ms - WEEK.from_ms) // HOUR_MS,
        "broker": broker,
        "samples": 720,
        "newest": time_of(hour_ms + HOUR_MS - 5_000),
        "answering": 1.0,
        "in_bytes_per_s": 0.0,
        "out_bytes_per_s": 0.0,
        "produced_bytes_per_s": 3.0 * MB,
        "replicated_bytes_per_s": 2.0 * MB,
        "leaders": 10.0,
        "leader_share": 0.25,
        "replicas": 30.0,
        "disk_total_bytes": 2_000_000 * MB,
        "disk_used_bytes": used,
        "disk_free_bytes": 2_000_000 * MB - used,
        "growth_bytes_per_s": 1.0 * MB,
        "full_in_s": (2_000_000 * MB - used) / MB,
        **others,
    }


def _rates() -> list[Row]:
    rows: list[Row] = []
    for day in (0, 1, 3):
        for minute in range(180):
            moment = at(day, 9, minute * 60)
            for rid, topic, size in ((1, TOPIC, 90 * MB), (2, OTHER, 30 * MB)):
                rows.append(rate(moment, rid=rid, topic=topic, broker=1, advanced_bytes=size))
            # A follower that falls out of the ISR twice on Tuesday, and once over an hour's end.
            out = day == 1 and (30 <= minute < 40 or 59 <= minute < 63)
            # A throttle that was left over on Thursday.
            left = RATE if day == 3 and minute >= 120 else None
            rows.append(rate(moment, rid=3, broker=3, in_isr=not out, advanced_bytes=90 * MB,
                             leader_throttle_bytes_per_s=left))  # fmt: skip
    rows += copied(GOOD, at(0, 9, 600), 30, 10, arrives=True)
    rows += copied(BAD, at(1, 9, 300), 100, 11, arrives=False)
    rows += [
        rate(at(3, 9, 60 * minute), rid=20, broker=5, advanced_bytes=30 * MB, adding=True,
             in_isr=False)
        for minute in range(20)
    ]  # fmt: skip
    return rows


def tables() -> Mapping[ResultTable, list[Row]]:
    """All results of it."""
    follower, sending = "follower throttle of broker 4", "broker 1 sending"
    monday = [forecast(GOOD, at(0, 9, 605 + 5 * i), 1_795 - 5 * i, follower) for i in range(358)]
    tuesday = [forecast(BAD, at(1, 9, 305 + 5 * i), 1_800, sending) for i in range(1_199)]
    of_a_copy = forecast(GOOD, at(0, 9, 605), 60, "link 1->4", rid=10)
    hours = [at(day, hour) for day in (0, 1, 3) for hour in (9, 10, 11)]
    busy = {"in_bytes_per_s": 20.0 * MB}
    return {
        RATES: _rates(),
        ETA: [*monday, *tuesday, of_a_copy],
        STALLS: [
            stall(at(1, 9, 3_000), 3_000.0),
            # The same, as it was seen before it had ended.
            stall(at(1, 9, 3_000), 900.0, open=True),
            stall(at(3, 10), 1_200.0, rid=12, cause="broker_down"),
            # From the week before, and into the next one.
            stall(WEEK.from_ms - 600_000, 1_200.0, rid=13),
            stall(WEEK.to_ms - 300_000, 600.0, rid=14),
        ],
        BROKER_LOAD: [
            load(hour, broker, **(busy if broker == 4 and hour == at(1, 10) else {}))
            for hour in hours
            for broker in (1, 2, 3, 4)
        ],
        QUALITY: [
            {
                "period_start": time_of(at(1, 9)),
                "period_end": time_of(at(1, 10)),
                "of": "replicas",
                "expectation": "no_gap",
                "outcome": "kept",
                "violations": 3,
                "rows": 900,
                "meaning": "the next sample comes within 150 s",
            }
        ],
        QUARANTINE_FILES: [
            {
                "start": time_of(moment),
                "of": "replicas",
                "file": f"replicas/{name}",
                "fault": "damaged",
                "detail": "",
                "size_bytes": 10,
                "found": time_of(moment),
            }
            for moment, name in ((at(1, 9), "in-it"), (WEEK.to_ms, "after-it"))
        ],
    }


def operation(id: str, state: OperationState, day: int, hours: float, **others: Any) -> Operation:
    """One that began at nine o'clock."""
    start_ms = at(day, 9, 60)
    partition = TopicPartition(TOPIC, 0)
    return Operation(
        id=id,
        kind=OperationKind.REASSIGN,
        state=state,
        started_ms=start_ms,
        summary="moves 1 partition",
        partitions=(partition,),
        ended_ms=start_ms + round(hours * HOUR_MS),
        who="ada@bastion",
        reason="disk <full>",
        **others,
    )


def journal() -> WeekJournal:
    """What the journal says of it."""
    drift = AuditEntry(
        time_ms=at(1, 10),
        number=0,
        event=AuditEvent.DRIFT_FOUND,
        operation_id=BAD,
        touched=Touched.of(throttles=["broker 4 follower rate: 20 MB/s → none"]),
    )
    operations = [
        operation("op-later", OperationState.DONE, 7, 1),
        operation("op-rate", OperationState.FAILED, 3, 0),
        operation(BAD, OperationState.CANCELLED, 1, 2),
        operation(GOOD, OperationState.DONE, 0, 0.75),
        operation("op-before", OperationState.DONE, -2, 1),
    ]
    return WeekJournal.of(WEEK, operations, [drift])


def write_week(folder: Path) -> Path:
    """The folder of a recording that has these results, and no samples."""
    for table, rows in tables().items():
        write_results(folder / "results", table, rows)
    return folder
