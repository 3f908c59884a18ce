"""The physical plan of each table of a backfill, as a list of steps that a page can name.

    python -m tests.support.pipeline.spark_plans

prints them. Spark's names of columns have numbers, which are left out, and steps that only choose
columns are no steps.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.forecast.calibration import Calibration
from kshunt.backend.domain.pipeline.result_columns import (
    BROKER_LOAD,
    ETA,
    GAP_S,
    MOVE_PAIRS,
    RATES,
    STALLS,
    THROTTLE_EFFECT,
)
from kshunt.backend.domain.pipeline.sample_columns import BROKER_SAMPLES
from kshunt.backend.pipeline.kernels.arrow_columns import SAMPLES_SCHEMA
from kshunt.backend.pipeline.kernels.quality import Checks
from kshunt.backend.pipeline.kernels.stalls import RATES as RATES_OF_STALLS
from kshunt.backend.pipeline.spark.column_types import struct_of
from kshunt.backend.pipeline.spark.row_packing import of_files
from kshunt.backend.pipeline.spark.session import start_session
from kshunt.backend.pipeline.tables.broker_load import broker_load
from kshunt.backend.pipeline.tables.eta import eta
from kshunt.backend.pipeline.tables.move_pairs import move_pairs
from kshunt.backend.pipeline.tables.rates import rows_of as rates_of
from kshunt.backend.pipeline.tables.rates import unlooked
from kshunt.backend.pipeline.tables.stalls import islands_of
from kshunt.backend.pipeline.tables.stalls import rows_of as stalls_of
from kshunt.backend.pipeline.tables.throttle_effect import throttle_effect
from tests.support.pipeline.recorded import simulated, write
from tests.support.pipeline.spark import quick_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LINE: Final = re.compile(r"^(?P<indent>[ :|+*()\d-]*?)(?P<step>[A-Za-z]\w*)(?P<rest>.*)$")
_NUMBER: Final = re.compile(r"#\d+L?")
_CHOOSING: Final = ("AdaptiveSparkPlan", "Project")


def plans(session: SparkSession, folder: Path) -> Mapping[str, list[str]]:
    """The steps of each table, the first first; `folder` is empty.

    A step that joins two inputs follows the steps of both.
    """
    return {name: steps(rows) for name, rows in _tables(session, folder)}


def _tables(session: SparkSession, folder: Path) -> Iterator[tuple[str, DataFrame]]:
    # Two files, so that there are two tasks, as for more samples than one task takes.
    for number in (1, 2):
        write(folder, simulated(seed=number, replicas=4, seconds=200), number=number)
    files = sorted(folder.glob("replicas/*/*/*.parquet"))
    checks = Checks(0, 1 << 60, 0, 0, GAP_S * 1000)
    made = rates_of(unlooked(of_files(session, files, SAMPLES_SCHEMA), checks))
    yield RATES.name, made
    written = folder / "rates"
    made.repartition(2).write.parquet(str(written))
    parts = sorted(written.glob("*.parquet"))
    yield STALLS.name, stalls_of(islands_of(of_files(session, parts, RATES_OF_STALLS), 1 << 60))
    rates = session.read.schema(struct_of(RATES.columns)).parquet(str(written))
    yield MOVE_PAIRS.name, move_pairs(rates)
    yield THROTTLE_EFFECT.name, throttle_effect(rates)
    yield ETA.name, eta(rates, Calibration.read())
    brokers = folder / "brokers-of-bench"
    session.createDataFrame([], struct_of(BROKER_SAMPLES)).write.parquet(str(brokers))
    samples = session.read.schema(struct_of(BROKER_SAMPLES)).parquet(str(brokers))
    yield BROKER_LOAD.name, broker_load(samples, rates)


def steps(rows: DataFrame) -> list[str]:
    """The steps of a plan, inputs before what takes them."""
    printed = StringIO()
    with redirect_stdout(printed):
        rows.explain()
    waiting: list[tuple[int, str]] = []
    found: list[str] = []
    for line in printed.getvalue().splitlines():
        match = _LINE.match(line)
        if match is None or line.startswith("=="):
            continue
        depth = len(match["indent"])
        while waiting and waiting[-1][0] >= depth:
            found.append(waiting.pop()[1])
        waiting.append((depth, _step(match["step"], _NUMBER.sub("", match["rest"]))))
    found += [step for _, step in reversed(waiting)]
    return [step for step in found if step not in _CHOOSING]


def _step(name: str, rest: str) -> str:
    """A step, with what tells it from others of its kind."""
    match name:
        case "Exchange":
            way = re.match(r" (\w+)(?:\((.*?)\))?, [A-Z]", rest)
            assert way is not None, rest
            columns = [part for part in (way[2] or "").split(", ") if not part.isdigit()]
            # Spark's own name for one that it has worked out ahead of this step.
            named = ["_point" if part == "_groupingexpression" else part for part in columns]
            return f"Exchange {way[1]} {', '.join(named)}".strip()
        case "FileScan":
            filters = re.search(r"PushedFilters: \[(.*?)\]", rest)
            pushed = ", pushed filters" if filters and filters[1] else ""
            count = rest.partition("[")[2].partition("]")[0].count(",") + 1
            return f"FileScan parquet, {count} columns{pushed}"
        case "MapInArrow" | "FlatMapGroupsInArrow":
            function = re.match(r" (?:\[.*?\], )?(\w+)\(", rest)
            assert function is not None, rest
            return f"{name} {function[1]}"
        case "Scan":
            return f"Scan{rest.partition('[')[0]}"
        case "HashAggregate" | "ObjectHashAggregate":
            return f"{name}, partial" if "partial_" in rest else name
        case _:
            return name


def main() -> None:
    """Print the steps."""
    session = start_session(quick_settings())
    with tempfile.TemporaryDirectory() as name:
        for table, found in plans(session, Path(name)).items():
            print(f"\n{table}")
            for number, step in enumerate(found, 1):
                print(f"| {number} | `{step}` | |")
    session.stop()


if __name__ == "__main__":
    main()
