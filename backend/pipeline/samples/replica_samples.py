"""The recorded samples of a period, as Spark reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kshunt.backend.domain.pipeline.sample_columns import HOUR_MS, REPLICA_SAMPLES
from kshunt.backend.pipeline.process.console import to_the_minute
from kshunt.backend.pipeline.samples.file_sieve import FileSieve, Sifted, fail_without_access
from kshunt.backend.pipeline.samples.recording_folder import NoSamples, require_folder
from kshunt.backend.pipeline.spark.column_types import struct_of
from kshunt.backend.pipeline.spark.paths import literal
from kshunt.backend.telemetry.recording.layout import SampleTable, counted, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SampleRecording:
    """The replica samples of one cluster, by hour."""

    folder: Path
    files: Mapping[int, tuple[Path, ...]]
    """By the hour's begin, in order; milliseconds since the epoch."""

    def within(self, start_ms: int, end_ms: int) -> tuple[Path, ...]:
        """The files of the hours that overlap [start_ms, end_ms)."""
        hours = within(self.files, start_ms, end_ms)
        return tuple(path for paths in hours.values() for path in paths)

    def sifted(self, sieve: FileSieve, start_ms: int, end_ms: int) -> Sifted:
        """The same, parted by whether they can be read.

        Raises:
            UnreadableSamples: none of them can be opened.
        """
        found = sieve.sifted(SampleTable.REPLICAS, within(self.files, start_ms, end_ms))
        fail_without_access(found)
        return found

    def hours(self, start_ms: int, end_ms: int) -> tuple[int, ...]:
        """The hours of those files."""
        return tuple(within(self.files, start_ms, end_ms))


def find_recording(folder: Path) -> SampleRecording:
    """The recording in a folder.

    Raises:
        NoSamples: there is none.
    """
    require_folder(folder)
    try:
        files = counted(folder, SampleTable.REPLICAS)
    except OSError as error:
        raise NoSamples(f"{folder} cannot be read: {error.strerror}.") from None
    if not files:
        below = sorted(path.parent.name for path in folder.glob(f"*/{SampleTable.REPLICAS.value}"))
        advice = "Name the folder of one cluster's recording: the one that contains `replicas`."
        if below:
            advice += f" Other folders there: {', '.join(below[:5])}."
        raise NoSamples(f"There are no replica samples in {folder}.", advice=advice)
    return SampleRecording(folder, files)


def read_samples(session: SparkSession, files: Sequence[Path]) -> DataFrame:
    """The rows of some files; what an older version lacks is null."""
    names = [literal(path) for path in files]
    return session.read.schema(struct_of(REPLICA_SAMPLES)).parquet(*names)


def period_of(
    recording: SampleRecording, from_ms: int | None, to_ms: int | None
) -> tuple[int, int]:
    """The whole hours that [from_ms, to_ms) touches, from the first recorded one to the last.

    Raises:
        NoSamples: nothing was recorded then.
    """
    first, last = min(recording.files), max(recording.files)
    start = first if from_ms is None else from_ms - from_ms % HOUR_MS
    end = last + HOUR_MS if to_ms is None else -(-to_ms // HOUR_MS) * HOUR_MS
    hours = recording.hours(start, end)
    if not hours:
        raise NoSamples(
            f"Nothing was recorded in {recording.folder} between {to_the_minute(start)} and "
            f"{to_the_minute(end)}.",
            advice=f"There are samples from {to_the_minute(first)} to "
            f"{to_the_minute(last + HOUR_MS)}.",
        )
    # Results of hours whose samples are gone stay as they are.
    return hours[0], hours[-1] + HOUR_MS
