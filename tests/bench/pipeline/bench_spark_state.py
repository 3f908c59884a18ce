"""What is remembered of a replica: by Spark's own stateful operators, and as the job does it.

The same files go to four streams, one file a batch. `transformWithStateInPandas` with RocksDB keeps
the last sample of a replica, and makes one rate from two of them. So does the older
`applyInPandasWithState`. They make nothing else. The streaming job of kshunt makes all its tables.
The last stream is Spark's source alone. `KSHUNT_STATE_REPLICAS` says of how many replicas.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.pipeline.results.stream_state import newest, state_folder
from kshunt.backend.pipeline.spark.session import PipelineSettings, start_session
from tests.support.bench.flushed_samples import Recording
from tests.support.pipeline.spark import missing_java
from tests.support.pipeline.streamed import streamed
from tests.support.waiting import require

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.bench, pytest.mark.spark]

REPLICAS: Final = int(os.environ.get("KSHUNT_STATE_REPLICAS", "5000"))
FLUSHES: Final = 12
WARM: Final = 4
"""Batches that are not counted."""
FLUSH_MS: Final = 5_000
STATE_FORMAT: Final = "rid LONG, at_ms LONG, size_bytes LONG"
RATE_FORMAT: Final = "rid LONG, at_ms LONG, bytes_per_s DOUBLE"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def test_what_is_remembered_by_spark_and_by_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(missing_java())
    # Spark's own workers warn of pandas to come with each batch.
    monkeypatch.setenv("PYTHONWARNINGS", "ignore::FutureWarning")
    recording = Recording(tmp_path / "samples", REPLICAS)
    first_ms = time.time_ns() // 1_000_000 // DAY_MS * DAY_MS - DAY_MS
    for flush in range(FLUSHES):
        recording.flush(first_ms + FLUSH_MS * (flush + 1))
    session = start_session(PipelineSettings(master="local[2]", shuffle_partitions=2))
    try:
        session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        print(f"\n{REPLICAS:,} replicas, {FLUSHES - WARM} batches of one sample of each, two cores")
        source = told("Spark's file source alone", spark_s(session, recording, "source", plain))
        for name, made in (
            ("transformWithStateInPandas", by_processor),
            ("applyInPandasWithState", by_function),
        ):
            seconds = told(name, spark_s(session, recording, name, made))
            print(f"    {seconds / source:.1f} times the source alone")
        job = told("kshunt's job, all tables", job_s(session, recording))
        print(f"    {job / source:.1f} times the source alone")
        meta = newest(recording.folder / "results")
        assert meta is not None
        folder = state_folder(recording.folder / "results", meta.batch)
        size = sum(path.stat().st_size for path in folder.rglob("*.arrow"))
        print(f"    state that a batch writes: {size / 1e6:.2f} MB")
    finally:
        session.stop()


def told(name: str, seconds: list[float]) -> float:
    """Print and return the median time of a batch that counts."""
    median = statistics.median(seconds[WARM:])
    print(f"  {name}: {median:.2f} s a batch, {REPLICAS / median:,.0f} samples a second")
    return median


def spark_s(
    session: SparkSession, recording: Recording, name: str, made: Callable[[DataFrame], DataFrame]
) -> list[float]:
    """Seconds of each batch of a stream of Spark's own, by its progress."""
    files = recording.folder / "replicas"
    schema = session.read.parquet(str(files)).schema
    options = {"maxFilesPerTrigger": 1, "recursiveFileLookup": True}
    samples = session.readStream.schema(schema).options(**options).parquet(str(files))
    needed = samples.selectExpr("rid", "unix_millis(at) AS at_ms", "size_bytes")
    query = (
        made(needed)
        .writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(recording.folder.parent / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [one for one in query.recentProgress if one["numInputRows"]]
    assert [one["numInputRows"] for one in batches] == [REPLICAS] * FLUSHES
    written = [
        state["customMetrics"].get("rocksdbBytesCopied", 0)
        for one in batches[WARM:]
        for state in one["stateOperators"]
    ]
    if written:
        print(f"  {name}: state that a batch writes: {statistics.median(written) / 1e6:.2f} MB")
    return [one["batchDuration"] / 1000 for one in batches]


def plain(samples: DataFrame) -> DataFrame:
    """Rows as they come."""
    return samples


def by_processor(samples: DataFrame) -> DataFrame:
    """Rates by `transformWithStateInPandas`."""
    return samples.groupBy("rid").transformWithStateInPandas(
        rates_processor(), RATE_FORMAT, "Append", "None"
    )


def by_function(samples: DataFrame) -> DataFrame:
    """Rates by `applyInPandasWithState`."""
    return samples.groupBy("rid").applyInPandasWithState(
        rates_with_state, RATE_FORMAT, STATE_FORMAT, "append", "NoTimeout"
    )


def rates_processor() -> Any:
    """A processor with one value of state for each replica."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Rates(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._last = handle.getValueState("last", STATE_FORMAT)

        def handleInputRows(
            self,
            key: Any,
            rows: Iterator[pd.DataFrame],
            timerValues: Any,
        ) -> Iterator[pd.DataFrame]:
            last = self._last.get() if self._last.exists() else None
            found = []
            for row in (row for frame in rows for row in frame.itertuples()):
                if last is not None:
                    found.append(rate(key[0], last, (row.rid, row.at_ms, row.size_bytes)))
                last = (row.rid, row.at_ms, row.size_bytes)
            self._last.update(last)
            yield pd.DataFrame(found, columns=["rid", "at_ms", "bytes_per_s"])

        def close(self) -> None:
            pass

    return Rates()


def rates_with_state(key: Any, rows: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The same for the older operator."""
    import pandas as pd

    last, found = state.getOption, []
    for row in (row for frame in rows for row in frame.itertuples()):
        if last is not None:
            found.append(rate(key[0], last, (row.rid, row.at_ms, row.size_bytes)))
        last = (row.rid, row.at_ms, row.size_bytes)
    state.update(last)
    yield pd.DataFrame(found, columns=["rid", "at_ms", "bytes_per_s"])


def rate(rid: int, last: Any, now: tuple[int, int, int]) -> tuple[int, int, float]:
    """Bytes a second between two samples of a replica."""
    return int(rid), int(now[1]), 1000.0 * (now[2] - last[2]) / (now[1] - last[1])


def job_s(session: SparkSession, recording: Recording) -> list[float]:
    """Seconds of each batch of kshunt's own job."""
    ends = [time.monotonic()]
    streamed(
        session,
        recording.folder,
        recording.folder / "results",
        files_most=1,
        said=lambda batch: ends.append(time.monotonic()),
    )
    assert len(ends) == FLUSHES + 1
    return [end - begin for begin, end in itertools.pairwise(ends)]
