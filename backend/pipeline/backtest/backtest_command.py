"""`kshunt pipeline backtest`: forecasts of recorded operations, against how it went.

Rates and forecasts are made from the samples as everywhere, tick by tick and with nothing of later.
Only then it is looked up when the replicas came into the ISR. `--calibrate` makes forecasts without
any calibration, and a calibration from how they turned out. Forecasts that the backend made while
operations ran were recorded with how they turned out, and are counted.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kshunt.backend.clock import Clock, SystemClock
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.delivered_files.columns import millis
from kshunt.backend.domain.forecast.calibration import SHIPPED, Calibration
from kshunt.backend.domain.forecast.ranges import SOME, WRITES
from kshunt.backend.domain.pipeline.result_columns import GAP_S
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.errors import KshuntError
from kshunt.backend.files import replace_file
from kshunt.backend.pipeline.backtest.forecast_scores import (
    Ended,
    Forecasts,
    NotEnded,
    ScoreLine,
    as_text,
    forecasts,
    lines,
    not_ended,
    not_ended_text,
    of_ended,
    outcomes,
)
from kshunt.backend.pipeline.backtest.live_scores import LiveLine, live_lines, live_text
from kshunt.backend.pipeline.backtest.residuals import FEWEST, fitted
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA
from kshunt.backend.pipeline.kernels.quality import Checks
from kshunt.backend.pipeline.process.console import say
from kshunt.backend.pipeline.samples.expectations import TimeBounds
from kshunt.backend.pipeline.samples.file_sieve import FileSieve, Sifted
from kshunt.backend.pipeline.samples.replica_samples import (
    find_recording,
    period_of,
    read_samples,
)
from kshunt.backend.pipeline.spark.job_progress import session_with_progress, spark_progress
from kshunt.backend.pipeline.spark.row_packing import of_files
from kshunt.backend.pipeline.spark.session import PipelineSettings, SparkFailed, first_line
from kshunt.backend.pipeline.tables.eta import eta
from kshunt.backend.pipeline.tables.rates import rows_of, unlooked
from kshunt.backend.telemetry.recording.layout import SampleTable, counted
from kshunt.backend.telemetry.recording.schema import UnreadableSamples, read

_TURNS: Final = ("operation", "rid", "at_ms", "in_isr", "removing")


class NoOperations(KshuntError):
    """The samples have no operation that can be tested."""

    title = "No operations"


class TooFewOperations(KshuntError):
    """A calibration was asked for, and too few operations ended within the samples."""

    title = "Too few operations"


@dataclass(frozen=True, slots=True)
class Tested:
    """What a back-test found."""

    operations: int
    """Those that ended."""
    lines: tuple[ScoreLine, ...]
    not_ended: NotEnded | None
    live: tuple[LiveLine, ...]
    """Empty where a calibration was made."""
    calibration: Calibration | None
    """That was made, if one was asked for."""


def run(options: Namespace) -> int:
    """Run it as the command line says.

    Raises:
        KshuntError: there is no such recording, nothing to be tested in it, or no Spark.
    """
    calibrate: Path | None = options.calibrate
    calibration = (
        None if calibrate is not None else Calibration.read(options.calibration or SHIPPED)
    )
    session = session_with_progress(PipelineSettings(options.master, "", options.memory))
    try:
        found = backtest(session, options.samples, calibration, SystemClock())
    except PySparkException as error:
        raise SparkFailed(f"Spark failed: {first_line(error)}. Nothing was written.") from error
    finally:
        session.stop()
    if calibrate is not None and found.calibration is not None:
        replace_file(calibrate, found.calibration.to_json().encode())
        say(f"A calibration from {found.calibration.about} is in {calibrate}.")
        return ExitCode.DONE
    for line in (*as_text(found.lines), *not_ended_text(found.not_ended), *live_text(found.live)):
        say(line)
    if options.json is not None:
        content = asdict(found)
        del content["calibration"]
        replace_file(options.json, json.dumps(content, indent=1).encode())
    return ExitCode.DONE


def backtest(
    session: SparkSession, folders: Sequence[Path], calibration: Calibration | None, clock: Clock
) -> Tested:
    """Test forecasts on these recordings; without a calibration, make one.

    Raises:
        NoOperations: the samples have no operation.
        TooFewOperations: a calibration was to be made, and fewer than `FEWEST` ended.
        NoSamples: there is no recording.
        UnreadableSamples: no file of a recording can be opened.
    """
    made = [recorded(session, folder, calibration or Calibration(), clock) for folder in folders]
    every = joined([rows for rows, _ in made], [turns for _, turns in made])
    found, running = of_ended(every), not_ended(every)
    count = len(np.unique(found.operation))
    if not count and running is None:
        raise NoOperations(
            "No operation of kshunt is in these samples, or none took longer than a tick.",
            advice="Record one: kshunt serve --samples DIR, then move something.",
        )
    scored = tuple(lines(found))
    if calibration is None:
        return Tested(count, scored, running, (), _calibration(found, count, folders))
    live = live_lines(row for folder in folders for row in _live(folder))
    return Tested(count, scored, running, tuple(live), None)


def _calibration(found: Forecasts, count: int, folders: Sequence[Path]) -> Calibration:
    if count < FEWEST:
        raise TooFewOperations(
            f"{many(count, 'operation')} ended within these samples, and a calibration needs "
            f"{FEWEST}. No file was written: kshunt keeps the calibration that it has.",
            advice="Record more, or name more recordings: --samples DIR --samples DIR.",
        )
    made_from = f"{count} operations of {', '.join(folder.name for folder in folders)}"
    return fitted(outcomes(found), made_from)


def _live(folder: Path) -> list[dict[str, Any]]:
    """The live forecasts of a recording; a file that cannot be read is named."""
    sieve = FileSieve(folder)
    while True:
        found = sieve.sifted(SampleTable.FORECASTS, counted(folder, SampleTable.FORECASTS))
        try:
            rows: list[dict[str, Any]] = read(found.paths, SampleTable.FORECASTS).to_pylist()
        except FileNotFoundError:
            continue  # its rows are in the file of its hour now
        except UnreadableSamples:
            if not sieve.is_any_torn():
                raise
        else:
            _say_aside(found)
            return rows


def _say_aside(files: Sifted) -> None:
    for file in files.aside:
        say(f"A file was set aside: {file.detail}")


def recorded(
    session: SparkSession, folder: Path, calibration: Calibration, clock: Clock
) -> tuple[Any, Any]:
    """Of one recording its forecasts, and when replicas came into the ISR and left it."""
    recording, sieve = find_recording(folder), FileSieve(folder)
    start_ms, end_ms = period_of(recording, None, None)
    while True:
        found = recording.sifted(sieve, start_ms, end_ms)
        if not found.good:
            raise UnreadableSamples(f"No file of {folder} can be used: {found.aside[0].detail}")
        try:
            with spark_progress(session, f"Making forecasts of {folder.name}"):
                made = _recorded(session, found.paths, calibration, start_ms, clock)
        except PySparkException:
            if not sieve.is_any_torn():
                raise
        else:
            _say_aside(found)
            return made


def _recorded(
    session: SparkSession,
    files: Sequence[Path],
    calibration: Calibration,
    start_ms: int,
    clock: Clock,
) -> tuple[Any, Any]:
    bounds = TimeBounds.of(start_ms, clock.now_ms())
    checks = Checks(bounds.earliest_ms, bounds.latest_ms, start_ms, start_ms, GAP_S * 1000)
    step = unlooked(of_files(session, files, SAMPLES_SCHEMA), checks)
    made = eta(rows_of(step), calibration).filter("operation_id is not null")
    return made.toArrow(), _turns(read_samples(session, files)).toArrow()


def _turns(samples: DataFrame) -> DataFrame:
    """The first sample of each replica that an operation moves, and those where its ISR changes."""
    ordered = Window.partitionBy("operation_id", "rid").orderBy("at")
    rows = samples.filter("operation_id is not null and in_isr is not null").select(
        "operation_id",
        "rid",
        "at",
        "in_isr",
        "removing",
        F.lag("in_isr").over(ordered).alias("_before"),
    )
    return rows.filter("_before is null or _before <> in_isr").drop("_before")


def joined(rows: Sequence[Any], moves: Sequence[Any]) -> Forecasts:
    """Forecasts of all recordings, with what became of them."""
    numbers: dict[tuple[int, str], int] = {}

    def numbered(place: int, table: Any) -> Any:
        names = table["operation_id"].to_pylist()
        return np.array([numbers.setdefault((place, n), len(numbers)) for n in names], np.int64)

    forecast, turned = [], []
    for place, (table, turns) in enumerate(zip(rows, moves, strict=True)):
        forecast.append({"operation": numbered(place, table), **_columns(table)})
        turned.append(
            {
                "operation": numbered(place, turns),
                "rid": turns["rid"].to_numpy(),
                "at_ms": millis(turns["at"]),
                "in_isr": turns["in_isr"].to_numpy(),
                "removing": turns["removing"].to_numpy(),
            }
        )
    columns = {name: np.concatenate([one[name] for one in turned]) for name in _TURNS}
    order = np.lexsort((columns["at_ms"], columns["rid"], columns["operation"]))
    ended = Ended(**{name: column[order] for name, column in columns.items()})
    every = {name: np.concatenate([one[name] for one in forecast]) for name in forecast[0]}
    return forecasts(every, ended)


def _columns(table: Any) -> dict[str, Any]:
    names = ("stage", "p10_s", "p50_s", "p90_s")
    return {
        "is_operation": pc.is_null(table["rid"]).to_numpy(),
        "rid": pc.fill_null(table["rid"], 0).to_numpy(),
        "at_ms": millis(table["at"]),
        "writes": pc.fill_null(
            pc.index_in(table["writes"], pa.array(WRITES, pa.string())), SOME
        ).to_numpy(),
        "by_throttle": pc.match_substring(pc.fill_null(table["bound"], ""), "throttle").to_numpy(),
        "remaining": table["remaining_bytes"].to_numpy().astype(np.float64),
        **{name: table[name].to_numpy().astype(np.float64) for name in names},
    }
