"""Samples of a large cluster for benches of the pipeline: made by arrays, a minute at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, hour_folder, replica_ids
from kshunt.backend.telemetry.recording.layout import SampleTable, file_name
from kshunt.backend.telemetry.recording.schema import SCHEMAS, parquet_writer

START_MS: Final = 1_795_316_400_000
"""2026-11-22 03:00 UTC."""
HOURS: Final = 2
BROKERS: Final = 100
TOPICS: Final = 2_000
RESTING: Final = 20
"""Replicas that rest, for each that moves."""
MINUTES_A_FILE: Final = 15
_SLOT_S: Final = 30
"""For this time a replica keeps copying, or stalls."""
_STALLED: Final = 0.1
_GROUP: Final = 500_000


@dataclass(frozen=True, slots=True)
class Load:
    """Replicas that move, seen each second, and those that rest, seen each minute."""

    moving: int
    resting: int
    seconds: int

    @classmethod
    def of(cls, samples: int, hours: int = HOURS) -> Load:
        """A load of about that number of samples."""
        seconds = hours * 3600
        moving = max(1, round(samples / (seconds + RESTING * seconds / 60)))
        return cls(moving, RESTING * moving, seconds)

    @property
    def samples(self) -> int:
        return self.moving * self.seconds + self.resting * self.seconds // 60


@dataclass(frozen=True, slots=True)
class _Replicas:
    """What does not change of them, those that move first."""

    topic: NDArray[np.int32]
    partition: NDArray[np.int32]
    broker: NDArray[np.int32]
    leader: NDArray[np.int32]
    rid: NDArray[np.int64]
    begins: NDArray[np.int64]
    """How many milliseconds after the second, or the minute, each is seen."""
    end: NDArray[np.int64]
    """Where the leader's log ends at first."""
    written: NDArray[np.int64]
    """Messages a second."""
    copied: NDArray[np.int64]
    """Messages that were copied before each slot; a row for each that moves."""
    rate: NDArray[np.int64]
    """Messages a second in each slot."""


def write_load(folder: Path, load: Load) -> None:
    """A recording of it."""
    replicas = _replicas(load, np.random.default_rng(7))
    names = pa.array([f"topic-{number:05}" for number in range(TOPICS)])
    step_s = MINUTES_A_FILE * 60
    for number, start_s in enumerate(range(0, load.seconds, step_s)):
        at_ms = START_MS + start_s * 1000
        place = folder / "replicas" / hour_folder(at_ms - at_ms % HOUR_MS)
        place.mkdir(parents=True, exist_ok=True)
        with parquet_writer(
            str(place / file_name(at_ms, number)), SampleTable.REPLICAS, "bench"
        ) as out:
            for second in range(start_s, min(start_s + step_s, load.seconds), 60):
                out.write_table(_minute(load, replicas, names, second), row_group_size=_GROUP)


def _replicas(load: Load, rng: np.random.Generator) -> _Replicas:
    count = load.moving + load.resting
    numbers = np.arange(count)
    topic, partition = (numbers % TOPICS).astype(np.int32), (numbers // TOPICS).astype(np.int32)
    leader = rng.integers(0, BROKERS, count).astype(np.int32)
    broker = ((leader + rng.integers(1, BROKERS, count)) % BROKERS).astype(np.int32)
    slots = load.seconds // _SLOT_S + 1
    rate = rng.integers(500, 5_000, (load.moving, 1)) * (
        rng.random((load.moving, slots)) > _STALLED
    )
    copied = np.cumsum(rate * _SLOT_S, axis=1) - rate * _SLOT_S
    seen = np.where(numbers < load.moving, 1_000, 60_000)
    return _Replicas(
        topic=topic,
        partition=partition,
        broker=broker,
        leader=leader,
        rid=replica_ids([f"topic-{n:05}" for n in range(TOPICS)], topic, partition, broker),
        begins=(rng.random(count) * seen).astype(np.int64),
        end=rng.integers(10**7, 10**9, count),
        written=rng.integers(0, 300, count),
        copied=copied,
        rate=rate,
    )


def _minute(load: Load, replicas: _Replicas, names: Any, second: int) -> Any:
    """A minute's samples, in the order of their times."""
    who = np.concatenate(
        [np.tile(np.arange(load.moving), 60), load.moving + np.arange(load.resting)]
    )
    seconds = np.concatenate(
        [np.repeat(np.arange(60), load.moving), np.zeros(load.resting, np.int64)]
    )
    after_ms = (second + seconds) * 1000 + replicas.begins[who]
    order = np.argsort(after_ms, kind="stable")
    who, after_ms = who[order], after_ms[order]
    moves = who < load.moving
    end = replicas.end[who] + replicas.written[who] * after_ms // 1000
    own = end.copy()
    slot, within = after_ms // (_SLOT_S * 1000), after_ms % (_SLOT_S * 1000)
    mover = who[moves]
    own[moves] = (
        replicas.copied[mover, slot[moves]]
        + replicas.rate[mover, slot[moves]] * within[moves] // 1000
    )
    at = START_MS + after_ms
    throttle = pa.array(np.full(len(who), 50_000_000), mask=~moves)
    lag = np.maximum(end - own, 0)
    columns = {
        "at": pa.array(at, pa.timestamp("ms", tz="UTC")),
        "rid": replicas.rid[who],
        "topic": pa.DictionaryArray.from_arrays(replicas.topic[who], names).cast(pa.string()),
        "partition": replicas.partition[who],
        "broker": replicas.broker[who],
        "leader": replicas.leader[who],
        "leader_at": pa.array(at - at % 1000, pa.timestamp("ms", tz="UTC")),
        "leader_log_end_offset": end,
        "leader_size_bytes": end * 100,
        "log_end_offset": own,
        "size_bytes": own * 100,
        "lag_messages": lag,
        "lag_bytes": lag * 100,
        "in_isr": ~moves,
        "adding": moves,
        "removing": np.zeros(len(who), np.bool_),
        "leader_throttle_bytes_per_s": throttle,
        "follower_throttle_bytes_per_s": throttle,
        "cause": pa.nulls(len(who), pa.string()),
        "operation_id": pa.array(["op"], pa.string()).take(
            pa.array(np.where(moves, 0, -1), mask=~moves)
        ),
    }
    schema = SCHEMAS[SampleTable.REPLICAS]
    rest = {f.name: pa.nulls(len(who), f.type) for f in schema if f.name not in columns}
    return pa.table(columns | rest, schema=schema)
